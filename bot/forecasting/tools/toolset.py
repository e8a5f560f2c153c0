"""All tools that a trial can have with what is configured, and their names."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bot.core.language_models import CostAttribution
from bot.core.learning import UNRESOLVED_NOTES_TOOL
from bot.core.predictions import BinaryShape
from bot.core.questions import Question
from bot.forecasting.leak_guard.blocked_addresses import is_series_question
from bot.forecasting.services import (
    ConfiguredDataSource,
    ConfiguredPageSource,
    ConfiguredSearchEngine,
    PythonCalculator,
)
from bot.forecasting.tools import calculation, ledger_tools, time_series
from bot.forecasting.tools.base import ToolContext
from bot.forecasting.tools.calculation import CalculateTool
from bot.forecasting.tools.definitions import LOOKUP_URL, SUMMARIZE_RESULTS, WEB_SEARCH
from bot.forecasting.tools.ledger_tools import (
    EarlierForecastsTool,
    QuestionHistoryTool,
    RelatedQuestionsTool,
    UnresolvedNotesTool,
)
from bot.forecasting.tools.reference_pages import PageHeadingsTool, PageSectionTool
from bot.forecasting.tools.result_summaries import SummarizeResultsTool
from bot.forecasting.tools.time_series import (
    MarketHistoryTool,
    SeriesReading,
    TimeSeriesTool,
    find_price_source,
    find_series_names,
)
from bot.forecasting.tools.url_lookup import LookupUrlTool
from bot.forecasting.tools.web_search import WebSearchTool, select_engines
from bot.forecasting.trial_tools import TrialTool
from bot.store.forecasts import ForecastStore
from bot.store.learning import LearningStore
from bot.store.question_history import QuestionHistoryReader

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
    calculation.CALCULATE,
)


def list_tool_names(shelves: Iterable[str]) -> Collection[str]:
    """Return the names of all tools that a trial may be offered if these page sources are enabled."""
    return frozenset(
        [*FIXED_TOOL_NAMES, *(f"fetch_{source}_{part}" for source in shelves for part in ("toc", "section"))]
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
    charge: CostAttribution
    has_summariser: bool


def build_tools(context: ToolContext, parts: ToolServices) -> dict[str, TrialTool]:
    """Return the tools by name, in the order in which they are offered."""
    return {instrument.tool.name: instrument for instrument in _create_tools(context, parts)}


def _create_tools(context: ToolContext, parts: ToolServices) -> Iterator[TrialTool]:
    yield from _create_series_tools(context, parts.data_sources)
    for source in parts.page_sources.values():
        yield PageHeadingsTool(context, source)
        yield PageSectionTool(context, source)
    engines = select_engines(parts.search_engines, context.section.search, backdated=context.guards.backdated)
    if engines:
        yield WebSearchTool(context, engines)
        yield SummarizeResultsTool(context=context, has_summariser=parts.has_summariser)
    if context.guards.allows_current_pages:
        yield LookupUrlTool(context)
    yield EarlierForecastsTool(context, parts.forecasts, parts.related, parts.charge)
    yield RelatedQuestionsTool(context, parts.related, parts.forecasts, parts.charge)
    yield QuestionHistoryTool(context, parts.related)
    yield UnresolvedNotesTool(context, parts.learning, parts.charge)
    if parts.calculator is not None:
        yield CalculateTool(context, parts.calculator)


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
