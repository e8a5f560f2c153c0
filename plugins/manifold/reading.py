"""Reading a market for trading: fresh, with its orders, and with what the owners of the nearest ones can pay."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from bot.api import NotFound, Rejected
from plugins.manifold.state import MarketState

# Orders further away are seldom reached, and each owner is a request.
MAKERS = 12


class Reads(Protocol):
    """What planner and paper book read; every answer is of now, past all caches."""

    async def market(self, market_id: str) -> Mapping[str, Any]:
        """Return the FullMarket; raises NotFound, Unavailable."""
        ...

    async def orders(self, market_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the open limit orders of all users on all its answers; raises Unavailable."""
        ...

    async def balances(self, user_ids: Collection[str]) -> Mapping[str, float]:
        """Return what these users have, without those who could not be read."""
        ...


async def read_state(client: Reads, market_id: str, *, now: datetime, own_orders: Collection[str] = ()) -> MarketState:
    """Return the market as it is now, without one's own orders.

    Raises Rejected where there is no such market, Unavailable, and ContractError where it has no price.
    """
    try:
        market = await client.market(market_id)
        orders = await client.orders(market_id)
    except NotFound as error:
        message = f"there is no market {market_id}: {error}"
        raise Rejected(message) from error
    state = MarketState.from_api(market, orders, read_at=now).without(own_orders)
    makers = nearest_makers(state)
    return state.knowing(await client.balances(makers)) if makers else state


def nearest_makers(state: MarketState, most: int = MAKERS) -> tuple[str, ...]:
    """Return the owners of the orders nearest to the price, each once."""
    prices = {answer.id: answer.pool.probability for answer in state.answers}
    near = sorted(
        (order for order in state.orders if order.remaining > 0.0),
        key=lambda order: (abs(order.limit - prices[order.answer]), order.created),
    )
    return tuple(dict.fromkeys(order.user for order in near))[:most]
