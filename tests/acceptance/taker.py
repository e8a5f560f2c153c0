"""A plugin for the acceptance tests: a forecaster that is sure of something, so that there is something to trade."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from bot.api import (
    Action,
    Belief,
    Binary,
    Choice,
    ChoiceShape,
    Desk,
    Forecaster,
    ForecasterSpec,
    Observation,
    Prediction,
    Question,
    Settings,
    Step,
    Workplace,
    hookimpl,
)


class TakerSettings(Settings):
    """What it says of every question: that probability, or that of the first of several options."""

    probability: float = 0.7


class Taker:
    """One step."""

    def __init__(self, probability: float) -> None:
        self._probability = probability

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        predictions = {target.key: self._said(question) for target in question.targets}
        yield Step(
            action=Action(name="submit", arguments={}),
            observation=Observation(text=""),
            belief=Belief(predictions=predictions, reason="it takes what is offered"),
            final=True,
        )

    def _said(self, question: Question) -> Prediction:
        if not isinstance(question.shape, ChoiceShape):
            return Binary(self._probability)
        first, *others = question.shape.options
        each = (1.0 - self._probability) / len(others)
        return Choice({first: self._probability, **dict.fromkeys(others, each)})


@asynccontextmanager
async def open_taker(settings: TakerSettings, workplace: Workplace) -> AsyncIterator[Forecaster]:
    yield Taker(settings.probability)


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[TakerSettings]]:
    return [ForecasterSpec(name="taker", summary="Is sure of itself", settings=TakerSettings, open=open_taker)]
