"""Sales: what is held is given up by selling it, which needs no mana, and not by buying the other side.

The venue sells at the market, without a limit. So the limit of a sale is held against the market as it is read right
before the request is made, by the average that all the shares would bring then.
Source: venue document, sections 6.2 and 8.
"""

from collections.abc import Sequence

from bot.api import Leg, Order, Position, Side
from plugins.manifold.arbitrage import Board
from plugins.manifold.book import Take
from plugins.manifold.state import MarketState, contract_of, parts_of

CURRENCY = "MANA"
# Shares that are not worth a request.
DUST = 1e-6
# By how much less than planned a share may bring where all of a position goes, whatever the belief.
SLACK = 0.02
_LEAST_PRICE = 1e-4
OTHER = {Leg.YES: Leg.NO, Leg.NO: Leg.YES}


def sellable(board: Board, answer: str, leg: Leg, held: float, worth: float) -> float:
    """Return how many shares can be sold until the next one would bring less than it is worth by the belief."""
    belief = worth if leg is Leg.YES else 1.0 - worth
    bought = board.trade(answer, Take(leg=OTHER[leg], shares=held, limit=belief))
    return min(bought.shares, held)


def sale_of(
    state: MarketState, board: Board, answer: str, leg: Leg, shares: float, *, worth: float | None = None
) -> Order | str:
    """Return the order that sells these shares, or why nothing can be sold.

    ``worth`` is what a share is worth by the belief, below which none is sold; None: the position goes whatever the
    belief, for little less than the market gives now.
    """
    sale = board.sale(answer, leg, shares)
    if sale.shares <= DUST:
        return f"nobody buys {leg} there"
    if sale.drains:
        return "the pool is too small"
    sold = min(sale.shares, shares)
    average = min(max(sale.stake / sale.shares, _LEAST_PRICE), 1.0 - _LEAST_PRICE)
    end = sale.marginal if leg is Leg.YES else 1.0 - sale.marginal
    limit = min(end, average) - SLACK if worth is None else worth
    return Order(
        contract=contract_of(state.market, answer),
        leg=leg,
        side=Side.SELL,
        shares=sold,
        limit=min(max(limit, _LEAST_PRICE), average),
        cost=0.0,
        expected=average,
        currency=CURRENCY,
        edge=0.0 if worth is None else average - worth,
        terms={"market": state.market, "answer": answer, "type": state.outcome_type},
    )


def closing_sale(state: MarketState, position: Position) -> Order | str:
    """Return the order that sells a whole position, or as much of it as can be sold, or why nothing can be."""
    _, answer = parts_of(position.contract)
    board = state.board()
    if answer not in board.pools:
        return "the market has no such answer any more, or it is resolved"
    return sale_of(state, board, answer, position.leg, position.shares)


def refused_price(state: MarketState, order: Order) -> str | None:
    """Say that the shares of a sale would bring less than its limit on the market as it is now, or None."""
    _, answer = parts_of(order.contract)
    board = state.board()
    if answer not in board.pools:
        return "the answer is resolved"
    sale = board.sale(answer, order.leg, order.shares)
    average = sale.stake / sale.shares if sale.shares > DUST else 0.0
    if sale.shares < order.shares * (1.0 - 1e-9) - DUST:
        return f"only {sale.shares:.2f} of {order.shares:.2f} {order.leg} can be sold now"
    if average < order.limit - 1e-9:
        return f"a share would bring {average:.4f} on average now, less than the limit {order.limit:.4f}"
    return None


def answers_first(beliefs: Sequence[str], against: frozenset[str]) -> list[str]:
    """Return the answers in their order, those first of which shares are held against the belief."""
    return [*(one for one in beliefs if one in against), *(one for one in beliefs if one not in against)]
