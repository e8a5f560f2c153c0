"""Manifold: the probability of a binary market day by day, from its bets; no key.

Each bet says where the probability stood before and after it, and is never rewritten in that, so the history up to any
moment can be read at any later time. ``beforeTime`` and ``afterTime`` exclude their moments; a market that nobody ever
bet on cannot be told from one that does not exist.
Sources: venue document, section 4.4; ``backend/api/src/get-bets.ts`` and ``common/src/supabase/bets.ts`` of the venue.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, RootModel

from bot.api import Can, DataSource, DataSpec, NotFound, Question, Rejected, Series, Settings, Workplace, hookimpl
from plugins.data._reading import ADDRESS, Probability, address, daily, in_order, midnight, parsed, unknown, url_parts

SOURCE = "manifold_prices"
SERVES = "manifold"
# A bet with its fills is about 1 kB.
MAX_BYTES = 8_000_000
PAGE = 1000
# A market busier than this shows its latest days only.
MAX_PAGES = 20


class ManifoldPricesSettings(Settings):
    """How far to look back."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    base_url: str = Field(default="https://api.manifold.markets", pattern=ADDRESS)
    """Where the service is."""

    days: int = Field(default=60, ge=1, le=365)
    """How many days before the moment to read."""


class _Bet(BaseModel):
    # Milliseconds that a datetime can hold.
    at_ms: Annotated[int, Field(alias="createdTime", ge=0, le=10**14)]
    earlier: Probability = Field(alias="probBefore")
    later: Probability = Field(alias="probAfter")
    answer: str | None = Field(default=None, alias="answerId")

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.at_ms / 1000, UTC)


class _Bets(RootModel[list[_Bet]]):
    pass


class ManifoldPrices:
    """Implements the port DataSource; a market is named by its id, or as creator/slug."""

    def __init__(self, settings: ManifoldPricesSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http

    def names(self, question: Question) -> Sequence[str]:
        known = question.facts.get("id") if question.source == SERVES else None
        if known:
            return (known,)
        match url_parts(question, "manifold.markets"):
            case [creator, slug]:
                return (f"{creator}/{slug}",)
        return ()

    async def series(self, name: str, *, before: datetime) -> Series:
        """Return the probability at the end of each day, the last one the day before that of the moment."""
        until = midnight(before)
        since = until - timedelta(days=self._settings.days)
        bets = await self._bets(name, since, until)
        if any(bet.answer is not None for bet in bets):
            message = f"{SOURCE}: the market {name} has several answers; only binary ones have one history"
            raise Rejected(message)
        if not bets:
            unknown(SOURCE, f"there is no market {name}, or nobody had bet on it")
        first = min(bets, key=lambda bet: bet.at_ms)
        # Where the probability stood before the first bet that was read is known from that bet.
        start = [] if first.at <= since else [(max(since, first.at - timedelta(milliseconds=1)), first.earlier)]
        points = daily([*start, *((bet.at, bet.later) for bet in bets)], since=since, until=until)
        return in_order(points, name=name, unit="probability", source=SOURCE)

    async def _bets(self, name: str, since: datetime, until: datetime) -> list[_Bet]:
        """Return the bets of the window, newest first, and the last one before it, where the window is not too busy."""
        found: list[_Bet] = []
        end = _milliseconds(until)
        for _ in range(MAX_PAGES):
            page = await self._page(name, {"afterTime": str(_milliseconds(since)), "beforeTime": str(end)}, PAGE)
            found += page
            if len(page) < PAGE:
                found += await self._page(name, {"beforeTime": str(_milliseconds(since) + 1)}, 1)
                break
            end = min(bet.at_ms for bet in page)
        return [bet for bet in found if bet.at < until]

    async def _page(self, name: str, span: dict[str, str], limit: int) -> list[_Bet]:
        creator, _, slug = name.rpartition("/")
        market = {"contractSlug": slug} if creator else {"contractId": name}
        url = address(self._settings.base_url, "v0/bets", {**market, **span, "order": "desc", "limit": str(limit)})
        try:
            return parsed(_Bets, await self._http.get(url, max_bytes=MAX_BYTES), SOURCE).root
        except NotFound:
            unknown(SOURCE, f"there is no market {name}")


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@asynccontextmanager
async def open_manifold_prices(settings: ManifoldPricesSettings, workplace: Workplace) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield ManifoldPrices(settings, workplace)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[ManifoldPricesSettings]]:
    """Offer the one source of this plugin; its history is never the first thing to look at, for it helps little."""
    return [
        DataSpec(
            name=SOURCE,
            summary="The probability of a Manifold market over the last days",
            abilities=frozenset({Can.SERIES, Can.VINTAGES}),
            settings=ManifoldPricesSettings,
            open=open_manifold_prices,
            serves=frozenset({SERVES}),
        )
    ]
