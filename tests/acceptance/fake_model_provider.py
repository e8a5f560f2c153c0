"""A plugin for the acceptance tests.

A fake venue with one question, and a fake model provider that counts its requests in a file.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    CrowdForecast,
    FinishReason,
    LocalPath,
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
    SearchEngine,
    SearchResult,
    SearchSpec,
    Target,
    TokenPrice,
    ToolCall,
    VenueReader,
    VenueSpec,
    hookimpl,
)
from bot.testing.research import ScriptedSearchEngine
from bot.testing.venue import FakeVenueReader

LAMP = Question(
    ref=QuestionRef("harbour", "lamp"),
    title="Will the \x1b[31mlamp\u202e be lit?",
    shape=BinaryShape(),
    targets=(Target(),),
    family="market",
    source="harbour",
    criteria="As the keeper's log says.",
    crowd=CrowdForecast(prediction=BinaryPrediction(0.4), at=datetime(2026, 1, 1, tzinfo=UTC)),
)
HITS = (SearchResult(url="https://news.example/lamp", title="The lamp", snippet="Oil was bought.", published_at=None),)


class FakeModelProviderSettings(PluginSettings):
    """Where requests are counted."""

    count: LocalPath = Path("asked.txt")


class FakeModelProvider:
    """Implements ModelProvider."""

    def __init__(self, settings: FakeModelProviderSettings) -> None:
        self.settings = settings

    async def price(self, model: str) -> TokenPrice:
        return TokenPrice(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        with self.settings.count.open("a") as file:
            file.write(f"{model}\n")
        belief = {
            "confidence": "high",
            "update_reasoning": "oil means light",
            "base_rate_anchor": "lit on most nights",
            "evidence_for": [{"text": "oil was bought", "source": "search_1_result_1"}],
            "evidence_against": [],
            "key_uncertainties": ["is the wick dry?"],
        }
        if any(message.speaker == "assistant" for message in prompt.messages):
            return _calls("submit", {"probability": 0.8, "reasoning": "so"}, belief | {"probability": 0.8})
        return _calls("web_search", {"query": "lamp oil"}, belief | {"probability": 0.6})


def _calls(name: str, arguments: dict[str, object], belief: dict[str, object]) -> ModelCompletion:
    text = json.dumps(arguments | {"updated_belief": belief})
    usage = ModelUsage(calls=1, tokens_in=2000, tokens_cached=500, tokens_out=100)
    return ModelCompletion(calls=(ToolCall(id="1", name=name, arguments=text),), finish=FinishReason.CALLS, usage=usage)


@asynccontextmanager
async def open_harbour(settings: PluginSettings, context: PluginContext) -> AsyncIterator[VenueReader]:
    yield FakeVenueReader([LAMP])


@asynccontextmanager
async def open_thinker(settings: FakeModelProviderSettings, context: PluginContext) -> AsyncIterator[ModelProvider]:
    yield FakeModelProvider(settings)


@asynccontextmanager
async def open_finder(settings: PluginSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    yield ScriptedSearchEngine(HITS)


@hookimpl
def foxcast_venues() -> list[VenueSpec[PluginSettings]]:
    return [VenueSpec(name="harbour", summary="A harbour", settings=PluginSettings, reader=open_harbour)]


@hookimpl
def foxcast_models() -> list[ModelSpec[FakeModelProviderSettings]]:
    return [ModelSpec(name="prime", summary="Thinks the same", settings=FakeModelProviderSettings, open=open_thinker)]


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[PluginSettings]]:
    return [SearchSpec(name="finder", summary="Finds one page", settings=PluginSettings, open=open_finder)]
