"""Rules of the end of a simulation on rows that are written by hand: resumes, reservations of calls, orders an hour."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.decision_checks import false_halt, full_hours, unreserved_calls
from tests.simulation.full_system.final_checks import early_resumes, overdue_questions
from tests.simulation.full_system.hand_written_ledger import write_ledger

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
Row = dict[str, Any]


def at(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def entry(minutes: float, kind: str, *, venue: str = "manifold", actor: str = "", **body: Any) -> Row:
    return {"at": at(minutes), "kind": kind, "venue": venue, "actor": actor, "body": body}


WRITE = entry(0.0, "write", intent="i1")
RESUME = entry(20.0, "resume", why="all writes with an unknown outcome were read back")


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([WRITE, RESUME], 1),
        ([WRITE, entry(1.0, "answer", intent="i1", state="unknown"), RESUME], 1),
        ([WRITE, entry(1.0, "answer", intent="i1", state="acked"), RESUME], 0),
        ([WRITE, entry(1.0, "answer", intent="i1", state="absent"), RESUME], 0),
        ([WRITE, entry(9.0, "adopt", actor="ada", intent="i1", state="acked"), RESUME], 0),
        ([WRITE, entry(1.0, "answer", intent="i2", state="acked"), RESUME], 1),
        ([WRITE, entry(2.0, "write", intent="i2"), RESUME], 2),
        # It was sent again after its first answer.
        ([WRITE, entry(1.0, "answer", intent="i1", state="absent"), entry(9.0, "write", intent="i1"), RESUME], 1),
        # Another venue has nothing to do with it.
        ([entry(0.0, "write", venue="metaculus", intent="i1"), RESUME], 0),
        # A person resumed it meanwhile, or all venues, or another one.
        ([WRITE, entry(9.0, "resume", actor="ada"), RESUME], 0),
        ([WRITE, entry(9.0, "resume", venue="", actor="ada", where="all"), RESUME], 0),
        ([WRITE, entry(9.0, "resume", venue="metaculus", actor="ada"), RESUME], 1),
        ([WRITE, entry(9.0, "resume", actor="ada"), entry(10.0, "write", intent="i3"), RESUME], 1),
        # After an hour nobody waits.
        ([WRITE, entry(59.9, "resume")], 1),
        ([WRITE, entry(60.0, "resume")], 0),
        # What a person does is not judged.
        ([WRITE, entry(20.0, "resume", actor="ada")], 0),
    ],
)
def test_a_venue_resumes_by_itself_once_all_its_writes_are_known(rows: list[Row], count: int) -> None:
    found = [*early_resumes(rows)]
    assert len(found) == count
    assert all(one.startswith("I12: manifold resumed by itself at 2026-03-02T1") for one in found)


def call(number: int, minutes: float, worst: float, usd: float, *, latency_s: float = 30.0, scope: str = "q1") -> Row:
    row = {"id": f"c{number}", "ref": "manifold:lamp", "scope": scope, "at": at(minutes), "latency_s": latency_s}
    return {**row, "worst_usd": worst, "usd": usd}


# A day may cost 4 dollars, and a question 2.
@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([call(1, 0.0, 1.0, 0.1), call(2, 0.1, 1.0, 0.1)], 0),
        # Two under way may cost 2, and a third one more; after the end of one it fits.
        ([call(1, 0.0, 1.0, 0.1), call(2, 0.1, 1.0, 0.1), call(3, 0.2, 1.0, 0.1)], 1),
        ([call(1, 0.0, 1.0, 0.1), call(2, 0.1, 0.9, 0.1), call(3, 0.55, 1.0, 0.1)], 0),
        ([call(1, 0.0, 1.0, 1.0), call(2, 0.1, 1.0, 0.1), call(3, 0.55, 1.0, 0.1)], 1),
        # What was spent counts for good.
        ([call(1, 0.0, 1.0, 0.9), call(2, 60.0, 1.0, 0.9), call(3, 120.0, 0.1, 0.1)], 0),
        ([call(1, 0.0, 1.0, 0.9), call(2, 60.0, 1.0, 0.9), call(3, 120.0, 0.3, 0.1)], 1),
        # Questions share the day.
        ([call(number, 0.0, 1.0, 0.1, scope=f"q{number}") for number in range(4)], 0),
        ([call(number, 0.0, 1.0, 0.1, scope=f"q{number}") for number in range(5)], 1),
        ([call(number, 900.0 * number, 2.0, 1.9, scope=f"q{number}") for number in range(4)], 0),
    ],
)
def test_a_call_begins_only_where_its_most_is_in_the_budgets(rows: list[Row], count: int) -> None:
    budgets = [{"day_usd": 3.0, "question_usd": 2.0}, {"day_usd": 4.0, "question_usd": 2.0}]
    found = [*unreserved_calls(rows, budgets)]
    assert len(found) == count
    assert all(one.startswith("budget: the call c") for one in found)
    assert not [*unreserved_calls(rows, budgets, clock_moves=[NOON, NOON + timedelta(hours=2)])]


def test_usual_budgets_hold_where_none_is_set() -> None:
    """docs/settings.md: 20 dollars a day, 5 a question."""
    assert not [*unreserved_calls([call(1, 0.0, 5.0, 5.0)], [{}])]
    assert len([*unreserved_calls([call(1, 0.0, 5.1, 5.0)], [{}])]) == 1
    each = [call(number, 60.0 * number, 5.0, 4.9, scope=f"q{number}") for number in range(5)]
    assert len([*unreserved_calls(each, [{}])]) == 1


def attempt(name: str, planned: float, started: float, **values: Any) -> Row:
    row = {"id": name, "venue": "metaculus", "ref": f"metaculus:{name}", "paper": 0, "action": "forecast"}
    return {**row, "planned_at": at(planned), "started_at": at(started), **values}


@pytest.mark.parametrize(
    ("last", "count"),
    [
        ({"planned": 30.0}, 1),
        ({"planned": 65.0}, 0),
        ({"planned": 30.0, "venue": "manifold"}, 0),
        ({"planned": 30.0, "paper": 1}, 0),
        ({"planned": 30.0, "action": "comment"}, 0),
        # It was decided in the same pass as the others, and left later.
        ({"planned": 0.0}, 0),
    ],
)
def test_so_much_is_decided_in_an_hour(last: Row, count: int) -> None:
    rows = [attempt("a", 0.0, 0.5), attempt("b", 0.0, 1.0), attempt("c", last["planned"], 66.0, **without(last))]
    assert len([*full_hours(rows, {"metaculus": 2, "manifold": 2})]) == count


def without(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "planned"}


@pytest.mark.parametrize(("unknown", "limit", "count"), [(4, 3, 0), (3, 3, 1), (4, 2, 1), (0, 3, 1)])
def test_a_venue_stops_for_more_unknown_writes_than_are_set(
    tmp_path: Path, unknown: int, limit: int, count: int
) -> None:
    tables = "create table attempt (intent, started_at, settled_at); create table intent (id, venue, mode);"
    rows: list[tuple[str, Row]] = []
    for number in range(5):
        rows.append(("intent", {"id": f"i{number}", "venue": "manifold", "mode": "live"}))
        settled = at(20.0) if number < unknown else at(5.0)
        rows.append(("attempt", {"intent": f"i{number}", "started_at": at(1.0), "settled_at": settled}))
    why = "more than 3 writes are without a known outcome, and are read back"
    halt = {"venue": "manifold", "at": at(10.0), "why": why}
    assert len([*false_halt(write_ledger(tmp_path, tables, rows), halt, {limit})]) == count


# A question is due at noon; each pass begins and ends after so many minutes.
@pytest.mark.parametrize(
    ("passes", "values", "count"),
    [
        ([], {}, 1),
        ([(10.0, 12.0)], {}, 1),
        ([(10.0, 30.0)], {}, 0),
        ([(10.0, 30.0), (60.0, 62.0)], {}, 1),
        ([(-10.0, -8.0), (10.0, 30.0)], {}, 0),
        ([(10.0, 12.0)], {"owner": "a run"}, 0),
        ([(10.0, 12.0)], {"closes_at": at(100.0)}, 0),
        ([(10.0, 12.0)], {"due_at": at(90.0)}, 0),
        ([(10.0, 12.0)], {"not_before": at(90.0)}, 0),
    ],
)
def test_what_was_due_is_forecast_by_a_pass_that_has_the_time(
    tmp_path: Path, passes: list[tuple[float, float]], values: Row, count: int
) -> None:
    tables = """
        create table schedule (ref, forecaster, owner, due_at, closes_at, not_before);
        create table job_run (job, started_at, ended_at);
    """
    due = {"ref": "manifold:rain", "forecaster": "drifter", "due_at": at(0.0), "closes_at": at(900.0)}
    runs = [("job_run", {"job": "forecast", "started_at": at(one), "ended_at": at(end)}) for one, end in passes]
    ledger = write_ledger(tmp_path, tables, [("schedule", {**due, **values}), *runs])
    late, now = NOON + timedelta(minutes=80), NOON + timedelta(minutes=120)
    assert len(overdue_questions(ledger, now=now, late=late)) == count
