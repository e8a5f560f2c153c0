"""Tools that read pages: web pages as they are now, and pages of reference works as they were before the cutoff.

For a live question any public web address is read. The criteria often name the page that decides a question, no search
engine has its present version, and a model knows many others by heart. An address that a model writes itself can
carry out what the model knows. That is accepted, within these limits:

- Prompts hold no secrets: only the question, what was read, and what the model makes of it can leak. An address with a
    configured secret in it, or with what looks like a key, is refused.
- A page is requested with GET only, without cookies, user name or password, at public addresses and the usual ports;
    ``bot.net.web`` enforces that after each redirect too. Reading a page changes nothing.
- An address that the model wrote has at most ``WRITTEN_CHARS`` characters, its query at most ``QUERY_CHARS``.
- Blocked addresses (``bot.forecasting.leak_guard.blocked_addresses``) are not read, even if the model wrote them.

For a question of an earlier day only addresses are read that the trial has found, spelled as they were found. The
present version of a page may reveal the outcome, so the filter judges it before any other model reads it.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from bot.core.beliefs import ShownSource
from bot.core.errors import FoxcastError, RequestRejectedError, StoreError
from bot.core.ids import sha256_hex
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_known_secrets, redact_message
from bot.core.research import PageText, Passage
from bot.core.values import Json
from bot.forecasting.failures import run_with_timeout
from bot.forecasting.leak_guard.blocked_addresses import REFUSALS
from bot.forecasting.leak_guard.content_filter import judge_content
from bot.forecasting.leak_guard.cutoff import is_after_cutoff, is_revised_late
from bot.forecasting.services import ConfiguredPageSource
from bot.forecasting.tools.base import ToolContext, define_tool, describe_failure, text_schema
from bot.forecasting.tools.web_search import find_hit_text
from bot.forecasting.trial_memory import LOOKUP_URL, FilterCounts, ToolCallNote
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.forecasting.untrusted_text import fence_text
from bot.forecasting.web_addresses import ADDRESS_CHARS, find_links, parse_address
from bot.net.web.addresses import parse_fetch_target as read_target
from bot.store.serialization import JsonSerializer

# Fetching and reading have limits of their own, 15 s and 5 s; this one also covers the wait for a reader.
PAGE_TIMEOUT_S = 45.0
_PAGE_SERIALIZER: JsonSerializer[PageText] = JsonSerializer("page", PageText)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReading:
    """A page, or why there is none; ``caught`` says whether a guard stopped it."""

    page: PageText | None = None
    why: str = ""
    caught: FilterCounts = field(default_factory=FilterCounts)


async def read_page(url: str, context: ToolContext, trace: ToolCallTrace) -> PageReading:
    """Return the page at an address, unless it is blocked, late or not available."""
    blocked = context.guards.blocks.refusal(url)
    if blocked is None:
        try:
            reply = await trace.replay_or_run(
                "page", {"url": url}, lambda: run_with_timeout(PAGE_TIMEOUT_S, "the page", _fetch_page(url, context))
            )
        except StoreError:
            raise
        except FoxcastError as error:
            return PageReading(why=describe_failure(error))
        blocked = reply.value.get("blocked")
    if blocked is not None:
        return PageReading(why=blocked, caught=FilterCounts(blocked=1))
    page = _PAGE_SERIALIZER.value(reply.value["page"])
    # The target of a redirect may have been blocked since.
    if (blocked := context.guards.blocks.refusal(page.url)) is not None:
        return PageReading(why=blocked, caught=FilterCounts(blocked=1))
    if is_after_cutoff(page.published_at, context.guards.cutoff, backdated=context.guards.backdated):
        return PageReading(why="the page is dated after the cutoff", caught=FilterCounts(dates=1))
    return PageReading(page=page)


async def filter_pages(
    readings: list[PageReading], context: ToolContext, trace: ToolCallTrace, *, limit: int
) -> list[PageReading]:
    """Return the readings without pages that reveal, or may reveal unchecked, what happened after the cutoff.

    ``limit`` is how much of each is used, in characters: that much is judged.
    """
    places = [place for place, reading in enumerate(readings) if reading.page is not None]
    verdict = await judge_content([page_text(readings[place].page, context, limit) for place in places], context, trace)
    after = list(readings)
    for number, place in enumerate(places):
        if number in verdict.dropped:
            after[place] = PageReading(
                why="the page reports what happened after the cutoff", caught=FilterCounts(content=1)
            )
        elif number not in verdict.kept and context.guards.backdated:
            after[place] = PageReading(why="the page could not be checked for information from after the cutoff")
    return after


def page_text(page: PageText | None, context: ToolContext, limit: int) -> str:
    """Return the used part of a page: its title and the beginning of its text, up to this many characters."""
    return "" if page is None else context.clean(f"{page.title}\n{page.text}".strip(), limit)


async def _fetch_page(url: str, context: ToolContext) -> dict[str, Any]:
    blocks = context.guards.blocks
    try:
        # Not a closure: in a backtest on several machines the pages are fetched by the first one.
        fetched = await context.fetcher.fetch(url, refusal=blocks.refusal)
    except RequestRejectedError as error:
        if str(error) not in REFUSALS:
            raise
        return {"blocked": str(error)}
    if (why := blocks.refusal(fetched.url)) is not None:
        return {"blocked": why}
    return {"page": _PAGE_SERIALIZER.plain(await context.reader.read(fetched))}


WRITTEN_CHARS = 2_000
QUERY_CHARS = 500
_LINKS = 100
# Titles are short, and so are words: a part of a page ends with a whole word.
_TITLE_CHARS = 500
_WORD_CHARS = 2_000
_BLANK = re.compile(r"\s")
_LIVE_DESCRIPTION = (
    "Read a page of the web as it is now. Any public http or https address can be read: a search result, a page that "
    "the question names in its title, background or criteria, or a page that you know. Where the question names pages, "
    "read them first: they often decide it. Sites of prediction markets and forecasts are not read, unless the "
    "criteria name the page."
)
_BACKDATED_DESCRIPTION = (
    "Read a page. Only addresses from search results or from pages read before can be read. Pages that the question "
    "names are not read, since they may tell its outcome."
)
_ACCEPTED = (
    f"{LOOKUP_URL} reads public http and https addresses of at most {WRITTEN_CHARS} characters, "
    f"at most {QUERY_CHARS} of them after the question mark, without user name, password or key. "
    "It does not read private networks. "
    "Of sites of prediction markets and forecasts it reads only pages that the criteria name."
)
_ACCEPTED_BACKDATED = f"{LOOKUP_URL} reads addresses from search results and from pages read before, and no others."


@dataclass(frozen=True, slots=True)
class LookupUrlTool:
    """Reads a page by its address."""

    context: ToolContext

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            LOOKUP_URL,
            _BACKDATED_DESCRIPTION if self.context.guards.backdated else _LIVE_DESCRIPTION,
            {
                "url": text_schema("the address, with https:// in front", ADDRESS_CHARS),
                "part": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "which part of a long page, from 1; left out: the first",
                },
            },
            required=("url",),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        url, number = self._readable_address(str(arguments["url"])), _part_number(arguments.get("part"))
        reading, count = self._select_part(await read_page(url, self.context, trace), number)
        (reading,) = await filter_pages([reading], self.context, trace, limit=self._limit)
        if reading.page is None:
            return self._search_excerpt(url, reading)
        text = page_text(reading.page, self.context, self._limit)
        return self._build_outcome(url, _describe_part(number, count), text, data={"part": number, "parts": count})

    def _readable_address(self, asked: str) -> str:
        """Return the address to be read; raises ToolCallError for a refused one."""
        if (why := self.context.guards.blocks.refusal(asked)) is not None:
            raise self._refusal_error(why, FilterCounts(blocked=1))
        address = parse_address(asked)
        known = None if address is None else self.context.memory.readable_addresses.get(address.key)
        if known is not None:
            # Not the model's spelling of it, which could carry information out.
            return known
        if self.context.guards.backdated:
            why = "the address comes neither from a search result nor from a page read before"
            raise self._refusal_error(why)
        return self._check_written_address(asked.strip())

    def _check_written_address(self, asked: str) -> str:
        """Return an address that the model wrote itself; raises ToolCallError for one beyond the limits."""
        url = asked if "://" in asked else f"https://{asked}"
        try:
            target = read_target(url).url
        except RequestRejectedError as error:
            # Without the address, which may say anything.
            raise self._refusal_error(str(error).rpartition(": ")[2]) from error
        faults = {
            f"the address has more than {WRITTEN_CHARS} characters": len(target) > WRITTEN_CHARS,
            f"the address has more than {QUERY_CHARS} characters after the question mark": len(urlsplit(target).query)
            > QUERY_CHARS,
            "the address holds a password, or what looks like a key": redact_message(target) != target,
        }
        if why := next((why for why, holds in faults.items() if holds), None):
            raise self._refusal_error(why)
        return target

    def _refusal_error(self, why: str, caught: FilterCounts | None = None) -> ToolCallError:
        accepted = _ACCEPTED_BACKDATED if self.context.guards.backdated else _ACCEPTED
        return ToolCallError(f"The page was not read: {why}. {accepted}", caught=caught)

    def _select_part(self, reading: PageReading, number: int) -> tuple[PageReading, int]:
        """Return the reading with only this part of its page, and how many parts there are; raises ToolCallError."""
        if reading.page is None:
            return reading, 0
        text, chars = reading.page.text, self.context.section.page_chars
        count = max(1, -(-len(text) // chars))
        if number > count:
            message = f"The page has {count} {'part' if count == 1 else 'parts'}, so there is no part {number}."
            raise ToolCallError(message)
        piece = text[_find_word_end(text, (number - 1) * chars) : _find_word_end(text, number * chars)].strip()
        title = reading.page.title[:_TITLE_CHARS]
        return dataclasses.replace(reading, page=dataclasses.replace(reading.page, title=title, text=piece)), count

    def _search_excerpt(self, url: str, reading: PageReading) -> ToolOutcome:
        """Return what a search found of an unavailable page; raises ToolCallError if it found nothing."""
        # A page that a guard stopped reveals too much, and so may the search's text of it.
        text = find_hit_text(url, self.context) if reading.caught == FilterCounts() else ""
        if not text:
            message = f"The page was not read: {reading.why}."
            raise ToolCallError(message, caught=reading.caught)
        remark = f"The page itself was not read: {reading.why}. This is what the search engine returned of it.\n"
        return self._build_outcome(url, remark, text)

    def _build_outcome(self, url: str, remark: str, text: str, *, data: Json = None) -> ToolOutcome:
        source = ShownSource(name=f"page_{sha256_hex(url.encode())[:8]}", url=url, text=text)
        fenced = fence_text(text, source.name, 2 * len(text) + 100)
        note = ToolCallNote(addresses=find_readable_links(text, self.context))
        return ToolOutcome(text=f"{remark}{fenced}", data=data, sources=(source,), note=note)

    @property
    def _limit(self) -> int:
        return self.context.section.page_chars + _WORD_CHARS + _TITLE_CHARS


def find_readable_links(text: str, context: ToolContext) -> tuple[str, ...]:
    """Return the addresses in a text that has been read, without blocked ones."""
    links = (link for link in find_links(text) if context.guards.blocks.refusal(link) is None)
    return tuple(link for link, _ in zip(links, range(_LINKS), strict=False))


def _describe_part(number: int, count: int) -> str:
    """Return which part of a page it is and how to get the next one; nothing for a page of one part."""
    following = f" For the next, use {LOOKUP_URL} with part = {number + 1}." if number < count else ""
    return f"This is part {number} of {count} of the page.{following}\n" if count > 1 else ""


def _part_number(part: Json) -> int:
    # JSON schema accepts 2.0 as a whole number, and so do models.
    return int(part) if isinstance(part, int | float) else 1


def _find_word_end(text: str, place: int) -> int:
    """Return where the word at a position ends, so that no address is cut; 0 for the beginning."""
    if place <= 0 or place >= len(text):
        return min(max(place, 0), len(text))
    found = _BLANK.search(text, place, place + _WORD_CHARS)
    return found.start() if found else place


PAGE_SOURCE_TIMEOUT_S = 30.0
_PASSAGE_SERIALIZER: JsonSerializer[Passage] = JsonSerializer("passage", Passage)
_HEADINGS_SERIALIZER: JsonSerializer[Sequence[str]] = JsonSerializer("list of headings", tuple[str, ...])
_PAGE_ARGUMENT = text_schema("title or address of the page", 500)


@dataclass(frozen=True, slots=True)
class PageHeadingsTool:
    """Reads the headings of a page."""

    context: ToolContext
    page_source: ConfiguredPageSource

    @property
    def tool(self) -> ToolDefinition:
        name = self.page_source.spec.name
        says = f"The headings of a page of {name} as it was before the cutoff."
        return define_tool(f"fetch_{name}_toc", says, {"page": _PAGE_ARGUMENT}, required=("page",))

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        page, before, source = redact_known_secrets(str(arguments["page"])), self.context.data_before, self.page_source

        async def make() -> object:
            return _HEADINGS_SERIALIZER.plain(await source.source.page_headings(page, before=before))

        asked = {"page_source": source.spec.name, "page": page, "before": before.isoformat()}
        try:
            reply = await trace.replay_or_run(
                "contents", asked, lambda: run_with_timeout(PAGE_SOURCE_TIMEOUT_S, source.spec.name, make())
            )
        except StoreError:
            raise
        except FoxcastError as error:
            message = f"The page was not read: {describe_failure(error)}."
            raise ToolCallError(message) from error
        headings = "\n".join(str(heading) for heading in reply.value)
        if not headings:
            return ToolOutcome(text="The page has no headings; all of its text is under the heading ''.")
        label = f"headings of a page of {source.spec.name}"
        text = self.context.fence(headings, label, self.context.section.page_chars)
        return ToolOutcome(text=text, sources=(ShownSource(name=label),))


@dataclass(frozen=True, slots=True)
class PageSectionTool:
    """Reads the text under a heading."""

    context: ToolContext
    page_source: ConfiguredPageSource

    @property
    def tool(self) -> ToolDefinition:
        name = self.page_source.spec.name
        return define_tool(
            f"fetch_{name}_section",
            f"The text under a heading of a page of {name} as it was before the cutoff.",
            {
                "page": _PAGE_ARGUMENT,
                "heading": {
                    "type": "string",
                    "maxLength": 500,
                    "description": "the heading; '' for the text before the first one",
                },
            },
            required=("page", "heading"),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        page, heading = (redact_known_secrets(str(arguments[name])) for name in ("page", "heading"))
        before = self.context.data_before
        source = self.page_source

        async def make() -> object:
            return _PASSAGE_SERIALIZER.plain(await source.source.section(page, heading, before=before))

        asked = {"page_source": source.spec.name, "page": page, "heading": heading, "before": before.isoformat()}
        try:
            reply = await trace.replay_or_run(
                "section", asked, lambda: run_with_timeout(PAGE_SOURCE_TIMEOUT_S, source.spec.name, make())
            )
        except StoreError:
            raise
        except FoxcastError as error:
            message = f"The section was not read: {describe_failure(error)}."
            raise ToolCallError(message) from error
        return self._build_outcome(_PASSAGE_SERIALIZER.value(reply.value))

    def _build_outcome(self, passage: Passage) -> ToolOutcome:
        if is_revised_late(passage, self.context.guards.cutoff):
            message = "The section was not read: its text is from after the cutoff."
            raise ToolCallError(message, caught=FilterCounts(clamped=1))
        head = f"{passage.page}\n{passage.heading}\n{passage.url} (as of {passage.revised_at.date().isoformat()})"
        limit = self.context.section.passage_chars
        text = self.context.clean(passage.text, limit)
        label = f"section of {self.page_source.spec.name}"
        return ToolOutcome(
            text=self.context.fence(f"{head}\n{text}", label, limit + 2_000),
            sources=(ShownSource(name=label, url=self.context.clean(passage.url, 500), text=text),),
            note=ToolCallNote(addresses=find_readable_links(text, self.context)),
        )
