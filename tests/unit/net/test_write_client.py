"""The wire over real loopback sockets: what is known to have stayed here, and what may have arrived."""

import asyncio
import gzip
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import FoxcastError, MalformedDataError, RequestRejectedError, ServiceUnavailableError, StoreError
from bot.core.venue_http import HttpRequest, HttpResponse, RateLimit
from bot.net.rate_limit import RateLimiter, RateUsage, RateUsageStore
from bot.net.write_client import HttpWriteClient
from tests.unit.net.raw_server import Manner, RawServer, http, saying, serving

KEY = "canary-5f1d0b7e"
BODY = b'{"amount":10,"secret":"body-canary-77"}'


@asynccontextmanager
async def wired(
    *rates: RateLimit, book: RateUsageStore | None = None, holds: Callable[[], str | None] | None = None
) -> AsyncIterator[HttpWriteClient]:
    paced = RateLimiter(rates, clock=SystemClock(), random=SeededRandom(1), store=book)
    async with HttpWriteClient(rates=paced, halt_check=holds) as wire:
        yield wire


def post(url: str, **headers: str) -> HttpRequest:
    return HttpRequest(method="POST", url=url, headers={"Authorization": f"Key {KEY}", **headers}, body=BODY)


async def send(wire: HttpWriteClient, request: HttpRequest, *, deadline_s: float = 5.0) -> HttpResponse:
    return await wire.send(request, max_bytes=1000, deadline_s=deadline_s)


async def failure(manner: Callable[[RawServer], Manner], *, deadline_s: float = 5.0) -> FoxcastError:
    async with serving(manner) as server, wired() as wire:
        with pytest.raises(FoxcastError) as told:
            await send(wire, post(f"{server.base}/bets?key={KEY}"), deadline_s=deadline_s)
        return told.value


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


async def test_one_request_is_written_as_it_was_given() -> None:
    async with serving(saying(http(200, b"done", "X-Id: 7", "X-ID: 8"))) as server, wired() as wire:
        reply = await send(wire, post(f"{server.base}/bets?a=1", **{"X-Signature": "abc"}))
    assert reply == HttpResponse(status=200, headers={"content-length": "4", "x-id": "7, 8"}, body=b"done")
    head, _, body = server.heard[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /bets?a=1 HTTP/1.1"
    assert {line.lower() for line in lines[1:]} >= {
        f"authorization: key {KEY}",
        "x-signature: abc",
        f"content-length: {len(BODY)}",
        "accept-encoding: identity",
        "user-agent: foxcast",
    }
    assert body == BODY


@pytest.mark.parametrize("status", [201, 204, 301, 307, 400, 401, 403, 404, 409, 429, 500, 502, 503])
async def test_an_answer_of_whatever_status_is_returned_and_neither_followed_nor_repeated(status: int) -> None:
    async with serving(saying(http(status, b"", "Location: /elsewhere", "Retry-After: 1"))) as server, wired() as wire:
        assert (await send(wire, post(f"{server.base}/bets"))).status == status
    assert len(server.heard) == 1


async def test_a_redirect_to_what_is_no_address_is_an_answer_too() -> None:
    async with serving(saying(http(302, b"", "Location: http://[::1"))) as server, wired() as wire:
        reply = await send(wire, post(f"{server.base}/bets"))
    assert (reply.status, reply.headers["location"]) == (302, "http://[::1")


async def test_cookies_are_not_kept() -> None:
    async with serving(saying(http(200, b"", "Set-Cookie: session=1"))) as server, wired() as wire:
        await send(wire, post(f"{server.base}/bets"))
        await send(wire, post(f"{server.base}/bets"))
    assert b"cookie" not in server.heard[1].lower()


async def test_each_request_has_a_connection_of_its_own() -> None:
    def manner(server: RawServer) -> Manner:
        async def keep_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await server.read(reader):
                writer.write(http(200))

        return keep_alive

    async with serving(manner) as server, wired() as wire:
        await send(wire, post(f"{server.base}/bets"))
        await send(wire, post(f"{server.base}/bets"))
        assert server.connections == 2


async def test_a_refused_connection_sent_nothing() -> None:
    async with wired() as wire:
        with pytest.raises(RequestRejectedError, match="nothing was sent"):
            await send(wire, post(f"http://127.0.0.1:{free_port()}/bets"))


async def test_a_name_that_nobody_knows_sent_nothing() -> None:
    async with wired() as wire:
        with pytest.raises(RequestRejectedError, match="nothing was sent"):
            await send(wire, post("https://nobody.invalid/bets"))


async def test_failed_encryption_sent_nothing() -> None:
    heard = bytearray()

    def manner(_: RawServer) -> Manner:
        async def no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.extend(await reader.read(4096))
            writer.write(b"HTTP/1.1 400 This is no TLS\r\n\r\n")

        return no_tls

    async with serving(manner) as server, wired() as wire:
        with pytest.raises(RequestRejectedError, match="nothing was sent"):
            await send(wire, post(server.base.replace("http:", "https:") + "/bets"))
    assert heard
    assert KEY.encode() not in heard


async def test_a_handshake_that_hangs_until_the_deadline_sent_nothing() -> None:
    def manner(_: RawServer) -> Manner:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        return silent

    async with serving(manner) as server, wired() as wire:
        with pytest.raises(RequestRejectedError, match="nothing was sent"):
            await send(wire, post(server.base.replace("http:", "https:") + "/bets"), deadline_s=0.2)


async def test_a_connection_dropped_before_it_was_read_may_have_arrived() -> None:
    def manner(_: RawServer) -> Manner:
        async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        return drop

    assert isinstance(await failure(manner), ServiceUnavailableError)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"HTTP/1.1 200",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"half"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nhal"),
        (b"\x00\x01\x02 this is no HTTP\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n",),
    ],
    ids=["no answer", "half a line", "half a body", "half a chunk", "garbage", "nonsense"],
)
@pytest.mark.parametrize("abort", [True, False], ids=["reset", "closed"])
async def test_an_answer_that_is_not_whole_says_that_it_may_have_arrived(
    parts: tuple[bytes, ...], *, abort: bool
) -> None:
    error = await failure(saying(*parts, abort=abort))
    assert isinstance(error, ServiceUnavailableError)
    assert str(error).endswith("it may have arrived")


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
async def test_a_slow_drip_meets_the_deadline(head: bytes) -> None:
    def manner(server: RawServer) -> Manner:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read(reader)
            writer.write(head)
            while not reader.at_eof():
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.005)  # really dripping: no single read ever times out

        return drip

    error = await failure(manner, deadline_s=0.2)
    assert isinstance(error, ServiceUnavailableError)
    assert "no complete response within 0.2 s" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        http(200, b"x" * 1001),
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000,
        http(200, gzip.compress(b"x" * 10_000_000, mtime=0), "Content-Encoding: gzip"),
    ],
    ids=["announced", "until the end", "gzip bomb"],
)
async def test_an_answer_beyond_the_bound_breaks_the_contract(body: bytes) -> None:
    error = await failure(saying(body))
    assert isinstance(error, MalformedDataError)
    assert "status 200: the body is larger than 1000 bytes" in str(error)


async def test_an_answer_of_the_bound_is_returned() -> None:
    async with serving(saying(http(200, b"x" * 1000))) as server, wired() as wire:
        assert (await send(wire, post(f"{server.base}/bets"))).body == b"x" * 1000


async def test_gzip_that_was_not_asked_for_is_unpacked() -> None:
    answer = http(403, gzip.compress(b"no", mtime=0), "Content-Encoding: gzip")
    async with serving(saying(answer)) as server, wired() as wire:
        assert (await send(wire, post(f"{server.base}/bets"))).body == b"no"


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(b"x", "br"), (b"xyz", "gzip"), (gzip.compress(b"no", mtime=0) + b"more", "gzip"), (b"x", "gzip, gzip")],
)
async def test_what_cannot_be_unpacked_breaks_the_contract(body: bytes, encoding: str) -> None:
    error = await failure(saying(http(200, body, f"Content-Encoding: {encoding}")))
    assert isinstance(error, MalformedDataError)


async def test_gzip_that_was_cut_short_may_have_arrived() -> None:
    cut = gzip.compress(b"a long enough text to be cut", mtime=0)[:-9]
    error = await failure(saying(http(200, cut, "Content-Encoding: gzip")))
    assert isinstance(error, ServiceUnavailableError)
    assert str(error).endswith("/bets: status 200: the body was cut short; it may have arrived")


def to(url: str, method: str = "POST", **headers: str) -> HttpRequest:
    return HttpRequest(
        method=method, url=url, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


BETS = "https://lantern.test/bets"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (to("http://lantern.test/bets"), "only https"),
        (to("http://127.0.0.1.lantern.test/bets"), "only https"),
        (to("ftp://127.0.0.1/bets"), "only https"),
        (to("https://me:secret@lantern.test/bets"), "malformed"),
        (to("https:///bets"), "malformed"),
        (to("https://[::1/bets"), "malformed"),
        (to("https://lantern.test:99999/bets"), "malformed"),
        (to("https://lantern.test/b\u00e4ts"), "malformed"),
        (to("https://lantern.test/b\x00ts"), "malformed"),
        (to(BETS, "post it"), "cannot be sent"),
        (to(BETS, X_A="b\r\nX-C: d"), "cannot be sent"),
        (to(BETS, **{"X A": "b"}), "cannot be sent"),
        (to(BETS, X_A="\u20ac"), "cannot be sent"),
        (to(BETS, Content_Length="3"), "cannot be sent"),
        (to(BETS, transfer_encoding="chunked"), "cannot be sent"),
        (to(BETS, Host="other.test"), "cannot be sent"),
    ],
    ids=lambda given: given.method + given.url + str(dict(given.headers)) if isinstance(given, HttpRequest) else given,
)
async def test_what_must_not_or_cannot_be_sent_is_refused_before_any_connection(
    request_: HttpRequest, why: str
) -> None:
    async with wired() as wire:
        with pytest.raises(RequestRejectedError, match=why):
            await send(wire, request_)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = f"http://127.0.0.1:{free_port()}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
    async with serving(saying(http(200))) as server, wired() as wire:
        assert (await send(wire, post(f"{server.base}/bets"))).status == 200


@pytest.mark.parametrize(
    "manner",
    [
        saying(abort=True),
        saying(http(200, b"x" * 2000, f"Set-Cookie: session={KEY}")),
        saying(b"garbage\r\n\r\n"),
    ],
    ids=["reset", "big", "odd"],
)
async def test_neither_errors_nor_logs_show_headers_bodies_or_queries(
    manner: Callable[[RawServer], Manner], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for library in ("httpx", "httpcore"):
        logging.getLogger(library).setLevel(logging.NOTSET)
    error = await failure(manner)
    told = "".join(traceback.format_exception(error)) + caplog.text
    assert KEY not in told
    assert "body-canary" not in told
    seen: BaseException | None = error
    while seen is not None:  # nothing in the chain holds the request of the library
        assert not hasattr(seen, "request")
        seen = seen.__cause__ or seen.__context__


async def test_requests_of_one_account_follow_one_another() -> None:
    under_way = most = 0

    def manner(server: RawServer) -> Manner:
        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal under_way, most
            await server.read(reader)
            under_way += 1
            most = max(most, under_way)
            for _ in range(20):
                await asyncio.sleep(0)
            under_way -= 1
            writer.write(http(200))

        return slow

    async with serving(manner) as server:
        the = RateLimit(name="writes", prefixes=(server.base,), count=1000, per_s=1.0, burst=1000, max_in_flight=1)
        async with wired(the) as wire:
            await asyncio.gather(*(send(wire, post(f"{server.base}/bets")) for _ in range(5)))
    assert (len(server.heard), most) == (5, 1)


async def test_a_pause_that_is_longer_than_the_deadline_sends_nothing() -> None:
    async with serving(saying(http(429, b"", "Retry-After: 3600"))) as server:
        the = RateLimit(name="writes", prefixes=(server.base,), count=1000, per_s=1.0, burst=1000)
        async with wired(the) as wire:
            assert (await send(wire, post(f"{server.base}/bets"))).status == 429
            with pytest.raises(RequestRejectedError, match="asked for a pause; 3600 s are left; nothing was sent"):
                await send(wire, post(f"{server.base}/bets"))
    assert len(server.heard) == 1


async def test_a_turn_that_does_not_come_in_time_sends_nothing() -> None:
    async with serving(saying(http(200))) as server:
        the = RateLimit(name="writes", prefixes=(server.base,), count=1, per_s=3600.0)
        async with wired(the) as wire:
            await send(wire, post(f"{server.base}/bets"))
            with pytest.raises(
                RequestRejectedError,
                match=r"no slot of the rate limits or no connection within 0\.1 s; nothing was sent",
            ):
                await send(wire, post(f"{server.base}/bets"), deadline_s=0.1)
    assert len(server.heard) == 1


async def test_nothing_is_sent_that_cannot_be_written_down() -> None:
    class FullDisk:
        async def load(self, name: str) -> RateUsage | None:
            return None

        async def save(self, name: str, spent: RateUsage, *, free_at: object) -> None:
            message = "the disk is full"
            raise StoreError(message)

    async with serving(saying(http(200))) as server:
        the = RateLimit(name="writes", prefixes=(server.base,), count=1, per_s=1.0)
        async with wired(the, book=FullDisk()) as wire:
            with pytest.raises(StoreError):
                await send(wire, post(f"{server.base}/bets"))
    assert server.connections == 0


async def test_while_all_is_halted_nothing_leaves_but_what_takes_something_back() -> None:
    async with serving(saying(http(200))) as server, wired(holds=lambda: "halted by STOP: flood") as wire:
        with pytest.raises(RequestRejectedError, match="halted by STOP: flood; nothing was sent"):
            await send(wire, post(f"{server.base}/bets"))
        assert server.heard == []
        reply = await send(wire, replace(post(f"{server.base}/cancel"), is_cancellation=True))
    assert (reply.status, len(server.heard)) == (200, 1)


async def test_a_halt_while_a_request_waits_for_its_turn_keeps_it_here() -> None:
    """The brake is asked when the turn has come, and not before."""
    rate = RateLimit(name="one at a time", prefixes=("http://",), count=100, per_s=1.0, burst=100, max_in_flight=1)
    heard: list[bytes] = []
    # Halted by the time that the first has been heard; both began before.
    async with serving(saying(http(200))) as server, wired(rate, holds=lambda: "halted" if heard else None) as wire:
        heard = server.heard
        sent = [asyncio.create_task(send(wire, post(f"{server.base}/{number}"))) for number in (1, 2)]
        first, second = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(first, HttpResponse)
    assert isinstance(second, RequestRejectedError)
    assert len(server.heard) == 1
