"""A venue that counts, to try the kit on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from bot.testing.venues.faults import Fault, Faults
from bot.testing.venues.hub import Channel
from bot.testing.venues.kit import FakeVenue, Served, heard, serve
from bot.testing.venues.record import Heard

CACHED = {"Cache-Control": "public, max-age=5, stale-while-revalidate=10"}


class Counter(FakeVenue):
    """Counts up by POST, tells the count by GET, and calls it out on its socket."""

    total = 0

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/add", self._add, methods=["POST"]),
            Route("/total", self._total),
            Route("/cached", self._cached),
            Route("/crash", self._crash),
            WebSocketRoute("/ws", self._listen),
        ]

    def account(self, heard: Heard) -> str:
        return heard.headers.get("authorization", "")

    def disturb(self, fault: Fault, heard: Heard) -> None:
        self.total += 100

    async def _add(self, request: Request) -> Response:
        self.total += 1
        self.did(heard(request), "add", subject="total", note=heard(request).body.decode())
        return JSONResponse({"total": self.total, "rows": [{"n": 1}, {"n": 2}]}, status_code=201)

    async def _total(self, request: Request) -> Response:
        return JSONResponse({"total": self.total})

    async def _cached(self, request: Request) -> Response:
        return JSONResponse({"total": self.total}, headers=CACHED)

    async def _crash(self, request: Request) -> Response:
        message = "a mistake of the venue"
        raise LookupError(message)

    async def _listen(self, websocket: WebSocket) -> None:
        await self.hub.talk(websocket, _echo, check_every_s=60.0)


def _echo(channel: Channel, text: str) -> None:
    channel.push({"echo": text})


class Visit:
    """A counter that listens, and a client of it."""

    def __init__(self, venue: Counter, served: Served, client: httpx.AsyncClient) -> None:
        self.venue, self.served, self.client = venue, served, client

    @property
    def faults(self) -> Faults:
        return self.venue.faults

    async def add(self, **more: str) -> httpx.Response:
        return await self.client.post("/add", content=b"x", headers=more)

    async def total(self, path: str = "/total") -> int:
        reply = await self.client.get(path)
        number: int = reply.json()["total"]
        return number


@asynccontextmanager
async def visited(venue: Counter) -> AsyncIterator[Visit]:
    async with serve(venue) as served, httpx.AsyncClient(base_url=served.url, timeout=5.0, trust_env=False) as client:
        yield Visit(venue, served, client)
