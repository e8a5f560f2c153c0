"""The reading half of the fake Manifold: accounts, markets, prices, bets and comments, over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.testing.venues import manifold_rows as rows
from bot.testing.venues import manifold_schemas as schemas
from bot.testing.venues.faults import Faults
from bot.testing.venues.kit import FakeVenue, Receive, Scope, Send, body_json, heard
from bot.testing.venues.manifold_search import bets, listed, search
from bot.testing.venues.manifold_state import Answer, Market, User
from bot.testing.venues.manifold_trading import Refusal
from bot.testing.venues.manifold_world import World
from bot.testing.venues.record import Heard, Limit

if TYPE_CHECKING:
    from bot.ports import Clock

BASE = "https://manifold.markets"
PER_MINUTE = Limit(name="500 a minute", count=500, per_s=60.0)
_CACHED = {"Cache-Control": "public, max-age=5, stale-while-revalidate=10"}
_BRIEFLY = {"Cache-Control": "public, max-age=1, stale-while-revalidate=10"}

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class ReadableManifold(FakeVenue):
    """What can be read of the venue. ``world`` stands behind it, ``state`` is what it holds."""

    def __init__(
        self, clock: Clock, *, faults: Faults | None = None, limits: tuple[Limit, ...] = (PER_MINUTE,)
    ) -> None:
        super().__init__(clock, limits=limits, faults=faults)
        self.world = World(self.now_ms, self.hub)
        self.state = self.world.state

    def routes(self) -> list[BaseRoute]:
        """Return the paths of what can be read."""
        gets: Mapping[str, Handler] = {
            "/v0/me": self._me,
            "/v0/user/by-id/{name}": self._user,
            "/v0/user/{name}": self._user,
            "/v0/get-user-portfolio": self._portfolio,
            "/v0/get-user-contract-metrics-with-contracts": self._metrics,
            "/v0/search-markets": self._search,
            "/v0/markets": self._markets,
            "/v0/market-probs": self._probs,
            "/v0/market/{id}": self._market,
            "/v0/slug/{slug}": self._market,
            "/v0/market/{id}/prob": self._prob,
            "/v0/market/{id}/answers": self._answers,
            "/v0/market/{id}/positions": self._positions,
            "/v0/bets": self._bets,
            "/v0/comments": self._comments,
            "/v0/groups": self._groups,
            "/v0/group/{slug}": self._groups,
            "/get-contract": self._raw,
        }
        return [Route(path, polite(handler), methods=["GET"]) for path, handler in gets.items()]

    def account(self, heard: Heard) -> str:
        """Return the user of a request's key."""
        user = self._user_of(heard)
        return "" if user is None else user.id

    async def unknown(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what no route does, in JSON."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        await JSONResponse({"message": f"The requested route '{scope['path']}' does not exist."}, 404)(
            scope, receive, send
        )

    # Accounts

    def _user_of(self, heard: Heard) -> User | None:
        parts = heard.headers.get("authorization", "").split(" ")
        if len(parts) != 2 or parts[0] != "Key":
            return None
        return next((user for user in self.state.users.values() if user.key == parts[1] and not user.banned), None)

    def _known(self, request: Request) -> User:
        asking = heard(request)
        user = self._user_of(asking)
        if user is None:
            said = asking.headers.get("authorization")
            raise Refusal(401, "No user exists with that API key." if said else "Missing Authorization header.")
        return user

    async def _me(self, request: Request) -> Response:
        return JSONResponse(rows.user_row(self._known(request), base=BASE))

    async def _user(self, request: Request) -> Response:
        return JSONResponse(rows.user_row(self._named(request.path_params["name"]), base=BASE))

    def _named(self, name: str) -> User:
        user = self.state.user_named(name)
        if user is None:
            raise Refusal(404, "User not found")
        return user

    async def _portfolio(self, request: Request) -> Response:
        user = self._named(self._query(request, schemas.PORTFOLIO)["userId"])
        worth = [
            rows.metric_row(self.state, self.state.markets[market], user.id, answer)["payout"]
            for who, market, answer in self.state.holdings
            if who == user.id and not self.state.markets[market].resolved
        ]
        held = [one for (who, _, _), one in self.state.holdings.items() if who == user.id]
        row = {
            "userId": user.id,
            "balance": user.balance,
            "investmentValue": sum(worth),
            "loanTotal": sum(one.loan + one.margin for one in held),
            "totalDeposits": user.deposits,
            "dailyProfit": 0,
            "timestamp": self.now_ms(),
        }
        return JSONResponse(row, headers=_BRIEFLY)

    async def _metrics(self, request: Request) -> Response:
        asked = self._query(request, schemas.METRICS)
        held = dict.fromkeys(market for who, market, _ in self.state.holdings if who == asked["userId"])
        found = [self.state.markets[market] for market in held][asked["offset"] : asked["offset"] + asked["limit"]]
        return JSONResponse(
            {
                "metricsByContract": {market.id: self._metric_rows(market, asked["userId"]) for market in found},
                "contracts": [rows.raw_market(market) for market in found],
            }
        )

    def _metric_rows(self, market: Market, user: str) -> list[dict[str, Any]]:
        answers = [answer.id for answer in market.answers if (user, market.id, answer.id) in self.state.holdings]
        return [rows.metric_row(self.state, market, user, answer) for answer in (*answers, None)]

    # Markets

    async def _search(self, request: Request) -> Response:
        found = search(self.state, self._query(request, schemas.SEARCH), self.now_ms())
        return JSONResponse([self._lite(market) for market in found], headers=_CACHED)

    async def _markets(self, request: Request) -> Response:
        found = listed(self.state, self._query(request, schemas.MARKETS))
        return JSONResponse([self._lite(market) for market in found], headers=_CACHED)

    async def _market(self, request: Request) -> Response:
        lite = self._query(request, schemas.ONE_MARKET, strict=False)["lite"]
        market = self._found(request)
        return JSONResponse(self._lite(market) if lite else self._full(market), headers=_CACHED)

    async def _prob(self, request: Request) -> Response:
        return JSONResponse(rows.prob_row(self._found(request)), headers=_BRIEFLY)

    async def _probs(self, request: Request) -> Response:
        ids = self._query(request, schemas.PROBS)["ids"]
        if len(ids) > 100:
            raise Refusal(400, "Error validating request.", [{"field": "ids", "error": "At most 100 ids"}])
        found = {market: rows.prob_row(self.state.markets[market]) for market in ids if market in self.state.markets}
        return JSONResponse(found, headers=_BRIEFLY)

    async def _answers(self, request: Request) -> Response:
        market = self._found(request)
        return JSONResponse([rows.raw_answer(market, answer) for answer in market.answers], headers=_CACHED)

    async def _positions(self, request: Request) -> Response:
        asked = self._query(request, schemas.POSITIONS)
        market = self._found(request)
        users = dict.fromkeys(user for user, _, _ in self.state.held(market.id) if asked["userId"] in {None, user})
        found = [row for user in users for row in self._metric_rows(market, user)]
        wanted = [row for row in found if asked["answerId"] in {None, row["answerId"]}]
        return JSONResponse(wanted, headers=_CACHED)

    async def _groups(self, request: Request) -> Response:
        slugs = sorted({slug for market in self.state.markets.values() for slug in market.groups})
        found = [{"id": f"group-{slug}", "slug": slug, "name": slug.title()} for slug in slugs]
        wanted = request.path_params.get("slug")
        if wanted is None:
            return JSONResponse(found, headers=_CACHED)
        for group in found:
            if group["slug"] == wanted:
                return JSONResponse(group, headers=_CACHED)
        raise Refusal(404, "Group not found")

    async def _raw(self, request: Request) -> Response:
        asked = self._query(request, {"contractId": schemas.needed(schemas.text)})
        return JSONResponse(rows.raw_market(self._market_of(asked["contractId"])))

    async def _bets(self, request: Request) -> Response:
        asked, now = self._query(request, schemas.BETS), self.now_ms()
        found = [rows.bet_row(bet, now) for bet in bets(self.state, asked, now)]
        return JSONResponse({"count": len(found)} if asked["count"] else found, headers=_CACHED)

    async def _comments(self, request: Request) -> Response:
        asked = self._query(request, schemas.COMMENTS)
        found = [
            comment
            for comment in self.state.comments.values()
            if asked["contractId"] in {None, comment.market}
            and asked["userId"] in {None, comment.user}
            and (asked["afterTime"] is None or comment.created > asked["afterTime"])
        ]
        found.sort(key=lambda comment: comment.created, reverse=asked["order"] != "oldest")
        page = found[asked["page"] * asked["limit"] :][: asked["limit"]]
        return JSONResponse([rows.comment_row(self.state, comment) for comment in page], headers=_CACHED)

    def _lite(self, market: Market) -> dict[str, Any]:
        return rows.lite_row(self.state, market, self.now_ms(), base=BASE)

    def _full(self, market: Market) -> dict[str, Any]:
        return rows.full_row(self.state, market, self.now_ms(), base=BASE)

    def _found(self, request: Request) -> Market:
        params = request.path_params
        market = self.state.market_at(params["slug"]) if "slug" in params else self.state.markets.get(params["id"])
        if market is None:
            raise Refusal(404, "Contract not found")
        return market

    def _market_of(self, market_id: str) -> Market:
        market = self.state.markets.get(market_id)
        if market is None:
            raise Refusal(404, "Contract not found.")
        return market

    def _answer_of(self, market: Market, answer_id: str | None) -> Answer | None:
        if market.mechanism != "cpmm-multi-1":
            return None
        if answer_id is None:
            raise Refusal(400, "answerId must be specified for multi bets")
        answer = market.answer(answer_id)
        if answer is None:
            raise Refusal(404, "Answer not found")
        return answer

    # Requests

    def _query(self, request: Request, fields: Mapping[str, schemas.Field], *, strict: bool = True) -> dict[str, Any]:
        return schemas.check(fields, schemas.query(heard(request).query), strict=strict)

    def _body(self, request: Request, fields: Mapping[str, schemas.Field]) -> dict[str, Any]:
        given = heard(request)
        try:
            body = body_json(given) if given.body else {}
        except ValueError:
            raise Refusal(400, "Invalid JSON.") from None
        if not isinstance(body, dict):
            raise Refusal(400, "Error validating request.", [{"field": None, "error": "Expected object"}])
        return schemas.check(fields, body)


def polite(handler: Handler) -> Handler:
    """Turn a refusal into its answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Refusal as refusal:
            details = {} if refusal.details is None else {"details": refusal.details}
            return JSONResponse({"message": refusal.message, **details}, refusal.status)

    return answer
