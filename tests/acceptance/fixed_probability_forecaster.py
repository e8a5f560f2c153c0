"""A plugin for the acceptance tests.

A forecaster with a fixed probability, so that there is something to trade on.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from bot.api import (
    Belief,
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    Forecaster,
    ForecasterSpec,
    PluginContext,
    PluginSettings,
    Prediction,
    Question,
    Step,
    StepAction,
    StepObservation,
    TrialContext,
    hookimpl,
)


class FixedProbabilitySettings(PluginSettings):
    """What it says of every question: that probability, or that of the first of several options."""

    probability: float = 0.7


class FixedProbabilityForecaster:
    """One step."""

    def __init__(self, probability: float) -> None:
        self._probability = probability

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        predictions = {target.key: self._prediction_for(question) for target in question.targets}
        yield Step(
            action=StepAction(name="submit", arguments={}),
            observation=StepObservation(text=""),
            belief=Belief(predictions=predictions, reason="it takes what is offered"),
            final=True,
        )

    def _prediction_for(self, question: Question) -> Prediction:
        if not isinstance(question.shape, ChoiceShape):
            return BinaryPrediction(self._probability)
        first, *others = question.shape.options
        each = (1.0 - self._probability) / len(others)
        return ChoicePrediction({first: self._probability, **dict.fromkeys(others, each)})


@asynccontextmanager
async def open_taker(settings: FixedProbabilitySettings, context: PluginContext) -> AsyncIterator[Forecaster]:
    yield FixedProbabilityForecaster(settings.probability)


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[FixedProbabilitySettings]]:
    return [
        ForecasterSpec(name="taker", summary="Is sure of itself", settings=FixedProbabilitySettings, open=open_taker)
    ]
