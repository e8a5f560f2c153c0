"""A whole market: one pool, several that are independent, or several whose prices sum to 1.

Where exactly one answer wins, a share of it can be had in two ways: directly, or as NO of every other answer, which
pays what the share pays and mana besides. The venue takes so much of the second that the prices sum to 1 again, which
is also the cheapest.
Source: venue document, section 8; ``common/src/calculate-cpmm-arbitrage.ts`` of the venue.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from bot.api import Leg
from plugins.manifold.book import Resting, Take, Taken, line_of, walk, without
from plugins.manifold.cpmm import LOWEST, Pool, crossing

_OTHER = {Leg.YES: Leg.NO, Leg.NO: Leg.YES}
_DOUBLINGS = 60
# A walk that ends this much short of the shares it was to bring has come to a stop.
_SHORT = 1e-9


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
        """Whether it leaves a pool so thin that the venue refuses it."""
        return any(taken.parts and taken.pool.drained for taken in self.walks.values())


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

    def __post_init__(self) -> None:
        """Put the orders in line once: sizing walks them thousands of times."""
        lines = {
            (answer, leg): line_of((o for o in self.orders if o.answer == answer), leg, now_ms=self.now_ms)
            for answer in self.pools
            for leg in Leg
        }
        object.__setattr__(self, "_lines", lines)

    def probability(self, answer: str) -> float:
        """Return the price of YES of that answer."""
        return self.pools[answer].probability

    def trade(self, answer: str, take: Take) -> Trade:
        """Take from the market; nothing is changed, ``after`` tells what would be left."""
        if self.linked and len(self.pools) > 1:
            return _linked(self, answer, take)
        taken = self.walk(answer, take, {})
        return Trade(stake=taken.stake, shares=taken.shares, marginal=taken.marginal, walks={answer: taken})

    def sale(self, answer: str, leg: Leg, shares: float) -> Trade:
        """Sell shares: buy as many of the other side, each pair being worth 1. The stake is what comes in."""
        bought = self.trade(answer, Take(leg=_OTHER[leg], shares=shares))
        return replace(bought, stake=bought.shares - bought.stake)

    def after(self, trade: Trade) -> "Board":
        """Return the market as it is after a trade."""
        pools = {**self.pools, **{answer: taken.pool for answer, taken in trade.walks.items()}}
        used = {order: paid for taken in trade.walks.values() for order, paid in taken.used.items()}
        return replace(self, pools=pools, orders=without(self.orders, used))

    def walk(self, answer: str, take: Take, purses: dict[str, float]) -> Taken:
        """Walk one pool and its orders alone."""
        return walk(self.pools[answer], take, self._lines[answer, take.leg], purses)

    def basket(self, answers: Collection[str], stake: float) -> Trade:
        """Spend a stake on equally many YES shares of several answers of a linked market, but not of all."""
        high = stake / LOWEST
        most = crossing(lambda shares: stake - _basket(self, answers, shares).stake, 0.0, high)
        return _basket(self, answers, most)


def _linked(board: Board, answer: str, take: Take) -> Trade:
    """Find how many shares come by way of the other answers, so that the prices sum to 1.

    Both directions fall as that number grows: the other answers move away from where they were, and less is left to be
    bought directly.
    """
    sign = 1.0 if take.leg is Leg.YES else -1.0

    def excess(around: float) -> float:
        trade, possible = _split(board, answer, take, around)
        return sign * (_total(trade) - 1.0) if possible else -math.inf

    high = take.shares or 0.0
    if take.stake is not None:
        high = take.stake
        for _ in range(_DOUBLINGS):
            if excess(high) <= 0.0:
                break
            high *= 2.0
    return _split(board, answer, take, crossing(excess, 0.0, high))[0]


def _total(trade: Trade) -> float:
    return math.fsum(taken.pool.probability for taken in trade.walks.values())


def _split(board: Board, answer: str, take: Take, around: float) -> tuple[Trade, bool]:
    """Buy that many shares by way of the other answers and the rest directly; and say whether that can be.

    It cannot where the others do not have so many, or where they cost more than the stake. None of them always can.
    """
    purses: dict[str, float] = {}
    way = Take(leg=_OTHER[take.leg], shares=around)
    walks = {name: board.walk(name, way, purses) for name in board.pools if name != answer}
    # NO of all others pays 1 for each of them but one: all but one mana back at once. YES of all others is NO, exactly.
    back = around * (len(walks) - 1) if take.leg is Leg.YES else 0.0
    net = math.fsum(taken.stake for taken in walks.values()) - back
    possible = all(taken.shares >= around - _SHORT * (1.0 + around) for taken in walks.values())
    if take.stake is not None:
        rest = replace(take, stake=max(take.stake - net, 0.0))
        possible = possible and take.stake - net >= -_SHORT * (1.0 + take.stake)
    else:
        rest = replace(take, shares=max((take.shares or 0.0) - around, 0.0))
    direct = walks[answer] = board.walk(answer, rest, purses)
    trade = Trade(stake=net + direct.stake, shares=around + direct.shares, marginal=direct.marginal, walks=walks)
    return trade, possible


def _basket(board: Board, answers: Collection[str], shares: float) -> Trade:
    outside = [name for name in board.pools if name not in answers]

    def split(around: float) -> Trade:
        purses: dict[str, float] = {}
        no = {name: board.walk(name, Take(leg=Leg.NO, shares=around), purses) for name in outside}
        yes = {name: board.walk(name, Take(leg=Leg.YES, shares=shares - around), purses) for name in answers}
        stake = math.fsum(taken.stake for taken in (*no.values(), *yes.values())) - around * (len(outside) - 1)
        brought = min(taken.shares for taken in yes.values()) + min(taken.shares for taken in no.values())
        return Trade(stake=stake, shares=brought, marginal=math.nan, walks={**no, **yes})

    def excess(around: float) -> float:
        trade = split(around)
        short = any(trade.walks[name].shares < around - _SHORT * (1.0 + around) for name in outside)
        return -math.inf if short else _total(trade) - 1.0

    trade = split(crossing(excess, 0.0, shares))
    # Prices stop before that many can be had: no stake buys them.
    return replace(trade, stake=math.inf) if trade.shares < shares - _SHORT * (1.0 + shares) else trade
