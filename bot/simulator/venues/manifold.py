"""A fake Manifold: markets, bets, orders, comments and the socket, as documented in docs/facts/manifold.md."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from bot.simulator.fake_service import logged_request, read_json_body
from bot.simulator.faults import FaultSchedule, RequestFault
from bot.simulator.request_log import LoggedRequest, RequestLimit
from bot.simulator.venues import manifold_request_schemas as schemas
from bot.simulator.venues import manifold_responses as rows
from bot.simulator.venues.manifold_read_api import PER_MINUTE, Handler, ManifoldReadApi, answer_refusals
from bot.simulator.venues.manifold_state import FakeManifoldBet, FakeManifoldMarket, FakeManifoldUser
from bot.simulator.venues.manifold_trading import BetRequest, ManifoldRefusal, require_tradable, round_limit
from bot.simulator.websocket_hub import FakeSocketChannel

if TYPE_CHECKING:
    from bot.core.interfaces import Clock

COMMENT_FEE = 1.0
COMMENT_CHARS = 20_000
QUEUE_LIMIT_S = 10.0
CHECK_EVERY_S, IDLE_S = 60.0, 60.0


class FakeManifold(ManifoldReadApi):
    """The venue.

    ``world`` is the world behind it; ``bet_duration_s`` is how long a bet takes once its turn has come.
    """

    def __init__(
        self, clock: Clock, *, faults: FaultSchedule | None = None, limits: tuple[RequestLimit, ...] = (PER_MINUTE,)
    ) -> None:
        super().__init__(clock, faults=faults, limits=limits)
        self.bet_duration_s = 0.0
        self._turns: dict[str, asyncio.Lock] = {}

    def routes(self) -> list[BaseRoute]:
        """Return the paths of the interface that Foxcast uses, and the socket."""
        posts: Mapping[str, Handler] = {
            "/v0/bet": self._serve_bet,
            "/v0/bet/cancel/{id}": self._serve_cancel,
            "/v0/multi-bet": self._serve_multi_bet,
            "/v0/market/{id}/sell": self._serve_sell,
            "/v0/comment": self._serve_comment,
            "/set-bot-status": self._serve_bot_status,
        }
        return [
            *super().routes(),
            *(Route(path, answer_refusals(handler), methods=["POST"]) for path, handler in posts.items()),
            WebSocketRoute("/ws", self._serve_updates),
        ]

    def error_response(self, status: int) -> Response:
        """Return the venue's response where it is too busy or fails; other errors come from the edge."""
        words = {503: "High volume of requests. Please try betting again.", 500: "An unexpected error occurred."}
        return JSONResponse({"message": words[status]}, status) if status in words else super().error_response(status)

    def apply_world_fault(self, fault: RequestFault, logged: LoggedRequest) -> None:
        """Let the market of a request be edited, closed, resolved, or traded by somebody else."""
        given = _request_fields(logged)
        parts = logged.path.split("/")
        named = given.get("contractId") or (parts[3] if len(parts) > 3 else "")
        if named == "cancel" and (order := self.state.bets.get(parts[-1])) is not None:
            named = order.market
        market = self.state.markets.get(named)
        if market is None or market.resolved or not self.world.apply_fault(fault, market, given):
            self.faults.discount(fault)

    async def _serve_bot_status(self, request: Request) -> Response:
        user, asked = self._require_user(request), self._parse_body(request, schemas.BOT_STATUS)
        if asked["userId"] != user.id or not asked["isBot"]:
            raise ManifoldRefusal(403, "Only moderators can do that.")
        user.is_bot = True
        self.record_effect(logged_request(request), "bot status", subject=user.id)
        return JSONResponse({"success": True})

    # Trading

    async def _serve_bet(self, request: Request) -> Response:
        user, asked = self._require_user(request), self._parse_body(request, schemas.BET)
        market = self._market_of(asked["contractId"])
        return await self._in_turn(user, market, lambda: self._serve_place(request, user, market, asked))

    def _serve_place(
        self, request: Request, user: FakeManifoldUser, market: FakeManifoldMarket, asked: Mapping[str, Any]
    ) -> Response:
        now = self.now_ms()
        bet_request = self._parse_bet(user, market, asked, now)
        found = self.world.trading.preview_bet(bet_request)
        if asked["dryRun"]:
            return JSONResponse(rows.placed_row(self.world.trading.row(bet_request, found), now, bet_id="dry-run"))
        done = self.world.bet(bet_request, found)
        self.record_effect(logged_request(request), "bet", subject=done.id, **_bet_details(done, asked))
        return JSONResponse(rows.placed_row(done, now, bet_id=done.id))

    def _parse_bet(
        self, user: FakeManifoldUser, market: FakeManifoldMarket, asked: Mapping[str, Any], now: int
    ) -> BetRequest:
        answer = self._answer_of(market, asked["answerId"])
        require_tradable(market, answer, now)
        if asked["expiresAt"] is not None and asked["expiresAt"] < now:
            # The two ways of trading refuse it with different statuses.
            raise ManifoldRefusal(400 if market.mechanism == "cpmm-1" else 403, "Bet cannot expire in the past.")
        limit = None if asked["limitProb"] is None else round_limit(asked["limitProb"], market)
        expires = asked["expiresAt"] or (now + asked["expiresMillisAfter"] if asked["expiresMillisAfter"] else None)
        if user.balance < asked["amount"]:
            raise ManifoldRefusal(403, "Insufficient balance.")
        return BetRequest(
            user=user,
            market=market,
            answer=answer,
            outcome=asked["outcome"],
            now=now,
            amount=asked["amount"],
            limit=limit,
            expires=expires,
            reply_to=asked["replyToCommentId"],
        )

    async def _serve_cancel(self, request: Request) -> Response:
        user = self._require_user(request)
        self._parse_body(request, schemas.CANCEL)
        bet = self.state.bets.get(request.path_params["id"])
        if bet is None:
            raise ManifoldRefusal(404, "Bet not found.")
        if bet.user != user.id:
            raise ManifoldRefusal(403, "You can only cancel your own bets.")
        self.world.cancel(bet)
        self.record_effect(logged_request(request), "cancel", subject=bet.id)
        return JSONResponse(rows.bet_row(bet, self.now_ms()))

    async def _serve_sell(self, request: Request) -> Response:
        user, asked = self._require_user(request), self._parse_body(request, schemas.SELL)
        market = self._find_market(request)

        def sell() -> Response:
            now = self.now_ms()
            answer = self._answer_of(market, asked["answerId"])
            require_tradable(market, answer, now)
            shares = float("inf") if asked["shares"] is None else asked["shares"]
            bet_request = BetRequest(
                user=user, market=market, answer=answer, outcome=asked["outcome"], now=now, shares=shares
            )
            bet = self.world.sell(bet_request)
            self.record_effect(logged_request(request), "sell", subject=bet.id, **_bet_details(bet, asked))
            return JSONResponse(rows.placed_row(bet, now, bet_id=bet.id))

        return await self._in_turn(user, market, sell)

    async def _serve_multi_bet(self, request: Request) -> Response:
        user, asked = self._require_user(request), self._parse_body(request, schemas.MULTI_BET)
        market = self._market_of(asked["contractId"])
        if not market.sums_to_one:
            raise ManifoldRefusal(400, "You can only buy several answers of a market where one wins.")

        def place() -> Response:
            now = self.now_ms()
            given = {**asked, "outcome": "YES", "expiresMillisAfter": None, "replyToCommentId": None}
            bet_requests = [
                self._parse_bet(user, market, {**given, "answerId": answer}, now) for answer in asked["answerIds"]
            ]
            placed = self.world.buy_several(bet_requests, asked["amount"])
            for bet in placed:
                self.record_effect(logged_request(request), "bet", subject=bet.id, **_bet_details(bet, asked))
            return JSONResponse([rows.placed_row(bet, now, bet_id=bet.id) for bet in placed])

        return await self._in_turn(user, market, place)

    async def _in_turn(
        self, user: FakeManifoldUser, market: FakeManifoldMarket, work: Callable[[], Response]
    ) -> Response:
        """Execute the bets of one user, and those on one market, one after the other.

        One that waited too long is refused.
        """
        began = self.clock.monotonic()
        async with self._user_lock(f"user {user.id}"), self._user_lock(f"market {market.id}"):
            if self.clock.monotonic() - began > QUEUE_LIMIT_S:
                raise ManifoldRefusal(503, "High volume of requests (>10s in queue). Please try again later.")
            if self.bet_duration_s > 0.0:
                await self.clock.sleep(self.bet_duration_s)
            return work()

    def _user_lock(self, key: str) -> asyncio.Lock:
        return self._turns.setdefault(key, asyncio.Lock())

    async def _serve_comment(self, request: Request) -> Response:
        user, asked = self._require_user(request), self._parse_body(request, schemas.COMMENT)
        market = self._market_of(asked["contractId"])
        content = asked["content"] or asked["html"] or asked["markdown"]
        if not content:
            raise ManifoldRefusal(400, "No comment content provided.")
        if len(json.dumps(content)) > COMMENT_CHARS:
            raise ManifoldRefusal(400, f"Comment is too long; should be less than {COMMENT_CHARS} as a JSON string.")
        if market.token == "CASH":  # noqa: S105 - a currency
            raise ManifoldRefusal(403, "Comments are not allowed on cash markets.")
        if user.balance < COMMENT_FEE:
            raise ManifoldRefusal(403, "Insufficient balance.")
        self.world.may_comment(user, market)
        about = asked["replyToAnswerId"]
        comment = self.world.comment(user, market, content, asked["replyToCommentId"], answer=about)
        user.balance -= COMMENT_FEE
        self.record_effect(logged_request(request), "comment", subject=comment.id, market=market.id)
        return JSONResponse(rows.comment_row(self.state, comment))

    # The socket

    async def _serve_updates(self, websocket: WebSocket) -> None:
        await self.hub.serve_socket(websocket, self._hear_message, check_every_s=CHECK_EVERY_S, idle_s=IDLE_S)

    def _hear_message(self, channel: FakeSocketChannel, text: str) -> None:
        """Answer a frame; one that cannot be read is answered without its number."""
        try:
            frame = json.loads(text)
            txid, kind = frame["txid"], frame["type"]
            topics = frame.get("topics", [])
            readable = _is_valid_frame(txid, kind, topics)
        except (ValueError, KeyError, TypeError, AttributeError):
            readable = False
        if not readable:
            channel.push({"type": "ack", "success": False, "error": "invalid message"})
            return
        subscribed: dict[str, None] = channel.facts.setdefault("topics", {})
        if kind == "subscribe":
            subscribed.update(dict.fromkeys(topics))
        elif kind == "unsubscribe":
            for topic in topics:
                subscribed.pop(topic, None)
        channel.push({"type": "ack", "txid": txid, "success": True})


def _is_valid_frame(txid: object, kind: object, topics: object) -> bool:
    named = isinstance(topics, list) and all(isinstance(topic, str) for topic in topics)
    numbered = isinstance(txid, int | float) and not isinstance(txid, bool)
    return numbered and named and kind in {"identify", "subscribe", "unsubscribe", "ping"}


def _request_fields(logged: LoggedRequest) -> Mapping[str, Any]:
    try:
        body = read_json_body(logged)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _bet_details(bet: FakeManifoldBet, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"market": bet.market, "answer": bet.answer, "expires": bet.expires, "amount": bet.amount, "asked": asked}
