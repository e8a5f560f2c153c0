"""Question sets and resolution sets as domain values: pure functions of decoded JSON, no I/O.

A file without its frame is a ContractError. A bad record inside a good file is quarantined as a complaint, so that one
odd question never loses the round. Source: venue document, sections 2.1 and 2.2.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, NoReturn

from bot.api import (
    SINGLE_TARGET,
    Binary,
    BinaryShape,
    ContractError,
    Crowd,
    Happened,
    Question,
    QuestionRef,
    Resolution,
    Target,
)
from plugins.forecastbench.complaints import Complaints
from plugins.forecastbench.terms import (
    DATASET,
    DATASET_SOURCES,
    HORIZON_DAYS,
    MARKET,
    MISSING,
    family_of,
    last_second_of,
    left_out_fact,
    reference,
    start_of,
)

# Six times the largest published file.
MAX_RECORDS = 50_000

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_FACTS = {
    "freeze_value": "freeze_datetime_value",
    "freeze_explanation": "freeze_datetime_value_explanation",
    "freeze_at": "freeze_datetime",
    "market_opens_at": "market_info_open_datetime",
    "market_closes_at": "market_info_close_datetime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """One round as asked: its questions, and what was left out (combination questions, and complaints by record)."""

    due: date
    questions: tuple[Question, ...]
    combinations: int
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionSet:
    """The outcomes of one round published so far.

    ``prices`` counts unresolved market rows: they carry the price of the day before publication, never an outcome.
    """

    due: date
    resolutions: tuple[Resolution, ...]
    combinations: int
    prices: int
    complaints: tuple[str, ...]


def question_set(raw: object) -> QuestionSet:
    """Read the decoded JSON of a question set; raises ContractError if it has no due date or no list of questions."""
    due, records = frame(raw, "questions")
    questions: dict[QuestionRef, Question] = {}
    complaints = Complaints()
    left_out: Counter[str] = Counter()
    combinations = 0
    for record in records:
        if isinstance(record, Mapping) and isinstance(record.get("id"), list):
            combinations += 1
            continue
        try:
            parsed = question(record, due, complaints)
            if parsed.ref in questions:
                _refuse("is listed twice")
            questions[parsed.ref] = parsed
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            complaints.add(f"{_label(record)}: {_reason(error)}")
            left_out[_family(record)] += 1
    return QuestionSet(
        due=due,
        questions=tuple(_knowing(question, left_out) for question in questions.values()),
        combinations=combinations,
        complaints=complaints.listed(),
    )


def _family(record: object) -> str:
    source = record.get("source") if isinstance(record, Mapping) else None
    return (family_of(source) if isinstance(source, str) else None) or DATASET


def _knowing(question: Question, left_out: Mapping[str, int]) -> Question:
    """Tell each question how many of its round could not be read: they count as missing in the forecast set."""
    if not left_out:
        return question
    counts = {left_out_fact(family): str(count) for family, count in left_out.items()}
    return replace(question, facts={**question.facts, **counts})


def question(record: Mapping[str, Any], due: date, complaints: Complaints) -> Question:
    """Return one question; what is odd but bearable is added to the complaints.

    Raises KeyError, TypeError, ValueError or AttributeError for a record that is not a question.
    """
    question_id, source = identity(record)
    targets = _targets(record, due, source, complaints)
    family = DATASET if targets[0].horizon_days is not None else MARKET
    title, _, remark = _filled(_text(record["question"]), due).partition("\n\n")
    criteria = (remark, _filled(_optional(record, "resolution_criteria"), due), _own_criteria(record))
    return Question(
        ref=reference(due, source, question_id),
        title=title.strip(),
        shape=BinaryShape(),
        targets=targets,
        background=_optional(record, "background"),
        criteria="\n\n".join(part.strip() for part in criteria if part.strip()),
        url=_optional(record, "url") or None,
        source=source,
        family=family,
        series=f"{source}/{question_id}",
        batch=due.isoformat(),
        opens_at=start_of(due),
        closes_at=last_second_of(due),
        as_of=start_of(due),
        crowd=_crowd(record, complaints) if family == MARKET else None,
        facts=_facts(record, due),
    )


def resolution_set(raw: object) -> ResolutionSet:
    """Read the decoded JSON of a resolution set; raises ContractError if it has no due date or no list of rows."""
    due, records = frame(raw, "resolutions")
    found: list[Resolution] = []
    complaints = Complaints()
    combinations = prices = 0
    for record in records:
        try:
            if isinstance(record["id"], list):
                combinations += 1
            elif record["resolved"] is True:
                found.append(resolution(record, due))
            else:
                prices += 1
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            complaints.add(f"{_label(record)}: {_reason(error)}")
    return ResolutionSet(
        due=due, resolutions=tuple(found), combinations=combinations, prices=prices, complaints=complaints.listed()
    )


def resolution(record: Mapping[str, Any], due: date) -> Resolution:
    """Return one outcome, known from the last second of its resolution date.

    Raises KeyError, TypeError, ValueError or AttributeError for a row that is not a resolved single question.
    """
    question_id, source = identity(record)
    family = family_of(source)
    if family is None:
        _refuse(f"source {source!r} is not documented")
    day = date.fromisoformat(record["resolution_date"][:10])
    if family == DATASET and (day - due).days not in HORIZON_DAYS:
        _refuse(f"{day} is not at a documented horizon")
    return Resolution(
        ref=reference(due, source, question_id),
        target=SINGLE_TARGET if family == MARKET else day.isoformat(),
        outcome=Happened(float(record["resolved_to"])),
        resolved_at=last_second_of(day),
    )


def bare_question(ref: QuestionRef, targets: Sequence[str]) -> Question:
    """Return what is known of a question whose text was not published: names and dates, an empty title."""
    due_text, source, question_id = ref.key.split("/", 2)
    due = date.fromisoformat(due_text)
    family = family_of(source)
    return Question(
        ref=ref,
        title="",
        shape=BinaryShape(),
        targets=(Target(),) if family == MARKET else tuple(_dated(due, key) for key in sorted(targets)),
        source=source,
        family=family or "",
        series=f"{source}/{question_id}",
        batch=due_text,
        opens_at=start_of(due),
        closes_at=last_second_of(due),
        as_of=start_of(due),
        facts={"id": question_id, "due_date": due_text},
    )


def frame(raw: object, rows: str) -> tuple[date, Sequence[Any]]:
    """Return the due date and the rows of a published file; raises ContractError if either is missing or too long."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get(rows), list):
        message = f"not a published file: a JSON object with a list {rows!r} is expected"
        raise ContractError(message)
    if len(raw[rows]) > MAX_RECORDS:
        message = f"{len(raw[rows])} records are more than a published file has (at most {MAX_RECORDS} are read)"
        raise ContractError(message)
    return due_date(raw), raw[rows]


def due_date(raw: Mapping[str, Any]) -> date:
    """Return the due date of a file: its own field, else the first date in its ``question_set``.

    Raises ContractError if there is none.
    """
    for key in ("forecast_due_date", "question_set"):
        found = _DATE.search(str(raw.get(key, "")))
        if found is None:
            continue
        try:
            return date.fromisoformat(found.group())
        except ValueError:
            continue
    message = "the file names no due date, neither in forecast_due_date nor in question_set"
    raise ContractError(message)


def identity(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return id and source, the latter in lower case; raises ValueError where one is empty or no text."""
    question_id, source = record["id"], record["source"]
    if not isinstance(question_id, str) or not question_id:
        _refuse(f"id {question_id!r} is not a text")
    if not isinstance(source, str) or not source or "/" in source:
        _refuse(f"source {source!r} is not a name")
    return question_id, source.lower()


def moment(text: str) -> datetime | None:
    """Return an aware moment; a bare date is its first moment in UTC, ``N/A`` is None; ValueError for other text."""
    if text in {MISSING, ""}:
        return None
    parsed = datetime.fromisoformat(text)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _targets(record: Mapping[str, Any], due: date, source: str, complaints: Complaints) -> tuple[Target, ...]:
    listed = record["resolution_dates"]
    if listed == MISSING and source not in DATASET_SOURCES:
        return (Target(resolves_at=moment(record["market_info_close_datetime"])),)
    if not isinstance(listed, list):
        _refuse(f"resolution_dates {listed!r} is not a list of dates")
    targets = {target.key: target for target in (_dated(due, text) for text in listed)}
    for key, target in tuple(targets.items()):
        if target.horizon_days not in HORIZON_DAYS:
            complaints.add(f"{_label(record)}: {key} is not at a documented horizon and was left out")
            del targets[key]
    if not targets:
        _refuse("no usable resolution date")
    return tuple(sorted(targets.values(), key=lambda target: target.key))


@lru_cache(maxsize=1024)
def _dated(due: date, text: str) -> Target:
    day = date.fromisoformat(text)
    return Target(key=day.isoformat(), resolves_at=last_second_of(day), horizon_days=(day - due).days)


def _crowd(record: Mapping[str, Any], complaints: Complaints) -> Crowd | None:
    price, at = record["freeze_datetime_value"], record["freeze_datetime"]
    try:
        taken_at = moment(at)
        if price == MISSING or taken_at is None:
            _refuse(f"price {price!r} at {at!r}")
        explanation = _optional(record, "freeze_datetime_value_explanation")
        return Crowd(prediction=Binary(float(price)), at=taken_at, explanation=explanation)
    except (KeyError, TypeError, ValueError) as error:
        complaints.add(f"{_label(record)}: no crowd, {_reason(error)}")
        return None


def _facts(record: Mapping[str, Any], due: date) -> dict[str, str]:
    facts = {"id": record["id"], "due_date": due.isoformat()}
    for name, key in _FACTS.items():
        text = _text(record.get(key, MISSING))
        if text:
            facts[name] = _iso(text) if name.endswith("_at") else text
    return facts


def _iso(text: str) -> str:
    parsed = moment(text)
    return text if parsed is None else parsed.isoformat()


def _own_criteria(record: Mapping[str, Any]) -> str:
    return _text(record.get("market_info_resolution_criteria", MISSING))


def _filled(text: str, due: date) -> str:
    # The dates of all targets share one title, so the later date stays in words.
    return text.replace("{forecast_due_date}", due.isoformat()).replace("{resolution_date}", "the resolution date")


def _text(value: object) -> str:
    if not isinstance(value, str):
        message = f"{value!r} is not a text"
        raise TypeError(message)
    return "" if value == MISSING else value


def _optional(record: Mapping[str, Any], key: str) -> str:
    """Return a text that no forecast depends on; a question without it is still a question."""
    return _text(record.get(key, MISSING))


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


def _label(record: object) -> str:
    if not isinstance(record, Mapping):
        return f"record {str(record)[:40]!r}"
    return f"{record.get('source', '?')}/{str(record.get('id', '?'))[:80]}"


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
