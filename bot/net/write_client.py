"""The HTTP client for writes: one request, one answer of whatever status, never repeated.

An error says whether nothing was sent (Rejected) or the request may have arrived (Unavailable).
"""

from __future__ import annotations

import asyncio
import logging
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import urlsplit

from bot.domain.wire import Reply, Request
from bot.errors import ContractError, Rejected, Unavailable
from bot.net.urls import is_loopback_host, loggable_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    import httpx

    from bot.net.rate_limit import RateLimiter, RequestSlot

HaltCheck: TypeAlias = "Callable[[], str | None]"

# Connections are not kept, so these are writes under way at once, of all accounts of a venue; each waits for its turn.
MAX_CONNECTIONS = 20
_GZIP_BITS = 16 + zlib.MAX_WBITS
_METHOD = re.compile(r"[A-Z]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
# The library's to set: a length that is not that of the body would cut the request in two.
_FRAMING_HEADERS = frozenset({"connection", "content-length", "expect", "host", "transfer-encoding", "upgrade"})


class HttpWriteClient:
    """Implements ``bot.ports.Wire``. Environment variables (proxies, .netrc) are ignored, and cookies are not kept.

    Neither errors nor logs show headers, bodies or the query of an address. ``holds`` tells why nothing may leave now,
    or nothing: it is asked when a request has its turn, which may be long after it was decided on.
    """

    def __init__(self, *, rates: RateLimiter, holds: HaltCheck | None = None) -> None:
        self._rates = rates
        self._halt_check = holds
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End what is under way; the next request would begin anew."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def send(self, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        """Send once, when the rates allow it; the deadline holds from now to the last byte of the answer.

        Raises Rejected where nothing left this machine: no connection, no TLS, no turn in time, halted, or an address
        or header that cannot be sent, such as plain http to another machine. Raises Unavailable where it may have
        arrived and no whole answer came, ContractError for an answer of more than ``max_bytes`` or in an encoding that
        was not asked for, and StoreError where the rates or the halt cannot be told, in which case nothing left either.
        """
        import httpx  # noqa: PLC0415 - a tenth of a second, and only live venues write

        _require_sendable(request)
        flight = _SendTrace()
        try:
            async with asyncio.timeout(deadline_s):
                async with self._rates.acquire(request.method, request.url, patience_s=deadline_s) as turn:
                    self._require_not_halted(request)
                    flight.reply = await self._exchange(request, turn, flight, max_bytes)
        except TimeoutError:
            why = (
                f"no whole answer within {deadline_s:g} s"
                if flight.request_started
                else f"no turn or no connection within {deadline_s:g} s"
            )
        except Unavailable as error:  # of the rates
            why = str(error)
        except (httpx.TransportError, OSError) as error:
            # The library's own message may hold the whole address.
            why = type(error).__name__
        except (httpx.InvalidURL, UnicodeError):
            why = "the address is malformed"
        finally:
            await flight.close_unfinished()
        if flight.reply is not None:
            return flight.reply
        # Outside of the handlers, so that no error of the library, which holds the request, is its context.
        if flight.request_started:
            message = f"{loggable_url(request.url)}: {why}; it may have arrived"
            raise Unavailable(message)
        message = f"{loggable_url(request.url)}: {why}; nothing was sent"
        raise Rejected(message)

    def _require_not_halted(self, request: Request) -> None:
        if self._halt_check is not None and not request.takes_back and (why := self._halt_check()) is not None:
            message = f"{loggable_url(request.url)}: {why}; nothing was sent"
            raise Rejected(message)

    async def _exchange(self, request: Request, turn: RequestSlot, flight: _SendTrace, max_bytes: int) -> Reply:
        import httpx  # noqa: PLC0415 - as above

        headers = {"user-agent": "foxcast", "accept-encoding": "identity"}
        headers.update((name.lower(), value) for name, value in request.headers.items())
        response = await self._open_transport().handle_async_request(
            httpx.Request(
                request.method, request.url, headers=headers, content=request.body, extensions={"trace": flight}
            )
        )
        try:
            turn.record_answer(response.status_code, response.headers)
            body = await _read_body(response, max_bytes, loggable_url(request.url))
        finally:
            await response.aclose()
        named = {name.lower(): value for name, value in response.headers.items()}
        return Reply(status=response.status_code, headers=named, body=body)

    def _open_transport(self) -> httpx.AsyncHTTPTransport:
        import httpx  # noqa: PLC0415 - as above

        if self._transport is None:
            # Below WARNING it logs headers.
            for name in ("httpx", "httpcore"):
                logging.getLogger(name).setLevel(logging.WARNING)
            self._transport = httpx.AsyncHTTPTransport(
                verify=httpx.create_ssl_context(trust_env=False),
                trust_env=False,
                retries=0,
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0),
            )
        return self._transport


@dataclass(slots=True)
class _SendTrace:
    """Notes, as the library's trace, whether a request has begun to leave, and keeps what came back."""

    request_started: bool = False
    reply: Reply | None = None
    stream: Any = None

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self.stream = info["return_value"]
        if event == "http11.send_request_headers.started":
            self.request_started = True

    async def close_unfinished(self) -> None:
        """Close what the library leaves open where it is cancelled while it agrees on keys."""
        if self.stream is not None and not self.request_started:
            await self.stream.aclose()


async def _read_body(response: httpx.Response, max_bytes: int, shown: str) -> bytes:
    """Return the unpacked body without ever holding more than the bound of it."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        message = f"{shown}: status {response.status_code} in the encoding {encoding!r}, which was not asked for"
        raise ContractError(message)
    unpacker = zlib.decompressobj(_GZIP_BITS) if encoding == "gzip" else None
    parts: list[bytes] = []
    room = max_bytes
    async for chunk in response.aiter_raw():
        try:
            part = unpacker.decompress(chunk, room + 1) if unpacker else chunk
        except zlib.error:
            message = f"{shown}: the body is not gzip as announced"
            raise ContractError(message) from None
        if len(part) > room:
            message = f"{shown}: status {response.status_code} with more than {max_bytes} bytes"
            raise ContractError(message)
        room -= len(part)
        parts.append(part)
    if unpacker is not None and parts and not unpacker.eof:
        message = f"{shown}: the gzip body was cut short"
        raise ContractError(message)
    return b"".join(parts)


def _require_sendable(request: Request) -> None:
    """Raise Rejected for what must not, or cannot, be put on the wire; values are not shown."""
    try:
        parts = urlsplit(request.url)
        host, usable = parts.hostname or "", parts.username is None and parts.port != 0
    except ValueError:  # an open bracket, or a port that is no number
        host, usable = "", False
    if not usable or not host or not request.url.isascii():
        message = "the address is malformed; nothing was sent"
        raise Rejected(message)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback_host(host)):
        message = f"{loggable_url(request.url)}: only https leaves this machine; nothing was sent"
        raise Rejected(message)
    strange = [
        name
        for name, value in request.headers.items()
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value) or name.lower() in _FRAMING_HEADERS
    ]
    if strange or not _METHOD.fullmatch(request.method):
        message = f"{loggable_url(request.url)}: the method or the headers {strange} cannot be sent; nothing was"
        raise Rejected(message)
