"""Reading pages as they are now, through the guards of addresses and dates; the caller judges their texts."""

from dataclasses import dataclass, field
from typing import Any

from bot.core.errors import FoxcastError, RequestRejectedError, StoreError
from bot.core.research import PageText
from bot.forecasting.failures import run_with_timeout
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE, ContentVerdict, judge_texts
from bot.forecasting.leak_guard.cutoff import is_after_cutoff
from bot.forecasting.leak_guard.filter_counts import FilterCounts
from bot.forecasting.tools.base import ToolContext, describe_failure
from bot.forecasting.trial_tools import ToolCallTrace
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
                why="the page tells of what came after the cutoff", caught=FilterCounts(content=1)
            )
        elif number not in verdict.kept and context.guards.backdated:
            after[place] = PageReading(why="the page could not be checked for what came after the cutoff")
    return after


async def judge_content(texts: list[str], context: ToolContext, trace: ToolCallTrace) -> ContentVerdict:
    """Return the filter's verdict on these texts; nothing if config or the trial has no filter."""
    guards = context.guards
    if guards.cutoff is None or not guards.judges_content:
        return ContentVerdict()
    return await judge_texts(
        texts, guards.cutoff, trace, trouble=lambda why: context.warn("texts are not checked", FILTER_ROLE, why)
    )


def page_text(page: PageText | None, context: ToolContext, limit: int) -> str:
    """Return the used part of a page: its title and the beginning of its text, up to this many characters."""
    return "" if page is None else context.clean(f"{page.title}\n{page.text}".strip(), limit)


async def _fetch_page(url: str, context: ToolContext) -> dict[str, Any]:
    refused: list[str] = []

    def refusal(address: str) -> str | None:
        why = context.guards.blocks.refusal(address)
        refused.extend([why] if why else [])
        return why

    try:
        fetched = await context.fetcher.fetch(url, refusal=refusal)
    except RequestRejectedError:
        if not refused:
            raise
        return {"blocked": refused[0]}
    if (why := context.guards.blocks.refusal(fetched.url)) is not None:
        return {"blocked": why}
    return {"page": _PAGE_SERIALIZER.plain(await context.reader.read(fetched))}
