"""Explanations of forecasts as if they had been read from a ledger."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bot.core.beliefs import Step
from bot.core.forecasts import Forecast, ForecasterSetup
from bot.core.outcomes import Outcome, Resolution
from bot.core.predictions import BinaryPrediction, BinaryShape, Prediction
from bot.core.questions import Question, QuestionRef, Target
from bot.evaluation.explanation import ForecastExplanation, RecordedCalls
from bot.evaluation.question_record import QuestionRecord
from bot.store.forecasts import ForecastTrace
from bot.store.questions import QuestionState
from bot.store.trials import LoggedStep, TrialRecord

MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = Question(
    ref=QuestionRef("lantern", "lamp"),
    title="Will it?",
    shape=BinaryShape(),
    targets=(Target(resolves_at=datetime(2026, 2, 1, tzinfo=UTC)),),
)


def recorded_explanation(
    *trials: Sequence[Step],
    forecaster: str = "",
    identity: str = "aa11",
    question: Question = ASKED,
    probability: float = 0.6,
    setup: ForecasterSetup | None = None,
    outcomes: Mapping[str, Outcome] | None = None,
    predictions: Mapping[str, Prediction] | None = None,
) -> ForecastExplanation:
    """Return what is on record of these steps; a forecast was completed where a forecaster is named."""
    predictions = predictions or {"outcome": BinaryPrediction(probability)}
    forecast = Forecast(
        id=identity,
        ref=question.ref,
        version="1",
        forecaster=forecaster,
        revision=1,
        cutoff=MADE_AT,
        made_at=MADE_AT,
        why="asked for",
        raw=predictions,
        predictions=predictions,
    )
    trace = ForecastTrace(
        id=identity,
        state="done" if forecaster else "failed",
        detail="",
        forecast=forecast if forecaster else None,
        question=question,
        trials=tuple(_trial_record(number, steps) for number, steps in enumerate(trials, 1)),
        setup=setup,
    )
    return ForecastExplanation(
        trace=trace, chain=RecordedCalls(), question_record=None if outcomes is None else _record(question, outcomes)
    )


def _trial_record(number: int, steps: Sequence[Step]) -> TrialRecord:
    logged = [LoggedStep(number=place, at=MADE_AT, step=step) for place, step in enumerate(steps, 1)]
    return TrialRecord(number=number, trial=None, steps=tuple(logged))


def _record(question: Question, outcomes: Mapping[str, Outcome]) -> QuestionRecord:
    known = {
        target: Resolution(ref=question.ref, target=target, outcome=outcome, resolved_at=MADE_AT)
        for target, outcome in outcomes.items()
    }
    return QuestionRecord(
        question=question, state=QuestionState.OPEN, versions={}, history=(), recorded_forecasts=(), outcomes=known
    )
