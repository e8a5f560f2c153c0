"""Doubles for the contract kits: clients that record hosts or follow a test clock."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from bot.api import (
    Clock,
    HttpClient,
    Json,
    ServiceUnavailableError,
    WebSocketClient,
    WebSocketConnection,
)

# In real seconds: longer than any test waits.
_FOR_EVER_S = 60.0


class HostRecordingClient:
    """Implements HttpClient on another one; ``reached`` are the hosts that were asked."""

    def __init__(self, http: HttpClient) -> None:
        self.reached: set[str] = set()
        self._http = http

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        self.reached.add(urlsplit(url).netloc)
        return await self._http.get(url, max_bytes=max_bytes, headers=headers)

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        self.reached.add(urlsplit(url).netloc)
        return await self._http.post(url, body, max_bytes=max_bytes, headers=headers, deadline_s=deadline_s)


class ClockedWebSocketClient:
    """Implements WebSocketClient on real ones whose waits are those of a clock that a test moves."""

    def __init__(self, sockets: WebSocketClient, clock: Clock) -> None:
        self._sockets = sockets
        self._clock = clock

    @asynccontextmanager
    async def connect(
        self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[WebSocketConnection]:
        async with self._sockets.connect(url, max_bytes=max_bytes, headers=headers) as socket:
            yield _ClockedWebSocketConnection(socket, self._clock)


class _ClockedWebSocketConnection:
    def __init__(self, socket: WebSocketConnection, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock

    async def send(self, text: str) -> None:
        await self._socket.send(text)

    async def receive(self, *, within_s: float) -> str:
        heard = asyncio.ensure_future(self._socket.receive(within_s=_FOR_EVER_S))
        waited = asyncio.ensure_future(self._clock.sleep(within_s))
        try:
            await asyncio.wait({heard, waited}, return_when=asyncio.FIRST_COMPLETED)
            if heard.done():
                return heard.result()
        finally:
            for task in (heard, waited):
                task.cancel()
            await asyncio.gather(heard, waited, return_exceptions=True)
        message = f"no message within {within_s:g} s"
        raise ServiceUnavailableError(message)
