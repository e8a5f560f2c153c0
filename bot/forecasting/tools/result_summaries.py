"""Reading results of a search in full, through a model that extracts what matters for the question.

If no model plays the role, or it does not answer, the beginnings of the texts are shown instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from bot.core.beliefs import ShownSource
from bot.core.concurrency import gather_all
from bot.core.errors import FoxcastError, StoreError
from bot.core.language_models import Message, MessageRole, Prompt, ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.research import SearchResult
from bot.core.values import Json
from bot.forecasting.prompt_files import fill_role_prompt, role_prompt_source
from bot.forecasting.tools.base import ToolContext, define_tool, text_schema
from bot.forecasting.tools.page_reading import PageReading, filter_pages, find_readable_links, page_text, read_page
from bot.forecasting.tools.web_search import EXCERPT_CHARS, HITS_SERIALIZER, clean_hit_text, limit_unchecked_hit
from bot.forecasting.trial_memory import SUMMARIZE_RESULTS, FilterCounts, ShownResult, ToolCallNote
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.forecasting.untrusted_text import clean_text, fence_text

SUMMARISER_ROLE = "summariser"
_QUESTION_CHARS = 1000
_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySource:
    """One result as it is read: title and address, its text ("" if it is left out), and a remark on it."""

    label: str
    head: str = ""
    text: str
    remark: str = ""
    caught: FilterCounts = field(default_factory=FilterCounts)

    def fence(self, limit: int) -> str:
        """Return it in its fence, with this many characters of its text."""
        inside = f"{self.head}\n{clean_text(self.text, limit)}"
        return fence_text(inside, self.label, 2 * len(inside) + 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeResultsTool:
    """Reads the pages of a search; ``has_summariser`` says whether a model plays the role."""

    context: ToolContext
    has_summariser: bool

    @property
    def tool(self) -> ToolDefinition:
        number: dict[str, Json] = {"type": "integer", "minimum": 1}
        return define_tool(
            SUMMARIZE_RESULTS,
            "Read up to 20 results of an earlier search in full at once; returns what they say about your question.",
            {
                "search_index": {**number, "description": "i of search_i"},
                "result_indices": {
                    "type": "array",
                    "items": number,
                    "minItems": 1,
                    "maxItems": 20,
                    "description": "the numbers j of search_i_result_j",
                },
                "question": text_schema("what to look for in them", _QUESTION_CHARS),
            },
            required=("search_index", "result_indices", "question"),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        chosen = self._choose_results(arguments)
        sources = await self._read_sources(chosen, trace)
        caught = sum((source.caught for source in sources), FilterCounts())
        readable = [source for source in sources if source.text]
        remarks = "\n".join(f"{source.label}: {source.remark}." for source in sources if source.remark)
        if not readable:
            message = f"None of these results could be read.\n{remarks}"
            raise ToolCallError(message, caught=caught)
        summary = (
            await self._summarize_sources(readable, str(arguments["question"]), trace) if self.has_summariser else None
        )
        links = tuple(link for source in readable for link in find_readable_links(source.text, self.context))
        return ToolOutcome(
            text="\n".join(filter(None, (remarks, summary or self._show_excerpts(readable)))),
            sources=tuple(ShownSource(name=source.label) for source in readable),
            note=ToolCallNote(caught=caught, addresses=tuple(dict.fromkeys(links))),
        )

    def _choose_results(self, arguments: Mapping[str, Json]) -> dict[str, ShownResult]:
        (number,), indices = _whole_numbers([arguments["search_index"]]), _whole_numbers(arguments["result_indices"])
        found = self.context.memory.searches.get(number, ())
        known = {f"search_{number}_result_{place}": found[place - 1] for place in indices if place <= len(found)}
        if not known:
            searches = self.context.memory.searches.items()
            available = ", ".join(f"search_{which} with {len(results)} results" for which, results in sorted(searches))
            message = f"There is no such result. There are: {available or 'no searches yet'}."
            raise ToolCallError(message)
        return known

    async def _read_sources(self, chosen: Mapping[str, ShownResult], trace: ToolCallTrace) -> list[SummarySource]:
        hits = {label: self._load_result(found) for label, found in chosen.items()}
        branches = {label: trace.branch() for label in chosen}
        read = await gather_all(self._read_page(hit, branches[label]) for label, hit in hits.items())
        for branch in branches.values():
            trace.join(branch)
        readings = await filter_pages(read, self.context, trace, limit=self._limit)
        return [self._build_source(label, hit, page) for (label, hit), page in zip(hits.items(), readings, strict=True)]

    def _load_result(self, found: ShownResult) -> SearchResult:
        hit = HITS_SERIALIZER.value(self.context.record.recorded_value(found.exchange))[found.place]
        return limit_unchecked_hit(hit, self.context, checked=found.checked)

    async def _read_page(self, hit: SearchResult, trace: ToolCallTrace) -> PageReading:
        if hit.text:
            return PageReading(why="brought")
        if not self.context.guards.allows_current_pages:
            return PageReading(why="pages are not read as they are now")
        return await read_page(hit.url, self.context, trace)

    def _build_source(self, label: str, hit: SearchResult, reading: PageReading) -> SummarySource:
        head = self.context.clean(f"{clean_text(hit.title, _TITLE_CHARS)}\n{clean_text(hit.url, 500)}", 900)
        if reading.caught != FilterCounts():
            return SummarySource(label=label, text="", remark=f"left out, {reading.why}", caught=reading.caught)
        page, kept = page_text(reading.page, self.context, self._limit), clean_hit_text(hit, self.context)
        # The excerpts of an engine may come from a part of the page beyond the limit for reading.
        text = "\n".join(part for part in (page, "" if kept in page else kept) if part)
        remark = "" if page or hit.text else f"only its excerpt was read, since {reading.why}"
        return SummarySource(label=label, head=head, text=text, remark=remark)

    async def _summarize_sources(
        self, sources: Sequence[SummarySource], asked: str, trace: ToolCallTrace
    ) -> str | None:
        system = fill_role_prompt("summarise")
        await trace.store_text(role_prompt_source("summarise"))
        question = self.context.question
        parts = (
            fence_text(question.title, "question", 2_000),
            fence_text(question.criteria, "resolution criteria", 4_000) if question.criteria.strip() else "",
            f"The forecaster asks: {fence_text(asked, 'request', _QUESTION_CHARS)}",
            *(f"[{source.label}]\n{source.fence(2 * self._limit + EXCERPT_CHARS)}" for source in sources),
        )
        messages = (
            Message(speaker=MessageRole.SYSTEM, text=system),
            Message(speaker=MessageRole.USER, text="\n\n".join(filter(None, parts))),
        )
        try:
            answer = await trace.ask(SUMMARISER_ROLE, Prompt(messages=messages))
        except StoreError:
            raise
        except FoxcastError:
            return None
        # The text of a model that read pages is as untrusted as the pages.
        text = self.context.clean(answer.completion.text, self.context.section.passage_chars)
        label = f"summary of {', '.join(source.label for source in sources)}"
        return fence_text(text, label, 2 * len(text) + 100) if text else None

    def _show_excerpts(self, sources: Sequence[SummarySource]) -> str:
        each = min(self.context.section.page_chars, self.context.section.passage_chars // len(sources))
        return "\n".join(source.fence(each) for source in sources)

    @property
    def _limit(self) -> int:
        return self.context.section.text_chars


def _whole_numbers(values: Json) -> list[int]:
    # JSON schema accepts 2.0 as a whole number, and so do models.
    return [int(value) for value in values if isinstance(value, int | float)] if isinstance(values, list) else []
