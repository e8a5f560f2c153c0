"""Connections that serve many requests: one session of aiohttp, for reading and for asking models.

Its exchange takes a fraction of the CPU that httpx takes; docs/models.md has the figures. Writes to venues and
pages of the web use httpx with one connection for each request (bot.net.connections). Import this module only when
needed, because the library takes a quarter of a second.
"""

from __future__ import annotations

import select
import socket
from contextvars import ContextVar
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from weakref import WeakKeyDictionary

import aiohttp
import yarl

from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.net.connections import ProxySelector, create_tls_context
from bot.net.urls import loggable_url
from bot.net.web.addresses import require_no_metadata_service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp.abc import AbstractResolver
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import AddrInfoType, Connection
    from aiohttp.tracing import Trace

# The library's own bound of 8,190 bytes is below what some sites send in one header.
_MAX_HEADER_BYTES = 65_536
# The library warns that a larger body may block, unless it comes from a file.
_LARGE_BODY_BYTES = 2**20
# Characters that an address may have as they are (RFC 3986), and the percent sign of those that are encoded already.
_URL_CHARS = "%:/?#[]@!$&'()*+,;=~"


@dataclass(slots=True)
class RequestProgress:
    """How far a request got: the host that it connects to, whether it got a connection, so its sending began.

    ``refusal`` is why an address of the host was not connected to.
    """

    connect_host: str = ""
    request_started: bool = False
    refusal: ConfigError | None = None


_progress: ContextVar[RequestProgress] = ContextVar("request_progress")


class PooledSession:
    """Sends requests over connections that are kept for ``keepalive_s`` seconds; at most ``connections`` are in use.

    Connecting may take ``connect_s`` seconds; nothing else is bounded here. Cookies are not kept.
    """

    def __init__(
        self,
        proxies: ProxySelector,
        *,
        connections: int,
        keepalive_s: float,
        connect_s: float,
        resolver: AbstractResolver | None = None,
    ) -> None:
        """Open nothing yet; only tests resolve names without the operating system."""
        self._proxies = proxies
        connector = _TrackingConnector(
            ssl=create_tls_context(proxies.settings),
            limit=connections,
            keepalive_timeout=keepalive_s,
            resolver=resolver or aiohttp.ThreadedResolver(),
            socket_factory=_open_checked_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None, progress: RequestProgress
    ) -> aiohttp.ClientResponse:
        """Send a request once and return its response of any status; the caller reads the body and closes it.

        Raises ConfigError for an invalid address or proxy, and for a name that leads to the metadata service of a
        cloud; otherwise the errors of the library.
        """
        library_url, proxy = _parse_url(url), self._proxies.proxy_for_url(url)
        progress.connect_host = (urlsplit(proxy).hostname if proxy else library_url.raw_host) or ""
        is_large = content is not None and len(content) > _LARGE_BODY_BYTES
        previous = _progress.set(progress)
        try:
            return await self._session.request(
                method,
                library_url,
                headers=headers,
                data=BytesIO(content) if is_large and content else content,
                proxy=proxy,
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorError:
            if progress.refusal is not None:
                raise progress.refusal from None
            raise
        except aiohttp.InvalidURL:  # such as 2852039166, which the system would take for an IPv4 address
            raise _invalid_address(url) from None
        finally:
            _progress.reset(previous)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()


class _TrackingConnector(aiohttp.TCPConnector):
    """Notes when a request has its connection, and gives it no second one; gives no connection that has ended.

    The library would repeat a GET after a kept connection broke, which no rate limit would count.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - the library's own
        super().__init__(**options)
        # Of each connection that had a request: what tells whether something has come over it.
        self._pollers: WeakKeyDictionary[ResponseHandler, select.poll] = WeakKeyDictionary()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the library's signature
    ) -> Connection:
        progress = _progress.get()
        if progress.request_started:
            raise aiohttp.ServerDisconnectedError
        connection = await super().connect(req, traces, timeout)
        while (protocol := connection.protocol) is not None and self._has_ended(protocol):
            connection.close()
            connection = await super().connect(req, traces, timeout)
        progress.request_started = True
        return connection

    def _has_ended(self, protocol: ResponseHandler) -> bool:
        """Return whether something came over an idle connection, which is its end: the event loop learns of it later.

        Before its first request nothing is its end.
        """
        poller, transport = self._pollers.get(protocol), protocol.transport
        if poller is not None:
            return transport is None or bool(poller.poll(0))
        if transport is not None:
            self._pollers[protocol] = poller = select.poll()
            poller.register(transport.get_extra_info("socket"), select.POLLIN)
        return False


def _open_checked_socket(address: AddrInfoType) -> socket.socket:
    """Return a socket for an address; raises OSError for a metadata service behind a name, and records why."""
    family, kind, protocol, _, target = address
    progress = _progress.get()
    # In the usual notation: an IPv4 address that is embedded in IPv6 is not the one that config names.
    numeric = socket.inet_ntop(family, socket.inet_pton(family, str(target[0]).partition("%")[0]))
    try:
        require_no_metadata_service(progress.connect_host, numeric)
    except ConfigError as error:
        progress.refusal = error
        raise PermissionError(str(error)) from None  # the library tries the other addresses of the name
    return socket.socket(family, kind, protocol)


@lru_cache(maxsize=256)
def _parse_url(url: str) -> yarl.URL:
    """Return an address in the form of the library, with what is encoded in it left as it is; raises ConfigError."""
    if not url.isprintable():
        message = f"{loggable_url(url)!a} has characters that addresses do not have"
        raise ConfigError(message)
    try:
        return yarl.URL(quote(url, safe=_URL_CHARS), encoded=True) if url.isascii() else yarl.URL(url)
    except ValueError:
        raise _invalid_address(url) from None


def _invalid_address(url: str) -> ConfigError:
    return ConfigError(f"{loggable_url(url)} is not an address")
