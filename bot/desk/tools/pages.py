"""Reading pages as they are now, through the guards of addresses and dates; texts are judged by who asked for them."""

from dataclasses import dataclass, field
from typing import Any

from bot.desk.leaks.caught import Caught
from bot.desk.leaks.content import ROLE, Verdict, judge
from bot.desk.leaks.dates import is_late
from bot.desk.take import Take, within
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import reason
from bot.domain.research import Page
from bot.errors import FoxcastError, Rejected, StoreError
from bot.store.codec import Form

# Fetching and reading have bounds of their own, of 15 s and 5 s; this one also holds the time in line for a reader.
PAGE_S = 45.0
_PAGE: Form[Page] = Form("page", Page)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A page, or why there is none; ``caught`` says whether a guard stopped it."""

    page: Page | None = None
    why: str = ""
    caught: Caught = field(default_factory=Caught)


async def read(url: str, scene: Scene, take: Take) -> Reading:
    """Return the page at an address, unless it is blocked, late or not to be had."""
    blocked = scene.guards.blocks.refusal(url)
    if blocked is None:
        try:
            told = await take.through("page", {"url": url}, lambda: within(PAGE_S, "the page", _fetch(url, scene)))
        except StoreError:
            raise
        except FoxcastError as error:
            return Reading(why=reason(error))
        blocked = told.plain.get("blocked")
    if blocked is not None:
        return Reading(why=blocked, caught=Caught(blocked=1))
    page = _PAGE.value(told.plain["page"])
    # Where a redirect led may have been blocked since.
    if (blocked := scene.guards.blocks.refusal(page.url)) is not None:
        return Reading(why=blocked, caught=Caught(blocked=1))
    if is_late(page.published_at, scene.guards.cutoff, backdated=scene.guards.backdated):
        return Reading(why="the page is dated after the cutoff", caught=Caught(dates=1))
    return Reading(page=page)


async def judged(readings: list[Reading], scene: Scene, take: Take, *, limit: int) -> list[Reading]:
    """Return the readings without the pages that tell of what came after the cutoff, or might do so unseen.

    ``limit`` is how much of each is used, in characters: as much is judged.
    """
    places = [place for place, reading in enumerate(readings) if reading.page is not None]
    verdict = await judged_texts([page_text(readings[place].page, scene, limit) for place in places], scene, take)
    after = list(readings)
    for number, place in enumerate(places):
        if number in verdict.dropped:
            after[place] = Reading(why="the page tells of what came after the cutoff", caught=Caught(content=1))
        elif number not in verdict.kept and scene.guards.backdated:
            after[place] = Reading(why="the page could not be checked for what came after the cutoff")
    return after


async def judged_texts(texts: list[str], scene: Scene, take: Take) -> Verdict:
    """Return what the filter says of these texts; nothing where config or the trial has none."""
    guards = scene.guards
    if guards.cutoff is None or not guards.content:
        return Verdict()
    return await judge(texts, guards.cutoff, take, trouble=lambda why: scene.warn("texts are not checked", ROLE, why))


def page_text(page: Page | None, scene: Scene, limit: int) -> str:
    """Return what is used of a page: its title and the beginning of its text, in so many characters."""
    return "" if page is None else scene.shown(f"{page.title}\n{page.text}".strip(), limit)


async def _fetch(url: str, scene: Scene) -> dict[str, Any]:
    refused: list[str] = []

    def refusal(address: str) -> str | None:
        why = scene.guards.blocks.refusal(address)
        refused.extend([why] if why else [])
        return why

    try:
        fetched = await scene.fetcher.fetch(url, refusal=refusal)
    except Rejected:
        if not refused:
            raise
        return {"blocked": refused[0]}
    if (why := scene.guards.blocks.refusal(fetched.url)) is not None:
        return {"blocked": why}
    return {"page": _PAGE.plain(await scene.reader.read(fetched))}
