"""Walks the levels of an order book, and checks whether it may be traded on.

Every level is one match with a separate fee. Fills only use shown levels, never the midpoint or past prices. Source:
docs/facts/polymarket.md#books, #paper-fills and #fill-figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.api import ContractSide, OrderSide
from plugins.polymarket.fees import TakerFees
from plugins.polymarket.order_books import BookLevel, PolymarketOrderBook

# How far the venue's clock may be ahead of ours.
MAX_CLOCK_LEAD = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFill:
    """Shares at one price, and the fee on them."""

    price: Decimal
    size: Decimal
    fee: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class BookWalkResult:
    """All matches of one order, best price first."""

    fills: tuple[LevelFill, ...]

    @property
    def size(self) -> Decimal:
        """Shares."""
        return sum((one.size for one in self.fills), Decimal(0))

    @property
    def value(self) -> Decimal:
        """Dollars for them, without fees."""
        return sum((one.size * one.price for one in self.fills), Decimal(0))

    @property
    def fee(self) -> Decimal:
        """All fees."""
        return sum((one.fee for one in self.fills), Decimal(0))

    @property
    def average_price(self) -> Decimal:
        """What a share costs on average, without fees; only if there are fills."""
        return self.value / self.size

    def average_price_with_fee(self, side: OrderSide) -> Decimal:
        """Return what a share costs, or brings, on average with its fee; only if there are fills."""
        return (self.value + (self.fee if side is OrderSide.BUY else -self.fee)) / self.size


def book_of_side(book: PolymarketOrderBook, leg: ContractSide, token: str) -> PolymarketOrderBook:
    """Return the book of a leg; both share one pool: the book of NO mirrors that of YES."""
    return book if leg is ContractSide.YES else book.mirrored(token)


def opposite_levels(book: PolymarketOrderBook, side: OrderSide) -> tuple[BookLevel, ...]:
    """Return the levels that a buyer or seller would take, best first."""
    return book.asks if side is OrderSide.BUY else book.bids


def levels_within_limit(levels: Sequence[BookLevel], side: OrderSide, limit: Decimal | None) -> tuple[BookLevel, ...]:
    """Return the levels within a limit."""
    if limit is None:
        return tuple(levels)
    return tuple(level for level in levels if (level.price <= limit if side is OrderSide.BUY else level.price >= limit))


def walk_levels(levels: Sequence[BookLevel], fees: TakerFees, *, shares: Decimal) -> BookWalkResult:
    """Take at most that many shares from the levels."""
    matches: list[LevelFill] = []
    for price, shown in levels:
        taken = min(shares, shown)
        if taken <= 0:
            break
        matches.append(LevelFill(price=price, size=taken, fee=fees.fee_for(price, taken)))
        shares -= taken
    return BookWalkResult(fills=tuple(matches))


@dataclass(frozen=True, slots=True, kw_only=True)
class BookRequirements:
    """The requirements for trading on a book."""

    spread_max: Decimal
    max_age: timedelta

    def unusable_reason(self, book: PolymarketOrderBook | None, *, now: datetime) -> str | None:
        """Return why a book of YES may not be traded on, or None."""
        if book is None:
            return "there is no book"
        return self._shape_objection(book) or self._age_objection(book, now)

    def _shape_objection(self, book: PolymarketOrderBook) -> str | None:
        bid, ask, spread = book.best_bid, book.best_ask, book.spread
        if spread is None:
            return f"the book has no {'bids' if bid is None else 'asks'}"
        if book.is_crossed:
            return f"the book is crossed: {bid} is bid, {ask} asked"
        return f"the book is too wide: {bid} is bid, {ask} asked" if spread > self.spread_max else None

    def _age_objection(self, book: PolymarketOrderBook, now: datetime) -> str | None:
        age = now - book.at
        if age > self.max_age:
            return f"the book is stale: it has not moved for {age.total_seconds() / 60:.0f} min"
        if -age > MAX_CLOCK_LEAD:
            return f"the book is of {book.at.isoformat()}, later than now: compare the clocks"
        return None
