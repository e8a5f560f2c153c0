"""The open WebSockets of a fake service, and the faults of their messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from bot.simulator.faults import FaultSchedule, SocketFault

if TYPE_CHECKING:
    from bot.core.interfaces import Clock


class FakeSocketChannel:
    """One open socket. ``facts`` is the venue's data about it; ``seen_s`` is when the client last sent something."""

    def __init__(self, websocket: WebSocket, clock: Clock, faults: FaultSchedule) -> None:
        self.websocket = websocket
        self.facts: dict[str, Any] = {}
        self.seen_s = clock.monotonic()
        self._faults = faults
        self._outgoing: asyncio.Queue[str | None] = asyncio.Queue()
        self._before = ""
        self._skip = False

    def push(self, message: object) -> None:
        """Send a message (text as it is, else as JSON), or its version after a fault."""
        text = message if isinstance(message, str) else json.dumps(message)
        met = self._faults.next_socket_faults()
        if SocketFault.CUT in met:
            self.cut()
            return
        for frame in self._spoil_frames(text, met):
            self._outgoing.put_nowait(frame)

    def cut(self) -> None:
        """End the connection without a message, where the server can; else close it."""
        abort = self.websocket.scope.get("cut")
        if abort is not None:
            abort()
        self._outgoing.put_nowait(None)

    async def write(self) -> None:
        """Send the queued messages, until cut."""
        with suppress(WebSocketDisconnect, RuntimeError):  # the other side is gone
            while (text := await self._outgoing.get()) is not None:
                await self.websocket.send_text(text)
            if self.websocket.application_state is WebSocketState.CONNECTED:
                await self.websocket.close(code=1011)

    def _spoil_frames(self, text: str, met: frozenset[SocketFault]) -> list[str]:
        before, self._before = self._before, text
        if SocketFault.SILENT in met:
            return []
        if SocketFault.GAPPING in met:
            self._skip = not self._skip
            if self._skip:
                return []
        if SocketFault.GARBLED in met:
            text = text[: len(text) // 2]
        if SocketFault.STALE in met:
            if before:
                text = self._before = before
            else:
                self._faults.discount(SocketFault.STALE)
        return [text, text] if SocketFault.DUPLICATING in met else [text]


class WebSocketHub:
    """All open sockets of a venue, in the order in which they were opened; ``opened`` is the total number."""

    def __init__(self, clock: Clock, faults: FaultSchedule) -> None:
        self.channels: list[FakeSocketChannel] = []
        self.opened = 0
        self._activity = asyncio.Event()
        self._clock = clock
        self._faults = faults

    def publish(self, wanted: Callable[[FakeSocketChannel], list[Any]]) -> None:
        """Send each socket the messages that ``wanted`` returns for it."""
        for channel in tuple(self.channels):
            for message in wanted(channel):
                channel.push(message)

    def notify(self) -> None:
        """Wake all waiters for an event."""
        self._activity.set()

    async def wait_for_activity(self) -> None:
        """Wait for an event."""
        self._activity.clear()
        await self._activity.wait()

    def cut_all(self) -> None:
        """End all connections without a message."""
        for channel in tuple(self.channels):
            channel.cut()

    async def serve_socket(
        self,
        websocket: WebSocket,
        hear: Callable[[FakeSocketChannel, str], Awaitable[None] | None],
        *,
        check_every_s: float | None = None,
        idle_s: float = 60.0,
    ) -> None:
        """Accept a socket and pass each message to ``hear`` until it ends.

        Every ``check_every_s`` a client that sent nothing for ``idle_s`` is disconnected; pings of the protocol itself
        are not seen here, so they keep no connection alive.
        """
        if self._faults.refuses_connections:
            await websocket.close()
            return
        await websocket.accept()
        channel = FakeSocketChannel(websocket, self._clock, self._faults)
        self.channels.append(channel)
        self.opened += 1
        self.notify()
        tasks = [asyncio.ensure_future(channel.write()), asyncio.ensure_future(self._read_frames(channel, hear))]
        if check_every_s is not None:
            tasks.append(asyncio.ensure_future(self._watch_idle(channel, check_every_s, idle_s)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.channels.remove(channel)
            self.notify()
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _read_frames(
        self, channel: FakeSocketChannel, hear: Callable[[FakeSocketChannel, str], Awaitable[None] | None]
    ) -> None:
        while (text := await _next_message(channel.websocket)) is not None:
            channel.seen_s = self._clock.monotonic()
            answer = hear(channel, text)
            if answer is not None:
                await answer
            self.notify()

    async def _watch_idle(self, channel: FakeSocketChannel, every_s: float, idle_s: float) -> None:
        while True:
            await self._clock.sleep(every_s)
            if self._clock.monotonic() - channel.seen_s >= idle_s:
                channel.cut()
                return


async def _next_message(websocket: WebSocket) -> str | None:
    """Return the next message, None where the connection is over."""
    try:
        return await websocket.receive_text()
    except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: a message of bytes, which ends the connection
        return None
