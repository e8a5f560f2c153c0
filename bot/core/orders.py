"""Trading: orders and order plans, fills, positions and accounts.

Prices are per share; a share pays 1 unit of the currency if its side of the contract comes true, and 0 otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.core.questions import Question, QuestionRef
from bot.core.values import Json, require_timezone

# Terms of orders as they were stored, and the fields that they are now.
STORED_TERMS = {"amount": "stake", "cancel": "cancels"}


class OrderSide(StrEnum):
    """Whether shares are bought or sold."""

    BUY = "buy"
    SELL = "sell"


class ContractSide(StrEnum):
    """The side of a contract: that it comes true, or that it does not."""

    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One limit order: at most ``shares`` at no worse a price than ``limit``, for at most ``cost``, fees included.

    ``contract`` is what the venue trades (a market, an answer, a token) under its own name; ``option`` is the option of
    the question that it represents, "" for a question without options. ``expected`` is the average price by the order
    book at planning, ``fees`` is added to it, and ``edge`` is the expected gain of a share under the belief after both.
    ``cost`` of a sale is 0. ``stake`` is the money that a purchase spends where the venue sells for a stake: then it is
    filled once that is spent, however many shares it buys. ``cancels`` are the ids of own open orders that must be
    cancelled first. ``terms`` is further data for the writer of the venue, documented by its plugin. ``closing`` is the
    reason why a position is closed regardless of the forecast: a person or a policy asked for it; "" for all other
    orders. The engine sets it, never a planner. Raises ValueError for a price outside (0, 1), for amounts that are not
    finite and positive, for a purchase that closes, and for terms under the name of a field.
    """

    contract: str
    leg: ContractSide
    side: OrderSide
    shares: float
    limit: float
    cost: float
    expected: float
    currency: str
    option: str = ""
    fees: float = 0.0
    edge: float = 0.0
    terms: Mapping[str, Json] = field(default_factory=dict)
    closing: str = ""
    stake: float | None = None
    cancels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check prices and amounts, and freeze the terms."""
        if known := sorted(STORED_TERMS.keys() & self.terms.keys()):
            fields = ", ".join(f"terms[{name!r}] is Order.{STORED_TERMS[name]}" for name in known)
            message = f"an order on {self.contract}: {fields}; the engine does not read it from terms"
            raise ValueError(message)
        if self.closing and self.side is OrderSide.BUY:
            message = f"an order on {self.contract} buys, so it closes no position"
            raise ValueError(message)
        for name in ("limit", "expected"):
            if not 0.0 < getattr(self, name) < 1.0:
                message = f"{name} {getattr(self, name)} of an order on {self.contract} is outside (0, 1)"
                raise ValueError(message)
        stake = () if self.stake is None else ("stake",)
        for name in ("shares", "cost", "fees", *stake):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0.0 or (name in {"shares", "stake"} and value == 0.0):
                message = f"{name} {value} of an order on {self.contract} is not a valid amount"
                raise ValueError(message)
        object.__setattr__(self, "terms", MappingProxyType(dict(self.terms)))
        given: object = self.cancels
        if isinstance(given, str):
            message = f"an order on {self.contract} names what it cancels as one text; give a tuple of ids"
            raise ValueError(message)  # noqa: TRY004 - all faults of an order are of one kind
        object.__setattr__(self, "cancels", tuple(self.cancels))

    @staticmethod
    def upgrade_stored(stored: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a stored order; until November 2026 its stake and cancels were in its terms."""
        terms = stored.get("terms")
        if not isinstance(terms, Mapping) or not STORED_TERMS.keys() & terms.keys():
            return stored
        moved: dict[str, Any] = {}
        if isinstance(amount := terms.get("amount"), int | float):
            moved["stake"] = amount
        if isinstance(cancels := terms.get("cancel"), list | tuple):  # one text was ignored
            moved["cancels"] = cancels
        rest = {name: value for name, value in terms.items() if name not in STORED_TERMS}
        return {**stored, **moved, "terms": rest}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """A part of an order that was traded; ``reference`` is unique within its intent.

    ``cash`` is the change of the account, fees included: negative for a purchase.
    """

    reference: str
    at: datetime
    shares: float
    price: float
    cash: float
    fee: float = 0.0

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone(f"fill {self.reference}: at", self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Shares held of one side of a contract.

    ``paid`` is their cost, fees included, and ``mark`` the price at which they could be sold now, None if there is no
    buyer. ``decided``: the outcome is known, ``mark`` is the payout, and it was not paid yet. ``is_unpriced``: the
    price cannot be read now; readings of the account keep the last one that they know, and ``mark`` (what the plugin
    knows instead, such as the cost) counts where they know none.
    """

    contract: str
    leg: ContractSide
    shares: float
    paid: float
    ref: QuestionRef | None = None
    option: str = ""
    mark: float | None = None
    decided: bool = False
    is_unpriced: bool = False


class UnpaidOutcome(StrEnum):
    """Why an outcome pays nothing: the stakes are returned, or it is not final yet."""

    REFUND = "refund"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class VenueReportedGain:
    """The venue's own figure of the account's gain with both sides of a contract.

    ``closed``: only decided shares are held, so the gain is final; otherwise it uses the price of the venue.
    ``before_fees``: the figure does not include the fees.
    """

    contract: str
    gain: float
    closed: bool
    before_fees: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOrder:
    """An open order at the venue; ``reserves`` is the cash that it may still spend."""

    id: str
    contract: str
    leg: ContractSide
    side: OrderSide
    limit: float
    shares: float
    reserves: float
    ref: QuestionRef | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account: ``cash`` that is free to spend, positions, and open orders.

    ``loan`` is what the venue lent on positions and takes back when they are closed: it is part of the cash, not a
    gain. ``redeems``: the venue pays out a pair of both sides of a contract at once. ``gains`` are figures of the
    venue, if it has any.
    """

    at: datetime
    currency: str
    cash: float
    positions: tuple[Position, ...] = ()
    orders: tuple[OpenOrder, ...] = ()
    loan: float = 0.0
    redeems: bool = False
    gains: tuple[VenueReportedGain, ...] = ()

    @property
    def equity(self) -> float:
        """Cash, cash reserved by open orders, positions at the price they could be sold at, less the loan."""
        position_value = math.fsum(position.shares * (position.mark or 0.0) for position in self.positions)
        return self.cash + math.fsum(order.reserves for order in self.orders) + position_value - self.loan


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingPolicy:
    """How an order is sized: policy from config, and what the caps allow.

    ``kelly_fraction`` is the share of the full Kelly stake; ``market_shrinkage`` in [0, 1] moves the belief towards the
    market in log-odds before sizing (0 not at all); ``min_edge`` is the minimum gain per share after fees; outside
    ``price_band`` nothing is traded; ``max_cost`` is the maximum cost of an order.
    """

    kelly_fraction: float
    market_shrinkage: float
    min_edge: float
    price_band: tuple[float, float]
    max_cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeProposal:
    """A belief about a question, to be turned into an order of an account."""

    question: Question
    predictions: Mapping[str, Prediction]
    account: Account
    sizing: SizingPolicy
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingProposal:
    """A position to be sold regardless of the forecast; ``account`` is the one that holds it."""

    question: Question
    position: Position
    account: Account
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPlan:
    """The answer to a proposal: one order, or none, and why.

    ``market_state`` is the market as it was read, as JSON text, to be recorded with the decision. ``min_cost`` is the
    least that such a purchase may cost at the venue.
    """

    why: str
    order: Order | None = None
    market_state: str = ""
    min_cost: float = 0.0
