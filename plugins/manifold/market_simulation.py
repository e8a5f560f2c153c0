"""A whole market: one pool, several that are independent, or several whose prices sum to 1.

If exactly one answer wins, a share of it can be bought in two ways: directly, or as NO of every other answer, which
pays the same and some mana in addition. The venue combines both so that the prices sum to 1 again, which is also the
cheapest. Purchases of other answers do not stop at 1 and 99 %, and neither do sales. Source:
docs/facts/manifold.md#arithmetic; ``common/src/calculate-cpmm-arbitrage.ts`` of the venue.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from bot.api import ContractSide
from plugins.manifold.book_walk import (
    PoolTakerOrder,
    PoolWalkResult,
    RestingLimitOrder,
    opposite_orders,
    remaining_orders,
    walk_pool,
)
from plugins.manifold.cpmm import CpmmPool, find_root

_OPPOSITE_SIDE = {ContractSide.YES: ContractSide.NO, ContractSide.NO: ContractSide.YES}
_MAX_DOUBLINGS = 60
# An excess over a stake below this is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTrade:
    """The result of a bet on one answer: ``shares`` of the requested leg for ``stake``.

    ``marginal_price`` is that answer's P(YES) at its end, ``walks_by_answer`` are the walks by answer.
    """

    stake: float
    shares: float
    marginal_price: float
    walks_by_answer: Mapping[str, PoolWalkResult]

    @property
    def drains_pool(self) -> bool:
        """Whether it drains the pool of a market without answers so far that the venue refuses it."""
        whole = self.walks_by_answer.get("")
        return whole is not None and bool(whole.parts) and whole.pool.is_drained


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMarket:
    """The pools of a market by answer ("" if it has none), and their limit orders.

    ``is_linked`` means that the prices of the answers sum to 1; orders expire by ``now_ms``.
    """

    pools: Mapping[str, CpmmPool]
    orders: tuple[RestingLimitOrder, ...] = ()
    is_linked: bool = False
    now_ms: float = 0.0
    _order_queues: dict[tuple[str, ContractSide], tuple[RestingLimitOrder, ...]] = field(
        init=False, repr=False, compare=False
    )
    _owners: dict[str, tuple[str, float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the orders once: sizing walks them thousands of times."""
        queues = {
            (answer, leg): opposite_orders((o for o in self.orders if o.answer == answer), leg, now_ms=self.now_ms)
            for answer in self.pools
            for leg in ContractSide
        }
        object.__setattr__(self, "_order_queues", queues)
        object.__setattr__(self, "_owners", {o.id: (o.user, o.balance or 0.0) for o in self.orders})

    def probability(self, answer: str) -> float:
        """Return the price of YES of that answer."""
        return self.pools[answer].probability

    def order_owner(self, order: str) -> tuple[str, float]:
        """Return the owner of an order, and their balance."""
        return self._owners[order]

    def simulate_trade(self, answer: str, taker: PoolTakerOrder) -> SimulatedTrade:
        """Simulate a taker order; nothing is changed, see ``after_trade``."""
        if self.is_linked and len(self.pools) > 1:
            return _trade_linked_answer(self, answer, taker)
        walk_result = self.walk(answer, taker)
        return SimulatedTrade(
            stake=walk_result.stake,
            shares=walk_result.shares,
            marginal_price=walk_result.marginal_price,
            walks_by_answer={answer: walk_result},
        )

    def simulate_sale(self, answer: str, leg: ContractSide, shares: float) -> SimulatedTrade:
        """Sell shares: buy as many of the other side, each pair being worth 1. The stake is the proceeds."""
        bought = self.simulate_trade(
            answer, PoolTakerOrder(leg=_OPPOSITE_SIDE[leg], shares=shares, stops_at_price_bounds=False)
        )
        return replace(bought, stake=bought.shares - bought.stake)

    def after_trade(self, trade: SimulatedTrade) -> "SimulatedMarket":
        """Return the market as it is after a trade."""
        pools = {**self.pools, **{answer: walk_result.pool for answer, walk_result in trade.walks_by_answer.items()}}
        used = {
            order: paid
            for walk_result in trade.walks_by_answer.values()
            for order, paid in walk_result.paid_by_order.items()
        }
        return replace(self, pools=pools, orders=remaining_orders(self.orders, used))

    def walk(self, answer: str, taker: PoolTakerOrder, balances: dict[str, float] | None = None) -> PoolWalkResult:
        """Walk one pool and its orders alone; ``balances`` is what owners have left, and is updated."""
        return walk_pool(self.pools[answer], taker, self._order_queues[answer, taker.leg], balances)

    def walk_all(self, answers: Iterable[str], leg: ContractSide, shares: float) -> dict[str, PoolWalkResult]:
        """Buy that many shares of each of these answers at any price; owners of orders can pay for each walk."""
        return {
            name: self.walk(name, PoolTakerOrder(leg=leg, shares=shares, stops_at_price_bounds=False))
            for name in answers
        }


def _trade_linked_answer(market: SimulatedMarket, answer: str, taker: PoolTakerOrder) -> SimulatedTrade:
    """Find how many shares to buy through the other answers, so that the prices sum to 1.

    Both directions fall as that number grows: the prices of the other answers move, and less is left to be bought
    directly. A bet on an answer with a price beyond its limit buys nothing either way.
    """
    price = market.probability(answer)
    if taker.is_beyond(price):
        return SimulatedTrade(stake=0.0, shares=0.0, marginal_price=price, walks_by_answer={})
    sign = 1.0 if taker.leg is ContractSide.YES else -1.0

    def excess(shares_around: float) -> float:
        trade, possible = _split_trade(market, answer, taker, shares_around)
        return sign * (_price_sum(trade) - 1.0) if possible else -math.inf

    high = taker.shares or 0.0
    if taker.stake is not None:
        high = taker.stake / (price if taker.leg is ContractSide.YES else 1.0 - price)
        for _ in range(_MAX_DOUBLINGS):
            if excess(high) <= 0.0:
                break
            high *= 2.0
    return _split_trade(market, answer, taker, find_root(excess, 0.0, high))[0]


def _price_sum(trade: SimulatedTrade) -> float:
    return math.fsum(walk_result.pool.probability for walk_result in trade.walks_by_answer.values())


def _split_trade(
    market: SimulatedMarket, answer: str, taker: PoolTakerOrder, shares_around: float
) -> tuple[SimulatedTrade, bool]:
    """Buy that many shares through the other answers and the rest directly; return whether the stake pays for them.

    It always does for zero shares.
    """
    others = [name for name in market.pools if name != answer]
    walks = market.walk_all(others, _OPPOSITE_SIDE[taker.leg], shares_around)
    # NO of all others pays 1 for each of them but one, and that is redeemed at once. YES of all others equals NO.
    redeemed = shares_around * (len(others) - 1) if taker.leg is ContractSide.YES else 0.0
    net = math.fsum(walk_result.stake for walk_result in walks.values()) - redeemed
    if taker.stake is None:
        rest, balances, possible = replace(taker, shares=max((taker.shares or 0.0) - shares_around, 0.0)), None, True
    else:
        possible = taker.stake - net >= -_ROUNDING * (taker.stake + redeemed)
        rest = replace(taker, stake=max(taker.stake - net, 0.0))
        walks, balances = _charge_order_owners(market, walks, _OPPOSITE_SIDE[taker.leg])
    direct = walks[answer] = market.walk(answer, rest, balances)
    trade = SimulatedTrade(
        stake=net + direct.stake,
        shares=shares_around + direct.shares,
        marginal_price=direct.marginal_price,
        walks_by_answer=walks,
    )
    return trade, possible


def _charge_order_owners(
    market: SimulatedMarket, walks: dict[str, PoolWalkResult], leg: ContractSide
) -> tuple[dict[str, PoolWalkResult], dict[str, float]]:
    """Return the walks of a bet on the other answers, and the balances of order owners after it.

    The venue computes the cost of each walk as if the owners could pay for all; then it spends that, one answer after
    the other, and owners of several orders pay once: what they cannot pay is bought from the pools. Sales only do the
    first step.
    """
    balances: dict[str, float] = {}
    for walk_result in walks.values():
        for order, paid in walk_result.paid_by_order.items():
            user, balance = market.order_owner(order)
            balances[user] = balances.get(user, balance) - paid
    if all(balance >= 0.0 for balance in balances.values()):
        return walks, balances
    balances = {}
    return {
        name: market.walk(name, PoolTakerOrder(leg=leg, stake=t.stake, stops_at_price_bounds=False), balances)
        for name, t in walks.items()
    }, balances
