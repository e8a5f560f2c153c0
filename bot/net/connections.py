"""HTTP connections to other servers, with the same setup for every client: proxies, TLS, no cookies, no redirects.

The first connection imports the library, because that takes a tenth of a second and most commands connect to nothing.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.proxy_settings import ProxySettings, check_proxy_url
from bot.core.redaction import register_url_passwords
from bot.net import load_httpx
from bot.net.urls import is_loopback_host, loggable_url
from bot.net.web.addresses import require_no_metadata_service

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    import httpx

PROXY_REMEDY = "check [http] proxy in config, or the environment if trust_env is set"


class ProxySelector:
    """Selects the proxy for a host. Connections to this machine are always direct.

    In the environment, NO_PROXY lists hosts, each with all names below it, or is ``*`` for all hosts.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings

    def proxy_for_url(self, url: str) -> str | None:
        """Return the proxy for an http, https, ws or wss address; raises ConfigError as ``proxy_for_host`` does."""
        if self.settings.url is None and not self.settings.trust_env:
            return None
        parts = urlsplit(url)
        return self.proxy_for_host(parts.hostname or "", secure=parts.scheme in {"https", "wss"})

    def proxy_for_host(self, host: str, *, secure: bool) -> str | None:
        """Return the address of the proxy, or None; raises ConfigError if the environment names something else."""
        if is_loopback_host(host):
            return None
        if self.settings.url is not None or not self.settings.trust_env:
            return self.settings.url
        return self._environment_proxy(host, "https" if secure else "http")

    def _environment_proxy(self, host: str, scheme: str) -> str | None:
        from urllib.request import getproxies_environment, proxy_bypass  # noqa: PLC0415 - only with trust_env

        variables = getproxies_environment()
        named = variables.get(scheme) or variables.get("all")
        if not named or proxy_bypass(host):
            return None
        try:
            proxy = check_proxy_url(named if "://" in named else f"http://{named}")
        except ValueError as error:
            message = f"env {scheme.upper()}_PROXY or ALL_PROXY: {error}"
            raise ConfigError(message) from None
        register_url_passwords(proxy)
        return proxy


class HttpClientPool:
    """One ``httpx.AsyncClient`` for each proxy in use, and one for direct connections; each is opened when needed.

    A connection serves one request. ``connections`` bounds the open ones of each client; nothing else is bounded here.
    """

    def __init__(self, proxies: ProxySettings, *, connections: int) -> None:
        self.proxies = ProxySelector(proxies)
        self._connections = connections
        self._clients: dict[str | None, httpx.AsyncClient] = {}
        self._tls: ssl.SSLContext | None = None

    def client_for(self, url: str) -> httpx.AsyncClient:
        """Return the client for an address; raises ConfigError for an invalid proxy."""
        proxy = self.proxies.proxy_for_url(url)
        client = self._clients.get(proxy)
        if client is None:
            client = self._clients[proxy] = self._open_client(proxy)
        return client

    async def aclose(self) -> None:
        """Close all connections; the next request opens new ones."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def _open_client(self, proxy: str | None) -> httpx.AsyncClient:
        load_httpx()
        import httpx  # noqa: PLC0415 - see above

        if self._tls is None:
            self._tls = create_tls_context(self.proxies.settings)
        transport = httpx.AsyncHTTPTransport(
            verify=self._tls,
            trust_env=False,
            proxy=proxy,
            limits=httpx.Limits(max_connections=self._connections, max_keepalive_connections=0),
        )
        return open_http_client(transport, connect_s=None)


def create_tls_context(settings: ProxySettings) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities of certifi, or of the environment if ``trust_env`` is set."""
    if settings.trust_env:
        load_httpx()
        import httpx  # noqa: PLC0415 - see above

        return httpx.create_ssl_context()
    return _certifi_context()


@cache
def _certifi_context() -> ssl.SSLContext:
    """One for all clients of the process: reading the certificates takes longer than a request."""
    import ssl  # noqa: PLC0415 - see above

    import certifi  # noqa: PLC0415 - see above

    context = ssl.create_default_context(cafile=certifi.where())
    # As httpcore would set it for its own connections.
    context.set_alpn_protocols(["http/1.1"])
    return context


def open_http_client(transport: httpx.AsyncBaseTransport, *, connect_s: float | None) -> httpx.AsyncClient:
    """Return a client that keeps no cookies, follows no redirects and logs no addresses."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy  # noqa: PLC0415 - the library brings it

    import httpx  # noqa: PLC0415 - see above

    # Below WARNING they log whole addresses, with keys in their queries, headers and cookies.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        timeout=httpx.Timeout(None, connect=connect_s),
        event_hooks={"response": [_hide_redirect_headers]},
    )


async def send_once(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send a request and return its response of any status; the caller reads and closes the body."""
    response = await client.send(request, stream=True)
    response.headers = response.extensions.pop("headers", response.headers)
    return response


async def _hide_redirect_headers(response: httpx.Response) -> None:
    """Hide the target of a redirect: the library builds the next request even if it does not follow.

    It would raise for a malformed address, which would look as if there was no response.
    """
    import httpx  # noqa: PLC0415 - see above

    if response.has_redirect_location:
        response.extensions["headers"] = response.headers
        response.headers = httpx.Headers()


@dataclass(slots=True)
class SendTrace:
    """The ``trace`` of a request to the library: records whether sending the request itself has begun.

    A CONNECT request to a proxy does not count.
    """

    request_started: bool = False
    _host: str = ""
    _stream: Any = None

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        """Handle one event of the library; raises ConfigError for a connection to a cloud's metadata service."""
        if event == "connection.connect_tcp.started":
            self._host = info["host"]
        elif event == "connection.connect_tcp.complete":
            self._stream = info["return_value"]
            # None and "" are peers without an address, such as the other end of a pair of sockets.
            if peer := self._stream.get_extra_info("server_addr"):
                require_no_metadata_service(self._host, peer[0])
        elif event == "http11.send_request_headers.started" and info["request"].method != b"CONNECT":
            self.request_started = True

    async def close_unfinished(self) -> None:
        """Close the connection that the library leaves open if it is cancelled during the TLS handshake."""
        if self._stream is not None and not self.request_started:
            await self._stream.aclose()


def describe_proxy_error(error: httpx.ProxyError) -> str:
    """Return what a proxy answered instead of connecting, without the text of its response."""
    status = str(error).partition(" ")[0]
    return describe_proxy_status(int(status) if status.isascii() and status.isdigit() else None)


def describe_proxy_status(status: int | None) -> str:
    """Return an error text for the status of a proxy, such as 407 for a wrong password."""
    return f"the proxy did not connect{'' if status is None else f' (status {status})'}; {PROXY_REMEDY}"


def loggable_proxy(proxy: str) -> str:
    """Return the address of a proxy without user name and password."""
    return loggable_url(proxy).rstrip("/")
