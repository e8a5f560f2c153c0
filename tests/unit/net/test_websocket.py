"""WebSockets over real loopback connections, and the double that stands for them."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as Handshake
from websockets.http11 import Response

from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import AuthenticationError, ConfigError, FoxcastError, ServiceUnavailableError
from bot.core.interfaces import WebSocketClient
from bot.core.venue_http import RateLimit
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.websocket import ConnectionScript, DelayedMessage, FakeWebSocketClient

KEY = "canary-81c2"
Handler = Callable[[ServerConnection], Awaitable[None]]
Gate = Callable[[ServerConnection, Handshake], Response | None]


@asynccontextmanager
async def serving(handler: Handler, gate: Gate | None = None) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", 0, process_request=gate, compression="deflate") as server:
        host, port = next(iter(server.sockets)).getsockname()
        yield f"ws://{host}:{port}/ws"


def sockets(*rates: RateLimit) -> WebSocketConnector:
    clock = SystemClock()
    return WebSocketConnector(clock=clock, rates=RateLimiter(rates, clock=clock, random=SeededRandom(1)))


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


def refusing(status: HTTPStatus, **headers: str) -> Gate:
    def gate(connection: ServerConnection, _: Handshake) -> Response:
        response = connection.respond(status, "no\n")
        for name, value in headers.items():
            response.headers[name.replace("_", "-")] = value
        return response

    return gate


async def refused(opener: WebSocketConnector, url: str) -> FoxcastError:
    with pytest.raises(FoxcastError) as told:
        async with opener.connect(url, max_bytes=100):
            pass
    return told.value


async def refusal(gate: Gate) -> FoxcastError:
    async with serving(echo, gate) as url:
        error = await refused(sockets(), f"{url}?key={KEY}")
    assert KEY not in str(error)
    return error


async def test_messages_go_both_ways_in_order() -> None:
    async with serving(echo) as url, sockets().connect(url, max_bytes=100) as one:
        await one.send("first")
        await one.send("zweite \u00e4")
        assert [await one.receive(within_s=5.0) for _ in range(2)] == ["first", "zweite \u00e4"]


async def test_headers_go_with_the_handshake() -> None:
    seen: list[str | None] = []

    def gate(_: ServerConnection, handshake: Handshake) -> None:
        seen.append(handshake.headers.get("x-signature"))

    async with serving(echo, gate) as url, sockets().connect(url, max_bytes=100, headers={"X-Signature": KEY}) as one:
        await one.send("signed")
        assert await one.receive(within_s=5.0) == "signed"
    assert seen == [KEY]


async def test_a_message_in_bytes_that_is_text_is_text_and_one_that_is_not_ends_the_connection() -> None:
    async def speak(connection: ServerConnection) -> None:
        await connection.send(b"text")
        await connection.send(b"\xff\xfe")
        await connection.wait_closed()

    async with serving(speak) as url, sockets().connect(url, max_bytes=100) as one:
        assert await one.receive(within_s=5.0) == "text"
        with pytest.raises(ServiceUnavailableError, match="1007"):
            await one.receive(within_s=5.0)


async def test_silence_is_unavailable_and_the_connection_is_still_good_after_it() -> None:
    async with serving(echo) as url, sockets().connect(url, max_bytes=100) as one:
        with pytest.raises(ServiceUnavailableError, match=r"no message within 0\.05 s"):
            await one.receive(within_s=0.05)
        await one.send("late")
        assert await one.receive(within_s=5.0) == "late"


@pytest.mark.parametrize(("code", "word"), [(1000, "1000"), (1011, "1011"), (4001, "4001")])
async def test_a_connection_that_the_other_side_ends_is_unavailable(code: int, word: str) -> None:
    async def hang_up(connection: ServerConnection) -> None:
        await connection.close(code, KEY)

    async with serving(hang_up) as url, sockets().connect(url, max_bytes=100) as one:
        with pytest.raises(ServiceUnavailableError, match=f"with code {word}") as told:
            await one.receive(within_s=5.0)
        assert KEY not in str(told.value)
        with pytest.raises(ServiceUnavailableError):
            await one.send("anybody?")


async def test_a_connection_that_breaks_is_unavailable() -> None:
    async def break_off(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with serving(break_off) as url, sockets().connect(url, max_bytes=100) as one:
        with pytest.raises(ServiceUnavailableError):
            await one.receive(within_s=5.0)


async def test_a_message_beyond_the_bound_ends_the_connection() -> None:
    async def shout(connection: ServerConnection) -> None:
        await connection.send("x" * 100)
        await connection.send("x" * 101)
        await connection.wait_closed()

    async with serving(shout) as url, sockets().connect(url, max_bytes=100) as one:
        assert len(await one.receive(within_s=5.0)) == 100
        with pytest.raises(ServiceUnavailableError, match="1009"):
            await one.receive(within_s=5.0)


async def test_messages_are_not_compressed_even_where_the_other_side_could() -> None:
    offered: list[str | None] = []

    def look(_: ServerConnection, request: Handshake) -> None:
        offered.append(request.headers.get("Sec-WebSocket-Extensions"))

    async with serving(echo, look) as url, sockets().connect(url, max_bytes=100):
        pass
    assert offered == [None]


@pytest.mark.parametrize("status", [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN])
async def test_refused_credentials_are_for_the_operator(status: HTTPStatus) -> None:
    assert isinstance(await refusal(refusing(status)), AuthenticationError)


@pytest.mark.parametrize("status", [HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE])
async def test_any_other_refusal_is_waited_for(status: HTTPStatus) -> None:
    error = await refusal(refusing(status))
    assert isinstance(error, ServiceUnavailableError)
    assert str(status.value) in str(error)


async def test_the_wait_that_is_asked_for_is_told_and_kept_by_the_next_one() -> None:
    async with serving(echo, refusing(HTTPStatus.TOO_MANY_REQUESTS, Retry_After="60")) as url:
        opener = sockets(RateLimit(name="sockets", prefixes=(url,), count=100, per_s=1.0, burst=100))
        for words in ("status 429", "asked for a pause; 60 s are left"):
            error = await refused(opener, url)
            assert isinstance(error, ServiceUnavailableError)
            assert words in str(error)
            assert error.retry_after_s == pytest.approx(60.0, abs=5.0)


async def test_a_redirect_leads_nowhere_else() -> None:
    async with serving(echo) as elsewhere:
        error = await refusal(refusing(HTTPStatus.FOUND, Location=elsewhere))
    assert isinstance(error, ServiceUnavailableError)


async def test_nobody_listening_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ServiceUnavailableError):
        async with sockets().connect(f"ws://127.0.0.1:{port}/", max_bytes=100):
            pass


async def test_another_protocol_is_unavailable() -> None:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        writer.close()

    listening = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        for scheme in ("ws", "wss"):
            assert isinstance(await refused(sockets(), f"{scheme}://127.0.0.1:{port}/"), ServiceUnavailableError)


@pytest.mark.parametrize(
    "url",
    ["ws://lantern.test/ws", "https://lantern.test/ws", "wss://me:secret@lantern.test/", "wss:///ws", "wss://[::1/"],
)
async def test_only_safe_addresses_are_connected_to(url: str) -> None:
    with pytest.raises(ConfigError) as told:
        async with sockets().connect(url, max_bytes=100):
            pass
    assert "secret" not in str(told.value)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ws_proxy", "WS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(echo) as url, sockets().connect(url, max_bytes=100) as one:
        await one.send("here")
        assert await one.receive(within_s=5.0) == "here"


async def test_logs_show_neither_addresses_nor_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("websockets.server").setLevel(logging.WARNING)  # the other side's log is its own
    async with serving(echo) as url, sockets().connect(f"{url}?key={KEY}", max_bytes=100) as one:
        await one.send(f"message {KEY}")
        await one.receive(within_s=5.0)
    assert KEY not in caplog.text


async def test_leaving_closes_the_connection() -> None:
    ended = asyncio.Event()

    async def wait(connection: ServerConnection) -> None:
        with pytest.raises(ConnectionClosed):
            await connection.recv()
        ended.set()

    async with serving(wait) as url:
        async with sockets().connect(url, max_bytes=100):
            pass
        await ended.wait()


def test_the_double_brings_messages_at_their_time_answers_and_ends() -> None:
    async def main(clock: VirtualClock) -> None:
        opening = ConnectionScript(
            messages=("hello", DelayedMessage(5.0, "later"), DelayedMessage(1.0)), answer=lambda text: [f"ack {text}"]
        )
        double = FakeWebSocketClient(opening, AuthenticationError("401"), clock=clock)
        opener: WebSocketClient = double
        async with opener.connect("wss://lantern.test/ws", max_bytes=10) as one:
            assert await one.receive(within_s=1.0) == "hello"
            await one.send("ping")
            assert await one.receive(within_s=1.0) == "ack ping"
            with pytest.raises(ServiceUnavailableError, match="no message within 2 s"):
                await one.receive(within_s=2.0)
            assert await one.receive(within_s=60.0) == "later"
            assert clock.monotonic() == pytest.approx(5.0)
            double.connections[0].push("x" * 11)
            with pytest.raises(ServiceUnavailableError):
                await one.receive(within_s=60.0)
            with pytest.raises(ServiceUnavailableError):
                await one.send("anybody?")
        assert double.connections[0].sent == ["ping"]
        for error in (AuthenticationError, ServiceUnavailableError):
            with pytest.raises(error):
                async with opener.connect("wss://lantern.test/ws", max_bytes=10):
                    pass
        assert len(double.requested_urls) == 3

    run_in_virtual_time(main)


def test_a_waiting_reader_of_the_double_hears_what_happens_meanwhile() -> None:
    async def main(clock: VirtualClock) -> None:
        double = FakeWebSocketClient(ConnectionScript(messages=(DelayedMessage(9.0),)), clock=clock)
        async with double.connect("wss://lantern.test/ws", max_bytes=10) as one:
            reading = asyncio.create_task(one.receive(within_s=60.0))
            await clock.sleep(3.0)
            double.connections[0].push("news")
            assert await reading == "news"
            assert clock.monotonic() == pytest.approx(3.0)
            reading = asyncio.create_task(one.receive(within_s=60.0))
            with pytest.raises(ServiceUnavailableError):
                await reading
            assert clock.monotonic() == pytest.approx(9.0)

    run_in_virtual_time(main)


@pytest.mark.parametrize("address", ["169.254.169.254", "fd00:ec2::254", "168.63.129.16"])
async def test_a_host_that_leads_to_a_metadata_service_is_left_at_once(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing here can be served at such an address, so the system says that the other end has it."""
    heard: list[str] = []

    async def listen(connection: ServerConnection) -> None:
        heard.append(connection.request.path if connection.request else "")

    async with serving(listen) as url:
        monkeypatch.setattr(socket.socket, "getpeername", lambda _: (address, 80))
        error = await refused(sockets(), f"{url}?key={KEY}")
    assert isinstance(error, ConfigError)
    assert "the metadata service of a cloud" in str(error)
    assert KEY not in str(error)
    assert heard == []
