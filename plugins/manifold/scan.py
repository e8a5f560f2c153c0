"""Looking for markets: a full scan of each search that the filters ask for, and the choice among what it found."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import product

import structlog

from bot.api import Clock, ContractError, Json, NotFound, Rejected
from plugins.manifold.client import Client, Value
from plugins.manifold.parse import KINDS, objection
from plugins.manifold.raw import RawMarket, moment_of, name_of, parsed
from plugins.manifold.settings import CASH, MANA, ManifoldSettings

log = structlog.get_logger(__name__)

PAGE = 1_000
# More than the venue has.
MOST_PAGES = 300
# 1 January 2021, in the year of its foundation.
FOUNDED_MS = 1_609_459_200_000
_NEVER_MS = 1e18


# By id: a market as it is read, and its short record as it came.
_Found = dict[str, tuple[RawMarket, Mapping[str, object]]]


class Scan:
    """Searches by the settings."""

    def __init__(self, settings: ManifoldSettings, client: Client, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._creators: dict[str, str] = {}

    async def found(self, skipped: Counter[str], complaints: list[str]) -> dict[str, Mapping[str, object]]:
        """Return the short records of the markets to forecast, best first, by id; count what is left out."""
        settings = self._settings
        sifted: _Found = {}
        creators = [await self._creator(name, complaints) for name in settings.creators]
        wanted = [creator for creator in creators if creator is not None]
        if settings.creators and not wanted:
            message = f"none of creators in [venues.manifold.settings] is there: {list(settings.creators)}"
            raise Rejected(message)
        for term, topic, creator in product(settings.terms or ("",), settings.topics or ("",), wanted or ("",)):
            rows = await self._search({"term": term, "topicSlug": topic, "creatorId": creator})
            for first in range(0, len(rows), PAGE):
                # Reading a thousand records takes a while, in which much else waits.
                await asyncio.to_thread(self._sift, rows[first : first + PAGE], sifted, (skipped, complaints))
            if not rows:
                log.info("no result", term=term, topic=topic, creator=creator)
        ranked = sorted(sifted.values(), key=lambda pair: self._rank(pair[0]))
        if len(ranked) > settings.most:
            skipped["a market beyond most"] += len(ranked) - settings.most
        return {market.id: short for market, short in ranked[: settings.most]}

    async def _creator(self, username: str, complaints: list[str]) -> str | None:
        """Return the id of a creator, asked once."""
        if username not in self._creators:
            try:
                found = (await self._client.user(username)).get("id")
            except NotFound as error:
                complaints.append(f"creator {username}: {error}")
                return None
            if not isinstance(found, str) or not found:
                message = f"user {username} has no id"
                raise ContractError(message)
            self._creators[username] = found
        return self._creators[username]

    async def _search(self, chosen: Mapping[str, str]) -> list[Json]:
        """Read pages, each of what is older than the last, until one is short or repeats itself."""
        asked: dict[str, Value | None] = {
            **{name: value or None for name, value in chosen.items()},
            "filter": "open",
            "sort": "newest",
            "contractType": "ALL",
            "limit": PAGE,
            "token": "ALL" if len(set(self._settings.tokens)) > 1 else self._settings.tokens[0],
            "liquidity": self._settings.min_liquidity or None,
        }
        rows: list[Json] = []
        ids: set[str] = set()
        for _ in range(MOST_PAGES):
            page = await self._client.search(asked)
            fresh = [row for row in page if _id_of(row) is None or _id_of(row) not in ids]
            rows += fresh
            repeated = len(fresh) < len(page)
            ids.update(name for row in page if (name := _id_of(row)) is not None)
            ages = [age for row in page if (age := _created(row)) is not None]
            if len(page) < PAGE or repeated or not ages:
                break
            asked["beforeTime"] = int(min(ages))
        return rows

    def _sift(self, rows: Sequence[Json], sifted: _Found, noted: tuple[Counter[str], list[str]]) -> None:
        skipped, complaints = noted
        for row in rows:
            try:
                market = parsed(RawMarket, row, name_of(row))
            except ContractError as error:
                complaints.append(str(error))
                continue
            if market.id in sifted or not isinstance(row, dict):
                continue
            if why := self._objection(market):
                skipped[why] += 1
                continue
            sifted[market.id] = (market, row)

    def _objection(self, market: RawMarket) -> str | None:
        settings, now = self._settings, self._clock.now()
        if why := objection(market, now, timedelta(seconds=settings.close_margin_s)):
            return why
        if KINDS[market.type] not in settings.kinds:
            return f"of the kind {KINDS[market.type]}, which settings leave out"
        if (market.token or MANA) not in settings.tokens:
            return f"in {CASH if market.token == CASH else 'another currency'}, which settings leave out"
        within = settings.closes_within_h
        if within is not None and _closes(market) > now + timedelta(hours=within):
            return "closing later than settings ask for"
        return self._too_small(market)

    def _too_small(self, market: RawMarket) -> str | None:
        settings = self._settings
        if (market.volume or 0.0) < settings.min_volume or (market.bettors or 0) < settings.min_bettors:
            return "with too little volume or too few bettors"
        # Short records of markets with answers do not tell it; the search was bounded by it.
        thin = market.liquidity is not None and market.liquidity < settings.min_liquidity
        return "with too little liquidity" if thin else None

    def _rank(self, market: RawMarket) -> tuple[float, str]:
        ranks: Mapping[str, float] = {
            "bettors": -float(market.bettors or 0),
            "closing": _NEVER_MS if market.closes is None else market.closes,
            "volume": -(market.day_volume or 0.0),
            "newest": -(market.created or 0.0),
        }
        return ranks[self._settings.prefer], market.id


def _closes(market: RawMarket) -> datetime:
    return moment_of(math.inf if market.closes is None else market.closes)


def _created(row: Json) -> float | None:
    created = row.get("createdTime") if isinstance(row, dict) else None
    if not isinstance(created, int | float) or isinstance(created, bool):
        return None
    # A moment before there was a venue would end the list.
    return float(created) if FOUNDED_MS <= created < _NEVER_MS else None


def _id_of(row: Json) -> str | None:
    name = row.get("id") if isinstance(row, dict) else None
    return name if isinstance(name, str) else None
