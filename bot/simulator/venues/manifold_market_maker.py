"""How the fake Manifold fills bets.

Its market maker, its order book, both together, and arbitrage between answers of which one wins. Written
independently of the plugin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from bot.core.light_dataclass import dataclass

MIN_PRICE, MAX_PRICE = 0.01, 0.99


MIN_POOL_SHARES = 0.01


_ZERO_TOLERANCE = 1e-8


_MAX_BISECTIONS = 120


_PRICE_PRECISION = 1e-15


def is_zero(value: float) -> bool:
    """Return whether an amount counts as zero, by the venue's own tolerance."""
    return abs(value) < _ZERO_TOLERANCE


@dataclass(frozen=True, slots=True)
class ReferencePool:
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
        """The invariant of a trade."""
        return float(self.yes**self.p * self.no ** (1.0 - self.p))

    def flipped(self) -> ReferencePool:
        """The same market seen from NO."""
        return ReferencePool(self.no, self.yes, 1.0 - self.p)

    def bought(self, outcome: str, amount: float) -> tuple[float, ReferencePool]:
        """Return the shares that an amount buys, without stops, and the pool afterwards."""
        if outcome == "NO":
            shares, pool = self.flipped().bought("YES", amount)
            return shares, pool.flipped()
        no = self.no + amount
        yes = self.yes * (self.no / no) ** ((1.0 - self.p) / self.p)
        return self.yes + amount - yes, ReferencePool(yes, no, self.p)

    def cost_to(self, outcome: str, prob: float) -> float:
        """Return the amount that moves the price of YES to ``prob`` by buying the outcome.

        Negative for the other direction.
        """
        if prob in {0.0, 1.0}:
            return math.inf
        if outcome == "NO":
            return self.flipped().cost_to("YES", 1.0 - prob)
        odds = self.p * (1.0 - prob) / ((1.0 - self.p) * prob)
        return float(self.k * odds**-self.p - self.no)

    def cost_of(self, outcome: str, shares: float) -> float:
        """Return the cost of a number of shares."""
        if outcome == "NO":
            return self.flipped().cost_of("YES", shares)
        if self.p == 0.5:
            total = self.yes + self.no - shares
            return (math.sqrt(total * total + 4.0 * self.no * shares) - total) / 2.0
        return find_crossing(0.0, shares, lambda amount: self.bought("YES", amount)[0] - shares)

    def with_liquidity(self, amount: float) -> ReferencePool:
        """Return the pool with that much more on both sides, at the same price."""
        prob, yes, no = self.prob, self.yes + amount, self.no + amount
        return ReferencePool(yes, no, prob * yes / (prob * yes + (1.0 - prob) * no))


def find_crossing(low: float, high: float, rising: Callable[[float], float]) -> float:
    """Return where a rising function crosses zero between two points, or the nearer of them."""
    for _ in range(_MAX_BISECTIONS):
        middle = (low + high) / 2.0
        if middle in {low, high}:
            break
        if rising(middle) < 0.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def find_crossing_fast(low: float, high: float, rising: Callable[[float], float]) -> float:
    """Return the result of bisection, in fewer steps, for a function with few jumps."""
    from scipy.optimize import brentq

    if rising(low) >= 0.0:
        return low
    if rising(high) <= 0.0:
        return high
    return float(brentq(rising, low, high, xtol=1e-300, rtol=_PRICE_PRECISION, maxiter=_MAX_BISECTIONS * 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceLimitOrder:
    """An open order: ``left`` is the mana that it still offers."""

    id: str
    user: str
    outcome: str
    limit: float
    left: float
    created: float = 0.0
    expires: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFill:
    """A part of a trade; ``order`` is None where the market maker was the other side."""

    order: str | None
    amount: float
    shares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOrderBook:
    """What a taker can meet besides the market maker. A user without a balance here can pay any amount."""

    orders: Sequence[ReferenceLimitOrder] = ()
    balances: Mapping[str, float] = field(default_factory=dict)
    now: float = 0.0

    def against(self, outcome: str) -> list[ReferenceLimitOrder]:
        """Return the orders on the other side, the best price first, then the oldest."""
        sign = 1.0 if outcome == "YES" else -1.0
        live = [
            order
            for order in self.orders
            if order.outcome != outcome and not (order.expires and order.expires <= self.now)
        ]
        return sorted(live, key=lambda order: (sign * order.limit, order.created))

    def of(self, ids: frozenset[str]) -> ReferenceOrderBook:
        """Return the book with these orders only."""
        return replace(self, orders=[order for order in self.orders if order.id in ids])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTrade:
    """The result of a taker.

    its own ``fills``, ``makers`` with the mana that they paid, orders that ran out of money.
    """

    pool: ReferencePool
    fills: tuple[ReferenceFill, ...] = ()
    makers: tuple[ReferenceFill, ...] = ()
    exhausted_orders: tuple[str, ...] = ()

    @property
    def amount(self) -> float:
        """The mana spent."""
        return sum(fill.amount for fill in self.fills)

    @property
    def shares(self) -> float:
        """The shares bought."""
        return sum(fill.shares for fill in self.fills)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTrade:
    """The request of a taker: at most so much mana, so many shares, and a price of YES no further than ``limit``.

    ``ignores_price``: bought at any price, like the other side of a sale, and the other answers of a bet.
    """

    outcome: str
    amount: float = math.inf
    shares: float = math.inf
    limit: float | None = None
    ignores_price: bool = False

    @property
    def stop(self) -> float:
        """Where buying ends: the limit within 1 and 99 %."""
        if self.ignores_price:
            return 1.0 if self.outcome == "YES" else 0.0
        if self.limit is None:
            return MAX_PRICE if self.outcome == "YES" else MIN_PRICE
        return min(max(self.limit, MIN_PRICE), MAX_PRICE)

    def reached(self, prob: float, bound: float) -> bool:
        """Return whether a price is at a bound or beyond it."""
        return prob >= bound - _ZERO_TOLERANCE if self.outcome == "YES" else prob <= bound + _ZERO_TOLERANCE

    def beyond(self, bound: float) -> bool:
        """Return whether a price is worse than the stop."""
        return bound > self.stop if self.outcome == "YES" else bound < self.stop

    def nearer(self, bound: float) -> float:
        """Return the bound or the stop, whichever comes first."""
        return min(bound, self.stop) if self.outcome == "YES" else max(bound, self.stop)


def fill_trade(
    pool: ReferencePool, want: WantedTrade, book: ReferenceOrderBook, balances: dict[str, float] | None = None
) -> ReferenceTrade:
    """Fill a request from market maker and book in turns, as far as both allow.

    ``purses`` holds the remaining balance of users with orders in several books; it is changed.
    """
    taking = _TradeInProgress(pool, want, dict(book.balances) if balances is None else balances)
    for order in book.against(want.outcome):
        if want.beyond(order.limit) or not taking.from_pool(want.nearer(order.limit)):
            break
        taking.from_order(order)
        if taking.done:
            break
    if not taking.done:
        taking.from_pool(want.stop)
    return ReferenceTrade(
        pool=taking.pool, fills=tuple(taking.fills), makers=tuple(taking.makers), exhausted_orders=tuple(taking.dry)
    )


class _TradeInProgress:
    """A taker on its way through market maker and book."""

    def __init__(self, pool: ReferencePool, want: WantedTrade, balances: dict[str, float]) -> None:
        self.pool = pool
        self.fills: list[ReferenceFill] = []
        self.makers: list[ReferenceFill] = []
        self.dry: list[str] = []
        self._want = want
        self._amount, self._shares = want.amount, want.shares
        self._balances = balances

    @property
    def done(self) -> bool:
        return is_zero(self._amount) or is_zero(self._shares) or min(self._amount, self._shares) < 0.0

    def from_pool(self, bound: float) -> bool:
        """Buy from the market maker up to a price; return whether that price was reached."""
        if self._want.reached(self.pool.prob, bound):
            return not self.done
        outcome = self._want.outcome
        amount = self.pool.cost_to(outcome, bound)
        whole = math.isfinite(amount) and amount <= self._amount + _ZERO_TOLERANCE
        whole = whole and self.pool.bought(outcome, amount)[0] <= self._shares + _ZERO_TOLERANCE
        if not whole:
            amount = min(self._amount, amount)
            if math.isinf(amount) or self.pool.bought(outcome, amount)[0] > self._shares:
                amount = self.pool.cost_of(outcome, self._shares)
        shares, self.pool = self.pool.bought(outcome, amount)
        self._take_fill(ReferenceFill(order=None, amount=amount, shares=shares))
        return whole and not self.done

    def from_order(self, order: ReferenceLimitOrder) -> None:
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
            self._take_fill(ReferenceFill(order=order.id, amount=shares * price, shares=shares))
            self.makers.append(ReferenceFill(order=order.id, amount=paid, shares=shares))

    def _take_fill(self, fill: ReferenceFill) -> None:
        self._amount -= fill.amount
        self._shares -= fill.shares
        self.fills.append(fill)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericPriceScale:
    """The scale of a market whose price represents a number."""

    low: float
    high: float
    is_log: bool

    def value(self, prob: float) -> float:
        """Return the number that a price represents."""
        if self.is_log:
            return float(10.0 ** (prob * math.log10(self.high - self.low + 1.0)) + self.low - 1.0)
        return self.low + prob * (self.high - self.low)

    def prob(self, value: float) -> float:
        """Return the price that represents a number."""
        if self.is_log:
            return math.log10(value - self.low + 1.0) / math.log10(self.high - self.low + 1.0)
        return (value - self.low) / (self.high - self.low)


_SEARCH_FACTOR = 2.0


_OPPOSITE = {"YES": "NO", "NO": "YES"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedAnswers:
    """The pools of all answers and the book of each."""

    pools: Mapping[str, ReferencePool]
    books: Mapping[str, ReferenceOrderBook] = field(default_factory=dict)

    def walk(self, answer: str, want: WantedTrade, balances: dict[str, float] | None = None) -> ReferenceTrade:
        """Trade on one answer as if there were no others; ``purses`` as for walk."""
        return fill_trade(self.pools[answer], want, self.books.get(answer, ReferenceOrderBook()), balances)

    def maker_balances(self) -> dict[str, float]:
        """Return the balances of all makers."""
        return {user: balance for book in self.books.values() for user, balance in book.balances.items()}

    def without(self, left_out: tuple[str, ...]) -> list[str]:
        """Return the names of the answers except some."""
        return [answer for answer in self.pools if answer not in left_out]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrageTrade:
    """A bet on one or several answers: ``direct`` trades by answer, ``others`` those that were turned into it.

    ``converted_shares`` shares were bought by conversion at ``converted_cost`` in all, the same for each of the bought
    answers.
    """

    direct: Mapping[str, ReferenceTrade]
    others: Mapping[str, ReferenceTrade]
    converted_shares: float
    converted_cost: float = 0.0

    @property
    def amount(self) -> float:
        """The mana spent."""
        return self.converted_cost + sum(trade.amount for trade in self.direct.values())

    @property
    def total(self) -> float:
        """The sum of all prices afterwards."""
        return sum(trade.pool.prob for trade in (*self.direct.values(), *self.others.values()))

    def shares(self, answer: str) -> float:
        """Return the shares bought of an answer."""
        return self.direct[answer].shares + self.converted_shares

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was bought."""
        return is_zero(self.amount)


def buy_answer(answers: LinkedAnswers, answer: str, want: WantedTrade) -> ArbitrageTrade:
    """Bet on one answer; a request for shares counts those from both ways."""
    return _balance_prices(answers, (answer,), want)


def buy_answers(answers: LinkedAnswers, bought: tuple[str, ...], amount: float) -> ArbitrageTrade:
    """Buy the same number of YES of several answers."""
    return _balance_prices(answers, bought, WantedTrade(outcome="YES", amount=amount))


def _balance_prices(answers: LinkedAnswers, bought: tuple[str, ...], want: WantedTrade) -> ArbitrageTrade:
    """Find the number of converted shares with which the prices sum to one."""
    price = sum(answers.pools[answer].prob for answer in bought)
    still = {name: ReferenceTrade(pool=pool) for name, pool in answers.pools.items()}
    others = {name: still[name] for name in answers.without(bought)}
    nothing = ArbitrageTrade(direct={name: still[name] for name in bought}, others=others, converted_shares=0.0)
    if len(bought) == 1 and want.beyond(price):
        return nothing
    sign, most = (1.0, price) if want.outcome == "YES" else (-1.0, 1.0 - price)

    def surplus(turned: float) -> float:
        joint = _trade_with_converted(answers, bought, want, turned)
        return 1.0 if joint is None else sign * (1.0 - joint.total)

    high, end = 1.0, min(want.shares, _SEARCH_FACTOR * want.amount / most)
    while high < end and surplus(high) < 0.0:
        high *= _SEARCH_FACTOR * _SEARCH_FACTOR
    joint = _trade_with_converted(answers, bought, want, find_crossing_fast(0.0, min(high, end), surplus))
    return nothing if joint is None or is_zero(joint.amount) else joint


def _trade_with_converted(
    answers: LinkedAnswers, bought: tuple[str, ...], want: WantedTrade, turned: float
) -> ArbitrageTrade | None:
    """Buy that many shares by conversion and the rest directly; nothing where that is too expensive.

    The full balance of makers counts for each answer. Those who then cannot pay for all of it, in the order of the
    answers, leave more to the market makers. A sale keeps the count.
    """
    rest = answers.without(bought)
    wanted_trade = WantedTrade(outcome=_OPPOSITE[want.outcome], shares=turned, ignores_price=True)
    trades = {answer: answers.walk(answer, wanted_trade) for answer in rest}
    certain = turned * (len(rest) - 1) if want.outcome == "YES" else 0.0
    cost = sum(trade.amount for trade in trades.values()) - certain
    money = want.amount - cost
    if money < 0.0 and not is_zero(money):
        return None
    money = max(money, 0.0)
    balances = None
    if math.isfinite(money):
        balances = answers.maker_balances()
        for name, one in trades.items():
            if one.makers:
                trades[name] = answers.walk(name, replace(wanted_trade, amount=one.amount, shares=math.inf), balances)
    if len(bought) == 1:
        part = replace(want, amount=money, shares=max(want.shares - turned, 0.0))
        direct = {bought[0]: answers.walk(bought[0], part, balances)}
    else:
        direct = _buy_equal_shares(answers, bought, money)
    return ArbitrageTrade(direct=direct, others=trades, converted_shares=turned, converted_cost=cost)


def _buy_equal_shares(answers: LinkedAnswers, bought: tuple[str, ...], money: float) -> dict[str, ReferenceTrade]:
    def of(shares: float) -> dict[str, ReferenceTrade]:
        return {
            answer: answers.walk(answer, WantedTrade(outcome="YES", shares=shares, ignores_price=True))
            for answer in bought
        }

    def cost(shares: float) -> float:
        return sum(trade.amount for trade in of(shares).values())

    high = 1.0
    while cost(high) < money and high < 1e12:
        high *= _SEARCH_FACTOR
    return of(find_crossing(0.0, high, lambda shares: cost(shares) - money))
