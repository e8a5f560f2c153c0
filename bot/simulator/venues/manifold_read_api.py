"""The read API of the fake Manifold.

Accounts, markets, prices, bets and comments, with the filters and orders of its lists.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.simulator.fake_service import FakeService, Receive, Scope, Send, logged_request, read_json_body
from bot.simulator.faults import FaultSchedule
from bot.simulator.request_log import LoggedRequest, RequestLimit
from bot.simulator.venues import manifold_request_schemas as schemas
from bot.simulator.venues import manifold_responses as rows
from bot.simulator.venues.manifold_responses import day_volume
from bot.simulator.venues.manifold_state import (
    FakeManifoldAnswer,
    FakeManifoldBet,
    FakeManifoldMarket,
    FakeManifoldState,
    FakeManifoldUser,
)
from bot.simulator.venues.manifold_trading import ManifoldRefusal
from bot.simulator.venues.manifold_world import ManifoldWorld

if TYPE_CHECKING:
    from bot.core.interfaces import Clock

_DAY_MS = 86_400_000


_CLOSING_DAYS = {"closing-day": 1, "closing-week": 7, "closing-month": 30, "closing-90-days": 90}


_TYPE_GROUPS = {"PSEUDO_NUMERIC": {"PSEUDO_NUMERIC", "NUMBER", "MULTI_NUMERIC"}}


_TOKEN_FILTERS = {"ALL": {"MANA", "CASH"}, "CASH_AND_MANA": {"MANA", "CASH"}}


# A text index accepts words; other signs cannot be parsed, and find nothing.
_WORD = re.compile(r"\w+")


def search_markets(state: FakeManifoldState, asked: Mapping[str, Any], now: int) -> Sequence[FakeManifoldMarket]:
    """Return a page of the markets found by a search."""
    found = [market for market in state.markets.values() if _is_wanted(market, asked, now)]
    ordered = _sort_markets(state, found, asked["sort"], now)
    return ordered[asked["offset"] : asked["offset"] + asked["limit"]]


def _is_wanted(market: FakeManifoldMarket, asked: Mapping[str, Any], now: int) -> bool:
    return (
        _has_term(market, asked["term"])
        and _has_state(market, asked["filter"], now)
        and _has_type(market, asked["contractType"], asked["sort"])
        and _has_time(market, asked, now)
        and market.token in _TOKEN_FILTERS.get(asked["token"], {asked["token"]})
        and (asked["creatorId"] in {None, market.creator})
        and (asked["topicSlug"] is None or asked["topicSlug"] in market.groups)
        and (asked["gids"] is None or any(group in market.groups for group in asked["gids"].split(",")))
        and (asked["liquidity"] is None or market.liquidity >= asked["liquidity"])
    )


def _has_term(market: FakeManifoldMarket, term: str) -> bool:
    if not term:
        return True
    words = _WORD.findall(term.lower())
    text = f"{market.question} {market.description}".lower()
    return bool(words) and all(word in text for word in words)


def _has_state(market: FakeManifoldMarket, wanted: str, now: int) -> bool:
    if wanted == "uncertain":
        return market.type == "BINARY" and market.is_open(now) and 0.3 <= market.pool.prob <= 0.7
    if wanted in _CLOSING_DAYS:
        return (
            market.is_open(now) and market.closes is not None and market.closes < now + _CLOSING_DAYS[wanted] * _DAY_MS
        )
    return {
        "open": market.is_open(now),
        "closed": not market.resolved and not market.is_open(now),
        "resolved": market.resolved,
    }.get(wanted, True)


def _has_type(market: FakeManifoldMarket, wanted: str, sort: str) -> bool:
    if wanted == "DEPENDENT_MULTIPLE_CHOICE":
        return market.type == "MULTIPLE_CHOICE" and market.sums_to_one
    if wanted == "INDEPENDENT_MULTIPLE_CHOICE":
        return market.type == "MULTIPLE_CHOICE" and not market.sums_to_one
    if wanted == "ALL":
        return market.type != "STONK" or sort != "score"
    return market.type in _TYPE_GROUPS.get(wanted, {wanted})


def _has_time(market: FakeManifoldMarket, asked: Mapping[str, Any], now: int) -> bool:
    if asked["beforeTime"] is not None and market.created >= asked["beforeTime"]:
        return False
    if asked["sort"] == "close-date":
        return market.closes is not None and market.closes > now
    return asked["sort"] != "24-hour-vol" or market.volume > 0


def _sort_markets(
    state: FakeManifoldState, found: list[FakeManifoldMarket], sort: str, now: int
) -> list[FakeManifoldMarket]:
    keys: Mapping[str, Callable[[FakeManifoldMarket], float]] = {
        "newest": lambda market: -market.created,
        "start-time": lambda market: -market.created,
        "liquidity": lambda market: -market.liquidity,
        "subsidy": lambda market: -market.liquidity,
        "24-hour-vol": lambda market: -day_volume(state, market, now),
        "last-updated": lambda market: -market.updated,
        "close-date": lambda market: market.closes or 0,
        "resolve-date": lambda market: -(market.resolution_time or 0),
        "prob-descending": lambda market: -market.pool.prob,
        "prob-ascending": lambda market: market.pool.prob,
        "prob-50": lambda market: abs(market.pool.prob - 0.5),
    }
    return sorted(found, key=keys.get(sort, lambda market: -len(market.bettors)))


_TIME_ORDERS: Mapping[str, Callable[[FakeManifoldMarket], int]] = {
    "created-time": lambda market: market.created,
    "updated-time": lambda market: market.updated,
    "last-bet-time": lambda market: market.last_bet or 0,
    "last-comment-time": lambda market: market.last_comment or 0,
}


def list_markets(state: FakeManifoldState, asked: Mapping[str, Any]) -> Sequence[FakeManifoldMarket]:
    """Return a page of the plain list, with its traps.

    An unknown ``before`` is ignored, and with order asc it still means earlier than.
    """
    time = _TIME_ORDERS[asked["sort"]]
    found = [
        market
        for market in state.markets.values()
        if asked["userId"] in {None, market.creator} and (asked["groupId"] is None or asked["groupId"] in market.groups)
    ]
    before = state.markets.get(asked["before"] or "")
    if before is not None:
        found = [market for market in found if time(market) < time(before)]
    found.sort(key=time, reverse=asked["order"] == "desc")
    return found[: asked["limit"]]


def list_bets(state: FakeManifoldState, asked: Mapping[str, Any], now: int) -> Sequence[FakeManifoldBet]:
    """Return a page of bets."""
    tests = [*_bet_filters(state, asked, now)]
    found = [bet for bet in _candidate_bets(state, asked) if all(test(bet) for test in tests)]
    found.sort(key=lambda bet: (bet.created, bet.id), reverse=asked["order"] == "desc")
    return found[: asked["limit"]]


def _candidate_bets(state: FakeManifoldState, asked: Mapping[str, Any]) -> Iterable[FakeManifoldBet]:
    """Return all bets that can be in a page, and few others."""
    if asked["contractId"] is not None:
        return chain.from_iterable(state.bets_on(market) for market in dict.fromkeys(asked["contractId"]))
    return state.bets.values() if asked["userId"] is None else state.bets_by(asked["userId"])


def _bet_filters(
    state: FakeManifoldState, asked: Mapping[str, Any], now: int
) -> Iterator[Callable[[FakeManifoldBet], bool]]:
    """Yield the conditions on a bet, most selective first."""
    before, after = (state.bets.get(asked[name] or "") for name in ("before", "after"))
    tests: Sequence[tuple[object, Callable[[FakeManifoldBet], bool]]] = (
        (asked["id"], lambda bet: bet.id == asked["id"]),
        (asked["contractId"], lambda bet: bet.market in asked["contractId"]),
        (asked["contractSlug"], lambda bet: state.markets[bet.market].slug == asked["contractSlug"]),
        (asked["answerId"], lambda bet: bet.answer == asked["answerId"]),
        (asked["userId"], lambda bet: bet.user == asked["userId"]),
        (asked["username"], lambda bet: state.users[bet.user].username == asked["username"]),
        (asked["kinds"], lambda bet: bet.is_resting(now)),
        (asked["minAmount"], lambda bet: abs(bet.amount) >= asked["minAmount"]),
        (asked["filterRedemptions"] or None, lambda bet: not bet.is_redemption),
        (asked["excludeApi"] or None, lambda bet: not bet.is_api),
        (asked["beforeTime"], lambda bet: bet.created < asked["beforeTime"]),
        (asked["afterTime"], lambda bet: bet.created > asked["afterTime"]),
        (before, lambda bet: before is not None and bet.created < before.created),
        (after, lambda bet: after is not None and bet.created > after.created),
        (state.listed_from or None, lambda bet: state.listed_from.get(bet.id, 0) <= now),
    )
    yield from (test for wanted, test in tests if wanted is not None)


BASE = "https://manifold.markets"


PER_MINUTE = RequestLimit(name="500 a minute", count=500, per_s=60.0)


_CACHE_HEADERS = {"Cache-Control": "public, max-age=5, stale-while-revalidate=10"}


_BRIEF_CACHE_HEADERS = {"Cache-Control": "public, max-age=1, stale-while-revalidate=10"}


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class ManifoldReadApi(FakeService):
    """The readable part of the venue. ``world`` is the world behind it, ``state`` is its data."""

    def __init__(
        self, clock: Clock, *, faults: FaultSchedule | None = None, limits: tuple[RequestLimit, ...] = (PER_MINUTE,)
    ) -> None:
        super().__init__(clock, limits=limits, faults=faults)
        self.world = ManifoldWorld(self.now_ms, self.hub)
        self.state = self.world.state

    def routes(self) -> list[BaseRoute]:
        """Return the readable paths."""
        gets: Mapping[str, Handler] = {
            "/v0/me": self._serve_me,
            "/v0/user/by-id/{name}": self._serve_user,
            "/v0/user/{name}": self._serve_user,
            "/v0/get-user-portfolio": self._serve_portfolio,
            "/v0/get-user-contract-metrics-with-contracts": self._serve_metrics,
            "/v0/search-markets": self._serve_search,
            "/v0/markets": self._serve_markets,
            "/v0/market-probs": self._serve_probs,
            "/v0/market/{id}": self._serve_market,
            "/v0/slug/{slug}": self._serve_market,
            "/v0/market/{id}/prob": self._serve_prob,
            "/v0/market/{id}/answers": self._serve_answers,
            "/v0/market/{id}/positions": self._serve_positions,
            "/v0/bets": self._serve_bets,
            "/v0/comments": self._serve_comments,
            "/v0/groups": self._serve_groups,
            "/v0/group/{slug}": self._serve_groups,
            "/get-contract": self._serve_raw,
        }
        return [Route(path, answer_refusals(handler), methods=["GET"]) for path, handler in gets.items()]

    def account(self, logged: LoggedRequest) -> str:
        """Return the user of a request's key."""
        user = self._user_of(logged)
        return "" if user is None else user.id

    async def answer_unknown_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer requests without a route, in JSON."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        await JSONResponse({"message": f"The requested route '{scope['path']}' does not exist."}, 404)(
            scope, receive, send
        )

    # Accounts

    def _user_of(self, logged: LoggedRequest) -> FakeManifoldUser | None:
        parts = logged.headers.get("authorization", "").split(" ")
        if len(parts) != 2 or parts[0] != "Key":
            return None
        return next((user for user in self.state.users.values() if user.key == parts[1] and not user.banned), None)

    def _require_user(self, request: Request) -> FakeManifoldUser:
        asking = logged_request(request)
        user = self._user_of(asking)
        if user is None:
            header = asking.headers.get("authorization")
            raise ManifoldRefusal(
                401, "No user exists with that API key." if header else "Missing Authorization header."
            )
        return user

    async def _serve_me(self, request: Request) -> Response:
        return JSONResponse(rows.user_row(self._require_user(request), base=BASE))

    async def _serve_user(self, request: Request) -> Response:
        return JSONResponse(rows.user_row(self._find_user(request.path_params["name"]), base=BASE))

    def _find_user(self, name: str) -> FakeManifoldUser:
        user = self.state.user_named(name)
        if user is None:
            raise ManifoldRefusal(404, "User not found")
        return user

    async def _serve_portfolio(self, request: Request) -> Response:
        user = self._find_user(self._parse_query(request, schemas.PORTFOLIO)["userId"])
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
        return JSONResponse(row, headers=_BRIEF_CACHE_HEADERS)

    async def _serve_metrics(self, request: Request) -> Response:
        asked = self._parse_query(request, schemas.METRICS)
        held = dict.fromkeys(market for who, market, _ in self.state.holdings if who == asked["userId"])
        found = [self.state.markets[market] for market in held][asked["offset"] : asked["offset"] + asked["limit"]]
        return JSONResponse(
            {
                "metricsByContract": {market.id: self._metric_rows(market, asked["userId"]) for market in found},
                "contracts": [rows.raw_market(market) for market in found],
            }
        )

    def _metric_rows(self, market: FakeManifoldMarket, user: str) -> list[dict[str, Any]]:
        answers = [answer.id for answer in market.answers if (user, market.id, answer.id) in self.state.holdings]
        return [rows.metric_row(self.state, market, user, answer) for answer in (*answers, None)]

    # Markets

    async def _serve_search(self, request: Request) -> Response:
        found = search_markets(self.state, self._parse_query(request, schemas.SEARCH), self.now_ms())
        return JSONResponse([self._lite_row(market) for market in found], headers=_CACHE_HEADERS)

    async def _serve_markets(self, request: Request) -> Response:
        found = list_markets(self.state, self._parse_query(request, schemas.MARKETS))
        return JSONResponse([self._lite_row(market) for market in found], headers=_CACHE_HEADERS)

    async def _serve_market(self, request: Request) -> Response:
        lite = self._parse_query(request, schemas.ONE_MARKET, strict=False)["lite"]
        market = self._find_market(request)
        return JSONResponse(self._lite_row(market) if lite else self._full_row(market), headers=_CACHE_HEADERS)

    async def _serve_prob(self, request: Request) -> Response:
        return JSONResponse(rows.prob_row(self._find_market(request)), headers=_BRIEF_CACHE_HEADERS)

    async def _serve_probs(self, request: Request) -> Response:
        ids = self._parse_query(request, schemas.PROBS)["ids"]
        if len(ids) > 100:
            raise ManifoldRefusal(400, "Error validating request.", [{"field": "ids", "error": "At most 100 ids"}])
        found = {market: rows.prob_row(self.state.markets[market]) for market in ids if market in self.state.markets}
        return JSONResponse(found, headers=_BRIEF_CACHE_HEADERS)

    async def _serve_answers(self, request: Request) -> Response:
        market = self._find_market(request)
        return JSONResponse([rows.raw_answer(market, answer) for answer in market.answers], headers=_CACHE_HEADERS)

    async def _serve_positions(self, request: Request) -> Response:
        asked = self._parse_query(request, schemas.POSITIONS)
        market = self._find_market(request)
        users = dict.fromkeys(
            user for user, _, _ in self.state.holdings_of(market.id) if asked["userId"] in {None, user}
        )
        found = [row for user in users for row in self._metric_rows(market, user)]
        wanted = [row for row in found if asked["answerId"] in {None, row["answerId"]}]
        return JSONResponse(wanted, headers=_CACHE_HEADERS)

    async def _serve_groups(self, request: Request) -> Response:
        slugs = sorted({slug for market in self.state.markets.values() for slug in market.groups})
        found = [{"id": f"group-{slug}", "slug": slug, "name": slug.title()} for slug in slugs]
        wanted = request.path_params.get("slug")
        if wanted is None:
            return JSONResponse(found, headers=_CACHE_HEADERS)
        for group in found:
            if group["slug"] == wanted:
                return JSONResponse(group, headers=_CACHE_HEADERS)
        raise ManifoldRefusal(404, "Group not found")

    async def _serve_raw(self, request: Request) -> Response:
        asked = self._parse_query(request, {"contractId": schemas.required_field(schemas.read_text)})
        return JSONResponse(rows.raw_market(self._market_of(asked["contractId"])))

    async def _serve_bets(self, request: Request) -> Response:
        asked, now = self._parse_query(request, schemas.BETS), self.now_ms()
        found = [rows.bet_row(bet, now) for bet in list_bets(self.state, asked, now)]
        return JSONResponse({"count": len(found)} if asked["count"] else found, headers=_CACHE_HEADERS)

    async def _serve_comments(self, request: Request) -> Response:
        asked = self._parse_query(request, schemas.COMMENTS)
        found = [
            comment
            for comment in self.state.comments.values()
            if asked["contractId"] in {None, comment.market}
            and asked["userId"] in {None, comment.user}
            and (asked["afterTime"] is None or comment.created > asked["afterTime"])
        ]
        found.sort(key=lambda comment: comment.created, reverse=asked["order"] != "oldest")
        page = found[asked["page"] * asked["limit"] :][: asked["limit"]]
        return JSONResponse([rows.comment_row(self.state, comment) for comment in page], headers=_CACHE_HEADERS)

    def _lite_row(self, market: FakeManifoldMarket) -> dict[str, Any]:
        return rows.lite_row(self.state, market, self.now_ms(), base=BASE)

    def _full_row(self, market: FakeManifoldMarket) -> dict[str, Any]:
        return rows.full_row(self.state, market, self.now_ms(), base=BASE)

    def _find_market(self, request: Request) -> FakeManifoldMarket:
        params = request.path_params
        market = self.state.market_at(params["slug"]) if "slug" in params else self.state.markets.get(params["id"])
        if market is None:
            raise ManifoldRefusal(404, "Contract not found")
        return market

    def _market_of(self, market_id: str) -> FakeManifoldMarket:
        market = self.state.markets.get(market_id)
        if market is None:
            raise ManifoldRefusal(404, "Contract not found.")
        return market

    def _answer_of(self, market: FakeManifoldMarket, answer_id: str | None) -> FakeManifoldAnswer | None:
        if market.mechanism != "cpmm-multi-1":
            return None
        if answer_id is None:
            raise ManifoldRefusal(400, "answerId must be specified for multi bets")
        answer = market.answer(answer_id)
        if answer is None:
            raise ManifoldRefusal(404, "Answer not found")
        return answer

    # Requests

    def _parse_query(
        self, request: Request, fields: Mapping[str, schemas.RequestField], *, strict: bool = True
    ) -> dict[str, Any]:
        return schemas.check_fields(fields, schemas.parse_query(logged_request(request).query), strict=strict)

    def _parse_body(self, request: Request, fields: Mapping[str, schemas.RequestField]) -> dict[str, Any]:
        given = logged_request(request)
        try:
            body = read_json_body(given) if given.body else {}
        except ValueError:
            raise ManifoldRefusal(400, "Invalid JSON.") from None
        if not isinstance(body, dict):
            raise ManifoldRefusal(400, "Error validating request.", [{"field": None, "error": "Expected object"}])
        return schemas.check_fields(fields, body)


def answer_refusals(handler: Handler) -> Handler:
    """Turn a refusal into its answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except ManifoldRefusal as refusal:
            details = {} if refusal.details is None else {"details": refusal.details}
            return JSONResponse({"message": refusal.message, **details}, refusal.status)

    return answer
