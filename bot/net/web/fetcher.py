"""The guarded fetcher: reads a page of the open web within bounds of bytes and time.

It does not trust redirects, headers, lengths, encodings or name servers of the other side. It keeps no cookies and
reuses no connection.

The same checks apply with a proxy: names are resolved and checked here, and the proxy is asked for a connection to the
checked address (CONNECT with a numeric address), never to a name, which it could resolve to an address of its own
network. So no page can be read if the proxy refuses numeric addresses or port 80, or if this machine cannot resolve
names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from bot.core.errors import MalformedDataError, NotFoundError, RequestRejectedError, ServiceUnavailableError
from bot.core.light_dataclass import dataclass
from bot.core.proxy_settings import NO_PROXY, ProxySettings
from bot.core.research import FetchedPage
from bot.net.connections import ProxySelector, SendTrace, create_tls_context, open_http_client, send_once
from bot.net.rate_headers import parse_retry_after
from bot.net.response_body import BoundedBody
from bot.net.web.addresses import FetchTarget, HostResolver, SystemResolver, parse_fetch_target

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

    from bot.core.interfaces import Clock
    from bot.net.web.transport import ConnectRoute

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
# Small chunks of a body are joined before they are unpacked; after so many chunks other tasks may run.
_CHUNK_BYTES = 16_384
_YIELD_EVERY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of one page: ``deadline_s`` covers all from the first name resolution to the last byte with all redirects.

    Fetching and reading a page stay within 20 s together. Source of the figures: 1 MB on the wire and 2 MB unpacked are
    enough for nearly every page of text, and little for one process with many concurrent fetches. ``raw_bytes`` bounds
    a connection with headers and framing, ``chunks`` the chunks of a body: each costs some 40 microseconds of any size.
    """

    deadline_s: float = 15.0
    connect_s: float = 5.0
    redirects: int = 5
    header_bytes: int = 65_536
    raw_bytes: int = 1_200_000
    wire_bytes: int = 1_000_000
    unpacked_bytes: int = 2_000_000
    chunks: int = 8_000
    connections: int = 16


DEFAULT_FETCH_LIMITS = FetchLimits()


def _direct_route(address: str, port: int) -> tuple[str, int]:
    return address, port


class GuardedFetcher:
    """Implements ``bot.core.interfaces.PageFetcher``.

    ``resolver`` resolves names; ``route`` is for tests and replaces the address to connect to. Environment variables
    are ignored unless ``proxies`` says otherwise. Use it as an async context manager, or close it with ``aclose``.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        resolver: HostResolver | None = None,
        route: ConnectRoute = _direct_route,
        limits: FetchLimits = DEFAULT_FETCH_LIMITS,
        proxies: ProxySettings = NO_PROXY,
    ) -> None:
        self._clock = clock
        self._resolver = resolver
        self._route = route
        self._limits = limits
        self._proxies = ProxySelector(proxies)
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the next fetch opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> FetchedPage:
        """Return the page: its body unpacked, its declared type in lower case with any parameters.

        Raises RequestRejectedError for an address of a private network, one that ``refusal`` refuses, a type that is
        not text, and any 4xx status not listed here; NotFoundError for 404 and 410; ServiceUnavailableError for a
        failed transport, a missed deadline, 408, 425, 429 and 5xx; MalformedDataError for too many redirects, any other
        status, a body or headers beyond the bounds, or an encoding that was not requested. No error shows the query of
        an address.
        """
        import httpcore  # noqa: PLC0415 - a tenth of a second, and most commands fetch nothing

        target = parse_fetch_target(url)
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                return await self._follow_redirects(target, refusal)
        except TimeoutError:
            message = f"{target.display_url}: no complete response within {self._limits.deadline_s:g} s"
            raise ServiceUnavailableError(message) from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            # The library's own message may hold what the other side sent.
            message = f"{target.display_url}: {type(error).__name__}"
            raise ServiceUnavailableError(message) from None

    async def _follow_redirects(self, target: FetchTarget, refusal: Callable[[str], str | None]) -> FetchedPage:
        for _ in range(self._limits.redirects + 1):
            if (why := refusal(target.url)) is not None:
                raise RequestRejectedError(why)
            result = await self._request(target)
            if isinstance(result, FetchedPage):
                return result
            target = result
        message = f"{target.display_url}: more than {self._limits.redirects} redirects"
        raise MalformedDataError(message)

    async def _request(self, target: FetchTarget) -> FetchedPage | FetchTarget:
        """Return the page, or the target of a redirect."""
        import httpx  # noqa: PLC0415 - as above

        trace = SendTrace()
        url = httpx.URL(scheme=target.scheme, host=target.host, port=target.port, raw_path=target.request)
        request = httpx.Request("GET", url, headers=_REQUEST_HEADERS, extensions={"trace": trace})
        try:
            response = await send_once(self._open_client(), request)
        finally:
            await trace.close_unfinished()
        try:
            headers = _ResponseHeaders(response.headers.raw)
            if headers.size > self._limits.header_bytes:
                message = f"{target.display_url}: its headers are larger than {self._limits.header_bytes} bytes"
                raise MalformedDataError(message)
            if response.status_code in _REDIRECTS:
                return _redirect_target(target, headers)
            self._raise_for_status(response.status_code, headers, target.display_url)
            media_type = _require_readable_type(headers, target.display_url)
            return FetchedPage(
                url=target.url, content=await self._read_body(response, headers, target), media_type=media_type
            )
        finally:
            await response.aclose()

    async def _read_body(self, response: httpx.Response, headers: _ResponseHeaders, target: FetchTarget) -> bytes:
        body = BoundedBody(
            self._limits.unpacked_bytes,
            encoding=headers.joined("content-encoding"),
            wire_bytes=self._limits.wire_bytes,
            shown=target.display_url,
        )
        pending: list[bytes] = []
        chunks = size = 0
        async for chunk in response.aiter_raw():
            chunks += 1
            size += len(chunk)
            pending.append(chunk)
            if chunks > self._limits.chunks:
                message = f"{target.display_url}: the body has more than {self._limits.chunks} chunks"
                raise MalformedDataError(message)
            if chunks % _YIELD_EVERY == 0:
                # The library yields chunks that have arrived already without a pause.
                await self._clock.sleep(0.0)
            if size >= _CHUNK_BYTES:
                body.feed(b"".join(pending))
                size = 0
                pending.clear()
        body.feed(b"".join(pending))
        return body.finish()

    def _raise_for_status(self, status: int, headers: _ResponseHeaders, shown: str) -> None:
        if status == 200:
            return
        message = f"{shown}: status {status}"
        if status in _NOT_FOUND:
            raise NotFoundError(message)
        if status in _TRY_LATER or status >= 500:
            wait_s = parse_retry_after(headers.joined("retry-after"), now=self._clock.now())
            raise ServiceUnavailableError(message, retry_after_s=wait_s)
        raise RequestRejectedError(message) if status >= 400 else MalformedDataError(message)

    def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            from bot.net.web.transport import GuardedBackend, GuardedTransport  # noqa: PLC0415 - brings httpcore

            limits, tls = self._limits, create_tls_context(self._proxies.settings)
            backend = GuardedBackend(
                self._resolver or SystemResolver(), self._route, limits.raw_bytes, self._proxies, tls
            )
            transport = GuardedTransport(backend, tls=tls, connections=limits.connections)
            self._client = open_http_client(transport, connect_s=limits.connect_s)
        return self._client


class _ResponseHeaders:
    """The headers of a response; several of one name are joined, as in HTTP."""

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self.size = sum(len(name) + len(value) + 4 for name, value in pairs)

    def joined(self, name: str) -> str:
        key = name.encode()
        return ", ".join(value.decode("latin-1").strip() for other, value in self._pairs if other.lower() == key)


def _redirect_target(target: FetchTarget, headers: _ResponseHeaders) -> FetchTarget:
    # Addresses that are not ASCII come as raw UTF-8, although headers are Latin-1.
    location = headers.joined("location").encode("latin-1").decode("utf-8", "replace")
    if not location:
        message = f"{target.display_url}: redirects without an address"
        raise MalformedDataError(message)
    return parse_fetch_target(location, relative_to=target.url)


def _require_readable_type(headers: _ResponseHeaders, shown: str) -> str:
    declared = " ".join(headers.joined("content-type").lower().split())[:200]
    kind = declared.partition(";")[0].strip()
    if kind == "application/pdf":
        message = f"{shown}: PDF files are not read; look for the same text as a web page"
        raise RequestRejectedError(message)
    if kind not in _READABLE_TYPES:
        message = f"{shown}: type {kind[:60]!r} is not read" if kind else f"{shown}: does not declare its type"
        raise RequestRejectedError(message)
    return declared
