"""Why forecasts are made and on what, judged on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.omission_checks import JobPass
from tests.simulation.full_system.renewal_checks import RenewalChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
REF = "manifold:lamp"
# The columns that the checks read, of the tables that they read.
TABLES = """
create table forecast (id, ref, forecaster, revision, state, why, version, price, cutoff, made_at, started_at, ended_at,
  forecast_only);
create table question (ref, venue, title, closes_at, as_of, first_seen_at);
create table question_version (version, ref, seen_at, body);
create table resolution (ref, seen_at);
create table price (id, ref, at, seen_at, probability, body);
create table schedule (ref, forecaster, why);
create table intent (id, ref, forecast, action, order_body);
"""
CONFIG: dict[str, Any] = {
    "venues": {"manifold": {"forecasters": ["drifter"]}},
    "policy": {"stale_after_h": 6.0, "near_close_h": [2.0], "min_gap_h": 1.0, "price_move": 0.5},
}
Rows = list[tuple[str, dict[str, Any]]]


def at(hours: float) -> str:
    return (NOON + timedelta(hours=hours)).isoformat()


def forecast(hours: float, revision: int = 1, why: str = "new question", **values: Any) -> tuple[str, dict[str, Any]]:
    row = {"id": f"f{revision}", "ref": REF, "forecaster": "drifter", "state": "done", "version": "v", "price": 1}
    times = dict.fromkeys(("made_at", "started_at", "ended_at", "cutoff"), at(hours))
    return "forecast", {**row, **times, "revision": revision, "why": why, "forecast_only": 0, **values}


def question(ref: str = REF, closes: float = 30.0, version: str = "v", seen: float = -0.5) -> Rows:
    body = json.dumps({"title": "lit?", "closes_at": at(closes)})
    known = {"ref": ref, "venue": "manifold", "title": "lit?", "closes_at": at(closes), "first_seen_at": at(seen)}
    return [
        ("question", known),
        ("question_version", {"version": version, "ref": ref, "seen_at": at(seen), "body": body}),
    ]


def price(number: int, hours: float, chance: float) -> tuple[str, dict[str, Any]]:
    return "price", {"id": number, "ref": REF, "at": at(hours), "seen_at": at(hours), "probability": chance}


def passed(job: str, *hours: float) -> list[JobPass]:
    times = [NOON + timedelta(hours=one) for one in hours]
    return [JobPass(job=job, started_at=one, ended_at=one + timedelta(minutes=1)) for one in times]


def judge(folder: Path, rows: Rows, passes: list[JobPass] | None = None, **facts: Any) -> list[str]:
    values: dict[str, Any] = {"configs": [CONFIG], "clock_moves": (), "locked": (), "acts": [], **facts}
    return [*RenewalChecks(ledger=write_ledger(folder, TABLES, rows), passes=passes or [], **values).violations()]


# It closes after 30 hours; 0.5 and 0.73 are 0.99 apart in log-odds.
@pytest.mark.parametrize(
    ("hours", "why", "words"),
    [
        (6.0, "stale", ""),
        (5.0, "stale", "made 5:00:00 before"),
        (28.5, "2:00:00 before closing", ""),
        (27.0, "2:00:00 before closing", "closes at"),
        (29.5, "1:00:00 before closing", "times before the close"),
        (2.0, "price moved by 0.99 in log-odds", ""),
        (2.0, "price moved by 0.60 in log-odds", "0.99 at most"),
        (2.0, "price moved by 0.10 in log-odds", "the least move"),
        (2.0, "new question", "there is one of"),
        (2.0, "asked for", "nobody had asked"),
        (2.0, "the question changed: the description changed", "one version"),
        (2.0, "the question changed: its outcome was withdrawn, and it is open again", ""),
        (2.0, "1 trial failed: it is tried again", ""),
    ],
)
def test_the_reason_of_a_forecast_is_true(tmp_path: Path, hours: float, why: str, words: str) -> None:
    prices = [price(1, -0.1, 0.5), price(2, 1.5, 0.73)]
    rows = [*question(), *prices, forecast(0.0), forecast(hours, 2, why, price=2)]
    found = judge(tmp_path, rows)
    assert [words in one for one in found] == [True] * bool(words)


@pytest.mark.parametrize(("asked_h", "who", "count"), [(1.0, "drifter", 0), (1.0, "other", 1), (3.0, "drifter", 1)])
def test_what_is_asked_for_was_asked_for(tmp_path: Path, asked_h: float, who: str, count: int) -> None:
    asked = {"kind": "forecast", "ref": {"venue": "manifold", "key": "lamp"}, "forecaster": who, "submit": True}
    acts = [{**asked, "clock": NOON + timedelta(hours=asked_h)}]
    assert len(judge(tmp_path, [*question(), forecast(2.0, why="asked for")], acts=acts)) == count


# The gap ends after an hour; a pass that looks for questions sees the price or the text after an hour and a half.
@pytest.mark.parametrize(
    ("news", "again", "count"),
    [
        (price(2, 1.51, 0.73), 2.51, 0),
        (price(2, 1.51, 0.73), 5.0, 1),
        (price(2, 1.51, 0.6), 5.0, 0),
        # Seen by something else, which may not be told what is due.
        (price(2, 1.2, 0.73), 5.0, 0),
        (("question_version", {"version": "w", "ref": REF, "seen_at": at(1.51), "body": "{}"}), 5.0, 1),
        (("question_version", {"version": "w", "ref": REF, "seen_at": at(1.51), "body": "{}"}), 2.51, 0),
    ],
)
def test_a_moved_price_and_a_changed_text_are_answered(
    tmp_path: Path, news: tuple[str, Any], again: float, count: int
) -> None:
    rows = [*question(), price(1, -0.1, 0.5), news, forecast(0.0), forecast(again, 2, "asked", price=2)]
    passes = [*passed("discover manifold", 1.5), *passed("forecast", 2.5, 3.5, 4.9)]
    assert len(judge(tmp_path, rows, passes)) == count


@pytest.mark.parametrize(
    ("why", "count"),
    [("AuthenticationError: the credentials were refused", 0), ("1 trial failed: RuntimeError: no", 1), (None, 1)],
)
@pytest.mark.parametrize("is_made", [1, 0])
def test_what_could_not_be_read_is_answered_later(tmp_path: Path, why: str | None, count: int, is_made: int) -> None:
    body = json.dumps({"title": "lit?"})
    news = ("question_version", {"version": "w", "ref": REF, "seen_at": at(1.51), "body": body})
    later = forecast(5.0, 2, why or "stale", version="w")
    waits = ("schedule", {"ref": REF, "forecaster": "drifter", "why": why})
    rows = [*question(), news, forecast(0.0), later if is_made else waits]
    passes = [*passed("discover manifold", 1.5), *passed("forecast", 2.5, 3.5, 4.9)]
    assert ["its text had changed" in one for one in judge(tmp_path, rows, passes)].count(True) == count


@pytest.mark.parametrize(("number", "seen", "count"), [(1, 1.0, 1), (2, 1.0, 0), (1, 2.0, 0), (None, 1.0, 1)])
def test_a_forecast_reads_the_newest_price(tmp_path: Path, number: int | None, seen: float, count: int) -> None:
    prices = [price(1, 0.0, 0.5), price(2, seen, 0.51)]
    assert len(judge(tmp_path, [*question(), *prices, forecast(1.5, price=number)])) == count


@pytest.mark.parametrize(
    ("who", "heard_h", "unlocked_h", "count"),
    [(None, 0.5, 5.0, 1), ("drifter", 0.5, 5.0, 1), ("other", 0.5, 5.0, 0), (None, 3.0, 5.0, 0), (None, 0.5, 1.0, 0)],
)
def test_a_locked_question_is_left_alone(
    tmp_path: Path, who: str | None, heard_h: float, unlocked_h: float, count: int
) -> None:
    known = {"ref": REF, "forecaster": who}
    acts = [{"kind": "lock", "clock": NOON, **known}]
    acts += [{"kind": "unlock", "clock": NOON + timedelta(hours=unlocked_h), **known}]
    assert len(judge(tmp_path, [*question(), forecast(2.0)], passed("requests", heard_h), acts=acts)) == count


# One that closed before the pass began is not the first one any more.
@pytest.mark.parametrize(("closes", "first_h", "count"), [(30.0, 20.0, 0), (30.0, 40.0, 1), (-0.1, 40.0, 0)])
def test_what_closes_first_is_begun_first(tmp_path: Path, closes: float, first_h: float, count: int) -> None:
    passes = [JobPass(job="forecast", started_at=NOON, ended_at=NOON + timedelta(minutes=20))]
    rows = [*question(closes=closes), *question("manifold:row", first_h, "r")]
    rows += [forecast(0.0, ref="manifold:row", id="other", version="r"), forecast(0.2)]
    assert len(judge(tmp_path, rows, passes)) == count


# One that was first seen just before is in the last list; another one may be read once more before it begins.
@pytest.mark.parametrize(
    ("seen_s", "pause_s", "count"), [(-1, 0, 0), (-1, 6, 1), (-60, 6, 0), (-7200, 6, 0), (-7200, 91, 1)]
)
def test_only_what_is_read_again_is_begun_later(tmp_path: Path, seen_s: int, pause_s: int, count: int) -> None:
    passes = [JobPass(job="forecast", started_at=NOON, ended_at=NOON + timedelta(minutes=20))]
    rows = [*question(closes=20.0, seen=seen_s / 3600), *question("manifold:row", 40.0, "r")]
    rows += [forecast(0.0, ref="manifold:row", id="other", version="r"), forecast(pause_s / 3600)]
    assert len(judge(tmp_path, rows, passes)) == count


@pytest.mark.parametrize(("apart", "count"), [(0, 0), (1, 1)])
def test_what_was_only_to_be_seen_is_not_submitted(tmp_path: Path, apart: int, count: int) -> None:
    sent = ("intent", {"id": "i", "ref": REF, "forecast": "f1", "action": "order", "order_body": "{}"})
    assert len(judge(tmp_path, [*question(), forecast(0.0, forecast_only=apart), sent])) == count


@pytest.mark.parametrize(("submits", "apart", "count"), [([0], 1, 0), ([0], 0, 1), ([0, 1], 0, 0), ([1], 0, 0)])
def test_what_somebody_only_asked_to_see_is_recorded_alone(
    tmp_path: Path, submits: list[int], apart: int, count: int
) -> None:
    asked = {"kind": "forecast", "ref": {"venue": "manifold", "key": "lamp"}, "forecaster": "drifter", "clock": NOON}
    acts = [{**asked, "submit": bool(one)} for one in submits]
    rows = [*question(), forecast(0.1, why="asked for", forecast_only=apart)]
    assert len(judge(tmp_path, rows, acts=acts)) == count


@pytest.mark.parametrize(
    ("begun", "heard_h", "locked", "count"),
    [(2.01, 1.5, (), 0), (9.0, 1.5, (), 1), (None, 1.5, (), 1), (9.0, 8.0, (), 0), (9.0, 1.5, (REF,), 0)],
)
def test_what_people_ask_for_is_forecast(
    tmp_path: Path, begun: float | None, heard_h: float, locked: tuple[str, ...], count: int
) -> None:
    asked = {"kind": "forecast", "ref": REF, "forecaster": "drifter", "submit": True}
    acts = [{**asked, "clock": NOON + timedelta(hours=1.0)}]
    rows = [*question(), forecast(0.0)]
    rows += [] if begun is None else [forecast(begun, 2, "asked for")]
    passes = [*passed("requests", heard_h), *passed("forecast", 2.0, 4.0)]
    assert len(judge(tmp_path, rows, passes, acts=acts, locked=locked)) == count


# The price was 0.5 from noon on, and 0.6 from one o'clock on.
@pytest.mark.parametrize(
    ("chance", "hours", "more", "words"),
    [
        (0.5, 0.5, {}, ""),
        (0.4, 0.5, {}, "and was [0.5]"),
        (0.6, 0.5, {}, "and was [0.5]"),
        (0.5, 2.0, {}, "and was [0.6]"),
        (0.6, 2.0, {}, ""),
        # One of the answers may have been an old one, and nobody knows the time while the clock is wrong.
        (0.5, 2.0, {"spoilt": 2.0}, ""),
        (0.4, 0.5, {"moved": 0.5}, ""),
        # Of a bet that nobody noted, the price after it is not known.
        (0.4, 0.5, {"unnoted": 0.5}, ""),
        (0.4, 0.5, {"unnoted": 0.6}, "and was [0.5]"),
        # What a pass looked at is on record as it was then.
        (0.5, 0.9, {"listed": 2.0}, "looked at manifold:lamp, whose price is 0.6"),
        (0.5, 0.9, {"listed": 1.01}, ""),
        (0.5, 0.9, {"listed": 2.0, "closes": 2.0}, ""),
        (0.5, 0.9, {"listed": 2.0, "spoilt": 2.0}, ""),
    ],
)
def test_a_price_on_record_is_that_of_its_venue(
    tmp_path: Path, chance: float, hours: float, more: dict[str, float], words: str
) -> None:
    rows = [*question(closes=more.get("closes", 30.0)), price(1, hours, chance)]
    history = [(NOON, 0.5), (NOON + timedelta(hours=1.0), 0.6)]
    times = {name: [NOON + timedelta(hours=more[name])] for name in ("spoilt", "moved", "unnoted") if name in more}
    passes = passed("discover manifold", more["listed"]) if "listed" in more else []
    spoilt, moved = {"manifold": times.get("spoilt", [])}, times.get("moved", [])
    unnoted = {REF: times.get("unnoted", [])}
    found = judge(tmp_path, rows, passes, prices={REF: history}, spoilt=spoilt, clock_moves=moved, unnoted=unnoted)
    assert [words in one for one in found] == [True] * bool(words)


@pytest.mark.parametrize(
    ("first", "again", "why", "listed", "count"),
    [
        ("done", 7.0, "stale", 8.5, 0),
        ("done", 9.0, "stale", 8.5, 1),
        ("done", 9.0, "stale", 7.5, 0),
        ("done", 9.0, "1 trial failed", 8.5, 1),
        ("failed", 9.0, "1 trial failed", 8.5, 0),
        ("done", 9.0, "asked for", 8.5, 0),
    ],
)
def test_what_has_an_answer_is_not_renewed_after_its_close(
    tmp_path: Path, first: str, again: float, why: str, listed: float, count: int
) -> None:
    rows = [forecast(0.0, state=first), forecast(again, 2, why), *question(closes=8.0)]
    judged = judge(tmp_path, rows, passed("discover manifold", listed))
    found = [one for one in judged if "was forecast again at" in one]
    assert len(found) == count
