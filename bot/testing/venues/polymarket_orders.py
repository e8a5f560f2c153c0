"""The private half of the fake Polymarket's exchange: log-in, orders, cancels, what an account has, heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.testing.venues import polymarket_rows as rows
from bot.testing.venues import polymarket_signing as signing
from bot.testing.venues.kit import body_json, heard
from bot.testing.venues.polymarket_accounts import Accounts, TooMany
from bot.testing.venues.polymarket_checks import Asked, Checks, Quiet, delay_of, read
from bot.testing.venues.polymarket_door import Door, Handler, polite, query_of
from bot.testing.venues.polymarket_lists import Refusal, part_of
from bot.testing.venues.polymarket_state import Order, Trade, User, plain

MOST_ORDERS, MOST_CANCELS = 15, 3_000
LOST = "the order can't be found or is already canceled or matched"
HELD = "the order is delayed and can't be canceled"


class Orders:
    """The handlers. ``page_size`` is that of private lists; ``refuses`` answers the next orders under status 200."""

    def __init__(self, venue: Door) -> None:
        self._venue = venue
        self.accounts = Accounts(venue)
        self._checks = Checks(venue)
        self.page_size = 100
        self.refuses: list[str] = []

    def routes(self) -> list[BaseRoute]:
        """Return the paths."""
        handlers: list[tuple[str, str, Handler]] = [
            ("POST", "/auth/api-key", self._create_key),
            ("GET", "/auth/derive-api-key", self._derive_key),
            ("GET", "/auth/api-keys", self._keys),
            ("GET", "/auth/ban-status/closed-only", self._closed_only),
            ("POST", "/order", self._post_one),
            ("POST", "/orders", self._post_several),
            ("DELETE", "/order", self._cancel_one),
            ("DELETE", "/orders", self._cancel_several),
            ("DELETE", "/cancel-all", self._cancel_all),
            ("DELETE", "/cancel-market-orders", self._cancel_market),
            ("GET", "/data/orders", self._orders),
            ("GET", "/data/order/{id}", self._order),
            ("GET", "/data/trades", self._trades),
            ("GET", "/balance-allowance", self._balance),
            ("GET", "/balance-allowance/update", self._balance),
            ("POST", "/v1/heartbeats", self._beat),
            ("GET", "/v1/user/rate-limit-tier", self._tier),
        ]
        return [Route(path, polite(_counted(handler)), methods=[method]) for method, path, handler in handlers]

    # Log-in

    async def _create_key(self, request: Request) -> Response:
        user = self.accounts.logging_in(heard(request))
        if user.key:
            raise Refusal(400, "Could not create api key")
        self._venue.world.give_key(user)
        self._venue.did(heard(request), "api key", subject=user.key, account=user.address)
        return self._credentials(user)

    async def _derive_key(self, request: Request) -> Response:
        user = self.accounts.logging_in(heard(request))
        if not user.key:
            raise Refusal(400, "Could not derive api key!")
        return self._credentials(user)

    def _credentials(self, user: User) -> Response:
        return JSONResponse({"apiKey": user.key, "secret": user.secret, "passphrase": user.passphrase})

    async def _keys(self, request: Request) -> Response:
        return JSONResponse({"apiKeys": [self._known(request).key]})

    async def _closed_only(self, request: Request) -> Response:
        return JSONResponse({"closed_only": self._known(request).closed_only})

    # Orders

    async def _post_one(self, request: Request) -> Response:
        body = self._body(request)
        user = self._known(request)
        headers = self.accounts.spend(heard(request), user, "orders", 1)
        try:
            row = self._place(request, user, body)
        except Quiet as refusal:
            row = _refused(refusal.message)
        return JSONResponse(row, headers=headers)

    async def _post_several(self, request: Request) -> Response:
        bodies = self._body(request)
        user = self._known(request)
        if not isinstance(bodies, list) or not 0 < len(bodies) <= MOST_ORDERS:
            raise Refusal(400, "Invalid order payload")
        headers = self.accounts.spend(heard(request), user, "orders", len(bodies))
        placed: list[dict[str, Any]] = []
        for body in bodies:
            try:
                placed.append(self._place(request, user, body))
            except Refusal as refusal:
                if refusal.status in {403, 425, 503}:
                    raise
                # In a batch some refusals say success, and only the id is missing.
                placed.append({**_refused(refusal.message), "success": True})
        return JSONResponse(placed, headers=headers)

    def _place(self, request: Request, user: User, body: object) -> dict[str, Any]:
        is_post_only = isinstance(body, dict) and body.get("postOnly") is True
        self._checks.may_trade(post_only=is_post_only)
        asked = read(body, user)
        if self.refuses:
            raise Quiet(self.refuses.pop(0))
        order = self._checks.order(asked, user)
        trades = self._venue.world.exchange.place(order, delay_of(order.market))
        self._note(request, order, asked)
        return _placed(order, trades)

    def _note(self, request: Request, order: Order, asked: Asked) -> None:
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
        self._venue.did(heard(request), "order", subject=order.id, **facts)

    # Cancels

    async def _cancel_one(self, request: Request) -> Response:
        body = self._body(request)
        user = self._known(request)
        if not isinstance(body, dict) or set(body) != {"orderID"} or not isinstance(body["orderID"], str):
            raise Refusal(400, "Invalid order payload")
        return self._cancel(request, user, [body["orderID"]])

    async def _cancel_several(self, request: Request) -> Response:
        body = self._body(request)
        user = self._known(request)
        if not isinstance(body, list) or not all(isinstance(item, str) for item in body) or len(body) > MOST_CANCELS:
            raise Refusal(400, "Invalid order payload")
        return self._cancel(request, user, body)

    def _cancel(self, request: Request, user: User, ids: Iterable[str]) -> Response:
        ids = list(dict.fromkeys(ids))
        headers = self.accounts.spend(heard(request), user, "cancels", len(ids))
        self._may_cancel()
        canceled: list[str] = []
        left: dict[str, str] = {}
        for number in ids:
            order = self._venue.state.orders.get(number)
            if order is not None and order.user is user and order.rests:
                self._venue.world.exchange.cancel(order)
                self._venue.did(heard(request), "cancel", subject=order.id)
                canceled.append(number)
            else:
                is_held = order is not None and order.user is user and order.status == "DELAYED"
                left[number] = HELD if is_held else LOST
        return JSONResponse({"canceled": canceled, "not_canceled": left}, headers=headers)

    async def _cancel_all(self, request: Request) -> Response:
        return self._cancel_where(request, lambda _: True)

    async def _cancel_market(self, request: Request) -> Response:
        body = self._body(request)
        if not isinstance(body, dict) or not body or not set(body) <= {"market", "asset_id"}:
            raise Refusal(400, "Invalid order payload")
        market, token = body.get("market"), body.get("asset_id")
        return self._cancel_where(
            request, lambda order: market in {None, order.market.condition} and token in {None, order.token}
        )

    def _cancel_where(self, request: Request, of: Callable[[Order], bool]) -> Response:
        user = self._known(request)
        self._may_cancel()
        there = sum(order.rests and of(order) for order in self._venue.state.orders_of(user))
        headers = self.accounts.spend(heard(request), user, "cancels", 1 + there)
        found = self._venue.world.exchange.cancel_all(user, of=of)
        for order in found:
            self._venue.did(heard(request), "cancel", subject=order.id)
        return JSONResponse({"canceled": [order.id for order in found], "not_canceled": {}}, headers=headers)

    def _may_cancel(self) -> None:
        if self._venue.mode == "restarting":
            raise Refusal(425, "service not ready")

    # What an account has

    async def _orders(self, request: Request) -> Response:
        user, asked = self._known(request), query_of(request)
        found = [
            rows.order_row(order)
            for order in self._venue.state.orders_of(user)
            if order.rests
            and asked.one("id") in {None, order.id}
            and asked.one("market") in {None, order.market.condition}
            and asked.one("asset_id") in {None, order.token}
        ]
        return self._part(found, asked.one("next_cursor"))

    async def _order(self, request: Request) -> Response:
        user = self._known(request)
        order = self._venue.state.orders.get(request.path_params["id"])
        if order is None or order.user is not user or not order.rests:
            raise Refusal(404, "order not found")
        return JSONResponse(rows.order_row(order))

    async def _trades(self, request: Request) -> Response:
        user, asked = self._known(request), query_of(request)
        before, after = asked.whole("before", 2**40), asked.whole("after", 0)
        found = [
            # This interface puts a word before the state, the socket does not.
            {**rows.trade_row(trade, user), "status": f"TRADE_STATUS_{trade.status}"}
            for trade in reversed(self._venue.state.trades.values())
            if _takes_part(trade, user)
            and asked.one("id") in {None, trade.id}
            and asked.one("market") in {None, trade.market.condition}
            and asked.one("asset_id") in {None, trade.token}
            and (asked.one("maker_address") or user.wallet).lower() == user.wallet.lower()
            and after <= trade.matched_ms // 1000 <= before
        ]
        return self._part(found, asked.one("next_cursor"))

    def _part(self, found: list[dict[str, Any]], cursor: str | None) -> Response:
        part, following = part_of(found, cursor, self.page_size)
        return JSONResponse({"data": part, "next_cursor": following, "limit": self.page_size, "count": len(part)})

    async def _balance(self, request: Request) -> Response:
        user, asked = self._known(request), query_of(request)
        kind, token = asked.one("asset_type"), asked.one("token_id")
        if kind not in {"COLLATERAL", "CONDITIONAL", "CONDITIONAL-V2"} or (kind == "COLLATERAL") != (token is None):
            raise Refusal(400, "GetBalanceAndAllowance: invalid params")
        # Asked for another type of wallet, the venue looks at an address that has nothing.
        is_mine = asked.whole("signature_type", 0) == user.kind
        balance = user.cash if token is None else user.shares.get(token, Decimal(0))
        allowed = rows.units(user.allowance if is_mine else Decimal(0))
        told = {"balance": rows.units(balance if is_mine else Decimal(0))}
        return JSONResponse({**told, "allowances": dict.fromkeys(signing.CONTRACTS, allowed)})

    async def _beat(self, request: Request) -> Response:
        body = self._body(request)
        user = self._known(request)
        given = body.get("heartbeat_id") if isinstance(body, dict) else None
        if not isinstance(given, str):
            raise Refusal(400, "Invalid payload")
        if given != user.beat:
            return JSONResponse({"error_msg": "Invalid Heartbeat ID", "heartbeat_id": user.beat}, 400)
        user.beat = f"beat-{self._venue.state.new_id()}"
        user.beat_s = self._venue.now().timestamp()
        return JSONResponse({"heartbeat_id": user.beat})

    async def _tier(self, request: Request) -> Response:
        self._known(request)
        return JSONResponse({"tier": "standard"})

    def _known(self, request: Request) -> User:
        user = self.accounts.known(heard(request))
        self._venue.world.exchange.advance()
        return user

    def _body(self, request: Request) -> Any:  # noqa: ANN401 - JSON of whoever asks
        try:
            return body_json(heard(request)) if heard(request).body else None
        except ValueError:
            raise Refusal(400, "Invalid payload") from None


def _counted(handler: Handler) -> Handler:
    """Tell who asked too often when to come again."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except TooMany as refusal:
            return JSONResponse({"error": refusal.message}, refusal.status, headers=refusal.headers)

    return answer


def _placed(order: Order, trades: list[Trade]) -> dict[str, Any]:
    gives, takes = (order.paid, order.matched) if order.side == "BUY" else (order.matched, order.paid)
    status = "delayed" if order.status == "DELAYED" else "matched" if trades else "live"
    return {
        "success": True,
        "errorMsg": "",
        "orderID": order.id,
        "status": status,
        "makingAmount": plain(gives) if trades else "",
        "takingAmount": plain(takes) if trades else "",
        "tradeIDs": [trade.id for trade in trades],
        "transactionsHashes": [],
    }


def _refused(message: str) -> dict[str, Any]:
    told = {"success": False, "errorMsg": message, "orderID": "", "status": ""}
    return {**told, "makingAmount": "", "takingAmount": "", "tradeIDs": [], "transactionsHashes": []}


def _takes_part(trade: Trade, user: User) -> bool:
    sides = [trade.taker, *(maker.order for maker in trade.makers)]
    return any(order is not None and order.user is user for order in sides)
