"""What people are told, judged on ledgers that are written by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.alert_checks import AlertChecks
from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.omission_checks import JobPass

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# The columns that the checks read, of the tables that they read.
TABLES = """
create table halt (venue, why, at, resumed_at);
create table approval (id, asked_at, expires_at, answered_at);
create table intent (id, state, changed_at);
create table alert (text, opened_at);
create table notification (id, channel, state, at, due_at, ended_at);
"""
Rows = list[tuple[str, dict[str, Any]]]


def at(hours: float) -> str:
    return (NOON + timedelta(hours=hours)).isoformat()


def judge(folder: Path, rows: Rows, *hours: float) -> list[str]:
    times = [NOON + timedelta(hours=one) for one in hours]
    passes = [JobPass(job="alerts", started_at=one, ended_at=one) for one in times]
    checks = AlertChecks(ledger=write_ledger(folder, TABLES, rows), passes=passes, messages={"got"})
    return [*checks.violations()]


HALT: Rows = [("halt", {"venue": "manifold", "why": "9.00 was lost today", "at": at(0.0)})]
ASKED: Rows = [("approval", {"id": "abc", "asked_at": at(0.0), "expires_at": at(12.0)})]
DOUBT: Rows = [("intent", {"id": "i", "state": "in doubt", "changed_at": at(0.0)})]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (HALT, "manifold: 9.00 was lost today; resume"),
        (ASKED, "approve abc"),
        (DOUBT, "1 submission has no known outcome"),
    ],
)
def test_what_breaks_is_reported_once_somebody_looked(tmp_path: Path, rows: Rows, words: str) -> None:
    told: Rows = [("alert", {"text": words, "opened_at": at(2.0)})]
    for name, more, hours, count in (("none", [], (), 0), ("told", told, (2.0,), 0), ("untold", [], (2.0,), 1)):
        (folder := tmp_path / name).mkdir()
        assert len(judge(folder, [*rows, *more], *hours)) == count


def test_what_was_over_before_anybody_looked_is_not_missed(tmp_path: Path) -> None:
    over: Rows = [("halt", {**HALT[0][1], "resumed_at": at(2.5)})]
    assert judge(tmp_path, over, 2.0) == []


@pytest.mark.parametrize(
    ("name", "state", "due", "count"),
    [
        ("got", "delivered", 0.0, 0),
        ("lost", "delivered", 0.0, 1),
        ("lost", "dropped", 0.0, 0),
        ("lost", "waiting", 0.0, 1),
        ("lost", "waiting", 1.5, 0),
    ],
)
def test_each_message_arrives(tmp_path: Path, name: str, state: str, due: float, count: int) -> None:
    row = {"id": name, "channel": "pager", "state": state, "at": at(0.0), "due_at": at(due)}
    assert len(judge(tmp_path, [("notification", row)], 2.0)) == count
