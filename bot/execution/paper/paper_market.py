"""The interface that a venue plugin implements for paper trading: fills of orders, and values of shares.

The book keeps cash, orders, positions and time; the plugin knows the market, reads it and writes nothing. Terms of an
order may hold ``cancel``: the ids of own resting orders to be cancelled first.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, Order, Position, UnpaidOutcome
from bot.core.outcomes import Outcome


class RemainderState(StrEnum):
    """What happens to the part of an order that was not filled."""

    FILLED = "none left"
    RESTING = "rests"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFill:
    """A part of an order that would have been traded: ``price`` of a share without the ``fee`` on all of it.

    ``detail`` is what the plugin wants stored with it, such as the schedule of fees, as JSON text.
    """

    shares: float
    price: float
    fee: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillResult:
    """The fills of an order, and what happens to the rest; ``why`` explains if it got less than it asked.

    ``market_state`` is the market at the fill, as JSON text, ``plugin_state`` what the plugin must know of a resting
    order for the next check, such as the queue ahead of it.
    """

    remainder: RemainderState
    fills: tuple[PaperFill, ...] = ()
    why: str = ""
    market_state: str = ""
    plugin_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierPaperOrder:
    """The fills of another order of this book on the same contract, and the market as it was then."""

    order: Order
    at: datetime
    fills: tuple[PaperFill, ...]
    market_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRequest:
    """An order to fill: when it was sealed, and until when it rests (None: filled at once or dropped).

    ``fills`` are its own so far, ``last_checked_at`` is when it was last checked against the market (at first: when it
    was sealed). ``positions`` is all that the paper account holds, ``earlier_orders`` are the other orders, newest
    first.
    """

    id: str
    order: Order
    sealed_at: datetime
    expires_at: datetime | None
    last_checked_at: datetime
    fills: tuple[PaperFill, ...] = ()
    plugin_state: str = ""
    positions: tuple[Position, ...] = ()
    earlier_orders: tuple[EarlierPaperOrder, ...] = ()


class PaperMarket(Protocol):
    """The real market, as paper orders meet it."""

    def order_expiry(self, order: Order, sealed_at: datetime) -> datetime | None:
        """Return until when an unfilled order rests, None if it never rests."""
        ...

    async def fill_new_order(self, request: FillRequest) -> FillResult:
        """Fill an order on the market as it is now; the book has waited for the delay.

        A result without fills says why, and the order is then closed. Raises ServiceUnavailableError if it can be tried
        again.
        """
        ...

    async def fill_resting_order(self, request: FillRequest) -> FillResult | None:
        """Return what happened to a resting order since the last check; None if that is unknown now."""
        ...

    async def mark_prices(self, positions: Sequence[Position]) -> Mapping[tuple[str, ContractSide], float | None]:
        """Return the sale price of a share of each position, by contract and leg; None if there is no buyer.

        A position that is left out has no price now and keeps its last mark: unreadable, or no longer traded while it
        waits for its outcome.
        """
        ...

    def payout_per_share(self, position: Position, outcome: Outcome, state: str) -> float | UnpaidOutcome:
        """Return what a share pays, in [0, 1]; ``state`` is the market at the last order."""
        ...
