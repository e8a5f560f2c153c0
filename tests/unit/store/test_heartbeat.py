"""The heartbeat file, and what it says about a daemon that runs, ended, or was killed."""

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.store.database import instance_lock
from bot.store.heartbeat import (
    MAX_HEARTBEAT_AGE,
    DaemonCondition,
    DaemonHeartbeat,
    read_daemon_state,
    read_heartbeat,
    write_heartbeat,
)

NOON = datetime.fromisoformat("2026-03-03T12:00:00+00:00")


def test_a_heartbeat_is_read_as_it_was_written(tmp_path: Path) -> None:
    for beat in (
        DaemonHeartbeat(at=NOON, lag_p99_s=0.25, lag_max_s=0.5),
        DaemonHeartbeat(at=NOON, ended="the store needs attention: ä", failed=True),
    ):
        write_heartbeat(tmp_path, beat)
        assert read_heartbeat(tmp_path) == beat


def test_without_a_process_the_file_says_how_the_daemon_ended(tmp_path: Path) -> None:
    def condition() -> DaemonCondition:
        return read_daemon_state(tmp_path, NOON).condition

    assert condition() is DaemonCondition.NEVER
    write_heartbeat(tmp_path, DaemonHeartbeat(at=NOON))
    assert condition() is DaemonCondition.DIED
    write_heartbeat(tmp_path, DaemonHeartbeat(at=NOON, ended="asked to stop"))
    assert condition() is DaemonCondition.STOPPED
    write_heartbeat(tmp_path, DaemonHeartbeat(at=NOON, ended="disk full", failed=True))
    assert condition() is DaemonCondition.FAILED


@pytest.mark.parametrize(
    ("age", "condition"),
    [
        (timedelta(0), DaemonCondition.RUNNING),
        (MAX_HEARTBEAT_AGE, DaemonCondition.RUNNING),
        (MAX_HEARTBEAT_AGE + timedelta(seconds=1), DaemonCondition.SILENT),
        # Of an earlier daemon: the process is a single pass, or has just begun.
        (timedelta(hours=1, seconds=1), DaemonCondition.ONCE),
    ],
)
def test_of_a_running_process_the_age_of_the_heartbeat_counts(
    tmp_path: Path, age: timedelta, condition: DaemonCondition
) -> None:
    with instance_lock(tmp_path, started_at=NOON - timedelta(hours=1)):
        write_heartbeat(tmp_path, DaemonHeartbeat(at=NOON - age))
        state = read_daemon_state(tmp_path, NOON)
    assert state.condition is condition
    assert state.is_running
    assert state.holder is not None
    assert state.holder.pid == os.getpid()
