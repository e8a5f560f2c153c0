"""Reports of the daemon in a real ledger, up to the last one that a full database takes."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.core.predictions import BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.daemon.recorder import DaemonRecorder, JobRunCollector
from bot.daemon.runner import ClockStep, HeartbeatRecord, JobOutcome, JobRun
from bot.store.database import instance_lock
from bot.store.heartbeat import HEARTBEAT_FILE, DaemonCondition, read_daemon_state, read_heartbeat
from bot.store.ledger import Ledger, open_ledger
from bot.store.schedule import DueEntry
from bot.testing.clock import START

LEASE = timedelta(minutes=15)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    async with open_ledger(tmp_path / "ledger.sqlite", now=START) as ledger:
        yield ledger


@pytest.fixture
def recorder(ledger: Ledger, tmp_path: Path) -> DaemonRecorder:
    return DaemonRecorder(ledger, tmp_path)


def run(detail: str = "3 forecasts made") -> JobRun:
    return JobRun(job="forecast", started_at=START, took_s=2.0, outcome=JobOutcome.DONE, detail=detail)


def beat() -> HeartbeatRecord:
    return HeartbeatRecord(at=START, monotonic_s=1.0, lag_p99_s=0.0, lag_max_s=0.1)


async def test_a_run_is_kept_with_its_end(recorder: DaemonRecorder, ledger: Ledger) -> None:
    await recorder(run())
    [kept] = await ledger.events.last_runs()
    assert (kept.name, kept.ended_at, kept.ok) == ("forecast", START + timedelta(seconds=2), True)


async def test_a_pass_remembers_its_runs_and_a_daemon_does_not(recorder: DaemonRecorder, ledger: Ledger) -> None:
    tally = JobRunCollector(recorder)
    await tally(run("first"))
    await tally(beat())
    await tally(run("second"))
    assert tally.runs == [run("first"), run("second")]
    [last] = await ledger.events.last_runs()
    assert last.detail == "second"
    assert not hasattr(recorder, "runs")


async def test_the_last_heartbeat_is_found_again(recorder: DaemonRecorder, tmp_path: Path) -> None:
    assert read_heartbeat(tmp_path) is None
    await recorder(beat())
    found = read_heartbeat(tmp_path)
    assert found is not None
    assert found.at == START


async def test_a_daemon_has_a_heartbeat_from_its_start(recorder: DaemonRecorder, tmp_path: Path) -> None:
    with instance_lock(tmp_path, started_at=START):
        assert read_daemon_state(tmp_path, START).condition is DaemonCondition.ONCE
        await recorder.record_start(START)
        assert read_daemon_state(tmp_path, START).condition is DaemonCondition.RUNNING


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"at": 3}', '{"at": "noon"}'])
def test_an_unreadable_heartbeat_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / HEARTBEAT_FILE).write_text(text)
    assert read_heartbeat(tmp_path) is None


@pytest.mark.parametrize("hours", [-1, 1])
async def test_leases_keep_their_length_when_the_clock_is_set(
    recorder: DaemonRecorder, ledger: Ledger, hours: int
) -> None:
    asked = Question(ref=QuestionRef("lantern", "rain"), title="?", shape=BinaryShape(), targets=(Target(),))
    await ledger.questions.record([asked], seen_at=START)
    await ledger.schedule.plan(
        [DueEntry(ref=asked.ref, forecaster="plain", due_at=START - timedelta(days=1), why="new")]
    )
    await ledger.schedule.claim(now=START, owner="me", lease=LEASE, limit=1)
    now = START + timedelta(hours=hours)
    await recorder(ClockStep(at=now, seconds=hours * 3600.0))
    early = now + LEASE - timedelta(seconds=1)
    assert await ledger.schedule.claim(now=early, owner="other", lease=LEASE, limit=1) == []
    [claim] = await ledger.schedule.claim(now=now + LEASE, owner="other", lease=LEASE, limit=1)
    assert claim.ref == asked.ref
    [event] = await ledger.events.recent(9, "clock")
    assert event.text == f"the wall clock was set by {hours * 3600:+.1f} s, 1 leases were moved by the same time"


async def test_what_a_full_database_does_not_take_is_followed_by_one_halt(
    recorder: DaemonRecorder, ledger: Ledger
) -> None:
    await _allow_no_growth(ledger)
    for _ in range(2):
        with pytest.raises(StoreError, match="the disk is full"):
            await recorder(run(detail="x" * 100_000))
    [halt] = await ledger.events.recent(9, "halted")
    assert halt == await ledger.events.unresolved_halt()
    assert "free some space, then start again" in halt.text


async def test_a_heartbeat_that_cannot_be_written_is_followed_by_a_halt(
    recorder: DaemonRecorder, ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / HEARTBEAT_FILE).mkdir()
    with pytest.raises(StoreError, match="check the disk"):
        await recorder(beat())
    assert await ledger.events.unresolved_halt() is not None


async def test_a_disk_that_takes_no_word_still_says_why(ledger: Ledger, tmp_path: Path) -> None:
    await _allow_no_growth(ledger)
    recorder = DaemonRecorder(ledger, tmp_path)
    with pytest.raises(StoreError):
        await ledger.events.add_event("filler", "x" * 100_000, at=START)
    with pytest.raises(StoreError):
        await ledger.events.halt("x" * 100_000, at=START)
    with pytest.raises(StoreError, match="the disk is full"):
        await recorder(run())


async def _allow_no_growth(ledger: Ledger) -> None:
    """Let SQLite itself refuse any further page, as a disk does that is full."""
    await ledger.events.writer.run(
        lambda database: database.execute("pragma attached.max_page_count = 1").fetchone()  # at least what there is
    )
