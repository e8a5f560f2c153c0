"""Every client through a real proxy on loopback: what it is asked, what it may see, and what its refusal means."""

import asyncio
import socket
import ssl
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request as Handshake
from websockets.http11 import Response

from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    ConfigError,
    FoxcastError,
    RequestRejectedError,
    ServerUnreachableError,
    ServiceUnavailableError,
)
from bot.core.proxy_settings import ProxySettings
from bot.core.venue_http import HttpRequest
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.connections import ProxySelector
from bot.net.rate_limit import RateLimiter
from bot.net.web.fetcher import FetchLimits, GuardedFetcher
from bot.net.websocket import WebSocketConnector
from bot.net.write_client import HttpWriteClient
from bot.simulator.hostile_web import PUBLIC_ADDRESS, PUBLIC_HOST, HostilePage, HostileResponse, HostileWeb
from bot.testing.clock import FakeClock
from tests.unit.net.proxy_server import ProxyServer, make_certificate, serving_proxy
from tests.unit.net.raw_server import Manner, RawServer, http, saying, serving

PASSWORD = "pass:word@77"  # noqa: S105 - of a test
LOGIN = f"fox:{PASSWORD}"
LOGIN_IN_URL = "fox:pass%3Aword%4077@"
KEY = "canary-5f1d0b7e"
HOST = "venue.test"


class ProxiedServer:
    """A proxy, and behind it a server that is found under a name alone, over TLS or in plain text."""

    def __init__(self, proxy: ProxyServer, server: RawServer) -> None:
        self.proxy = proxy
        self.server = server

    def settings(self, login: str = LOGIN_IN_URL) -> ProxySettings:
        return ProxySettings(url=f"http://{login}{self.proxy.address}", trust_env=True)


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The context of a server whose authority the environment names."""
    authority, context = make_certificate(tmp_path, HOST, PUBLIC_HOST)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    return context


@asynccontextmanager
async def proxied(
    *, tls: ssl.SSLContext | None = None, answer: bytes = http(200, b"hello"), status: int | None = None
) -> AsyncIterator[ProxiedServer]:
    def manner(server: RawServer) -> Manner:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await server.read(reader):
                writer.write(answer)
                if not answer:
                    return

        return talk

    async with serving(manner, tls=tls) as server:
        port = int(server.base.rpartition(":")[2])
        routes = {f"{HOST}:443": port, f"{HOST}:80": port}
        async with serving_proxy(ProxyServer(routes, login=LOGIN, status=status)) as proxy:
            yield ProxiedServer(proxy, server)


def reader(settings: ProxySettings) -> RetryingHttpClient:
    limits = HttpLimits(attempts=1, deadline_s=5.0)
    return RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=limits, proxies=settings)


def writer(settings: ProxySettings) -> HttpWriteClient:
    return HttpWriteClient(rates=RateLimiter((), clock=SystemClock(), random=SeededRandom(1)), proxies=settings)


def sockets(settings: ProxySettings) -> WebSocketConnector:
    rates = RateLimiter((), clock=SystemClock(), random=SeededRandom(1))
    return WebSocketConnector(clock=SystemClock(), rates=rates, proxies=settings)


async def send(settings: ProxySettings, *, deadline_s: float = 5.0) -> int:
    request = HttpRequest(method="POST", url=f"https://{HOST}/bets", headers={"Authorization": KEY}, body=b"{}")
    async with writer(settings) as client:
        return (await client.send(request, max_bytes=1000, deadline_s=deadline_s)).status


async def read_failure(settings: ProxySettings, url: str) -> FoxcastError:
    async with reader(settings) as client:
        with pytest.raises(FoxcastError) as caught:
            await client.post(url, {}, max_bytes=1000, headers={"Authorization": KEY})
    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert LOGIN_IN_URL not in shown
    return caught.value


async def write_failure(settings: ProxySettings, *, deadline_s: float = 5.0) -> FoxcastError:
    with pytest.raises(FoxcastError) as caught:
        await send(settings, deadline_s=deadline_s)
    shown = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in shown
    assert LOGIN_IN_URL not in shown
    return caught.value


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


async def test_a_secure_server_is_read_through_a_tunnel_of_which_the_proxy_sees_the_name_alone(
    tls: ssl.SSLContext,
) -> None:
    async with proxied(tls=tls) as net, reader(net.settings()) as client:
        for _ in range(3):
            assert await client.post(f"https://{HOST}/ask?{KEY}", {}, max_bytes=5, headers={"X-Key": KEY}) == b"hello"
    assert net.proxy.requests == [("CONNECT", f"{HOST}:443")]  # one tunnel, which is kept
    assert KEY not in net.proxy.heads[0]
    assert KEY.encode() not in net.proxy.carried
    assert len(net.server.heard) == 3
    assert KEY.encode() in net.server.heard[0]
    assert b"proxy-authorization" not in net.server.heard[0].lower()


async def test_a_plain_server_is_read_by_its_whole_address() -> None:
    async with proxied() as net, reader(net.settings()) as client:
        assert await client.get(f"http://{HOST}/page?x=1", max_bytes=5) == b"hello"
    assert net.proxy.requests == [("GET", f"http://{HOST}/page?x=1")]
    assert net.server.heard[0].startswith(b"GET /page?x=1 HTTP/1.1\r\n")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("login", "status"), [("", 407), ("fox:wrong-one@", 407), (LOGIN_IN_URL, 403)])
async def test_a_proxy_that_refuses_is_named_and_nothing_reaches_the_server(
    scheme: str, login: str, status: int
) -> None:
    async with proxied(status=status if status == 403 else None) as net:
        error = await read_failure(net.settings(login), f"{scheme}://{HOST}/ask")
        assert f"status {status}" in str(error)
        assert error.__cause__ is None
        if (scheme, status) != ("http", 403):  # which the server itself might answer
            assert isinstance(error, ServerUnreachableError)
            assert "check [http] proxy in config" in str(error)
    assert net.server.connections == 0


async def test_a_server_that_the_proxy_cannot_reach_is_unreachable() -> None:
    async with proxied() as net:
        error = await read_failure(net.settings(), "https://elsewhere.test/ask")
    assert isinstance(error, ServerUnreachableError)
    assert "status 502" in str(error)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_down_is_named_without_its_login(scheme: str) -> None:
    port = closed_port()
    error = await read_failure(ProxySettings(url=f"http://{LOGIN_IN_URL}127.0.0.1:{port}"), f"{scheme}://{HOST}/")
    assert isinstance(error, ServerUnreachableError)
    assert f"cannot be reached through the proxy http://127.0.0.1:{port};" in str(error)


async def test_what_broke_off_in_a_tunnel_may_have_been_worked_on(tls: ssl.SSLContext) -> None:
    async with proxied(tls=tls, answer=b"") as net:
        error = await read_failure(net.settings(), f"https://{HOST}/ask")
    assert isinstance(error.__cause__, ConnectionError)
    assert len(net.server.heard) == 1


@pytest.mark.parametrize("trust_env", [True, False])
async def test_hosts_of_this_machine_are_read_without_the_proxy(*, trust_env: bool) -> None:
    settings = ProxySettings(url=f"http://127.0.0.1:{closed_port()}", trust_env=trust_env)
    async with serving(saying(http(200, b"near"))) as server, reader(settings) as client:
        assert await client.get(server.base, max_bytes=4) == b"near"
        assert await client.get(server.base.replace("127.0.0.1", "localhost"), max_bytes=4) == b"near"


async def test_a_write_goes_through_a_tunnel_once(tls: ssl.SSLContext) -> None:
    async with proxied(tls=tls, answer=http(503)) as net:
        assert await send(net.settings()) == 503
    assert net.proxy.requests == [("CONNECT", f"{HOST}:443")]
    assert len(net.server.heard) == 1
    assert KEY.encode() not in net.proxy.carried


@pytest.mark.parametrize("status", [403, 407, 502])
async def test_a_write_that_the_proxy_refuses_was_not_sent(status: int) -> None:
    async with proxied(status=status) as net:
        error = await write_failure(net.settings())
    assert isinstance(error, RequestRejectedError)
    assert f"the proxy did not connect (status {status})" in str(error)
    assert str(error).endswith("; nothing was sent")
    assert len(net.proxy.requests) == 1


async def test_a_write_was_not_sent_where_the_proxy_is_down() -> None:
    error = await write_failure(ProxySettings(url=f"http://{LOGIN_IN_URL}127.0.0.1:{closed_port()}"))
    assert isinstance(error, RequestRejectedError)
    assert "nothing was sent" in str(error)


async def test_a_write_was_not_sent_where_the_proxy_answers_nothing() -> None:
    async with serving_proxy(ProxyServer({}, silent=True)) as proxy:
        error = await write_failure(ProxySettings(url=f"http://{proxy.address}"), deadline_s=1.0)
    assert proxy.requests == [("CONNECT", f"{HOST}:443")]
    assert isinstance(error, RequestRejectedError)
    assert str(error).endswith("no slot of the rate limits or no connection within 1 s; nothing was sent")


async def test_a_write_was_not_sent_where_the_end_of_the_tunnel_has_no_certificate() -> None:
    async with proxied() as net:  # in plain text where TLS is spoken
        error = await write_failure(net.settings())
    assert isinstance(error, RequestRejectedError)
    assert KEY.encode() not in net.proxy.carried


async def test_a_write_that_broke_off_in_its_tunnel_may_have_arrived(tls: ssl.SSLContext) -> None:
    async with proxied(tls=tls, answer=b"") as net:
        error = await write_failure(net.settings())
    assert isinstance(error, ServiceUnavailableError)
    assert str(error).endswith("it may have arrived")
    assert len(net.server.heard) == 1


@asynccontextmanager
async def echoing(tls: ssl.SSLContext, gate: Response | None = None) -> AsyncIterator[ProxyServer]:
    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    def answer(connection: ServerConnection, _: Handshake) -> Response | None:
        return gate

    async with serve(echo, "127.0.0.1", 0, ssl=tls, process_request=answer) as server:
        routes = {f"{HOST}:443": next(iter(server.sockets)).getsockname()[1]}
        async with serving_proxy(ProxyServer(routes, login=LOGIN)) as proxy:
            yield proxy


async def test_messages_go_through_a_tunnel(tls: ssl.SSLContext) -> None:
    async with echoing(tls) as proxy:
        settings = ProxySettings(url=f"http://{LOGIN_IN_URL}{proxy.address}", trust_env=True)
        async with sockets(settings).connect(f"wss://{HOST}/ws?{KEY}", max_bytes=100) as one:
            await one.send("first")
            assert await one.receive(within_s=5.0) == "first"
    assert proxy.requests == [("CONNECT", f"{HOST}:443")]
    assert KEY not in proxy.heads[0]


async def test_a_redirect_of_a_socket_is_not_followed(tls: ssl.SSLContext) -> None:
    elsewhere = Response(302, "Found", Headers(Location=f"wss://elsewhere.test/{KEY}"))
    async with echoing(tls, elsewhere) as proxy:
        settings = ProxySettings(url=f"http://{LOGIN_IN_URL}{proxy.address}", trust_env=True)
        with pytest.raises(ServiceUnavailableError, match="status 302"):
            async with sockets(settings).connect(f"wss://{HOST}/ws", max_bytes=100):
                pass
    assert proxy.requests == [("CONNECT", f"{HOST}:443")]


@pytest.mark.parametrize("login", ["", "fox:wrong-one@"])
async def test_a_socket_that_the_proxy_refuses_is_unavailable(tls: ssl.SSLContext, login: str) -> None:
    async with echoing(tls) as proxy:
        settings = ProxySettings(url=f"http://{login}{proxy.address}", trust_env=True)
        with pytest.raises(ServiceUnavailableError, match=r"no connection through the proxy .* check \[http\] proxy"):
            async with sockets(settings).connect(f"wss://{HOST}/ws", max_bytes=100):
                pass


async def test_a_password_that_sockets_cannot_use_is_told_without_it(tls: ssl.SSLContext) -> None:
    async with echoing(tls) as proxy:
        opener = sockets(ProxySettings(url=f"http://fox:pass%2Fword@{proxy.address}"))
        with pytest.raises(ConfigError, match="which web sockets cannot use") as caught:
            async with opener.connect(f"wss://{HOST}/ws", max_bytes=100):
                pass
    assert "word" not in str(caught.value).replace("password", "")
    assert proxy.requests == []


@asynccontextmanager
async def fetching(
    web: HostileWeb, *, port: int, server_port: int, status: int | None = None
) -> AsyncIterator[tuple[GuardedFetcher, ProxyServer]]:
    routes = {f"{PUBLIC_ADDRESS}:{port}": server_port}
    async with AsyncExitStack() as stack:
        double = await stack.enter_async_context(serving_proxy(ProxyServer(routes, login=LOGIN, status=status)))
        settings = ProxySettings(url=f"http://{LOGIN_IN_URL}{double.address}", trust_env=True)
        fetcher = GuardedFetcher(
            FakeClock(), resolver=web.resolve, route=web.route, limits=FetchLimits(deadline_s=5.0), proxies=settings
        )
        yield await stack.enter_async_context(fetcher), double


def fine(_: str) -> None:
    return None


def page(text: bytes) -> HostilePage:
    return HostilePage(name="page", family="test", url=f"http://{PUBLIC_HOST}/", reply=HostileResponse(body=text))


async def test_a_page_is_asked_for_at_its_checked_address_and_the_proxy_looks_no_name_up() -> None:
    async with HostileWeb([page(b"text")]) as web:
        _, port = web.route(PUBLIC_ADDRESS, 80)
        async with fetching(web, port=80, server_port=port) as (fetcher, proxy):
            assert (await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)).content == b"text"
    assert proxy.requests == [("CONNECT", f"{PUBLIC_ADDRESS}:80")]
    assert PUBLIC_HOST not in proxy.heads[0]
    assert f"\r\nHost: {PUBLIC_HOST}\r\n" in web.heads[0]


async def test_a_secure_page_is_believed_by_its_name_at_the_end_of_the_tunnel(tls: ssl.SSLContext) -> None:
    answer = http(200, b"text", "Content-Type: text/plain")
    async with HostileWeb() as web, serving(saying(answer), tls=tls) as server:
        port = int(server.base.rpartition(":")[2])
        async with fetching(web, port=443, server_port=port) as (fetcher, proxy):
            assert (await fetcher.fetch(f"https://{PUBLIC_HOST}/", refusal=fine)).content == b"text"
    assert proxy.requests == [("CONNECT", f"{PUBLIC_ADDRESS}:443")]


@pytest.mark.parametrize("addresses", [("10.0.0.1",), (PUBLIC_ADDRESS, "127.0.0.1"), ("169.254.169.254",)])
async def test_a_name_with_an_address_inside_is_refused_before_the_proxy_is_asked(addresses: tuple[str, ...]) -> None:
    async with HostileWeb([page(b"text")]) as web:
        web.names["inside.test"] = [addresses]
        async with fetching(web, port=80, server_port=1) as (fetcher, proxy):
            with pytest.raises(RequestRejectedError, match="not public"):
                await fetcher.fetch("http://inside.test/", refusal=fine)
    assert proxy.requests == []


async def test_a_page_that_the_proxy_refuses_is_unavailable() -> None:
    async with (
        HostileWeb([page(b"text")]) as web,
        fetching(web, port=80, server_port=1, status=403) as (fetcher, proxy),
    ):
        with pytest.raises(ServiceUnavailableError, match=r"did not connect \(status 403\)"):
            await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)
    assert len(proxy.requests) == 1


async def test_a_page_is_unavailable_where_the_proxy_is_down() -> None:
    settings = ProxySettings(url=f"http://127.0.0.1:{closed_port()}")
    async with (
        HostileWeb([page(b"text")]) as web,
        GuardedFetcher(FakeClock(), resolver=web.resolve, route=web.route, proxies=settings) as fetcher,
    ):
        with pytest.raises(ServiceUnavailableError, match="ConnectError"):
            await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)
    assert web.heads == []


async def test_a_page_comes_through_a_proxy_that_asks_for_no_login() -> None:
    async with HostileWeb([page(b"text")]) as web:
        _, port = web.route(PUBLIC_ADDRESS, 80)
        async with serving_proxy(ProxyServer({f"{PUBLIC_ADDRESS}:80": port})) as proxy:
            settings = ProxySettings(url=f"http://{proxy.address}")
            async with GuardedFetcher(FakeClock(), resolver=web.resolve, route=web.route, proxies=settings) as fetcher:
                assert (await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)).content == b"text"
    assert "authorization" not in proxy.heads[0].lower()


ENVIRONMENT = {
    "HTTPS_PROXY": "http://secure.test:1",
    "HTTP_PROXY": "plain.test:2",
    "NO_PROXY": "near.test, .inner.test",
}


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://far.test/x", "http://secure.test:1"),
        ("wss://far.test/x", "http://secure.test:1"),
        ("http://far.test/x", "http://plain.test:2"),
        ("https://near.test/x", None),
        ("https://www.near.test/x", None),
        ("https://a.inner.test:8443/x", None),
        ("https://notnear.test/x", "http://secure.test:1"),
        ("https://localhost/x", None),
        ("https://127.0.0.1:8000/x", None),
        ("http://[::1]/x", None),
    ],
)
def test_the_environment_says_which_proxy_where_it_counts(
    url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert ProxySelector(ProxySettings(trust_env=True)).proxy_for_url(url) == proxy
    assert ProxySelector(ProxySettings()).proxy_for_url(url) is None


def test_the_configured_proxy_counts_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://env.test:1")
    settings = ProxySettings(url="http://config.test:1", trust_env=True)
    assert ProxySelector(settings).proxy_for_url("https://far.test/") == "http://config.test:1"


async def test_a_proxy_of_another_kind_is_refused_by_readers_and_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", f"socks5://{LOGIN_IN_URL}127.0.0.1:1080")
    settings = ProxySettings(trust_env=True)
    assert isinstance(error := await read_failure(settings, f"https://{HOST}/"), ConfigError)
    assert "ALL_PROXY: should be the address of an HTTP proxy" in str(error)
    assert isinstance(await write_failure(settings), RequestRejectedError)


async def test_a_request_follows_the_environment(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxied(tls=tls) as net:
        monkeypatch.setenv("https_proxy", f"http://{LOGIN_IN_URL}{net.proxy.address}")
        async with reader(ProxySettings(trust_env=True)) as client:
            assert await client.get(f"https://{HOST}/", max_bytes=5) == b"hello"
        monkeypatch.setenv("no_proxy", HOST)
        async with reader(ProxySettings(trust_env=True)) as client:
            with pytest.raises(ServerUnreachableError, match="check the address, the network"):
                await client.get(f"https://{HOST}/", max_bytes=5)
    assert net.proxy.requests == [("CONNECT", f"{HOST}:443")]
