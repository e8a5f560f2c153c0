import asyncio
from datetime import timedelta

from bot.testing.clock import START, FakeClock


async def test_sleepers_wake_in_the_order_of_their_time_then_of_their_call() -> None:
    clock, woken = FakeClock(), []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 9.0), ("tie 1", 5.0), ("tie 2", 5.0), ("at once", 0.0)):
            group.create_task(sleeper(name, seconds))
        await clock.advance(10.0)
    assert woken == [("at once", 0.0), ("tie 1", 5.0), ("tie 2", 5.0), ("late", 9.0)]
    assert (clock.monotonic(), clock.now()) == (10.0, START + timedelta(seconds=10))


async def test_a_woken_sleeper_may_sleep_again_within_the_same_advance() -> None:
    clock, beats = FakeClock(), []

    async def beat() -> None:
        while True:
            await clock.sleep(3.0)
            beats.append(clock.monotonic())

    task = asyncio.create_task(beat())
    await clock.advance(10.0)
    task.cancel()
    assert beats == [3.0, 6.0, 9.0]


async def test_a_cancelled_sleeper_is_passed_over() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1.0))
    await clock.advance(0.5)
    task.cancel()
    await clock.advance(1.0)
    assert task.cancelled()


def test_a_step_moves_the_wall_clock_alone() -> None:
    clock = FakeClock()
    clock.set_wall_clock(-60.0)
    assert (clock.monotonic(), clock.now()) == (0.0, START - timedelta(seconds=60))
