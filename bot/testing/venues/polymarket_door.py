"""What the parts of the fake Polymarket share: its world, what may be set on it, and how requests are refused."""

from __future__ import annotations

from abc import ABC
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from bot.testing.venues.faults import Faults
from bot.testing.venues.kit import FakeVenue, heard
from bot.testing.venues.polymarket_lists import Query, Refusal
from bot.testing.venues.polymarket_state import User
from bot.testing.venues.polymarket_world import World
from bot.testing.venues.record import Heard, Limit

if TYPE_CHECKING:
    from bot.ports import Clock

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

# Where each interface is; the exchange is at the root, as its requests are signed with their paths.
GAMMA, DATA, SITE = "/gamma", "/data-api", "/site"


class Door(FakeVenue, ABC):
    """The venue as its parts see it.

    ``mode`` is that of the engine: open, restarting, post_only or cancel_only. ``is_blocked`` is whether the caller's
    region may not trade, ``country`` what the site says of it. ``gamma_cache_s`` is how long the edge keeps what the
    describing interface said; the real one keeps it for up to 300 s. ``clock_tolerance_s`` is how far the time in a
    signed request may be off. ``has_amount_rules``: FAK and FOK have at most two places of dollars and four of shares.
    ``drops`` are tokens that the plural of books leaves out.
    """

    def __init__(self, clock: Clock, *, faults: Faults | None = None, limits: tuple[Limit, ...] = ()) -> None:
        super().__init__(clock, limits=limits, faults=faults)
        self.world = World(self.now_ms, self.hub)
        self.state = self.world.state
        self.mode = "open"
        self.is_blocked, self.country = False, "XX"
        self.gamma_cache_s = 0
        self.clock_tolerance_s = 300.0
        self.has_amount_rules = True
        self.drops: set[str] = set()

    def user_of(self, heard: Heard) -> User | None:
        """Return the account of a request's API key."""
        return self.state.by_key(heard.headers.get("poly_api_key", ""))

    def account(self, heard: Heard) -> str:
        """Return the address of the account, "" for public requests."""
        user = self.user_of(heard)
        return "" if user is None else user.address


def query_of(request: Request) -> Query:
    """Return the parameters of a request."""
    return Query(heard(request).query)


def gets(handlers: Mapping[str, Handler]) -> list[BaseRoute]:
    """Return routes of what can be read."""
    return [Route(path, polite(handler), methods=["GET"]) for path, handler in handlers.items()]


def polite(handler: Handler) -> Handler:
    """Turn a refusal into its answer."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Refusal as refusal:
            return JSONResponse({"error": refusal.message, **refusal.more}, refusal.status)

    return answer
