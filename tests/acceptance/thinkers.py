"""A plugin for the acceptance tests: a venue with one question, and a provider whose model always thinks the same.

The model searches once, reads nothing, and submits; what it is asked is counted in a file beside the configuration.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from bot.api import (
    Binary,
    BinaryShape,
    Completion,
    Crowd,
    Finish,
    Hit,
    Llm,
    LocalPath,
    ModelSpec,
    Price,
    Prompt,
    Question,
    QuestionRef,
    Sampling,
    SearchEngine,
    SearchSpec,
    Settings,
    Target,
    ToolCall,
    Usage,
    Venue,
    VenueSpec,
    Workplace,
    hookimpl,
)
from bot.testing.research import ScriptedEngine
from bot.testing.venue import MemoryVenue

LAMP = Question(
    ref=QuestionRef("harbour", "lamp"),
    title="Will the \x1b[31mlamp\u202e be lit?",
    shape=BinaryShape(),
    targets=(Target(),),
    family="market",
    source="harbour",
    criteria="As the keeper's log says.",
    crowd=Crowd(prediction=Binary(0.4), at=datetime(2026, 1, 1, tzinfo=UTC)),
)
HITS = (Hit(url="https://news.example/lamp", title="The lamp", snippet="Oil was bought.", published_at=None),)


class ThinkerSettings(Settings):
    """Where requests are counted."""

    count: LocalPath = Path("asked.txt")


class Thinker:
    """Implements the port Llm."""

    def __init__(self, settings: ThinkerSettings) -> None:
        self.settings = settings

    async def price(self, model: str) -> Price:
        return Price(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)

    async def complete(self, model: str, prompt: Prompt, sampling: Sampling) -> Completion:
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


def _calls(name: str, arguments: dict[str, object], belief: dict[str, object]) -> Completion:
    text = json.dumps(arguments | {"updated_belief": belief})
    usage = Usage(calls=1, tokens_in=2000, tokens_cached=500, tokens_out=100)
    return Completion(calls=(ToolCall(id="1", name=name, arguments=text),), finish=Finish.CALLS, usage=usage)


@asynccontextmanager
async def open_harbour(settings: Settings, workplace: Workplace) -> AsyncIterator[Venue]:
    yield MemoryVenue([LAMP])


@asynccontextmanager
async def open_thinker(settings: ThinkerSettings, workplace: Workplace) -> AsyncIterator[Llm]:
    yield Thinker(settings)


@asynccontextmanager
async def open_finder(settings: Settings, workplace: Workplace) -> AsyncIterator[SearchEngine]:
    yield ScriptedEngine(HITS)


@hookimpl
def foxcast_venues() -> list[VenueSpec[Settings]]:
    return [VenueSpec(name="harbour", summary="A harbour", settings=Settings, reader=open_harbour)]


@hookimpl
def foxcast_models() -> list[ModelSpec[ThinkerSettings]]:
    return [ModelSpec(name="prime", summary="Thinks the same", settings=ThinkerSettings, open=open_thinker)]


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[Settings]]:
    return [SearchSpec(name="finder", summary="Finds one page", settings=Settings, open=open_finder)]
