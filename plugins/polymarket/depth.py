"""What a book gives to who takes from it, level by level, and whether it may be traded on at all.

Every level is one match with a fee of its own. What is not bid or asked for is not there: nothing is filled from a
middle or from past prices. Source: venue document, sections 5.1, 13.2 and 15.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.api import Leg, Side
from plugins.polymarket.books import Book, Level
from plugins.polymarket.fees import Fees

# How far the venue's clock may be ahead of ours.
AHEAD = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """So many shares at one price, and the fee on them."""

    price: Decimal
    size: Decimal
    fee: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """All matches of one order, best price first."""

    matches: tuple[Match, ...]

    @property
    def size(self) -> Decimal:
        """Shares."""
        return sum((one.size for one in self.matches), Decimal(0))

    @property
    def value(self) -> Decimal:
        """Dollars for them, without fees."""
        return sum((one.size * one.price for one in self.matches), Decimal(0))

    @property
    def fee(self) -> Decimal:
        """All fees."""
        return sum((one.fee for one in self.matches), Decimal(0))

    @property
    def average(self) -> Decimal:
        """What a share costs on average, without fees; only where there are any."""
        return self.value / self.size

    def net(self, side: Side) -> Decimal:
        """Return what a share costs, or brings, on average with its fee; only where there are any."""
        return (self.value + (self.fee if side is Side.BUY else -self.fee)) / self.size


def of_leg(book: Book, leg: Leg, token: str) -> Book:
    """Return the book of a leg, of which there is one pool: that of NO is the mirror of that of YES."""
    return book if leg is Leg.YES else book.mirrored(token)


def facing(book: Book, side: Side) -> tuple[Level, ...]:
    """Return the levels that who buys or sells would take, best first."""
    return book.asks if side is Side.BUY else book.bids


def reach(levels: Sequence[Level], side: Side, limit: Decimal | None) -> tuple[Level, ...]:
    """Return the levels within a limit."""
    if limit is None:
        return tuple(levels)
    return tuple(level for level in levels if (level.price <= limit if side is Side.BUY else level.price >= limit))


def take(levels: Sequence[Level], fees: Fees, *, shares: Decimal) -> Taken:
    """Take at most that many shares from levels, as far as they are there."""
    matches: list[Match] = []
    for price, shown in levels:
        wanted = min(shares, shown)
        if wanted <= 0:
            break
        matches.append(Match(price=price, size=wanted, fee=fees.charged(price, wanted)))
        shares -= wanted
    return Taken(matches=tuple(matches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """Which books are traded on."""

    spread_max: Decimal
    oldest: timedelta

    def unfit(self, book: Book | None, *, now: datetime) -> str | None:
        """Say why nothing is traded on a book of YES, None where it may be."""
        if book is None:
            return "there is no book"
        return self._misshapen(book) or self._untimely(book, now)

    def _misshapen(self, book: Book) -> str | None:
        bid, ask, spread = book.best_bid, book.best_ask, book.spread
        if spread is None:
            return f"the book has no {'bids' if bid is None else 'asks'}"
        if book.crossed:
            return f"the book is crossed: {bid} is bid, {ask} asked"
        return f"the book is too wide: {bid} is bid, {ask} asked" if spread > self.spread_max else None

    def _untimely(self, book: Book, now: datetime) -> str | None:
        age = now - book.at
        if age > self.oldest:
            return f"the book is stale: it has not moved for {age.total_seconds() / 60:.0f} min"
        if -age > AHEAD:
            return f"the book is of {book.at.isoformat()}, later than now: compare the clocks"
        return None
