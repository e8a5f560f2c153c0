"""A plugin for the acceptance tests: two venues that ask the same, and a model that says so."""

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    CrowdForecast,
    ModelCompletion,
    ModelProvider,
    ModelSpec,
    ModelUsage,
    PluginContext,
    PluginSettings,
    Prompt,
    Question,
    QuestionRef,
    SamplingSettings,
    Target,
    TokenPrice,
    VenueReader,
    VenueSpec,
    hookimpl,
)
from bot.testing.venue import FakeVenueReader

SEEN_AT = datetime(2026, 1, 1, tzinfo=UTC)


def ask(venue: str, title: str, price: float, **measures: Any) -> Question:
    return Question(
        ref=QuestionRef(venue, "lamp"),
        title=title,
        shape=BinaryShape(),
        targets=(Target(),),
        criteria=f"As the keeper of {venue} says.",
        crowd=CrowdForecast(prediction=BinaryPrediction(price), at=SEEN_AT, **measures),
    )


QUESTIONS = {
    "alpha": ask("alpha", "Will the great lamp be lit before 2090?", 0.22, liquidity=1200.0),
    "beta": ask("beta", "Great lamp lit by the end of 2089?", 0.62, spread=0.02),
}
REPLY = {"verdict": "same", "differences": ["another keeper"], "reason": "Both ask about the great lamp."}


class FakeJudge:
    """Implements ModelProvider."""

    async def price(self, model: str) -> TokenPrice:
        return TokenPrice(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        usage = ModelUsage(calls=1, tokens_in=1000, tokens_out=100)
        return ModelCompletion(text=json.dumps(REPLY), usage=usage)


@asynccontextmanager
async def open_judge(settings: PluginSettings, context: PluginContext) -> AsyncIterator[ModelProvider]:
    yield FakeJudge()


def venue_spec(name: str) -> VenueSpec[PluginSettings]:
    def open_reader(settings: PluginSettings, context: PluginContext) -> AbstractAsyncContextManager[VenueReader]:
        return read_venue(name)

    return VenueSpec(name=name, summary=f"The venue {name}", settings=PluginSettings, reader=open_reader)


@asynccontextmanager
async def read_venue(name: str) -> AsyncIterator[VenueReader]:
    yield FakeVenueReader([QUESTIONS[name]])


@hookimpl
def foxcast_venues() -> list[VenueSpec[PluginSettings]]:
    return [venue_spec(name) for name in QUESTIONS]


@hookimpl
def foxcast_models() -> list[ModelSpec[PluginSettings]]:
    return [ModelSpec(name="judge", summary="Says that all is the same", settings=PluginSettings, open=open_judge)]
