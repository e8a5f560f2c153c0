"""A plugin for tests and measurements of clusters.

A model that takes a while and notes each request in a file, a search engine, and a forecaster that only computes.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import thread_time, time

from pydantic import SecretStr

from bot.api import (
    Belief,
    BinaryPrediction,
    FinishReason,
    Forecaster,
    ForecasterSpec,
    LocalPath,
    ModelCompletion,
    ModelProvider,
    ModelSpec,
    ModelUsage,
    PluginContext,
    PluginSettings,
    Prompt,
    Question,
    SamplingSettings,
    SearchEngine,
    SearchResult,
    SearchSpec,
    Step,
    StepAction,
    StepObservation,
    TokenPrice,
    ToolCall,
    TrialContext,
    hookimpl,
)
from bot.testing.research import ScriptedSearchEngine

FOUND_AT = datetime(2025, 6, 1, tzinfo=UTC)
HITS = (SearchResult(url="https://news.example/a", title="A", snippet="It was seen.", published_at=FOUND_AT),)


class TimedModelSettings(PluginSettings):
    """How long an answer takes, where requests are noted, and a key that no worker needs."""

    latency_s: float = 0.0
    log: LocalPath = Path("asked.txt")
    api_key: SecretStr = SecretStr("")


class TimedModelProvider:
    """Implements ModelProvider: search once, then submit a number that depends on the conversation alone."""

    def __init__(self, settings: TimedModelSettings) -> None:
        self.settings = settings

    async def price(self, model: str) -> TokenPrice:
        return TokenPrice(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        text = "\n".join(message.text for message in prompt.messages)
        digest = sha256(f"{text} {sampling.seed}".encode()).hexdigest()
        with self.settings.log.open("a") as file:
            file.write(f"{time():.3f} {digest}\n")
        await asyncio.sleep(self.settings.latency_s)
        probability = round(0.05 + int(digest[:4], 16) / 65536 * 0.9, 3)
        belief: dict[str, object] = {
            "probability": probability,
            "confidence": "high",
            "update_reasoning": "it was seen",
            "base_rate_anchor": "half of the time",
            "evidence_for": [{"text": "it was seen", "source": "search_1_result_1"}],
            "evidence_against": [],
            "key_uncertainties": [],
        }
        name, arguments = "web_search", dict[str, object](query="was it seen")
        if any(message.speaker == "assistant" for message in prompt.messages):
            name, arguments = "submit", dict[str, object](probability=probability, reasoning="so")
        call = ToolCall(id="1", name=name, arguments=json.dumps(arguments | {"updated_belief": belief}))
        usage = ModelUsage(calls=1, tokens_in=2000, tokens_cached=500, tokens_out=100)
        return ModelCompletion(calls=(call,), finish=FinishReason.CALLS, usage=usage)


class ComputingSettings(PluginSettings):
    """How much is computed for a question, and where its end is noted."""

    cpu_s: float = 0.05
    log: LocalPath = Path("computed.txt")


class ComputingForecaster:
    """Computes for a while, then believes what the text of the question says."""

    def __init__(self, settings: ComputingSettings) -> None:
        self.settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        end, digest = thread_time() + self.settings.cpu_s, question.title.encode()
        while thread_time() < end:
            for _ in range(1000):
                digest = sha256(digest).digest()
        with self.settings.log.open("a") as file:
            file.write(f"{time():.3f}\n")
        probability = 0.05 + sha256(question.title.encode()).digest()[0] / 256 * 0.9
        predictions = {target.key: BinaryPrediction(probability) for target in question.targets}
        yield Step(
            action=StepAction(name="submit"),
            observation=StepObservation(),
            belief=Belief(predictions=predictions),
            final=True,
        )


@asynccontextmanager
async def open_timed(settings: TimedModelSettings, context: PluginContext) -> AsyncIterator[ModelProvider]:
    yield TimedModelProvider(settings)


@asynccontextmanager
async def open_finder(settings: PluginSettings, context: PluginContext) -> AsyncIterator[SearchEngine]:
    yield ScriptedSearchEngine(HITS)


@asynccontextmanager
async def open_computing(settings: ComputingSettings, context: PluginContext) -> AsyncIterator[Forecaster]:
    yield ComputingForecaster(settings)


@hookimpl
def foxcast_models() -> list[ModelSpec[TimedModelSettings]]:
    return [ModelSpec(name="timed", summary="Takes its time", settings=TimedModelSettings, open=open_timed)]


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[PluginSettings]]:
    spec = SearchSpec(name="finder", summary="One page", settings=PluginSettings, open=open_finder, bounds_dates=True)
    return [spec]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[ComputingSettings]]:
    return [ForecasterSpec(name="computing", summary="Computes", settings=ComputingSettings, open=open_computing)]
