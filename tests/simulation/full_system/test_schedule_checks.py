"""What was due, judged on ledgers that are written by hand: what may be is accepted, and what may not is named."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.daemon.runner import JobOutcome, JobRun
from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.schedule_checks import ScheduleChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
REF = "manifold:lamp"
# The columns that the checks read, of the tables that they read.
TABLES = """
create table forecast (id, ref, forecaster, version, state, why, started_at, ended_at, made_at, cutoff, revision,
  forecast_only);
create view latest_forecast as select * from forecast where state = 'done';
create table question (ref, venue, batch, version, first_seen_at, closes_at, as_of, changed_at);
create table question_version (version, ref, body);
create table schedule (ref, forecaster, due_at, why, owner, not_before, forecast_only, window, closes_at);
create table event (kind, text);
create table audit (kind, body);
create table approval (id, venue, state, asked_at, answered_at, expires_at);
create table trial (forecast, ended_at, body);
create table model_call (scope, at, cost_usd, worst_usd, state, latency_s, lost_at);
create table resolution (id, ref, target, kind, seen_at);
create view current_resolution as select * from resolution;
create table prediction (forecast, ref, target, scored_against);
create table intent (id, venue, batch, ref, action, forecast, planned_at);
create table attempt (intent, started_at);
"""
CONFIG: dict[str, Any] = {
    "venues": {"manifold": {"forecasters": ["drifter"]}},
    "forecasters": {"drifter": {}},
    "policy": {"min_gap_h": 2.0},
}


def at(hours: float) -> str:
    return (NOON + timedelta(hours=hours)).isoformat()


def forecast(hours: float, state: str = "done", **values: Any) -> dict[str, Any]:
    """Return a forecast that was made so many hours after noon of the first day."""
    made = {"started_at": at(hours), "ended_at": at(hours), "made_at": at(hours) if state == "done" else None}
    row = {"ref": REF, "forecaster": "drifter", "version": "v", "state": state, "why": "stale", "revision": 1}
    return {"id": f"f{hours}", **row, **made, **values}


def judge(folder: Path, rows: list[tuple[str, dict[str, Any]]], **facts: Any) -> list[str]:
    """Return what is wrong with a ledger of these rows, by a table each, a day later."""
    ledger = write_ledger(folder, TABLES, rows)
    values = {"configs": [CONFIG], "clock_moves": (), "calls": (), "locked": (), "pace": 1.0, **facts}
    return [*ScheduleChecks(ledger=ledger, now=NOON + timedelta(days=1), **values).violations()]


@pytest.mark.parametrize(
    ("second", "count"),
    [
        (forecast(1.0), 1),
        (forecast(2.0), 0),
        (forecast(1.0, version="changed"), 0),
        (forecast(1.0, why="asked for"), 0),
        (forecast(1.0, why="stale", forecast_only=1), 0),
        (forecast(1.0, forecaster="drifter_second"), 0),
    ],
)
def test_a_question_is_forecast_again_after_the_gap_unless_it_changed(
    tmp_path: Path, second: dict[str, Any], count: int
) -> None:
    assert len(judge(tmp_path, [("forecast", forecast(0.0)), ("forecast", second)])) == count


def test_failures_are_tried_again_after_longer_and_longer(tmp_path: Path) -> None:
    failed = [forecast(hours, "failed") for hours in (0.0, 0.1, 0.5)]
    (found,) = judge(tmp_path, [("forecast", row) for row in failed])
    assert "to pause 1:00:00" in found


@pytest.mark.parametrize(("third", "count"), [(0.5, 1), (0.6, 0)])
def test_failures_are_tried_again_after_half_of_what_is_left_before_the_close(
    tmp_path: Path, third: float, count: int
) -> None:
    version = ("question_version", {"version": "v", "body": json.dumps({"closes_at": at(1.1)})})
    failed = [("forecast", forecast(hours, "failed")) for hours in (0.0, 0.1, third)]
    found = judge(tmp_path, [version, *failed])
    assert ["to pause 0:30:00" in one for one in found] == [True] * count


def test_an_open_question_is_in_the_schedule_of_each_forecaster(tmp_path: Path) -> None:
    question = {"ref": REF, "venue": "manifold", "version": "v", "first_seen_at": at(0.0), "closes_at": at(48.0)}
    rows = [("question", question), ("question_version", {"version": "v", "body": json.dumps({"title": "lit?"})})]
    (found,) = judge(tmp_path, rows)
    assert "not planned for ['drifter']" in found
    for name, more in (("planned", "schedule"), ("ended", "resolution")):
        (tmp_path / name).mkdir()
        values = {"ref": REF} | ({"forecaster": "drifter"} if more == "schedule" else {})
        assert judge(tmp_path / name, [*rows, (more, values)]) == []


def test_an_outcome_is_scored_against(tmp_path: Path) -> None:
    outcome = {"id": 2, "ref": REF, "target": "outcome", "kind": "happened", "seen_at": at(-36.0)}
    rows = [("forecast", forecast(-60.0)), ("resolution", outcome)]
    for scored, count in ((2, 0), (1, 1), (None, 1)):
        (folder := tmp_path / str(scored)).mkdir()
        prediction = {"forecast": "f-60.0", "ref": REF, "target": "outcome", "scored_against": scored}
        assert len(judge(folder, [*rows, ("prediction", prediction)])) == count


def test_no_more_questions_are_forecast_at_a_time_and_no_more_steps_taken_than_may_be(tmp_path: Path) -> None:
    call = {"question": REF, "forecaster": 1, "step": 1, "from_s": 0.0, "to_s": 9.0}
    config = {**CONFIG, "daemon": {"concurrency": 1}, "limits": {"steps": 2}}
    others = [{**call, "question": f"manifold:{name}", "from_s": 1.0} for name in "ab"]
    after = {**call, "question": "manifold:c", "from_s": 9.0, "to_s": 12.0}
    for name, calls, count in (("few", [call, others[0], after], 0), ("many", [call, *others], 1)):
        (folder := tmp_path / name).mkdir()
        assert len(judge(folder, [], configs=[config], calls=calls)) == count
    (found,) = judge(tmp_path, [], configs=[config], calls=[{**call, "step": 3}])
    assert "took step 3" in found


def test_a_batch_waits_for_each_of_its_questions_until_its_last_hour(tmp_path: Path) -> None:
    question = {"venue": "bench", "batch": "b", "first_seen_at": at(-9.0)}
    sent = {"id": "i", "venue": "bench", "batch": "b", "ref": "bench:1", "action": "forecast", "forecast": "f1"}
    for closes, locked, count in ((at(9.0), (), 1), (at(0.5), (), 0), (at(9.0), ("bench:2",), 0)):
        (folder := tmp_path / f"{closes} {len(locked)}").mkdir()
        rows = [("question", {**question, "ref": f"bench:{number}", "closes_at": closes}) for number in (1, 2)]
        rows += [("forecast", forecast(-1.0, ref="bench:1")), ("intent", sent)]
        rows += [("attempt", {"intent": "i", "started_at": at(0.0)})]
        assert len(judge(folder, rows, locked=locked)) == count


def test_what_is_not_stale_is_not_withdrawn(tmp_path: Path) -> None:
    config = {**CONFIG, "policy": {"withdraw_stale": True, "stale_after_h": 4.0}}
    withdrawn = {"id": "i", "ref": REF, "action": "withdraw", "forecast": "f0.0"}
    for hours, count in ((3.0, 1), (5.0, 0)):
        (folder := tmp_path / str(hours)).mkdir()
        rows = [("forecast", forecast(0.0)), ("intent", {**withdrawn, "planned_at": at(hours)})]
        assert len(judge(folder, rows, configs=[config])) == count


# Stale after 72 hours, and due 24 and 2 hours before the close.
@pytest.mark.parametrize(
    ("closes", "due", "count"),
    [
        (200.0, 72.0, 0),
        (200.0, 70.0, 1),
        (80.0, 56.0, 0),
        (80.0, 72.0, 1),
        (25.0, 2.0, 0),
        (25.0, 1.0, 1),
        (20.0, 18.0, 0),
    ],
)
def test_what_was_forecast_is_due_again_in_time(tmp_path: Path, closes: float, due: float, count: int) -> None:
    planned = {"ref": REF, "forecaster": "drifter", "due_at": at(due), "why": "stale", "forecast_only": 0}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("schedule", planned),
        (
            "question",
            {"ref": REF, "venue": "manifold", "version": "v", "first_seen_at": at(23.9), "closes_at": at(closes)},
        ),
        ("question_version", {"version": "v", "ref": REF, "body": json.dumps({"title": "lit?"})}),
        ("forecast", {**forecast(0.0), "forecast_only": 0}),
    ]
    assert len(judge(tmp_path, rows)) == count


# Of half a dollar 0.3 are spent: a call of 0.1 waits for the others, and one of 0.3 never fits.
@pytest.mark.parametrize(
    ("worst", "more", "count"), [("0.1000", "", 1), ("0.3000", "", 0), ("0.1000", "; it waited 9 s for calls", 0)]
)
def test_no_call_is_refused_that_would_fit_once_others_are_paid(
    tmp_path: Path, worst: str, more: str, count: int
) -> None:
    text = f"the budget of the question does not allow the call: it may cost {worst} US dollars"
    body = json.dumps({"detail": f"BudgetExhaustedError: x: {text}, and 0.0500 of 0.5 are left{more}"})
    call = {"scope": "f0.0", "cost_usd": 0.15, "worst_usd": 0.2, "state": "done", "latency_s": 1.0}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("forecast", forecast(0.0, "failed", forecast_only=0)),
        ("trial", {"forecast": "f0.0", "ended_at": at(1.0), "body": body}),
        *(("model_call", {**call, "at": at(hours)}) for hours in (0.1, 0.2)),
        ("model_call", {**call, "at": at(1.0), "latency_s": 9.0}),
    ]
    found = judge(tmp_path, rows)
    assert ["was refused" in one for one in found] == [True] * count


@pytest.mark.parametrize(
    ("job", "minutes", "took_s", "count"),
    [
        ("score", [0, 60, 120, 180], 0.0, 0),
        ("score", [0, 60, 200, 260], 0.0, 1),
        ("score", [0, 60, 180, 240], 3_700.0, 0),
        ("score", [0, 10, 20, 30, 40, 50, 60], 0.0, 1),
        ("score", [0, 10, 60, 120], 0.0, 0),
        ("requests", [0, 10, 20, 30, 40, 50, 60], 0.0, 0),
        ("other", [0, 200], 0.0, 0),
    ],
)
def test_a_job_runs_as_often_as_is_set(tmp_path: Path, job: str, minutes: list[int], took_s: float, count: int) -> None:
    config = {**CONFIG, "daemon": {"score_every_s": 3_600.0, "requests_every_s": 3_600.0}}
    times = [NOON + timedelta(minutes=one) for one in minutes]
    runs = [JobRun(job=job, started_at=one, took_s=took_s, outcome=JobOutcome.DONE, detail="") for one in times]
    assert len(judge(tmp_path, [], configs=[config], runs=runs, lives=[NOON])) == count


@pytest.mark.parametrize(("moved", "count"), [([], 1), ([265], 0)])
def test_a_job_that_runs_again_when_the_clock_is_set_is_not_early(tmp_path: Path, moved: list[int], count: int) -> None:
    config = {**CONFIG, "daemon": {"score_every_s": 3_600.0}}
    times = [NOON + timedelta(minutes=one) for one in (0, 10, 60, 120, 180, 240, 250, 260, 270, 280, 290)]
    runs = [JobRun(job="score", started_at=one, took_s=0.0, outcome=JobOutcome.DONE, detail="") for one in times]
    moves = [NOON + timedelta(minutes=one) for one in moved]
    found = judge(tmp_path, [], configs=[config], runs=runs, lives=[NOON], clock_moves=moves)
    assert len(found) == count


@pytest.mark.parametrize(
    ("made", "seen", "window", "told", "count"),
    [
        (0.0, -1.0, "met", 0, 0),
        (0.0, -1.0, "missed", 1, 1),
        (2.0, -1.0, "missed", 1, 0),
        (2.0, -1.0, "missed", 0, 1),
        (2.0, -1.0, "met", 0, 1),
        (2.0, 1.5, "past", 0, 0),
    ],
)
def test_a_missed_window_is_recorded(
    tmp_path: Path, made: float, seen: float, window: str, told: int, count: int
) -> None:
    text = f"{REF}: no forecast of drifter by {at(1.0)}"
    asked = {"ref": REF, "venue": "manifold", "version": "v", "first_seen_at": at(seen), "closes_at": at(1.0)}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("schedule", {"ref": REF, "forecaster": "drifter", "window": window, "closes_at": at(1.0)}),
        ("question", asked),
        ("question_version", {"version": "v", "ref": REF, "body": json.dumps({"title": "lit?"})}),
        ("forecast", forecast(made, forecast_only=0)),
        *[("event", {"kind": "missed window", "text": text})] * told,
    ]
    assert len([one for one in judge(tmp_path, rows) if "recorded as" in one and "closed at" in one]) == count


@pytest.mark.parametrize(
    ("state", "answered", "expires", "count"),
    [
        ("asked", None, 12.0, 0),
        ("asked", None, 24.0, 1),
        ("used", 2.0, 14.0, 0),
        ("used", 2.0, 12.0, 1),
        ("expired", 2.0, 14.0, 0),
        ("rejected", 2.0, 12.0, 0),
    ],
)
def test_an_answer_is_valid_for_as_long_as_is_set(
    tmp_path: Path, state: str, answered: float | None, expires: float, count: int
) -> None:
    row = {"id": "a", "venue": "manifold", "state": state, "asked_at": at(0.0), "expires_at": at(expires)}
    row |= {} if answered is None else {"answered_at": at(answered)}
    assert len(judge(tmp_path, [("approval", row)])) == count


@pytest.mark.parametrize(("to_s", "config", "count"), [(590.0, {}, 0), (700.0, {}, 1), (700.0, {"seconds": 800.0}, 0)])
def test_a_trial_ends_in_time(tmp_path: Path, to_s: float, config: dict[str, float], count: int) -> None:
    call = {"question": REF, "forecaster": 1, "trial": 1, "life": "life 1", "cutoff": at(0.0), "step": 1}
    calls = [{**call, "from_s": 0.0, "to_s": 10.0}, {**call, "from_s": 20.0, "to_s": to_s}]
    assert len(judge(tmp_path, [], calls=calls, configs=[{**CONFIG, "limits": config}])) == count


@pytest.mark.parametrize(("closes", "count"), [(30.0, 0), (40.0, 1)])
def test_a_question_is_planned_with_its_close(tmp_path: Path, closes: float, count: int) -> None:
    known = {"ref": REF, "venue": "manifold", "version": "v", "first_seen_at": at(23.9), "closes_at": at(30.0)}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("schedule", {"ref": REF, "forecaster": "drifter", "closes_at": at(closes), "window": "open"}),
        ("question", {**known, "changed_at": at(1.0)}),
        ("question_version", {"version": "v", "ref": REF, "body": json.dumps({"title": "lit?"})}),
    ]
    assert len(judge(tmp_path, rows)) == count


# Trials end within ten minutes, one after the other, and what was cut off continues within the hour.
@pytest.mark.parametrize(
    ("hours", "values", "moved", "count"),
    [
        (0.1, {}, (), 0),
        (1.4, {}, (), 0),
        (1.6, {}, (), 1),
        (1.6, {"as_of": at(0.0)}, (), 0),
        (1.6, {}, (NOON + timedelta(hours=1),), 0),
    ],
)
def test_a_forecast_is_of_what_was_known_lately(
    tmp_path: Path, hours: float, values: dict[str, Any], moved: tuple[datetime, ...], count: int
) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [("question", {"ref": REF, "venue": "manifold", **values})]
    rows += [("forecast", forecast(hours, cutoff=at(0.0)))]
    found = judge(tmp_path, rows, clock_moves=moved)
    assert ["of what was known at" in one for one in found] == [True] * count
