import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.config.llm_schema import ProviderSection
from bot.llm.admission import Pace, Queue
from bot.testing.loop import VirtualClock, simulate


def test_all_of_a_hundred_are_served_five_at_a_time_in_the_order_of_arrival() -> None:
    async def main(clock: VirtualClock) -> tuple[list[int], int]:
        queue = Queue(ProviderSection(concurrency=5), clock=clock)
        served: list[int] = []
        inside, most = 0, 0

        async def ask(number: int) -> None:
            nonlocal inside, most
            async with queue.place():
                served.append(number)
                inside += 1
                most = max(most, inside)
                await clock.sleep(1 + number % 3)
                inside -= 1

        await asyncio.gather(*map(ask, range(100)))
        return served, most

    assert simulate(main) == ([*range(100)], 5)


def test_who_leaves_the_queue_or_its_place_makes_room_at_once() -> None:
    async def main(clock: VirtualClock) -> float:
        queue = Queue(ProviderSection(concurrency=1, per_minute=60), clock=clock)

        async def hang() -> None:
            async with queue.place():
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(hang()) for _ in range(3)]
        await clock.sleep(1)
        for task in tasks:
            task.cancel()
        async with queue.place():
            return clock.monotonic()

    assert simulate(main) == 1.0


def test_who_gives_up_waiting_for_a_turn_takes_none() -> None:
    async def main(clock: VirtualClock) -> float:
        pace = Pace(1, clock=clock)
        await pace.turn()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await pace.turn()
        await pace.turn()
        return clock.monotonic()

    assert simulate(main) == pytest.approx(60.0)


@settings(max_examples=50)
@given(st.integers(1, 12), st.lists(st.floats(0, 40), min_size=1, max_size=40))
def test_no_minute_has_more_requests_than_allowed_and_none_waits_without_need(
    per_minute: int, gaps: list[float]
) -> None:
    async def main(clock: VirtualClock) -> tuple[list[float], list[float]]:
        pace = Pace(per_minute, clock=clock)
        came: list[float] = []
        left: list[float] = []

        async def ask() -> None:
            came.append(clock.monotonic())
            await pace.turn()
            left.append(clock.monotonic())

        tasks = []
        for gap in gaps:
            await clock.sleep(gap)
            tasks.append(asyncio.create_task(ask()))
            await clock.sleep(0)
        await asyncio.gather(*tasks)
        return came, left

    came, left = simulate(main)
    # The earliest moments that the rule allows, reckoned without the code: each after its own arrival and the one
    # before it, and a minute after the one that is per_minute places ahead.
    earliest: list[float] = []
    for number, arrival in enumerate(came):
        before = earliest[-1] if earliest else 0.0
        minute = earliest[number - per_minute] + 60 if number >= per_minute else 0.0
        earliest.append(max(arrival, before, minute))
    assert left == pytest.approx(earliest, abs=1e-3)
