"""The book of a market, the fees of takers, and how an order walks the levels.

The venue lists bids for YES and bids for NO; both are one pool, so buying YES at p takes a bid for NO at 1 - p. Source:
docs/facts/kalshi.md#books and #fees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from bot.api import ContractSide, Json, MalformedDataError, OrderSide, RequestRejectedError
from plugins.kalshi.market_parser import ONE, JsonRecord, KalshiFeeTerms, PriceRange, parse_decimal_text

TAKER_RATE = Decimal("0.07")
FEE_STEP = Decimal("0.0001")
COUNT_STEP = Decimal("0.01")
# Others, such as a flat fee, have no published formula.
QUADRATIC_FEES = frozenset({"quadratic", "quadratic_with_maker_fees", "quadratic_with_combo_maker_fees"})


class KalshiBookLevel(NamedTuple):
    """Contracts at one price."""

    price: Decimal
    size: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class KalshiOrderBook:
    """The bids of both legs, best first."""

    yes: tuple[KalshiBookLevel, ...]
    no: tuple[KalshiBookLevel, ...]

    def bids(self, leg: ContractSide) -> tuple[KalshiBookLevel, ...]:
        """Return what a seller of that leg takes."""
        return self.yes if leg is ContractSide.YES else self.no

    def asks(self, leg: ContractSide) -> tuple[KalshiBookLevel, ...]:
        """Return what a buyer of that leg takes: the bids of the other leg, at 1 minus their price."""
        other = self.no if leg is ContractSide.YES else self.yes
        return tuple(KalshiBookLevel(ONE - price, size) for price, size in other)

    def levels(self, leg: ContractSide, side: OrderSide) -> tuple[KalshiBookLevel, ...]:
        """Return what a buyer or seller takes, best first."""
        return self.asks(leg) if side is OrderSide.BUY else self.bids(leg)

    @property
    def mid(self) -> Decimal | None:
        """The midpoint of YES, None if a side is empty."""
        return (self.yes[0].price + ONE - self.no[0].price) / 2 if self.yes and self.no else None

    def unusable_reason(self, max_spread: Decimal) -> str | None:
        """Return why it may not be traded on, or None."""
        if not self.yes or not self.no:
            return f"the book has no {'bids' if not self.yes else 'asks'}"
        bid, ask = self.yes[0].price, ONE - self.no[0].price
        if bid >= ask:
            return f"the book is crossed: {bid} is bid, {ask} asked"
        return f"the book is too wide: {bid} is bid, {ask} asked" if ask - bid > max_spread else None

    def to_map(self) -> dict[str, Json]:
        """Return it as JSON values, numbers as text."""
        return {
            name: [[str(price), str(size)] for price, size in levels]
            for name, levels in (("yes", self.yes), ("no", self.no))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KalshiLevelFill:
    """Contracts at one price, and the fee on them; ``shown`` is what the level offered."""

    price: Decimal
    size: Decimal
    fee: Decimal
    shown: Decimal


def parse_book(record: JsonRecord, ticker: str) -> KalshiOrderBook:
    """Parse a book whose levels come in any order; raises MalformedDataError."""
    sides = [_parse_side(record.get(name), f"{ticker}: {name}") for name in ("yes_dollars", "no_dollars")]
    return KalshiOrderBook(yes=sides[0], no=sides[1])


def fee_rate(fees: KalshiFeeTerms) -> Decimal:
    """Return the rate of takers; raises RequestRejectedError for fees without a known formula."""
    if fees.type not in QUADRATIC_FEES or fees.multiplier is None:
        message = f"its fees are unknown (type {fees.type!r}, multiplier {fees.multiplier}), so it is not traded"
        raise RequestRejectedError(message)
    return TAKER_RATE * fees.multiplier


def fee_per_share(rate: Decimal, price: Decimal) -> Decimal:
    """Return what a contract costs a taker in addition to its price, not rounded."""
    return rate * price * (ONE - price)


def fill_fee(rate: Decimal, price: Decimal, size: Decimal) -> Decimal:
    """Return the fee of one fill in dollars, rounded up to 0.0001."""
    return (size * fee_per_share(rate, price)).quantize(FEE_STEP, ROUND_CEILING)


def walk_levels(levels: Sequence[KalshiBookLevel], rate: Decimal, shares: Decimal) -> tuple[KalshiLevelFill, ...]:
    """Take at most that many contracts from the levels; each level is one fill with a fee of its own."""
    fills: list[KalshiLevelFill] = []
    for price, shown in levels:
        taken = min(shares, shown)
        if taken <= 0:
            break
        fills.append(KalshiLevelFill(price=price, size=taken, fee=fill_fee(rate, price, taken), shown=shown))
        shares -= taken
    return tuple(fills)


def is_on_grid(price: Decimal, ranges: Sequence[PriceRange]) -> bool:
    """Return whether an order may have that price of YES."""
    return any(one.start <= price <= one.end and (price - one.start) % one.step == 0 for one in ranges)


def _parse_side(rows: object, what: str) -> tuple[KalshiBookLevel, ...]:
    sizes: dict[Decimal, Decimal] = {}
    if not isinstance(rows, list):
        message = f"{what} is not a list"
        raise MalformedDataError(message)
    for row in rows:
        if not isinstance(row, list) or len(row) != 2:
            message = f"{what}: a level is not price and count"
            raise MalformedDataError(message)
        price, size = (parse_decimal_text(value, what) for value in row)
        if not 0 < price < 1 or size < 0:
            message = f"{what}: {size} contracts at {price}"
            raise MalformedDataError(message)
        sizes[price] = sizes.get(price, Decimal(0)) + size
    return tuple(KalshiBookLevel(price, size) for price, size in sorted(sizes.items(), reverse=True) if size > 0)


def sum_fills(fills: Sequence[KalshiLevelFill]) -> Mapping[str, Decimal]:
    """Return ``size``, ``value`` without fees, and ``fee`` of all fills."""
    return {
        "size": sum((one.size for one in fills), Decimal(0)),
        "value": sum((one.size * one.price for one in fills), Decimal(0)),
        "fee": sum((one.fee for one in fills), Decimal(0)),
    }
