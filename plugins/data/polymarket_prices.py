"""Polymarket: the price of YES day by day, up to the moment; no key.

A question of the benchmark names the condition of a market; prices are kept per token, so the token of YES is looked
up first (that reply also tells how a market ended, which is not read). History comes from the Data API, which takes
an exclusive end and at most 15 days at once, and keeps points of 12 hours for good; the exchange's own
``/prices-history`` is empty for resolved markets at finer steps. A price is a midpoint, not one to trade at.
Sources: venue document, sections 4.3, 5 and 6; the venue's reference of ``/v2/prices-history``.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bot.api import Can, DataSource, DataSpec, NotFound, Question, Rejected, Series, Settings, Workplace, hookimpl
from plugins.data._reading import (
    ADDRESS,
    Probability,
    Seconds,
    address,
    daily,
    in_order,
    midnight,
    parsed,
    unknown,
    url_parts,
)

SOURCE = "polymarket_prices"
SERVES = "polymarket"
MAX_BYTES = 4_000_000
LONGEST_WINDOW = timedelta(days=15)
BUCKET_S = 43_200
CONDITION = re.compile(r"0x[0-9a-f]{62,64}", re.IGNORECASE)


class PolymarketPricesSettings(Settings):
    """How far to look back."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    history_url: str = Field(default="https://data-api.polymarket.com/v2", pattern=ADDRESS)
    """Where prices are, with the version."""

    exchange_url: str = Field(default="https://clob.polymarket.com", pattern=ADDRESS)
    """Where the tokens of a market are, by its condition."""

    market_url: str = Field(default="https://gamma-api.polymarket.com", pattern=ADDRESS)
    """Where the tokens of a market are, by the name in its address."""

    days: int = Field(default=60, ge=1, le=365)
    """How many days before the moment to read."""


class _Token(BaseModel):
    token_id: str
    outcome: str


class _ByCondition(BaseModel):
    tokens: list[_Token]


def _unfolded(value: object) -> object:
    """Return the list that stands as JSON text inside the JSON; others stay as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except RecursionError:
        return value


_Texts = Annotated[list[str], BeforeValidator(_unfolded)]


class _ByName(BaseModel):
    outcomes: _Texts
    tokens: _Texts = Field(alias="clobTokenIds")


class _Point(BaseModel):
    timestamp: Seconds
    price: Probability


class _History(BaseModel):
    data: list[_Point] | None


class PolymarketPrices:
    """Implements the port DataSource; a market is named by its condition, or by the last part of its address."""

    def __init__(self, settings: PolymarketPricesSettings, workplace: Workplace) -> None:
        self._settings = settings
        self._http = workplace.http

    def names(self, question: Question) -> Sequence[str]:
        known = question.facts.get("id", "") if question.source == SERVES else ""
        if CONDITION.fullmatch(known):
            return (known,)
        match url_parts(question, "polymarket.com"):
            case ["market", slug] | ["event", _, slug]:
                return (slug,)
        return ()

    async def series(self, name: str, *, before: datetime) -> Series:
        """Return the price of YES at the end of each day, the last one the day before that of the moment."""
        token = await self._token(name)
        until = midnight(before)
        since = until - timedelta(days=self._settings.days)
        moves: list[tuple[datetime, float]] = []
        start = since
        while start < until:
            end = min(start + LONGEST_WINDOW, until)
            moves += await self._window(token, start, end)
            start = end
        points = daily(moves, since=since, until=until)
        return in_order(points, name=name, unit="probability", source=SOURCE)

    async def _window(self, token: str, start: datetime, end: datetime) -> list[tuple[datetime, float]]:
        span = {"start": str(int(start.timestamp())), "end": str(int(end.timestamp()))}
        asked = {"token_id": token, **span, "bucket_seconds": str(BUCKET_S)}
        try:
            body = await self._get(address(self._settings.history_url, "prices-history", asked))
        except NotFound:
            return []
        points = parsed(_History, body, SOURCE).data or []
        return [(datetime.fromtimestamp(point.timestamp, UTC), point.price) for point in points]

    async def _token(self, name: str) -> str:
        try:
            if CONDITION.fullmatch(name):
                body = await self._get(f"{self._settings.exchange_url.rstrip('/')}/markets/{name}")
                tokens = {token.outcome: token.token_id for token in parsed(_ByCondition, body, SOURCE).tokens}
            else:
                body = await self._get(f"{self._settings.market_url.rstrip('/')}/markets/slug/{quote(name, safe='')}")
                market = parsed(_ByName, body, SOURCE)
                tokens = dict(zip(market.outcomes, market.tokens, strict=False))
        except NotFound:
            unknown(SOURCE, f"there is no market {name}")
        yes = {outcome.casefold(): token for outcome, token in tokens.items()}.get("yes")
        if not yes:
            message = f"{SOURCE}: the market {name} has no outcome Yes but {sorted(tokens)}"
            raise Rejected(message)
        return yes

    async def _get(self, url: str) -> bytes:
        return await self._http.get(url, max_bytes=MAX_BYTES)


@asynccontextmanager
async def open_polymarket_prices(settings: PolymarketPricesSettings, workplace: Workplace) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield PolymarketPrices(settings, workplace)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[PolymarketPricesSettings]]:
    """Offer the one source of this plugin; its history is never the first thing to look at, for it helps little."""
    return [
        DataSpec(
            name=SOURCE,
            summary="The price of YES in a Polymarket market over the last days",
            abilities=frozenset({Can.SERIES, Can.VINTAGES}),
            settings=PolymarketPricesSettings,
            open=open_polymarket_prices,
            serves=frozenset({SERVES}),
        )
    ]
