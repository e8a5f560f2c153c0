"""Reading at the pace of a service: redirects and repetitions count, and what one request is told holds for all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from email.utils import format_datetime

import pytest

from bot.core.clock import SeededRandom
from bot.core.errors import ServiceUnavailableError
from bot.core.venue_http import RateLimit
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.testing.clock import FakeClock
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse


class PassingClock(FakeClock):
    """Time passes for whoever waits, at once."""

    async def sleep(self, seconds: float) -> None:
        self.advance_without_waking(max(0.0, seconds))
        await super().sleep(0.0)


class FakeRateLimitedSite:
    """Answers as told, and notes when by the reader's clock."""

    def __init__(self, clock: FakeClock, *answers: ScriptedResponse) -> None:
        self.came: list[tuple[float, str, str]] = []
        self._clock = clock
        self._answers = [*answers]

    def __call__(self, request: ReceivedRequest) -> ScriptedResponse:
        self.came.append((self._clock.monotonic(), request.method, request.path))
        return self._answers.pop(0) if self._answers else ScriptedResponse(body=b"{}")

    @property
    def times(self) -> list[float]:
        return [at for at, _, _ in self.came]


@asynccontextmanager
async def reading(
    clock: FakeClock, site: FakeRateLimitedSite, make: Callable[[str], RateLimit], attempts: int = 3
) -> AsyncIterator[tuple[RetryingHttpClient, str]]:
    async with LoopbackServer(site) as server:
        random = SeededRandom(1)
        rates = RateLimiter([make(server.address)], clock=clock, random=random)
        limits = HttpLimits(attempts=attempts)
        async with RetryingHttpClient(clock=clock, random=random, limits=limits, rates=rates) as http:
            yield http, server.address


def every(seconds: float, *methods: str) -> Callable[[str], RateLimit]:
    return lambda base: RateLimit(
        name="site", prefixes=(f"{base}/v1/",), count=1, per_s=seconds, methods=frozenset(methods), max_in_flight=1
    )


async def test_reads_are_spaced_as_the_service_wants_and_others_are_not() -> None:
    clock = PassingClock()
    site = FakeRateLimitedSite(clock)
    async with reading(clock, site, every(10.0)) as (http, base):
        for path in ("/v1/a", "/v1/b", "/elsewhere", "/v1/c"):
            await http.get(base + path, max_bytes=100)
    assert site.times == pytest.approx([0.0, 10.0, 10.0, 20.0], abs=0.1)


async def test_questions_that_are_posted_keep_the_rate_too_and_methods_may_differ() -> None:
    clock = PassingClock()
    site = FakeRateLimitedSite(clock)
    async with reading(clock, site, every(10.0, "POST")) as (http, base):
        await http.post(f"{base}/v1/books", [], max_bytes=100)
        await http.get(f"{base}/v1/a", max_bytes=100)
        await http.post(f"{base}/v1/books", [], max_bytes=100)
    assert site.times == pytest.approx([0.0, 0.0, 10.0], abs=0.1)


async def test_a_redirect_is_a_request_of_its_own() -> None:
    clock = PassingClock()
    site = FakeRateLimitedSite(clock, ScriptedResponse(status=302, headers={"Location": "/v1/b"}))
    async with reading(clock, site, every(10.0)) as (http, base):
        assert await http.get(f"{base}/v1/a", max_bytes=100) == b"{}"
    assert [path for _, _, path in site.came] == ["/v1/a", "/v1/b"]
    assert site.times == pytest.approx([0.0, 10.0], abs=0.1)


async def test_a_repetition_is_a_request_of_its_own() -> None:
    clock = PassingClock()
    site = FakeRateLimitedSite(clock, ScriptedResponse(status=500), ScriptedResponse(status=502))
    async with reading(clock, site, every(100.0)) as (http, base):
        assert await http.get(f"{base}/v1/a", max_bytes=100) == b"{}"
    assert site.times == pytest.approx([0.0, 100.0, 200.0], abs=1.0)


async def test_a_wait_that_one_request_is_told_holds_for_all() -> None:
    clock = PassingClock()
    site = FakeRateLimitedSite(clock, ScriptedResponse(status=429, headers={"Retry-After": "3600"}))
    async with reading(clock, site, every(1.0), attempts=1) as (http, base):
        for _ in range(3):
            with pytest.raises(ServiceUnavailableError) as told:
                await http.get(f"{base}/v1/a", max_bytes=100)
            assert told.value.retry_after_s == pytest.approx(3600.0, abs=1.0)
        assert len(site.came) == 1
        assert await http.get(f"{base}/elsewhere", max_bytes=100) == b"{}"
        clock.advance_without_waking(3600.0)
        assert await http.get(f"{base}/v1/a", max_bytes=100) == b"{}"


async def test_a_short_wait_is_waited_for() -> None:
    clock = PassingClock()
    site = FakeRateLimitedSite(clock, ScriptedResponse(status=503, headers={"Retry-After": "7"}))
    async with reading(clock, site, every(1.0)) as (http, base):
        assert await http.get(f"{base}/v1/a", max_bytes=100) == b"{}"
    assert site.times == pytest.approx([0.0, 7.0], abs=0.1)


async def test_waiting_for_a_turn_does_not_use_up_the_deadline() -> None:
    clock = PassingClock()
    site = FakeRateLimitedSite(clock)
    async with reading(clock, site, every(3600.0)) as (http, base):
        for _ in range(3):
            await http.post(f"{base}/v1/a", None, max_bytes=100, deadline_s=5.0)
    assert site.times == pytest.approx([0.0, 3600.0, 7200.0], abs=10.0)


async def test_no_more_are_under_way_at_once_than_the_service_wants() -> None:
    clock = PassingClock()
    async with LoopbackServer(lambda _: ScriptedResponse(body=b"{}", delay_s=0.02)) as server:
        the = RateLimit(name="site", prefixes=(server.address,), count=1000, per_s=1.0, burst=1000, max_in_flight=2)
        random = SeededRandom(1)
        rates = RateLimiter([the], clock=clock, random=random)
        async with RetryingHttpClient(clock=clock, random=random, rates=rates) as http:
            await asyncio.gather(*(http.get(f"{server.address}/{number}", max_bytes=10) for number in range(20)))
        assert (server.received, server.most_in_flight) == (20, 2)


async def test_this_clock_is_held_against_the_middle_of_what_the_venue_says_and_a_step_of_it_shows_at_once() -> None:
    clock = PassingClock()
    ahead = [timedelta(seconds=seconds) for seconds in (0.0, 90.0, 0.0)]
    site = FakeRateLimitedSite(
        clock, *(ScriptedResponse(headers={"Date": format_datetime(clock.now() + by, usegmt=True)}) for by in ahead)
    )
    async with reading(clock, site, every(1.0)) as (http, base):
        assert http.clock_skew_s is None
        for _ in ahead:
            await http.get(base + "/v1/a", max_bytes=100)
        assert http.clock_skew_s == pytest.approx(0.0, abs=0.6)
        clock.set_wall_clock(600.0)
        assert http.clock_skew_s == pytest.approx(600.0, abs=0.6)
        await clock.advance(3_600.0)
        assert http.clock_skew_s == pytest.approx(600.0, abs=0.6)
