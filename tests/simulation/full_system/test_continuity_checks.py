"""What goes on where something ended, judged on ledgers that are written by hand: what may not be is named."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.continuity_checks import ContinuityChecks
from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.omission_checks import JobPass
from tests.simulation.full_system.world_record import read_positions

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
REF = "metaculus:1:2"
# The columns that the checks read, of the tables that they read.
TABLES = """
create table forecast (id, ref, forecaster, version, why, started_at, ended_at, made_at, forecast_only);
create table question (ref, venue, closes_at, as_of);
create table question_version (version, body);
create table schedule (ref, forecaster, why);
create table resolution (ref, seen_at);
create table intent (seq, id, ref, venue, account, mode, action, state, planned_at, changed_at, detail);
create table attempt (intent, state, started_at, settled_at);
create table fill (intent, reference, at);
create table event (kind, text, at);
create table halt (id, venue, at, resumed_at, resumed_by, by, end_condition);
create table account_reading (id, venue, paper, at, until, equity, transfers, unconfirmed, body);
"""
VENUE: dict[str, Any] = {"mode": "live", "forecasters": ["drifter"]}
Values = dict[str, Any]


def at(hours: float) -> str:
    return (NOON + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")


def passed(job: str, *hours: float, minutes: float = 1.0) -> list[JobPass]:
    times = [NOON + timedelta(hours=one) for one in hours]
    return [JobPass(job=job, started_at=one, ended_at=one + timedelta(minutes=minutes)) for one in times]


def question(closes: float = 30.0) -> list[tuple[str, Values]]:
    return [
        ("question", {"ref": REF, "venue": "metaculus", "closes_at": at(closes)}),
        ("question_version", {"version": "v", "body": json.dumps({"title": "lit?"})}),
    ]


def judge(folder: Path, *rows: tuple[str, Values], passes: list[JobPass], **facts: Any) -> list[str]:
    """Return what is wrong with a ledger of these rows, by a table each."""
    caps = facts.pop("caps", {})
    config = {"venues": {"metaculus": {**VENUE, "caps": caps}, "manifold": {**VENUE, "caps": caps}}}
    values: Values = {"configs": [config], "clock_moves": (), "locked": (), "acts": [], **facts}
    return [*ContinuityChecks(ledger=write_ledger(folder, TABLES, rows), passes=passes, **values).violations()]


@pytest.mark.parametrize(
    ("text", "lives", "count"),
    [
        ("metaculus halted by ada [first]", (), 0),
        ("request refused, kept in /x/refused/first.json: too old", (), 0),
        ("metaculus halted by ada [second]", (), 1),
        # A life that was killed before its answer may have done it.
        ("metaculus halted by ada [second]", (0.1,), 0),
    ],
)
def test_each_request_of_a_person_has_an_answer(
    tmp_path: Path, text: str, lives: tuple[float, ...], count: int
) -> None:
    act = {"kind": "halt", "clock": NOON, "request": "first"}
    answer = ("event", {"kind": "request", "text": text, "at": at(0.2)})
    began = [NOON + timedelta(hours=one) for one in lives]
    found = judge(tmp_path, answer, passes=passed("requests", 0.2), acts=[act], lives=began)
    assert len(found) == count
    assert all("no answer" in one for one in found)


@pytest.mark.parametrize(
    ("text", "since_s", "count"),
    [
        ("the withdrawal of it is sent with the next pass of foxcast run [first]", 50.0, 1),
        # It was forecast again.
        ("the withdrawal of it is sent with the next pass of foxcast run [first]", 150.0, 0),
        ("request refused, kept in first: no forecast of it is published", 50.0, 0),
    ],
)
def test_what_a_person_takes_back_does_not_stand_in_the_end(
    tmp_path: Path, text: str, since_s: float, count: int
) -> None:
    act = {"kind": "withdraw", "ref": REF, "clock": NOON, "at_s": 100.0, "request": "first"}
    answer = ("event", {"kind": "request", "text": text, "at": at(0.0)})
    assert len(judge(tmp_path, answer, passes=[], acts=[act], standing={REF: [since_s]})) == count


@pytest.mark.parametrize(
    ("closes", "resolved", "followed", "count"),
    [(30.0, None, None, 1), (1.5, None, None, 0), (30.0, 1.5, None, 0), (30.0, None, 1.5, 0), (30.0, None, 2.5, 1)],
)
def test_a_withdrawal_that_must_wait_is_not_given_up(
    tmp_path: Path, closes: float, resolved: float | None, followed: float | None, count: int
) -> None:
    row = {"id": "i", "seq": 1, "ref": REF, "account": "a", "action": "withdraw", "state": "superseded"}
    rows = [("intent", {**row, "changed_at": at(2.0), "detail": "metaculus is halted"}), *question(closes)]
    rows += [] if resolved is None else [("resolution", {"ref": REF, "seen_at": at(resolved)})]
    after = {"id": "j", "seq": 2, "ref": REF, "account": "a", "action": "withdraw"}
    rows += [] if followed is None else [("intent", {**after, "planned_at": at(followed)})]
    assert len(judge(tmp_path, *rows, passes=[])) == count


# The first life ended after an hour while it was forecasting; the next one has a pass soon, and another hours later.
@pytest.mark.parametrize(
    ("ended", "closes", "minutes", "waits_for", "count"),
    [
        (1.55, 30.0, 5.0, "stale", 0),
        (3.55, 30.0, 5.0, "stale", 1),
        (None, 30.0, 5.0, "stale", 1),
        (0.9, 30.0, 5.0, "stale", 0),
        (3.55, 1.5, 5.0, "stale", 0),
        (3.55, 30.0, 20.0, "stale", 0),
        (3.55, 30.0, 5.0, "ServiceUnavailableError: the price cannot be read", 0),
        (3.55, 30.0, 5.0, "polymarket no longer lists it: past its end", 0),
    ],
)
def test_what_a_dead_run_held_is_free_at_the_next_start(
    tmp_path: Path, ended: float | None, closes: float, minutes: float, waits_for: str, count: int
) -> None:
    row = {"id": "f", "ref": REF, "forecaster": "drifter", "version": "v", "started_at": at(0.5), "forecast_only": 0}
    rows = [("forecast", {**row, "ended_at": None if ended is None else at(ended)}), *question(closes)]
    rows.append(("schedule", {"ref": REF, "forecaster": "drifter", "why": waits_for}))
    lives = [NOON + timedelta(hours=one) for one in (0.0, 1.0)]
    found = judge(tmp_path, *rows, passes=passed("forecast", 1.5, 3.5, minutes=minutes), lives=lives)
    assert len(found) == count
    assert all("left alone" in one for one in found)


def reading(hours: float, equity: float, **values: Any) -> tuple[str, Values]:
    row = {"venue": "manifold", "paper": 0, "at": at(hours), "until": "", "equity": equity, "body": ""}
    return "account_reading", {**row, "transfers": 0.0, "unconfirmed": 0.0, **values}


def halted(hours: float, resumed: float | None = None, **values: Any) -> tuple[str, Values]:
    row = {"id": 1, "venue": "manifold", "at": at(hours), "by": "", "end_condition": "person", "resumed_by": None}
    return "halt", {**row, "resumed_at": None if resumed is None else at(resumed), **values}


# Noon of one day, the best value in the evening before, and three lost on each of two days.
@pytest.mark.parametrize(
    ("caps", "rows", "count"),
    [
        ({"drawdown": 5.0}, [], 1),
        ({"drawdown": 7.0}, [], 0),
        ({"daily_loss": 5.0}, [], 0),
        ({"daily_loss": 2.0}, [], 1),
        ({"drawdown": 5.0}, [halted(1.01)], 0),
        # Losses count from zero once a person has resumed it.
        ({"drawdown": 5.0}, [halted(-14.0, -13.0, by="ada", resumed_by="ada")], 0),
        ({"drawdown": 5.0}, [halted(-14.0, -13.0, end_condition="settled", resumed_by="")], 1),
    ],
)
def test_a_loss_over_several_days_stops_a_venue(
    tmp_path: Path, caps: Values, rows: list[tuple[str, Values]], count: int
) -> None:
    values = [reading(-16.0, 100.0), reading(-12.5, 97.0), reading(0.0, 94.0)]
    found = judge(tmp_path, *values, *rows, passes=passed("submit", 1.0), caps=caps)
    assert len(found) == count
    assert all("did not stop it" in one for one in found)


def test_readings_that_were_thinned_out_count_too(tmp_path: Path) -> None:
    earlier = [{"venue": "manifold", "paper": 0, "at": at(-16.0), "worth": 100.0}]
    passes = passed("submit", 1.0)
    found = judge(
        tmp_path, reading(-0.5, 94.5), reading(0.0, 94.0), passes=passes, caps={"drawdown": 5.0}, readings=earlier
    )
    assert len(found) == 1


@pytest.mark.parametrize(
    ("filled", "halt", "count"),
    [
        (0.3, halted(0.0), 0),
        (2.0, halted(0.0), 1),
        (2.0, halted(0.0, 1.5), 0),
        (2.0, halted(0.0, by="ada", venue=""), 1),
        (2.0, halted(0.0, end_condition="renewed"), 0),
        # It was placed after that.
        (2.0, halted(-1.0), 0),
    ],
)
def test_nothing_is_filled_long_after_its_venue_was_halted(
    tmp_path: Path, filled: float, halt: tuple[str, Values], count: int
) -> None:
    row = {"id": "i", "ref": "manifold:lamp", "venue": "manifold", "mode": "paper", "action": "order"}
    rows = [
        ("intent", row),
        ("attempt", {"intent": "i", "started_at": at(-0.5)}),
        ("fill", {"intent": "i", "reference": "x", "at": at(filled)}),
    ]
    assert len(judge(tmp_path, *rows, halt, passes=passed("halt", 0.5, 1.0))) == count


@pytest.mark.parametrize(("mark", "decided", "count"), [(0.4, False, 0), (None, False, 1), (None, True, 0)])
def test_shares_that_had_a_price_keep_one(tmp_path: Path, mark: float | None, *, decided: bool, count: int) -> None:
    found: list[Values] = []
    for number, price in enumerate((0.5, mark)):
        position = {"contract": "lamp", "leg": "yes", "shares": 3.0, "mark": price, "decided": decided}
        (folder := tmp_path / str(number)).mkdir()
        body = json.dumps({"positions": [position]})
        found += read_positions(write_ledger(folder, TABLES, [reading(float(number), 9.0, paper=1, body=body)]))
    assert len(judge(tmp_path, passes=[], positions=found)) == count
