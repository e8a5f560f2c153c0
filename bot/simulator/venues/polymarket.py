"""A fake Polymarket: its three APIs and two sockets, as documented in docs/facts/polymarket.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from bot.simulator.fake_service import ServedService
from bot.simulator.faults import FaultSchedule, RequestFault
from bot.simulator.request_log import LoggedRequest, RequestLimit
from bot.simulator.venues.polymarket_clob_api import ClobApi
from bot.simulator.venues.polymarket_data_api import DataApi
from bot.simulator.venues.polymarket_gamma_api import GammaApi
from bot.simulator.venues.polymarket_order_api import OrderApi
from bot.simulator.venues.polymarket_service import DATA, GAMMA, SITE, PolymarketService
from bot.simulator.venues.polymarket_socket_messages import read_frame
from bot.simulator.venues.polymarket_state import FakePolymarketMarket
from bot.simulator.websocket_hub import FakeSocketChannel

if TYPE_CHECKING:
    from bot.core.interfaces import Clock

_READ, _POST, _DELETE = frozenset({"GET"}), frozenset({"POST"}), frozenset({"DELETE"})
_LISTS = (f"{GAMMA}/markets", f"{GAMMA}/events")
# The exchange's limits for public reads, and for each account; orders and cancellations are counted apart.
_EXCHANGE = (
    *("/book", "/price", "/midpoint", "/spread", "/last-trade", "/tick-size", "/neg-risk", "/fee-rate", "/markets"),
    *("/clob-markets", "/time", "/ok", "/version", "/data/", "/auth/", "/balance-allowance", "/v1/user/"),
)


def _path_limit(
    name: str, path: str, count: int, *, methods: frozenset[str] = _READ, per_s: float = 10.0
) -> RequestLimit:
    """Return the limit of one path alone, whatever others begin with it."""
    return RequestLimit(name=name, count=count, per_s=per_s, methods=methods, exact=frozenset({path}))


# By address, in ten seconds unless stated; docs/facts/polymarket.md#rate-limits.
LIMITS = (
    RequestLimit(name="general", count=15_000, per_s=10.0),
    RequestLimit(name="gamma", count=4_000, per_s=10.0, prefixes=(GAMMA,)),
    RequestLimit(name="gamma events", count=500, per_s=10.0, prefixes=_LISTS[1:]),
    RequestLimit(name="gamma markets", count=300, per_s=10.0, prefixes=_LISTS[:1]),
    RequestLimit(name="gamma lists", count=900, per_s=10.0, prefixes=_LISTS),
    RequestLimit(name="gamma search", count=350, per_s=10.0, prefixes=(f"{GAMMA}/public-search",)),
    RequestLimit(name="gamma tags", count=200, per_s=10.0, prefixes=(f"{GAMMA}/tags",)),
    RequestLimit(name="gamma comments", count=200, per_s=10.0, prefixes=(f"{GAMMA}/comments",)),
    RequestLimit(name="data", count=1_000, per_s=10.0, prefixes=(DATA,)),
    RequestLimit(name="data trades", count=200, per_s=10.0, prefixes=(f"{DATA}/v2/trades",)),
    RequestLimit(name="data positions", count=150, per_s=10.0, prefixes=(f"{DATA}/v2/positions",)),
    RequestLimit(name="exchange", count=9_000, per_s=10.0, prefixes=_EXCHANGE),
    _path_limit("book", "/book", 1_500),
    _path_limit("price", "/price", 1_500),
    _path_limit("midpoint", "/midpoint", 1_500),
    RequestLimit(name="plurals", count=500, per_s=10.0, exact=frozenset({"/books", "/prices", "/midpoints"})),
    RequestLimit(name="past prices", count=1_000, per_s=10.0, prefixes=("/prices-history",)),
    RequestLimit(name="tick size", count=200, per_s=10.0, prefixes=("/tick-size",)),
    RequestLimit(name="private lists", count=500, per_s=10.0, methods=_READ, prefixes=("/data/",)),
    RequestLimit(name="keys", count=100, per_s=10.0, prefixes=("/auth/",)),
    RequestLimit(name="balance", count=200, per_s=10.0, prefixes=("/balance-allowance",)),
    RequestLimit(name="balance, anew", count=50, per_s=10.0, prefixes=("/balance-allowance/update",)),
    _path_limit("order", "/order", 3_500, methods=_POST),
    _path_limit("order, long", "/order", 36_000, methods=_POST, per_s=600.0),
    _path_limit("orders", "/orders", 1_000, methods=_POST),
    _path_limit("orders, long", "/orders", 15_000, methods=_POST, per_s=600.0),
    _path_limit("cancel", "/order", 3_000, methods=_DELETE),
    _path_limit("cancel, long", "/order", 30_000, methods=_DELETE, per_s=600.0),
    _path_limit("cancel several", "/orders", 1_000, methods=_DELETE),
    _path_limit("cancel several, long", "/orders", 15_000, methods=_DELETE, per_s=600.0),
    _path_limit("cancel all", "/cancel-all", 250, methods=_DELETE),
    _path_limit("cancel all, long", "/cancel-all", 6_000, methods=_DELETE, per_s=600.0),
    _path_limit("cancel of a market", "/cancel-market-orders", 1_000, methods=_DELETE),
    _path_limit("cancel of a market, long", "/cancel-market-orders", 1_500, methods=_DELETE, per_s=600.0),
)


class FakePolymarket(PolymarketService):
    """The venue. ``world`` is the world behind it, ``orders.refuses`` holds refusals for the next orders."""

    READ_PATHS = frozenset({"/books", "/midpoints", "/prices", "/spreads", "/last-trades-prices"})

    def __init__(
        self, clock: Clock, *, faults: FaultSchedule | None = None, limits: tuple[RequestLimit, ...] = LIMITS
    ) -> None:
        self.orders = OrderApi(self)
        super().__init__(clock, faults=faults, limits=limits)

    def routes(self) -> list[BaseRoute]:
        """Return the paths of all interfaces, and the sockets."""
        return [
            *GammaApi(self).routes(),
            *DataApi(self).routes(),
            *ClobApi(self).routes(),
            *self.orders.routes(),
            WebSocketRoute("/ws/market", self._market_socket),
            WebSocketRoute("/ws/user", self._user_socket),
        ]

    def addresses(self, served: ServedService) -> dict[str, str]:
        """Return all addresses, under the names of the plugin's settings."""
        return {
            "gamma_url": served.url + GAMMA,
            "clob_url": served.url,
            "data_url": served.url + DATA,
            "site_url": served.url + SITE,
            "socket_url": served.ws_url,
        }

    def rate_limit_response(self, retry_after: str | None) -> Response:
        """Return the edge's answer to a request beyond the limit."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return JSONResponse({"error": "Too Many Requests"}, 429, headers=headers)

    def apply_world_fault(self, fault: RequestFault, logged: LoggedRequest) -> None:
        """Let the market of a request be edited, closed, resolved, or traded by somebody else."""
        text = f"{logged.target} {logged.body.decode(errors='replace')}"
        market = self._find_market(text)
        if market is None or market.has_ended or not self.world.apply_fault(fault, market):
            self.faults.discount(fault)

    def _find_market(self, text: str) -> FakePolymarketMarket | None:
        for market in self.state.markets.values():
            if any(name in text for name in (market.condition, *market.tokens)):
                return market
        return next((order.market for order in self.state.orders.values() if order.id in text), None)

    # The sockets

    async def _market_socket(self, websocket: WebSocket) -> None:
        await self.hub.serve_socket(websocket, self._hear_market)

    def _hear_market(self, channel: FakeSocketChannel, text: str) -> None:
        if _answer_ping(channel, text):
            return
        frame = read_frame(text)
        begun = channel.facts.get("begun", False)
        if frame is None or (not begun and frame.get("type") != "market"):
            channel.push("INVALID OPERATION")
            return
        if begun and frame.get("operation") not in {"subscribe", "unsubscribe"}:
            channel.push("INVALID OPERATION")
            return
        channel.facts["begun"] = True
        self.world.socket_messages.hear_market(channel, frame)

    async def _user_socket(self, websocket: WebSocket) -> None:
        await self.hub.serve_socket(websocket, self._hear_user)

    def _hear_user(self, channel: FakeSocketChannel, text: str) -> None:
        if _answer_ping(channel, text):
            return
        frame = read_frame(text)
        user = (
            None
            if frame is None or frame.get("type") != "user"
            else self.orders.accounts.authenticate_socket(frame.get("auth"))
        )
        if frame is None or user is None:
            # A client without credentials gets no answer.
            channel.cut()
            return
        channel.facts["key"] = user.key
        markets = frame.get("markets")
        channel.facts["markets"] = set(markets) if isinstance(markets, list) else None


def _answer_ping(channel: FakeSocketChannel, text: str) -> bool:
    """Answer PING, also where no other message is sent."""
    if text != "PING":
        return False
    channel.push("PONG")
    return True
