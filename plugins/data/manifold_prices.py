"""Manifold: the probability of a binary market day by day, from its bets; no key.

Each bet records the probability before and after it, which never changes later, so the history up to any moment can be
read at any later time. ``beforeTime`` and ``afterTime`` exclude their moments; a market without bets looks like one
that does not exist. Sources: docs/facts/manifold.md#resolution; of the venue's code ``backend/api/src/get-bets.ts`` and
``common/src/supabase/bets.ts``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, Field, RootModel

from bot.api import (
    DataSource,
    DataSpec,
    NotFoundError,
    PluginContext,
    PluginSettings,
    Question,
    RequestRejectedError,
    TimeSeries,
    hookimpl,
)
from plugins.data._series_replies import (
    ADDRESS_PATTERN,
    UnitProbability,
    daily_prices,
    ordered_series,
    parse_reply,
    question_path,
    raise_not_found,
    request_url,
    start_of_day,
)

SOURCE = "manifold_prices"
QUESTION_SOURCE = "manifold"
# A bet with its fills is about 1 kB.
MAX_BYTES = 8_000_000
PAGE_SIZE = 1000
# Of a busier market only the latest days are read.
MAX_PAGES = 20


class ManifoldPricesSettings(PluginSettings):
    """How far to look back."""

    base_url: str = Field(default="https://api.manifold.markets", pattern=ADDRESS_PATTERN)
    """Address of the service."""

    days: int = Field(default=60, ge=1, le=365)
    """Days before the cutoff that are read."""


class _Bet(BaseModel):
    # Milliseconds that a datetime can hold.
    at_ms: Annotated[int, Field(alias="createdTime", ge=0, le=10**14)]
    earlier: UnitProbability = Field(alias="probBefore")
    later: UnitProbability = Field(alias="probAfter")
    answer: str | None = Field(default=None, alias="answerId")

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.at_ms / 1000, UTC)


class _BetsReply(RootModel[list[_Bet]]):
    pass


class ManifoldPrices:
    """Implements DataSource; a market is named by its id, or as creator/slug."""

    def __init__(self, settings: ManifoldPricesSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http

    def series_names(self, question: Question) -> Sequence[str]:
        if question.source == QUESTION_SOURCE and question.source_id:
            return (question.source_id,)
        match question_path(question, "manifold.markets"):
            case [creator, slug]:
                return (f"{creator}/{slug}",)
        return ()

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the probability at the end of each day, the last one the day before that of the moment."""
        until = start_of_day(before)
        since = until - timedelta(days=self._settings.days)
        bets = await self._bets(name, since, until)
        if any(bet.answer is not None for bet in bets):
            message = f"{SOURCE}: the market {name} has several answers; only binary ones have one history"
            raise RequestRejectedError(message)
        if not bets:
            raise_not_found(SOURCE, f"there is no market {name}, or nobody had bet on it")
        first = min(bets, key=lambda bet: bet.at_ms)
        # The first bet that was read gives the probability before it.
        start = [] if first.at <= since else [(max(since, first.at - timedelta(milliseconds=1)), first.earlier)]
        points = daily_prices([*start, *((bet.at, bet.later) for bet in bets)], since=since, until=until)
        return ordered_series(points, name=name, unit="probability", source=SOURCE)

    async def _bets(self, name: str, since: datetime, until: datetime) -> list[_Bet]:
        """Return the bets of the window, newest first, and the last one before it, where the window is not too busy."""
        found: list[_Bet] = []
        end = _to_milliseconds(until)
        for _ in range(MAX_PAGES):
            page = await self._page(
                name, {"afterTime": str(_to_milliseconds(since)), "beforeTime": str(end)}, PAGE_SIZE
            )
            found += page
            if len(page) < PAGE_SIZE:
                found += await self._page(name, {"beforeTime": str(_to_milliseconds(since) + 1)}, 1)
                break
            end = min(bet.at_ms for bet in page)
        return [bet for bet in found if bet.at < until]

    async def _page(self, name: str, span: dict[str, str], limit: int) -> list[_Bet]:
        creator, _, slug = name.rpartition("/")
        market = {"contractSlug": slug} if creator else {"contractId": name}
        url = request_url(self._settings.base_url, "v0/bets", {**market, **span, "order": "desc", "limit": str(limit)})
        try:
            return parse_reply(_BetsReply, await self._http.get(url, max_bytes=MAX_BYTES), SOURCE).root
        except NotFoundError:
            raise_not_found(SOURCE, f"there is no market {name}")


def _to_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@asynccontextmanager
async def open_manifold_prices(settings: ManifoldPricesSettings, context: PluginContext) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield ManifoldPrices(settings, context)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[ManifoldPricesSettings]]:
    """Offer the one source of this plugin; its history is never the first tool to use, because it helps little."""
    return [
        DataSpec(
            name=SOURCE,
            summary="The probability of a Manifold market over the last days",
            settings=ManifoldPricesSettings,
            open=open_manifold_prices,
            question_sources=frozenset({QUESTION_SOURCE}),
        )
    ]
