"""A plugin that offers a generated venue and small parts of every other kind, and records what is called of them."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import wraps
from importlib import import_module
from typing import Any

from bot.api import (
    Belief,
    BinaryPrediction,
    DataSpec,
    ForecasterSpec,
    JobSpec,
    Message,
    MessageRole,
    ModelCompletion,
    ModelSpec,
    ModelUsage,
    PluginContext,
    PluginSettings,
    Prompt,
    Question,
    SamplingSettings,
    SearchResult,
    SearchSpec,
    Step,
    StepAction,
    StepObservation,
    TimeSeries,
    TokenPrice,
    TrialContext,
    VenueSpec,
    hookimpl,
)

# The group of the API and the name of what was called.
CALLS: list[tuple[str, str]] = []
VENUE_PARTS = {"reader": "venue_reader", "planner": "venue_planner", "paper": "venue_paper", "writer": "venue_writer"}
Factory = Callable[[Any, Any], AbstractAsyncContextManager[Any]]


def record(group: str, one: object) -> object:
    """Return an object with the same methods, each of which is recorded before it is called."""

    def method(name: str) -> Callable[..., Any]:
        called = getattr(one, name)

        @wraps(called)
        def recorded(_: object, *arguments: Any, **named: Any) -> Any:
            CALLS.append((group, name))
            return called(*arguments, **named)

        return recorded

    public = [name for name in dir(one) if not name.startswith("_")]
    parts = {name: method(name) if callable(getattr(one, name)) else getattr(one, name) for name in public}
    return type(f"Recorded{type(one).__name__}", (), parts)()


def record_factory(group: str, field: str, factory: Factory) -> Factory:
    @asynccontextmanager
    async def opened(settings: Any, context: Any) -> AsyncIterator[Any]:
        CALLS.append((group, field))
        async with factory(settings, context) as one:
            yield record(group, one)

    return opened


def opener(kind: type[Any]) -> Factory:
    @asynccontextmanager
    async def opened(settings: PluginSettings, context: PluginContext) -> AsyncIterator[Any]:
        yield kind()

    return opened


class ReefForecaster:
    """Implements Forecaster: uses one tool of each kind and one model, and then answers."""

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        found = await context.use_tool("web_search", {"query": "kelp"})
        await context.use_tool("series_history", {"source": "reef", "name": "KELP"})
        prompt = Prompt(messages=(Message(speaker=MessageRole.USER, text=found.observation.text),))
        answer = await context.ask_model("main", prompt)
        yield Step(
            action=StepAction(name="answer", arguments={}),
            observation=StepObservation(text=answer.completion.text),
            belief=Belief(predictions={target.key: BinaryPrediction(0.9) for target in question.targets}),
        )


class ReefSearch:
    """Implements SearchEngine."""

    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        return [SearchResult(url="https://news.example/kelp", title=query, snippet="It grows.", published_at=None)]


class ReefData:
    """Implements DataSource."""

    def series_names(self, question: Question) -> Sequence[str]:
        return ("KELP",)

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        return TimeSeries(name=name, unit="kelp", source="reef", dates=(date(2026, 1, 1),), values=(7.0,))


class ReefModel:
    """Implements ModelProvider."""

    async def price(self, model: str) -> TokenPrice:
        return TokenPrice(tokens_in=0.001, tokens_cached=0.001, tokens_out=0.001)

    async def complete(self, model: str, prompt: Prompt, sampling: SamplingSettings) -> ModelCompletion:
        return ModelCompletion(text="It grows.", usage=ModelUsage(calls=1, tokens_in=10, tokens_out=10))


async def sweep(context: PluginContext) -> str:
    CALLS.append(("job", "run"))
    return "swept"


@hookimpl
def foxcast_venues() -> list[VenueSpec[Any]]:
    [venue] = import_module("foxcast_kelp").foxcast_venues()
    parts = {field: record_factory(group, field, getattr(venue, field)) for field, group in VENUE_PARTS.items()}
    # Its rates would make a test wait.
    return [replace(venue, rates=lambda _: (), **parts)]


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[PluginSettings]]:
    reef = record_factory("forecaster", "open", opener(ReefForecaster))
    about = "Uses one of each"
    return [ForecasterSpec(name="reef", summary=about, settings=PluginSettings, open=reef, roles=("main",))]


@hookimpl
def foxcast_search_engines() -> list[SearchSpec[PluginSettings]]:
    reef = record_factory("search", "open", opener(ReefSearch))
    return [SearchSpec(name="reef", summary="Finds one page", settings=PluginSettings, open=reef)]


@hookimpl
def foxcast_data_sources() -> list[DataSpec[PluginSettings]]:
    reef = record_factory("data", "open", opener(ReefData))
    return [DataSpec(name="reef", summary="Counts kelp", settings=PluginSettings, open=reef)]


@hookimpl
def foxcast_models() -> list[ModelSpec[PluginSettings]]:
    reef = record_factory("model", "open", opener(ReefModel))
    return [ModelSpec(name="reef", summary="Says one thing", settings=PluginSettings, open=reef)]


@hookimpl
def foxcast_jobs() -> list[JobSpec]:
    return [JobSpec(name="sweep", summary="Sweep the reef", every=timedelta(hours=1), run=sweep)]
