"""A batch of intents as the rows of a forecast set: pure, complete, unique. Source: venue document, section 2.3."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from bot.api import SINGLE_TARGET, Batch, Binary, Intent, Question, QuestionRef
from plugins.forecastbench.missing import Row, excesses
from plugins.forecastbench.settings import ForecastBenchSettings
from plugins.forecastbench.terms import DATASET, HORIZON_DAYS, MARKET, VENUE, left_out_fact


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """One row as it is written; market rows have no date."""

    id: str
    source: str
    forecast: float
    resolution_date: str | None
    reasoning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a batch comes to: rows by intent id, refused intents by id with the reason, and breaches of the 5 % rule."""

    rows: Mapping[str, tuple[ForecastRow, ...]]
    refused: Mapping[str, str]
    breaches: tuple[str, ...]


def draft(batch: Batch) -> Draft:
    """Turn intents into rows; a question of the batch without a usable intent counts as missing rows."""
    questions = {question.ref: question for question in batch.questions if question.batch == batch.key}
    newest = {intent.ref: intent.id for intent in batch.intents}
    rows: dict[str, tuple[ForecastRow, ...]] = {}
    refused: dict[str, str] = {}
    given: set[Row] = set()
    for intent in batch.intents:
        asked = questions.get(intent.ref)
        if asked is None:
            refused[intent.id] = "not a question of this round"
        elif why := _objection(intent, asked, newest):
            refused[intent.id] = why
        else:
            rows[intent.id] = tuple(_rows(intent, asked))
            given.update((asked.ref, target.key) for target in asked.targets)
    breaches = tuple(excesses(_groups(tuple(questions.values())), given))
    return Draft(rows=rows, refused=refused, breaches=breaches)


def serialise(rows: Sequence[ForecastRow], *, due_date: str, settings: ForecastBenchSettings) -> bytes:
    """Return the file's content."""
    payload: dict[str, object] = {
        "organization": settings.organization,
        "model": settings.model,
        "model_organization": settings.model_organization,
        "question_set": f"{due_date}-{settings.question_sets}.json",
        "forecasts": [asdict(row) for row in rows],
    }
    if settings.leaderboard_eligible is not None:
        payload["leaderboard_eligible"] = settings.leaderboard_eligible
    return json.dumps(payload, indent=1, allow_nan=False).encode()


def _objection(intent: Intent, asked: Question, newest: Mapping[QuestionRef, str]) -> str | None:
    if newest[intent.ref] != intent.id:
        return "a later intent of this batch answers the same question"
    expected = {target.key for target in asked.targets}
    if set(intent.predictions) != expected:
        return f"targets {sorted(intent.predictions)} are not the question's {sorted(expected)}"
    if not all(isinstance(prediction, Binary) for prediction in intent.predictions.values()):
        return "only probabilities of yes can be written"
    return None


def _rows(intent: Intent, asked: Question) -> Iterator[ForecastRow]:
    for target in asked.targets:
        prediction = intent.predictions[target.key]
        if isinstance(prediction, Binary):
            yield ForecastRow(
                id=asked.facts["id"],
                source=asked.source,
                forecast=prediction.probability,
                resolution_date=target.key if asked.family == DATASET else None,
                reasoning=f"Foxcast forecast {intent.forecast}",
            )


def _groups(questions: Sequence[Question]) -> Mapping[str, Sequence[Row]]:
    """Return the groups of rows under the 5 % rule.

    Which dataset rows will have resolved is not known when a file is written; mostly it is those of the horizons that
    have passed, so the rule is held for the rows up to every horizon.
    """
    rows = [(question, target) for question in questions for target in question.targets]
    market = [(question.ref, target.key) for question, target in rows if question.family == MARKET]
    market += [(ref, SINGLE_TARGET) for ref in _left_out(questions, MARKET)]
    unread = _left_out(questions, DATASET)
    groups = {"market": market}
    for horizon in HORIZON_DAYS:
        groups[f"dataset (up to {horizon} days)"] = [
            (question.ref, target.key)
            for question, target in rows
            if target.horizon_days is not None and target.horizon_days <= horizon
        ] + [(ref, str(days)) for ref in unread for days in HORIZON_DAYS if days <= horizon]
    return {"all": [*market, *groups[f"dataset (up to {HORIZON_DAYS[-1]} days)"]], **groups}


def _left_out(questions: Sequence[Question], family: str) -> list[QuestionRef]:
    """Return a name for each published question of the round that could not be read, and so has no forecast."""
    count = max((int(question.facts.get(left_out_fact(family), "0")) for question in questions), default=0)
    return [QuestionRef(VENUE, f"unread {family} question {number}") for number in range(count)]
