"""The order book of a contract, how an order walks its levels, and the fees of a taker, in exact decimals.

YES and NO are one pool: a purchase of NO at 0.40 takes a bid for YES at 0.60. So a book has two sides, the bids and the
asks of YES, and the levels of NO follow from them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from bot.core.errors import MalformedDataError
from bot.core.interfaces import FeeSchedule
from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, OrderSide
from bot.core.values import Json

ONE = Decimal(1)
CENT = Decimal("0.01")


class BookLevel(NamedTuple):
    """Shares at one price."""

    price: Decimal
    size: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBook:
    """The bids and asks of YES, best first; ``from_levels`` sorts and checks levels in any order."""

    bids: tuple[BookLevel, ...]
    asks: tuple[BookLevel, ...]

    @classmethod
    def from_levels(
        cls, what: str, *, bids: Iterable[tuple[Decimal, Decimal]], asks: Iterable[tuple[Decimal, Decimal]]
    ) -> "OrderBook":
        """Return the book of levels (price of YES, shares) in any order; sizes at one price are added.

        ``what`` names the contract in errors. Raises MalformedDataError for a price outside (0, 1), such as one in
        cents, and for a negative size.
        """
        return OrderBook(
            bids=_sorted_levels(bids, f"{what}: a bid", highest_first=True),
            asks=_sorted_levels(asks, f"{what}: an ask", highest_first=False),
        )

    @property
    def best_bid(self) -> Decimal | None:
        """The highest bid."""
        return self.bids[0].price if self.bids else None

    @property
    def best_ask(self) -> Decimal | None:
        """The lowest ask."""
        return self.asks[0].price if self.asks else None

    @property
    def is_crossed(self) -> bool:
        """Whether the best bid is at or above the best ask, which happens for moments."""
        return bool(self.bids and self.asks and self.bids[0].price >= self.asks[0].price)

    @property
    def spread(self) -> Decimal | None:
        """Best ask less best bid, None if one is missing."""
        return self.asks[0].price - self.bids[0].price if self.bids and self.asks else None

    @property
    def mid(self) -> Decimal | None:
        """The middle of best bid and ask; None for a book that is crossed or has only one side."""
        if self.is_crossed or not (self.bids and self.asks):
            return None
        return (self.bids[0].price + self.asks[0].price) / 2

    def levels(self, leg: ContractSide, side: OrderSide) -> tuple[BookLevel, ...]:
        """Return what an order on that leg takes, best first, at prices of that leg."""
        if leg is ContractSide.YES:
            return self.asks if side is OrderSide.BUY else self.bids
        pool = self.bids if side is OrderSide.BUY else self.asks
        return tuple(BookLevel(ONE - price, size) for price, size in pool)

    def sale_price(self, leg: ContractSide, shares: float) -> float | None:
        """Return the average price if all these shares were sold now; shares beyond the bids count as 0.

        None without bids or shares. Fees are not counted.
        """
        bids, held = self.levels(leg, OrderSide.SELL), Decimal(repr(shares))
        return float(walk_levels(bids, ShareFees(), shares=held).value / held) if bids and held > 0 else None

    def to_map(self) -> dict[str, Json]:
        """Return the levels as JSON values, numbers as text so that no digit is lost."""
        return {
            name: [[str(price), str(size)] for price, size in levels]
            for name, levels in (("bids", self.bids), ("asks", self.asks))
        }

    def unusable_reason(self, max_spread: Decimal) -> str | None:
        """Return why it may not be traded on, or None."""
        bid, ask, spread = self.best_bid, self.best_ask, self.spread
        if spread is None:
            return f"the book has no {'bids' if bid is None else 'asks'}"
        if self.is_crossed:
            return f"the book is crossed: {bid} is bid, {ask} asked"
        return f"the book is too wide: {bid} is bid, {ask} asked" if spread > max_spread else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFees:
    """Fees by a formula: from the price of a share to its fee, each fill rounded up to whole steps.

    The default is no fee at all. Price plus fee must grow with the price, as for any usual fee.
    """

    formula: Callable[[Decimal], Decimal] | None = None
    step: Decimal = CENT

    @property
    def is_free(self) -> bool:
        """Whether there is no formula."""
        return self.formula is None

    @property
    def rounding(self) -> Decimal:
        """One step."""
        return self.step

    def per_share(self, price: Decimal) -> Decimal:
        """Return the fee of a share, not rounded."""
        return Decimal(0) if self.formula is None else self.formula(price)

    def fee_for(self, price: Decimal, shares: Decimal) -> Decimal:
        """Return the fee of one fill in whole steps, rounded up."""
        return (shares * self.per_share(price) / self.step).to_integral_value(ROUND_CEILING) * self.step

    def max_cost_per_share(self, limit: Decimal) -> Decimal:
        """Return the limit and its fee."""
        return limit + self.per_share(limit)


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
        """What they cost or bring, without fees."""
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


def walk_levels(levels: Iterable[BookLevel], fees: FeeSchedule, *, shares: Decimal) -> BookWalkResult:
    """Take at most that many shares from the levels; each level is one fill with a fee of its own."""
    matches: list[LevelFill] = []
    for price, shown in levels:
        taken = min(shares, shown)
        if taken <= 0:
            break
        matches.append(LevelFill(price=price, size=taken, fee=fees.fee_for(price, taken)))
        shares -= taken
    return BookWalkResult(fills=tuple(matches))


def levels_within_limit(levels: Sequence[BookLevel], side: OrderSide, limit: Decimal | None) -> tuple[BookLevel, ...]:
    """Return the levels within a limit."""
    if limit is None:
        return tuple(levels)
    return tuple(level for level in levels if (level.price <= limit if side is OrderSide.BUY else level.price >= limit))


def subtract_consumed(levels: Sequence[BookLevel], consumed: Mapping[Decimal, Decimal]) -> tuple[BookLevel, ...]:
    """Return levels less the consumed shares by price."""
    remaining = (BookLevel(price, size - consumed.get(price, Decimal(0))) for price, size in levels)
    return tuple(level for level in remaining if level.size > 0)


def _sorted_levels(
    levels: Iterable[tuple[Decimal, Decimal]], what: str, *, highest_first: bool
) -> tuple[BookLevel, ...]:
    sizes: dict[Decimal, Decimal] = {}
    for price, size in levels:
        if not 0 < price < 1 or size < 0:
            message = f"{what} of {size} shares at {price}: prices are between 0 and 1, and sizes not negative"
            raise MalformedDataError(message)
        sizes[price] = sizes.get(price, Decimal(0)) + size
    return tuple(BookLevel(price, size) for price, size in sorted(sizes.items(), reverse=highest_first) if size)
