"""Planted leaks: a test that each layer of the leak guard catches its own leaks, which no other layer would catch."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta

from bot.config.schema import ResearchSection
from bot.core.beliefs import ModelUsage, ToolResult
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError, NotFoundError, RequestRejectedError
from bot.core.interfaces import Clock
from bot.core.language_models import (
    CostAttribution,
    ModelAnswer,
    ModelCompletion,
    ModelDialect,
    ModelPerformance,
    ModelRequest,
)
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import DataSpec, PluginSettings
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.research import FetchedPage, PageText, Passage, SearchResult, TimeSeries
from bot.core.values import Json
from bot.evaluation.seen_documents import GuardLayer
from bot.forecasting.leak_guard.blocked_addresses import BlockedAddresses, find_blocked_addresses
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE as FILTER
from bot.forecasting.recording import TrialRecording
from bot.forecasting.services import ConfiguredDataSource, ConfiguredPageSource, ConfiguredSearchEngine
from bot.forecasting.tool_factory import ToolServices, build_tools
from bot.forecasting.tools.base import LeakGuards, ToolContext
from bot.forecasting.trial_memory import FilterCounts, TrialMemory, TrialOpening
from bot.forecasting.trial_tools import RecordedTrialContext, TrialModels, TrialTool
from bot.store.ledger import Ledger
from bot.store.question_pairs import PairUse

TESTED_LAYERS = (GuardLayer.DATES, GuardLayer.CONTENT, GuardLayer.CLAMP, GuardLayer.ADDRESSES)
PLANTED_CUTOFF = datetime(2026, 3, 1, tzinfo=UTC)
_ONE_DAY = timedelta(days=1)
# A guard with this cutoff lets every date through.
_NO_CUTOFF = datetime.max.replace(tzinfo=UTC)
_NEWS_SITE, _VENUE_HOST = "https://news.test/", "venue.test"
_ANSWER_LINK = "https://answers.test/lamp"
LEAKED_TEXT = "It was lit on 3 March"
_QUESTION = Question(
    ref=QuestionRef("planted", "lamp"),
    title="Will the lamp be lit in March?",
    shape=BinaryShape(),
    targets=(Target(resolves_at=PLANTED_CUTOFF + 30 * _ONE_DAY),),
    url=_ANSWER_LINK,
    source="gauge",
    family="market",
    as_of=PLANTED_CUTOFF,
)
_SEARCH_HITS = (
    SearchResult(
        url=f"{_NEWS_SITE}early", title="The lamp", snippet="It is dark.", published_at=PLANTED_CUTOFF - _ONE_DAY
    ),
    SearchResult(
        url=f"{_NEWS_SITE}stale",
        title="The lamp, day by day",
        snippet="It is dark.",
        published_at=PLANTED_CUTOFF - _ONE_DAY,
    ),
    SearchResult(
        url=f"{_NEWS_SITE}edited",
        title="The lamp, a chronicle",
        snippet="It is dark.",
        published_at=PLANTED_CUTOFF - _ONE_DAY,
    ),
    SearchResult(
        url=f"{_NEWS_SITE}short",
        title="The lamp, in short",
        snippet="It is dark.",
        published_at=PLANTED_CUTOFF - _ONE_DAY,
    ),
    SearchResult(
        url=f"{_NEWS_SITE}late",
        title="The lamp",
        snippet="secret-of-the-result",
        published_at=PLANTED_CUTOFF + _ONE_DAY,
    ),
)
_PAGES = {
    f"{_NEWS_SITE}stale": ("The keeper says: secret-of-the-stale-page", PLANTED_CUTOFF + _ONE_DAY),
    f"{_NEWS_SITE}edited": (f"{LEAKED_TEXT}: secret-of-the-edited-page", PLANTED_CUTOFF - _ONE_DAY),
    f"https://{_VENUE_HOST}/q/lamp": ("secret-of-the-venue", PLANTED_CUTOFF - _ONE_DAY),
    _ANSWER_LINK: ("secret-of-the-link", PLANTED_CUTOFF - _ONE_DAY),
}
_REDIRECTS = {f"{_NEWS_SITE}short": f"https://{_VENUE_HOST}/q/lamp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedLeak:
    """A planted leak: the layer that should catch it, the tool call that returns it, and the words that reveal it."""

    name: str
    layer: GuardLayer
    tool: str
    arguments: Mapping[str, Json]
    leaked_text: str


def _page_leak(name: str, layer: GuardLayer, url: str, leaked_text: str) -> PlantedLeak:
    return PlantedLeak(name=name, layer=layer, tool="lookup_url", arguments={"url": url}, leaked_text=leaked_text)


PLANTED_LEAKS = (
    PlantedLeak(
        name="a result dated after the cutoff, against the engine's instructions",
        layer=GuardLayer.DATES,
        tool="web_search",
        arguments={"query": "lamp"},
        leaked_text="secret-of-the-result",
    ),
    _page_leak(
        "a stale result whose page is of a later day",
        GuardLayer.DATES,
        f"{_NEWS_SITE}stale",
        "secret-of-the-stale-page",
    ),
    _page_leak("a page edited after its date", GuardLayer.CONTENT, f"{_NEWS_SITE}edited", "secret-of-the-edited-page"),
    _page_leak("a redirect to a venue", GuardLayer.ADDRESSES, f"{_NEWS_SITE}short", "secret-of-the-venue"),
    _page_leak("the answer behind the question's own link", GuardLayer.ADDRESSES, _ANSWER_LINK, "secret-of-the-link"),
    PlantedLeak(
        name="a series that continues after the cutoff",
        layer=GuardLayer.CLAMP,
        tool="series_history",
        arguments={"source": "gauge", "name": "LAMP"},
        leaked_text="2026-03-04,7004",
    ),
    PlantedLeak(
        name="a passage rewritten after the cutoff",
        layer=GuardLayer.CLAMP,
        tool="fetch_shelf_section",
        arguments={"page": "Lamp", "heading": "Now"},
        leaked_text="secret-of-the-passage",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProof:
    """The result of a planted leak: what caught it with all layers on, and without which layer it got through."""

    leak: PlantedLeak
    came_through: bool
    counts: FilterCounts
    passes_without: tuple[GuardLayer, ...]

    @property
    def own_count(self) -> int:
        """How often its own layer counted it."""
        counts = {
            GuardLayer.DATES: self.counts.dates,
            GuardLayer.CONTENT: self.counts.content,
            GuardLayer.CLAMP: self.counts.clamped,
            GuardLayer.ADDRESSES: self.counts.blocked,
        }
        return counts[self.leak.layer]

    @property
    def is_proven(self) -> bool:
        """Whether its layer caught it, and only that layer."""
        return not self.came_through and self.own_count > 0 and self.passes_without == (self.leak.layer,)


@dataclass(frozen=True, slots=True)
class LeakPlanting:
    """Where leaks are planted: an empty ledger and a clock."""

    ledger: Ledger
    clock: Clock

    async def prove_layers(self, leaks: Sequence[PlantedLeak] = PLANTED_LEAKS) -> list[LayerProof]:
        """Plant each leak with all layers on, and with each of them off."""
        return [await self._prove_layer(number, leak) for number, leak in enumerate(leaks, 1)]

    async def _prove_layer(self, number: int, leak: PlantedLeak) -> LayerProof:
        came_through, caught = await self._plant_leak(f"{number} guarded", leak, None)
        without = [
            layer for layer in TESTED_LAYERS if (await self._plant_leak(f"{number} without {layer}", leak, layer))[0]
        ]
        return LayerProof(leak=leak, came_through=came_through, counts=caught, passes_without=tuple(without))

    async def _plant_leak(
        self, scope: str, leak: PlantedLeak, disabled_layer: GuardLayer | None
    ) -> tuple[bool, FilterCounts]:
        """Return whether the leak came through, and what was caught on its way."""
        context = self._open_trial_context(scope, disabled_layer)
        texts: list[str] = []
        if leak.tool == "lookup_url":
            # Only addresses from earlier results may be read.
            texts += _shown_texts(await context.use_tool("web_search", {"query": "lamp"}))
        before = context.caught if texts else FilterCounts()
        texts += _shown_texts(await context.use_tool(leak.tool, leak.arguments))
        return any(leak.leaked_text in text for text in texts), _count_difference(before, context.caught)

    def _open_trial_context(self, scope: str, disabled_layer: GuardLayer | None) -> RecordedTrialContext:
        charge = CostAttribution(scope=scope, ref=str(_QUESTION.ref), venue="planted", forecaster="planted", trial=1)
        record = TrialRecording(self.ledger.recordings, charge.scope, charge.trial, self.clock, read_only=False)
        filter_model = _FakeFilterModel(lets_all_pass=disabled_layer is GuardLayer.CONTENT)
        models = TrialModels(
            models=filter_model, record=record, charge=charge, clock=self.clock, deadline=self.clock.monotonic() + 600.0
        )
        tool_context = ToolContext(
            question=_QUESTION,
            section=ResearchSection(),
            guards=_leak_guards(disabled_layer),
            data_before=PLANTED_CUTOFF,
            memory=TrialMemory(),
            record=record,
            fetcher=_FakeFetcher(),
            reader=_FakePageReader(),
        )
        services = ToolServices(
            search_engines=[ConfiguredSearchEngine(name="planted", engine=_FakeSearchEngine(), bounds_dates=True)],
            data_sources={"gauge": ConfiguredDataSource(spec=_data_spec("gauge"), source=_FakeSeriesSource())},
            page_sources={"shelf": ConfiguredPageSource(spec=_data_spec("shelf"), source=_FakePageSource())},
            forecasts=self.ledger.forecasts,
            related=self.ledger.question_history,
            learning=self.ledger.learning,
            pairs=self.ledger.question_pairs,
            pair_use=PairUse.CONFIRMED,
            charge=charge,
            has_summariser=False,
        )
        tools = _build_tools(tool_context, services, disabled_layer)
        if tool_context.guards.blocks.refusal(_ANSWER_LINK) is None:
            tool_context.memory.allow_addresses((_ANSWER_LINK,))
        definitions = tuple(tool.tool for tool in tools.values())
        return RecordedTrialContext(
            forecast=scope,
            cutoff=PLANTED_CUTOFF,
            trial=1,
            fitted=None,
            random=SeededRandom(1),
            opening=TrialOpening(tools=definitions, bound=PLANTED_CUTOFF, backdated=True, content=True),
            implementations=tools,
            memory=tool_context.memory,
            record=record,
            models=models,
            documents=self.ledger.documents,
        )


def _shown_texts(result: ToolResult) -> list[str]:
    """Return what a tool showed, to the model and to code."""
    return [result.observation.text, *(f"{one.title}\n{one.url}\n{one.text}" for one in result.sources)]


def _leak_guards(disabled_layer: GuardLayer | None) -> LeakGuards:
    return LeakGuards(
        cutoff=_NO_CUTOFF if disabled_layer is GuardLayer.DATES else PLANTED_CUTOFF,
        backdated=True,
        # Without the filter a page of today is not read at all, so this layer is off where the filter drops nothing.
        judges_content=True,
        blocks=BlockedAddresses()
        if disabled_layer is GuardLayer.ADDRESSES
        else find_blocked_addresses(_QUESTION, (_VENUE_HOST,), backdated=True),
    )


def _build_tools(
    tool_context: ToolContext, services: ToolServices, disabled_layer: GuardLayer | None
) -> dict[str, TrialTool]:
    """Return the tools; data tools have a cutoff of their own, so that it can be removed from them alone."""
    guards = dataclasses.replace(
        tool_context.guards, cutoff=_NO_CUTOFF if disabled_layer is GuardLayer.CLAMP else PLANTED_CUTOFF
    )
    web = build_tools(tool_context, dataclasses.replace(services, data_sources={}, page_sources={}))
    data = build_tools(
        dataclasses.replace(tool_context, guards=guards), dataclasses.replace(services, search_engines=())
    )
    return {**data, **web}


def _count_difference(before: FilterCounts, after: FilterCounts) -> FilterCounts:
    return FilterCounts(
        dates=after.dates - before.dates,
        content=after.content - before.content,
        clamped=after.clamped - before.clamped,
        blocked=after.blocked - before.blocked,
    )


def _data_spec(name: str) -> DataSpec[PluginSettings]:
    return DataSpec(name=name, summary=f"a planted {name}", settings=PluginSettings)


@dataclass(frozen=True, slots=True)
class _FakeSearchEngine:
    async def search(self, query: str, *, before: datetime | None, limit: int) -> Sequence[SearchResult]:
        return _SEARCH_HITS


@dataclass(frozen=True, slots=True)
class _FakeFetcher:
    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> FetchedPage:
        for address in (url, _REDIRECTS.get(url)):
            if address is not None and (why := refusal(address)) is not None:
                raise RequestRejectedError(why)
        return FetchedPage(url=_REDIRECTS.get(url, url), content=b"", media_type="text/plain")


@dataclass(frozen=True, slots=True)
class _FakePageReader:
    async def read(self, fetched: FetchedPage) -> PageText:
        if fetched.url not in _PAGES:
            message = f"nothing is planted at {fetched.url}"
            raise NotFoundError(message)
        text, published_at = _PAGES[fetched.url]
        return PageText(url=fetched.url, title="The lamp", text=text, published_at=published_at)


@dataclass(frozen=True, slots=True)
class _FakeSeriesSource:
    def series_names(self, question: Question) -> Sequence[str]:
        return ("LAMP",)

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        days = tuple((PLANTED_CUTOFF + day * _ONE_DAY).date() for day in range(-5, 5))
        return TimeSeries(
            name=name, unit="", source="gauge", dates=days, values=tuple(7000.0 + day.day for day in days)
        )


@dataclass(frozen=True, slots=True)
class _FakePageSource:
    async def page_headings(self, page: str, *, before: datetime) -> Sequence[str]:
        return ("Now",)

    async def section(self, page: str, heading: str, *, before: datetime) -> Passage:
        text = "secret-of-the-passage"
        return Passage(
            url=f"{_NEWS_SITE}page", page=page, heading=heading, text=text, revised_at=PLANTED_CUTOFF + _ONE_DAY
        )


@dataclass(frozen=True, slots=True)
class _FakeFilterModel:
    """Plays the role of the filter: drops the text with the answer, and no other, or none at all."""

    lets_all_pass: bool = False
    usage: ModelUsage = field(default_factory=ModelUsage)

    def dialect(self, role: str) -> ModelDialect:
        if role != FILTER:
            message = f"nobody plays the role {role} among planted leaks"
            raise ConfigError(message)
        return ModelDialect.JSON

    async def ask(self, request: ModelRequest, *, deadline_s: float) -> ModelAnswer:
        # Each text is in a part of its own, after the number under which it is judged.
        shown = request.prompt.messages[-1].text.split("\n\nResult ")
        leaks = [LEAKED_TEXT in text and not self.lets_all_pass for text in shown]
        words = {number: "drop" if leak else "keep" for number, leak in enumerate(leaks, 1)}
        entries = ", ".join(f'{{"number": {n}, "verdict": "{word}", "reason": "leak"}}' for n, word in words.items())
        completion = ModelCompletion(text=f'{{"results": [{entries}]}}')
        return ModelAnswer(completion=completion, usage=self.usage, model="planted:filter", document="")

    async def grade(self, performance: ModelPerformance, charge: CostAttribution) -> None:
        """Record nothing."""
