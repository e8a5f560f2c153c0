"""The terms of an order of this venue, and which prices and sizes the venue accepts.

Prices are on the tick grid of the book, sizes have two decimals. An order that is matched at once is a limit order at
its worst price. For such a purchase the number of shares must make its dollars have two decimals: the venue accepts
nothing else. A sale is counted in shares, which have two decimals for any tick; its dollars have as many decimals as
price and size make, as the official clients sign them. Source: docs/facts/polymarket.md#books, #orders and #amounts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum

from bot.api import ContractSide, Json, MalformedDataError, Order, OrderSide
from plugins.polymarket.json_values import parse_decimal, parse_flag, parse_record, parse_text
from plugins.polymarket.market_parser import PolymarketContract
from plugins.polymarket.order_books import ONE

CURRENCY = "USD"
CENT = Decimal("0.01")
# The minimum value in dollars of a purchase that is matched at once.
MIN_PURCHASE_DOLLARS = Decimal(1)
# The minimum lifetime of a resting order, and how much earlier the venue ends it.
MIN_LIFETIME = timedelta(minutes=3)
EARLY_EXPIRY = timedelta(minutes=1)
_TICKS_PER_UNIT = 10_000


class PolymarketOrderType(StrEnum):
    """What happens if not all is matched at once: FAK drops the rest, FOK drops all, GTD rests until a moment."""

    FAK = "FAK"
    FOK = "FOK"
    GTD = "GTD"

    @property
    def is_resting(self) -> bool:
        """Whether it rests as a maker order."""
        return self is PolymarketOrderType.GTD


@dataclass(frozen=True, slots=True, kw_only=True)
class PolymarketOrderTerms:
    """The order to post (``token`` at ``price``, ``size`` shares), and the book on which it was planned.

    ``contract`` is that of the question; ``taker_delay_s`` is how many seconds the exchange delayed takers then.
    ``lifetime`` is that of a resting order, ``mid`` the midpoint of the book of its leg, ``cancel`` are own orders to
    cancel first.
    """

    contract: PolymarketContract
    leg: ContractSide
    side: OrderSide
    type: PolymarketOrderType
    price: Decimal
    size: Decimal
    tick: Decimal
    mid: Decimal
    taker_delay_s: Decimal = Decimal(0)
    lifetime: timedelta = timedelta()
    book: Mapping[str, Json]
    cancel: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """The id of the token to buy or sell."""
        return self.contract.yes if self.leg is ContractSide.YES else self.contract.no

    def to_map(self) -> dict[str, Json]:
        """Return the terms as JSON values for an order."""
        return {
            **self.contract.to_map(),
            "token": self.token,
            "type": self.type.value,
            "post_only": self.type.is_resting,
            "price": str(self.price),
            "size": str(self.size),
            "tick": str(self.tick),
            "mid": str(self.mid),
            "held_s": str(self.taker_delay_s),
            "lifetime_s": self.lifetime.total_seconds(),
            "book": dict(self.book),
        }

    @classmethod
    def from_order(cls, order: Order) -> "PolymarketOrderTerms":
        """Parse the terms of an order; raises MalformedDataError if it was not made by this venue's planner."""
        fields = order.terms
        contract = PolymarketContract.from_map(fields)
        numbers = {
            name: parse_decimal(fields.get(name)) for name in ("price", "size", "tick", "mid", "held_s", "lifetime_s")
        }
        kind = parse_text(fields.get("type"))
        missing = [name for name, value in numbers.items() if value is None]
        if missing or kind not in set(PolymarketOrderType) or contract.market != order.contract:
            message = f"an order on {order.contract} has terms that are not of this venue: {missing or kind}"
            raise MalformedDataError(message)
        known = {name: value for name, value in numbers.items() if value is not None}
        terms = cls(
            contract=contract,
            leg=order.leg,
            side=order.side,
            type=PolymarketOrderType(kind),
            price=known["price"],
            size=known["size"],
            tick=known["tick"],
            mid=known["mid"],
            taker_delay_s=known["held_s"],
            lifetime=timedelta(seconds=float(known["lifetime_s"])),
            book={name: value for name, value in parse_record(fields.get("book")).items() if isinstance(value, str)},
            cancel=order.cancels,
        )
        if abs(float(terms.price) - order.limit) > 1e-9 or abs(float(terms.size) - order.shares) > 1e-6:
            message = f"an order on {order.contract} has contradicting prices or sizes"
            raise MalformedDataError(message)
        if (
            parse_text(fields.get("token")) != terms.token
            or parse_flag(fields.get("post_only")) is not terms.type.is_resting
        ):
            message = f"an order on {order.contract} has contradicting tokens or types"
            raise MalformedDataError(message)
        return terms

    def refusal_reason(self, *, tick: Decimal, min_size: Decimal) -> str | None:
        """Return why the venue would refuse it on a book with that tick and minimum size, or None.

        An order that expires too soon is refused too.
        """
        if self.price % tick or not tick <= self.price <= ONE - tick:
            return f"the price {self.price} is not on the grid of the book, {tick}"
        if self.size % CENT or self.size <= 0:
            return f"a size of {self.size} shares has more than two decimals"
        return self._resting_refusal(min_size) if self.type.is_resting else self._matched_refusal()

    def _resting_refusal(self, min_size: Decimal) -> str | None:
        if self.size < min_size:
            return f"a size of {self.size} shares, but {min_size} is the minimum for a resting order"
        return None if self.lifetime >= MIN_LIFETIME else "it would expire in less than three minutes"

    def _matched_refusal(self) -> str | None:
        if self.side is OrderSide.SELL:
            return None
        value = self.price * self.size
        if value % CENT:
            return f"{self.price} x {self.size} is not an amount in whole cents"
        if value < MIN_PURCHASE_DOLLARS:
            return f"it is worth {value} dollars, but {MIN_PURCHASE_DOLLARS} is the minimum"
        return None


def round_to_tick(price: Decimal, tick: Decimal, side: OrderSide) -> Decimal:
    """Return the nearest price of the grid that is no worse for the trader; it may be outside (0, 1)."""
    return (price / tick).to_integral_value(ROUND_FLOOR if side is OrderSide.BUY else ROUND_CEILING) * tick


def size_step(price: Decimal, kind: PolymarketOrderType, side: OrderSide = OrderSide.BUY) -> Decimal:
    """Return the size step at a price: hundredths, or for immediate purchases a step that results in whole cents."""
    if kind.is_resting or side is OrderSide.SELL:
        return CENT
    units = price * _TICKS_PER_UNIT
    if units % 1:
        message = f"no tick grid is as fine as {price}"
        raise ValueError(message)
    return CENT * (_TICKS_PER_UNIT // math.gcd(int(units), _TICKS_PER_UNIT))


def round_to_step(shares: Decimal, step: Decimal) -> Decimal:
    """Return the shares rounded down to whole steps."""
    return (shares / step).to_integral_value(ROUND_FLOOR) * step
