"""A fake service that counts, for tests of the base class."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from bot.simulator.fake_service import FakeService, ServedService, logged_request, serve_service
from bot.simulator.faults import FaultSchedule, RequestFault
from bot.simulator.request_log import LoggedRequest
from bot.simulator.websocket_hub import FakeSocketChannel

CACHED = {"Cache-Control": "public, max-age=5, stale-while-revalidate=10"}


class CounterService(FakeService):
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

    def account(self, heard: LoggedRequest) -> str:
        return heard.headers.get("authorization", "")

    def apply_world_fault(self, fault: RequestFault, heard: LoggedRequest) -> None:
        self.total += 100

    async def _add(self, request: Request) -> Response:
        self.total += 1
        self.record_effect(logged_request(request), "add", subject="total", note=logged_request(request).body.decode())
        return JSONResponse({"total": self.total, "rows": [{"n": 1}, {"n": 2}]}, status_code=201)

    async def _total(self, request: Request) -> Response:
        return JSONResponse({"total": self.total})

    async def _cached(self, request: Request) -> Response:
        return JSONResponse({"total": self.total}, headers=CACHED)

    async def _crash(self, request: Request) -> Response:
        message = "a mistake of the venue"
        raise LookupError(message)

    async def _listen(self, websocket: WebSocket) -> None:
        await self.hub.serve_socket(websocket, _echo, check_every_s=60.0)


def _echo(channel: FakeSocketChannel, text: str) -> None:
    channel.push({"echo": text})


class CounterClient:
    """A counter that listens, and a client of it."""

    def __init__(self, venue: CounterService, served: ServedService, client: httpx.AsyncClient) -> None:
        self.venue, self.served, self.client = venue, served, client

    @property
    def faults(self) -> FaultSchedule:
        return self.venue.faults

    async def add(self, **more: str) -> httpx.Response:
        return await self.client.post("/add", content=b"x", headers=more)

    async def total(self, path: str = "/total") -> int:
        reply = await self.client.get(path)
        number: int = reply.json()["total"]
        return number


@asynccontextmanager
async def open_counter(venue: CounterService) -> AsyncIterator[CounterClient]:
    async with (
        serve_service(venue) as served,
        httpx.AsyncClient(base_url=served.url, timeout=5.0, trust_env=False) as client,
    ):
        yield CounterClient(venue, served, client)
