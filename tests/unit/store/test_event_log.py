from datetime import timedelta

import pytest

from bot.core.errors import StoreError
from bot.store.event_log import MAX_RUNS_PER_JOB, JobRunRow, LedgerEvent
from bot.store.ledger import open_ledger_read_only
from tests.unit.store.conftest import NOON, LedgerFixture

SECOND = timedelta(seconds=1)


async def test_events_are_told_newest_first_and_by_kind(ledger_fixture: LedgerFixture) -> None:
    journal = ledger_fixture.ledger.events
    for second, kind in enumerate(("start", "alarm", "stop")):
        await journal.add_event(kind, f"a {kind} \ud800", at=NOON + second * SECOND)
    assert [event.kind for event in await journal.recent(2)] == ["stop", "alarm"]
    assert await journal.recent(9, "alarm") == [LedgerEvent(at=NOON + SECOND, kind="alarm", text="a alarm \ufffd")]


async def test_the_last_run_of_each_job_is_known(ledger_fixture: LedgerFixture) -> None:
    journal = ledger_fixture.ledger.events
    for second, (name, ok) in enumerate([("score", True), ("backup", True), ("score", False)]):
        at = NOON + second * SECOND
        await journal.job_run(name, started_at=at, ended_at=at + SECOND, ok=ok, detail=f"run {second}")
    assert await journal.last_runs() == [
        JobRunRow(name="backup", started_at=NOON + SECOND, ended_at=NOON + 2 * SECOND, ok=True, detail="run 1"),
        JobRunRow(name="score", started_at=NOON + 2 * SECOND, ended_at=NOON + 3 * SECOND, ok=False, detail="run 2"),
    ]


async def test_only_the_last_thousand_runs_of_a_job_are_kept(ledger_fixture: LedgerFixture) -> None:
    journal = ledger_fixture.ledger.events
    await journal.job_run("rare", started_at=NOON, ended_at=NOON, ok=True, detail="")
    for number in range(MAX_RUNS_PER_JOB + 5):
        await journal.job_run("often", started_at=NOON, ended_at=NOON, ok=True, detail=str(number))
    rows = ledger_fixture.rows(
        "select job, count(*), min(cast(detail as integer)) from job_run group by job order by job"
    )
    assert rows == [("often", 1000, 5), ("rare", 1, 0)]


async def test_a_halt_stands_until_a_new_run_has_begun(ledger_fixture: LedgerFixture) -> None:
    journal = ledger_fixture.ledger.events
    assert await journal.resume(at=NOON) is None
    await journal.halt("the disk is full", at=NOON)
    halt = LedgerEvent(at=NOON, kind="halted", text="the disk is full")
    assert await journal.unresolved_halt() == halt
    assert await journal.resume(at=NOON + SECOND) == halt
    assert await journal.unresolved_halt() is None
    assert [event.kind for event in await journal.recent(2)] == ["resumed", "halted"]


async def test_who_reads_beside_a_daemon_cannot_declare_a_halt(ledger_fixture: LedgerFixture) -> None:
    async with open_ledger_read_only(ledger_fixture.path) as ledger:
        with pytest.raises(StoreError, match="open for reading only"):
            await ledger.events.halt("the disk is full", at=NOON)
    assert await ledger_fixture.ledger.events.unresolved_halt() is None
