"""Connections to checked addresses only, with their bytes counted before any library parses them.

Import it only when needed, because the libraries take a tenth of a second.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from bot.core.errors import MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.net.connections import ProxySelector, describe_proxy_status
from bot.net.web.addresses import HostResolver, is_numeric_host, private_address_reason

if TYPE_CHECKING:
    import ssl

    from httpcore import SOCKET_OPTION

# At most this much is parsed between two reads, each of which lets other tasks run.
_READ_BYTES = 16_384
# Interim responses (1xx) before the final one: usually one or two, without a bound in the protocol.
_MAX_INTERIM_RESPONSES = 8
_RESPONSE_HEAD = re.compile(rb"\n\r?\nHTTP/\d\.\d (\d)")
_HEAD_OVERLAP = 12


class BoundedStream(httpcore.AsyncNetworkStream):
    """Reads at most ``max_bytes`` and a few interim responses; raises MalformedDataError beyond that."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, max_bytes: int, shown: str) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._bytes_left = max_bytes
        self._shown = shown
        # As if there were a blank line before the first response head.
        self._tail = b"\n\n"
        self._interim_count = 0
        self._is_final_seen = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the library's signature
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            message = f"{self._shown}: more than {self._max_bytes} bytes came over the wire"
            raise MalformedDataError(message)
        if not self._is_final_seen:
            self._count_interim_responses(data)
        return data

    def _count_interim_responses(self, data: bytes) -> None:
        seen = self._tail + data
        for head in _RESPONSE_HEAD.finditer(seen):
            if head[1] != b"1":
                self._is_final_seen = True
                break
            self._interim_count += 1
        if self._interim_count > _MAX_INTERIM_RESPONSES:
            message = f"{self._shown}: more than {_MAX_INTERIM_RESPONSES} interim responses"
            raise MalformedDataError(message)
        self._tail = seen[-_HEAD_OVERLAP:]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        secured = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return BoundedStream(secured, self._max_bytes, self._shown)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the library's signature
        return self._stream.get_extra_info(info)


# Takes a checked address and port, returns where to connect; only tests connect elsewhere.
ConnectRoute = Callable[[str, int], tuple[str, int]]
MAX_TRIED_ADDRESSES = 3
HTTP_PORT, HTTPS_PORT = 80, 443


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests of an ``httpx.AsyncClient`` over a guarded backend; raises the errors of httpcore.

    A connection serves one request, so extra bytes of a server never reach another page.
    """

    def __init__(self, backend: GuardedBackend, *, tls: ssl.SSLContext, connections: int) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, max_connections=connections, max_keepalive_connections=0, network_backend=backend
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        response = await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_ResponseStream(response),
            extensions=dict(response.extensions),
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _ResponseStream(httpx.AsyncByteStream):
    """The body of a response of httpcore, in the form of httpx."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._response.aclose()


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only; raises RequestRejectedError for a host with any address that is not public.

    With a proxy, it asks for a connection to the checked address, so the proxy has no name to resolve.
    """

    def __init__(
        self, resolver: HostResolver, route: ConnectRoute, max_bytes: int, proxies: ProxySelector, tls: ssl.SSLContext
    ) -> None:
        """Bound each connection to ``max_bytes`` of response, headers and framing included."""
        self._resolver = resolver
        self._max_bytes = max_bytes
        self._route = route
        self._proxies = proxies
        self._tls = tls
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in (await self._resolve_public_addresses(host, port))[:MAX_TRIED_ADDRESSES]:
            try:
                proxy = self._proxies.proxy_for_host(host, secure=port == HTTPS_PORT)
                if proxy is not None:
                    stream = await self._open_tunnel(httpx.Proxy(proxy), address, port, timeout)
                else:
                    stream = await self._network.connect_tcp(*self._route(address, port), timeout, None, socket_options)
                return BoundedStream(stream, self._max_bytes, host)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or ServiceUnavailableError(f"{host}: the name has no address")

    async def _open_tunnel(
        self,
        proxy: httpx.Proxy,
        address: str,
        target_port: int,
        timeout: float | None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Return a stream through the proxy to an address; raises ServiceUnavailableError if the proxy refuses."""
        host, port = proxy.url.raw_host, proxy.url.port or (HTTPS_PORT if proxy.url.scheme == "https" else HTTP_PORT)
        target = f"[{address}]:{target_port}" if ":" in address else f"{address}:{target_port}"
        headers = [("Host", target), ("User-Agent", "foxcast")]
        if proxy.raw_auth is not None:
            headers.append(("Proxy-Authorization", f"Basic {b64encode(b':'.join(proxy.raw_auth)).decode()}"))
        url = httpcore.URL(scheme=proxy.url.raw_scheme, host=host, port=port, target=target)
        connection = httpcore.AsyncHTTPConnection(url.origin, ssl_context=self._tls)
        try:
            response = await connection.handle_async_request(
                httpcore.Request("CONNECT", url, headers=headers, extensions={"timeout": {"connect": timeout}})
            )
        except BaseException:
            await connection.aclose()
            raise
        if not 200 <= response.status < 300:
            await connection.aclose()
            message = f"{target}: {describe_proxy_status(response.status)}"
            raise ServiceUnavailableError(message)
        stream: httpcore.AsyncNetworkStream = response.extensions["network_stream"]
        return stream

    async def _resolve_public_addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of the host if all are public; a single private one may be DNS rebinding."""
        addresses = [host] if is_numeric_host(host) else await self._resolver(host, port)
        for address in addresses:
            if (why := private_address_reason(address)) is not None:
                message = f"{host}: its address is not public ({why})"
                raise RequestRejectedError(message)
        return addresses
