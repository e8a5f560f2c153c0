"""Reading a page by its address.

For a live question any public address is read. The criteria often name the page that decides a question, no search
engine has its present version, and a model knows many others by heart. An address that a model writes itself can
carry out what the model knows. That is accepted, within these limits:

- Prompts hold no secrets: the most that can leak is the question, what was read, and what the model makes of it.
    An address with a configured secret in it, or with what looks like a key, is refused.
- A page is requested with GET only, without cookies, user name or password, at public addresses and the usual ports;
    ``bot.net.web`` enforces that after each redirect too. Reading a page changes nothing with it.
- An address that the model wrote has at most ``WRITTEN_CHARS`` characters, its query at most ``QUERY_CHARS``.
- Blocked addresses (``bot.forecasting.leak_guard.blocked_addresses``) are not read, even if the model wrote them.

For a question of an earlier day only addresses are read that the trial has found, spelled as they were found. The
present version of a page may reveal the outcome, so the filter judges it before anybody reads it.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.core.beliefs import ShownSource
from bot.core.errors import RequestRejectedError
from bot.core.ids import sha256_hex
from bot.core.language_models import ToolDefinition
from bot.core.redaction import redact_message
from bot.core.values import Json
from bot.forecasting.leak_guard.filter_counts import FilterCounts
from bot.forecasting.tools.base import ToolContext
from bot.forecasting.tools.definitions import LOOKUP_URL, define_tool, text_schema
from bot.forecasting.tools.page_reading import PageReading, filter_pages, page_text, read_page
from bot.forecasting.tools.web_search import find_hit_text
from bot.forecasting.trial_memory import ToolCallNote
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.forecasting.untrusted_text import fence_text
from bot.forecasting.web_addresses import ADDRESS_CHARS, find_links, parse_address
from bot.net.web.addresses import parse_fetch_target as read_target

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
        url, number = self._address(str(arguments["url"])), _part_number(arguments.get("part"))
        reading, count = self._select_part(await read_page(url, self.context, trace), number)
        (reading,) = await filter_pages([reading], self.context, trace, limit=self._limit)
        if reading.page is None:
            return self._search_excerpt(url, reading)
        text = page_text(reading.page, self.context, self._limit)
        return self._outcome(url, _describe_part(number, count), text, data={"part": number, "parts": count})

    def _address(self, asked: str) -> str:
        """Return the address to be read; raises ToolCallError for a refused one."""
        if (why := self.context.guards.blocks.refusal(asked)) is not None:
            raise self._refused(why, FilterCounts(blocked=1))
        address = parse_address(asked)
        known = None if address is None else self.context.memory.readable_addresses.get(address.key)
        if known is not None:
            # Not the model's spelling of it, which could carry information out.
            return known
        if self.context.guards.backdated:
            why = "the address comes neither from a search result nor from a page read before"
            raise self._refused(why)
        return self._check_written_address(asked.strip())

    def _check_written_address(self, asked: str) -> str:
        """Return an address that the model wrote itself; raises ToolCallError for one beyond the limits."""
        url = asked if "://" in asked else f"https://{asked}"
        try:
            target = read_target(url).url
        except RequestRejectedError as error:
            # Without the address, which may say anything.
            raise self._refused(str(error).rpartition(": ")[2]) from error
        faults = {
            f"the address has more than {WRITTEN_CHARS} characters": len(target) > WRITTEN_CHARS,
            f"the address has more than {QUERY_CHARS} characters after the question mark": len(urlsplit(target).query)
            > QUERY_CHARS,
            "the address holds a password, or what looks like a key": redact_message(target) != target,
        }
        if why := next((why for why, holds in faults.items() if holds), None):
            raise self._refused(why)
        return target

    def _refused(self, why: str, caught: FilterCounts | None = None) -> ToolCallError:
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
        remark = f"The page itself was not read: {reading.why}. This is what the search engine brought of it.\n"
        return self._outcome(url, remark, text)

    def _outcome(self, url: str, remark: str, text: str, *, data: Json = None) -> ToolOutcome:
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
