"""The socket of the double: signed handshakes, numbered subscriptions, full books and changes to them.

Source: docs/facts/kalshi.md#socket.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from bot.api import AuthenticationError, Clock, WebSocketConnection
from bot.testing.loopback_server import ReceivedRequest
from bot.testing.websocket import ConnectionScript, FakeWebSocketConnection
from tests.plugins.kalshi.fake_account import FakeKalshiAccount

PATH = "/trade-api/ws/v2"


@dataclass(slots=True)
class FakeSubscription:
    """One subscription of a connection; ``number`` is the last one that was sent."""

    sid: int
    tickers: tuple[str, ...]
    number: int = 0

    def frame(self, kind: str, **content: Any) -> str:
        self.number += 1
        return json.dumps({"type": kind, "sid": self.sid, "seq": self.number, "msg": content}) + "\n"


@dataclass(slots=True)
class FakeKalshiStream:
    """Implements WebSocketClient; ``commands`` are those of all connections, in order."""

    account: FakeKalshiAccount
    clock: Clock
    is_silent: bool = False
    commands: list[dict[str, Any]] = field(default_factory=list)
    connections: list[FakeWebSocketConnection] = field(default_factory=list)
    subscriptions: dict[int, FakeSubscription] = field(default_factory=dict)
    sids: int = 0

    @asynccontextmanager
    async def connect(
        self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[WebSocketConnection]:
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        path = urlsplit(url).path
        request = ReceivedRequest(method="GET", path=path, headers=lower, body=b"")
        refused = self.account.signature_refusal(request, path)
        if refused is not None or path != PATH:
            message = f"status 401 instead of a connection to {path}"
            raise AuthenticationError(message)
        socket = FakeWebSocketConnection(ConnectionScript(answer=self._answer), self.clock, max_bytes)
        self.connections.append(socket)
        self.subscriptions.clear()
        try:
            yield socket
        finally:
            socket.closed = True

    def move(self, ticker: str, bid: str, ask: str) -> None:
        """Put one level on each side of a book, and say what changed."""
        book = self.account.exchange.books[ticker]
        now = {"yes": {Decimal(bid): Decimal(9)}, "no": {Decimal(ask): Decimal(9)}}
        before = {"yes": _levels(book["yes_dollars"]), "no": {1 - p: s for p, s in _levels(book["no_dollars"]).items()}}
        book["yes_dollars"], book["no_dollars"] = [[bid, "9.00"]], [[f"{1 - Decimal(ask):.4f}", "9.00"]]
        quotes = {"yes_bid_dollars": bid, "yes_ask_dollars": ask, "yes_bid_size_fp": "9.00", "yes_ask_size_fp": "9.00"}
        self.account.exchange.change_market(ticker, **quotes)
        for side in ("yes", "no"):
            for price in sorted(before[side].keys() | now[side].keys()):
                delta = now[side].get(price, Decimal(0)) - before[side].get(price, Decimal(0))
                if delta:
                    change = {"price_dollars": f"{price:.4f}", "delta_fp": f"{delta:.2f}", "side": side}
                    self.send(ticker, "orderbook_delta", **change)

    def send(self, ticker: str, kind: str, **content: Any) -> None:
        """Send a frame to every subscription of a market."""
        for one in list(self.subscriptions.values()):
            if ticker in one.tickers and not self.is_silent:
                self.connections[-1].push(one.frame(kind, market_ticker=ticker, **content))

    def lose_frame(self) -> None:
        """Count a frame that never arrives."""
        for one in self.subscriptions.values():
            one.number += 1

    def _answer(self, text: str) -> list[str]:
        command = json.loads(text)
        self.commands.append(command)
        return [] if self.is_silent else list(self._replies(command))

    def _replies(self, command: dict[str, Any]) -> Iterator[str]:
        asked = command.get("params", {})
        match command["cmd"]:
            case "subscribe":
                yield from self._subscribe(command["id"], asked)
            case "unsubscribe":
                for sid in asked["sids"]:
                    del self.subscriptions[sid]
                    yield json.dumps({"id": command["id"], "type": "unsubscribed", "sid": sid})
            case "list_subscriptions":
                yield json.dumps({"id": command["id"], "type": "ok", "msg": []})
            case other:
                yield _error(command["id"], 5, f"unknown command {other}")

    def _subscribe(self, number: int, asked: dict[str, Any]) -> Iterator[str]:
        # What is asked is written out, since the venue will change its default.
        if asked["channels"] != ["orderbook_delta"] or asked["use_yes_price"] is not True:
            yield _error(number, 8, "unknown channel")
            return
        if not all(self.account.exchange.has_market(ticker) for ticker in asked["market_tickers"]):
            yield _error(number, 16, "market not found")
            return
        self.sids += 1
        found = self.subscriptions[self.sids] = FakeSubscription(self.sids, tuple(asked["market_tickers"]))
        yield json.dumps({"id": number, "type": "subscribed", "msg": {"channel": "orderbook_delta", "sid": self.sids}})
        for ticker in found.tickers:
            book = self.account.exchange.books[ticker]
            asks = [[f"{1 - Decimal(price):.4f}", size] for price, size in book["no_dollars"]]
            sides = {"yes_dollars_fp": book["yes_dollars"], "no_dollars_fp": asks}
            yield found.frame("orderbook_snapshot", market_ticker=ticker, **sides)


def _levels(rows: list[list[str]]) -> dict[Decimal, Decimal]:
    return {Decimal(price): Decimal(size) for price, size in rows}


def _error(number: int, code: int, text: str) -> str:
    return json.dumps({"id": number, "type": "error", "msg": {"code": code, "msg": text}})
