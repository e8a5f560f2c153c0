"""HTTP server on the loopback interface that answers as scripted, including dropped, slow and cut responses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import field
from enum import StrEnum
from types import TracebackType
from typing import Self

import h11

from bot.core.clock import SystemClock
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass

LOOPBACK = "127.0.0.1"
_READ_BYTES = 65_536
JSON_TYPE = {"Content-Type": "application/json"}


class ResponseEnding(StrEnum):
    """The fate of a response: it arrives, or the connection ends before it, in the middle of it, or never."""

    WHOLE = "whole"
    NO_ANSWER = "no answer"
    MIDWAY = "midway"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """A request as it arrived; names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedResponse:
    """A response, sent after ``delay_s``, and byte by byte where ``byte_interval_s`` is the time between two bytes."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: dict(JSON_TYPE))
    body: bytes = b""
    delay_s: float = 0.0
    byte_interval_s: float | None = None
    ending: ResponseEnding = ResponseEnding.WHOLE


class LoopbackServer:
    """Answers each request with what ``answer`` returns for it, on 127.0.0.1, while it is entered; port 0: a free one.

    ``in_flight`` requests are being answered now, ``most_in_flight`` is the maximum of that; ``hung_up`` counts the
    clients that disconnected while they were kept waiting for ever. Its exit raises the error of the script, if there
    was one.
    """

    def __init__(
        self, answer: Callable[[ReceivedRequest], ScriptedResponse], *, clock: Clock | None = None, port: int = 0
    ) -> None:
        self._answer = answer
        self._port = port
        self._clock = clock or SystemClock()
        self._connection_tasks: set[asyncio.Task[None]] = set()
        self._faults: list[Exception] = []
        self._news = asyncio.Event()
        self._listening: asyncio.Server | None = None
        self.address = ""
        self.received = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.hung_up = 0
        self.connections = 0

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._accept, LOOPBACK, self._port, backlog=1024)
        self.address = f"http://{LOOPBACK}:{self._listening.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            self._listening.close()
        tasks = tuple(self._connection_tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._faults and kind is None:
            message = "the script failed; its client saw the connection end"
            raise ExceptionGroup(message, self._faults)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on this server holds, for instance ``lambda: server.hung_up == 1``."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._connection_tasks.add(task)
        task.add_done_callback(self._connection_tasks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        try:
            while (request := await _receive(connection, reader)) is not None:
                await self._respond(request, connection, (reader, writer))
                if connection.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                    break
                connection.start_next_cycle()
        except (ConnectionError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # the client disconnected or the server is being closed: tests need both
        except Exception as error:  # noqa: BLE001 - of a script: raised to its test at the end
            self._faults.append(error)
        finally:
            writer.close()

    async def _respond(
        self,
        request: ReceivedRequest,
        connection: h11.Connection,
        pipe: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.received += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self._news.set()
        try:
            await self._send(self._answer(request), connection, pipe)
        finally:
            self.in_flight -= 1
            self._news.set()

    async def _send(
        self,
        sent: ScriptedResponse,
        connection: h11.Connection,
        pipe: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        reader, writer = pipe
        if sent.delay_s > 0:
            await self._clock.sleep(sent.delay_s)
        if sent.ending is ResponseEnding.NO_ANSWER:
            writer.transport.abort()
            raise ConnectionAbortedError
        if sent.ending is ResponseEnding.NEVER:
            await reader.read(1)  # Returns when the client disconnects.
            self.hung_up += 1
            raise ConnectionAbortedError
        async for part in self._parts(sent, connection):
            writer.write(part)
            await writer.drain()
        if sent.ending is ResponseEnding.MIDWAY:
            raise ConnectionAbortedError

    async def _parts(self, sent: ScriptedResponse, connection: h11.Connection) -> AsyncIterator[bytes]:
        """Yield the bytes of a response as they are to be sent."""
        headers = [*sent.headers.items(), ("Content-Length", str(len(sent.body)))]
        head = connection.send(h11.Response(status_code=sent.status, headers=headers, reason=b"Scripted")) or b""
        body = sent.body[: len(sent.body) // 2] if sent.ending is ResponseEnding.MIDWAY else sent.body
        data = connection.send(h11.Data(data=body)) or b""
        if sent.byte_interval_s is None:
            yield head + data
        else:
            yield head
            for place in range(len(data)):
                await self._clock.sleep(sent.byte_interval_s)
                yield data[place : place + 1]
        if sent.ending is ResponseEnding.WHOLE:
            yield connection.send(h11.EndOfMessage()) or b""


async def _receive(connection: h11.Connection, reader: asyncio.StreamReader) -> ReceivedRequest | None:
    """Return the next request, None where the client closes instead."""
    head: h11.Request | None = None
    parts: list[bytes] = []
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            return ReceivedRequest(
                method=head.method.decode(), path=head.target.decode("latin-1"), headers=headers, body=b"".join(parts)
            )
        else:
            return None
