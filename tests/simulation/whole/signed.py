"""What the exchange whose orders are signed knows of them, for whoever judges: what each risks, cost, and says.

An order there is known by its hash, which is the tag under which it was sealed.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from bot.testing.venues.polymarket_exchange import sides_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.testing.venues.polymarket_state import Order, State, Trade
    from bot.testing.venues.record import Heard

# Makes or finds the account's own API key: it moves nothing, and is no intent's.
LOGIN = "/auth/api-key"
_MILLION = Decimal(1_000_000)


def sealed(heard: Heard) -> bytes:
    """Return what was sealed of a post: all of it but the API key, which is put there on the wire."""
    said = json.loads(heard.body)
    said.pop("owner", None)
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def signed_dollars(heard: Heard) -> float:
    """Return what the signature in a post may take of the account, nothing for a sale."""
    order = json.loads(heard.body)["order"]
    return float(Decimal(order["makerAmount"]) / _MILLION) if order["side"] == "BUY" else 0.0


def made_at(heard: Heard) -> datetime:
    """Return when the order in a post was made, by the clock of who made it."""
    return datetime.fromtimestamp(int(json.loads(heard.body)["order"]["timestamp"]) / 1000.0, UTC)


def parts(order: Order, state: State) -> Iterator[tuple[Trade, Decimal, Decimal]]:
    """Yield the trades of an order with its cash (below 0 was paid), fee included, and its shares."""
    for name in dict.fromkeys(order.trades):
        trade = state.trades[name]
        for one, size, fee in sides_of(trade):
            if one is order:
                worth = size * trade.market.mirrored(order.token, trade.level)
                yield trade, (-worth if order.side == "BUY" else worth) - fee, size


def asked(order: Order) -> float:
    """Return what an order may cost at most, fees included."""
    if order.side == "SELL":
        return 0.0
    fees = order.market.fees
    rate = Decimal(0) if fees is None or order.post_only else fees.of(order.price, order.size)
    return float(order.spend + rate)


def stake(order: Order, state: State) -> float:
    """Return what a purchase has cost and may still cost; a match that failed on chain has cost nothing."""
    if order.side == "SELL":
        return 0.0
    return float(order.held - sum(cash for trade, cash, _ in parts(order, state) if trade.status != "FAILED"))
