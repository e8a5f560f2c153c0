"""Code that the APIs of the fake Polymarket share: its world, its settings, and how requests are refused."""

from __future__ import annotations

from abc import ABC
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.simulator.fake_service import FakeService, logged_request
from bot.simulator.faults import FaultSchedule
from bot.simulator.request_log import LoggedRequest, RequestLimit
from bot.simulator.venues.polymarket_queries import PolymarketQuery, PolymarketRefusal
from bot.simulator.venues.polymarket_state import FakePolymarketUser
from bot.simulator.venues.polymarket_world import PolymarketWorld

if TYPE_CHECKING:
    from bot.core.interfaces import Clock

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

# The address of each interface; the exchange is at the root, as its requests are signed with their paths.
GAMMA, DATA, SITE = "/gamma", "/data-api", "/site"


class PolymarketService(FakeService, ABC):
    """The venue as its parts see it.

    ``mode`` is that of the engine: open, restarting, post_only or cancel_only. ``is_blocked`` is whether the caller's
    region may not trade, ``country`` what the site says about it. ``gamma_cache_s`` is how long the edge keeps
    responses of the describing interface; the real one keeps them for up to 300 s. ``clock_tolerance_s`` is how far the
    time in a signed request may be off. ``has_amount_rules``: FAK and FOK have at most two places of dollars and four
    of shares. ``drops`` are tokens that the list of books omits.
    """

    def __init__(
        self, clock: Clock, *, faults: FaultSchedule | None = None, limits: tuple[RequestLimit, ...] = ()
    ) -> None:
        super().__init__(clock, limits=limits, faults=faults)
        self.world = PolymarketWorld(self.now_ms, self.hub)
        self.state = self.world.state
        self.mode = "open"
        self.is_blocked, self.country = False, "XX"
        self.gamma_cache_s = 0
        self.clock_tolerance_s = 300.0
        self.has_amount_rules = True
        self.drops: set[str] = set()

    def user_of(self, logged: LoggedRequest) -> FakePolymarketUser | None:
        """Return the account of a request's API key."""
        return self.state.by_key(logged.headers.get("poly_api_key", ""))

    def account(self, logged: LoggedRequest) -> str:
        """Return the address of the account, "" for public requests."""
        user = self.user_of(logged)
        return "" if user is None else user.address


def request_query(request: Request) -> PolymarketQuery:
    """Return the parameters of a request."""
    return PolymarketQuery(logged_request(request).query)


def get_routes(handlers: Mapping[str, Handler]) -> list[BaseRoute]:
    """Return routes for reading."""
    return [Route(path, answer_refusals(handler), methods=["GET"]) for path, handler in handlers.items()]


def answer_refusals(handler: Handler) -> Handler:
    """Turn a refusal into its answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except PolymarketRefusal as refusal:
            return JSONResponse({"error": refusal.message, **refusal.more}, refusal.status)

    return answer
