"""What a paper book asks of a venue's plugin: what an order would have got, and what shares would bring.

The book keeps cash, orders, positions and time; the plugin knows the market. It reads, and writes nothing anywhere.
Well-known among the terms of an order is ``cancel``: the ids of own resting orders that go first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bot.domain.order import Instead, Leg, Order, Position
from bot.domain.resolution import Outcome


class Fate(StrEnum):
    """What becomes of the part of an order that was not filled."""

    NONE_LEFT = "none left"
    RESTS = "rests"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFill:
    """A part of an order that would have been traded: ``price`` of a share without the ``fee`` on all of it.

    ``detail`` is whatever the plugin wants to be kept with it, such as the schedule of fees, as JSON text.
    """

    shares: float
    price: float
    fee: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What an order got at the market, and what becomes of the rest; ``why`` where it got less than it asked.

    ``state`` is the market on which it got it, as JSON text, ``memory`` what the plugin has to know of a resting order
    when it looks again, such as the queue before it.
    """

    fate: Fate
    fills: tuple[PaperFill, ...] = ()
    why: str = ""
    state: str = ""
    memory: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What another order of this book took from the same contract, and the market as it was then."""

    order: Order
    at: datetime
    fills: tuple[PaperFill, ...]
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """An order before the market: sealed then, resting until then (None: filled at once or dropped).

    ``fills`` are its own so far, ``looked_at`` is when it was before the market last (at first: when it was sealed).
    ``held`` is all that the paper account holds, ``past`` what other orders took, newest first.
    """

    id: str
    order: Order
    sealed_at: datetime
    expires_at: datetime | None
    looked_at: datetime
    fills: tuple[PaperFill, ...] = ()
    memory: str = ""
    held: tuple[Position, ...] = ()
    past: tuple[Past, ...] = ()


class Market(Protocol):
    """The real market, as paper orders meet it."""

    def until(self, order: Order, sealed_at: datetime) -> datetime | None:
        """Return until when the order rests where it is not filled, None where it never rests."""
        ...

    async def arrive(self, visit: Visit) -> Met:
        """Fill an order on the market as it is now; the book has waited for the delay.

        No fill at all says why, and the order is then over. Raises Unavailable where it can be tried anew.
        """
        ...

    async def later(self, visit: Visit) -> Met | None:
        """Return what happened to a resting order since it was looked at; None where that cannot be told now."""
        ...

    async def marks(self, positions: Sequence[Position]) -> Mapping[tuple[str, Leg], float | None]:
        """Return what a share of each position would bring, by contract and leg; None where nobody buys.

        One that is left out cannot be told now and keeps the mark it had: unreadable, or not traded any more while it
        waits for its outcome.
        """
        ...

    def payout(self, position: Position, outcome: Outcome, state: str) -> float | Instead:
        """Return what a share pays, in [0, 1]; ``state`` is the market as the last order met it."""
        ...
