"""Rows of a table of trials as resolved forecasts, so that a forecaster can learn from forecasts of other programs."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time

from bot.core.learning import ResolvedForecast
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import SINGLE_TARGET, CrowdForecast, Question, QuestionRef, Target
from bot.evaluation.trial_table import EventKey, TrialRow, TrialTable

# Questions of tables belong to no venue of the configuration.
TABLE_VENUE = "trials"


def table_forecasts(table: TrialTable, forecasters: Mapping[str, str], before: datetime) -> Iterator[ResolvedForecast]:
    """Yield the forecasts of methods under the names of forecasters, by method, that were over before the moment.

    Runs that got stuck are left out.
    """
    for method, forecaster in forecasters.items():
        for event, row in table.by_method[method].items():
            known = table.resolved.get(event)
            if known is None or row.is_stuck:
                continue
            asked_at, resolved_at = _read_day(event.round, time()), _read_day(known.day, time(23, 59, 59))
            if asked_at < before and resolved_at < before:
                yield _resolved_forecast(table, row, forecaster, asked_at=asked_at, resolved_at=resolved_at)


def _resolved_forecast(
    table: TrialTable, row: TrialRow, forecaster: str, *, asked_at: datetime, resolved_at: datetime
) -> ResolvedForecast:
    question = _event_question(table, row.event, asked_at, resolved_at)
    outcome = table.resolved[row.event].outcome
    return ResolvedForecast(
        forecast=f"{row.method} {question.ref}",
        forecaster=forecaster,
        question=question,
        prediction=BinaryPrediction(row.forecast),
        resolution=Resolution(
            ref=question.ref,
            target=question.targets[0].key,
            outcome=BinaryOutcome(outcome or 0.0),
            resolved_at=resolved_at,
        ),
        cutoff=asked_at,
    )


def _event_question(table: TrialTable, event: EventKey, asked_at: datetime, resolved_at: datetime) -> Question:
    price = table.prices.get(event)
    days = (resolved_at.date() - asked_at.date()).days
    target = Target(key=event.day, resolves_at=resolved_at, horizon_days=days) if event.day else Target()
    return Question(
        ref=QuestionRef(TABLE_VENUE, f"{event.round}/{event.source}/{event.question}/{event.day or SINGLE_TARGET}"),
        title="",
        shape=BinaryShape(),
        targets=(target,),
        source=event.source,
        batch=event.round,
        as_of=asked_at,
        crowd=None if price is None else CrowdForecast(prediction=BinaryPrediction(price), at=asked_at),
    )


def _read_day(text: str, at: time) -> datetime:
    return datetime.combine(date.fromisoformat(text), at, UTC)
