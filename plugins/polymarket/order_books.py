"""The order book of one token at one moment, best prices first, in exact decimals.

The venue sends bids ascending and asks descending, against its own description; here they are always sorted. The book
of NO mirrors that of YES: both are one pool, so depth is read from one of them and never added up. Source:
docs/facts/polymarket.md#books.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Self

from bot.api import BookLevel, ContractSide, Json, MalformedDataError, OrderBook
from plugins.polymarket.json_values import parse_decimal, parse_flag, parse_list, parse_moment, parse_record, parse_text

ONE = Decimal(1)
TICK_SIZES = tuple(Decimal(text) for text in ("0.1", "0.01", "0.005", "0.0025", "0.001", "0.0001"))
# Shares; the minimum if a book does not say.
DEFAULT_MIN_SIZE = Decimal(5)
# How far the venue's clock may be ahead of ours.
MAX_CLOCK_LEAD = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolymarketOrderBook(OrderBook):
    """The order book of a token: ``bids`` to sell to and ``asks`` to buy from, best first.

    ``at`` is when it last changed, by the venue's clock; ``hash`` is the venue's name for this state. ``tick`` and
    ``min_size`` (shares of a resting order) may change. ``last_trade`` is in terms of YES, also in the book of NO.
    """

    token: str
    tick: Decimal
    min_size: Decimal
    at: datetime
    hash: str = ""
    neg_risk: bool = False
    market: str = ""
    last_trade: Decimal | None = field(default=None)

    def mirrored(self, token: str) -> Self:
        """Return the same pool as the book of the opposite token: its asks are these bids from 1, and so on."""
        return type(self)(
            token=token,
            bids=tuple(BookLevel(ONE - price, size) for price, size in self.asks),
            asks=tuple(BookLevel(ONE - price, size) for price, size in self.bids),
            tick=self.tick,
            min_size=self.min_size,
            at=self.at,
            hash=self.hash,
            neg_risk=self.neg_risk,
            market=self.market,
            last_trade=self.last_trade,
        )

    def to_json(self) -> str:
        """Return the book as one line of JSON."""
        return json.dumps(self.to_map(), ensure_ascii=False, separators=(",", ":"))

    def to_map(self) -> dict[str, Json]:
        """Return the book as JSON values, prices and sizes as text so that no digit is lost."""
        return {
            "token": self.token,
            **OrderBook.to_map(self),
            "tick": str(self.tick),
            "min_size": str(self.min_size),
            "at": self.at.isoformat(),
            "hash": self.hash,
            "neg_risk": self.neg_risk,
            "market": self.market,
            "last_trade": None if self.last_trade is None else str(self.last_trade),
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse what ``to_json`` wrote; raises MalformedDataError for anything else."""
        try:
            stored = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = "this is not a book: not JSON"
            raise MalformedDataError(message) from error
        return cls.from_map(parse_record(stored))

    @classmethod
    def from_map(cls, stored: Mapping[str, object]) -> Self:
        """Parse what ``to_map`` returned; raises MalformedDataError for anything else."""
        token, at = parse_text(stored.get("token")), parse_moment(stored.get("at"))
        tick, min_size = parse_decimal(stored.get("tick")), parse_decimal(stored.get("min_size"))
        if not token or at is None or tick is None or min_size is None:
            message = "this is not a book: token, at, tick or min_size is missing"
            raise MalformedDataError(message)
        return cls(
            token=token,
            bids=parse_levels(stored.get("bids"), highest_first=True),
            asks=parse_levels(stored.get("asks"), highest_first=False),
            tick=tick,
            min_size=min_size,
            at=at,
            hash=parse_text(stored.get("hash")),
            neg_risk=parse_flag(stored.get("neg_risk")) or False,
            market=parse_text(stored.get("market")),
            last_trade=parse_decimal(stored.get("last_trade")),
        )


def book_of_side(book: PolymarketOrderBook, leg: ContractSide, token: str) -> PolymarketOrderBook:
    """Return the book of a leg; both share one pool: the book of NO mirrors that of YES."""
    return book if leg is ContractSide.YES else book.mirrored(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookRequirements:
    """The requirements for trading on a book."""

    spread_max: Decimal
    max_age: timedelta

    def unusable_reason(self, book: PolymarketOrderBook | None, *, now: datetime) -> str | None:
        """Return why a book of YES may not be traded on, or None."""
        if book is None:
            return "there is no book"
        return book.unusable_reason(self.spread_max) or self._age_objection(book, now)

    def _age_objection(self, book: PolymarketOrderBook, now: datetime) -> str | None:
        age = now - book.at
        if age > self.max_age:
            return f"the book is stale: it has not moved for {age.total_seconds() / 60:.0f} min"
        if -age > MAX_CLOCK_LEAD:
            return f"the book is of {book.at.isoformat()}, later than now: compare the clocks"
        return None


def parse_book(raw: object, *, tick: Decimal | None = None) -> PolymarketOrderBook:
    """Parse a book of the venue, from ``GET /book``, ``POST /books`` or a ``book`` frame.

    ``tick`` is for a book without it. Raises MalformedDataError, with the token, for a book without token, time or
    tick, and for invalid prices or sizes.
    """
    fields = parse_record(raw)
    token = parse_text(fields.get("asset_id")) or parse_text(fields.get("token_id"))
    if not token:
        message = "a book without a token"
        raise MalformedDataError(message)
    at = parse_moment(fields.get("timestamp"))
    step = parse_decimal(fields.get("tick_size")) or tick
    if at is None or step is None or not 0 < step < 1:
        message = f"book of {token}: timestamp or tick_size not as documented"
        raise MalformedDataError(message)
    try:
        bids = parse_levels(fields.get("bids"), highest_first=True)
        asks = parse_levels(fields.get("asks"), highest_first=False)
    except MalformedDataError as error:
        message = f"book of {token}: {error}"
        raise MalformedDataError(message) from error
    min_size = parse_decimal(fields.get("min_order_size"))
    return PolymarketOrderBook(
        token=token,
        bids=bids,
        asks=asks,
        tick=step,
        min_size=DEFAULT_MIN_SIZE if min_size is None else min_size,
        at=at,
        hash=parse_text(fields.get("hash")),
        neg_risk=parse_flag(fields.get("neg_risk")) or False,
        market=parse_text(fields.get("market")),
        last_trade=parse_decimal(fields.get("last_trade_price")),
    )


def parse_levels(raw: object, *, highest_first: bool) -> tuple[BookLevel, ...]:
    """Return one side of a book, sorted, without empty levels; of a repeated price the last counts.

    Raises MalformedDataError for a price outside (0, 1) and an invalid size.
    """
    found: dict[Decimal, Decimal] = {}
    for item in _require_list(raw):
        pair = (item.get("price"), item.get("size")) if isinstance(item, Mapping) else parse_list(item) or ()
        price, size = (parse_decimal(value) for value in pair) if len(pair) == 2 else (None, None)
        if price is None or size is None or size < 0 or not 0 < price < 1:
            message = f"{str(item)[:80]} is not a level"
            raise MalformedDataError(message)
        found[price] = size
    ordered = sorted(found.items(), reverse=highest_first)
    return tuple(BookLevel(price, size) for price, size in ordered if size)


def _require_list(raw: object) -> list[object]:
    if raw is None:
        return []
    if not isinstance(raw, list):
        message = "a side of the book is not a list"
        raise MalformedDataError(message)
    return raw
