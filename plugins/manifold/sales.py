"""Sales: positions are closed by selling, which needs no mana, not by buying the other side.

The venue sells at the market, without a limit. So the limit of a sale is checked on the market as it is read right
before the request is made, against the average price of all the shares. Source: docs/facts/manifold.md#other-writes and
#arithmetic.
"""

from collections.abc import Sequence

from bot.api import ContractSide, Order, OrderSide, Position
from plugins.manifold.book_walk import PoolTakerOrder
from plugins.manifold.market_simulation import SimulatedMarket
from plugins.manifold.market_state import ManifoldMarketState, contract_name, split_contract

CURRENCY = "MANA"
# Fewer shares are not worth a request.
MIN_SALE_SHARES = 1e-6
# By how much less than planned a share may bring when a position is closed regardless of the forecast.
CLOSING_PRICE_SLACK = 0.02
_MIN_PRICE = 1e-4
OPPOSITE_SIDE = {ContractSide.YES: ContractSide.NO, ContractSide.NO: ContractSide.YES}


def sellable_shares(market: SimulatedMarket, answer: str, leg: ContractSide, held: float, worth: float) -> float:
    """Return how many shares can be sold until the next one would bring less than its worth."""
    belief = worth if leg is ContractSide.YES else 1.0 - worth
    bought = market.simulate_trade(answer, PoolTakerOrder(leg=OPPOSITE_SIDE[leg], shares=held, limit=belief))
    return min(bought.shares, held)


def plan_sale(
    state: ManifoldMarketState,
    market: SimulatedMarket,
    answer: str,
    leg: ContractSide,
    shares: float,
    *,
    worth: float | None = None,
) -> Order | str:
    """Return the order that sells these shares, or why nothing can be sold.

    ``worth`` is what a share is worth by the belief, the minimum price; None: the position is closed regardless of the
    forecast, for little less than the market pays now.
    """
    sale = market.simulate_sale(answer, leg, shares)
    if sale.shares <= MIN_SALE_SHARES:
        return f"there is no buyer for {leg}"
    if sale.drains_pool:
        return "the pool is too small"
    sold = min(sale.shares, shares)
    average = min(max(sale.stake / sale.shares, _MIN_PRICE), 1.0 - _MIN_PRICE)
    end = sale.marginal_price if leg is ContractSide.YES else 1.0 - sale.marginal_price
    limit = min(end, average) - CLOSING_PRICE_SLACK if worth is None else worth
    return Order(
        contract=contract_name(state.market, answer),
        leg=leg,
        side=OrderSide.SELL,
        shares=sold,
        limit=min(max(limit, _MIN_PRICE), average),
        cost=0.0,
        expected=average,
        currency=CURRENCY,
        edge=0.0 if worth is None else average - worth,
        terms={"market": state.market, "answer": answer, "type": state.outcome_type},
    )


def plan_closing_sale(state: ManifoldMarketState, position: Position) -> Order | str:
    """Return the order that sells a whole position, or as much of it as can be sold, or why nothing can be."""
    _, answer = split_contract(position.contract)
    market = state.simulated_market()
    if answer not in market.pools:
        return "the market no longer has this answer, or it is resolved"
    return plan_sale(state, market, answer, position.leg, position.shares)


def sale_price_objection(state: ManifoldMarketState, order: Order) -> str | None:
    """Return why the shares of a sale would bring less than its limit on the market as it is now, or None."""
    _, answer = split_contract(order.contract)
    market = state.simulated_market()
    if answer not in market.pools:
        return "the answer is resolved"
    sale = market.simulate_sale(answer, order.leg, order.shares)
    average = sale.stake / sale.shares if sale.shares > MIN_SALE_SHARES else 0.0
    if sale.shares < order.shares * (1.0 - 1e-9) - MIN_SALE_SHARES:
        return f"only {sale.shares:.2f} of {order.shares:.2f} {order.leg} can be sold now"
    if average < order.limit - 1e-9:
        return f"a share would bring {average:.4f} on average now, less than the limit {order.limit:.4f}"
    return None


def prioritize_held_answers(beliefs: Sequence[str], against: frozenset[str]) -> list[str]:
    """Return the answers in their order, but first those with shares held against the belief."""
    return [*(one for one in beliefs if one in against), *(one for one in beliefs if one not in against)]
