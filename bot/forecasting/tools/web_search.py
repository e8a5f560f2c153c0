"""Searching the web: engines in order, results through the guards, and short snippets of the remaining ones.

Disclosure is progressive: a search shows the beginning of each result, the record keeps the text that the engine
returned, the filter and the summariser read all that is kept, and pages are read on request. Source: BLF (arXiv
2604.18576v3), appendix C.3.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.core.beliefs import ShownSource
from bot.core.errors import FoxcastError, StoreError
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_known_secrets
from bot.core.research import SearchResult
from bot.core.values import Json
from bot.forecasting.failures import run_with_timeout
from bot.forecasting.leak_guard.content_filter import ContentVerdict, judge_content
from bot.forecasting.leak_guard.cutoff import engines_for_cutoff, is_after_cutoff, search_bound
from bot.forecasting.recording import RecordedReply, format_exchange_key
from bot.forecasting.services import ConfiguredSearchEngine
from bot.forecasting.tools.base import ToolContext, define_tool, text_schema
from bot.forecasting.trial_memory import NOTHING_CAUGHT, WEB_SEARCH, FilterCounts, ShownResult, ToolCallNote
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.forecasting.untrusted_text import clean_text, fence_text
from bot.forecasting.web_addresses import parse_address
from bot.store.serialization import JsonSerializer

SEARCH_TIMEOUT_S = 30.0
QUERY_CHARS = 400
# No engine gives a longer excerpt; the text of a page may be kept as well, which config limits.
EXCERPT_CHARS = 5_000
HITS_SERIALIZER: JsonSerializer[Sequence[SearchResult]] = JsonSerializer("list of results", tuple[SearchResult, ...])
# Operators of some engines that restrict a search to one site, or change the date bounds.
_OPERATORS = re.compile(
    r"(?<![\w])[-+]?(?:site|before|after|since|until|when|older|newer|older_than|newer_than|daterange|date|freshness"
    r"|cache|inurl|allinurl|url|link|related|info|domain|host|source)[:=](?:\"[^\"]*\"?|\S*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedResult:
    """A result that passed the guards, with the exchange that holds it and its index in it.

    ``checked`` says that its text was judged and may be read.
    """

    hit: SearchResult
    exchange: str
    place: int
    checked: bool = False


@dataclass(frozen=True, slots=True)
class WebSearchTool:
    """Searches the web with the first engine that answers."""

    context: ToolContext
    engines: Sequence[ConfiguredSearchEngine]

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            WEB_SEARCH,
            "Search the web. Returns numbered results with the address, the date and the first "
            f"{self.context.section.snippet_chars} characters of each. To read more, use summarize_results for several "
            "results or lookup_url for one page, where these tools are available.",
            {"query": text_schema(f"a few words; only the first {QUERY_CHARS} characters are used", 4 * QUERY_CHARS)},
            required=("query",),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        query = redact_known_secrets(clean_query(str(arguments["query"])))
        if not query:
            message = "There was nothing to search for: the query has no words of its own."
            raise ToolCallError(message)
        number = self.context.memory.begin_search()
        found = await self._search_engines(query, trace)
        if found is None:
            message = "The search could not be done: no search engine answered."
            raise ToolCallError(message, note=ToolCallNote(search=number))
        results, caught = self._filter_by_date(found)
        judged_texts = (judged_hit_text(result.hit, self.context) for result in results)
        verdict = await judge_content(judged_texts, self.context, trace)
        kept, dropped = self._filter_by_content(results, verdict)
        return self._build_outcome(number, kept, caught + dropped, checked=verdict.checked)

    async def _search_engines(self, query: str, trace: ToolCallTrace) -> list[GuardedResult] | None:
        for engine in self.engines:
            try:
                reply = await self._ask_engine(engine, query, trace)
            except StoreError:
                raise
            except FoxcastError as error:
                self.context.warn("search engine does not answer", engine.name, error)
                continue
            hits = HITS_SERIALIZER.value(reply.value)[: self.context.section.results]
            exchange = format_exchange_key(reply.key)
            return [GuardedResult(hit=hit, exchange=exchange, place=place) for place, hit in enumerate(hits)]
        return None

    async def _ask_engine(self, engine: ConfiguredSearchEngine, query: str, trace: ToolCallTrace) -> RecordedReply:
        before, limit = self._date_bound(engine), self.context.section.results

        async def hits() -> object:
            found = await engine.engine.search(query, before=before, limit=limit)
            return HITS_SERIALIZER.plain([trim_hit(hit, self.context) for hit in found])

        asked = {"engine": engine.name, "query": query, "before": before and before.isoformat(), "limit": limit}
        return await trace.replay_or_run(
            "search", asked, lambda: run_with_timeout(SEARCH_TIMEOUT_S, engine.name, hits()), with_next=True
        )

    def _date_bound(self, engine: ConfiguredSearchEngine) -> datetime | None:
        return search_bound(engine, self.context.guards.cutoff, backdated=self.context.guards.backdated)

    def _filter_by_date(self, found: Sequence[GuardedResult]) -> tuple[list[GuardedResult], FilterCounts]:
        guards, seen, caught = self.context.guards, set[str](), NOTHING_CAUGHT
        kept = []
        for result in found:
            address = parse_address(result.hit.url)
            if address is None or (key := address.key) in seen:
                continue
            seen.add(key)
            hit, blocks = result.hit, guards.blocks
            if blocks.refusal(hit.url) or (hit.source_url and blocks.refusal(hit.source_url)):
                caught += FilterCounts(blocked=1)
            elif is_after_cutoff(hit.published_at, guards.cutoff, backdated=guards.backdated):
                caught += FilterCounts(dates=1)
            else:
                kept.append(result)
        return kept, caught

    def _filter_by_content(
        self, results: Sequence[GuardedResult], verdict: ContentVerdict
    ) -> tuple[list[GuardedResult], FilterCounts]:
        """Return the results that pass the filter; for an earlier day those that it allowed, without unchecked ones."""
        strict, kept, caught = self.context.guards.backdated and verdict.checked, [], NOTHING_CAUGHT
        for place, result in enumerate(results):
            if place in verdict.dropped:
                caught += FilterCounts(content=1)
            elif strict and place not in verdict.kept:
                caught += FilterCounts(unchecked=1)
            else:
                kept.append(dataclasses.replace(result, checked=True) if place in verdict.kept else result)
        return kept, caught

    def _build_outcome(
        self, number: int, kept: Sequence[GuardedResult], caught: FilterCounts, *, checked: bool
    ) -> ToolOutcome:
        head = [f"search_{number}: {len(kept) or 'no'} {'result' if len(kept) == 1 else 'results'}."]
        if reply := caught.describe("results"):
            head.append(f"{reply[0].upper()}{reply[1:]}.")
        if kept and self.context.guards.backdated and not checked:
            head.append("These results were not checked for information from after the cutoff.")
        text, sources, found = [" ".join(head)], [], []
        for place, result in enumerate(kept, 1):
            source = self._build_source(result, number, place)
            sources.append(source)
            text.append(self._show_source(source))
            url = result.hit.url
            found.append(ShownResult(exchange=result.exchange, place=result.place, url=url, checked=result.checked))
        note = ToolCallNote(
            search=number, found=tuple(found), addresses=tuple([item.url for item in found]), caught=caught
        )
        return ToolOutcome(text="\n".join(text), sources=tuple(sources), note=note)

    def _build_source(self, result: GuardedResult, search: int, place: int) -> ShownSource:
        hit = limit_unchecked_hit(result.hit, self.context, checked=result.checked)
        return ShownSource(
            name=f"search_{search}_result_{place}",
            search=search,
            place=place,
            url=self.context.clean(hit.url, 500),
            # A title of two lines could pose as the address of another page.
            title=" ".join(self.context.clean(hit.title, 300).split()),
            date=hit.published_at.date().isoformat() if hit.published_at else "",
            text=self.context.clean(join_hit_text(hit), self.context.section.snippet_chars),
        )

    def _show_source(self, source: ShownSource) -> str:
        # Each part was cleaned when the source was built.
        head = f"{source.title}\n{source.url} ({source.date or 'no date'})"
        return fence_text(f"{head}\n{source.text}", source.name, 2 * self.context.section.snippet_chars + 1_900)


def select_engines(
    engines: Sequence[ConfiguredSearchEngine], order: Sequence[str], *, backdated: bool
) -> list[ConfiguredSearchEngine]:
    """Return the engines to try, in order: those that config names, or all if it names none."""
    named = {engine.name: engine for engine in engines}
    chosen = [named[name] for name in order if name in named] if order else list(engines)
    return engines_for_cutoff(chosen, backdated=backdated)


def clean_query(text: str) -> str:
    """Return a query in one line and within limits, without operators that would undo the guards."""
    query = " ".join(clean_text(unicodedata.normalize("NFKC", text), 4 * QUERY_CHARS).split())
    while _OPERATORS.search(query) is not None:
        query = " ".join(_OPERATORS.sub(" ", query).split())
    return query[:QUERY_CHARS].strip()


def result_addresses(hit: SearchResult) -> tuple[str, ...]:
    """Return where a result leads: its address, and the one behind it if the engine gives another."""
    return (hit.url, hit.source_url) if hit.source_url else (hit.url,)


def judged_hit_text(hit: SearchResult, context: ToolContext) -> str:
    """Return all that may be shown of a result except its date: this is what the filter judges."""
    parts = (hit.title, context.clean(hit.url, 500), clean_hit_text(hit, context))
    return "\n".join(part for part in parts if part)


def trim_hit(hit: SearchResult, context: ToolContext) -> SearchResult:
    """Return a result as it is recorded: within the limits in which all of it can be read later."""
    if len(hit.snippet) <= EXCERPT_CHARS and len(hit.text) <= context.section.text_chars:
        return hit
    return dataclasses.replace(hit, snippet=hit.snippet[:EXCERPT_CHARS], text=hit.text[: context.section.text_chars])


def limit_unchecked_hit(hit: SearchResult, context: ToolContext, *, checked: bool) -> SearchResult:
    """Return the result as it may be read: if its text was not allowed, only the beginning of its excerpt.

    That is for questions of an earlier day: the text is as it was found later. The excerpt is kept, since the engine
    was bound to that day.
    """
    if checked or not context.guards.backdated:
        return hit
    return dataclasses.replace(hit, snippet=hit.snippet[: context.section.snippet_chars], text="")


def join_hit_text(hit: SearchResult) -> str:
    """Return the excerpt and the text of a result joined; an excerpt that the text repeats is left out."""
    excerpt = hit.snippet.strip()
    if not hit.text:
        return excerpt
    return hit.text if not excerpt or excerpt in hit.text else f"{excerpt}\n{hit.text}"


def clean_hit_text(hit: SearchResult, context: ToolContext) -> str:
    """Return all that may be shown of what an engine returned with a result."""
    return context.clean(join_hit_text(hit), context.section.text_chars + EXCERPT_CHARS)


def find_hit_text(url: str, context: ToolContext) -> str:
    """Return what the newest search that found an address has of it, which may be read; else an empty text.

    The text is also empty if the search showed all of it already.
    """
    wanted = parse_address(url)
    for _, results in sorted(context.memory.searches.items(), reverse=True):
        for found in results:
            address = parse_address(found.url)
            if wanted is not None and address is not None and address.key == wanted.key:
                hit = HITS_SERIALIZER.value(context.record.recorded_value(found.exchange))[found.place]
                cut = limit_unchecked_hit(hit, context, checked=found.checked)
                return clean_hit_text(cut, context) if len(join_hit_text(cut)) > context.section.snippet_chars else ""
    return ""
