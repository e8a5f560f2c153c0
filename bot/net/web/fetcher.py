"""The guarded fetcher: a page of the open web, within bounds of bytes and time, or an error that says why not.

Nothing here trusts the other side: not its redirects, headers, lengths, encodings or name servers. It keeps no
cookies, reuses no connection, and reads no environment variable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Self

from bot.domain.research import Fetched
from bot.errors import ContractError, NotFound, Rejected, Unavailable
from bot.net.response_body import BoundedBody
from bot.net.web.addresses import FetchTarget, HostResolver, SystemResolver, parse_fetch_target

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    import httpcore

    from bot.net.web.transport import ConnectRoute
    from bot.ports import Clock

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_FOUND = frozenset({404, 410})
_TRY_LATER = frozenset({408, 425, 429})
_READABLE_TYPES = frozenset(
    {
        "text/html",
        "text/plain",
        "text/xml",
        "application/xhtml+xml",
        "application/xml",
        "application/rss+xml",
        "application/atom+xml",
        "application/rdf+xml",
        "application/json",
        "application/ld+json",
        "application/feed+json",
    }
)
_REQUEST_HEADERS = (
    (b"User-Agent", b"Mozilla/5.0 (compatible; foxcast)"),
    (b"Accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,application/json;q=0.7"),
    (b"Accept-Language", b"en,*;q=0.5"),
    (b"Accept-Encoding", b"gzip"),
    (b"Connection", b"close"),
)
# Small pieces of a body are joined before they are looked at, and after so many others get their turn.
_CHUNK_BYTES = 16_384
_YIELD_EVERY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """``deadline_s`` bounds one page from the first look-up to the last byte, with all redirects on the way.

    Together with what a reader of the page may take it stays within 20 s. Source of the figures: 1 MB on the wire and
    2 MB unpacked hold nearly every page of text, and are little for one process with many fetches at a time.
    ``raw_bytes`` bounds a connection with heads and framing, ``parts`` the pieces that a body comes in: each costs some
    40 microseconds, however small.
    """

    deadline_s: float = 15.0
    connect_s: float = 5.0
    redirects: int = 5
    header_bytes: int = 65_536
    raw_bytes: int = 1_200_000
    wire_bytes: int = 1_000_000
    unpacked_bytes: int = 2_000_000
    parts: int = 8_000
    connections: int = 16


DEFAULT_FETCH_LIMITS = FetchLimits()


def _direct_route(address: str, port: int) -> tuple[str, int]:
    return address, port


class GuardedFetcher:
    """Implements ``bot.ports.Fetcher``; ``resolver`` answers names, ``route`` is for tests: where to connect instead.

    Used as an async context manager, or closed with ``aclose``.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        resolver: HostResolver | None = None,
        route: ConnectRoute = _direct_route,
        limits: FetchLimits = DEFAULT_FETCH_LIMITS,
    ) -> None:
        self._clock = clock
        self._resolver = resolver
        self._route = route
        self._limits = limits
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the next fetch would open new ones."""
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> Fetched:
        """Return what the address holds: its body unpacked, its declared type in lower case with any parameters.

        Raises Rejected for an address inside or refused, for a type that is no text and for a status from 400 on
        that is not told apart otherwise; NotFound for 404 and 410; Unavailable for a failing transport, a missed
        deadline, 408, 425, 429 and 5xx; ContractError for too many redirects, another status, a body or headers
        beyond the bounds, or an encoding that was not asked for. No error shows the query of an address.
        """
        import httpcore  # noqa: PLC0415 - a tenth of a second, and most commands fetch nothing

        target = parse_fetch_target(url)
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                return await self._follow_redirects(target, refusal)
        except TimeoutError:
            message = f"{target.display_url}: no complete answer within {self._limits.deadline_s:g} s"
            raise Unavailable(message) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            # The library's own message may hold what the other side sent.
            message = f"{target.display_url}: {type(error).__name__}"
            raise Unavailable(message) from None

    async def _follow_redirects(self, target: FetchTarget, refusal: Callable[[str], str | None]) -> Fetched:
        for _ in range(self._limits.redirects + 1):
            if (why := refusal(target.url)) is not None:
                raise Rejected(why)
            reached = await self._request(target)
            if isinstance(reached, Fetched):
                return reached
            target = reached
        message = f"{target.display_url}: more than {self._limits.redirects} redirects"
        raise ContractError(message)

    async def _request(self, target: FetchTarget) -> Fetched | FetchTarget:
        """Return what the address holds, or where it leads."""
        import httpcore  # noqa: PLC0415 - as above

        limits = self._limits
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.request)
        waits = {
            "connect": limits.connect_s,
            "read": limits.deadline_s,
            "write": limits.deadline_s,
            "pool": limits.deadline_s,
        }
        async with self._open_pool().stream(
            "GET", url, headers=_REQUEST_HEADERS, extensions={"timeout": waits}
        ) as response:
            headers = _ResponseHeaders(response.headers)
            if headers.size > limits.header_bytes:
                message = f"{target.display_url}: its headers are larger than {limits.header_bytes} bytes"
                raise ContractError(message)
            if response.status in _REDIRECTS:
                return _redirect_target(target, headers)
            self._raise_for_status(response.status, headers, target.display_url)
            media_type = _require_readable_type(headers, target.display_url)
            return Fetched(
                url=target.url, content=await self._read_body(response, headers, target), media_type=media_type
            )

    async def _read_body(self, response: httpcore.Response, headers: _ResponseHeaders, target: FetchTarget) -> bytes:
        body = BoundedBody(
            encoding=headers.joined("content-encoding").lower(),
            wire_bytes=self._limits.wire_bytes,
            unpacked_bytes=self._limits.unpacked_bytes,
            shown=target.display_url,
        )
        waiting: list[bytes] = []
        parts = size = 0
        async for chunk in response.aiter_stream():
            parts += 1
            size += len(chunk)
            waiting.append(chunk)
            if parts > self._limits.parts:
                message = f"{target.display_url}: the body comes in more than {self._limits.parts} pieces"
                raise ContractError(message)
            if parts % _YIELD_EVERY == 0:
                # Pieces that have arrived already are given out without a pause.
                await self._clock.sleep(0.0)
            if size >= _CHUNK_BYTES:
                body.feed(b"".join(waiting))
                size = 0
                waiting.clear()
        body.feed(b"".join(waiting))
        return body.finish()

    def _raise_for_status(self, status: int, headers: _ResponseHeaders, shown: str) -> None:
        if status == 200:
            return
        message = f"{shown}: status {status}"
        if status in _NOT_FOUND:
            raise NotFound(message)
        if status in _TRY_LATER or status >= 500:
            raise Unavailable(message, retry_after_s=self._retry_after_s(headers.joined("retry-after")))
        raise Rejected(message) if status >= 400 else ContractError(message)

    def _retry_after_s(self, text: str) -> float | None:
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            return max(0.0, (parsedate_to_datetime(text) - self._clock.now()).total_seconds())
        except (TypeError, ValueError, OverflowError):  # no date, or one without a zone
            return None

    def _open_pool(self) -> httpcore.AsyncConnectionPool:
        if self._pool is None:
            import httpcore  # noqa: PLC0415 - as above

            from bot.net.web.transport import GuardedBackend  # noqa: PLC0415 - brings httpcore

            # Below WARNING it logs what the other side sent, cookies included.
            logging.getLogger("httpcore").setLevel(logging.WARNING)
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=_tls_context(),
                max_connections=self._limits.connections,
                # A connection serves one request: what a server sends beyond its answer meets no other page.
                max_keepalive_connections=0,
                network_backend=GuardedBackend(self._resolver or SystemResolver(), self._route, self._limits.raw_bytes),
            )
        return self._pool


class _ResponseHeaders:
    """The headers of an answer; several of one name are joined, as HTTP has it."""

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self.size = sum(len(name) + len(value) + 4 for name, value in pairs)

    def joined(self, name: str) -> str:
        wanted = name.encode()
        return ", ".join(value.decode("latin-1").strip() for key, value in self._pairs if key.lower() == wanted)


def _redirect_target(target: FetchTarget, headers: _ResponseHeaders) -> FetchTarget:
    # Addresses beyond ASCII come as raw UTF-8, which headers do not know.
    location = headers.joined("location").encode("latin-1").decode("utf-8", "replace")
    if not location:
        message = f"{target.display_url}: redirects without saying where to"
        raise ContractError(message)
    return parse_fetch_target(location, relative_to=target.url)


def _require_readable_type(headers: _ResponseHeaders, shown: str) -> str:
    declared = " ".join(headers.joined("content-type").lower().split())[:200]
    kind = declared.partition(";")[0].strip()
    if kind == "application/pdf":
        message = f"{shown}: PDF files are not read; look for the same text as a web page"
        raise Rejected(message)
    if kind not in _READABLE_TYPES:
        message = f"{shown}: type {kind[:60]!r} is not read" if kind else f"{shown}: does not say what type it is"
        raise Rejected(message)
    return declared


def _tls_context() -> ssl.SSLContext:
    import httpx  # noqa: PLC0415 - as above

    return httpx.create_ssl_context(trust_env=False)
