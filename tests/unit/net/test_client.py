"""Real requests to a real server on the loopback interface, which misbehaves as told."""

import asyncio
import gzip
import logging
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from subprocess import run

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.clock import SeededRandom
from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.response_body import BoundedBody

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
KIB = 1024
MIB = 1024 * KIB

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


class StillClock:
    """Time stands at noon; waits are noted and take none."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return sum(self.waits)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


class FakeHttpServer:
    """Answers the n-th request with the n-th reply, the last one for ever; keeps the request heads."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.heads: list[str] = []
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.replies[min(len(self.heads), len(self.replies)) - 1](writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client hung up, which is what several tests are about
        finally:
            writer.close()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def reply(status: int, body: bytes = b"", **headers: str) -> Reply:
    async def write(writer: asyncio.StreamWriter) -> None:
        given = {"Content-Length": str(len(body)), "Connection": "close", **headers}
        lines = [f"HTTP/1.1 {status} Status", *(f"{name.replace('_', '-')}: {text}" for name, text in given.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    return write


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[FakeHttpServer]:
    server = FakeHttpServer(*replies)
    async with await asyncio.start_server(server.answer, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


@asynccontextmanager
async def reading(clock: StillClock | None = None, **limits: float) -> AsyncIterator[RetryingHttpClient]:
    chosen = HttpLimits(**{"attempts": 1, "deadline_s": 5.0, **limits})  # type: ignore[arg-type]  # names by keyword
    async with RetryingHttpClient(clock=clock or StillClock(), random=SeededRandom(1), limits=chosen) as http:
        yield http


async def failure(*replies: Reply, max_bytes: int = KIB, path: str = "/") -> FoxcastError:
    async with serving(*replies) as server, reading() as http:
        with pytest.raises(FoxcastError) as caught:
            await http.get(server.url(path), max_bytes=max_bytes)
    return caught.value


async def test_a_plain_body_is_returned() -> None:
    async with serving(reply(200, b"hello")) as server, reading() as http:
        assert await http.get(server.url(), max_bytes=5) == b"hello"
    assert "accept-encoding: gzip\r\n" in server.heads[0].lower()


async def test_a_gzip_body_is_unpacked() -> None:
    packed = gzip.compress(b"fox" * 300)
    async with serving(reply(200, packed, Content_Encoding="gzip")) as server, reading() as http:
        assert await http.get(server.url(), max_bytes=900) == b"fox" * 300


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (204, MalformedDataError),
        (304, MalformedDataError),
        (400, RequestRejectedError),
        (401, AuthenticationError),
        (403, AuthenticationError),
        (404, NotFoundError),
        (408, ServiceUnavailableError),
        (410, NotFoundError),
        (422, RequestRejectedError),
        (429, ServiceUnavailableError),
        (500, ServiceUnavailableError),
        (503, ServiceUnavailableError),
    ],
)
async def test_a_status_becomes_an_error_that_says_who_must_act(status: int, kind: type[FoxcastError]) -> None:
    assert type(await failure(reply(status))) is kind


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
        ("", 0.0),
    ],
)
async def test_the_wait_that_a_full_server_asks_for_is_kept(text: str, seconds: float) -> None:
    error = await failure(reply(429, Retry_After=text))
    assert isinstance(error, ServiceUnavailableError)
    assert error.retry_after_s == seconds


@pytest.mark.parametrize(("text", "seconds"), [("7", 7.0), ("soon", None)])
async def test_a_server_that_is_down_asks_for_a_wait_only_where_it_names_one(text: str, seconds: float | None) -> None:
    error = await failure(reply(503, Retry_After=text))
    assert isinstance(error, ServiceUnavailableError)
    assert error.retry_after_s == seconds


async def test_a_body_over_the_bound_is_refused() -> None:
    assert isinstance(await failure(reply(200, b"x" * 1025), max_bytes=1024), MalformedDataError)


async def test_a_gzip_bomb_is_refused_without_being_unpacked() -> None:
    bomb = gzip.compress(bytes(64 * MIB))
    error = await failure(reply(200, bomb, Content_Encoding="gzip"), max_bytes=MIB)
    assert isinstance(error, MalformedDataError)
    assert "larger than" in str(error)


async def test_chained_encodings_are_refused() -> None:
    twice = gzip.compress(gzip.compress(bytes(MIB)))
    assert isinstance(await failure(reply(200, twice, Content_Encoding="gzip, gzip")), MalformedDataError)


async def test_an_encoding_that_was_not_asked_for_is_refused() -> None:
    assert isinstance(await failure(reply(200, zlib.compress(b"x"), Content_Encoding="deflate")), MalformedDataError)


async def test_what_is_announced_as_gzip_must_be_gzip() -> None:
    assert isinstance(await failure(reply(200, b"plain text", Content_Encoding="gzip")), MalformedDataError)


async def test_bytes_after_the_end_of_gzip_are_refused() -> None:
    body = gzip.compress(b"one") + b"two"
    assert isinstance(await failure(reply(200, body, Content_Encoding="gzip")), MalformedDataError)


async def test_a_truncated_body_is_no_answer() -> None:
    assert isinstance(await failure(reply(200, b"half", Content_Length="8")), ServiceUnavailableError)


async def test_truncated_gzip_is_no_answer() -> None:
    body = gzip.compress(b"a long enough text to be cut")[:-9]
    assert isinstance(await failure(reply(200, body, Content_Encoding="gzip")), ServiceUnavailableError)


async def test_a_connection_that_closes_at_once_is_no_answer() -> None:
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()

    assert isinstance(await failure(hang_up), ServiceUnavailableError)


async def test_nobody_listening_is_no_answer() -> None:
    async with serving(reply(200)) as server:
        url = server.url()
    async with reading() as http:
        with pytest.raises(ServiceUnavailableError):
            await http.get(url, max_bytes=KIB)


async def test_a_dripping_server_meets_the_deadline() -> None:
    gone = asyncio.Event()

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not gone.is_set():
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)  # really dripping: no single read ever times out

    async with serving(drip) as server, reading(deadline_s=0.2) as http:
        with pytest.raises(ServiceUnavailableError, match=r"within 0\.2 s"):
            await http.get(server.url(), max_bytes=MIB)
        gone.set()


async def test_a_redirect_on_the_same_host_is_followed() -> None:
    async with serving(reply(302, Location="/there?x=1"), reply(200, b"here")) as server, reading() as http:
        assert await http.get(server.url("/from"), max_bytes=KIB) == b"here"
    assert [head.split()[1] for head in server.heads] == ["/from", "/there?x=1"]


async def test_a_redirect_to_another_host_is_refused() -> None:
    error = await failure(reply(302, Location="http://169.254.169.254/latest/meta-data"))
    assert isinstance(error, MalformedDataError)
    assert "redirects to another host" in str(error)


async def test_a_redirect_without_target_is_refused() -> None:
    assert isinstance(await failure(reply(302)), MalformedDataError)


@pytest.mark.parametrize("location", ["//[", "//example.org:99999999/x", "https://[::1"])
async def test_a_redirect_to_what_is_no_address_is_refused(location: str) -> None:
    assert isinstance(await failure(reply(302, Location=location)), MalformedDataError)


async def test_redirects_end_after_three() -> None:
    async with serving(reply(302, Location="/round")) as server, reading() as http:
        with pytest.raises(MalformedDataError, match="more than 3 redirects"):
            await http.get(server.url(), max_bytes=KIB)
    assert len(server.heads) == 4


async def test_a_read_is_repeated_until_it_succeeds() -> None:
    clock = StillClock()
    replies = (reply(503), reply(429, Retry_After="2"), reply(200, b"at last"))
    async with serving(*replies) as server, reading(clock, attempts=3, first_wait_s=0.5) as http:
        assert await http.get(server.url(), max_bytes=KIB) == b"at last"
    assert len(clock.waits) == 2
    assert 0.0 <= clock.waits[0] <= 0.5
    assert clock.waits[1] == 2.0


async def test_retries_end() -> None:
    clock = StillClock()
    async with serving(reply(503)) as server, reading(clock, attempts=4, longest_wait_s=1.0) as http:
        with pytest.raises(ServiceUnavailableError):
            await http.get(server.url(), max_bytes=KIB)
    assert len(server.heads) == 4
    assert all(0.0 <= wait <= 1.0 for wait in clock.waits)


async def test_a_long_wait_is_left_to_the_caller() -> None:
    clock = StillClock()
    async with serving(reply(429, Retry_After="3600")) as server, reading(clock, attempts=3) as http:
        with pytest.raises(ServiceUnavailableError) as caught:
            await http.get(server.url(), max_bytes=KIB)
    assert caught.value.retry_after_s == 3600
    assert (len(server.heads), clock.waits) == (1, [])


async def test_a_refusal_is_not_repeated() -> None:
    async with serving(reply(404)) as server, reading(attempts=3) as http:
        with pytest.raises(NotFoundError):
            await http.get(server.url(), max_bytes=KIB)
    assert len(server.heads) == 1


@pytest.mark.parametrize(
    "answer",
    [reply(500), reply(302, Location="http://elsewhere.invalid/?apiKey=tell-tale")],
    ids=["failure", "redirect"],
)
async def test_errors_show_the_path_but_not_the_query(answer: Reply) -> None:
    error = await failure(answer, path="/path?apiKey=tell-tale")
    assert "/path" in str(error)
    assert "tell-tale" not in str(error)


async def test_logs_do_not_show_the_query(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(reply(200, b"ok")) as server, reading() as http:
        await http.get(server.url("/path?apiKey=tell-tale"), max_bytes=KIB)
    assert "tell-tale" not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no address",
        "file:///etc/passwd",
        "ftp://example.org/",
        "https://",
        "https://user:secret@example.org/",
        "http://[::1/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1/\x00",
    ],
)
async def test_only_addresses_of_the_web_are_read(url: str) -> None:
    async with reading() as http:
        with pytest.raises(ConfigError) as caught:
            await http.get(url, max_bytes=KIB)
    assert "secret" not in str(caught.value)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving(reply(200, b"direct")) as server, reading() as http:
        assert await http.get(server.url(), max_bytes=KIB) == b"direct"


async def test_a_closed_reader_can_read_again() -> None:
    async with serving(reply(200, b"again")) as server, reading() as http:
        await http.get(server.url(), max_bytes=KIB)
        await http.aclose()
        assert await http.get(server.url(), max_bytes=KIB) == b"again"


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    closing = reply(200, b"x", Connection="keep-alive")
    async with serving(closing) as server, reading() as http:
        for _ in range(3):
            assert await http.get(server.url(), max_bytes=1) == b"x"
    assert len(server.heads) == 3


async def test_a_read_whose_kept_connection_breaks_is_sent_once_for_each_attempt() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        await reply(200, b"x", Connection="keep-alive")(writer)
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening, reading(attempts=1) as http:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        await http.get(url, max_bytes=1)
        with pytest.raises(ServiceUnavailableError, match="dropped the connection"):
            await http.get(url, max_bytes=1)
    assert len(heads) == 2


async def test_connections_that_nobody_uses_are_given_back() -> None:
    held, most, news = 0, 0, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal held, most
        held += 1
        most = max(held, most)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                # All at once, so that each has a connection of its own.
                if most == 5:
                    news.set()
                await news.wait()
                await reply(200, b"x", Connection="keep-alive")(writer)
        except asyncio.IncompleteReadError:
            held -= 1
            news.set()
        finally:
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening, reading(keepalive_s=0.05) as http:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        await asyncio.gather(*(http.get(url, max_bytes=1) for _ in range(5)))
        assert (held, most) == (5, 5)
        await asyncio.sleep(0.1)
        await http.get(url, max_bytes=1)
        while held > 1:
            news.clear()
            await news.wait()
        await http.aclose()
        while held > 0:
            news.clear()
            await news.wait()


def test_what_comes_over_the_wire_is_bounded_before_it_is_unpacked() -> None:
    collected = BoundedBody(KIB, encoding="gzip", shown="here", wire_bytes=30)
    collected.feed(bytes(gzip.compress(b"fox" * 9))[:20])
    with pytest.raises(MalformedDataError, match="larger than 1024 bytes, or 30 on the wire"):
        collected.feed(bytes(11))


def test_the_library_is_loaded_by_the_first_request_only() -> None:
    script = "import sys, bot.net.client; sys.exit('aiohttp' in sys.modules or 'numpy' in sys.modules)"
    assert run([sys.executable, "-c", script], check=False).returncode == 0


@given(body=st.binary(max_size=3000), cuts=st.lists(st.integers(0, 3000), max_size=5), room=st.integers(0, 3000))
def test_any_cutting_of_a_body_gives_the_body_or_the_bound(body: bytes, cuts: list[int], room: int) -> None:
    for encoding, wire in (("identity", body), ("gzip", gzip.compress(body))):
        places = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
        collected = BoundedBody(room, encoding=encoding, shown="here")
        try:
            for start, end in pairwise(places):
                collected.feed(wire[start:end])
        except MalformedDataError:
            assert len(body) > room
        else:
            assert collected.finish() == body
            assert len(body) <= room
