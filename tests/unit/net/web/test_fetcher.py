"""Fetching over real sockets: what is sent, what is asked before, and what ends a fetch."""

import asyncio
import gzip

import pytest

from bot.core.errors import FoxcastError, MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.net.web.addresses import SystemResolver
from bot.net.web.fetcher import FetchLimits, GuardedFetcher
from bot.simulator.hostile_web import (
    PUBLIC_ADDRESS,
    PUBLIC_HOST,
    ConnectionEnding,
    HostilePage,
    HostileResponse,
    HostileWeb,
)
from bot.testing.clock import FakeClock

TEXT = (("Content-Type", "Text/HTML;  Charset=UTF-8"),)


def at(path: str, reply: HostileResponse) -> HostilePage:
    return HostilePage(name=path, family="test", url=f"http://{PUBLIC_HOST}{path}", reply=reply)


def to(location: str, *more: tuple[str, str]) -> HostileResponse:
    return HostileResponse(status=302, headers=(("Location", location), *more))


def fine(_: str) -> None:
    return None


async def test_a_page_comes_with_its_last_address_and_its_declared_type() -> None:
    packed = HostileResponse(headers=(*TEXT, ("Content-Encoding", "gzip")), body=gzip.compress(b"hello"))
    async with HostileWeb([at("/a", to("b?q=1")), at("/b", packed)]) as web, web.fetcher(FakeClock()) as fetcher:
        fetched = await fetcher.fetch(f"http://{PUBLIC_HOST}/a#top", refusal=fine)
    assert fetched.url == f"http://{PUBLIC_HOST}/b?q=1"
    assert fetched.content == b"hello"
    assert fetched.media_type == "text/html; charset=utf-8"


async def test_a_request_names_the_host_asks_for_gzip_only_and_carries_nothing_from_earlier_answers() -> None:
    pages = [at("/a", to("/b", ("Set-Cookie", "id=1"))), at("/b", HostileResponse(headers=TEXT, body=b"x"))]
    async with HostileWeb(pages) as web, web.fetcher(FakeClock()) as fetcher:
        await fetcher.fetch(f"http://{PUBLIC_HOST}/a", refusal=fine)
    assert len(web.heads) == 2
    for head in web.heads:
        lines = head.lower().split("\r\n")
        assert f"host: {PUBLIC_HOST}" in lines
        assert "accept-encoding: gzip" in lines
        assert not [line for line in lines if line.startswith(("cookie", "referer", "authorization"))]


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with (
        HostileWeb([at("/", HostileResponse(headers=TEXT, body=b"x"))]) as web,
        web.fetcher(FakeClock()) as fetcher,
    ):
        assert (await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)).content == b"x"


async def test_each_address_on_the_way_may_be_refused_before_it_is_asked_for() -> None:
    asked: list[str] = []

    def refusal(url: str) -> str | None:
        asked.append(url)
        return "it tells the outcome" if url.endswith("/c") else None

    pages = [at("/a", to("/b")), at("/b", to("/c")), at("/c", HostileResponse(headers=TEXT))]
    async with HostileWeb(pages) as web, web.fetcher(FakeClock()) as fetcher:
        with pytest.raises(RequestRejectedError, match="it tells the outcome"):
            await fetcher.fetch(f"http://{PUBLIC_HOST}/a", refusal=refusal)
    assert asked == [f"http://{PUBLIC_HOST}/{path}" for path in "abc"]
    assert [head.split()[1] for head in web.heads] == ["/a", "/b"]


async def test_a_name_is_looked_up_once_per_request_and_checked_again_after_a_redirect() -> None:
    async with HostileWeb([at("/a", to("/b"))]) as web, web.fetcher(FakeClock()) as fetcher:
        web.names[PUBLIC_HOST] = [(PUBLIC_ADDRESS,), ("127.0.0.1",)]
        with pytest.raises(RequestRejectedError, match="not public"):
            await fetcher.fetch(f"http://{PUBLIC_HOST}/a", refusal=fine)
    assert (web.looked_up, web.forbidden_connections, len(web.heads)) == ([PUBLIC_HOST, PUBLIC_HOST], 0, 1)


async def test_a_secure_page_is_asked_for_under_its_name_and_not_believed_without_a_certificate() -> None:
    hello: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello.append(await reader.read(4096))
        writer.close()

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return (PUBLIC_ADDRESS,)

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with GuardedFetcher(FakeClock(), resolver=resolve, route=lambda _, __: ("127.0.0.1", port)) as fetcher:
            with pytest.raises(ServiceUnavailableError):
                await fetcher.fetch("https://named.test/", refusal=fine)
    # The first byte of a TLS handshake, and the name in it (RFC 8446, RFC 6066).
    assert hello[0][0] == 22
    assert b"named.test" in hello[0]
    assert PUBLIC_ADDRESS.encode() not in hello[0]


async def test_no_error_shows_the_query_of_an_address() -> None:
    pages = [at("/gone", HostileResponse(status=500)), at("/lead", to("http://10.0.0.1/?key=secret"))]
    async with HostileWeb(pages) as web, web.fetcher(FakeClock()) as fetcher:
        for path in ("gone", "none", "lead"):
            with pytest.raises(FoxcastError) as caught:
                await fetcher.fetch(f"http://{PUBLIC_HOST}/{path}?key=secret", refusal=fine)
            assert "secret" not in str(caught.value)


async def test_an_unavailable_page_says_how_long_to_wait() -> None:
    reply = HostileResponse(status=503, headers=(("Retry-After", "Thu, 01 Jan 2026 00:02:00 GMT"),))
    async with HostileWeb([at("/", reply)]) as web, web.fetcher(FakeClock()) as fetcher:
        with pytest.raises(ServiceUnavailableError) as caught:
            await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)
    assert caught.value.retry_after_s == 120.0


async def test_an_address_that_does_not_answer_is_passed_over_for_the_next() -> None:
    web = HostileWeb([at("/", HostileResponse(headers=TEXT, body=b"x"))])

    def route(address: str, port: int) -> tuple[str, int]:
        # Nothing listens on port 1.
        return web.route(address, port) if address == PUBLIC_ADDRESS else ("127.0.0.1", 1)

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return ("198.41.0.4", PUBLIC_ADDRESS)

    async with web, GuardedFetcher(FakeClock(), resolver=resolve, route=route) as fetcher:
        assert (await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)).content == b"x"


async def test_many_pages_are_fetched_at_a_time_and_a_stalled_one_holds_up_none() -> None:
    limits = FetchLimits(deadline_s=0.5)
    pages = [
        at("/stall", HostileResponse(headers=TEXT, manner=ConnectionEnding.STALL)),
        at("/", HostileResponse(headers=TEXT, body=b"x")),
    ]
    async with HostileWeb(pages) as web, web.fetcher(FakeClock(), limits) as fetcher:
        stalled = asyncio.create_task(fetcher.fetch(f"http://{PUBLIC_HOST}/stall", refusal=fine))
        found = await asyncio.gather(*(fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine) for _ in range(40)))
        assert {each.content for each in found} == {b"x"}
        with pytest.raises(ServiceUnavailableError, match=r"0\.5 s"):
            await stalled


async def test_the_resolver_of_the_system_answers_with_addresses_or_says_that_there_are_none() -> None:
    resolve = SystemResolver()
    assert set(await resolve("localhost", 80)) <= {"127.0.0.1", "::1"}
    with pytest.raises(ServiceUnavailableError, match="no address"):
        await resolve("a" * 70 + ".invalid", 80)


async def test_without_a_resolver_of_its_own_nothing_inside_is_reached() -> None:
    async with GuardedFetcher(FakeClock()) as fetcher:
        for url in ("http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://169.254.169.254/"):
            with pytest.raises(RequestRejectedError):
                await fetcher.fetch(url, refusal=fine)


def chunked(chunks: bytes, before: bytes = b"") -> HostileResponse:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    return HostileResponse(raw=before + head, body=chunks + b"0\r\n\r\n")


async def test_a_body_in_many_pieces_is_read_whole_while_others_get_their_turn() -> None:
    class Counting(FakeClock):
        gaps = 0

        async def sleep(self, seconds: float) -> None:
            self.gaps += 1
            await super().sleep(seconds)

    clock = Counting()
    web = HostileWeb([at("/", chunked(b"2\r\nab\r\n" * 4000))])
    async with web, web.fetcher(clock) as fetcher:
        assert (await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)).content == b"ab" * 4000
    assert clock.gaps >= 10


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (chunked(b"1\r\na\r\n" * 9000), "chunks"),
        (chunked((b"1;" + b"x" * 15_000 + b"\r\na\r\n") * 100), "over the wire"),
        (chunked(b"1\r\na\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 20), "interim responses"),
    ],
)
async def test_what_costs_more_to_read_than_it_holds_is_given_up(reply: HostileResponse, why: str) -> None:
    async with HostileWeb([at("/", reply)]) as web, web.fetcher(FakeClock()) as fetcher:
        with pytest.raises(MalformedDataError, match=why):
            await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)


async def test_a_few_hints_before_a_page_are_passed_over() -> None:
    reply = chunked(b"1\r\na\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 3)
    async with HostileWeb([at("/", reply)]) as web, web.fetcher(FakeClock()) as fetcher:
        assert (await fetcher.fetch(f"http://{PUBLIC_HOST}/", refusal=fine)).content == b"a"
