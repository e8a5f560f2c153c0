"""The public half of the fake Polymarket's exchange (CLOB API): books, prices and the terms of markets."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from bot.simulator.fake_service import logged_request, read_json_body
from bot.simulator.venues import polymarket_order_books as books
from bot.simulator.venues import polymarket_responses as rows
from bot.simulator.venues.polymarket_queries import PolymarketRefusal
from bot.simulator.venues.polymarket_service import SITE, PolymarketService, answer_refusals, get_routes, request_query
from bot.simulator.venues.polymarket_state import FakePolymarketMarket, decimal_text

MAX_BOOKS = 500
_HALF_DAY_MIN = 720


class ClobApi:
    """The handlers."""

    def __init__(self, venue: PolymarketService) -> None:
        self._venue = venue

    def routes(self) -> list[BaseRoute]:
        """Return the paths."""
        one = {
            "/midpoint": self._midpoint_row,
            "/price": self._price_row,
            "/spread": self._spread_row,
            "/last-trade-price": self._last_trade_row,
        }
        plural = {"/midpoints": "/midpoint", "/prices": "/price", "/spreads": "/spread"}
        reads = {
            "/book": self._serve_book,
            **{path: self._serve_one(find) for path, find in one.items()},
            "/tick-size": self._serve_tick,
            "/neg-risk": self._serve_neg_risk,
            "/fee-rate": self._serve_fee_rate,
            "/markets-by-token/{token}": self._serve_by_token,
            "/clob-markets/{condition}": self._serve_short,
            "/markets/{condition}": self._serve_long,
            "/prices-history": self._serve_history,
            "/time": self._serve_time,
            "/ok": self._serve_ok,
            "/version": self._serve_version,
            f"{SITE}/api/geoblock": self._serve_geoblock,
        }
        posts = {
            "/books": self._serve_books,
            **{path: self._serve_several(one[single]) for path, single in plural.items()},
            "/last-trades-prices": self._serve_lasts,
        }
        return [
            *get_routes(reads),
            *(Route(path, answer_refusals(handler), methods=["POST"]) for path, handler in posts.items()),
        ]

    # Books

    async def _serve_book(self, request: Request) -> Response:
        self._venue.world.exchange.process_due()
        market, token = self._find_traded(request_query(request).one("token_id") or "")
        return JSONResponse(books.book_row(self._venue.state, market, token))

    async def _serve_books(self, request: Request) -> Response:
        self._venue.world.exchange.process_due()
        wanted = [item["token_id"] for item in self._requested_tokens(request)]
        # Nobody guarantees the order, and unknown ids are skipped.
        known = sorted(
            (token for token in dict.fromkeys(wanted) if self._has_book(token) and token not in self._venue.drops),
            key=lambda token: token[::-1],
        )
        state = self._venue.state
        return JSONResponse([books.book_row(state, state.tokens[token], token) for token in known])

    def _requested_tokens(self, request: Request) -> list[dict[str, str]]:
        try:
            items = read_json_body(logged_request(request))
        except ValueError:
            items = None
        if not isinstance(items, list) or not all(isinstance(item, dict) and "token_id" in item for item in items):
            raise PolymarketRefusal(400, "Invalid payload")
        if len(items) > MAX_BOOKS:
            raise PolymarketRefusal(400, "Payload exceeds the limit")
        return items

    def _has_book(self, token: str) -> bool:
        market = self._venue.state.tokens.get(token)
        return market is not None and market.trades_now

    def _find_traded(self, token: str) -> tuple[FakePolymarketMarket, str]:
        if not self._has_book(token):
            raise PolymarketRefusal(404, "No orderbook exists for the requested token id")
        return self._venue.state.tokens[token], token

    # Prices

    def _serve_one(self, find: Callable[[FakePolymarketMarket, str, str], dict[str, str]]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            asked = request_query(request)
            market, token = self._find_traded(asked.one("token_id") or "")
            return JSONResponse(find(market, token, asked.one("side") or ""))

        return answer

    def _serve_several(
        self, find: Callable[[FakePolymarketMarket, str, str], dict[str, str]]
    ) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            answers: dict[str, Any] = {}
            for item in self._requested_tokens(request):
                token, side = item["token_id"], item.get("side", "")
                if self._has_book(token):
                    found = find(self._venue.state.tokens[token], token, side)
                    value = next(iter(found.values()))
                    answers[token] = {**answers.get(token, {}), side: value} if side else value
            return JSONResponse(answers)

        return answer

    async def _serve_lasts(self, request: Request) -> Response:
        wanted = [item["token_id"] for item in self._requested_tokens(request) if self._has_book(item["token_id"])]
        tokens = self._venue.state.tokens
        return JSONResponse([{"token_id": token, **self._last_trade_row(tokens[token], token, "")} for token in wanted])

    def _midpoint_row(self, market: FakePolymarketMarket, token: str, _: str) -> dict[str, str]:
        return {"mid": _decimal_text(books.mid_price(self._venue.state, market, token))}

    def _price_row(self, market: FakePolymarketMarket, token: str, side: str) -> dict[str, str]:
        if side not in {"BUY", "SELL"}:
            raise PolymarketRefusal(400, "Invalid side")
        bid, ask = books.best_bid_and_ask(self._venue.state, market, token)
        # BUY is the best price at which somebody buys.
        return {"price": _decimal_text(bid if side == "BUY" else ask)}

    def _spread_row(self, market: FakePolymarketMarket, token: str, _: str) -> dict[str, str]:
        bid, ask = books.best_bid_and_ask(self._venue.state, market, token)
        return {"spread": _decimal_text(None if bid is None or ask is None else ask - bid)}

    def _last_trade_row(self, market: FakePolymarketMarket, _token: str, _: str) -> dict[str, str]:
        return {"price": decimal_text(market.last or Decimal("0.5")), "side": market.last_side}

    async def _serve_history(self, request: Request) -> Response:
        """Answer with the old history: none of ended markets where it is requested finer than half days."""
        asked = request_query(request)
        market = self._venue.state.tokens.get(asked.one("market") or "")
        if market is None:
            return JSONResponse({"history": []})
        fine = asked.whole("fidelity", 1) < _HALF_DAY_MIN
        first, last = asked.whole("startTs", 0), asked.whole("endTs", 2**40)
        token = asked.one("market") or ""
        points = [] if market.has_ended and fine else sorted(market.history, key=lambda point: point[0])
        points_in_range = [{"t": at, "p": float(market.mirrored(token, p))} for at, p in points if first <= at <= last]
        return JSONResponse({"history": points_in_range})

    # Terms

    async def _serve_tick(self, request: Request) -> Response:
        market = self._require_market(request_query(request).one("token_id") or "")
        return JSONResponse({"minimum_tick_size": float(market.tick)})

    async def _serve_neg_risk(self, request: Request) -> Response:
        return JSONResponse({"neg_risk": self._require_market(request_query(request).one("token_id") or "").neg_risk})

    async def _serve_fee_rate(self, request: Request) -> Response:
        self._require_market(request_query(request).one("token_id") or "")
        return JSONResponse({"base_fee": 1000})

    async def _serve_by_token(self, request: Request) -> Response:
        market = self._require_market(request.path_params["token"])
        # The order of the two has no meaning.
        first, second = sorted(market.tokens)
        row = {"condition_id": market.condition, "primary_token_id": first, "secondary_token_id": second}
        return JSONResponse(row)

    async def _serve_short(self, request: Request) -> Response:
        return JSONResponse(rows.short_row(self._by_condition(request)))

    async def _serve_long(self, request: Request) -> Response:
        return JSONResponse(rows.long_row(self._venue.state, self._by_condition(request)))

    def _by_condition(self, request: Request) -> FakePolymarketMarket:
        market = self._venue.state.markets.get(request.path_params["condition"])
        if market is None or not market.is_minted:
            raise PolymarketRefusal(404, "market not found")
        return market

    def _require_market(self, token: str) -> FakePolymarketMarket:
        market = self._venue.state.tokens.get(token)
        if market is None or not market.is_minted:
            raise PolymarketRefusal(404, "market not found")
        return market

    async def _serve_time(self, _: Request) -> Response:
        return PlainTextResponse(str(self._venue.world.now_s), media_type="application/json")

    async def _serve_ok(self, _: Request) -> Response:
        return JSONResponse("OK")

    async def _serve_version(self, _: Request) -> Response:
        return JSONResponse({"version": 2})

    async def _serve_geoblock(self, _: Request) -> Response:
        where = {"ip": "127.0.0.1", "country": self._venue.country, "region": ""}
        return JSONResponse({"blocked": self._venue.is_blocked, **where})


def _decimal_text(value: Decimal | None) -> str:
    if value is None:
        raise PolymarketRefusal(404, "No orderbook exists for the requested token id")
    return decimal_text(value)
