"""The open WebSockets of a fake venue: what is said on them, who has been silent, and how they go wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from bot.testing.venues.faults import Faults, SocketFault

if TYPE_CHECKING:
    from bot.ports import Clock


class Channel:
    """One open socket. ``facts`` is what the venue remembers of it; ``seen_s`` is when the client last spoke."""

    def __init__(self, websocket: WebSocket, clock: Clock, faults: Faults) -> None:
        self.websocket = websocket
        self.facts: dict[str, Any] = {}
        self.seen_s = clock.monotonic()
        self._faults = faults
        self._outgoing: asyncio.Queue[str | None] = asyncio.Queue()
        self._before = ""
        self._skip = False

    def push(self, message: object) -> None:
        """Send a message (text as it is, else as JSON), or what a fault makes of it."""
        text = message if isinstance(message, str) else json.dumps(message)
        met = self._faults.pick_for_message()
        if SocketFault.CUT in met:
            self.cut()
            return
        for said in self._spoilt(text, met):
            self._outgoing.put_nowait(said)

    def cut(self) -> None:
        """End the connection without a word, where the server can; else close it."""
        abort = self.websocket.scope.get("cut")
        if abort is not None:
            abort()
        self._outgoing.put_nowait(None)

    async def write(self) -> None:
        """Send what was pushed, until cut."""
        with suppress(WebSocketDisconnect, RuntimeError):  # the other side is gone
            while (text := await self._outgoing.get()) is not None:
                await self.websocket.send_text(text)
            if self.websocket.application_state is WebSocketState.CONNECTED:
                await self.websocket.close(code=1011)

    def _spoilt(self, text: str, met: frozenset[SocketFault]) -> list[str]:
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
                self._faults.met_nothing(SocketFault.STALE)
        return [text, text] if SocketFault.DUPLICATING in met else [text]


class Hub:
    """All open sockets of a venue, in the order in which they were opened; ``opened`` counts them for ever."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self.channels: list[Channel] = []
        self.opened = 0
        self._news = asyncio.Event()
        self._clock = clock
        self._faults = faults

    def publish(self, wanted: Callable[[Channel], list[Any]]) -> None:
        """Send each socket the messages that ``wanted`` returns for it."""
        for channel in tuple(self.channels):
            for message in wanted(channel):
                channel.push(message)

    def stir(self) -> None:
        """Wake whoever waits for something to happen."""
        self._news.set()

    async def stirred(self) -> None:
        """Wait until something happens."""
        self._news.clear()
        await self._news.wait()

    def cut(self) -> None:
        """End all connections without a word."""
        for channel in tuple(self.channels):
            channel.cut()

    async def talk(
        self,
        websocket: WebSocket,
        hear: Callable[[Channel, str], Awaitable[None] | None],
        *,
        check_every_s: float | None = None,
        idle_s: float = 60.0,
    ) -> None:
        """Accept a socket and hand each message to ``hear`` until it ends.

        Every ``check_every_s`` a client that said nothing for ``idle_s`` is cut off; pings of the protocol itself are
        not heard here, so they keep nobody alive.
        """
        if self._faults.refusing:
            await websocket.close()
            return
        await websocket.accept()
        channel = Channel(websocket, self._clock, self._faults)
        self.channels.append(channel)
        self.opened += 1
        self.stir()
        tasks = [asyncio.ensure_future(channel.write()), asyncio.ensure_future(self._read(channel, hear))]
        if check_every_s is not None:
            tasks.append(asyncio.ensure_future(self._watch(channel, check_every_s, idle_s)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.channels.remove(channel)
            self.stir()
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _read(self, channel: Channel, hear: Callable[[Channel, str], Awaitable[None] | None]) -> None:
        while (text := await _received(channel.websocket)) is not None:
            channel.seen_s = self._clock.monotonic()
            answer = hear(channel, text)
            if answer is not None:
                await answer
            self.stir()

    async def _watch(self, channel: Channel, every_s: float, idle_s: float) -> None:
        while True:
            await self._clock.sleep(every_s)
            if self._clock.monotonic() - channel.seen_s >= idle_s:
                channel.cut()
                return


async def _received(websocket: WebSocket) -> str | None:
    """Return the next message, None where the connection is over."""
    try:
        return await websocket.receive_text()
    except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: a message of bytes, which ends the talk
        return None
