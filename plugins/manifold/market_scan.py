"""Finds markets: a full scan of each search that the filters need, and the choice among its results."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import product

import structlog

from bot.api import Clock, Json, MalformedDataError, NotFoundError, RequestRejectedError
from plugins.manifold.api_client import ManifoldClient, QueryValue
from plugins.manifold.api_records import ManifoldMarketRecord, from_milliseconds, parse_record, record_name
from plugins.manifold.market_parser import KIND_BY_TYPE, market_objection
from plugins.manifold.settings import CASH, MANA, ManifoldSettings

log = structlog.get_logger(__name__)

PAGE_SIZE = 1_000
# More than the venue has.
MAX_PAGES = 300
# 1 January 2021, in the year of its foundation.
FOUNDED_MS = 1_609_459_200_000
_NEVER_CLOSES_MS = 1e18


# By id: a parsed market, and its raw short record.
_FoundMarkets = dict[str, tuple[ManifoldMarketRecord, Mapping[str, object]]]


class ManifoldMarketScan:
    """Searches markets by the settings."""

    def __init__(self, settings: ManifoldSettings, client: ManifoldClient, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._creators: dict[str, str] = {}

    async def find_markets(self, skipped: Counter[str], complaints: list[str]) -> dict[str, Mapping[str, object]]:
        """Return the short records of the markets to forecast, best first, by id; count skipped ones."""
        settings = self._settings
        accepted: _FoundMarkets = {}
        creators = [await self._creator_id(name, complaints) for name in settings.creators]
        creator_ids = [creator for creator in creators if creator is not None]
        if settings.creators and not creator_ids:
            message = f"none of creators in [venues.manifold.settings] exists: {list(settings.creators)}"
            raise RequestRejectedError(message)
        for term, topic, creator in product(
            settings.search_terms or ("",), settings.topics or ("",), creator_ids or ("",)
        ):
            rows = await self._search({"term": term, "topicSlug": topic, "creatorId": creator})
            for first in range(0, len(rows), PAGE_SIZE):
                # Parsing a thousand records takes a while and would block the event loop.
                await asyncio.to_thread(
                    self._filter_rows, rows[first : first + PAGE_SIZE], accepted, (skipped, complaints)
                )
            if not rows:
                log.info("no result", term=term, topic=topic, creator=creator)
        ranked = sorted(accepted.values(), key=lambda pair: self._rank(pair[0]))
        if len(ranked) > settings.max_markets:
            skipped["a market beyond most"] += len(ranked) - settings.max_markets
        return {market.id: short for market, short in ranked[: settings.max_markets]}

    async def _creator_id(self, username: str, complaints: list[str]) -> str | None:
        """Return the id of a creator, requested once."""
        if username not in self._creators:
            try:
                found = (await self._client.user(username)).get("id")
            except NotFoundError as error:
                complaints.append(f"creator {username}: {error}")
                return None
            if not isinstance(found, str) or not found:
                message = f"user {username} has no id"
                raise MalformedDataError(message)
            self._creators[username] = found
        return self._creators[username]

    async def _search(self, chosen: Mapping[str, str]) -> list[Json]:
        """Read pages, each older than the last, until one is short or repeats itself."""
        query: dict[str, QueryValue | None] = {
            **{name: value or None for name, value in chosen.items()},
            "filter": "open",
            "sort": "newest",
            "contractType": "ALL",
            "limit": PAGE_SIZE,
            "token": "ALL" if len(set(self._settings.currencies)) > 1 else self._settings.currencies[0],
            "liquidity": self._settings.min_liquidity or None,
        }
        rows: list[Json] = []
        ids: set[str] = set()
        for _ in range(MAX_PAGES):
            page = await self._client.search(query)
            fresh = [row for row in page if _row_id(row) is None or _row_id(row) not in ids]
            rows += fresh
            repeated = len(fresh) < len(page)
            ids.update(name for row in page if (name := _row_id(row)) is not None)
            ages = [age for row in page if (age := _created_ms(row)) is not None]
            if len(page) < PAGE_SIZE or repeated or not ages:
                break
            query["beforeTime"] = int(min(ages))
        return rows

    def _filter_rows(
        self, rows: Sequence[Json], accepted: _FoundMarkets, counters: tuple[Counter[str], list[str]]
    ) -> None:
        skipped, complaints = counters
        for row in rows:
            try:
                market = parse_record(ManifoldMarketRecord, row, record_name(row))
            except MalformedDataError as error:
                complaints.append(str(error))
                continue
            if market.id in accepted or not isinstance(row, dict):
                continue
            if why := self._filter_objection(market):
                skipped[why] += 1
                continue
            accepted[market.id] = (market, row)

    def _filter_objection(self, market: ManifoldMarketRecord) -> str | None:
        settings, now = self._settings, self._clock.now()
        if why := market_objection(market, now, timedelta(seconds=settings.close_margin_s)):
            return why
        if KIND_BY_TYPE[market.type] not in settings.kinds:
            return f"of the kind {KIND_BY_TYPE[market.type]}, which settings leave out"
        if (market.token or MANA) not in settings.currencies:
            return f"in {CASH if market.token == CASH else 'another currency'}, which settings leave out"
        within = settings.closes_within_h
        if within is not None and _closing_time(market) > now + timedelta(hours=within):
            return "closing later than settings allow"
        return self._size_objection(market)

    def _size_objection(self, market: ManifoldMarketRecord) -> str | None:
        settings = self._settings
        if (market.volume or 0.0) < settings.min_volume or (market.bettors or 0) < settings.min_bettors:
            return "with too little volume or too few bettors"
        # Short records of markets with answers lack it; the search was bounded by it.
        is_thin = market.liquidity is not None and market.liquidity < settings.min_liquidity
        return "with too little liquidity" if is_thin else None

    def _rank(self, market: ManifoldMarketRecord) -> tuple[float, str]:
        ranks: Mapping[str, float] = {
            "bettors": -float(market.bettors or 0),
            "closing": _NEVER_CLOSES_MS if market.closes is None else market.closes,
            "volume": -(market.day_volume or 0.0),
            "newest": -(market.created or 0.0),
        }
        return ranks[self._settings.prefer], market.id


def _closing_time(market: ManifoldMarketRecord) -> datetime:
    return from_milliseconds(math.inf if market.closes is None else market.closes)


def _created_ms(row: Json) -> float | None:
    created = row.get("createdTime") if isinstance(row, dict) else None
    if not isinstance(created, int | float) or isinstance(created, bool):
        return None
    # A moment before the venue existed would end the list.
    return float(created) if FOUNDED_MS <= created < _NEVER_CLOSES_MS else None


def _row_id(row: Json) -> str | None:
    name = row.get("id") if isinstance(row, dict) else None
    return name if isinstance(name, str) else None
