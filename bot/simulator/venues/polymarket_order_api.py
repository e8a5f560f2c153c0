"""The private half of the fake Polymarket's exchange.

Log-in, request signatures, rate limits per account, orders, cancels, balances, heartbeats.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.core.light_dataclass import dataclass
from bot.simulator.fake_service import logged_request, read_json_body
from bot.simulator.request_log import LimitViolation, LoggedRequest
from bot.simulator.venues import polymarket_responses as rows
from bot.simulator.venues import polymarket_signatures as signing
from bot.simulator.venues.polymarket_order_checks import OrderChecks, OrderRefusal, PostedOrder, read_order, taker_delay
from bot.simulator.venues.polymarket_queries import PolymarketRefusal, private_page
from bot.simulator.venues.polymarket_service import Handler, PolymarketService, answer_refusals, request_query
from bot.simulator.venues.polymarket_state import (
    FakePolymarketOrder,
    FakePolymarketTrade,
    FakePolymarketUser,
    decimal_text,
)

# Tokens of a signer: so many a second, and so many at once.
ORDER_RATE, ORDER_BURST = 40.0, 60.0


CANCEL_RATE, CANCEL_BURST = 80.0, 120.0


@dataclass(slots=True)
class TokenBucket:
    """Tokens that are refilled with time."""

    rate: float
    most: float
    has: float
    at_s: float

    def take(self, cost: int, now_s: float) -> bool:
        """Take all of the cost or nothing."""
        self.has = min(self.most, self.has + (now_s - self.at_s) * self.rate)
        self.at_s = now_s
        if self.has < cost:
            return False
        self.has -= cost
        return True

    def wait_s(self, cost: int) -> float:
        """Return in how many seconds there are enough."""
        return max(0.0, (cost - self.has) / self.rate)


class AccountAuthentication:
    """Checks the identity and the rate of requests."""

    def __init__(self, venue: PolymarketService) -> None:
        self._venue = venue
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def authenticate_login(self, logged: LoggedRequest) -> FakePolymarketUser:
        """Return the account whose owner signed the request; raises PolymarketRefusal."""
        address, stamp = logged.headers.get("poly_address", ""), logged.headers.get("poly_timestamp", "")
        nonce, signature = logged.headers.get("poly_nonce", ""), logged.headers.get("poly_signature", "")
        if not nonce.isdecimal() or not self._is_now(stamp):
            raise PolymarketRefusal(401, "Invalid L1 Request headers")
        try:
            signer = signing.login_signer(address, stamp, int(nonce), signature)
        except ValueError:
            raise PolymarketRefusal(401, "Invalid L1 Request headers") from None
        user = self._venue.state.users.get(signer.lower())
        if user is None or signer.lower() != address.lower():
            raise PolymarketRefusal(401, "Invalid L1 Request headers")
        return user

    def authenticate_request(self, logged: LoggedRequest) -> FakePolymarketUser:
        """Return the account that signed a private request; raises PolymarketRefusal."""
        user = self._venue.user_of(logged)
        headers = logged.headers
        stamp = headers.get("poly_timestamp", "")
        if user is None or headers.get("poly_passphrase") != user.passphrase or not self._is_now(stamp):
            raise PolymarketRefusal(401, "Unauthorized/Invalid api key")
        right = signing.request_hmac(user.secret, stamp, logged.method, logged.path, logged.body.decode())
        signed = hmac.compare_digest(right.encode(), headers.get("poly_signature", "").encode())
        if not signed or headers.get("poly_address", "").lower() != user.address.lower():
            raise PolymarketRefusal(401, "Unauthorized/Invalid api key")
        return user

    def authenticate_socket(self, auth: object) -> FakePolymarketUser | None:
        """Return the account of the three secrets in the first frame of a socket."""
        if not isinstance(auth, dict):
            return None
        user = self._venue.state.by_key(str(auth.get("apiKey", "")))
        right = user is not None and (auth.get("secret"), auth.get("passphrase")) == (user.secret, user.passphrase)
        return user if right else None

    def take_tokens(self, logged: LoggedRequest, user: FakePolymarketUser, kind: str, cost: int) -> dict[str, str]:
        """Take tokens for orders or cancels; return the headers that report them. Raises PolymarketRefusal."""
        rate, burst = (ORDER_RATE, ORDER_BURST) if kind == "orders" else (CANCEL_RATE, CANCEL_BURST)
        now_s = self._venue.clock.monotonic()
        bucket = self._buckets.setdefault((user.address, kind), TokenBucket(rate, burst, burst, now_s))
        enough = bucket.take(cost, now_s)
        reset = self._venue.world.now_s + int(bucket.wait_s(cost)) + 1
        headers = {
            "Poly-RateLimit-Remaining": f"{bucket.has:.0f}",
            "Poly-RateLimit-Reset": str(reset),
            "Poly-RateLimit-Tier": "standard",
        }
        if not enough:
            wait_s = bucket.wait_s(cost)
            violation = LimitViolation(
                limit=f"{kind} of a signer", request=logged.number, at=logged.at, count=cost, wait_s=wait_s
            )
            self._venue.rate_limit_checker.violations.append(violation)
            raise AccountRateLimited(429, f"rate limit exceeded for {kind}", headers)
        return headers

    def _is_now(self, stamp: str) -> bool:
        if not stamp.isdecimal():
            return False
        return abs(self._venue.now().timestamp() - int(stamp)) <= self._venue.clock_tolerance_s


class AccountRateLimited(PolymarketRefusal):
    """An account made too many requests."""

    def __init__(self, status: int, message: str, headers: dict[str, str]) -> None:
        super().__init__(status, message)
        self.headers = {**headers, "Retry-After": "1"}


MAX_ORDERS, MAX_CANCELS = 15, 3_000


ORDER_NOT_FOUND = "the order can't be found or is already canceled or matched"


ORDER_DELAYED = "the order is delayed and can't be canceled"


class OrderApi:
    """The handlers. ``page_size`` is that of private lists; ``refuses`` answers the next orders under status 200."""

    def __init__(self, venue: PolymarketService) -> None:
        self._venue = venue
        self.accounts = AccountAuthentication(venue)
        self._checks = OrderChecks(venue)
        self.page_size = 100
        self.next_refusals: list[str] = []

    def routes(self) -> list[BaseRoute]:
        """Return the paths."""
        handlers: list[tuple[str, str, Handler]] = [
            ("POST", "/auth/api-key", self._serve_create_key),
            ("GET", "/auth/derive-api-key", self._serve_derive_key),
            ("GET", "/auth/api-keys", self._serve_keys),
            ("GET", "/auth/ban-status/closed-only", self._serve_closed_only),
            ("POST", "/order", self._post_one),
            ("POST", "/orders", self._post_several),
            ("DELETE", "/order", self._cancel_one),
            ("DELETE", "/orders", self._cancel_several),
            ("DELETE", "/cancel-all", self._cancel_all),
            ("DELETE", "/cancel-market-orders", self._cancel_market),
            ("GET", "/data/orders", self._serve_orders),
            ("GET", "/data/order/{id}", self._serve_order),
            ("GET", "/data/trades", self._serve_trades),
            ("GET", "/balance-allowance", self._serve_balance),
            ("GET", "/balance-allowance/update", self._serve_balance),
            ("POST", "/v1/heartbeats", self._serve_beat),
            ("GET", "/v1/user/rate-limit-tier", self._serve_tier),
        ]
        return [
            Route(path, answer_refusals(_answer_rate_limits(handler)), methods=[method])
            for method, path, handler in handlers
        ]

    # Log-in

    async def _serve_create_key(self, request: Request) -> Response:
        user = self.accounts.authenticate_login(logged_request(request))
        if user.key:
            raise PolymarketRefusal(400, "Could not create api key")
        self._venue.world.give_key(user)
        self._venue.record_effect(logged_request(request), "api key", subject=user.key, account=user.address)
        return self._credentials_response(user)

    async def _serve_derive_key(self, request: Request) -> Response:
        user = self.accounts.authenticate_login(logged_request(request))
        if not user.key:
            raise PolymarketRefusal(400, "Could not derive api key!")
        return self._credentials_response(user)

    def _credentials_response(self, user: FakePolymarketUser) -> Response:
        return JSONResponse({"apiKey": user.key, "secret": user.secret, "passphrase": user.passphrase})

    async def _serve_keys(self, request: Request) -> Response:
        return JSONResponse({"apiKeys": [self._require_user(request).key]})

    async def _serve_closed_only(self, request: Request) -> Response:
        return JSONResponse({"closed_only": self._require_user(request).closed_only})

    # Orders

    async def _post_one(self, request: Request) -> Response:
        body = self._parse_body(request)
        user = self._require_user(request)
        headers = self.accounts.take_tokens(logged_request(request), user, "orders", 1)
        try:
            row = self._place_order(request, user, body)
        except OrderRefusal as refusal:
            row = _refused_response(refusal.message)
        return JSONResponse(row, headers=headers)

    async def _post_several(self, request: Request) -> Response:
        bodies = self._parse_body(request)
        user = self._require_user(request)
        if not isinstance(bodies, list) or not 0 < len(bodies) <= MAX_ORDERS:
            raise PolymarketRefusal(400, "Invalid order payload")
        headers = self.accounts.take_tokens(logged_request(request), user, "orders", len(bodies))
        placed: list[dict[str, Any]] = []
        for body in bodies:
            try:
                placed.append(self._place_order(request, user, body))
            except PolymarketRefusal as refusal:
                if refusal.status in {403, 425, 503}:
                    raise
                # In a batch some refusals claim success, and only the id is missing.
                placed.append({**_refused_response(refusal.message), "success": True})
        return JSONResponse(placed, headers=headers)

    def _place_order(self, request: Request, user: FakePolymarketUser, body: object) -> dict[str, Any]:
        is_post_only = isinstance(body, dict) and body.get("postOnly") is True
        self._checks.require_trading(post_only=is_post_only)
        asked = read_order(body, user)
        if self.next_refusals:
            raise OrderRefusal(self.next_refusals.pop(0))
        order = self._checks.check_order(asked, user)
        trades = self._venue.world.exchange.place(order, taker_delay(order.market))
        self._note_order(request, order, asked)
        return _placed_response(order, trades)

    def _note_order(self, request: Request, order: FakePolymarketOrder, asked: PostedOrder) -> None:
        facts: dict[str, Any] = {
            "market": order.market.condition,
            "token": order.token,
            "side": order.side,
            "price": order.price,
            "size": order.size,
            "order_type": order.kind,
            "matched": order.matched,
            "salt": asked.order["salt"],
        }
        self._venue.record_effect(logged_request(request), "order", subject=order.id, **facts)

    # Cancels

    async def _cancel_one(self, request: Request) -> Response:
        body = self._parse_body(request)
        user = self._require_user(request)
        if not isinstance(body, dict) or set(body) != {"orderID"} or not isinstance(body["orderID"], str):
            raise PolymarketRefusal(400, "Invalid order payload")
        return self._serve_cancel(request, user, [body["orderID"]])

    async def _cancel_several(self, request: Request) -> Response:
        body = self._parse_body(request)
        user = self._require_user(request)
        if not isinstance(body, list) or not all(isinstance(item, str) for item in body) or len(body) > MAX_CANCELS:
            raise PolymarketRefusal(400, "Invalid order payload")
        return self._serve_cancel(request, user, body)

    def _serve_cancel(self, request: Request, user: FakePolymarketUser, ids: Iterable[str]) -> Response:
        ids = list(dict.fromkeys(ids))
        headers = self.accounts.take_tokens(logged_request(request), user, "cancels", len(ids))
        self._may_cancel()
        canceled: list[str] = []
        left: dict[str, str] = {}
        for number in ids:
            order = self._venue.state.orders.get(number)
            if order is not None and order.user is user and order.is_resting:
                self._venue.world.exchange.cancel(order)
                self._venue.record_effect(logged_request(request), "cancel", subject=order.id)
                canceled.append(number)
            else:
                is_held = order is not None and order.user is user and order.status == "DELAYED"
                left[number] = ORDER_DELAYED if is_held else ORDER_NOT_FOUND
        return JSONResponse({"canceled": canceled, "not_canceled": left}, headers=headers)

    async def _cancel_all(self, request: Request) -> Response:
        return self._cancel_where(request, lambda _: True)

    async def _cancel_market(self, request: Request) -> Response:
        body = self._parse_body(request)
        if not isinstance(body, dict) or not body or not set(body) <= {"market", "asset_id"}:
            raise PolymarketRefusal(400, "Invalid order payload")
        market, token = body.get("market"), body.get("asset_id")
        return self._cancel_where(
            request, lambda order: market in {None, order.market.condition} and token in {None, order.token}
        )

    def _cancel_where(self, request: Request, of: Callable[[FakePolymarketOrder], bool]) -> Response:
        user = self._require_user(request)
        self._may_cancel()
        there = sum(order.is_resting and of(order) for order in self._venue.state.orders_of(user))
        headers = self.accounts.take_tokens(logged_request(request), user, "cancels", 1 + there)
        found = self._venue.world.exchange.cancel_all(user, of=of)
        for order in found:
            self._venue.record_effect(logged_request(request), "cancel", subject=order.id)
        return JSONResponse({"canceled": [order.id for order in found], "not_canceled": {}}, headers=headers)

    def _may_cancel(self) -> None:
        if self._venue.mode == "restarting":
            raise PolymarketRefusal(425, "service not ready")

    # Data of an account

    async def _serve_orders(self, request: Request) -> Response:
        user, asked = self._require_user(request), request_query(request)
        found = [
            rows.order_row(order)
            for order in self._venue.state.orders_of(user)
            if order.is_resting
            and asked.one("id") in {None, order.id}
            and asked.one("market") in {None, order.market.condition}
            and asked.one("asset_id") in {None, order.token}
        ]
        return self._page_response(found, asked.one("next_cursor"))

    async def _serve_order(self, request: Request) -> Response:
        user = self._require_user(request)
        order = self._venue.state.orders.get(request.path_params["id"])
        if order is None or order.user is not user or not order.is_resting:
            raise PolymarketRefusal(404, "order not found")
        return JSONResponse(rows.order_row(order))

    async def _serve_trades(self, request: Request) -> Response:
        user, asked = self._require_user(request), request_query(request)
        before, after = asked.whole("before", 2**40), asked.whole("after", 0)
        found = [
            # This interface puts a word before the state, the socket does not.
            {**rows.trade_row(trade, user), "status": f"TRADE_STATUS_{trade.status}"}
            for trade in reversed(self._venue.state.trades.values())
            if _is_party(trade, user)
            and asked.one("id") in {None, trade.id}
            and asked.one("market") in {None, trade.market.condition}
            and asked.one("asset_id") in {None, trade.token}
            and (asked.one("maker_address") or user.wallet).lower() == user.wallet.lower()
            and after <= trade.matched_ms // 1000 <= before
            and self._venue.state.listed_from.get(trade.id, 0) <= self._venue.now_ms()
        ]
        return self._page_response(found, asked.one("next_cursor"))

    def _page_response(self, found: list[dict[str, Any]], cursor: str | None) -> Response:
        part, following = private_page(found, cursor, self.page_size)
        return JSONResponse({"data": part, "next_cursor": following, "limit": self.page_size, "count": len(part)})

    async def _serve_balance(self, request: Request) -> Response:
        user, asked = self._require_user(request), request_query(request)
        kind, token = asked.one("asset_type"), asked.one("token_id")
        if kind not in {"COLLATERAL", "CONDITIONAL", "CONDITIONAL-V2"} or (kind == "COLLATERAL") != (token is None):
            raise PolymarketRefusal(400, "GetBalanceAndAllowance: invalid params")
        # For another type of wallet, the venue looks at an address that has nothing.
        is_mine = asked.whole("signature_type", 0) == user.kind
        balance = user.cash if token is None else user.shares.get(token, Decimal(0))
        allowed = rows.in_millionths(user.allowance if is_mine else Decimal(0))
        fields = {"balance": rows.in_millionths(balance if is_mine else Decimal(0))}
        return JSONResponse({**fields, "allowances": dict.fromkeys(signing.CONTRACTS, allowed)})

    async def _serve_beat(self, request: Request) -> Response:
        body = self._parse_body(request)
        user = self._require_user(request)
        given = body.get("heartbeat_id") if isinstance(body, dict) else None
        if not isinstance(given, str):
            raise PolymarketRefusal(400, "Invalid payload")
        if given != user.beat:
            return JSONResponse({"error_msg": "Invalid Heartbeat ID", "heartbeat_id": user.beat}, 400)
        user.beat = f"beat-{self._venue.state.new_id()}"
        user.beat_s = self._venue.now().timestamp()
        return JSONResponse({"heartbeat_id": user.beat})

    async def _serve_tier(self, request: Request) -> Response:
        self._require_user(request)
        return JSONResponse({"tier": "standard"})

    def _require_user(self, request: Request) -> FakePolymarketUser:
        user = self.accounts.authenticate_request(logged_request(request))
        self._venue.world.exchange.process_due()
        return user

    def _parse_body(self, request: Request) -> Any:  # noqa: ANN401 - JSON of a client
        try:
            return read_json_body(logged_request(request)) if logged_request(request).body else None
        except ValueError:
            raise PolymarketRefusal(400, "Invalid payload") from None


def _answer_rate_limits(handler: Handler) -> Handler:
    """Return when a client that made too many requests may try again."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except AccountRateLimited as refusal:
            return JSONResponse({"error": refusal.message}, refusal.status, headers=refusal.headers)

    return answer


def _placed_response(order: FakePolymarketOrder, trades: list[FakePolymarketTrade]) -> dict[str, Any]:
    gives, takes = (order.paid, order.matched) if order.side == "BUY" else (order.matched, order.paid)
    status = "delayed" if order.status == "DELAYED" else "matched" if trades else "live"
    return {
        "success": True,
        "errorMsg": "",
        "orderID": order.id,
        "status": status,
        "makingAmount": decimal_text(gives) if trades else "",
        "takingAmount": decimal_text(takes) if trades else "",
        "tradeIDs": [trade.id for trade in trades],
        "transactionsHashes": [],
    }


def _refused_response(message: str) -> dict[str, Any]:
    body = {"success": False, "errorMsg": message, "orderID": "", "status": ""}
    return {**body, "makingAmount": "", "takingAmount": "", "tradeIDs": [], "transactionsHashes": []}


def _is_party(trade: FakePolymarketTrade, user: FakePolymarketUser) -> bool:
    sides = [trade.taker, *(maker.order for maker in trade.makers)]
    return any(order is not None and order.user is user for order in sides)
