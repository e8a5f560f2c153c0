"""The fake Manifold on a real port, and what the plugin needs to talk to it: reader, write client and sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from pydantic import SecretStr

from bot.api import Clock, ContractSide, Order, OrderSide, PluginContext, PriceFeedContext, Question, VenueWriterContext
from bot.core.clock import SeededRandom
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.net.write_client import HttpWriteClient
from bot.simulator.fake_service import ServedService, serve_service
from bot.simulator.request_log import LoggedRequest
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_state import FakeManifoldAnswer, FakeManifoldMarket
from bot.testing.clock import FakeClock
from plugins.manifold.api_client import ManifoldClient
from plugins.manifold.reader import ManifoldReader
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.writer import ManifoldWriter

KEY = "11111111-2222-3333-4444-555555555555"


class ManifoldFixture:
    """``ada`` is the bot: it has the key, and 1000 mana."""

    def __init__(self, venue: FakeManifold, served: ServedService, folder: Path) -> None:
        self.venue, self.world, self.served, self.folder = venue, venue.world, served, folder
        self.ada = venue.world.add_user("ada", key=KEY, is_bot=True)
        self.settings = ManifoldSettings(
            base_url=served.url, key=SecretStr(KEY), username="ada", min_bettors=0, close_margin_s=0
        )
        rates = RateLimiter((), clock=venue.clock, random=SeededRandom(1))
        limits = HttpLimits(attempts=1, deadline_s=5.0)
        self.http = RetryingHttpClient(clock=venue.clock, random=SeededRandom(1), limits=limits, rates=rates)
        self.wire = HttpWriteClient(rates=rates)
        self.sockets = WebSocketConnector(clock=venue.clock, rates=rates)

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.venue.clock, FakeClock)
        return self.venue.clock

    @property
    def place(self) -> PluginContext:
        return PluginContext(clock=self.venue.clock, http=self.http, folder=self.folder)

    def with_settings(self, **changes: Any) -> ManifoldSettings:
        given = {name: getattr(self.settings, name) for name in self.settings.model_fields_set}
        return ManifoldSettings(**{**given, **changes})

    def client(self) -> ManifoldClient:
        return ManifoldClient(self.settings, self.http, self.venue.clock)

    def reader(self, **changes: Any) -> ManifoldReader:
        return ManifoldReader(self.with_settings(**changes), self.place)

    def writer(self, **changes: Any) -> ManifoldWriter:
        place = VenueWriterContext(clock=self.venue.clock, http=self.http, folder=self.folder, wire=self.wire)
        return ManifoldWriter(self.with_settings(**changes), place)

    def price_place(self) -> PriceFeedContext:
        return PriceFeedContext(clock=self.venue.clock, http=self.http, folder=self.folder, sockets=self.sockets)

    async def questions(self, **changes: Any) -> dict[str, Question]:
        """Return what a new reader finds, by key."""
        return {question.ref.key: question async for question in self.reader(**changes).questions()}

    async def question(self, market: FakeManifoldMarket, answer: FakeManifoldAnswer | None = None) -> Question:
        return await self.reader().find_question(market.id if answer is None else f"{market.id}/{answer.id}")

    async def aclose(self) -> None:
        await self.http.aclose()
        await self.wire.aclose()

    def asked(self, path: str, method: str = "GET") -> list[LoggedRequest]:
        """Return the requests to paths that begin so."""
        return [one for one in self.venue.requests if one.method == method and one.path.startswith(path)]


@asynccontextmanager
async def open_fixture(folder: Path, clock: Clock | None = None) -> AsyncIterator[ManifoldFixture]:
    venue = FakeManifold(clock or FakeClock())
    async with serve_service(venue) as served:
        manifold = ManifoldFixture(venue, served, folder)
        try:
            yield manifold
        finally:
            await manifold.aclose()


def query_of(heard: LoggedRequest) -> dict[str, str]:
    return dict(parse_qsl(heard.query, keep_blank_values=True))


def bodies(requests: Sequence[LoggedRequest]) -> list[Any]:
    return [json.loads(one.body) for one in requests]


def order_of(market: FakeManifoldMarket, *, amount: float = 20.0, limit: str = "0.60", **more: Any) -> Order:
    """Return a purchase as the planner writes it."""
    answer, leg = more.pop("answer", None), more.pop("leg", ContractSide.YES)
    name = "" if answer is None else answer.id
    terms = {
        "market": market.id,
        "answer": name,
        "limit_prob": limit,
        "type": market.type,
    }
    price = float(limit) if leg is ContractSide.YES else 1.0 - float(limit)
    fields = {
        "contract": market.id if answer is None else f"{market.id}/{name}",
        "leg": leg,
        "side": OrderSide.BUY,
        "shares": amount / price,
        "limit": price,
        "cost": amount,
        "expected": price,
        "currency": "MANA",
        "terms": terms,
        "stake": amount,
    }
    return Order(**{**fields, **more})


def sale_of(market: FakeManifoldMarket, shares: float, leg: ContractSide = ContractSide.YES) -> Order:
    return Order(
        contract=market.id,
        leg=leg,
        side=OrderSide.SELL,
        shares=shares,
        limit=0.01,
        cost=0.0,
        expected=0.5,
        currency="MANA",
    )
