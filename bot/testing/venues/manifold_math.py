"""How the fake Manifold fills bets: its market maker, its book, and both together. Written apart from the plugin.

The rules are those of the venue's document, section 8. Prices are those of YES; a taker of NO at price P pays 1 - P.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

LOWEST, HIGHEST = 0.01, 0.99
LEAST_POOL = 0.01
_ALIKE = 1e-8
_HALVINGS = 120
_FINEST = 1e-15


def is_zero(value: float) -> bool:
    """Tell whether an amount is none, by the venue's own tolerance."""
    return abs(value) < _ALIKE


@dataclass(frozen=True, slots=True)
class Pool:
    """A market maker's shares and its weight ``p``."""

    yes: float
    no: float
    p: float = 0.5

    @property
    def prob(self) -> float:
        """The price of YES."""
        return self.p * self.no / ((1.0 - self.p) * self.yes + self.p * self.no)

    @property
    def k(self) -> float:
        """What no trade changes."""
        return float(self.yes**self.p * self.no ** (1.0 - self.p))

    def flipped(self) -> Pool:
        """The same market seen from NO."""
        return Pool(self.no, self.yes, 1.0 - self.p)

    def bought(self, outcome: str, amount: float) -> tuple[float, Pool]:
        """Return the shares that an amount buys, without stops, and the pool afterwards."""
        if outcome == "NO":
            shares, pool = self.flipped().bought("YES", amount)
            return shares, pool.flipped()
        no = self.no + amount
        yes = self.yes * (self.no / no) ** ((1.0 - self.p) / self.p)
        return self.yes + amount - yes, Pool(yes, no, self.p)

    def cost_to(self, outcome: str, prob: float) -> float:
        """Return what moves the price of YES to ``prob`` by buying the outcome; negative where that lies behind."""
        if prob in {0.0, 1.0}:
            return math.inf
        if outcome == "NO":
            return self.flipped().cost_to("YES", 1.0 - prob)
        odds = self.p * (1.0 - prob) / ((1.0 - self.p) * prob)
        return float(self.k * odds**-self.p - self.no)

    def cost_of(self, outcome: str, shares: float) -> float:
        """Return what a number of shares costs."""
        if outcome == "NO":
            return self.flipped().cost_of("YES", shares)
        if self.p == 0.5:
            total = self.yes + self.no - shares
            return (math.sqrt(total * total + 4.0 * self.no * shares) - total) / 2.0
        return bisect(0.0, shares, lambda amount: self.bought("YES", amount)[0] - shares)

    def with_liquidity(self, amount: float) -> Pool:
        """Return the pool with that much more on both sides, at the same price."""
        prob, yes, no = self.prob, self.yes + amount, self.no + amount
        return Pool(yes, no, prob * yes / (prob * yes + (1.0 - prob) * no))


def bisect(low: float, high: float, rising: Callable[[float], float]) -> float:
    """Return where a rising function crosses zero between two points, or the nearer of them."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle in {low, high}:
            break
        if rising(middle) < 0.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def root(low: float, high: float, rising: Callable[[float], float]) -> float:
    """Return what bisect does, in fewer steps, where the function hardly ever jumps."""
    from scipy.optimize import brentq

    if rising(low) >= 0.0:
        return low
    if rising(high) <= 0.0:
        return high
    return float(brentq(rising, low, high, xtol=1e-300, rtol=_FINEST, maxiter=_HALVINGS * 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """A resting order: ``left`` is the mana it still offers."""

    id: str
    user: str
    outcome: str
    limit: float
    left: float
    created: float = 0.0
    expires: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """A part of a trade; ``order`` is None where the market maker was the other side."""

    order: str | None
    amount: float
    shares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What a taker can meet besides the market maker. A user without a balance here can pay everything."""

    orders: Sequence[Resting] = ()
    balances: Mapping[str, float] = field(default_factory=dict)
    now: float = 0.0

    def against(self, outcome: str) -> list[Resting]:
        """Return the orders on the other side, the best price first, then the oldest."""
        sign = 1.0 if outcome == "YES" else -1.0
        live = [
            order
            for order in self.orders
            if order.outcome != outcome and not (order.expires and order.expires <= self.now)
        ]
        return sorted(live, key=lambda order: (sign * order.limit, order.created))

    def of(self, ids: frozenset[str]) -> Book:
        """Return the book with these orders only."""
        return replace(self, orders=[order for order in self.orders if order.id in ids])


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """What a taker got: ``fills`` of its own, ``makers`` in the mana that they paid, orders that ran dry."""

    pool: Pool
    fills: tuple[Fill, ...] = ()
    makers: tuple[Fill, ...] = ()
    dry: tuple[str, ...] = ()

    @property
    def amount(self) -> float:
        """What was spent."""
        return sum(fill.amount for fill in self.fills)

    @property
    def shares(self) -> float:
        """What was bought."""
        return sum(fill.shares for fill in self.fills)


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What a taker wants: at most so much mana, so many shares, and a price of YES no further than ``limit``.

    ``endless``: bought at any price, as what is sold is, and what a bet buys of other answers.
    """

    outcome: str
    amount: float = math.inf
    shares: float = math.inf
    limit: float | None = None
    endless: bool = False

    @property
    def stop(self) -> float:
        """Where buying ends: the limit within 1 and 99 %."""
        if self.endless:
            return 1.0 if self.outcome == "YES" else 0.0
        if self.limit is None:
            return HIGHEST if self.outcome == "YES" else LOWEST
        return min(max(self.limit, LOWEST), HIGHEST)

    def reached(self, prob: float, bound: float) -> bool:
        """Tell whether a price is at a bound or beyond it."""
        return prob >= bound - _ALIKE if self.outcome == "YES" else prob <= bound + _ALIKE

    def beyond(self, bound: float) -> bool:
        """Tell whether a price is worse than the stop."""
        return bound > self.stop if self.outcome == "YES" else bound < self.stop

    def nearer(self, bound: float) -> float:
        """Return the bound or the stop, whichever comes first."""
        return min(bound, self.stop) if self.outcome == "YES" else max(bound, self.stop)


def walk(pool: Pool, want: Want, book: Book, purses: dict[str, float] | None = None) -> Trade:
    """Fill a want from market maker and book in turns, as far as both go.

    ``purses`` is what users have left where they have orders in several books; it is written to.
    """
    taking = _Taking(pool, want, dict(book.balances) if purses is None else purses)
    for order in book.against(want.outcome):
        if want.beyond(order.limit) or not taking.from_pool(want.nearer(order.limit)):
            break
        taking.from_order(order)
        if taking.done:
            break
    if not taking.done:
        taking.from_pool(want.stop)
    return Trade(pool=taking.pool, fills=tuple(taking.fills), makers=tuple(taking.makers), dry=tuple(taking.dry))


class _Taking:
    """A taker on its way through market maker and book."""

    def __init__(self, pool: Pool, want: Want, balances: dict[str, float]) -> None:
        self.pool = pool
        self.fills: list[Fill] = []
        self.makers: list[Fill] = []
        self.dry: list[str] = []
        self._want = want
        self._amount, self._shares = want.amount, want.shares
        self._balances = balances

    @property
    def done(self) -> bool:
        return is_zero(self._amount) or is_zero(self._shares) or min(self._amount, self._shares) < 0.0

    def from_pool(self, bound: float) -> bool:
        """Buy from the market maker up to a price; tell whether that price was reached."""
        if self._want.reached(self.pool.prob, bound):
            return not self.done
        outcome = self._want.outcome
        amount = self.pool.cost_to(outcome, bound)
        whole = math.isfinite(amount) and amount <= self._amount + _ALIKE
        whole = whole and self.pool.bought(outcome, amount)[0] <= self._shares + _ALIKE
        if not whole:
            amount = min(self._amount, amount)
            if math.isinf(amount) or self.pool.bought(outcome, amount)[0] > self._shares:
                amount = self.pool.cost_of(outcome, self._shares)
        shares, self.pool = self.pool.bought(outcome, amount)
        self._take(Fill(order=None, amount=amount, shares=shares))
        return whole and not self.done

    def from_order(self, order: Resting) -> None:
        price = order.limit if self._want.outcome == "YES" else 1.0 - order.limit
        left = order.left
        if order.user in self._balances:
            left = min(left, max(self._balances[order.user], 0.0))
        shares = min(self._amount / price, left / (1.0 - price), self._shares)
        paid = shares * (1.0 - price)
        if order.user in self._balances:
            self._balances[order.user] -= paid
            if self._balances[order.user] <= 0.0:
                self.dry.append(order.id)
        if not is_zero(paid):
            self._take(Fill(order=order.id, amount=shares * price, shares=shares))
            self.makers.append(Fill(order=order.id, amount=paid, shares=shares))

    def _take(self, fill: Fill) -> None:
        self._amount -= fill.amount
        self._shares -= fill.shares
        self.fills.append(fill)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """The scale of a market whose price stands for a number."""

    low: float
    high: float
    is_log: bool

    def value(self, prob: float) -> float:
        """Return the number that a price stands for."""
        if self.is_log:
            return float(10.0 ** (prob * math.log10(self.high - self.low + 1.0)) + self.low - 1.0)
        return self.low + prob * (self.high - self.low)

    def prob(self, value: float) -> float:
        """Return the price that stands for a number."""
        if self.is_log:
            return math.log10(value - self.low + 1.0) / math.log10(self.high - self.low + 1.0)
        return (value - self.low) / (self.high - self.low)
