"""What the two sockets of the fake Polymarket send: books to everybody, orders and trades to their owners."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from bot.simulator.venues import polymarket_order_books as books
from bot.simulator.venues import polymarket_responses as rows
from bot.simulator.venues.polymarket_state import (
    ONE_DOLLAR,
    FakePolymarketMarket,
    FakePolymarketOrder,
    FakePolymarketState,
    FakePolymarketTrade,
    decimal_text,
)
from bot.simulator.websocket_hub import FakeSocketChannel, WebSocketHub

# A socket with more ids than these gets no first full book.
MOST_IDS = 500


class SocketMessages:
    """Sends messages on sockets. ``facts`` of a channel: kind, and its subscriptions."""

    def __init__(self, state: FakePolymarketState, hub: WebSocketHub, now: Callable[[], int]) -> None:
        self._state, self._hub, self._now = state, hub, now

    # Subscriptions

    def hear_market(self, channel: FakeSocketChannel, frame: Mapping[str, Any]) -> None:
        """Handle a frame of the market socket: the first one, or a change of it."""
        subscribed: dict[str, None] = channel.facts.setdefault("assets", {})
        ids = frame.get("assets_ids")
        if not isinstance(ids, list) or not all(isinstance(token, str) for token in ids):
            channel.push("INVALID OPERATION")
            return
        if "custom_feature_enabled" in frame:
            channel.facts["custom"] = frame["custom_feature_enabled"] is True
        if frame.get("operation") == "unsubscribe":
            for token in ids:
                subscribed.pop(token, None)
            return
        new = [token for token in ids if token not in subscribed]
        subscribed.update(dict.fromkeys(ids))
        if len(subscribed) > MOST_IDS:
            return
        known = [(self._state.tokens.get(token), token) for token in new]
        # The first full books are sent together, as one list.
        if full := [
            self._book_message(market, token) for market, token in known if market is not None and market.trades_now
        ]:
            channel.push(full)

    def freeze(self) -> None:
        """Send nothing more on the sockets that are open now, though they live and PING is answered."""
        for channel in self._hub.channels:
            channel.facts["frozen"] = True

    # Events of a market

    def send_book(self, market: FakePolymarketMarket) -> None:
        """Send the whole book of both outcomes."""
        for token in market.tokens:
            self._to_listeners(token, self._book_message(market, token))

    def send_price_changes(self, market: FakePolymarketMarket, changes: Iterable[tuple[bool, Decimal]]) -> None:
        """Send the present sizes at the prices that changed: (whether bids, level of the first outcome)."""
        market.moved_ms = self._now()
        sides = {bids: books.book_levels(self._state, market, bids=bids) for bids in (True, False)}
        distinct = list(dict.fromkeys(changes))
        for token in market.tokens:
            bid, ask = books.best_bid_and_ask(self._state, market, token)
            is_first = token == market.tokens[0]
            touch = {
                "best_bid": "0" if bid is None else decimal_text(bid),
                "best_ask": "1" if ask is None else decimal_text(ask),
                "hash": books.book_row(self._state, market, token)["hash"],
            }
            listed = [
                {
                    "asset_id": token,
                    "price": decimal_text(level if is_first else ONE_DOLLAR - level),
                    "size": decimal_text(sides[bids].get(level, Decimal(0))),
                    "side": "BUY" if bids is is_first else "SELL",
                    **touch,
                }
                for bids, level in distinct
            ]
            if listed:
                self._to_listeners(token, self._market_event(market, "price_change", price_changes=listed))
                self._say_touch(market, token, bid, ask)

    def send_last_trade(
        self, market: FakePolymarketMarket, token: str, level: Decimal, size: Decimal, side: str
    ) -> None:
        """Send a trade."""
        price = decimal_text(market.mirrored(token, level))
        found = {"asset_id": token, "price": price, "size": decimal_text(size), "side": side, "fee_rate_bps": "0"}
        self._to_listeners(token, self._market_event(market, "last_trade_price", **found))

    def send_tick_change(self, market: FakePolymarketMarket, before: Decimal) -> None:
        """Send that the grid of prices changed, and the book on it."""
        for token in market.tokens:
            found = {
                "asset_id": token,
                "old_tick_size": decimal_text(before),
                "new_tick_size": decimal_text(market.tick),
            }
            self._to_listeners(token, self._market_event(market, "tick_size_change", **found))
        self.send_book(market)

    def send_new_market(self, market: FakePolymarketMarket) -> None:
        """Send a new market to all subscribers of such events."""
        found = {
            "id": market.id,
            "question": market.question,
            "slug": market.slug,
            "description": market.description,
            "assets_ids": list(market.tokens),
            "outcomes": list(market.outcomes),
        }
        self._to_curious(self._market_event(market, "new_market", **found))

    def send_resolution(self, market: FakePolymarketMarket) -> None:
        """Send to all subscribers of such events that a market ended with one winner."""
        if market.payouts is None or ONE_DOLLAR not in market.payouts:
            return
        index = market.payouts.index(ONE_DOLLAR)
        found = {
            "id": market.id,
            "assets_ids": list(market.tokens),
            "winning_asset_id": market.tokens[index],
            "winning_outcome": market.outcomes[index],
        }
        self._to_curious(self._market_event(market, "market_resolved", **found))

    # Events of an account

    def send_order(self, order: FakePolymarketOrder, what: str) -> None:
        """Send its owner the state of an order: PLACEMENT, UPDATE or CANCELLATION."""
        row = {
            **rows.order_row(order),
            "event_type": "order",
            "type": what,
            "order_owner": order.user.key,
            "timestamp": str(self._now()),
        }
        self._to_owner(order.user.key, order.market, row)

    def send_trade(self, trade: FakePolymarketTrade) -> None:
        """Send all sides of a trade its state."""
        sides = [trade.taker, *(maker.order for maker in trade.makers)]
        for user in {order.user.key: order.user for order in sides if order is not None}.values():
            row = {
                **rows.trade_row(trade, user),
                "event_type": "trade",
                "type": "TRADE",
                "timestamp": str(self._now()),
                "matchtime": str(trade.matched_ms // 1000),
                "trade_owner": user.key,
            }
            self._to_owner(user.key, trade.market, row)

    def _say_touch(self, market: FakePolymarketMarket, token: str, bid: Decimal | None, ask: Decimal | None) -> None:
        if bid is None or ask is None:
            return
        found = {"best_bid": decimal_text(bid), "best_ask": decimal_text(ask), "spread": decimal_text(ask - bid)}
        message = self._market_event(market, "best_bid_ask", asset_id=token, **found)
        self._send_to(message, lambda to: to.facts.get("custom") is True and _is_subscribed(to, token))

    def _book_message(self, market: FakePolymarketMarket, token: str) -> dict[str, Any]:
        return {**books.book_row(self._state, market, token), "event_type": "book"}

    def _market_event(self, market: FakePolymarketMarket, kind: str, **more: object) -> dict[str, Any]:
        return {"event_type": kind, "market": market.condition, "timestamp": str(self._now()), **more}

    def _to_listeners(self, token: str, message: Mapping[str, Any]) -> None:
        self._send_to(message, lambda to: _is_subscribed(to, token))

    def _to_curious(self, message: Mapping[str, Any]) -> None:
        self._send_to(message, lambda to: to.facts.get("custom") is True)

    def _to_owner(self, key: str, market: FakePolymarketMarket, message: Mapping[str, Any]) -> None:
        def wanted(channel: FakeSocketChannel) -> bool:
            only = channel.facts.get("markets")
            mine = key != "" and channel.facts.get("key") == key
            return mine and (only is None or market.condition in only)

        self._send_to(message, wanted)

    def _send_to(self, message: Mapping[str, Any], wanted: Callable[[FakeSocketChannel], bool]) -> None:
        self._hub.publish(lambda to: [message] if wanted(to) and "frozen" not in to.facts else [])


def read_frame(text: str) -> Mapping[str, Any] | None:
    """Return a frame of a client, None for anything but an object."""
    try:
        frame = json.loads(text)
    except ValueError:
        return None
    return frame if isinstance(frame, dict) else None


def _is_subscribed(channel: FakeSocketChannel, token: str) -> bool:
    return token in channel.facts.get("assets", {})
