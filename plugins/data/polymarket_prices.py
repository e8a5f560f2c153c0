"""Polymarket: the price of YES day by day, up to the moment; no key.

A question of the benchmark names the condition of a market; prices are kept per token, so the token of YES is looked up
first (that reply also contains the market's outcome, which is not read). History comes from the Data API, which takes
an exclusive end and at most 15 days at once, and keeps points of 12 hours permanently; the exchange's own
``/prices-history`` is empty for resolved markets at finer steps. A price is a midpoint, not one to trade at. Sources:
docs/facts/polymarket.md#markets, #clob and #data-api; the venue's reference of ``/v2/prices-history``.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, Field

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
    replace_invisible,
)
from plugins.data._series_replies import (
    ADDRESS_PATTERN,
    UnitProbability,
    UnixSeconds,
    daily_prices,
    ordered_series,
    parse_reply,
    question_path,
    raise_not_found,
    request_url,
    start_of_day,
)

SOURCE = "polymarket_prices"
QUESTION_SOURCE = "polymarket"
MAX_BYTES = 4_000_000
MAX_WINDOW = timedelta(days=15)
BUCKET_S = 43_200
CONDITION_PATTERN = re.compile(r"0x[0-9a-f]{62,64}", re.IGNORECASE)


class PolymarketPricesSettings(PluginSettings):
    """How far to look back."""

    history_url: str = Field(default="https://data-api.polymarket.com/v2", pattern=ADDRESS_PATTERN)
    """Address of the service for past prices, with the version."""

    exchange_url: str = Field(default="https://clob.polymarket.com", pattern=ADDRESS_PATTERN)
    """Address of the service that finds the tokens of a market by its condition."""

    market_url: str = Field(default="https://gamma-api.polymarket.com", pattern=ADDRESS_PATTERN)
    """Address of the service that finds the tokens of a market by its short name."""

    days: int = Field(default=60, ge=1, le=365)
    """Days before the cutoff that are read."""


class _OutcomeToken(BaseModel):
    token_id: str
    outcome: str


class _MarketByCondition(BaseModel):
    tokens: list[_OutcomeToken]


def _decode_nested_list(value: object) -> object:
    """Return the list in JSON text inside the JSON; others stay as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except RecursionError:
        return value


_TextList = Annotated[list[str], BeforeValidator(_decode_nested_list)]


class _MarketByName(BaseModel):
    outcomes: _TextList
    tokens: _TextList = Field(alias="clobTokenIds")


class _PricePoint(BaseModel):
    timestamp: UnixSeconds
    price: UnitProbability


class _PriceHistory(BaseModel):
    data: list[_PricePoint] | None


class PolymarketPrices:
    """Implements DataSource; a market is named by its condition, or by the last part of its address."""

    def __init__(self, settings: PolymarketPricesSettings, context: PluginContext) -> None:
        self._settings = settings
        self._http = context.http

    def series_names(self, question: Question) -> Sequence[str]:
        if question.source == QUESTION_SOURCE and CONDITION_PATTERN.fullmatch(question.source_id):
            return (question.source_id,)
        match question_path(question, "polymarket.com"):
            case ["market", slug] | ["event", _, slug]:
                return (slug,)
        return ()

    async def series(self, name: str, *, before: datetime) -> TimeSeries:
        """Return the price of YES at the end of each day, the last one the day before that of the moment."""
        token = await self._token(name)
        until = start_of_day(before)
        since = until - timedelta(days=self._settings.days)
        moves: list[tuple[datetime, float]] = []
        start = since
        while start < until:
            end = min(start + MAX_WINDOW, until)
            moves += await self._window(token, start, end)
            start = end
        points = daily_prices(moves, since=since, until=until)
        return ordered_series(points, name=name, unit="probability", source=SOURCE)

    async def _window(self, token: str, start: datetime, end: datetime) -> list[tuple[datetime, float]]:
        span = {"start": str(int(start.timestamp())), "end": str(int(end.timestamp()))}
        asked = {"token_id": token, **span, "bucket_seconds": str(BUCKET_S)}
        try:
            body = await self._get(request_url(self._settings.history_url, "prices-history", asked))
        except NotFoundError:
            return []
        points = parse_reply(_PriceHistory, body, SOURCE).data or []
        return [(datetime.fromtimestamp(point.timestamp, UTC), point.price) for point in points]

    async def _token(self, name: str) -> str:
        try:
            if CONDITION_PATTERN.fullmatch(name):
                body = await self._get(f"{self._settings.exchange_url.rstrip('/')}/markets/{name}")
                tokens = {
                    token.outcome: token.token_id for token in parse_reply(_MarketByCondition, body, SOURCE).tokens
                }
            else:
                body = await self._get(f"{self._settings.market_url.rstrip('/')}/markets/slug/{quote(name, safe='')}")
                market = parse_reply(_MarketByName, body, SOURCE)
                tokens = dict(zip(market.outcomes, market.tokens, strict=False))
        except NotFoundError:
            raise_not_found(SOURCE, f"there is no market {name}")
        yes = {outcome.casefold(): token for outcome, token in tokens.items()}.get("yes")
        if not yes:
            outcomes = ", ".join(replace_invisible(outcome[:40]) for outcome in sorted(tokens)[:9])
            message = f"{SOURCE}: the market {name} has no outcome Yes but {outcomes}"
            raise RequestRejectedError(message)
        return yes

    async def _get(self, url: str) -> bytes:
        return await self._http.get(url, max_bytes=MAX_BYTES)


@asynccontextmanager
async def open_polymarket_prices(
    settings: PolymarketPricesSettings, context: PluginContext
) -> AsyncIterator[DataSource]:
    """Yield the source; there is nothing to close."""
    yield PolymarketPrices(settings, context)


@hookimpl
def foxcast_data_sources() -> list[DataSpec[PolymarketPricesSettings]]:
    """Offer the one source of this plugin; its history is never the first tool to use, because it helps little."""
    return [
        DataSpec(
            name=SOURCE,
            summary="The price of YES in a Polymarket market over the last days",
            settings=PolymarketPricesSettings,
            open=open_polymarket_prices,
            question_sources=frozenset({QUESTION_SOURCE}),
        )
    ]
