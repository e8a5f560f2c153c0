"""Work at the same time: results in order, and the first failure ends the rest."""

import asyncio

import pytest

from bot.core.concurrency import gather_all, map_concurrently, reject_unrequested_cancellation
from bot.core.errors import MalformedDataError


async def test_where_one_of_several_fails_none_of_the_others_goes_on() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        await asyncio.sleep(0)
        message = "gone"
        raise OSError(message)

    with pytest.raises(OSError, match="gone"):
        await gather_all([waits(), fails()])
    assert ended == ["waits"]


async def test_results_come_in_the_order_of_the_items_and_no_more_run_than_there_are_places() -> None:
    running = most = 0

    async def work(item: int) -> int:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        for _ in range(10 - item):
            await asyncio.sleep(0)
        running -= 1
        return item * item

    assert await map_concurrently(work, range(9), places=3) == [item * item for item in range(9)]
    assert most == 3


async def test_the_first_failure_ends_the_others_and_is_raised_alone() -> None:
    ended = []

    async def work(item: str) -> None:
        if item == "bad":
            await asyncio.sleep(0)
            raise KeyError(item)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(KeyError, match="bad"):
        await map_concurrently(work, ["good", "bad", "other"], places=3)
    assert sorted(ended) == ["good", "other"]


async def test_work_that_never_waits_is_cancelled_between_two_items() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        done.append(item)
        if item == 3:
            task.cancel()

    task = asyncio.ensure_future(map_concurrently(work, range(100), places=2))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 3 in done
    assert len(done) <= 5


async def test_a_cancellation_that_nobody_asked_for_is_an_error_and_others_pass() -> None:
    async def cancels_itself() -> None:
        with reject_unrequested_cancellation("the library"):
            raise asyncio.CancelledError

    async def waits() -> None:
        with reject_unrequested_cancellation("the library"):
            await asyncio.Event().wait()

    with pytest.raises(MalformedDataError, match="the library raised CancelledError, and nobody cancelled it"):
        await cancels_itself()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.0):
            await waits()
    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
