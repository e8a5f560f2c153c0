"""Whether an order may still be sealed on the market as it is now, and what its question asks now."""

from datetime import datetime, timedelta

from bot.api import NotFound, Order, Question, Rejected
from plugins.manifold.client import Client
from plugins.manifold.parse import is_cash, objection, unpack
from plugins.manifold.state import parts_of


async def read_again(client: Client, order: Order, question: Question, *, now: datetime, margin: timedelta) -> Question:
    """Return the question as its market asks it now; raises Rejected where the market cannot be traded."""
    market_id = parts_of(order.contract)[0]
    if question.facts.get("market") != market_id:
        message = f"{question.ref}: the order is on market {market_id}, which the question is not about"
        raise Rejected(message)
    try:
        unpacked = unpack(await client.market(market_id), now=now)
    except NotFound as error:
        message = f"market {market_id} is not there any more: {error}"
        raise Rejected(message) from error
    if why := objection(unpacked.market, now, margin):
        message = f"market {market_id} is {why}"
        raise Rejected(message)
    if is_cash(unpacked.market):
        message = f"market {market_id} is traded in another currency"
        raise Rejected(message)
    found = next((one for one in unpacked.questions if one.ref == question.ref), None)
    if found is None:
        message = f"{question.ref} is not open on its market any more"
        raise Rejected(message)
    return found
