"""What the two sockets of the fake Polymarket say: books to everybody, orders and trades to their owners."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from bot.testing.venues import polymarket_books as books
from bot.testing.venues import polymarket_rows as rows
from bot.testing.venues.hub import Channel, Hub
from bot.testing.venues.polymarket_state import ONE, Market, Order, State, Trade, plain

# A socket with more ids than these gets no first full book.
MOST_IDS = 500


class News:
    """Says things on sockets. ``facts`` of a channel: kind, and what it listens to."""

    def __init__(self, state: State, hub: Hub, now: Callable[[], int]) -> None:
        self._state, self._hub, self._now = state, hub, now

    # What is asked for

    def hear_market(self, channel: Channel, frame: Mapping[str, Any]) -> None:
        """Take a frame of the market socket: the first one, or a change of it."""
        heard: dict[str, None] = channel.facts.setdefault("assets", {})
        ids = frame.get("assets_ids")
        if not isinstance(ids, list) or not all(isinstance(token, str) for token in ids):
            channel.push("INVALID OPERATION")
            return
        if "custom_feature_enabled" in frame:
            channel.facts["custom"] = frame["custom_feature_enabled"] is True
        if frame.get("operation") == "unsubscribe":
            for token in ids:
                heard.pop(token, None)
            return
        new = [token for token in ids if token not in heard]
        heard.update(dict.fromkeys(ids))
        if len(heard) > MOST_IDS:
            return
        known = [(self._state.tokens.get(token), token) for token in new]
        # The first full books come together, as one list.
        if full := [self._book(market, token) for market, token in known if market is not None and market.trades_now]:
            channel.push(full)

    def freeze(self) -> None:
        """Say nothing more on the sockets that are open now, though they live and PING is answered."""
        for channel in self._hub.channels:
            channel.facts["frozen"] = True

    # What happens to a market

    def replaced(self, market: Market) -> None:
        """Say the whole book of both outcomes."""
        for token in market.tokens:
            self._to_listeners(token, self._book(market, token))

    def moved(self, market: Market, changes: Iterable[tuple[bool, Decimal]]) -> None:
        """Say what is there now at the prices that changed: (whether bids, level of the first outcome)."""
        market.moved_ms = self._now()
        sides = {bids: books.levels(self._state, market, bids=bids) for bids in (True, False)}
        told = list(dict.fromkeys(changes))
        for token in market.tokens:
            bid, ask = books.touch(self._state, market, token)
            is_first = token == market.tokens[0]
            touch = {
                "best_bid": "0" if bid is None else plain(bid),
                "best_ask": "1" if ask is None else plain(ask),
                "hash": books.book_row(self._state, market, token)["hash"],
            }
            listed = [
                {
                    "asset_id": token,
                    "price": plain(level if is_first else ONE - level),
                    "size": plain(sides[bids].get(level, Decimal(0))),
                    "side": "BUY" if bids is is_first else "SELL",
                    **touch,
                }
                for bids, level in told
            ]
            if listed:
                self._to_listeners(token, self._event(market, "price_change", price_changes=listed))
                self._say_touch(market, token, bid, ask)

    def printed(self, market: Market, token: str, level: Decimal, size: Decimal, side: str) -> None:
        """Say that something traded."""
        price = plain(market.mirrored(token, level))
        found = {"asset_id": token, "price": price, "size": plain(size), "side": side, "fee_rate_bps": "0"}
        self._to_listeners(token, self._event(market, "last_trade_price", **found))

    def new_tick(self, market: Market, before: Decimal) -> None:
        """Say that the grid of prices changed, and the book on it."""
        for token in market.tokens:
            found = {"asset_id": token, "old_tick_size": plain(before), "new_tick_size": plain(market.tick)}
            self._to_listeners(token, self._event(market, "tick_size_change", **found))
        self.replaced(market)

    def opened(self, market: Market) -> None:
        """Say to everybody who wants to know such things that there is a new market."""
        found = {
            "id": market.id,
            "question": market.question,
            "slug": market.slug,
            "description": market.description,
            "assets_ids": list(market.tokens),
            "outcomes": list(market.outcomes),
        }
        self._to_curious(self._event(market, "new_market", **found))

    def resolved(self, market: Market) -> None:
        """Say to everybody who wants to know such things that a market ended with one winner."""
        if market.payouts is None or ONE not in market.payouts:
            return
        index = market.payouts.index(ONE)
        found = {
            "id": market.id,
            "assets_ids": list(market.tokens),
            "winning_asset_id": market.tokens[index],
            "winning_outcome": market.outcomes[index],
        }
        self._to_curious(self._event(market, "market_resolved", **found))

    # What happens to an account

    def order(self, order: Order, what: str) -> None:
        """Say to its owner what became of an order: PLACEMENT, UPDATE or CANCELLATION."""
        row = {
            **rows.order_row(order),
            "event_type": "order",
            "type": what,
            "order_owner": order.user.key,
            "timestamp": str(self._now()),
        }
        self._to_owner(order.user.key, order.market, row)

    def trade(self, trade: Trade) -> None:
        """Say to all sides of a trade how it stands."""
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

    def _say_touch(self, market: Market, token: str, bid: Decimal | None, ask: Decimal | None) -> None:
        if bid is None or ask is None:
            return
        found = {"best_bid": plain(bid), "best_ask": plain(ask), "spread": plain(ask - bid)}
        message = self._event(market, "best_bid_ask", asset_id=token, **found)
        self._publish(message, lambda to: to.facts.get("custom") is True and _listens(to, token))

    def _book(self, market: Market, token: str) -> dict[str, Any]:
        return {**books.book_row(self._state, market, token), "event_type": "book"}

    def _event(self, market: Market, kind: str, **more: object) -> dict[str, Any]:
        return {"event_type": kind, "market": market.condition, "timestamp": str(self._now()), **more}

    def _to_listeners(self, token: str, message: Mapping[str, Any]) -> None:
        self._publish(message, lambda to: _listens(to, token))

    def _to_curious(self, message: Mapping[str, Any]) -> None:
        self._publish(message, lambda to: to.facts.get("custom") is True)

    def _to_owner(self, key: str, market: Market, message: Mapping[str, Any]) -> None:
        def wanted(channel: Channel) -> bool:
            only = channel.facts.get("markets")
            mine = key != "" and channel.facts.get("key") == key
            return mine and (only is None or market.condition in only)

        self._publish(message, wanted)

    def _publish(self, message: Mapping[str, Any], wanted: Callable[[Channel], bool]) -> None:
        self._hub.publish(lambda to: [message] if wanted(to) and "frozen" not in to.facts else [])


def read_frame(text: str) -> Mapping[str, Any] | None:
    """Return a frame of a client, None for what is no object."""
    try:
        frame = json.loads(text)
    except ValueError:
        return None
    return frame if isinstance(frame, dict) else None


def _listens(channel: Channel, token: str) -> bool:
    return token in channel.facts.get("assets", {})
