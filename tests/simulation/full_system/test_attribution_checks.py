"""What the ledger says of people, judged on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.attribution_checks import AttributionChecks
from tests.simulation.full_system.hand_written_ledger import write_ledger

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# The columns that the checks read, of the tables that they read.
TABLES = """
create table halt (venue, at, by, resumed_at, resumed_by);
create table arm (id, venue, by, armed_at);
create table approval (id, venue, by, answered_at);
create table audit (at, kind, venue, actor, body);
create table intent (venue, mode, planned_at, order_body);
"""
HALT = {"venue": "manifold", "at": NOON.isoformat(), "by": "", "resumed_at": NOON.isoformat(), "resumed_by": ""}
Values = dict[str, Any]


def act(kind: str = "resume", minutes: float = -1.0, **values: Any) -> Values:
    return {"kind": kind, "by": "ada", "venue": None, "clock": NOON + timedelta(minutes=minutes), **values}


@pytest.mark.parametrize(
    ("table", "row", "acts", "count"),
    [
        ("halt", {}, [], 0),
        ("halt", {"resumed_by": "settled"}, [act()], 1),
        ("halt", {"resumed_by": "ada"}, [act()], 0),
        ("halt", {"resumed_by": "ada"}, [act(venue="metaculus")], 1),
        ("halt", {"resumed_by": "ada"}, [act(minutes=1.0)], 1),
        ("halt", {"resumed_by": "ada"}, [act(minutes=-60.0)], 1),
        ("halt", {"resumed_by": "ada"}, [act("halt")], 1),
        ("halt", {"by": "bob"}, [act("halt")], 1),
        ("halt", {"by": "ada"}, [act("halt")], 0),
        ("halt", {"by": "stop file"}, [], 0),
        ("arm", {"id": "a", "by": "bob", "armed_at": NOON.isoformat()}, [act("arm")], 1),
        ("approval", {"id": "a", "by": "bob", "answered_at": NOON.isoformat()}, [act("answer")], 1),
        ("audit", {"kind": "disarm", "actor": "bob"}, [act("disarm")], 1),
    ],
)
def test_who_is_on_record_did_it(tmp_path: Path, table: str, row: Values, acts: list[Values], count: int) -> None:
    known = {"halt": HALT, "audit": {"at": NOON.isoformat()}}.get(table, {}) | {"venue": "manifold"}
    ledger = write_ledger(tmp_path, TABLES, [(table, {**known, **row})])
    assert len([*AttributionChecks(ledger=ledger, acts=acts).violations()]) == count


def test_a_resume_near_a_clock_that_was_set_may_have_any_time(tmp_path: Path) -> None:
    ledger = write_ledger(tmp_path, TABLES, [("halt", {**HALT, "resumed_by": "ada"})])
    checks = AttributionChecks(ledger=ledger, acts=[act(minutes=-60.0)], clock_moves=[NOON])
    assert [*checks.violations()] == []


@pytest.mark.parametrize(
    ("changes", "mode", "why", "count"),
    [
        ({}, "live", "ada asked for it", 0),
        ({"kind": "answer"}, "live", "ada asked for it", 1),
        ({"kind": "answer"}, "paper", "ada asked for it", 0),
        ({"kind": "answer"}, "live", "stop-loss: selling would bring 1.00", 0),
        ({"venue": "metaculus"}, "live", "ada asked for it", 1),
        ({"actor": ""}, "live", "ada asked for it", 1),
        ({"body": '{"positions": "yes m2"}'}, "live", "ada asked for it", 1),
    ],
)
def test_a_sale_that_somebody_asked_for_is_in_the_audit(
    tmp_path: Path, changes: Values, mode: str, why: str, count: int
) -> None:
    body = json.dumps({"contract": "m1", "leg": "yes", "closing": why})
    sale = {"venue": "manifold", "mode": mode, "planned_at": NOON.isoformat(), "order_body": body}
    closed = {"at": NOON.isoformat(), "kind": "close", "venue": "manifold", "actor": "ada"}
    closed |= {"body": '{"positions": "no m2; yes m1"}', **changes}
    ledger = write_ledger(tmp_path, TABLES, [("audit", closed), ("intent", sale)])
    found = [*AttributionChecks(ledger=ledger, acts=[act()]).violations()]
    assert ["m1 at manifold" in one for one in found] == [True] * count
