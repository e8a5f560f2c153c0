"""Question sets and resolution sets as domain values: pure functions of decoded JSON, no I/O.

A file without its frame raises MalformedDataError. A bad record inside a good file becomes a complaint, so that one odd
question never loses the round. Source: docs/facts/forecastbench.md#question-set and #resolution-set.
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
    BinaryOutcome,
    BinaryPrediction,
    BinaryShape,
    CrowdForecast,
    MalformedDataError,
    Question,
    QuestionRef,
    Resolution,
    Target,
)
from plugins.forecastbench.file_format import (
    DATASET_FAMILY,
    DATASET_SOURCES,
    HORIZON_DAYS,
    MARKET_FAMILY,
    MISSING_VALUE,
    end_of_day,
    left_out_fact_name,
    question_ref,
    source_family,
    start_of_day,
)
from plugins.forecastbench.round_files import FileComplaints

# Six times the largest published file.
MAX_RECORDS = 50_000

_DATE_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}")
_FACT_FIELDS = {
    "freeze_value": "freeze_datetime_value",
    "freeze_explanation": "freeze_datetime_value_explanation",
    "freeze_at": "freeze_datetime",
    "market_opens_at": "market_info_open_datetime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """One round as asked: its questions, and what was ignored (combination questions, and complaints by record)."""

    due_date: date
    questions: tuple[Question, ...]
    combinations: int
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionSet:
    """The outcomes of one round published so far.

    ``unresolved_prices`` counts unresolved market rows: they carry the price of the day before publication, never an
    outcome.
    """

    due_date: date
    resolutions: tuple[Resolution, ...]
    combinations: int
    unresolved_prices: int
    complaints: tuple[str, ...]


def parse_question_set(raw: object) -> QuestionSet:
    """Read the decoded JSON of a question set; raises MalformedDataError without a due date or a list of questions."""
    due, records = parse_frame(raw, "questions")
    questions: dict[QuestionRef, Question] = {}
    complaints = FileComplaints()
    left_out: Counter[str] = Counter()
    combinations = 0
    for record in records:
        if isinstance(record, Mapping) and isinstance(record.get("id"), list):
            combinations += 1
            continue
        try:
            parsed = parse_question(record, due, complaints)
            if parsed.ref in questions:
                _raise_value_error("is listed twice")
            questions[parsed.ref] = parsed
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            complaints.add(f"{_record_label(record)}: {_error_reason(error)}")
            left_out[_record_family(record)] += 1
    return QuestionSet(
        due_date=due,
        questions=tuple(_with_left_out_counts(question, left_out) for question in questions.values()),
        combinations=combinations,
        complaints=complaints.to_tuple(),
    )


def _record_family(record: object) -> str:
    source = record.get("source") if isinstance(record, Mapping) else None
    return (source_family(source) if isinstance(source, str) else None) or DATASET_FAMILY


def _with_left_out_counts(question: Question, left_out: Mapping[str, int]) -> Question:
    """Record in each question how many of its round could not be read: they count as missing in the forecast set."""
    if not left_out:
        return question
    counts = {left_out_fact_name(family): str(count) for family, count in left_out.items()}
    return replace(question, facts={**question.facts, **counts})


def parse_question(record: Mapping[str, Any], due: date, complaints: FileComplaints) -> Question:
    """Return one question; oddities that do not spoil it are added to the complaints.

    Raises KeyError, TypeError, ValueError or AttributeError for a record that is not a question.
    """
    question_id, source = parse_identity(record)
    targets = _parse_targets(record, due, source, complaints)
    family = DATASET_FAMILY if targets[0].horizon_days is not None else MARKET_FAMILY
    title, _, remark = _fill_dates(_require_text(record["question"]), due).partition("\n\n")
    criteria = (remark, _fill_dates(_optional_text(record, "resolution_criteria"), due), _market_criteria(record))
    return Question(
        ref=question_ref(due, source, question_id),
        title=title.strip(),
        shape=BinaryShape(),
        targets=targets,
        background=_optional_text(record, "background"),
        criteria="\n\n".join(part.strip() for part in criteria if part.strip()),
        url=_optional_text(record, "url") or None,
        source=source,
        family=family,
        series=f"{source}/{question_id}",
        batch=due.isoformat(),
        opens_at=start_of_day(due),
        closes_at=end_of_day(due),
        as_of=start_of_day(due),
        crowd=_parse_crowd(record, complaints) if family == MARKET_FAMILY else None,
        source_id=question_id,
        market_closes_at=parse_moment(_optional_text(record, "market_info_close_datetime")),
        facts=_parse_facts(record, due),
    )


def parse_resolution_set(raw: object) -> ResolutionSet:
    """Read the decoded JSON of a resolution set; raises MalformedDataError if it has no due date or no list of rows."""
    due, records = parse_frame(raw, "resolutions")
    found: list[Resolution] = []
    complaints = FileComplaints()
    combinations = prices = 0
    for record in records:
        try:
            if isinstance(record["id"], list):
                combinations += 1
            elif record["resolved"] is True:
                found.append(parse_resolution(record, due))
            else:
                prices += 1
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            complaints.add(f"{_record_label(record)}: {_error_reason(error)}")
    return ResolutionSet(
        due_date=due,
        resolutions=tuple(found),
        combinations=combinations,
        unresolved_prices=prices,
        complaints=complaints.to_tuple(),
    )


def parse_resolution(record: Mapping[str, Any], due: date) -> Resolution:
    """Return one outcome, known from the last second of its resolution date.

    Raises KeyError, TypeError, ValueError or AttributeError for a row that is not a resolved single question.
    """
    question_id, source = parse_identity(record)
    family = source_family(source)
    if family is None:
        _raise_value_error(f"source {source!r} is not documented")
    day = date.fromisoformat(record["resolution_date"][:10])
    if family == DATASET_FAMILY and (day - due).days not in HORIZON_DAYS:
        _raise_value_error(f"{day} is not at a documented horizon")
    return Resolution(
        ref=question_ref(due, source, question_id),
        target=SINGLE_TARGET if family == MARKET_FAMILY else day.isoformat(),
        outcome=BinaryOutcome(float(record["resolved_to"])),
        resolved_at=end_of_day(day),
    )


def bare_question(ref: QuestionRef, targets: Sequence[str]) -> Question:
    """Return what is known of a question whose text was not published: names and dates, an empty title."""
    due_text, source, question_id = ref.key.split("/", 2)
    due = date.fromisoformat(due_text)
    family = source_family(source)
    return Question(
        ref=ref,
        title="",
        shape=BinaryShape(),
        targets=(Target(),) if family == MARKET_FAMILY else tuple(_dated_target(due, key) for key in sorted(targets)),
        source=source,
        family=family or "",
        series=f"{source}/{question_id}",
        batch=due_text,
        opens_at=start_of_day(due),
        closes_at=end_of_day(due),
        as_of=start_of_day(due),
        source_id=question_id,
        facts={"due_date": due_text},
    )


def parse_frame(raw: object, rows: str) -> tuple[date, Sequence[Any]]:
    """Return the due date and the rows of a published file; raises MalformedDataError if one is missing or too long."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get(rows), list):
        message = f"not a published file: a JSON object with a list {rows!r} is expected"
        raise MalformedDataError(message)
    if len(raw[rows]) > MAX_RECORDS:
        message = f"{len(raw[rows])} records are more than a published file has (at most {MAX_RECORDS} are read)"
        raise MalformedDataError(message)
    return parse_due_date(raw), raw[rows]


def parse_due_date(raw: Mapping[str, Any]) -> date:
    """Return the due date of a file: its own field, else the first date in its ``parse_question_set``.

    Raises MalformedDataError if there is none.
    """
    for key in ("forecast_due_date", "question_set"):
        found = _DATE_PATTERN.search(str(raw.get(key, "")))
        if found is None:
            continue
        try:
            return date.fromisoformat(found.group())
        except ValueError:
            continue
    message = "the file names no due date, neither in forecast_due_date nor in question_set"
    raise MalformedDataError(message)


def parse_identity(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return id and source, the latter in lower case; raises ValueError where one is empty or no text."""
    question_id, source = record["id"], record["source"]
    if not isinstance(question_id, str) or not question_id:
        _raise_value_error(f"id {question_id!r} is not a text")
    if not isinstance(source, str) or not source or "/" in source:
        _raise_value_error(f"source {source!r} is not a name")
    return question_id, source.lower()


def parse_moment(text: str) -> datetime | None:
    """Return an aware moment; a bare date is its first moment in UTC, ``N/A`` is None; ValueError for other text."""
    if text in {MISSING_VALUE, ""}:
        return None
    parsed = datetime.fromisoformat(text)
    try:
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except OverflowError:
        # In UTC it is in a year before the first or after the last.
        _raise_value_error(f"{text} is no moment in UTC")


def _parse_targets(record: Mapping[str, Any], due: date, source: str, complaints: FileComplaints) -> tuple[Target, ...]:
    listed = record["resolution_dates"]
    if listed == MISSING_VALUE and source not in DATASET_SOURCES:
        return (Target(resolves_at=parse_moment(record["market_info_close_datetime"])),)
    if not isinstance(listed, list):
        _raise_value_error(f"resolution_dates {listed!r} is not a list of dates")
    targets = {target.key: target for target in (_dated_target(due, text) for text in listed)}
    for key, target in tuple(targets.items()):
        if target.horizon_days not in HORIZON_DAYS:
            complaints.add(f"{_record_label(record)}: {key} is not at a documented horizon and was ignored")
            del targets[key]
    if not targets:
        _raise_value_error("no usable resolution date")
    return tuple(sorted(targets.values(), key=lambda target: target.key))


@lru_cache(maxsize=1024)
def _dated_target(due: date, text: str) -> Target:
    day = date.fromisoformat(text)
    return Target(key=day.isoformat(), resolves_at=end_of_day(day), horizon_days=(day - due).days)


def _parse_crowd(record: Mapping[str, Any], complaints: FileComplaints) -> CrowdForecast | None:
    price, at = record["freeze_datetime_value"], record["freeze_datetime"]
    try:
        taken_at = parse_moment(at)
        if price == MISSING_VALUE or taken_at is None:
            _raise_value_error(f"price {price!r} at {at!r}")
        explanation = _optional_text(record, "freeze_datetime_value_explanation")
        return CrowdForecast(prediction=BinaryPrediction(float(price)), at=taken_at, explanation=explanation)
    except (KeyError, TypeError, ValueError) as error:
        complaints.add(f"{_record_label(record)}: no crowd, {_error_reason(error)}")
        return None


def _parse_facts(record: Mapping[str, Any], due: date) -> dict[str, str]:
    facts = {"due_date": due.isoformat()}
    for name, key in _FACT_FIELDS.items():
        text = _require_text(record.get(key, MISSING_VALUE))
        if text:
            facts[name] = _to_iso(text) if name.endswith("_at") else text
    return facts


def _to_iso(text: str) -> str:
    parsed = parse_moment(text)
    return text if parsed is None else parsed.isoformat()


def _market_criteria(record: Mapping[str, Any]) -> str:
    return _require_text(record.get("market_info_resolution_criteria", MISSING_VALUE))


def _fill_dates(text: str, due: date) -> str:
    # The dates of all targets share one title, so the later date is in words.
    return text.replace("{forecast_due_date}", due.isoformat()).replace("{resolution_date}", "the resolution date")


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        message = f"{value!r} is not a text"
        raise TypeError(message)
    return "" if value == MISSING_VALUE else value


def _optional_text(record: Mapping[str, Any], key: str) -> str:
    """Return a text that no forecast depends on; a question without it is still valid."""
    return _require_text(record.get(key, MISSING_VALUE))


def _raise_value_error(message: str) -> NoReturn:
    raise ValueError(message)


def _record_label(record: object) -> str:
    if not isinstance(record, Mapping):
        return f"record {str(record)[:40]!r}"
    return f"{record.get('source', '?')}/{str(record.get('id', '?'))[:80]}"


def _error_reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
