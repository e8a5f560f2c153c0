"""A whole market: one pool, several that are independent, or several whose prices sum to 1.

Where exactly one answer wins, a share of it can be had in two ways: directly, or as NO of every other answer, which
pays what the share pays and mana besides. The venue takes so much of the second that the prices sum to 1 again, which
is also the cheapest. What is bought of other answers does not stop at 1 and 99 %, and neither do sales.
Source: venue document, section 8; ``common/src/calculate-cpmm-arbitrage.ts`` of the venue.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from bot.api import Leg
from plugins.manifold.book import Resting, Take, Taken, line_of, walk, without
from plugins.manifold.cpmm import Pool, crossing

_OTHER = {Leg.YES: Leg.NO, Leg.NO: Leg.YES}
_DOUBLINGS = 60
# What lies so little beyond a stake is the rounding of it.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """What a bet on one answer brings: ``shares`` of the leg that was asked for, for ``stake``.

    ``marginal`` is that answer's P(YES) at the end of it, ``walks`` what moved, by answer.
    """

    stake: float
    shares: float
    marginal: float
    walks: Mapping[str, Taken]

    @property
    def drains(self) -> bool:
        """Whether it leaves a pool so thin that the venue refuses it: that of a market without answers."""
        whole = self.walks.get("")
        return whole is not None and bool(whole.parts) and whole.pool.drained


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The pools of a market by answer ("" where it has none), and the orders that stand before them.

    ``linked`` means that the prices of the answers sum to 1; orders expire by ``now_ms``.
    """

    pools: Mapping[str, Pool]
    orders: tuple[Resting, ...] = ()
    linked: bool = False
    now_ms: float = 0.0
    _lines: dict[tuple[str, Leg], tuple[Resting, ...]] = field(init=False, repr=False, compare=False)
    _owners: dict[str, tuple[str, float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Put the orders in line once: sizing walks them thousands of times."""
        lines = {
            (answer, leg): line_of((o for o in self.orders if o.answer == answer), leg, now_ms=self.now_ms)
            for answer in self.pools
            for leg in Leg
        }
        object.__setattr__(self, "_lines", lines)
        object.__setattr__(self, "_owners", {o.id: (o.user, o.balance or 0.0) for o in self.orders})

    def probability(self, answer: str) -> float:
        """Return the price of YES of that answer."""
        return self.pools[answer].probability

    def owner(self, order: str) -> tuple[str, float]:
        """Return whose an order is, and what they have."""
        return self._owners[order]

    def trade(self, answer: str, take: Take) -> Trade:
        """Take from the market; nothing is changed, ``after`` tells what would be left."""
        if self.linked and len(self.pools) > 1:
            return _linked(self, answer, take)
        taken = self.walk(answer, take)
        return Trade(stake=taken.stake, shares=taken.shares, marginal=taken.marginal, walks={answer: taken})

    def sale(self, answer: str, leg: Leg, shares: float) -> Trade:
        """Sell shares: buy as many of the other side, each pair being worth 1. The stake is what comes in."""
        bought = self.trade(answer, Take(leg=_OTHER[leg], shares=shares, stops=False))
        return replace(bought, stake=bought.shares - bought.stake)

    def after(self, trade: Trade) -> "Board":
        """Return the market as it is after a trade."""
        pools = {**self.pools, **{answer: taken.pool for answer, taken in trade.walks.items()}}
        used = {order: paid for taken in trade.walks.values() for order, paid in taken.used.items()}
        return replace(self, pools=pools, orders=without(self.orders, used))

    def walk(self, answer: str, take: Take, purses: dict[str, float] | None = None) -> Taken:
        """Walk one pool and its orders alone; ``purses`` is what owners have left, and is written to."""
        return walk(self.pools[answer], take, self._lines[answer, take.leg], purses)

    def walk_all(self, answers: Iterable[str], leg: Leg, shares: float) -> dict[str, Taken]:
        """Buy that many shares of each of these answers, whatever the price; owners of orders can pay for each walk."""
        return {name: self.walk(name, Take(leg=leg, shares=shares, stops=False)) for name in answers}

    def basket(self, answers: Collection[str], stake: float) -> Trade:
        """Spend a stake on equally many YES shares of several answers of a linked market, but not of all."""
        # Prices only rise.
        high = stake / min(math.fsum(self.probability(name) for name in answers), 1.0)
        most = crossing(lambda shares: stake - _basket(self, answers, shares).stake, 0.0, high)
        return _basket(self, answers, most)


def _linked(board: Board, answer: str, take: Take) -> Trade:
    """Find how many shares come by way of the other answers, so that the prices sum to 1.

    Both directions fall as that number grows: the other answers move away from where they were, and less is left to be
    bought directly. A bet on an answer that stands beyond its limit buys nothing either way.
    """
    price = board.probability(answer)
    if take.is_beyond(price):
        return Trade(stake=0.0, shares=0.0, marginal=price, walks={})
    sign = 1.0 if take.leg is Leg.YES else -1.0

    def excess(around: float) -> float:
        trade, possible = _split(board, answer, take, around)
        return sign * (_total(trade) - 1.0) if possible else -math.inf

    high = take.shares or 0.0
    if take.stake is not None:
        high = take.stake / (price if take.leg is Leg.YES else 1.0 - price)
        for _ in range(_DOUBLINGS):
            if excess(high) <= 0.0:
                break
            high *= 2.0
    return _split(board, answer, take, crossing(excess, 0.0, high))[0]


def _total(trade: Trade) -> float:
    return math.fsum(taken.pool.probability for taken in trade.walks.values())


def _split(board: Board, answer: str, take: Take, around: float) -> tuple[Trade, bool]:
    """Buy that many shares by way of the other answers and the rest directly; and say whether the stake pays for them.

    It always pays for none of them.
    """
    others = [name for name in board.pools if name != answer]
    walks = board.walk_all(others, _OTHER[take.leg], around)
    # NO of all others pays 1 for each of them but one: all but one mana back at once. YES of all others is NO, exactly.
    back = around * (len(others) - 1) if take.leg is Leg.YES else 0.0
    net = math.fsum(taken.stake for taken in walks.values()) - back
    if take.stake is None:
        rest, purses, possible = replace(take, shares=max((take.shares or 0.0) - around, 0.0)), None, True
    else:
        possible = take.stake - net >= -_ROUNDING * (take.stake + back)
        rest = replace(take, stake=max(take.stake - net, 0.0))
        walks, purses = _paid(board, walks, _OTHER[take.leg])
    direct = walks[answer] = board.walk(answer, rest, purses)
    trade = Trade(stake=net + direct.stake, shares=around + direct.shares, marginal=direct.marginal, walks=walks)
    return trade, possible


def _paid(board: Board, walks: dict[str, Taken], leg: Leg) -> tuple[dict[str, Taken], dict[str, float]]:
    """Return what a bet leaves of the other answers, and what owners of orders have after it.

    The venue counts the cost of each as if the owners could pay for all; then it spends that, one answer after the
    other, and who has orders on several pays once: what they cannot pay for is bought from the pools. Sales leave it
    at the first.
    """
    purses: dict[str, float] = {}
    for taken in walks.values():
        for order, paid in taken.used.items():
            user, balance = board.owner(order)
            purses[user] = purses.get(user, balance) - paid
    if all(left >= 0.0 for left in purses.values()):
        return walks, purses
    purses = {}
    return {
        name: board.walk(name, Take(leg=leg, stake=t.stake, stops=False), purses) for name, t in walks.items()
    }, purses


def _basket(board: Board, answers: Collection[str], shares: float) -> Trade:
    outside = [name for name in board.pools if name not in answers]

    def split(around: float) -> Trade:
        no, yes = board.walk_all(outside, Leg.NO, around), board.walk_all(answers, Leg.YES, shares - around)
        stake = math.fsum(taken.stake for taken in (*no.values(), *yes.values())) - around * (len(outside) - 1)
        return Trade(stake=stake, shares=shares, marginal=math.nan, walks={**no, **yes})

    return split(crossing(lambda around: _total(split(around)) - 1.0, 0.0, shares))
