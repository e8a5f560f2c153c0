"""The pace of requests, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from bot.core.errors import ConfigError, ServiceUnavailableError, StoreError
from bot.core.venue_http import RateLimit
from bot.net.rate_limit import CLOCK_MARGIN, IN_TRANSIT_S, MAX_PAUSE_S, rate_applies, recorded_block_size
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from tests.unit.net.rate_usage_stores import URL, FakeRateUsageStore, leave, most_in_window, paced, rate


def run(main: Callable[[VirtualClock], Awaitable[object]]) -> None:
    async def awaited(clock: VirtualClock) -> None:
        await main(clock)

    run_in_virtual_time(awaited)


def test_requests_are_evenly_spaced() -> None:
    async def main(clock: VirtualClock) -> None:
        left = await leave(paced(clock, rate(10, 60.0)), 30, clock)
        assert left == pytest.approx([6.0 * number for number in range(30)], rel=2 * (CLOCK_MARGIN - 1.0), abs=1e-6)

    run(main)


def test_a_burst_leaves_at_once_and_then_spacing_holds() -> None:
    async def main(clock: VirtualClock) -> None:
        left = await leave(paced(clock, rate(10, 60.0, burst=3)), 5, clock)
        assert left == pytest.approx([0.0, 0.0, 0.0, 6.0, 12.0], abs=0.01)

    run(main)


@pytest.mark.parametrize(("count", "per_s"), [(1, 3.6), (500, 60.0), (1000, 10.0)])
def test_who_asks_without_pause_gets_what_is_allowed(count: int, per_s: float) -> None:
    async def main(clock: VirtualClock) -> None:
        times = 3 * count
        left = await leave(paced(clock, rate(count, per_s, burst=count), book=FakeRateUsageStore(clock)), times, clock)
        assert left[-1] <= 3 * per_s * CLOCK_MARGIN + 0.1
        assert most_in_window(left, per_s) <= count

    run(main)


def test_requests_leave_in_the_order_in_which_they_came() -> None:
    async def main(clock: VirtualClock) -> None:
        rates, order = paced(clock, rate(2, 1.0, max_in_flight=1)), list[int]()

        async def ask(number: int) -> None:
            async with rates.acquire("GET", URL, patience_s=60.0):
                order.append(number)
                await clock.sleep(0.3)

        await asyncio.gather(*(ask(number) for number in range(8)))
        assert order == [*range(8)]

    run(main)


def test_a_request_falls_under_the_rates_of_its_method_and_address_only() -> None:
    the = RateLimit(
        name="bets", prefixes=("https://lantern.test/v1/bets",), count=1, per_s=60.0, methods=frozenset({"POST"})
    )
    assert rate_applies(the, "POST", "https://lantern.test/v1/bets/7")
    assert not rate_applies(the, "GET", "https://lantern.test/v1/bets/7")
    assert not rate_applies(the, "POST", "https://lantern.test/v1/me")


def test_a_request_keeps_every_rate_that_it_falls_under() -> None:
    async def main(clock: VirtualClock) -> None:
        slow = RateLimit(name="slow", prefixes=(URL,), count=1, per_s=10.0)
        rates = paced(clock, rate(2, 1.0, burst=2, name="all"), slow)
        assert await leave(rates, 3, clock) == pytest.approx([0.0, 10.0, 20.0], abs=0.1)
        other = await leave(rates, 2, clock, "https://lantern.test/v1/me")
        assert other[1] - other[0] < 1.01

    run(main)


def test_two_rates_of_one_name_are_refused_and_one_named_twice_is_one() -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises(ConfigError, match="two plugins set different rate limits named lantern"):
            paced(clock, rate(1), rate(2))
        assert len(await leave(paced(clock, rate(1), rate(1)), 2, clock)) == 2

    run(main)


def test_what_is_under_no_rate_leaves_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        assert await leave(paced(clock, rate(1, 60.0)), 3, clock, "https://other.test/") == [0.0, 0.0, 0.0]

    run(main)


def test_what_leaves_is_written_down_first() -> None:
    async def main(clock: VirtualClock) -> None:
        book = FakeRateUsageStore(clock, commit_s=0.01)
        rates = paced(clock, rate(10, 60.0), book=book)
        async with rates.acquire("GET", URL, patience_s=1.0):
            assert (book.commits, book.rows["lantern"].in_flight) == (1, 1)
            assert book.free_at["lantern"] == clock.now() - timedelta(seconds=0.01) + timedelta(seconds=6)

    run(main)


def test_nothing_leaves_that_cannot_be_written_down() -> None:
    async def main(clock: VirtualClock) -> None:
        book = FakeRateUsageStore(clock, broken=True)
        rates = paced(clock, rate(1, 1.0, max_in_flight=1), book=book)
        with pytest.raises(StoreError):
            await leave(rates, 1, clock)
        book.broken = False
        assert len(await leave(rates, 1, clock)) == 1

    run(main)


def test_a_high_rate_does_not_need_a_commit_for_each_request() -> None:
    async def main(clock: VirtualClock) -> None:
        book = FakeRateUsageStore(clock)
        await leave(paced(clock, rate(1000, 10.0, burst=1000), book=book), 1000, clock)
        assert recorded_block_size(rate(1000, 10.0)) == 25
        assert book.commits == 40

    run(main)


def test_a_low_rate_is_written_down_request_by_request() -> None:
    assert [recorded_block_size(rate(count, 60.0)) for count in (1, 60, 500)] == [1, 1, 1]


@pytest.mark.parametrize("step_s", [-3600.0 * 24 * 365, -10.0, 0.0, 3600.0])
def test_a_wall_clock_that_was_set_frees_nothing_and_blocks_no_longer_than_a_window(step_s: float) -> None:
    async def main(clock: VirtualClock) -> None:
        book = FakeRateUsageStore(clock)
        await leave(paced(clock, rate(1, 60.0), book=book), 1, clock)
        await clock.sleep(20.0)
        clock.set_wall_clock(step_s)
        (left,) = await leave(paced(clock, rate(1, 60.0), book=book), 1, clock)
        assert 60.0 <= left <= 20.0 + 60.0 * CLOCK_MARGIN + IN_TRANSIT_S + 0.01

    run(main)


def test_a_long_downtime_frees_everything() -> None:
    async def main(clock: VirtualClock) -> None:
        book = FakeRateUsageStore(clock)
        await leave(paced(clock, rate(2, 60.0, burst=2), book=book), 2, clock)
        await clock.sleep(3600.0)
        # Of the second request the note knew only that it was about to leave.
        left = await leave(paced(clock, rate(2, 60.0, burst=2), book=book), 1, clock)
        assert left == [3600.0]

    run(main)


@pytest.mark.parametrize("header", [{"Retry-After": "30"}, {"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}])
def test_a_pause_that_was_asked_for_holds_for_all_requests_of_the_rate(header: dict[str, str]) -> None:
    async def main(clock: VirtualClock) -> None:
        rates = paced(clock, rate(100, 1.0, burst=100))
        async with rates.acquire("GET", URL, patience_s=60.0) as slot:
            slot.record_response(429, header)
        with pytest.raises(ServiceUnavailableError) as told:
            await rates.acquire("POST", URL, patience_s=10.0).__aenter__()
        assert told.value.retry_after_s == pytest.approx(30.0)
        assert await leave(rates, 1, clock) == pytest.approx([30.0], abs=0.01)

    run(main)


def test_a_pause_outlives_a_restart_and_a_clock_set_back_makes_it_no_longer_than_it_was() -> None:
    async def main(clock: VirtualClock) -> None:
        book, the = FakeRateUsageStore(clock), rate(100, 1.0)
        async with paced(clock, the, book=book).acquire("GET", URL, patience_s=60.0) as slot:
            slot.record_response(503, {"Retry-After": "30"})
        await clock.sleep(10.0)
        clock.set_wall_clock(-3600.0)
        (left,) = await leave(paced(clock, the, book=book), 1, clock)
        assert 30.0 <= left <= 40.1

    run(main)


def test_a_pause_for_ever_is_asked_about_again_after_a_day() -> None:
    async def main(clock: VirtualClock) -> None:
        rates = paced(clock, rate(100, 1.0))
        async with rates.acquire("GET", URL, patience_s=60.0) as slot:
            slot.record_response(429, {"Retry-After": "9" * 400})
        with pytest.raises(ServiceUnavailableError) as told:
            await rates.acquire("GET", URL, patience_s=60.0).__aenter__()
        assert told.value.retry_after_s == pytest.approx(MAX_PAUSE_S)

    run(main)


def test_refusals_without_a_wait_are_answered_by_longer_and_longer_ones_until_one_succeeds() -> None:
    async def main(clock: VirtualClock) -> None:
        rates, waits = paced(clock, rate(1000, 1.0, burst=1000)), list[float]()
        for _ in range(9):
            start = clock.monotonic()
            async with rates.acquire("GET", URL, patience_s=1e6) as slot:
                waits.append(clock.monotonic() - start)
                slot.record_response(429, {})
        ceilings = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        assert all(ceiling / 2 - 0.01 <= wait <= ceiling + 0.01 for wait, ceiling in zip(waits, ceilings, strict=True))
        await leave(rates, 1, clock)
        async with rates.acquire("GET", URL, patience_s=1e6) as slot:
            slot.record_response(429, {})
        start = clock.monotonic()
        await leave(rates, 1, clock)
        assert clock.monotonic() - start <= 1.01

    run(main)


def test_many_refusals_at_the_same_time_are_one() -> None:
    async def main(clock: VirtualClock) -> None:
        rates = paced(clock, rate(1000, 1.0, burst=1000))

        async def refused() -> None:
            async with rates.acquire("GET", URL, patience_s=1e6) as slot:
                await clock.sleep(1.0)
                slot.record_response(429, {})

        await asyncio.gather(*(refused() for _ in range(50)))
        start = clock.monotonic()
        await leave(rates, 1, clock)
        assert clock.monotonic() - start <= 2.01

    run(main)


def test_a_turn_that_was_not_used_is_given_back() -> None:
    async def main(clock: VirtualClock) -> None:
        slow, fast = (
            RateLimit(name="slow", prefixes=(URL,), count=1, per_s=100.0),
            rate(100, 1.0, name="fast", burst=100),
        )
        rates = paced(clock, slow, fast, book=FakeRateUsageStore(clock))
        async with rates.acquire("GET", "https://lantern.test/other", patience_s=60.0) as slot:
            slot.record_response(429, {"Retry-After": "50"})
        with pytest.raises(ServiceUnavailableError):
            await rates.acquire("GET", URL, patience_s=10.0).__aenter__()
        await clock.sleep(200.0)
        assert await leave(rates, 1, clock) == [200.0]

    run(main)


def test_who_gives_up_waiting_keeps_nobody_else_waiting() -> None:
    async def main(clock: VirtualClock) -> None:
        rates = paced(clock, rate(1, 10.0))
        await leave(rates, 1, clock)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await leave(rates, 1, clock)
        assert await leave(rates, 1, clock) == pytest.approx([10.0], abs=0.02)

    run(main)
