"""How the fake Manifold trades where exactly one of several answers wins: prices are kept at a sum of one.

YES of some answers can be had in two ways: directly, or as NO of each other answer. One NO of each of m others pays
m - 1 whatever happens and 1 more if one of the wanted answers wins, so q of each are q YES of the wanted answers and
q(m - 1) mana. NO of an answer is the same as YES of each other one. A bet takes as much of the second way as keeps the
sum of prices at one, at whatever price: neither that nor a sale stops at 1 and 99 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bot.testing.venues.manifold_math import Book, Pool, Trade, Want, bisect, is_zero, root, walk

_ROOM = 2.0
_OTHER = {"YES": "NO", "NO": "YES"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The pools of all answers and the book of each."""

    pools: Mapping[str, Pool]
    books: Mapping[str, Book] = field(default_factory=dict)

    def walk(self, answer: str, want: Want, purses: dict[str, float] | None = None) -> Trade:
        """Trade on one answer as if there were no others; ``purses`` as for walk."""
        return walk(self.pools[answer], want, self.books.get(answer, Book()), purses)

    def purses(self) -> dict[str, float]:
        """Return what all makers have."""
        return {user: balance for book in self.books.values() for user, balance in book.balances.items()}

    def without(self, left_out: tuple[str, ...]) -> list[str]:
        """Return the names of the answers but some."""
        return [answer for answer in self.pools if answer not in left_out]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """A bet on one or several answers: ``direct`` trades by answer, ``others`` those that were turned into it.

    ``turned`` shares came the second way at ``turned_cost`` in all, for each of the bought answers alike.
    """

    direct: Mapping[str, Trade]
    others: Mapping[str, Trade]
    turned: float
    turned_cost: float = 0.0

    @property
    def amount(self) -> float:
        """What was spent."""
        return self.turned_cost + sum(trade.amount for trade in self.direct.values())

    @property
    def total(self) -> float:
        """The sum of all prices afterwards."""
        return sum(trade.pool.prob for trade in (*self.direct.values(), *self.others.values()))

    def shares(self, answer: str) -> float:
        """Return what was bought of an answer."""
        return self.direct[answer].shares + self.turned

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was bought."""
        return is_zero(self.amount)


def buy(answers: Answers, answer: str, want: Want) -> Joint:
    """Bet on one answer; a want of shares counts those that come either way."""
    return _balanced(answers, (answer,), want)


def buy_several(answers: Answers, bought: tuple[str, ...], amount: float) -> Joint:
    """Buy the same number of YES of several answers."""
    return _balanced(answers, bought, Want(outcome="YES", amount=amount))


def _balanced(answers: Answers, bought: tuple[str, ...], want: Want) -> Joint:
    """Find how much comes the second way so that the prices sum to one."""
    price = sum(answers.pools[answer].prob for answer in bought)
    still = {name: Trade(pool=pool) for name, pool in answers.pools.items()}
    others = {name: still[name] for name in answers.without(bought)}
    nothing = Joint(direct={name: still[name] for name in bought}, others=others, turned=0.0)
    if len(bought) == 1 and want.beyond(price):
        return nothing
    sign, most = (1.0, price) if want.outcome == "YES" else (-1.0, 1.0 - price)

    def surplus(turned: float) -> float:
        joint = _at(answers, bought, want, turned)
        return 1.0 if joint is None else sign * (1.0 - joint.total)

    high, end = 1.0, min(want.shares, _ROOM * want.amount / most)
    while high < end and surplus(high) < 0.0:
        high *= _ROOM * _ROOM
    joint = _at(answers, bought, want, root(0.0, min(high, end), surplus))
    return nothing if joint is None or is_zero(joint.amount) else joint


def _at(answers: Answers, bought: tuple[str, ...], want: Want, turned: float) -> Joint | None:
    """Buy that many shares the second way and the rest directly; nothing where that is too dear.

    Makers are counted on in full for each answer. Those who then cannot pay for all of it, in the order of the answers,
    leave more to the market makers. For a sale it is left at the count.
    """
    rest = answers.without(bought)
    way = Want(outcome=_OTHER[want.outcome], shares=turned, endless=True)
    trades = {answer: answers.walk(answer, way) for answer in rest}
    certain = turned * (len(rest) - 1) if want.outcome == "YES" else 0.0
    cost = sum(trade.amount for trade in trades.values()) - certain
    money = want.amount - cost
    if money < 0.0 and not is_zero(money):
        return None
    money = max(money, 0.0)
    purses = None
    if math.isfinite(money):
        purses = answers.purses()
        for name, one in trades.items():
            if one.makers:
                trades[name] = answers.walk(name, replace(way, amount=one.amount, shares=math.inf), purses)
    if len(bought) == 1:
        part = replace(want, amount=money, shares=max(want.shares - turned, 0.0))
        direct = {bought[0]: answers.walk(bought[0], part, purses)}
    else:
        direct = _equal_shares(answers, bought, money)
    return Joint(direct=direct, others=trades, turned=turned, turned_cost=cost)


def _equal_shares(answers: Answers, bought: tuple[str, ...], money: float) -> dict[str, Trade]:
    def of(shares: float) -> dict[str, Trade]:
        return {answer: answers.walk(answer, Want(outcome="YES", shares=shares, endless=True)) for answer in bought}

    def cost(shares: float) -> float:
        return sum(trade.amount for trade in of(shares).values())

    high = 1.0
    while cost(high) < money and high < 1e12:
        high *= _ROOM
    return of(bisect(0.0, high, lambda shares: cost(shares) - money))
