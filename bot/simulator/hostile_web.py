"""A small hostile web on the loopback interface for a real page fetcher.

It counts connections to forbidden addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from bot.core.errors import FoxcastError, ServiceUnavailableError
from bot.core.light_dataclass import dataclass
from bot.net.web.fetcher import DEFAULT_FETCH_LIMITS, FetchLimits, GuardedFetcher

if TYPE_CHECKING:
    from types import TracebackType

    from bot.core.interfaces import Clock

# Public addresses, which are in use on the internet, but never contacted: all connections go to this server.
PUBLIC_ADDRESS = "93.184.215.14"
PUBLIC_HOST = "pages.test"
_HEAD_BYTES = 65_536


class ConnectionEnding(Enum):
    """How a server continues after the head and the body."""

    WHOLE = auto()  # closes the connection
    STALL = auto()  # sends nothing more and keeps the connection
    ENDLESS = auto()  # sends the body again and again
    RESET = auto()  # breaks the connection


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileResponse:
    """A server's response. ``raw`` replaces the head; a length is added unless ``headers`` names one."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)
    body: bytes = b""
    raw: bytes | None = None
    manner: ConnectionEnding = ConnectionEnding.WHOLE

    def head(self) -> bytes:
        if self.raw is not None:
            return self.raw
        named = {name.lower() for name, _ in self.headers}
        bounded = self.manner is ConnectionEnding.WHOLE and not named & {"content-length", "transfer-encoding"}
        length = (("Content-Length", str(len(self.body))),) if bounded else ()
        lines = [f"HTTP/1.1 {self.status} Status", *(f"{name}: {value}" for name, value in (*self.headers, *length))]
        return "\r\n".join([*lines, "", ""]).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostilePage:
    """A hostile page, and the required result.

    ``hidden`` must be neither in text nor in title; ``visible`` must be in the text where there is a page.
    ``expected_errors`` names the errors of which fetching or reading must raise one; empty where there must be a page;
    with ``allows_page`` either is allowed. ``hosts`` are further names with the addresses that each look-up returns in
    turn.
    """

    name: str
    family: str
    url: str
    reply: HostileResponse
    hidden: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    expected_errors: tuple[type[FoxcastError], ...] = ()
    allows_page: bool = False
    hosts: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)


HTML_TYPE = "text/html; charset=utf-8"


def hostile_page(family: str, name: str, reply: HostileResponse, **more: Any) -> HostilePage:  # noqa: ANN401 - the fields of a page
    """Return a page of the corpus, at a path made from its name."""
    whole = f"{family}: {name}"
    path = "".join(each if each.isascii() and each.isalnum() else "-" for each in whole)
    return HostilePage(name=whole, family=family, url=f"http://{PUBLIC_HOST}/{path}", reply=reply, **more)


def html_response(text: str | bytes, declared: str = HTML_TYPE, *more: tuple[str, str]) -> HostileResponse:
    """Return a reply with this text, of the declared type, with further headers."""
    return HostileResponse(
        headers=(("Content-Type", declared), *more), body=text.encode() if isinstance(text, str) else text
    )


class HostileWeb:
    """Serves replies by path; an async context manager."""

    def __init__(self, pages: Iterable[HostilePage] = ()) -> None:
        self.replies: dict[str, HostileResponse] = {}
        self.names: dict[str, list[tuple[str, ...]]] = {PUBLIC_HOST: [(PUBLIC_ADDRESS,)]}
        self.heads: list[str] = []
        self.looked_up: list[str] = []
        self.forbidden_connections = 0
        self._stack = AsyncExitStack()
        self._ports: dict[str, int] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        for page in pages:
            self.add(page)

    def add(self, page: HostilePage) -> None:
        """Serve one more page, at the path of its address."""
        self.replies[urlsplit(page.url).path] = page.reply
        for name, answers in page.hosts.items():
            self.names[name] = list(answers)

    def fetcher(self, clock: Clock, limits: FetchLimits = DEFAULT_FETCH_LIMITS) -> GuardedFetcher:
        """Return a real fetcher that sees this web."""
        return GuardedFetcher(clock, resolver=self.resolve, route=self.route, limits=limits)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Answer a look-up: each time the next of the host's answers, the last one for ever."""
        self.looked_up.append(host)
        answers = self.names.get(host)
        if not answers:
            message = f"{host}: the name has no address"
            raise ServiceUnavailableError(message)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def route(self, address: str, port: int) -> tuple[str, int]:
        """Route the one address of this web to its server, and all others to the server that counts connections."""
        allowed = address == PUBLIC_ADDRESS and port in {80, 443}
        return "127.0.0.1", self._ports["pages" if allowed else "forbidden"]

    async def __aenter__(self) -> Self:
        for name, answer in (("pages", self._answer_request), ("forbidden", self._count_connection)):
            server = await self._stack.enter_async_context(await asyncio.start_server(answer, "127.0.0.1", 0))
            self._ports[name] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in [*self._writers]:
            writer.transport.abort()
        await self._stack.aclose()

    async def _count_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.forbidden_connections += 1
        writer.close()

    async def _answer_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heads.append(head)
            await _send_response(
                self.replies.get(head.split(" ")[1].partition("?")[0], HostileResponse(status=404)), reader, writer
            )
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self.heads.append("")  # the client hung up, or spoke TLS
        finally:
            self._writers.discard(writer)
            writer.close()


async def _send_response(reply: HostileResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(reply.head())
    writer.write(reply.body)
    await writer.drain()
    while reply.manner is ConnectionEnding.ENDLESS:
        writer.write(reply.body)
        await writer.drain()
    if reply.manner is ConnectionEnding.STALL:
        await reader.read(_HEAD_BYTES)
    if reply.manner is ConnectionEnding.RESET:
        writer.transport.abort()
