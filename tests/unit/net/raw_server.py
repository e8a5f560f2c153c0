"""A server over raw loopback sockets that does to each connection what a test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Manner = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Does to each connection what the test says; ``heard`` is what came over it."""

    def __init__(self, manner: Manner) -> None:
        self.heard: list[bytes] = []
        self.manner = manner
        self.base = ""
        self.connections = 0
        self._talks: dict[asyncio.Task[object], asyncio.StreamWriter] = {}

    async def aclose(self) -> None:
        """Break all connections and wait for their end."""
        for task, writer in self._talks.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._talks)

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if (task := asyncio.current_task()) is not None:
            self._talks[task] = writer
        try:
            await self.manner(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the test has ended
        finally:
            writer.close()

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
        )
        request = head + await reader.readexactly(length)
        self.heard.append(request)
        return request


@asynccontextmanager
async def serving(
    manner: Callable[[RawServer], Manner], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    server = RawServer(manner=lambda _reader, _writer: asyncio.sleep(0))
    server.manner = manner(server)
    listening = await asyncio.start_server(server.meet, "127.0.0.1", 0, ssl=tls)
    server.base = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        await server.aclose()
        await listening.wait_closed()


def saying(*parts: bytes, abort: bool = False) -> Callable[[RawServer], Manner]:
    """Read the request whole, then answer with these bytes."""

    def manner(server: RawServer) -> Manner:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            for part in parts:
                writer.write(part)
                await writer.drain()
            if abort:
                writer.transport.abort()

        return answer

    return manner


def http(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
