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
create table alert (id, key, text, opened_at, closed_at);
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
    told: Rows = [("alert", {"key": "halt:", "text": words, "opened_at": at(2.0)})]
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


@pytest.mark.parametrize(
    ("key", "hours", "count"),
    [
        # It is over at each other look.
        ("season:sea", [(1, 2), (3, 4), (5, 6)], 1),
        ("notifier:pager", [(1, 2), (3, 4), (5, 6)], 0),
        # It lasts for some looks each time, or for long is not there.
        ("season:sea", [(1, 2), (5, 6), (9, 10)], 0),
        ("season:sea", [(1, 2), (3, None)], 0),
    ],
)
def test_what_lasts_is_not_reported_again_and_again(
    tmp_path: Path, key: str, hours: list[tuple[int, int | None]], count: int
) -> None:
    rows: Rows = [
        ("alert", {"id": first, "key": key, "text": "x", "opened_at": stamp(first), "closed_at": last and stamp(last)})
        for first, last in hours
    ]
    assert len(judge(tmp_path, rows, *range(1, 12))) == count


def stamp(hours: float) -> str:
    return at(hours).replace("+00:00", ".000000Z")
