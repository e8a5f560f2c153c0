"""What an order of this venue says beyond prices and sizes, and which prices and sizes the venue takes.

Prices lie on the grid of the book and inside it, sizes have two decimals. An order that is to be matched at once is a
limit order at the worst price it takes. A purchase of that kind is of so many shares that its dollars have two
decimals: that is all the venue accepts there. A sale is counted in shares, which have two decimals whatever the tick;
its dollars have as many decimals as price and size make, as the official clients sign them.
Source: venue document, sections 5.1, 5.2 and 15.3.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum

from bot.api import ContractError, Json, Leg, Order, Side
from plugins.polymarket.books import ONE
from plugins.polymarket.parse import Contract
from plugins.polymarket.raw import decimal_of, flag_of, list_of, record_of, text_of

CURRENCY = "USD"
CENT = Decimal("0.01")
# Dollars that a purchase that is matched at once must be worth.
LEAST_DOLLARS = Decimal(1)
# How far ahead the end of a resting order must be, and how much earlier the venue ends it.
LEAST_LIFE = timedelta(minutes=3)
EARLY = timedelta(minutes=1)
_FINEST = 10_000


class OrderType(StrEnum):
    """What becomes of what is not matched at once: it is dropped, all of it, or it rests until a moment."""

    FAK = "FAK"
    FOK = "FOK"
    GTD = "GTD"

    @property
    def rests(self) -> bool:
        """Whether it is offered to others, and never takes from them."""
        return self is OrderType.GTD


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is posted (``token`` at ``price``, ``size`` shares), and on which book it was planned.

    ``contract`` is that of the question; ``held_s`` is for how many seconds the exchange held takers then. ``lifetime``
    is that of an order that rests, ``mid`` the middle of the book of its leg, ``cancel`` are own orders that go first.
    """

    contract: Contract
    leg: Leg
    side: Side
    type: OrderType
    price: Decimal
    size: Decimal
    tick: Decimal
    mid: Decimal
    held_s: Decimal = Decimal(0)
    lifetime: timedelta = timedelta()
    book: Mapping[str, Json]
    cancel: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """The id of what is bought or sold."""
        return self.contract.yes if self.leg is Leg.YES else self.contract.no

    def to_map(self) -> dict[str, Json]:
        """Return them as an order carries them."""
        return {
            **self.contract.to_map(),
            "token": self.token,
            "type": self.type.value,
            "post_only": self.type.rests,
            "price": str(self.price),
            "size": str(self.size),
            "tick": str(self.tick),
            "mid": str(self.mid),
            "held_s": str(self.held_s),
            "lifetime_s": self.lifetime.total_seconds(),
            "book": dict(self.book),
            "cancel": list(self.cancel),
        }

    @classmethod
    def of(cls, order: Order) -> "Terms":
        """Read the terms of an order; raises ContractError for one that no planner of this venue made."""
        said = order.terms
        contract = Contract.from_map(said)
        numbers = {
            name: decimal_of(said.get(name)) for name in ("price", "size", "tick", "mid", "held_s", "lifetime_s")
        }
        kind, cancel = text_of(said.get("type")), list_of(said.get("cancel"))
        missing = [name for name, value in numbers.items() if value is None]
        if missing or kind not in set(OrderType) or cancel is None or contract.market != order.contract:
            message = f"an order on {order.contract} whose terms are none of this venue: {missing or kind}"
            raise ContractError(message)
        known = {name: value for name, value in numbers.items() if value is not None}
        read = cls(
            contract=contract,
            leg=order.leg,
            side=order.side,
            type=OrderType(kind),
            price=known["price"],
            size=known["size"],
            tick=known["tick"],
            mid=known["mid"],
            held_s=known["held_s"],
            lifetime=timedelta(seconds=float(known["lifetime_s"])),
            book={name: value for name, value in record_of(said.get("book")).items() if isinstance(value, str)},
            cancel=tuple(str(name) for name in cancel),
        )
        if abs(float(read.price) - order.limit) > 1e-9 or abs(float(read.size) - order.shares) > 1e-6:
            message = f"an order on {order.contract} says two prices or sizes"
            raise ContractError(message)
        if text_of(said.get("token")) != read.token or flag_of(said.get("post_only")) is not read.type.rests:
            message = f"an order on {order.contract} says two tokens or types"
            raise ContractError(message)
        return read

    def refusal(self, *, tick: Decimal, min_size: Decimal) -> str | None:
        """Say what the venue would not take of it on a book with that grid and least size; None where it takes all.

        An order whose own end is too near is refused too.
        """
        if self.price % tick or not tick <= self.price <= ONE - tick:
            return f"the price {self.price} is not on the grid of the book, {tick}"
        if self.size % CENT or self.size <= 0:
            return f"a size of {self.size} shares has more than two decimals"
        return self._resting_refusal(min_size) if self.type.rests else self._matched_refusal()

    def _resting_refusal(self, min_size: Decimal) -> str | None:
        if self.size < min_size:
            return f"a size of {self.size} shares, and {min_size} is the least that may rest"
        return None if self.lifetime >= LEAST_LIFE else "it would end in less than three minutes"

    def _matched_refusal(self) -> str | None:
        if self.side is Side.SELL:
            return None
        value = self.price * self.size
        if value % CENT:
            return f"{self.price} x {self.size} is no amount in whole cents"
        if value < LEAST_DOLLARS:
            return f"it is worth {value} dollars, and {LEAST_DOLLARS} is the least"
        return None


def on_grid(price: Decimal, tick: Decimal, side: Side) -> Decimal:
    """Return the nearest price of the grid that is no worse for who trades; it may lie outside (0, 1)."""
    return (price / tick).to_integral_value(ROUND_FLOOR if side is Side.BUY else ROUND_CEILING) * tick


def grain_of(price: Decimal, kind: OrderType, side: Side = Side.BUY) -> Decimal:
    """Return the steps of sizes at a price: hundredths, or for what is bought at once so many that cents result."""
    if kind.rests or side is Side.SELL:
        return CENT
    units = price * _FINEST
    if units % 1:
        message = f"no grid is as fine as {price}"
        raise ValueError(message)
    return CENT * (_FINEST // math.gcd(int(units), _FINEST))


def whole(shares: Decimal, grain: Decimal) -> Decimal:
    """Return the most shares in whole steps."""
    return (shares / grain).to_integral_value(ROUND_FLOOR) * grain
