"""WebSockets to known services; no other module imports websockets.

Sizes and times are bounded, and each way in which a connection can end is an error of ``bot.core.errors``.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bot.core.errors import AuthenticationError, ConfigError, ServiceUnavailableError
from bot.core.proxy_settings import NO_PROXY, ProxySettings
from bot.net.connections import PROXY_REMEDY, ProxySelector, create_tls_context
from bot.net.rate_headers import parse_retry_after
from bot.net.urls import is_loopback_host, loggable_url
from bot.net.web.addresses import require_no_metadata_service

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    from bot.core.interfaces import Clock, WebSocketConnection
    from bot.net.rate_limit import RateLimiter

OPEN_TIMEOUT_S = 15.0
CLOSE_TIMEOUT_S = 2.0
SEND_TIMEOUT_S = 10.0
# Pings of the protocol, which find a dead connection; some services need messages of their own as well.
PING_EVERY_S = 20.0
PING_TIMEOUT_S = 20.0
# How long a connection waits while the service asked for a pause; a longer pause is an error.
MAX_PAUSE_S = 10.0
# Received messages in the queue; when it is full, the other side has to wait.
MAX_QUEUED_MESSAGES = 64
_REFUSED_CREDENTIALS = frozenset({401, 403})
_LIBRARY_LOGGER = "bot.net.websocket.library"


class WebSocketConnector:
    """Implements ``bot.core.interfaces.WebSocketClient``.

    No redirect is followed, and environment variables are ignored unless ``proxies`` says otherwise.
    Messages are not compressed, because a small one could unpack to any size. Opening a connection counts as a GET
    under the rate limits of its address.
    """

    def __init__(self, *, clock: Clock, rates: RateLimiter, proxies: ProxySettings = NO_PROXY) -> None:
        self._clock = clock
        self._rates = rates
        self._proxies = ProxySelector(proxies)
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def connect(
        self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[WebSocketConnection]:
        """Connect, and close at the end.

        Raises AuthenticationError for 401 and 403; ServiceUnavailableError for any other failure to connect, with the
        wait that the service asked for; ConfigError for an invalid address, for plain text to another machine, and for
        a proxy that cannot be used.
        """
        connection = await self._open_connection(url, max_bytes, headers or {})
        try:
            yield _OpenWebSocket(connection, loggable_url(url))
        finally:
            await connection.close()

    async def _open_connection(self, url: str, max_bytes: int, headers: Mapping[str, str]) -> ClientConnection:
        from websockets.exceptions import (  # noqa: PLC0415 - a tenth of a second, and only feeds need it
            InvalidHandshake,
            InvalidProxy,
            InvalidStatus,
            ProxyError,
        )

        _require_socket_url(url)
        # Below WARNING it logs addresses, headers and all messages.
        logger = logging.getLogger(_LIBRARY_LOGGER)
        logger.setLevel(logging.WARNING)
        async with self._rates.acquire("GET", url, patience_s=MAX_PAUSE_S) as slot:
            try:
                connection = await self._connect(url, max_bytes=max_bytes, headers=headers, logger=logger)
            except InvalidStatus as error:
                slot.record_response(error.response.status_code, dict(error.response.headers.raw_items()))
                raise self._error_for_status(error, url) from None
            except (InvalidProxy, ProxyError) as error:
                message = (
                    f"{loggable_url(url)}: no connection through the proxy ({type(error).__name__}); {PROXY_REMEDY}"
                )
                raise ServiceUnavailableError(message) from None
            except (InvalidHandshake, OSError, EOFError, ValueError) as error:  # a timeout is an OSError
                message = f"{loggable_url(url)}: no connection ({type(error).__name__})"
                raise ServiceUnavailableError(message) from None
            slot.record_response(101, {})
        return connection

    async def _connect(
        self, url: str, *, max_bytes: int, headers: Mapping[str, str], logger: logging.Logger
    ) -> ClientConnection:
        """Connect as the library does, without its redirects and never to a cloud's metadata service."""
        from websockets.asyncio.client import connect  # noqa: PLC0415 - as above

        class GuardedConnect(connect):
            def process_redirect(self, exc: Exception) -> Exception:
                return exc

            async def create_connection(self) -> ClientConnection:
                connection = await super().create_connection()
                try:
                    # None and "" are peers without an address, such as the other end of a pair of sockets.
                    if peer := connection.transport.get_extra_info("peername"):
                        require_no_metadata_service(urlsplit(url).hostname or "", peer[0])
                except ConfigError:
                    connection.transport.abort()
                    raise
                return connection

        proxy = self._proxies.proxy_for_url(url)
        tls = self._tls_context() if urlsplit(url).scheme == "wss" else None
        return await GuardedConnect(
            url,
            ssl=tls,
            compression=None,
            proxy=proxy and _with_plain_login(proxy),
            user_agent_header="foxcast",
            additional_headers=headers,
            open_timeout=OPEN_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
            ping_interval=PING_EVERY_S,
            ping_timeout=PING_TIMEOUT_S,
            max_size=max_bytes,
            max_queue=MAX_QUEUED_MESSAGES,
            logger=logger,
        )

    def _error_for_status(self, error: InvalidStatus, url: str) -> AuthenticationError | ServiceUnavailableError:
        status = error.response.status_code
        message = f"{loggable_url(url)}: status {status} instead of a connection"
        if status in _REFUSED_CREDENTIALS:
            return AuthenticationError(message)
        retry_after = error.response.headers.get("Retry-After", "")
        return ServiceUnavailableError(message, retry_after_s=parse_retry_after(retry_after, now=self._clock.now()))

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = create_tls_context(self._proxies.settings)
        return self._tls


class _OpenWebSocket:
    """Implements ``bot.core.interfaces.WebSocketConnection``."""

    def __init__(self, connection: ClientConnection, shown: str) -> None:
        # Looked up once: this lazy module of the library resolves a name anew each time.
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 - loaded already

        self._connection = connection
        self._shown = shown
        self._closed = ConnectionClosed

    async def send(self, text: str) -> None:
        """Send a message; raises ServiceUnavailableError if the connection is closed or sending takes too long."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._connection.send(text)
        except self._closed as error:
            raise self._closed_error(error) from None
        except TimeoutError:
            message = f"{self._shown}: a message could not be sent within {SEND_TIMEOUT_S:g} s"
            raise ServiceUnavailableError(message) from None

    async def receive(self, *, within_s: float) -> str:
        """Return the next message.

        Raises ServiceUnavailableError if none came in time, or if the connection is closed, for example because of a
        message that is too large or not text.
        """
        try:
            async with asyncio.timeout(within_s):
                return await self._connection.recv(decode=True)
        except self._closed as error:
            raise self._closed_error(error) from None
        except TimeoutError:
            message = f"{self._shown}: no message within {within_s:g} s"
            raise ServiceUnavailableError(message) from None

    def _closed_error(self, error: ConnectionClosed) -> ServiceUnavailableError:
        frame = error.rcvd or error.sent
        code = "without a code" if frame is None else f"with code {frame.code}"
        return ServiceUnavailableError(f"{self._shown}: the connection ended {code}")


def _require_socket_url(url: str) -> None:
    """Raise ConfigError for an address that is not connected to."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or port == 0 or parts.username is not None or parts.scheme not in {"ws", "wss"} or parts.fragment:
        message = "the address of a socket is not a wss address without user name"
        raise ConfigError(message)
    if parts.scheme == "ws" and not is_loopback_host(host):
        message = f"{loggable_url(url)}: only wss is allowed to other machines"
        raise ConfigError(message)


def _with_plain_login(proxy: str) -> str:
    """Return the address of a proxy with its user name and password decoded: the library sends them unchanged.

    Raises ConfigError for characters that cannot stand in an address.
    """
    scheme, _, rest = proxy.partition("://")
    login, at, host = rest.rpartition("@")
    if set("/?#[]") & set(plain := unquote(login)):
        message = "[http] proxy: its password holds one of / ? # [ ], which web sockets cannot use; choose another"
        raise ConfigError(message)
    return f"{scheme}://{plain}{at}{host}"
