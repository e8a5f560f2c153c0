"""Kelly stakes if the stake itself moves the price: it stops at the marginal price at which both sides balance.

With one pool and nothing held this is the formula of the source.
Source: docs/facts/manifold.md#sizing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from bot.api import ContractSide, KellyBankroll, PayoffScenarios, marginal_utility, payoff_scenarios
from plugins.manifold.book_walk import PoolTakerOrder
from plugins.manifold.cpmm import find_root
from plugins.manifold.market_simulation import SimulatedMarket, SimulatedTrade

PRICE_PERCENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class ManifoldKellyStake:
    """The full stake: its leg, its simulated trade, and the effective belief, past which it never moves the price."""

    leg: ContractSide
    trade: SimulatedTrade
    indifference_price: float


def full_kelly_stake(market: SimulatedMarket, answer: str, view: PayoffScenarios, cash: float) -> ManifoldKellyStake:
    """Return the stake of most growth, at most ``cash``."""
    effective = view.indifference_price
    leg = ContractSide.YES if effective >= market.probability(answer) else ContractSide.NO
    scenarios = view.for_side(leg)
    max_stake = max(min(cash, *(outcome.wealth for outcome in scenarios.lost)), 0.0)
    whole = market.simulate_trade(answer, PoolTakerOrder(leg=leg, stake=max_stake, limit=effective))

    def excess(stake: float) -> float:
        """Growth from one more unit, which falls as the stake grows."""
        trade = market.simulate_trade(answer, PoolTakerOrder(leg=leg, stake=stake, limit=effective))
        price = trade.marginal_price if leg is ContractSide.YES else 1.0 - trade.marginal_price
        loss = marginal_utility(scenarios.lost, -stake)
        gain = (1.0 - price) / price * marginal_utility(scenarios.won, trade.shares - stake)
        return -math.inf if math.isinf(loss) else gain - loss

    stake = find_root(excess, 0.0, min(whole.stake, max_stake))
    return ManifoldKellyStake(
        leg, market.simulate_trade(answer, PoolTakerOrder(leg=leg, stake=stake, limit=effective)), effective
    )


def fractional_kelly_stake(
    market: SimulatedMarket, answer: str, bankroll: KellyBankroll, beliefs: Mapping[str, float], *, share: float
) -> ManifoldKellyStake:
    """Return that share of the full stake, at most what a bettor with that bankroll share would hold.

    Because of the second bound, planning twice plans nothing the second time. A stake of 0 means: hold. Shares held
    against the belief are sold before (``sales``).
    """
    prices = {name: pool.probability for name, pool in market.pools.items()}
    full = full_kelly_stake(market, answer, payoff_scenarios(bankroll, beliefs, answer), bankroll.cash)
    part = full_kelly_stake(
        market, answer, payoff_scenarios(bankroll.scaled_to_share(share, prices), beliefs, answer), bankroll.cash
    )
    stake = min(full.trade.stake * share, part.trade.stake) if part.leg is full.leg else 0.0
    taker = PoolTakerOrder(leg=full.leg, stake=stake, limit=full.indifference_price)
    return ManifoldKellyStake(full.leg, market.simulate_trade(answer, taker), full.indifference_price)


def limit_probability(
    leg: ContractSide, *, after: float, belief: float, step: Decimal = PRICE_PERCENT
) -> Decimal | None:
    """Return the limit as P(YES), in whole steps: the end price, widened to the next step, within the belief.

    None if the venue accepts no limit within it: the lowest is 1 %, the highest 99 %. Exact in decimals: as floats, 100
    times 0.57 is below 57 and 100 times 0.55 above 55.
    """
    end, held = Decimal(repr(round(after, 9))) / step, Decimal(repr(belief)) / step
    if leg is ContractSide.YES:
        steps = min(end.to_integral_value(ROUND_CEILING), held.to_integral_value(ROUND_FLOOR))
    else:
        steps = max(end.to_integral_value(ROUND_FLOOR), held.to_integral_value(ROUND_CEILING))
    limit = min(max(steps * step, PRICE_PERCENT), 1 - PRICE_PERCENT)
    beyond = limit > held * step if leg is ContractSide.YES else limit < held * step
    return None if beyond else limit
