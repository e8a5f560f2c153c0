"""A fake Polymarket: its three interfaces and two sockets, as the venue's document says they behave.

``FakePolymarket(clock)`` is an ASGI application. The exchange is at the root of its address, the describing interface
at /gamma, the Data interface at /data-api, the site at /site; ``addresses(served)`` names them all. Its world is moved
by ``bot.testing.venues.polymarket_world``: add users, events and markets, move books, trade, edit, close, resolve.
What is due happens when somebody looks, or with ``world.exchange.advance()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from bot.testing.venues.faults import Fault, Faults
from bot.testing.venues.hub import Channel
from bot.testing.venues.kit import Served
from bot.testing.venues.polymarket_clob import Clob
from bot.testing.venues.polymarket_data import Data
from bot.testing.venues.polymarket_door import DATA, GAMMA, SITE, Door
from bot.testing.venues.polymarket_gamma import Gamma
from bot.testing.venues.polymarket_news import read_frame
from bot.testing.venues.polymarket_orders import Orders
from bot.testing.venues.polymarket_state import Market
from bot.testing.venues.record import Heard, Limit

if TYPE_CHECKING:
    from bot.ports import Clock

_READ, _POST, _DELETE = frozenset({"GET"}), frozenset({"POST"}), frozenset({"DELETE"})
_LISTS = (f"{GAMMA}/markets", f"{GAMMA}/events")
# What the exchange lets anybody read, and each account of its own; orders and cancellations are counted apart.
_EXCHANGE = (
    *("/book", "/price", "/midpoint", "/spread", "/last-trade", "/tick-size", "/neg-risk", "/fee-rate", "/markets"),
    *("/clob-markets", "/time", "/ok", "/version", "/data/", "/auth/", "/balance-allowance", "/v1/user/"),
)


def _one(name: str, path: str, count: int, *, methods: frozenset[str] = _READ, per_s: float = 10.0) -> Limit:
    """Return the limit of one path alone, whatever others begin with it."""
    return Limit(name=name, count=count, per_s=per_s, methods=methods, exact=frozenset({path}))


# By address, in ten seconds where nothing else is said; section 10 of the venue's document.
LIMITS = (
    Limit(name="general", count=15_000, per_s=10.0),
    Limit(name="gamma", count=4_000, per_s=10.0, prefixes=(GAMMA,)),
    Limit(name="gamma events", count=500, per_s=10.0, prefixes=_LISTS[1:]),
    Limit(name="gamma markets", count=300, per_s=10.0, prefixes=_LISTS[:1]),
    Limit(name="gamma lists", count=900, per_s=10.0, prefixes=_LISTS),
    Limit(name="gamma search", count=350, per_s=10.0, prefixes=(f"{GAMMA}/public-search",)),
    Limit(name="gamma tags", count=200, per_s=10.0, prefixes=(f"{GAMMA}/tags",)),
    Limit(name="gamma comments", count=200, per_s=10.0, prefixes=(f"{GAMMA}/comments",)),
    Limit(name="data", count=1_000, per_s=10.0, prefixes=(DATA,)),
    Limit(name="data trades", count=200, per_s=10.0, prefixes=(f"{DATA}/v2/trades",)),
    Limit(name="data positions", count=150, per_s=10.0, prefixes=(f"{DATA}/v2/positions",)),
    Limit(name="exchange", count=9_000, per_s=10.0, prefixes=_EXCHANGE),
    _one("book", "/book", 1_500),
    _one("price", "/price", 1_500),
    _one("midpoint", "/midpoint", 1_500),
    Limit(name="plurals", count=500, per_s=10.0, exact=frozenset({"/books", "/prices", "/midpoints"})),
    Limit(name="past prices", count=1_000, per_s=10.0, prefixes=("/prices-history",)),
    Limit(name="tick size", count=200, per_s=10.0, prefixes=("/tick-size",)),
    Limit(name="private lists", count=500, per_s=10.0, methods=_READ, prefixes=("/data/",)),
    Limit(name="keys", count=100, per_s=10.0, prefixes=("/auth/",)),
    Limit(name="balance", count=200, per_s=10.0, prefixes=("/balance-allowance",)),
    Limit(name="balance, anew", count=50, per_s=10.0, prefixes=("/balance-allowance/update",)),
    _one("order", "/order", 3_500, methods=_POST),
    _one("order, long", "/order", 36_000, methods=_POST, per_s=600.0),
    _one("orders", "/orders", 1_000, methods=_POST),
    _one("orders, long", "/orders", 15_000, methods=_POST, per_s=600.0),
    _one("cancel", "/order", 3_000, methods=_DELETE),
    _one("cancel, long", "/order", 30_000, methods=_DELETE, per_s=600.0),
    _one("cancel several", "/orders", 1_000, methods=_DELETE),
    _one("cancel several, long", "/orders", 15_000, methods=_DELETE, per_s=600.0),
    _one("cancel all", "/cancel-all", 250, methods=_DELETE),
    _one("cancel all, long", "/cancel-all", 6_000, methods=_DELETE, per_s=600.0),
    _one("cancel of a market", "/cancel-market-orders", 1_000, methods=_DELETE),
    _one("cancel of a market, long", "/cancel-market-orders", 1_500, methods=_DELETE, per_s=600.0),
)


class FakePolymarket(Door):
    """The venue. ``world`` is what stands behind it, ``orders.refuses`` what the next orders are told instead."""

    READINGS = frozenset({"/books", "/midpoints", "/prices", "/spreads", "/last-trades-prices"})

    def __init__(self, clock: Clock, *, faults: Faults | None = None, limits: tuple[Limit, ...] = LIMITS) -> None:
        self.orders = Orders(self)
        super().__init__(clock, faults=faults, limits=limits)

    def routes(self) -> list[BaseRoute]:
        """Return the paths of all interfaces, and the sockets."""
        return [
            *Gamma(self).routes(),
            *Data(self).routes(),
            *Clob(self).routes(),
            *self.orders.routes(),
            WebSocketRoute("/ws/market", self._market_socket),
            WebSocketRoute("/ws/user", self._user_socket),
        ]

    def addresses(self, served: Served) -> dict[str, str]:
        """Return where everything is, under the names of the plugin's settings."""
        return {
            "gamma_url": served.url + GAMMA,
            "clob_url": served.url,
            "data_url": served.url + DATA,
            "site_url": served.url + SITE,
            "socket_url": served.ws_url,
        }

    def too_many(self, retry_after: str | None) -> Response:
        """Return the edge's answer to a request beyond the limit."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return JSONResponse({"error": "Too Many Requests"}, 429, headers=headers)

    def disturb(self, fault: Fault, heard: Heard) -> None:
        """Let the market that a request names be edited, closed, resolved, or traded by somebody else."""
        text = f"{heard.target} {heard.body.decode(errors='replace')}"
        market = self._named(text)
        if market is None or market.has_ended or not self.world.disturb(fault, market):
            self.faults.met_nothing(fault)

    def _named(self, text: str) -> Market | None:
        for market in self.state.markets.values():
            if any(name in text for name in (market.condition, *market.tokens)):
                return market
        return next((order.market for order in self.state.orders.values() if order.id in text), None)

    # The sockets

    async def _market_socket(self, websocket: WebSocket) -> None:
        await self.hub.talk(websocket, self._hear_market)

    def _hear_market(self, channel: Channel, text: str) -> None:
        if _is_ping(channel, text):
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
        self.world.news.hear_market(channel, frame)

    async def _user_socket(self, websocket: WebSocket) -> None:
        await self.hub.talk(websocket, self._hear_user)

    def _hear_user(self, channel: Channel, text: str) -> None:
        if _is_ping(channel, text):
            return
        frame = read_frame(text)
        user = None if frame is None or frame.get("type") != "user" else self.orders.accounts.knows(frame.get("auth"))
        if frame is None or user is None:
            # Who cannot say who he is, is not talked to.
            channel.cut()
            return
        channel.facts["key"] = user.key
        markets = frame.get("markets")
        channel.facts["markets"] = set(markets) if isinstance(markets, list) else None


def _is_ping(channel: Channel, text: str) -> bool:
    """Answer PING, also where nothing else is said."""
    if text != "PING":
        return False
    channel.push("PONG")
    return True
