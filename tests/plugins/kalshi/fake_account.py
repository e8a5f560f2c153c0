"""The signed half of the double: it verifies signatures with the public key, and keeps the account.

Source: docs/facts/kalshi.md#signing, #account, #orders and #errors.
"""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from bot.testing.loopback_server import ReceivedRequest, ScriptedResponse
from tests.plugins.kalshi.fake_exchange import PREFIX, FakeKalshiExchange, bad_parameters, not_found, refusal, reply

KEY_ID = "00000000-0000-4000-8000-00000000000a"
# Made once, and half as long as those of accounts: making, checking and using one of 2048 bits takes most of a test.
KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - of a test
ORDERS = f"{PREFIX}/portfolio/events/orders"
WINDOW_MS = 10_000
REQUIRED = {"ticker", "side", "count", "price", "time_in_force", "self_trade_prevention_type"}
# Parameters of lists of the account; others are refused, which is stricter than the venue.
LIST_PARAMETERS = {
    "positions": {"limit", "cursor", "count_filter", "ticker", "event_ticker"},
    "orders": {"limit", "cursor", "ticker", "event_ticker", "status", "min_ts", "max_ts"},
    "fills": {"limit", "cursor", "ticker", "order_id", "min_ts", "max_ts"},
}
OPTIONAL = {"client_order_id", "post_only", "reduce_only", "cancel_order_on_pause", "expiration_time"}


FLAGS = ("post_only", "reduce_only", "cancel_order_on_pause")


def flat_refusal(details: str) -> ScriptedResponse:
    """An error in the flat form of a body that cannot be decoded."""
    return reply({"code": "bad_request", "message": "bad request", "details": details}, 400)


def is_on_price_grid(text: str, market: dict[str, Any]) -> bool:
    """Say whether a market takes a price of YES, by its ranges."""
    price = Decimal(text)
    rows = [[Decimal(row[name]) for name in ("start", "end", "step")] for row in market["price_ranges"]]
    return 0 < price < 1 and any(start <= price <= end and (price - start) % step == 0 for start, end, step in rows)


def key_text(form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8) -> bytes:
    return KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@dataclass(slots=True)
class FakeTokenBucket:
    """Tokens of one kind of requests: those of the lowest tier hold one second."""

    rate: int
    tokens: float = 0.0
    filled_at: datetime | None = None

    def take(self, tokens: int, now: datetime) -> bool:
        """Take tokens, if there are as many."""
        waited_s = 1.0 if self.filled_at is None else (now - self.filled_at).total_seconds()
        self.tokens, self.filled_at = min(self.rate, self.tokens + waited_s * self.rate), now
        if self.tokens < tokens:
            return False
        self.tokens -= tokens
        return True


@dataclass(slots=True)
class FakeKalshiAccount:
    """One account at the exchange; ``lag`` reads of orders and fills show nothing of the last order.

    After a cancellation the order is listed as resting for ``stale_cancels`` more readings; with ``cancels_wrongly``
    the response is about another, and nothing is cancelled. With ``is_limited`` requests use up tokens. Resting orders
    reserve nothing, and nobody fills them. For 60 s after all were cancelled together, new ones are cancelled too.
    """

    exchange: FakeKalshiExchange
    now: Callable[[], datetime]
    cash: Decimal = Decimal(1000)
    lag: int = 0
    is_paused: bool = False
    is_exchange_paused: bool = False
    orders: list[dict[str, Any]] = field(default_factory=list)
    fills: list[dict[str, Any]] = field(default_factory=list)
    positions: dict[str, Decimal] = field(default_factory=dict)
    used_ids: set[str] = field(default_factory=set)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    is_limited: bool = False
    read_tokens: FakeTokenBucket = field(default_factory=lambda: FakeTokenBucket(rate=200))
    write_tokens: FakeTokenBucket = field(default_factory=lambda: FakeTokenBucket(rate=100))
    cancels_until: datetime | None = None
    stale_cancels: int = 0
    cancels_wrongly: bool = False

    def answer(self, request: ReceivedRequest) -> ScriptedResponse | None:
        """Answer what needs a key; None for everything else."""
        url = urlsplit(request.path)
        if not url.path.startswith((f"{PREFIX}/portfolio/", f"{PREFIX}/account/")):
            return None
        if (refused := self.signature_refusal(request, url.path)) is not None:
            return refused
        if self.is_limited and not self._take_tokens(request.method):
            return reply({"error": "too many requests"}, 429)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if request.method != "GET":
            return self._write(request, url.path, asked)
        if url.path.startswith(f"{PREFIX}/account/"):
            return self._read_limits(url.path.rpartition("/")[2])
        return self._read(url.path.removeprefix(f"{PREFIX}/portfolio/"), asked)

    def _write(self, request: ReceivedRequest, path: str, asked: dict[str, str]) -> ScriptedResponse:
        match request.method, path.removeprefix(ORDERS):
            case "POST", "":
                return self._order(request)
            case "DELETE", "":
                return self._cancel_all()
            case "DELETE", name if name.startswith("/"):
                return self._cancel(name.removeprefix("/"), asked)
        is_first_version = path.startswith(f"{PREFIX}/portfolio/orders")
        return refusal(410, "deprecated_v1_order_endpoint") if is_first_version else not_found()

    def rest_order(self, ticker: str, count: str, price: str, *, side: str = "bid") -> str:
        """Add an order that a person let rest; return its id."""
        found = self._record(ticker, side, Decimal(count), Decimal(price), f"person-{len(self.orders)}")
        self.orders.append(found | {"status": "resting", "remaining_count_fp": count})
        return str(found["order_id"])

    def _take_tokens(self, method: str) -> bool:
        bucket = self.read_tokens if method == "GET" else self.write_tokens
        return bucket.take(2 if method == "DELETE" else 10, self.now())

    def _read_limits(self, path: str) -> ScriptedResponse:
        buckets = {"read": self.read_tokens, "write": self.write_tokens}
        sizes = {name: {"refill_rate": one.rate, "bucket_capacity": one.rate} for name, one in buckets.items()}
        return reply({"usage_tier": "basic", **sizes, "grants": []}) if path == "limits" else not_found()

    def signature_refusal(self, request: ReceivedRequest, path: str) -> ScriptedResponse | None:
        """Refuse a request that the key did not sign just now."""
        headers = request.headers
        stamp, name = headers.get("kalshi-access-timestamp", ""), headers.get("kalshi-access-key", "")
        if not headers.get("kalshi-access-signature"):
            return refusal(401, "signature_is_missing_from_headers")
        if name != KEY_ID:
            return refusal(401, "authentication_error", details="NOT_FOUND")
        if not stamp.isdigit() or abs(int(stamp) - self.now().timestamp() * 1000) > WINDOW_MS:
            return refusal(401, "header_timestamp_expired")
        pss = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)
        try:
            signature = base64.b64decode(headers["kalshi-access-signature"], validate=True)
            text = f"{stamp}{request.method}{path}".encode()
            KEY.public_key().verify(signature, text, pss, hashes.SHA256())
        except (InvalidSignature, ValueError):
            return refusal(401, "authentication_error", details="INCORRECT_API_KEY_SIGNATURE")
        return None

    def _order(self, request: ReceivedRequest) -> ScriptedResponse:
        try:
            body = json.loads(request.body)
        except ValueError:
            return flat_refusal("invalid character")
        self.bodies.append(body)
        refused = self._body_refusal(request, body) or self._state_refusal(body)
        if refused is not None:
            return refused
        if own := self._own_crossing(body):
            if body["self_trade_prevention_type"] == "taker_at_cross":
                return self._accept(body, [], Decimal(0))
            for order in own:
                order["status"] = "canceled"
        return self._trade(body)

    def _state_refusal(self, body: dict[str, Any]) -> ScriptedResponse | None:
        """Refuse an id that was used, and an order that nothing is open for."""
        if body["client_order_id"] in self.used_ids:
            return refusal(409, "order_already_exists")
        if self.is_exchange_paused or self.is_paused:
            return refusal(409, "exchange_is_paused" if self.is_exchange_paused else "trading_is_paused")
        market = self.exchange.market(body["ticker"])
        is_open = market["status"] == "active" and datetime.fromisoformat(market["close_time"]) > self.now()
        return None if is_open else refusal(409, "MARKET_INACTIVE")

    def _trade(self, body: dict[str, Any]) -> ScriptedResponse:
        closes, kind = body.get("reduce_only", False), body["time_in_force"]
        taken = self._match(body, reduce_only=closes)
        short = Decimal(body["count"]) - sum((size for _, size, _ in taken), Decimal(0))
        if kind == "fill_or_kill" and short:
            self.used_ids.add(body["client_order_id"])
            return refusal(409, "fill_or_kill_insufficient_resting_volume")
        if body.get("post_only", False) and taken:
            return refusal(400, "invalid_order", details="post only cross")
        cost = sum((size * (p if body["side"] == "bid" else 1 - p) + fee for p, size, fee in taken), Decimal(0))
        # Money on another shard does not count.
        cash = self.cash if self.exchange.market(body["ticker"])["exchange_index"] == 0 else Decimal(0)
        if not closes and cost > cash:
            return refusal(400, "insufficient_balance")
        return self._accept(body, taken, short if kind == "good_till_canceled" else Decimal(0))

    def _accept(
        self, body: dict[str, Any], taken: list[tuple[Decimal, Decimal, Decimal]], rest: Decimal
    ) -> ScriptedResponse:
        """Record an order with its fills; the rest stays in the book."""
        client_id, count, price = body["client_order_id"], Decimal(body["count"]), Decimal(body["price"])
        self.used_ids.add(client_id)
        order = self._record(body["ticker"], body["side"], count, price, client_id)
        self.orders.append(order)
        filled = self._book(order, taken, closing=body.get("reduce_only", False))
        if rest:
            swept = self.cancels_until is not None and self.now() < self.cancels_until
            order |= {"status": "canceled" if swept else "resting", "remaining_count_fp": f"{0 if swept else rest:.2f}"}
        fields = {"order_id": order["order_id"], "client_order_id": client_id, "fill_count": f"{filled:.2f}"}
        if filled:
            value, fees = sum(p * size for p, size, _ in taken), sum(fee for _, _, fee in taken)
            fields |= {"average_fill_price": f"{value / filled:.4f}", "average_fee_paid": f"{fees / filled:.4f}"}
        rest_text = {"remaining_count": order["remaining_count_fp"], "ts_ms": int(self.now().timestamp() * 1000)}
        return reply(fields | rest_text, 201)

    def _own_crossing(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Return own resting orders that the new one would meet."""
        sign, price = 1 if body["side"] == "bid" else -1, Decimal(body["price"])
        return [
            order
            for order in self.orders
            if (order["ticker"], order["status"]) == (body["ticker"], "resting")
            and order["book_side"] != body["side"]
            and sign * (price - Decimal(order["yes_price_dollars"])) >= 0
        ]

    def _body_refusal(self, request: ReceivedRequest, body: dict[str, Any]) -> ScriptedResponse | None:  # noqa: PLR0911 - one for each refusal
        if "application/json" not in request.headers.get("content-type", ""):
            return refusal(400, "invalid_content_type")
        is_known = REQUIRED <= body.keys() <= REQUIRED | OPTIONAL
        if not is_known or not isinstance(body["count"], str) or not isinstance(body["price"], str):
            return flat_refusal("cannot unmarshal number")
        if not all(isinstance(body.get(name, False), bool) for name in FLAGS):
            return flat_refusal("cannot unmarshal into a field of type bool")
        if not re.fullmatch(r"[A-Za-z0-9_:+=/-]{1,64}", str(body.get("client_order_id", ""))):
            return refusal(400, "invalid_parameters")
        if not self.exchange.has_market(body["ticker"]):
            return not_found()
        if not re.fullmatch(r"\d+(\.\d{1,2})?", body["count"]) or Decimal(body["count"]) <= 0:
            return refusal(400, "invalid_order")
        if (
            body["time_in_force"] not in {"immediate_or_cancel", "fill_or_kill", "good_till_canceled"}
            or self._has_bad_expiry(body)
            or body["side"] not in {"bid", "ask"}
            or body["self_trade_prevention_type"] not in {"taker_at_cross", "maker"}
        ):
            return refusal(400, "invalid_order")
        if not re.fullmatch(r"0\.\d{2,4}", body["price"]):
            return refusal(400, "invalid_price")
        return (
            None
            if is_on_price_grid(body["price"], self.exchange.market(body["ticker"]))
            else refusal(400, "invalid_price")
        )

    def _has_bad_expiry(self, body: dict[str, Any]) -> bool:
        """Say whether the end of the order is in the past, no whole second, or of an order that never rests."""
        if "expiration_time" not in body:
            return False
        ends, rests = body["expiration_time"], body["time_in_force"] == "good_till_canceled"
        return not rests or not isinstance(ends, int) or ends <= self.now().timestamp()

    def _match(self, body: dict[str, Any], *, reduce_only: bool) -> list[tuple[Decimal, Decimal, Decimal]]:
        """Return the fills at prices of YES, each with its fee."""
        ticker, side, count, price = body["ticker"], body["side"], Decimal(body["count"]), Decimal(body["price"])
        book = self.exchange.books[ticker]
        if side == "bid":
            levels = sorted((1 - Decimal(p), Decimal(size)) for p, size in book["no_dollars"])
            levels = [one for one in levels if one[0] <= price]
        else:
            levels = sorted(((Decimal(p), Decimal(size)) for p, size in book["yes_dollars"]), reverse=True)
            levels = [one for one in levels if one[0] >= price]
        if reduce_only:
            held = self.positions.get(ticker, Decimal(0))
            count = min(count, max(held if side == "ask" else -held, Decimal(0)))
        taken = []
        for level, shown in levels:
            size = min(shown, count)
            if size > 0:
                fee = (Decimal("0.07") * size * level * (1 - level)).quantize(Decimal("0.0001"), "ROUND_CEILING")
                taken.append((level, size, fee))
                count -= size
        return taken

    def _book(self, order: dict[str, Any], taken: list[tuple[Decimal, Decimal, Decimal]], *, closing: bool) -> Decimal:
        filled = Decimal(0)
        sign = 1 if order["book_side"] == "bid" else -1
        for price, size, fee in taken:
            filled += size
            paid = price if sign > 0 else 1 - price
            self.cash += (size * (1 - paid) if closing else -size * paid) - fee
            self.fills.append(
                {
                    "fill_id": f"fill-{len(self.fills)}",
                    "trade_id": f"fill-{len(self.fills)}",
                    "exchange_index": 0,
                    "order_id": order["order_id"],
                    "ticker": order["ticker"],
                    "book_side": order["book_side"],
                    "count_fp": f"{size:.2f}",
                    "yes_price_dollars": f"{price:.4f}",
                    "is_taker": True,
                    "fee_cost": f"{fee:.6f}",
                    "created_time": self.now().isoformat(),
                }
            )
        self.positions[order["ticker"]] = self.positions.get(order["ticker"], Decimal(0)) + sign * filled
        order["fill_count_fp"] = f"{filled:.2f}"
        paid = sum((size * (price if sign > 0 else 1 - price) for price, size, _ in taken), Decimal(0))
        order["taker_fill_cost_dollars"] = f"{paid:.6f}"
        order["taker_fees_dollars"] = f"{sum((fee for _, _, fee in taken), Decimal(0)):.6f}"
        return filled

    def _record(self, ticker: str, side: str, count: Decimal, price: Decimal, client_id: str) -> dict[str, Any]:
        return {
            "order_id": f"order-{len(self.orders)}",
            "client_order_id": client_id,
            "ticker": ticker,
            "book_side": side,
            "outcome_side": "yes" if side == "bid" else "no",
            "type": "limit",
            "status": "executed",
            "exchange_index": 0,
            "yes_price_dollars": f"{price:.4f}",
            "no_price_dollars": f"{1 - price:.4f}",
            "initial_count_fp": f"{count:.2f}",
            "fill_count_fp": "0.00",
            "remaining_count_fp": "0.00",
            "taker_fill_cost_dollars": "0.000000",
            "maker_fill_cost_dollars": "0.000000",
            "taker_fees_dollars": "0.000000",
            "maker_fees_dollars": "0.000000",
            "expiration_time": None,
            "created_time": self.now().isoformat(),
            "last_update_time": self.now().isoformat(),
        }

    def _position(self, ticker: str) -> dict[str, Any]:
        """Return a position with what its contracts cost, by the fills in their order."""
        held = exposure = traded = fees = realized = Decimal(0)
        for row in (one for one in self.fills if one["ticker"] == ticker):
            size, price = Decimal(row["count_fp"]), Decimal(row["yes_price_dollars"])
            sign, paid = (1, price) if row["book_side"] == "bid" else (-1, 1 - price)
            # A pair of YES and NO pays 1 at once; what is left of the fill opens the other side.
            closed = min(size, -sign * held) if sign * held < 0 else Decimal(0)
            cost = exposure * closed / abs(held) if closed else Decimal(0)
            realized += closed * (1 - paid) - cost
            exposure += (size - closed) * paid - cost
            held += sign * size
            traded, fees = traded + size * paid, fees + Decimal(row["fee_cost"])
        dollars = {"market_exposure": exposure, "total_traded": traded, "realized_pnl": realized, "fees_paid": fees}
        return {
            "ticker": ticker,
            "exchange_index": 0,
            "position_fp": f"{self.positions[ticker]:.2f}",
            **{f"{name}_dollars": f"{value:.6f}" for name, value in dollars.items()},
            "last_updated_ts": self.now().isoformat(),
        }

    def _cancel_all(self) -> ScriptedResponse:
        if self.is_exchange_paused:
            return refusal(409, "exchange_is_paused")
        for order in self.orders:
            if order["status"] == "resting":
                order["status"] = "canceled"
        self.cancels_until = self.now() + timedelta(seconds=60)
        return reply({})

    def _cancel(self, name: str, asked: dict[str, str]) -> ScriptedResponse:
        if self.is_exchange_paused:
            return refusal(409, "exchange_is_paused")
        for order in self.orders:
            if (
                order["order_id"] == name
                and order["status"] == "resting"
                and asked.get("market_ticker") == order["ticker"]
            ):
                order["status"] = "resting" if self.cancels_wrongly else "canceled"
                name = "another" if self.cancels_wrongly else name
                fields = {"order_id": name, "client_order_id": order["client_order_id"]}
                now_ms = int(self.now().timestamp() * 1000)
                return reply(fields | {"reduced_by": order["remaining_count_fp"], "ts_ms": now_ms})
        return not_found()

    def _read(self, path: str, asked: dict[str, str]) -> ScriptedResponse:
        if bad := bad_parameters(asked, LIST_PARAMETERS.get(path, set()), 1000):
            return bad
        match path:
            case "balance":
                # The whole balance is in cents; the parts are dollars, and another shard has money that does not count.
                parts = [
                    {"exchange_index": 0, "balance": f"{self.cash:.4f}"},
                    {"exchange_index": 3, "balance": "500.00"},
                ]
                total = {"balance": int(self.cash * 100) + 50_000, "balance_dollars": f"{self.cash + 500:.4f}"}
                total |= {"portfolio_value": 0, "updated_ts": int(self.now().timestamp())}
                return reply(total | {"balance_breakdown": parts})
            case "positions":
                rows = [self._position(ticker) for ticker in self.positions]
                return reply({"market_positions": rows, "event_positions": [], "cursor": ""})
            case "orders" | "fills":
                return self._list(path, asked)
        return not_found()

    def _list(self, path: str, asked: dict[str, str]) -> ScriptedResponse:
        rows = self.orders if path == "orders" else self.fills
        if self.lag > 0:
            self.lag -= 1
            rows = []
        if path == "orders" and asked.get("status") == "resting" and self.stale_cancels > 0:
            stale = [one for one in rows if one["status"] == "canceled"]
            self.stale_cancels -= bool(stale)
            rows = [one | {"status": "resting"} if one in stale else one for one in rows]
        found = [
            row
            for row in rows
            if all(asked.get(name, row.get(name)) == row.get(name) for name in ("ticker", "status", "order_id"))
            and datetime.fromisoformat(row["created_time"]).timestamp() >= int(asked.get("min_ts", "0"))
        ]
        start, size = int(asked.get("cursor", "0") or "0"), 2
        more = start + size < len(found)
        return reply({path: found[start : start + size], "cursor": str(start + size) if more else ""})
