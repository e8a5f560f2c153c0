"""Reading an address that the trial has come across; one that a model makes up could carry out what it knows."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.desk.addresses import ADDRESS_CHARS, address_of, links_in
from bot.desk.leaks.caught import Caught
from bot.desk.notebook import Note
from bot.desk.take import Take
from bot.desk.tools.pages import judged, page_text, read
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import Cannot, Outcome, described, text_of
from bot.desk.untrusted import quoted
from bot.domain.prompt import Tool
from bot.domain.step import Json
from bot.ids import digest

NAME = "lookup_url"
_LINKS = 100


@dataclass(frozen=True, slots=True)
class LookupUrl:
    """Reads a page by its address."""

    scene: Scene

    @property
    def tool(self) -> Tool:
        return described(
            NAME,
            "Read a page. Only addresses from search results, from the question, or from pages read before.",
            {"url": text_of("the address, exactly as it was given", ADDRESS_CHARS)},
            required=("url",),
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        url = self._known(str(arguments["url"]))
        (reading,) = await judged([await read(url, self.scene, take)], self.scene, take)
        if reading.page is None:
            message = f"The page was not read: {reading.why}."
            raise Cannot(message, caught=reading.caught)
        text = page_text(reading.page, self.scene)
        label = f"page_{digest(url.encode())[:8]}"
        return Outcome(
            text=quoted(text, label, 2 * len(text) + 100),
            note=Note(addresses=readable_links(text, self.scene)),
        )

    def _known(self, asked: str) -> str:
        if (why := self.scene.guards.blocks.refusal(asked)) is not None:
            message = f"The page was not read: {why}."
            raise Cannot(message, caught=Caught(blocked=1))
        address = address_of(asked)
        known = None if address is None else self.scene.notebook.known.get(address.key)
        if known is None:
            message = (
                "The page was not read: the address comes neither from a search result, nor from the question, nor "
                "from a page read before."
            )
            raise Cannot(message)
        # Not the model's spelling of it: no letter of its own leaves.
        return known


def readable_links(text: str, scene: Scene) -> tuple[str, ...]:
    """Return the addresses in a text that has been read, without blocked ones."""
    links = (link for link in links_in(text) if scene.guards.blocks.refusal(link) is None)
    return tuple(link for link, _ in zip(links, range(_LINKS), strict=False))
