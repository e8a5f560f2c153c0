"""Walks one pool and the limit orders that it meets.

The best opposite order is first, of equal ones the oldest. The pool moves to its price, then the order is filled at
that price, up to what its owner can pay. An owner with an unknown balance counts as unable to pay, so that no fill is
invented. Source: docs/facts/manifold.md#arithmetic; ``common/src/new-bet.ts`` of the venue.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.api import ContractSide
from plugins.manifold.cpmm import MAX_PRICE, MIN_PRICE, CpmmPool

# The venue treats prices as equal within this.
PRICE_TOLERANCE = 1e-8
_MIN_AMOUNT = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingLimitOrder:
    """A limit order of any user: ``remaining`` mana for shares of ``leg`` while P(YES) is ``limit`` or better.

    ``answer`` is "" in a market without answers; times are milliseconds since 1970; ``balance`` is that of its owner,
    None if unknown.
    """

    id: str
    user: str
    leg: ContractSide
    limit: float
    remaining: float
    created: float = 0.0
    expires: float | None = None
    balance: float | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTakerOrder:
    """A taker order: shares of ``leg`` for a ``stake``, or a number of ``shares``, at P(YES) up (down) to ``limit``.

    ``stops_at_price_bounds`` says whether it ends at 1 and 99 %: bets do; sales, and what a bet buys of other answers,
    do not.
    """

    leg: ContractSide
    stake: float | None = None
    shares: float | None = None
    limit: float | None = None
    stops_at_price_bounds: bool = True

    @property
    def stop_price(self) -> float:
        """The price at which it ends."""
        low, high = (MIN_PRICE, MAX_PRICE) if self.stops_at_price_bounds else (0.0, 1.0)
        stop = high if self.leg is ContractSide.YES else low
        return stop if self.limit is None else min(max(self.limit, low), high)

    def is_beyond(self, price: float) -> bool:
        """Return whether a price is worse than the one at which it ends."""
        return price > self.stop_price if self.leg is ContractSide.YES else price < self.stop_price


@dataclass(frozen=True, slots=True)
class PoolWalkFill:
    """A fill from one maker: an order by its id, or the pool (None)."""

    maker: str | None
    stake: float
    shares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWalkResult:
    """The result of a walk; ``marginal_price`` is P(YES) at which the last of it was bought, or the next would be.

    ``paid_by_order`` is the mana that makers paid by order, ``exhausted_orders`` names orders whose owners could not
    pay all.
    """

    pool: CpmmPool
    stake: float
    shares: float
    marginal_price: float
    parts: tuple[PoolWalkFill, ...] = ()
    paid_by_order: Mapping[str, float] = field(default_factory=dict)
    exhausted_orders: tuple[str, ...] = ()


def opposite_orders(
    orders: Iterable[RestingLimitOrder], leg: ContractSide, *, now_ms: float
) -> tuple[RestingLimitOrder, ...]:
    """Return the orders that a taker of that leg meets, in the order in which they are met."""
    sign = 1.0 if leg is ContractSide.YES else -1.0
    opposite = [order for order in orders if order.leg is not leg and (not order.expires or order.expires > now_ms)]
    return tuple(sorted(opposite, key=lambda order: (sign * order.limit, order.created)))


def walk_pool(
    pool: CpmmPool, taker: PoolTakerOrder, queue: Sequence[RestingLimitOrder], balances: dict[str, float] | None = None
) -> PoolWalkResult:
    """Take from the pool and from the queue of orders, best first.

    ``balances`` is what owners of orders in several queues have left; it is updated.
    """
    if not taker.stake and not taker.shares:
        return PoolWalkResult(pool=pool, stake=0.0, shares=0.0, marginal_price=pool.probability)
    walker = _PoolWalker(pool, taker, {} if balances is None else balances)
    for order in queue:
        if not walker.reaches(order.limit):
            break
        walker.buy_from_pool(order.limit)
        walker.buy_from_order(order)
        if walker.done:
            break
    walker.buy_from_pool(taker.stop_price)
    return walker.result()


class _PoolWalker:
    def __init__(self, pool: CpmmPool, taker: PoolTakerOrder, balances: dict[str, float]) -> None:
        self._pool, self._taker, self._balances = pool, taker, balances
        self._yes = taker.leg is ContractSide.YES
        self._stakes = taker.stake is not None
        self._left = (taker.stake if taker.stake is not None else taker.shares) or 0.0
        self._parts: list[PoolWalkFill] = []
        self._used: dict[str, float] = {}
        self._exhausted: list[str] = []
        self._marginal = pool.probability

    @property
    def done(self) -> bool:
        return self._left <= _MIN_AMOUNT

    def reaches(self, price: float) -> bool:
        """Return whether the taker pays that price."""
        return not self._taker.is_beyond(price)

    def buy_from_pool(self, price: float) -> None:
        """Buy from the pool until it reaches that price."""
        leg, here = self._taker.leg, self._pool.probability
        whole = self._pool.stake_to_price(leg, price)
        reached = here >= price - PRICE_TOLERANCE if self._yes else here <= price + PRICE_TOLERANCE
        if self.done or (reached and math.isfinite(whole)):
            return
        wanted = self._left if self._stakes else self._pool.stake_for_shares(leg, self._left)
        stake = min(whole, wanted)
        self._pool, shares = self._pool.buy(leg, stake)
        self._parts.append(PoolWalkFill(None, stake, shares))
        self._marginal = self._pool.probability
        self._left = 0.0 if wanted <= whole else self._left - (stake if self._stakes else shares)

    def buy_from_order(self, order: RestingLimitOrder) -> None:
        """Buy from an order at its price, if anything is left to buy."""
        if self.done:
            return
        price = order.limit if self._yes else 1.0 - order.limit
        wanted = self._left / price if self._stakes else self._left
        balance = self._balances.get(order.user, order.balance or 0.0)
        payable = max(min(order.remaining, balance), 0.0)
        whole = payable / (1.0 - price)
        shares = min(wanted, whole)
        paid = shares * (1.0 - price)
        self._balances[order.user] = balance - paid
        if balance - paid <= PRICE_TOLERANCE:
            self._exhausted.append(order.id)
        if shares <= _MIN_AMOUNT:
            return
        self._used[order.id] = paid
        self._parts.append(PoolWalkFill(order.id, shares * price, shares))
        self._marginal = order.limit
        self._left = 0.0 if wanted <= whole else self._left - (shares * price if self._stakes else shares)

    def result(self) -> PoolWalkResult:
        return PoolWalkResult(
            pool=self._pool,
            stake=sum(part.stake for part in self._parts),
            shares=sum(part.shares for part in self._parts),
            marginal_price=self._marginal,
            parts=tuple(self._parts),
            paid_by_order=self._used,
            exhausted_orders=tuple(self._exhausted),
        )


def remaining_orders(orders: Iterable[RestingLimitOrder], used: Mapping[str, float]) -> tuple[RestingLimitOrder, ...]:
    """Return the orders that still rest after their makers paid that much, with their new balances."""
    orders = tuple(orders)
    spent: dict[str, float] = {}
    for order in orders:
        spent[order.user] = spent.get(order.user, 0.0) + used.get(order.id, 0.0)
    remaining = (
        replace(
            order,
            remaining=order.remaining - used.get(order.id, 0.0),
            balance=None if order.balance is None else order.balance - spent[order.user],
        )
        for order in orders
    )
    return tuple(order for order in remaining if order.remaining > PRICE_TOLERANCE)
