"""One price after the other: a bet walks the pool and the limit orders that stand in its way.

The best opposite order comes first, of equal ones the oldest. The pool moves to its price, then the order is filled at
that price, up to what its owner can pay. An owner whose balance is not known cannot pay: a fill is never made up.
Source: venue document, section 8; ``common/src/new-bet.ts`` of the venue.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.api import Leg
from plugins.manifold.cpmm import HIGHEST, LOWEST, Pool

# The venue takes prices for equal within this.
NEAR = 1e-8
_NOTHING = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """A limit order of somebody: ``remaining`` mana for shares of ``leg`` while P(YES) is ``limit`` or better.

    ``answer`` is "" in a market without answers; times are milliseconds since 1970; ``balance`` is what its owner has,
    None where that is not known.
    """

    id: str
    user: str
    leg: Leg
    limit: float
    remaining: float
    created: float = 0.0
    expires: float | None = None
    balance: float | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """What is taken: shares of ``leg`` for a ``stake``, or so many ``shares``, at P(YES) up (down) to ``limit``.

    ``stops`` says whether it ends at 1 and 99 %: bets do; sales, and what a bet buys of other answers, go on beyond.
    """

    leg: Leg
    stake: float | None = None
    shares: float | None = None
    limit: float | None = None
    stops: bool = True

    @property
    def edge(self) -> float:
        """The price at which it ends."""
        low, high = (LOWEST, HIGHEST) if self.stops else (0.0, 1.0)
        stop = high if self.leg is Leg.YES else low
        return stop if self.limit is None else min(max(self.limit, low), high)

    def is_beyond(self, price: float) -> bool:
        """Say whether a price is worse than the one at which it ends."""
        return price > self.edge if self.leg is Leg.YES else price < self.edge


@dataclass(frozen=True, slots=True)
class Part:
    """What came from one place: an order by its id, or the pool (None)."""

    maker: str | None
    stake: float
    shares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a walk brought; ``marginal`` is P(YES) at which the last of it was bought, or the next would be.

    ``used`` is the mana that makers paid by order, ``broke`` names orders whose owners could not pay all.
    """

    pool: Pool
    stake: float
    shares: float
    marginal: float
    parts: tuple[Part, ...] = ()
    used: Mapping[str, float] = field(default_factory=dict)
    broke: tuple[str, ...] = ()


def line_of(orders: Iterable[Resting], leg: Leg, *, now_ms: float) -> tuple[Resting, ...]:
    """Return the orders that a taker of that leg meets, in the order in which they are met."""
    sign = 1.0 if leg is Leg.YES else -1.0
    met = [order for order in orders if order.leg is not leg and (not order.expires or order.expires > now_ms)]
    return tuple(sorted(met, key=lambda order: (sign * order.limit, order.created)))


def walk(pool: Pool, take: Take, line: Sequence[Resting], purses: dict[str, float] | None = None) -> Taken:
    """Take from the pool and from the line, which is in order.

    ``purses`` is what owners have left where they stand in several lines; it is written to.
    """
    if not take.stake and not take.shares:
        return Taken(pool=pool, stake=0.0, shares=0.0, marginal=pool.probability)
    walker = _Walker(pool, take, {} if purses is None else purses)
    for order in line:
        if not walker.reaches(order.limit):
            break
        walker.to(order.limit)
        walker.match(order)
        if walker.done:
            break
    walker.to(take.edge)
    return walker.taken()


class _Walker:
    def __init__(self, pool: Pool, take: Take, purses: dict[str, float]) -> None:
        self._pool, self._take, self._purses = pool, take, purses
        self._yes = take.leg is Leg.YES
        self._stakes = take.stake is not None
        self._left = (take.stake if take.stake is not None else take.shares) or 0.0
        self._parts: list[Part] = []
        self._used: dict[str, float] = {}
        self._broke: list[str] = []
        self._marginal = pool.probability

    @property
    def done(self) -> bool:
        return self._left <= _NOTHING

    def reaches(self, price: float) -> bool:
        """Say whether the taker pays that price."""
        return not self._take.is_beyond(price)

    def to(self, price: float) -> None:
        """Buy from the pool until it stands at that price."""
        leg, here = self._take.leg, self._pool.probability
        whole = self._pool.stake_to(leg, price)
        there = here >= price - NEAR if self._yes else here <= price + NEAR
        if self.done or (there and math.isfinite(whole)):
            return
        wanted = self._left if self._stakes else self._pool.stake_for(leg, self._left)
        stake = min(whole, wanted)
        self._pool, shares = self._pool.buy(leg, stake)
        self._parts.append(Part(None, stake, shares))
        self._marginal = self._pool.probability
        self._left = 0.0 if wanted <= whole else self._left - (stake if self._stakes else shares)

    def match(self, order: Resting) -> None:
        """Buy from an order at its price, if anything is left to buy."""
        if self.done:
            return
        price = order.limit if self._yes else 1.0 - order.limit
        wanted = self._left / price if self._stakes else self._left
        purse = self._purses.get(order.user, order.balance or 0.0)
        payable = max(min(order.remaining, purse), 0.0)
        whole = payable / (1.0 - price)
        shares = min(wanted, whole)
        paid = shares * (1.0 - price)
        self._purses[order.user] = purse - paid
        if purse - paid <= NEAR:
            self._broke.append(order.id)
        if shares <= _NOTHING:
            return
        self._used[order.id] = paid
        self._parts.append(Part(order.id, shares * price, shares))
        self._marginal = order.limit
        self._left = 0.0 if wanted <= whole else self._left - (shares * price if self._stakes else shares)

    def taken(self) -> Taken:
        return Taken(
            pool=self._pool,
            stake=sum(part.stake for part in self._parts),
            shares=sum(part.shares for part in self._parts),
            marginal=self._marginal,
            parts=tuple(self._parts),
            used=self._used,
            broke=tuple(self._broke),
        )


def without(orders: Iterable[Resting], used: Mapping[str, float]) -> tuple[Resting, ...]:
    """Return what still rests after makers paid that much, and balances as they are then."""
    orders = tuple(orders)
    spent: dict[str, float] = {}
    for order in orders:
        spent[order.user] = spent.get(order.user, 0.0) + used.get(order.id, 0.0)
    left = (
        replace(
            order,
            remaining=order.remaining - used.get(order.id, 0.0),
            balance=None if order.balance is None else order.balance - spent[order.user],
        )
        for order in orders
    )
    return tuple(order for order in left if order.remaining > NEAR)
