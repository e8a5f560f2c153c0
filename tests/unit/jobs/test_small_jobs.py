"""Jobs of a few lines: backups, and doing many things at once."""

import asyncio
from datetime import timedelta

import pytest

from bot.errors import StoreError
from bot.jobs.backup import BackingUp, back_up
from bot.jobs.together import together
from bot.store.backup import backups
from tests.unit.jobs.conftest import House


async def test_a_backup_is_made_and_old_ones_go(house: House) -> None:
    folder = house.path / "backups"
    parts = BackingUp(path=house.path / "ledger.sqlite", folder=folder, clock=house.clock)
    for _ in range(2):
        assert "old ones removed" not in await back_up(parts)
        await house.clock.advance(timedelta(minutes=5).total_seconds())
    assert (await back_up(parts)).endswith("1 old ones removed")
    newest, _ = [copy for copy in backups(folder, "ledger") if not copy.label]
    assert newest.made_at == house.clock.now()


async def test_a_backup_that_cannot_be_made_is_an_error(house: House) -> None:
    parts = BackingUp(path=house.path / "nothing.sqlite", folder=house.path / "backups", clock=house.clock)
    with pytest.raises(StoreError):
        await back_up(parts)


async def test_results_come_in_the_order_of_the_items_and_no_more_run_than_there_are_places() -> None:
    running = most = 0

    async def work(item: int) -> int:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        for _ in range(10 - item):
            await asyncio.sleep(0)
        running -= 1
        return item * item

    assert await together(work, range(9), places=3) == [item * item for item in range(9)]
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
        await together(work, ["good", "bad", "other"], places=3)
    assert sorted(ended) == ["good", "other"]


async def test_work_that_never_waits_is_cancelled_between_two_items() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        done.append(item)
        if item == 3:
            task.cancel()

    task = asyncio.ensure_future(together(work, range(100), places=2))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 3 in done
    assert len(done) <= 5
