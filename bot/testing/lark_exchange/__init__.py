"""The exchange of docs/venue-tutorial.md: markets in pages, a book of YES for each, and one account behind a key.

``python -m bot.testing.lark_exchange`` serves it on this machine. Prices are whole cents, counts whole contracts, and
a contract pays 100 cents. Every order is matched at once, and its rest is dropped; each contract costs a fee of 1 cent.
"""

import json
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bot.core.clock import SystemClock
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse

KEY = "lark-key-1"
CLOSES, RESOLVES = datetime(2099, 6, 30, tzinfo=UTC), datetime(2099, 7, 2, tzinfo=UTC)
FEE_CENTS, PAYOUT_CENTS = 1, 100
PAGE_SIZE = 2
_ORDER_FIELDS = {"id": str, "market": str, "side": str, "cents": int, "count": int, "expires": int}


def market_record(name: str, title: str, group: str, book: Mapping[str, list[list[int]]]) -> dict[str, Any]:
    """Return an open market with its book: prices in cents and counts, best first."""
    return {
        "id": name,
        "title": title,
        "rules": "The almanac of Lark decides.",
        "group": group,
        "closes": int(CLOSES.timestamp()),
        "resolves": int(RESOLVES.timestamp()),
        "state": "open",
        "winner": "",
        "settled_at": None,
        "book": {"bids": book["bids"], "asks": book["asks"]},
    }


MARKETS = (
    market_record("rain", "Rain in May?", "weather", {"bids": [[41, 200], [40, 500]], "asks": [[43, 150], [45, 500]]}),
    market_record("ice", "Ice in May?", "weather", {"bids": [[18, 80]], "asks": [[20, 60], [21, 400]]}),
    market_record("match", "Does the home side win?", "sport", {"bids": [[66, 90]], "asks": [[70, 90]]}),
)


class LarkExchange:
    """Answers the requests of the tutorial.

    ``orders`` are all that took effect; ``cash_cents`` and ``positions`` (YES above zero, NO below) are the account.
    """

    def __init__(self, now: Callable[[], datetime], *, cash_cents: int = 100_000) -> None:
        self.now = now
        self.markets = {one["id"]: deepcopy(one) for one in MARKETS}
        self.orders: dict[str, dict[str, Any]] = {}
        self.positions: dict[str, int] = {}
        self.cash_cents = cash_cents
        self.methods: set[str] = set()

    def settle_market(self, name: str, winner: str) -> None:
        """Settle a market for "yes" or "no", or cancel it for ""."""
        self.markets[name] |= {
            "state": "settled" if winner else "void",
            "winner": winner,
            "settled_at": int(self.now().timestamp()),
        }

    def answer(self, request: ReceivedRequest) -> ScriptedResponse:
        """Answer one request."""
        self.methods.add(request.method)
        url = urlsplit(request.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        match request.method, url.path.strip("/").split("/"):
            case "GET", ["markets"]:
                return self._list_markets(asked.get("cursor", ""))
            case "GET", ["markets", name, *rest] if name in self.markets and rest in ([], ["book"]):
                return _reply(self.markets[name]["book"] if rest else _without_book(self.markets[name]))
            case method, ["orders" | "account" as path, *rest]:
                if request.headers.get("authorization") != f"Bearer {KEY}":
                    return _refuse(401, "no such key")
                if (method, path, rest) == ("POST", "orders", []):
                    return self._place_order(request.body)
                return self._read_account(path, rest) if method == "GET" else _refuse(405, "not that")
        return _refuse(404, "no such thing")

    def _list_markets(self, cursor: str) -> ScriptedResponse:
        shown = [_without_book(one) for one in self.markets.values() if one["state"] == "open"]
        start = int(cursor) if cursor.isdigit() else 0
        following = str(start + PAGE_SIZE) if start + PAGE_SIZE < len(shown) else ""
        return _reply({"markets": shown[start : start + PAGE_SIZE], "next": following})

    def _read_account(self, path: str, rest: list[str]) -> ScriptedResponse:
        if path == "account" and not rest:
            held = [self._position(name, count) for name, count in self.positions.items() if count]
            return _reply({"cash": self.cash_cents, "positions": held})
        found = [self.orders[name] for name in rest if name in self.orders]
        return _reply(found[0]) if path == "orders" and len(found) == 1 else _refuse(404, "no such order")

    def _position(self, name: str, count: int) -> dict[str, Any]:
        book = self.markets[name]["book"]
        bid = book["bids"][0][0] if book["bids"] else None
        ask = book["asks"][0][0] if book["asks"] else None
        no_bid = None if ask is None else PAYOUT_CENTS - ask
        return {"market": name, "count": count, "paid": self._paid_cents(name), "bid": bid if count > 0 else no_bid}

    def _paid_cents(self, name: str) -> int:
        """Return what the contracts that are held cost, fees included; a sale takes its part away."""
        count, paid = 0, 0.0
        for order in self.orders.values():
            sign = 1 if order["side"] == "buy" else -1
            for trade in order["trades"] if order["market"] == name else ():
                price = trade["cents"] if sign > 0 else PAYOUT_CENTS - trade["cents"]
                closed = min(trade["count"], max(0, -sign * count))
                paid -= paid * closed / abs(count) if closed else 0.0
                paid += (trade["count"] - closed) * (price + FEE_CENTS)
                count += sign * trade["count"]
        return round(paid)

    def _place_order(self, body: bytes) -> ScriptedResponse:
        order = json.loads(body)
        if why := self._objection(order):
            return _refuse(400, why)
        if order["id"] in self.orders:
            return _refuse(409, "the id was used before")
        book = self.markets[order["market"]]["book"]
        levels = book["asks" if order["side"] == "buy" else "bids"]
        sign = 1 if order["side"] == "buy" else -1
        left, trades = order["count"], []
        for level in levels:
            taken = min(left, level[1]) if sign * level[0] <= sign * order["cents"] else 0
            if taken:
                trades.append((level, taken))
                left -= taken
        if (change := self._cash_change(order["market"], sign, trades)) + self.cash_cents < 0:
            return _refuse(400, f"not enough cash: {-change} cents are needed")
        filled = order["count"] - left
        self.cash_cents += change
        self.positions[order["market"]] = self.positions.get(order["market"], 0) + sign * filled
        at = self.now().timestamp()
        record = order | {
            "at": at,
            "trades": [
                {"id": f"{order['id']}/{number}", "at": at, "cents": level[0], "count": taken}
                for number, (level, taken) in enumerate(trades)
            ],
        }
        for level, taken in trades:
            level[1] -= taken
        levels[:] = [level for level in levels if level[1]]
        self.orders[order["id"]] = record
        return _reply(record, 201)

    def _cash_change(self, market: str, sign: int, trades: list[tuple[list[int], int]]) -> int:
        """Return the change of cash in cents: contracts of NO hold 100 cents each, and pairs are paid at once."""
        before = self.positions.get(market, 0)
        after = before + sign * sum(taken for _, taken in trades)
        locked = PAYOUT_CENTS * (max(0, -after) - max(0, -before))
        return -locked - sum((sign * level[0] + FEE_CENTS) * taken for level, taken in trades)

    def _objection(self, order: dict[str, Any]) -> str:
        if set(order) != set(_ORDER_FIELDS):
            return f"an order has the fields {', '.join(_ORDER_FIELDS)}"
        wrong = [name for name, kind in _ORDER_FIELDS.items() if type(order[name]) is not kind]
        rules = {
            f"wrong type: {', '.join(wrong)}": bool(wrong),
            "side is buy or sell": order["side"] not in {"buy", "sell"},
            "no such market": order["market"] not in self.markets,
            "a price is 1 to 99 cents": not wrong and not 1 <= order["cents"] <= 99,
            "a count is at least 1": not wrong and order["count"] < 1,
            "the order has expired": not wrong and order["expires"] <= self.now().timestamp(),
            "the market is closed": self.markets.get(order["market"], {}).get("state") != "open",
        }
        return next((why for why, is_broken in rules.items() if is_broken), "")


def _without_book(market: dict[str, Any]) -> dict[str, Any]:
    bids, asks = market["book"]["bids"], market["book"]["asks"]
    shown = {name: value for name, value in market.items() if name != "book"}
    return shown | {"bid": bids[0][0] if bids else None, "ask": asks[0][0] if asks else None}


def _reply(body: Any, status: int = 200) -> ScriptedResponse:  # noqa: ANN401 - any JSON
    return ScriptedResponse(status=status, body=json.dumps(body).encode())


def _refuse(status: int, why: str) -> ScriptedResponse:
    return _reply({"error": why}, status)


async def serve_exchange(seconds: float = 86_400.0) -> None:
    """Serve the exchange on this machine for that long, and print its address."""
    clock = SystemClock()
    async with LoopbackServer(LarkExchange(clock.now).answer) as server:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        await clock.sleep(seconds)
