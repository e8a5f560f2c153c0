"""A batch of intents as the rows of a forecast set.

Pure, complete, unique, and within the 5 % rule: a file that misses more rows is ignored for the whole round. Source:
docs/facts/forecastbench.md#forecast-set.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from bot.api import SINGLE_TARGET, BinaryPrediction, Intent, Question, QuestionRef, SubmissionBatch
from plugins.forecastbench.file_format import (
    DATASET_FAMILY,
    HORIZON_DAYS,
    MARKET_FAMILY,
    MAX_MISSING_SHARE,
    VENUE,
    left_out_fact_name,
)
from plugins.forecastbench.settings import ForecastBenchSettings

TargetRow = tuple[QuestionRef, str]


def missing_row_breaches(groups: Mapping[str, Collection[TargetRow]], given: Collection[TargetRow]) -> Iterator[str]:
    """Return for each group of expected rows, by label, how many are missing, if that is too many."""
    for label, rows in groups.items():
        missing = sum(row not in given for row in rows)
        if missing > MAX_MISSING_SHARE * len(rows):
            share, limit = 100 * missing / len(rows), 100 * MAX_MISSING_SHARE
            yield f"{missing} of {len(rows)} {label} rows are missing ({share:.1f} %, at most {limit:.0f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """One row as it is written; market rows have no date."""

    id: str
    source: str
    forecast: float
    resolution_date: str | None
    reasoning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSetDraft:
    """The result of a batch: rows by intent id, refused intents by id with the reason, and breaches of the 5 % rule."""

    rows: Mapping[str, tuple[ForecastRow, ...]]
    refused: Mapping[str, str]
    breaches: tuple[str, ...]


def draft_forecast_set(batch: SubmissionBatch) -> ForecastSetDraft:
    """Turn intents into rows; a question of the batch without a usable intent counts as missing rows."""
    questions = {question.ref: question for question in batch.questions if question.batch == batch.key}
    newest = {intent.ref: intent.id for intent in batch.intents}
    rows: dict[str, tuple[ForecastRow, ...]] = {}
    refused: dict[str, str] = {}
    given: set[TargetRow] = set()
    for intent in batch.intents:
        asked = questions.get(intent.ref)
        if asked is None:
            refused[intent.id] = "not a question of this round"
        elif why := _intent_objection(intent, asked, newest):
            refused[intent.id] = why
        else:
            rows[intent.id] = tuple(_intent_rows(intent, asked))
            given.update((asked.ref, target.key) for target in asked.targets)
    breaches = tuple(missing_row_breaches(_rows_by_group(tuple(questions.values())), given))
    return ForecastSetDraft(rows=rows, refused=refused, breaches=breaches)


def serialize_forecast_set(rows: Sequence[ForecastRow], *, due_date: str, settings: ForecastBenchSettings) -> bytes:
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


def _intent_objection(intent: Intent, asked: Question, newest: Mapping[QuestionRef, str]) -> str | None:
    if newest[intent.ref] != intent.id:
        return "a later intent of this batch answers the same question"
    expected = {target.key for target in asked.targets}
    if set(intent.predictions) != expected:
        return f"targets {sorted(intent.predictions)} are not the question's {sorted(expected)}"
    if not all(isinstance(prediction, BinaryPrediction) for prediction in intent.predictions.values()):
        return "only probabilities of yes can be written"
    return None


def _intent_rows(intent: Intent, asked: Question) -> Iterator[ForecastRow]:
    for target in asked.targets:
        prediction = intent.predictions[target.key]
        if isinstance(prediction, BinaryPrediction):
            yield ForecastRow(
                id=asked.source_id,
                source=asked.source,
                forecast=prediction.probability,
                resolution_date=target.key if asked.family == DATASET_FAMILY else None,
                reasoning=f"Foxcast forecast {intent.forecast}",
            )


def _rows_by_group(questions: Sequence[Question]) -> Mapping[str, Sequence[TargetRow]]:
    """Return the groups of rows under the 5 % rule.

    It is not known when a file is written which dataset rows will have resolved; mostly it is those of the horizons
    that have passed, so the rule is checked for the rows up to every horizon.
    """
    rows = [(question, target) for question in questions for target in question.targets]
    market = [(question.ref, target.key) for question, target in rows if question.family == MARKET_FAMILY]
    market += [(ref, SINGLE_TARGET) for ref in _unread_questions(questions, MARKET_FAMILY)]
    unread = _unread_questions(questions, DATASET_FAMILY)
    groups = {"market": market}
    for horizon in HORIZON_DAYS:
        groups[f"dataset (up to {horizon} days)"] = [
            (question.ref, target.key)
            for question, target in rows
            if target.horizon_days is not None and target.horizon_days <= horizon
        ] + [(ref, str(days)) for ref in unread for days in HORIZON_DAYS if days <= horizon]
    return {"all": [*market, *groups[f"dataset (up to {HORIZON_DAYS[-1]} days)"]], **groups}


def _unread_questions(questions: Sequence[Question], family: str) -> list[QuestionRef]:
    """Return a name for each published question of the round that could not be read, and so has no forecast."""
    count = max((int(question.facts.get(left_out_fact_name(family), "0")) for question in questions), default=0)
    return [QuestionRef(VENUE, f"unread {family} question {number}") for number in range(count)]
