"""Fake WebSockets: incoming messages are scripted, sent ones are recorded."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field

from bot.core.errors import ServiceUnavailableError
from bot.core.interfaces import Clock, WebSocketConnection
from bot.core.light_dataclass import dataclass

# Below this, simulated time does not move.
_CLOCK_RESOLUTION_S = 1e-6


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """A message that arrives so many seconds after the one before it, or, without text, the end of the connection."""

    seconds: float
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionScript:
    """The script of one connection: messages, at once or later, and answers to what is sent.

    When the messages are used up, and after the last answer, it stays open and silent.
    """

    messages: tuple[str | DelayedMessage, ...] = ()
    answer: Callable[[str], Iterable[str]] = field(default=lambda _: ())


class FakeWebSocketConnection:
    """Implements WebSocketConnection over a ``ConnectionScript``; ``sent`` is what was sent, in order."""

    def __init__(self, opening: ConnectionScript, clock: Clock, max_bytes: int) -> None:
        self.sent: list[str] = []
        self.closed = False
        self._clock = clock
        self._max_bytes = max_bytes
        self._answer = opening.answer
        self._script = deque(opening.messages)
        self._due_at: float | None = None
        self._answers: deque[str] = deque()
        self._news = asyncio.Event()

    async def send(self, text: str) -> None:
        self._require_open()
        self.sent.append(text)
        self._answers.extend(self._answer(text))
        self._news.set()

    async def receive(self, *, within_s: float) -> str:
        """Return the next message; the time of the clock advances until it arrives, or until ``within_s``."""
        ends_at = self._clock.monotonic() + within_s
        while True:
            self._require_open()
            if self._answers:
                return self._bounded(self._answers.popleft())
            if (due_s := self._due_s()) <= _CLOCK_RESOLUTION_S:
                return self._next()
            left_s = ends_at - self._clock.monotonic()
            if left_s <= _CLOCK_RESOLUTION_S:
                message = f"no message within {within_s:g} s"
                raise ServiceUnavailableError(message)
            await self._rest(min(due_s, left_s))

    def hang_up(self) -> None:
        """End the connection, as the other side would."""
        self.closed = True
        self._news.set()

    def push(self, text: str) -> None:
        """Send a message to the client now."""
        self._answers.append(text)
        self._news.set()

    def _due_s(self) -> float:
        if not self._script:
            return float("inf")
        first = self._script[0]
        if isinstance(first, str):
            return 0.0
        if self._due_at is None:
            self._due_at = self._clock.monotonic() + first.seconds
        return self._due_at - self._clock.monotonic()

    def _next(self) -> str:
        first, self._due_at = self._script.popleft(), None
        text = first if isinstance(first, str) else first.text
        if text is None:
            self.closed = True
            self._require_open()
        return self._bounded(text or "")

    def _bounded(self, text: str) -> str:
        if len(text.encode()) > self._max_bytes:
            self.closed = True
            self._require_open()
        return text

    def _require_open(self) -> None:
        if self.closed:
            message = "the connection ended with code 1006"
            raise ServiceUnavailableError(message)

    async def _rest(self, seconds: float) -> None:
        self._news.clear()
        waits = {asyncio.create_task(self._clock.sleep(seconds)), asyncio.create_task(self._wait_for_news())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)

    async def _wait_for_news(self) -> None:
        await self._news.wait()


class FakeWebSocketClient:
    """Implements WebSocketClient: each connection is the next of ``openings``, an error is raised instead.

    When they are used up the other side cannot be reached. ``opened`` are the connections that were made, ``asked`` the
    addresses in the order of the attempts.
    """

    def __init__(self, *openings: ConnectionScript | Exception, clock: Clock) -> None:
        self.connections: list[FakeWebSocketConnection] = []
        self.requested_urls: list[str] = []
        self._openings = deque(openings)
        self._clock = clock

    @asynccontextmanager
    async def connect(
        self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[WebSocketConnection]:
        self.requested_urls.append(url)
        opening = self._openings.popleft() if self._openings else ServiceUnavailableError("no server listens")
        if isinstance(opening, Exception):
            raise opening
        socket = FakeWebSocketConnection(opening, self._clock, max_bytes)
        self.connections.append(socket)
        try:
            yield socket
        finally:
            socket.closed = True
