"""A fake Manifold on a real port, and a client with a key to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from bot.simulator.fake_service import ServedService, serve_service
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_state import FakeManifoldMarket
from bot.testing.clock import FakeClock

KEY = "11111111-2222-3333-4444-555555555555"


class RawManifoldClient:
    """``ada`` has the key and 1000 mana."""

    def __init__(self, venue: FakeManifold, clock: FakeClock, served: ServedService, client: httpx.AsyncClient) -> None:
        self.venue, self.clock, self.served, self.client = venue, clock, served, client
        self.world = venue.world
        self.ada = venue.world.add_user("ada", key=KEY, is_bot=True)
        self.headers = {"Authorization": f"Key {KEY}"}
        self._asked = 0

    async def get(self, path: str, **params: Any) -> httpx.Response:
        return await self.client.get(path, params=params or None, headers=self.headers)

    async def read(self, path: str, **params: Any) -> Any:
        """Return what an address shows now, past the edge cache."""
        self.venue.forget_cached()
        reply = await self.get(path, **params)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def post(self, path: str, body: Any = None) -> httpx.Response:
        return await self.client.post(path, json=body, headers=self.headers)

    async def bet(self, market: FakeManifoldMarket, amount: float = 10, **more: Any) -> httpx.Response:
        return await self.post("/v0/bet", {"contractId": market.id, "amount": amount, **more})

    async def placed(self, market: FakeManifoldMarket, amount: float = 10, **more: Any) -> Mapping[str, Any]:
        reply = await self.bet(market, amount, **more)
        assert reply.status_code == 200, reply.text
        found: Mapping[str, Any] = reply.json()
        return found


@asynccontextmanager
async def open_manifold() -> AsyncIterator[RawManifoldClient]:
    clock = FakeClock()
    venue = FakeManifold(clock)
    async with (
        serve_service(venue) as served,
        httpx.AsyncClient(base_url=served.url, timeout=5.0, trust_env=False) as client,
    ):
        yield RawManifoldClient(venue, clock, served, client)
