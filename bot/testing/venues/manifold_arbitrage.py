"""How the fake Manifold trades where exactly one of several answers wins: prices are kept at a sum of one.

YES of some answers can be had in two ways: directly, or as NO of each other answer. One NO of each of m others pays
m - 1 whatever happens and 1 more if one of the wanted answers wins, so q of each are q YES of the wanted answers and
q(m - 1) mana. NO of an answer is the same as YES of each other one. A bet takes as much of the second way as keeps the
sum of prices at one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.testing.venues.manifold_math import Book, Pool, Trade, Want, bisect, is_zero, walk

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """A bet on one or several answers: ``direct`` trades by answer, ``others`` those that were turned into it.

    ``turned`` shares came the second way at ``turned_cost`` in all, for each of the bought answers alike.
    """

    direct: Mapping[str, Trade]
    others: Mapping[str, Trade]
    turned: float
    turned_cost: float

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
    sign = 1.0 if want.outcome == "YES" else -1.0
    most = _most_turned(answers, bought, want)
    turned = bisect(0.0, most, lambda q: sign * (1.0 - _at(answers, bought, want, q).total))
    joint = _at(answers, bought, want, turned)
    return _at(answers, bought, want, 0.0) if is_zero(joint.amount) else joint


def _most_turned(answers: Answers, bought: tuple[str, ...], want: Want) -> float:
    """Return how many shares can come the second way: the others have so many, and they are paid for."""
    opposite = Want(outcome=_OTHER[want.outcome])
    rest = [answer for answer in answers.pools if answer not in bought]
    high = min([want.shares, *(answers.walk(answer, opposite).shares for answer in rest)])
    if _second(answers, bought, want, high)[1] <= want.amount:
        return high
    return bisect(0.0, high, lambda q: _second(answers, bought, want, q)[1] - want.amount)


def _second(
    answers: Answers, bought: tuple[str, ...], want: Want, shares: float, purses: dict[str, float] | None = None
) -> tuple[dict[str, Trade], float]:
    """Buy that many shares the second way; return the trades and their cost less what they pay for certain."""
    left = answers.purses() if purses is None else purses
    rest = [answer for answer in answers.pools if answer not in bought]
    way = Want(outcome=_OTHER[want.outcome], shares=shares)
    trades = {answer: answers.walk(answer, way, left) for answer in rest}
    certain = shares * (len(rest) - 1) if want.outcome == "YES" else 0.0
    return trades, sum(trade.amount for trade in trades.values()) - certain


def _at(answers: Answers, bought: tuple[str, ...], want: Want, turned: float) -> Joint:
    purses = answers.purses()
    trades, cost = _second(answers, bought, want, turned, purses)
    money = max(want.amount - cost, 0.0)
    shares = max(want.shares - turned, 0.0)
    if len(bought) == 1:
        part = Want(outcome=want.outcome, amount=money, shares=shares, limit=want.limit)
        direct = {bought[0]: answers.walk(bought[0], part, purses)}
    else:
        direct = _equal_shares(answers, bought, money)
    return Joint(direct=direct, others=trades, turned=turned, turned_cost=cost)


def _equal_shares(answers: Answers, bought: tuple[str, ...], money: float) -> dict[str, Trade]:
    def of(shares: float) -> dict[str, Trade]:
        return {answer: answers.walk(answer, Want(outcome="YES", shares=shares)) for answer in bought}

    def cost(shares: float) -> float:
        return sum(trade.amount for trade in of(shares).values())

    high = 1.0
    while cost(high) < money and high < 1e12:
        high *= _ROOM
    return of(bisect(0.0, high, lambda shares: cost(shares) - money))
