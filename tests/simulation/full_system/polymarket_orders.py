"""What the fake Polymarket knows of signed orders: what each risks, costs, and says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from bot.simulator.venues.polymarket_matching import trade_sides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.simulator.request_log import LoggedRequest
    from bot.simulator.venues.polymarket_state import FakePolymarketOrder, FakePolymarketState, FakePolymarketTrade

# Makes or finds the account's own API key: it moves nothing, and is no intent's.
LOGIN = "/auth/api-key"
_MILLION = Decimal(1_000_000)


def sealed_bytes(heard: LoggedRequest) -> bytes:
    """Return what was sealed of a post: all of it but the API key, which is put there on the wire."""
    values = json.loads(heard.body)
    values.pop("owner", None)
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def signed_dollars(heard: LoggedRequest) -> float:
    """Return what the signature in a post may take of the account, nothing for a sale."""
    order = json.loads(heard.body)["order"]
    return float(Decimal(order["makerAmount"]) / _MILLION) if order["side"] == "BUY" else 0.0


def signing_time(heard: LoggedRequest) -> datetime:
    """Return when the order in a post was made, by the clock of who made it."""
    return datetime.fromtimestamp(int(json.loads(heard.body)["order"]["timestamp"]) / 1000.0, UTC)


def order_trades(
    order: FakePolymarketOrder, state: FakePolymarketState
) -> Iterator[tuple[FakePolymarketTrade, Decimal, Decimal]]:
    """Yield the trades of an order with its cash (below 0 was paid), fee included, and its shares."""
    for name in dict.fromkeys(order.trades):
        trade = state.trades[name]
        for one, size, fee in trade_sides(trade):
            if one is order:
                worth = size * trade.market.mirrored(order.token, trade.level)
                yield trade, (-worth if order.side == "BUY" else worth) - fee, size


def maximum_cost(order: FakePolymarketOrder) -> float:
    """Return what an order may cost at most, with the fee on the shares that its dollars buy for one tick each."""
    if order.side == "SELL":
        return 0.0
    fees, tick = order.market.fees, order.market.tick
    fee = Decimal(0) if fees is None or order.post_only else fees.fee_of(tick, order.spend / tick)
    return float(order.spend + fee)


def money_at_risk(order: FakePolymarketOrder, state: FakePolymarketState) -> float:
    """Return what a purchase has cost and may still cost; a match that failed on chain has cost nothing."""
    if order.side == "SELL":
        return 0.0
    return float(
        order.reserved - sum(cash for trade, cash, _ in order_trades(order, state) if trade.status != "FAILED")
    )
