"""Pages of a reference work as they stood before the cutoff: first the headings, then a section at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.desk.leaks.caught import Caught
from bot.desk.leaks.clamp import is_revised_late
from bot.desk.notebook import Note
from bot.desk.parts import Shelf
from bot.desk.take import Take, within
from bot.desk.tools.lookup import readable_links
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import Cannot, Outcome, described, reason, text_of
from bot.domain.prompt import Tool
from bot.domain.research import Passage
from bot.domain.step import Json
from bot.errors import FoxcastError, StoreError
from bot.store.codec import Form

SHELF_S = 30.0
_PASSAGE: Form[Passage] = Form("passage", Passage)
_HEADINGS: Form[Sequence[str]] = Form("list of headings", tuple[str, ...])
_PAGE = text_of("title or address of the page", 500)


@dataclass(frozen=True, slots=True)
class ShelfContents:
    """Reads the headings of a page."""

    scene: Scene
    shelf: Shelf

    @property
    def tool(self) -> Tool:
        name = self.shelf.spec.name
        says = f"The headings of a page of {name} as it stood before the cutoff."
        return described(f"fetch_{name}_toc", says, {"page": _PAGE}, required=("page",))

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        page, before, shelf = str(arguments["page"]), self.scene.bound, self.shelf

        async def make() -> object:
            return _HEADINGS.plain(await shelf.source.contents(page, before=before))

        asked = {"shelf": shelf.spec.name, "page": page, "before": before.isoformat()}
        try:
            told = await take.through("contents", asked, lambda: within(SHELF_S, shelf.spec.name, make()))
        except StoreError:
            raise
        except FoxcastError as error:
            message = f"The page was not read: {reason(error)}."
            raise Cannot(message) from error
        headings = "\n".join(str(heading) for heading in told.plain)
        if not headings:
            return Outcome(text="The page has no headings; all of its text stands under the heading ''.")
        label = f"headings of a page of {shelf.spec.name}"
        return Outcome(text=self.scene.quoted(headings, label, self.scene.section.page_chars))


@dataclass(frozen=True, slots=True)
class ShelfSection:
    """Reads the text under a heading."""

    scene: Scene
    shelf: Shelf

    @property
    def tool(self) -> Tool:
        name = self.shelf.spec.name
        return described(
            f"fetch_{name}_section",
            f"The text under a heading of a page of {name} as it stood before the cutoff.",
            {
                "page": _PAGE,
                "heading": {
                    "type": "string",
                    "maxLength": 500,
                    "description": "the heading; '' for what stands before the first",
                },
            },
            required=("page", "heading"),
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        page, heading, before = str(arguments["page"]), str(arguments["heading"]), self.scene.bound
        shelf = self.shelf

        async def make() -> object:
            return _PASSAGE.plain(await shelf.source.section(page, heading, before=before))

        asked = {"shelf": shelf.spec.name, "page": page, "heading": heading, "before": before.isoformat()}
        try:
            told = await take.through("section", asked, lambda: within(SHELF_S, shelf.spec.name, make()))
        except StoreError:
            raise
        except FoxcastError as error:
            message = f"The section was not read: {reason(error)}."
            raise Cannot(message) from error
        return self._outcome(_PASSAGE.value(told.plain))

    def _outcome(self, passage: Passage) -> Outcome:
        if is_revised_late(passage, self.scene.guards.cutoff):
            message = "The section was not read: what came is of a state after the cutoff."
            raise Cannot(message, caught=Caught(clamped=1))
        head = f"{passage.page}\n{passage.heading}\n{passage.url} (as of {passage.revised_at.date().isoformat()})"
        limit = self.scene.section.passage_chars
        text = self.scene.shown(passage.text, limit)
        label = f"section of {self.shelf.spec.name}"
        return Outcome(
            text=self.scene.quoted(f"{head}\n{text}", label, limit + 2_000),
            note=Note(addresses=readable_links(text, self.scene)),
        )
