"""Makes the tools of each trial from everything that is configured, under the policy for the question's source."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from bot.config.schema import ResearchSection
from bot.core.errors import ConfigError
from bot.core.identity_cache import IdentityCache
from bot.core.interfaces import Clock, PageFetcher
from bot.core.language_models import CostAttribution, ToolDefinition
from bot.core.learning import UNRESOLVED_NOTES_TOOL
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryShape
from bot.core.questions import Question
from bot.core.research import SourcePolicy
from bot.forecasting.failures import DailyWarnings
from bot.forecasting.leak_guard.blocked_addresses import BlockedAddresses, find_blocked_addresses, is_series_question
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE as FILTER
from bot.forecasting.recording import TrialRecording, request_digest
from bot.forecasting.services import (
    ConfiguredDataSource,
    ConfiguredPageSource,
    ConfiguredSearchEngine,
    ModelGateway,
    PageTextReader,
    PythonCalculator,
)
from bot.forecasting.tools import ledger_tools, time_series
from bot.forecasting.tools.base import LeakGuards, ToolContext
from bot.forecasting.tools.calculator import CALCULATE, CalculateTool
from bot.forecasting.tools.ledger_tools import EARLIER_FORECASTS as EARLIER
from bot.forecasting.tools.ledger_tools import (
    QUESTION_HISTORY,
    RELATED_QUESTIONS,
    EarlierForecastsTool,
    OwnForecasts,
    QuestionHistoryTool,
    RelatedQuestionsTool,
    UnresolvedNotesTool,
)
from bot.forecasting.tools.page_reading import LookupUrlTool, PageHeadingsTool, PageSectionTool
from bot.forecasting.tools.paired_prices import PAIRED_PRICES, PairedPricesTool
from bot.forecasting.tools.result_summaries import SUMMARISER_ROLE as SUMMARISER
from bot.forecasting.tools.result_summaries import SummarizeResultsTool
from bot.forecasting.tools.time_series import (
    MarketHistoryTool,
    SeriesReading,
    TimeSeriesTool,
    find_price_source,
    find_series_names,
)
from bot.forecasting.tools.web_search import WebSearchTool, select_engines
from bot.forecasting.trial_memory import (
    LOOKUP_URL,
    OPENING_SERIALIZER,
    SUMMARIZE_RESULTS,
    WEB_SEARCH,
    TrialMemory,
    TrialOpening,
)
from bot.forecasting.trial_tools import GuardedTrialContext, RecordedTrialContext, TrialModels, TrialTool
from bot.forecasting.web_addresses import find_links
from bot.store.forecasts import ForecastStore
from bot.store.learning import LearningStore
from bot.store.ledger import Ledger
from bot.store.question_history import QuestionHistoryReader
from bot.store.question_pairs import PairUse, QuestionPairStore
from bot.store.serialization import JsonSerializer

FIXED_TOOL_NAMES: Final = (
    time_series.MARKET_HISTORY,
    *(str(reading) for reading in SeriesReading),
    WEB_SEARCH,
    SUMMARIZE_RESULTS,
    LOOKUP_URL,
    ledger_tools.EARLIER_FORECASTS,
    ledger_tools.RELATED_QUESTIONS,
    ledger_tools.QUESTION_HISTORY,
    UNRESOLVED_NOTES_TOOL,
    PAIRED_PRICES,
    CALCULATE,
)


def list_tool_names(page_sources: Iterable[str]) -> Collection[str]:
    """Return the names of all tools that a trial may be offered if these page sources are enabled."""
    return frozenset(
        [*FIXED_TOOL_NAMES, *(f"fetch_{source}_{part}" for source in page_sources for part in ("toc", "section"))]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """What tools are made of; ``has_summariser`` says whether a model summarises."""

    search_engines: Sequence[ConfiguredSearchEngine]
    data_sources: Mapping[str, ConfiguredDataSource]
    page_sources: Mapping[str, ConfiguredPageSource]
    calculator: PythonCalculator | None = None
    forecasts: ForecastStore
    related: QuestionHistoryReader
    learning: LearningStore
    pairs: QuestionPairStore
    pair_use: PairUse
    charge: CostAttribution
    has_summariser: bool


def build_tools(context: ToolContext, services: ToolServices) -> dict[str, TrialTool]:
    """Return the tools by name, in the order in which they are offered."""
    return {tool.tool.name: tool for tool in _create_tools(context, services)}


def _create_tools(context: ToolContext, services: ToolServices) -> Iterator[TrialTool]:
    yield from _create_series_tools(context, services.data_sources)
    for source in services.page_sources.values():
        yield PageHeadingsTool(context, source)
        yield PageSectionTool(context, source)
    engines = select_engines(services.search_engines, context.section.search, backdated=context.guards.backdated)
    if engines:
        yield WebSearchTool(context, engines)
        yield SummarizeResultsTool(context=context, has_summariser=services.has_summariser)
    if context.guards.allows_current_pages:
        yield LookupUrlTool(context)
    yield EarlierForecastsTool(context, services.forecasts, services.related, services.charge)
    yield RelatedQuestionsTool(context, services.related, services.forecasts, services.charge)
    yield QuestionHistoryTool(context, services.related)
    yield UnresolvedNotesTool(context, services.learning, services.charge)
    yield PairedPricesTool(context, services.pairs, services.pair_use)
    if services.calculator is not None:
        yield CalculateTool(context, services.calculator)


def _create_series_tools(context: ToolContext, data_sources: Mapping[str, ConfiguredDataSource]) -> Iterator[TrialTool]:
    question = context.question
    prices = None if is_series_question(question) else find_price_source(question, data_sources)
    if prices is not None:
        yield MarketHistoryTool(context, prices)
    if not data_sources:
        return
    yield TimeSeriesTool(reading=SeriesReading.HISTORY, context=context, data_sources=data_sources)
    if is_series_question(question) and isinstance(question.shape, BinaryShape) and _has_series(question, data_sources):
        yield TimeSeriesTool(reading=SeriesReading.MODEL, context=context, data_sources=data_sources)
        yield TimeSeriesTool(reading=SeriesReading.COMBO, context=context, data_sources=data_sources)


def _has_series(question: Question, data_sources: Mapping[str, ConfiguredDataSource]) -> bool:
    return any(
        question.source in source.spec.question_sources and find_series_names(source, question)
        for source in data_sources.values()
    )


def find_source_policy(
    question: Question, section: ResearchSection, sources: Iterable[ConfiguredDataSource | ConfiguredPageSource]
) -> SourcePolicy:
    """Return the policy for a question; settings that its table in config omits come from the plugin that serves it.

    The table is that of the question's source, or of its venue if it has no source.
    """
    policies = (
        source.spec.policy for source in sources if question.source in source.spec.question_sources and question.source
    )
    policy = next(policies, SourcePolicy())
    table = section.sources.get(question.source or question.ref.venue)
    if table is None:
        return policy
    configured: Mapping[str, Any] = table.model_dump(exclude_unset=True)
    return dataclasses.replace(policy, **configured)


def filter_permitted_tools(tools: Iterable[ToolDefinition], policy: SourcePolicy) -> tuple[ToolDefinition, ...]:
    """Return the tools that the policy allows; the one that it wants used first is among them."""
    if policy.tools is None:
        return tuple(tools)
    return tuple(tool for tool in tools if tool.name in {*policy.tools, policy.first})


__all__ = [
    "ConfiguredDataSource",
    "ConfiguredPageSource",
    "ConfiguredSearchEngine",
    "ModelGateway",
    "PageTextReader",
    "ToolFactory",
]


_TOOLS_SERIALIZER: JsonSerializer[Sequence[ToolDefinition]] = JsonSerializer(
    "list of tools", tuple[ToolDefinition, ...]
)


# A trial may be resumed with a cutoff up to an hour old, and still count as live.
LIVE_CUTOFF_AGE = timedelta(hours=2)
MAX_FORECASTS_UNDER_WAY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFactory:
    """What trials work with. ``data_sources`` and ``page_sources`` are keyed by the name of their spec.

    ``blocked_hosts`` are hosts that reveal answers; those that ``section`` blocks are never read at all. With
    ``read_only`` everything comes from the record, and nothing is asked, fetched or written. With ``retry_failures``,
    which is for the laboratory, a recorded trial begins again: failures that may have been resolved are asked again,
    except pages, and so are replies under another configuration. ``models_by_role`` names the model of each role, and
    is part of that configuration. ``pair_use`` says which paired questions of other venues give prices; ``frames`` are
    the digests of prompts without their messages.
    """

    section: ResearchSection
    fetcher: PageFetcher
    reader: PageTextReader
    ledger: Ledger
    clock: Clock
    search_engines: Sequence[ConfiguredSearchEngine] = ()
    data_sources: Mapping[str, ConfiguredDataSource] = field(default_factory=dict)
    page_sources: Mapping[str, ConfiguredPageSource] = field(default_factory=dict)
    blocked_hosts: frozenset[str] = frozenset()
    models: ModelGateway | None = None
    calculator: PythonCalculator | None = None
    read_only: bool = False
    retry_failures: bool = False
    models_by_role: Mapping[str, str] = field(default_factory=dict)
    pair_use: PairUse = PairUse.CONFIRMED
    warnings: DailyWarnings = field(default_factory=DailyWarnings)
    frames: IdentityCache[str] = field(default_factory=IdentityCache)
    # By what decides the policy: the source and the venue of a question.
    _configuration_digests: dict[tuple[str | None, str], str] = field(default_factory=dict, init=False)
    # The tools without data that the first trial of a forecast found, for its other trials.
    _without_data: dict[tuple[str, str, str, str, datetime], set[str]] = field(default_factory=dict, init=False)

    async def open_trial(
        self, question: Question, start: GuardedTrialContext, *, charge: CostAttribution, guarded: bool = True
    ) -> RecordedTrialContext:
        """Return the context of one trial with its tools and models, which continues after its record.

        ``guarded`` False removes all guards, to measure what knowing the future would be worth. Raises LeakError for a
        trial that began with other guards, or that may have seen information from after the cutoff.
        """
        record = TrialRecording(self.ledger.recordings, charge.scope, charge.trial, self.clock, self.read_only)
        await record.load()
        cutoff, until = start.cutoff, self.clock.monotonic() + start.limits.call_seconds
        models = TrialModels(
            models=self.models,
            record=record,
            charge=charge,
            clock=self.clock,
            deadline=until,
            urgency=start.urgency,
            frames=self.frames,
        )
        opened = self._recorded_opening(record, question, cutoff, guarded=guarded)
        opening = opened or self._new_opening(question, models, cutoff, guarded=guarded)
        memory = TrialMemory()
        if not self.read_only:
            memory.skip_recorded_searches(record)
        guards = LeakGuards(
            cutoff=opening.bound if guarded else None,
            backdated=opening.backdated,
            judges_content=opening.content,
            blocks=self._blocked_addresses(question, backdated=opening.backdated) if guarded else BlockedAddresses(),
        )
        context = ToolContext(
            question=question,
            section=self.section,
            guards=guards,
            data_before=opening.bound,
            memory=memory,
            record=record,
            fetcher=self.fetcher,
            reader=self.reader,
            warnings=self.warnings,
        )
        implementations = {} if self.read_only else build_tools(context, self._tool_services(models))
        if opened is None:
            opening = await self._complete_opening(opening, context, implementations, charge)
        memory.allow_addresses(opening.addresses)
        return RecordedTrialContext(
            **vars(start),
            opening=opening,
            implementations=implementations,
            memory=memory,
            record=record,
            models=models,
            documents=self.ledger.documents,
        )

    def _recorded_opening(
        self, record: TrialRecording, question: Question, cutoff: datetime, *, guarded: bool
    ) -> TrialOpening | None:
        """Return the recorded opening of the trial, None for a new trial."""
        openings = [OPENING_SERIALIZER.value(value) for value in record.values_of_kind("opening")]
        if not self.read_only:
            for opening in openings:
                whose = f"trial {record.trial} of {record.scope}"
                opening.require_same_guard(guarded=guarded, cutoff=cutoff, whose=whose)
            record.configuration = self._configuration_digest(question)
            if self.retry_failures:
                record.discard_stale()
                openings = [opening for opening in openings if opening.configuration == record.configuration]
            elif openings:
                record.configuration = openings[-1].configuration
        return openings[-1] if openings else None

    def _new_opening(self, question: Question, models: TrialModels, cutoff: datetime, *, guarded: bool) -> TrialOpening:
        now = self.clock.now()
        backdated = guarded and is_backdated(question, cutoff, now)
        if (
            backdated
            and self.search_engines
            and not select_engines(self.search_engines, self.section.search, backdated=True)
        ):
            why = ConfigError("none of them bounds dates; enable an engine in [search] that searches before a date")
            names = ", ".join(engine.name for engine in self.search_engines)
            self.warnings.warn_once("no search for questions of earlier days", who=names, why=why, now=now)
        return TrialOpening(
            policy=self._find_policy(question),
            bound=cutoff if guarded else now,
            backdated=backdated,
            content=backdated and self.section.filter and models.has_role(FILTER),
            guarded=guarded,
            configuration=models.record.configuration,
        )

    def _find_policy(self, question: Question) -> SourcePolicy:
        return find_source_policy(question, self.section, (*self.data_sources.values(), *self.page_sources.values()))

    def _configuration_digest(self, question: Question) -> str:
        """Return the digest of what this configuration offers a trial; the moment and the record are not part."""
        place = (question.source, question.ref.venue)
        if place not in self._configuration_digests:
            self._configuration_digests[place] = self._digest_configuration(question)
        return self._configuration_digests[place]

    def _digest_configuration(self, question: Question) -> str:
        return request_digest(
            {
                "section": self.section.model_dump(mode="json", exclude={"sources"}),
                "policy": dataclasses.asdict(self._find_policy(question)),
                "engines": [[engine.name, engine.bounds_dates] for engine in self.search_engines],
                "data_sources": [
                    [name, dataclasses.asdict(source.spec.model)] for name, source in self.data_sources.items()
                ],
                "page_sources": list(self.page_sources),
                "blocked": sorted(self.blocked_hosts),
                "models": dict(self.models_by_role),
                "roles": [role for role in (FILTER, SUMMARISER) if self._has_model(role)],
            }
        )[:16]

    def _has_model(self, role: str) -> bool:
        try:
            return self.models is not None and bool(self.models.dialect(role))
        except ConfigError:
            return False

    async def _complete_opening(
        self,
        opening: TrialOpening,
        context: ToolContext,
        implementations: Mapping[str, TrialTool],
        charge: CostAttribution,
    ) -> TrialOpening:
        names = set(implementations)
        names -= await self._tools_without_data(names, context.question, charge, opening.bound)
        tools = filter_permitted_tools(
            (tool.tool for name, tool in implementations.items() if name in names), opening.policy
        )
        text = f"{context.question.title}\n{context.question.background}\n{context.question.criteria}"
        own = (context.question.url,) if context.question.url else ()
        links = [url for url in (*own, *find_links(text)) if context.guards.blocks.refusal(url) is None]
        complete = dataclasses.replace(opening, addresses=tuple(dict.fromkeys(links)))
        # As it will be read from the record, down to the order of keys, from which prompts are made.
        read = OPENING_SERIALIZER.decode(OPENING_SERIALIZER.encode(complete))
        return dataclasses.replace(read, tools=_decode_tools(_TOOLS_SERIALIZER.encode(tools)))

    async def _tools_without_data(
        self, names: Collection[str], question: Question, charge: CostAttribution, before: datetime
    ) -> set[str]:
        """Return the tools that could only answer that there is nothing; all trials of a forecast get the same."""
        if not names:
            return set()
        forecast = (charge.scope, charge.ref, charge.venue, charge.forecaster, before)
        if (known := self._without_data.get(forecast)) is not None:
            return known
        related, pairs, ref = self.ledger.question_history, self.ledger.question_pairs, question.ref
        own = OwnForecasts(self.ledger.forecasts, related, charge)
        available = {
            EARLIER: bool(await own.find_forecasts(ref, before=before)),
            RELATED_QUESTIONS: not await related.is_only_question(ref, before=before),
            QUESTION_HISTORY: await related.has_changed(ref, before=before),
            PAIRED_PRICES: bool(await pairs.paired_prices(question, use=self.pair_use, before=before)),
            UNRESOLVED_NOTES_TOOL: bool(
                await self.ledger.learning.read_unresolved_notes(charge.forecaster, before=before, running=charge.scope)
            ),
        }
        found = self._without_data[forecast] = {name for name, has_data in available.items() if not has_data}
        if len(self._without_data) > MAX_FORECASTS_UNDER_WAY:
            del self._without_data[next(iter(self._without_data))]
        return found

    def _blocked_addresses(self, question: Question, *, backdated: bool) -> BlockedAddresses:
        return find_blocked_addresses(
            question, self.blocked_hosts, backdated=backdated, never=self.section.blocked_hosts
        )

    def _tool_services(self, models: TrialModels) -> ToolServices:
        return ToolServices(
            search_engines=self.search_engines,
            data_sources=self.data_sources,
            page_sources=self.page_sources,
            calculator=self.calculator,
            forecasts=self.ledger.forecasts,
            related=self.ledger.question_history,
            learning=self.ledger.learning,
            pairs=self.ledger.question_pairs,
            pair_use=self.pair_use,
            charge=models.charge,
            has_summariser=models.has_role(SUMMARISER),
        )


@lru_cache(maxsize=256)
def _decode_tools(text: str) -> tuple[ToolDefinition, ...]:
    """Return tools, the same objects for the same text: what is made of them for prompts is found by their identity."""
    return tuple(_TOOLS_SERIALIZER.decode(text))


def is_backdated(question: Question, cutoff: datetime, now: datetime) -> bool:
    """Say whether the cutoff is in the past: the question's venue dates it, or the cutoff is long ago."""
    return question.as_of is not None or now - cutoff > LIVE_CUTOFF_AGE
