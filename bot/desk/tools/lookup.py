"""Reading a page by its address.

For a live question any public address is read. The page that decides a question often stands in its criteria, no
search engine finds it as it is now, and many others a model knows by heart. An address that a model writes itself can
carry out what the model knows. That is accepted, within these bounds:

- Prompts hold no secrets: what could be carried out is the question, what was read, and what the model makes of it.
  An address with a configured secret in it, or with what looks like a key, is refused all the same.
- A page is asked for with GET alone, without cookies, user name or password, at public addresses and the usual ports;
  ``bot.net.web`` holds to that after each redirect too. Who reads a page changes nothing with it.
- An address that the model wrote has at most ``WRITTEN_CHARS`` characters, its query at most ``QUERY_CHARS``.
- Blocked addresses (``bot.desk.leaks.blocks``) are not read, whoever wrote them.

For a question of an earlier day only addresses are read that the trial has come across, and spelled as they were found.
A page as it is now may tell the outcome there, and it is judged by the filter before anybody reads it.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.desk.addresses import ADDRESS_CHARS, address_of, links_in
from bot.desk.leaks.caught import Caught
from bot.desk.notebook import Note
from bot.desk.take import Take
from bot.desk.tools.pages import Reading, judged, page_text, read
from bot.desk.tools.scene import Scene
from bot.desk.tools.search import brought_of
from bot.desk.tools.tool import Cannot, Outcome, described, text_of
from bot.desk.untrusted import quoted
from bot.domain.prompt import Tool
from bot.domain.step import Json
from bot.errors import Rejected
from bot.ids import digest
from bot.net.web.addresses import parse_fetch_target as read_target
from bot.redact import said

NAME = "lookup_url"
WRITTEN_CHARS = 2_000
QUERY_CHARS = 500
_LINKS = 100
# Titles are short, and so are words: a piece of a page ends with a whole one.
_TITLE_CHARS = 500
_WORD_CHARS = 2_000
_BLANK = re.compile(r"\s")
_LIVE = (
    "Read a page of the web as it is now. Any public http or https address can be read: a search result, a page that "
    "the question names in its title, background or criteria, or a page that you know. Where the question names pages, "
    "read them first: they often decide it. Sites of prediction markets and forecasts are not read, unless the "
    "criteria name the page."
)
_EARLIER = (
    "Read a page. Only addresses from search results or from pages read before can be read. Pages that the question "
    "names are not read, since they may tell its outcome."
)
_ACCEPTED = (
    f"{NAME} reads public http and https addresses of at most {WRITTEN_CHARS} characters, at most {QUERY_CHARS} of "
    "them after the question mark, without user name, password or key. It does not read private networks. Of sites of "
    "prediction markets and forecasts it reads only pages that the criteria name."
)
_ACCEPTED_EARLIER = f"{NAME} reads addresses from search results and from pages read before, and no others."


@dataclass(frozen=True, slots=True)
class LookupUrl:
    """Reads a page by its address."""

    scene: Scene

    @property
    def tool(self) -> Tool:
        return described(
            NAME,
            _EARLIER if self.scene.guards.backdated else _LIVE,
            {
                "url": text_of("the address, with https:// in front", ADDRESS_CHARS),
                "part": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "which part of a long page, from 1; left out: the first",
                },
            },
            required=("url",),
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        url, number = self._address(str(arguments["url"])), _number(arguments.get("part"))
        reading, count = self._piece(await read(url, self.scene, take), number)
        (reading,) = await judged([reading], self.scene, take, limit=self._limit)
        if reading.page is None:
            return self._instead(url, reading)
        return self._outcome(url, _place(number, count), page_text(reading.page, self.scene, self._limit))

    def _address(self, asked: str) -> str:
        """Return the address to be read; raises Cannot for one that is not."""
        if (why := self.scene.guards.blocks.refusal(asked)) is not None:
            raise self._refused(why, Caught(blocked=1))
        address = address_of(asked)
        known = None if address is None else self.scene.notebook.known.get(address.key)
        if known is not None:
            # Not the model's spelling of it: no letter of its own leaves.
            return known
        if self.scene.guards.backdated:
            why = "the address comes neither from a search result nor from a page read before"
            raise self._refused(why)
        return self._written(asked.strip())

    def _written(self, asked: str) -> str:
        """Return an address that the model wrote itself; raises Cannot for one beyond the bounds."""
        url = asked if "://" in asked else f"https://{asked}"
        try:
            target = read_target(url).url
        except Rejected as error:
            # Without the address, which may say anything.
            raise self._refused(str(error).rpartition(": ")[2]) from error
        faults = {
            f"the address has more than {WRITTEN_CHARS} characters": len(target) > WRITTEN_CHARS,
            f"the address has more than {QUERY_CHARS} characters after the question mark": len(urlsplit(target).query)
            > QUERY_CHARS,
            "the address holds a password, or what looks like a key": said(target) != target,
        }
        if why := next((why for why, holds in faults.items() if holds), None):
            raise self._refused(why)
        return target

    def _refused(self, why: str, caught: Caught | None = None) -> Cannot:
        accepted = _ACCEPTED_EARLIER if self.scene.guards.backdated else _ACCEPTED
        return Cannot(f"The page was not read: {why}. {accepted}", caught=caught)

    def _piece(self, reading: Reading, number: int) -> tuple[Reading, int]:
        """Return the reading with this part of its page alone, and how many parts there are; raises Cannot."""
        if reading.page is None:
            return reading, 0
        text, chars = reading.page.text, self.scene.section.page_chars
        count = max(1, -(-len(text) // chars))
        if number > count:
            message = f"The page has {count} {'part' if count == 1 else 'parts'}, so there is no part {number}."
            raise Cannot(message)
        piece = text[_end_of_word(text, (number - 1) * chars) : _end_of_word(text, number * chars)].strip()
        title = reading.page.title[:_TITLE_CHARS]
        return dataclasses.replace(reading, page=dataclasses.replace(reading.page, title=title, text=piece)), count

    def _instead(self, url: str, reading: Reading) -> Outcome:
        """Return what a search brought of a page that is not to be had; raises Cannot where there is nothing of it."""
        # A page that a guard kept back tells too much, and so may whatever else there is of it.
        text = brought_of(url, self.scene) if reading.caught == Caught() else ""
        if not text:
            message = f"The page was not read: {reading.why}."
            raise Cannot(message, caught=reading.caught)
        told = f"The page itself was not read: {reading.why}. This is what the search engine brought of it.\n"
        return self._outcome(url, told, text)

    def _outcome(self, url: str, told: str, text: str) -> Outcome:
        fenced = quoted(text, f"page_{digest(url.encode())[:8]}", 2 * len(text) + 100)
        return Outcome(text=f"{told}{fenced}", note=Note(addresses=readable_links(text, self.scene)))

    @property
    def _limit(self) -> int:
        return self.scene.section.page_chars + _WORD_CHARS + _TITLE_CHARS


def readable_links(text: str, scene: Scene) -> tuple[str, ...]:
    """Return the addresses in a text that has been read, without blocked ones."""
    links = (link for link in links_in(text) if scene.guards.blocks.refusal(link) is None)
    return tuple(link for link, _ in zip(links, range(_LINKS), strict=False))


def _place(number: int, count: int) -> str:
    """Return which part of a page it is and how the next one is had; nothing for a page of one part."""
    following = f" For the next, use {NAME} with part = {number + 1}." if number < count else ""
    return f"This is part {number} of {count} of the page.{following}\n" if count > 1 else ""


def _number(part: Json) -> int:
    # JSON schema takes 2.0 for a whole number, and so do models.
    return int(part) if isinstance(part, int | float) else 1


def _end_of_word(text: str, place: int) -> int:
    """Return where the word at a place ends, so that no address is torn; 0 for the beginning."""
    if place <= 0 or place >= len(text):
        return min(max(place, 0), len(text))
    found = _BLANK.search(text, place, place + _WORD_CHARS)
    return found.start() if found else place
