"""The Gamma API of the fake Polymarket: markets, events and tags, behind an edge cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from bot.simulator.fake_service import logged_request
from bot.simulator.venues import polymarket_queries as lists
from bot.simulator.venues import polymarket_responses as rows
from bot.simulator.venues.polymarket_queries import PolymarketRefusal
from bot.simulator.venues.polymarket_service import GAMMA, Handler, PolymarketService, get_routes, request_query
from bot.simulator.venues.polymarket_state import FakePolymarketEvent, FakePolymarketMarket

_DEPRECATED = {
    "Deprecation": "true",
    "Sunset": "Fri, 01 May 2026 00:00:00 GMT",
    "Warning": '299 - "deprecated: use the keyset endpoint"',
}
_MOST_OFFSET = 2_000


class GammaApi:
    """The handlers."""

    def __init__(self, venue: PolymarketService) -> None:
        self._venue = venue

    def routes(self) -> list[BaseRoute]:
        """Return the paths."""
        handlers: dict[str, Handler] = {
            "/markets/keyset": self._serve_markets,
            "/events/keyset": self._serve_events,
            "/markets": self._serve_old_markets,
            "/events": self._serve_old_events,
            "/events/pagination": self._serve_counts,
            "/markets/slug/{slug}": self._serve_market,
            "/events/slug/{slug}": self._serve_event,
            "/markets/{id}": self._serve_market,
            "/events/{id}": self._serve_event,
            "/markets/{id}/tags": self._serve_tags_of,
            "/tags": self._serve_tags,
            "/tags/slug/{slug}": self._serve_tag,
            "/public-search": self._serve_search,
        }
        return get_routes({GAMMA + path: self._require_user_agent(handler) for path, handler in handlers.items()})

    def _require_user_agent(self, handler: Handler) -> Handler:
        """Refuse a request without a user agent, as the edge does."""

        async def answer(request: Request) -> Response:
            agent = logged_request(request).headers.get("user-agent", "")
            if not agent or agent.startswith("Python-urllib"):
                return Response("<html><title>Just a moment...</title></html>", 403, media_type="text/html")
            return await handler(request)

        return answer

    def _json_response(self, value: object) -> Response:
        seconds = self._venue.gamma_cache_s
        return JSONResponse(value, headers={"Cache-Control": f"public, max-age={seconds}"} if seconds else None)

    async def _serve_markets(self, request: Request) -> Response:
        state = self._venue.state
        page = lists.list_markets(state, request_query(request))
        return self._page_response("markets", [rows.market_row(state, market) for market in page.items], page.cursor)

    async def _serve_events(self, request: Request) -> Response:
        state = self._venue.state
        page = lists.list_events(state, request_query(request))
        return self._page_response("events", [rows.event_row(state, event) for event in page.items], page.cursor)

    def _page_response(self, name: str, found: list[dict[str, Any]], cursor: str | None) -> Response:
        return self._json_response({name: found} if cursor is None else {name: found, "next_cursor": cursor})

    async def _serve_old_markets(self, request: Request) -> Response:
        state = self._venue.state
        found = [
            market
            for market in state.markets.values()
            if lists.ListFilter(state, request_query(request)).market(market)
        ]
        return self._serve_old(request, [rows.market_row(state, market) for market in found])

    async def _serve_old_events(self, request: Request) -> Response:
        state = self._venue.state
        found = [
            event for event in state.events.values() if lists.ListFilter(state, request_query(request)).event(event)
        ]
        return self._serve_old(request, [rows.event_row(state, event) for event in found])

    def _serve_old(self, request: Request, found: list[dict[str, Any]]) -> Response:
        asked = request_query(request)
        offset = asked.whole("offset", 0)
        if offset > _MOST_OFFSET:
            raise PolymarketRefusal(422, "offset too large; use the keyset endpoint")
        limit = min(asked.whole("limit", lists.DEFAULT_PAGE_SIZE), lists.MAX_PAGE_SIZE)
        return JSONResponse(found[offset : offset + limit], headers=_DEPRECATED)

    async def _serve_counts(self, request: Request) -> Response:
        state = self._venue.state
        found = [
            event for event in state.events.values() if lists.ListFilter(state, request_query(request)).event(event)
        ]
        rest = [rows.event_row(state, event) for event in found[: lists.DEFAULT_PAGE_SIZE]]
        more = {"hasMore": len(found) > len(rest), "totalResults": len(found)}
        return self._json_response({"data": rest, "pagination": more})

    async def _serve_market(self, request: Request) -> Response:
        return self._json_response(rows.market_row(self._venue.state, self._found_market(request)))

    def _found_market(self, request: Request) -> FakePolymarketMarket:
        params = request.path_params
        wanted: Callable[[FakePolymarketMarket], bool] = (
            (lambda market: market.slug == params["slug"])
            if "slug" in params
            else (lambda market: market.id == params["id"])
        )
        found = next((market for market in self._venue.state.markets.values() if wanted(market)), None)
        if found is None:
            raise PolymarketRefusal(404, "id not found", type="not found error")
        return found

    async def _serve_event(self, request: Request) -> Response:
        params, state = request.path_params, self._venue.state
        found: FakePolymarketEvent | None = state.events.get(params.get("id", ""))
        if "slug" in params:
            found = next((event for event in state.events.values() if event.slug == params["slug"]), None)
        if found is None:
            raise PolymarketRefusal(404, "id not found", type="not found error")
        return self._json_response(rows.event_row(state, found))

    async def _serve_tags_of(self, request: Request) -> Response:
        event = self._venue.state.events[self._found_market(request).event]
        return self._json_response([rows.tag_row(slug) for slug in event.tags])

    async def _serve_tags(self, _: Request) -> Response:
        return self._json_response([rows.tag_row(slug) for slug in self._all_tags()])

    async def _serve_tag(self, request: Request) -> Response:
        slug = request.path_params["slug"]
        if slug not in self._all_tags():
            raise PolymarketRefusal(404, "slug not found", type="not found error")
        return self._json_response(rows.tag_row(slug))

    def _all_tags(self) -> list[str]:
        return sorted({slug for event in self._venue.state.events.values() for slug in event.tags})

    async def _serve_search(self, request: Request) -> Response:
        words = request_query(request).one("q")
        if not words:
            raise PolymarketRefusal(422, "q is required")
        state = self._venue.state
        found = [event for event in state.events.values() if words.lower() in event.title.lower()]
        more = {"hasMore": False, "totalResults": len(found)}
        return self._json_response({"events": [rows.event_row(state, event) for event in found], "pagination": more})
