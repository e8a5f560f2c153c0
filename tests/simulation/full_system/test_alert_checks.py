"""What people are told, judged on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.daemon.runner import JobOutcome, JobRun
from tests.simulation.full_system.alert_checks import LEVELS, AlertChecks
from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.omission_checks import JobPass

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# The columns that the checks read, of the tables that they read.
TABLES = """
create table halt (venue, why, at, resumed_at);
create table account_reading (id, venue, paper, at, equity, transfers, unconfirmed);
create table approval (id, asked_at, expires_at, answered_at);
create table intent (id, ref, state, changed_at, planned_at, order_body);
create table fill (intent, at);
create table alert (id, key, level, text, opened_at, closed_at);
create table notification (id, channel, level, subject, text, state, attempts, at, due_at, ended_at);
create table event (kind, text, at);
create table resolution (id, ref, target, kind, body, seen_at);
create table forecast (id, ref, forecaster, revision, state, forecast_only, made_at, ended_at);
create table question (ref, venue);
create table score (forecast, target, rule, resolution, value, at);
create table prediction (forecast, target);
create table trial (forecast, ended_at, body);
create table model_call (at, cost_usd, worst_usd, latency_s);
"""
Rows = list[tuple[str, dict[str, Any]]]
SOLD = json.dumps({"closing": "stop-loss: selling would bring 1 (trading.stop_loss = 0.1)"})


def at(hours: float) -> str:
    return (NOON + timedelta(hours=hours)).isoformat()


def message(at_hours: str, text: str = "", **values: Any) -> tuple[str, dict[str, Any]]:
    row = {"id": "got", "channel": "pager", "level": "warning", "subject": "", "text": text, "attempts": 1}
    return "notification", {**row, "state": "delivered", "at": at_hours, "due_at": at_hours, **values}


def alert(key: str, text: str, opened: str, closed: str | None = None, **values: Any) -> Rows:
    """Return an alert of its level, with the messages about it."""
    level = LEVELS.get(key.partition(":")[0], "warning")
    rows: Rows = [
        ("alert", {"key": key, "level": level, "text": text, "opened_at": opened, "closed_at": closed, **values})
    ]
    told = {opened: f"- {level}: {text}"} | ({closed: "- resolved: it"} if closed else {})
    return [*rows, *(message(at_hours, said) for at_hours, said in told.items())]


def judge(folder: Path, rows: Rows, *hours: float, **facts: Any) -> list[str]:
    times = [NOON + timedelta(hours=one) for one in hours]
    passes = [JobPass(job="alerts", started_at=one, ended_at=one) for one in times]
    checks = AlertChecks(ledger=write_ledger(folder, TABLES, rows), passes=passes, messages={"got"}, **facts)
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
    told = alert("halt:", words, at(2.0))
    for name, more, hours, count in (("none", [], (), 0), ("told", told, (2.0,), 0), ("untold", [], (2.0,), 1)):
        (folder := tmp_path / name).mkdir()
        assert len(judge(folder, [*rows, *more], *hours)) == count


# A halt that was reported, and over, before noon.
@pytest.mark.parametrize(("opened", "closed", "count"), [(-3.0, None, 0), (-3.0, -1.0, 1), (2.0, None, 0)])
def test_what_breaks_again_is_reported_again(tmp_path: Path, opened: float, closed: float | None, count: int) -> None:
    told = alert("halt:", "manifold: 9.00 was lost today; resume", at(opened), None if closed is None else at(closed))
    assert len(judge(tmp_path, [*HALT, *told], 2.0)) == count


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
    assert len(judge(tmp_path, [message(at(0.0), id=name, state=state, due_at=at(due))], 2.0)) == count


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
    rows = [
        row
        for first, last in hours
        for row in alert(key, "x", stamp(first), None if last is None else stamp(last), id=first)
    ]
    assert len(judge(tmp_path, rows, *range(1, 12))) == count


def stamp(hours: float) -> str:
    return at(hours).replace("+00:00", ".000000Z")


def test_an_alert_has_its_level_and_is_told_with_its_end(tmp_path: Path) -> None:
    rows = alert("halt:sea", "it was stopped", stamp(1), stamp(3))
    wrong: tuple[tuple[str, Rows], ...] = (
        ("critical", [(rows[0][0], {**rows[0][1], "level": "warning"}), *rows[1:]]),
        ("in no message", [rows[0], message(stamp(3), "resolved: it")]),
        ("nobody was told", rows[:2]),
        ("made the messages", [*rows, message(stamp(1), "more")]),
    )
    assert judge(tmp_path, rows, 1.0) == []
    for name, changed in wrong:
        (folder := tmp_path / name.replace(" ", "_")).mkdir()
        assert [name in found for found in judge(folder, changed, 1.0)] == [True], name


@pytest.mark.parametrize(("looks", "count"), [(1, 1), (2, 0)])
def test_two_looks_at_a_moment_that_the_clock_shows_twice_may_each_have_a_message(
    tmp_path: Path, looks: int, count: int
) -> None:
    look = JobRun(job="alerts", started_at=NOON, took_s=0.0, outcome=JobOutcome.DONE, detail="")
    rows = [message(stamp(0), "one"), message(stamp(0), "other")]
    assert len(judge(tmp_path, rows, runs=[look] * looks)) == count


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            ("event", {"kind": "crash", "text": "it was killed", "at": at(0.0)}),
            "the daemon was restarted: it was killed",
        ),
        (
            ("event", {"kind": "missed window", "text": "sea:1: no forecast", "at": at(0.0)}),
            "1 closed without a forecast",
        ),
        (
            ("resolution", {"id": 1, "ref": "sea:1", "target": "t", "kind": "void", "body": "{}", "seen_at": at(0.0)}),
            "sea:1 was annulled, and orders on it were filled",
        ),
        (
            ("intent", {"id": "i", "ref": "sea:1", "state": "acked", "planned_at": at(0.0), "order_body": SOLD}),
            "stop-loss: selling would bring 1 (trading.stop_loss = 0.1): sold",
        ),
    ],
)
def test_what_happens_is_reported_by_the_next_look(tmp_path: Path, event: tuple[str, Any], words: str) -> None:
    bought: Rows = [("intent", {"id": "b", "ref": "sea:1", "order_body": "{}"})]
    bought += [("fill", {"intent": name, "at": at(-1.0)}) for name in ("b", "i")]
    for name, told, count in (("told", [at(1.0)], 0), ("untold", [], 1), ("late", [at(3.0)], 1)):
        (folder := tmp_path / name).mkdir()
        alerts = [row for opened in told for row in alert("crash:", words, opened)]
        assert len(judge(folder, [event, *bought, *alerts], 1.0)) == count


@pytest.mark.parametrize(
    ("job", "failing_h", "words", "count"),
    [
        ("discover sea", 0.4, "", 1),
        ("discover sea", 0.03, "", 0),
        ("discover sea", 0.4, "sea could not be read", 0),
        ("resolve sea", 0.4, "", 0),
        ("resolve sea", 0.6, "", 1),
        ("resolve sea", 0.6, "the job resolve sea fails", 0),
    ],
)
def test_a_job_that_fails_for_long_is_reported(
    tmp_path: Path, job: str, failing_h: float, words: str, count: int
) -> None:
    ends = {
        0.0: JobOutcome.DONE,
        1.0: JobOutcome.FAILED,
        1.15: JobOutcome.UNAVAILABLE,
        1.2 + failing_h: JobOutcome.DONE,
    }
    runs = [
        JobRun(job=job, started_at=NOON + timedelta(hours=hours), took_s=1.0, outcome=end, detail="")
        for hours, end in ends.items()
    ]
    looks = [0.1 * number for number in range(30)]
    told = alert("venue:", words, at(1.3)) if words else []
    assert len(judge(tmp_path, told, *looks, runs=runs)) == count


NIGHT = [{"alerts": {"quiet_hours": "22:00-07:00", "time_zone": "Europe/Berlin"}}]


@pytest.mark.parametrize(
    ("hours", "level", "due", "ended", "count"),
    [
        # At 22:30 in Berlin, until 7 o'clock there.
        (9.5, "warning", 18.0, 18.1, 0),
        (9.5, "warning", 9.5, 9.6, 1),
        (9.5, "warning", 18.0, 9.6, 1),
        (9.5, "critical", 9.5, 9.6, 0),
        (9.5, "critical", 18.0, 18.1, 1),
        (9.5, "critical", 18.0, None, 1),
        (8.5, "warning", 8.5, 8.6, 0),
        (8.5, "warning", 18.0, None, 1),
    ],
)
def test_at_night_only_what_is_critical_is_sent(
    tmp_path: Path, hours: float, level: str, due: float, ended: float | None, count: int
) -> None:
    sent = {"level": level, "due_at": at(due), "ended_at": ended and at(ended), "attempts": int(ended is not None)}
    state = "waiting" if ended is None else "delivered"
    assert len(judge(tmp_path, [message(at(hours), "x", state=state, **sent)], 9.0, configs=NIGHT)) == count


# Noon is on a Monday.
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Forecasts: 2 at sea (of 1 questions); 1 failed\nScored: 1 of ash, mean Brier score 0.250\n", 0),
        ("Forecasts: 2 at sea (of 1 questions)\nScored: 1 of ash, mean Brier score 0.250\n", 1),
        ("Forecasts: 1 at sea (of 1 questions); 1 failed\nScored: 1 of ash, mean Brier score 0.250\n", 1),
        ("Forecasts: 2 at sea (of 1 questions); 1 failed\nScored: 1 of ash, mean Brier score 0.350\n", 1),
        (None, 1),
    ],
)
def test_the_letter_of_a_week_says_what_happened_in_it(tmp_path: Path, text: str | None, count: int) -> None:
    forecast = {"ref": "sea:1", "forecaster": "ash", "forecast_only": 0, "state": "done"}
    rows: Rows = [("question", {"ref": "sea:1", "venue": "sea"})]
    rows += [("forecast", {**forecast, "id": f"f{n}", "revision": n, "made_at": stamp(-9.0 + n)}) for n in (1, 2)]
    rows += [("forecast", {**forecast, "state": "failed", "ended_at": stamp(-5.0)})]
    rows += [("resolution", {"id": 1, "ref": "sea:1", "target": "t", "kind": "happened", "seen_at": stamp(-6.0)})]
    rows += [("prediction", {"forecast": f"f{n}", "target": "t"}) for n in (1, 2)]
    rows += [
        ("score", {"forecast": f"f{n}", "target": "t", "rule": "brier", "resolution": 1, "at": stamp(-5.0), "value": v})
        for n, v in ((1, 0.09), (2, 0.25))
    ]
    told = f"{text}Models: 0 calls, 0.00 USD"
    rows += [] if text is None else [message(stamp(-3.9), told, subject="Foxcast, week to 2026-03-02: 2 forecasts")]
    assert len(judge(tmp_path, rows, -3.5, configs=[{}])) == count


@pytest.mark.parametrize(
    ("day", "written", "count"),
    [("monday", -3.9, 0), ("monday", -4.1, 1), ("tuesday", -3.9, 1), ("never", -3.9, 1)],
)
def test_a_letter_is_written_on_its_day(tmp_path: Path, day: str, written: float, count: int) -> None:
    text = "Forecasts: none\nModels: 0 calls, 0.00 USD"
    rows = [message(stamp(written), text, subject="Foxcast, week to 2026-03-02: 0 forecasts")]
    assert len(judge(tmp_path, rows, configs=[{"alerts": {"letter_day": day}}])) == count


@pytest.mark.parametrize(
    ("without", "words", "count"),
    [
        ([1, 1, 1], "", 1),
        ([1, 1], "", 0),
        ([1, 1, 0], "", 0),
        ([1, 1, 1], "none of the last 3 trials of ash gave an answer", 0),
        # The fourth ends as somebody looks, who may have seen it.
        ([1, 1, 1, 0], "", 0),
    ],
)
def test_a_forecaster_that_always_fails_is_reported(tmp_path: Path, without: list[int], words: str, count: int) -> None:
    bodies = [json.dumps({} if one else {"belief": 1}) for one in without]
    rows: Rows = [("forecast", {"id": "f", "forecaster": "ash", "state": "failed"})]
    ends = zip((0.0, 0.1, 0.2, 1.0), bodies, strict=False)
    rows += [("trial", {"forecast": "f", "ended_at": stamp(hours), "body": body}) for hours, body in ends]
    rows += alert("trials:ash", words, stamp(0.9)) if words else []
    assert len(judge(tmp_path, rows, 1.0)) == count


@pytest.mark.parametrize(
    ("how", "told", "count"), [("killed", 1, 0), ("killed", 0, 1), ("asked to stop", 0, 0), ("asked to stop", 1, 1)]
)
def test_a_crash_is_reported_by_the_next_life(tmp_path: Path, how: str, told: int, count: int) -> None:
    lives = [(NOON, how), (NOON + timedelta(hours=3), "killed"), (NOON + timedelta(hours=6), "asked to stop")]
    starts = [NOON + timedelta(hours=hours) for hours in (1, 4)]
    runs = [JobRun(job="score", started_at=one, took_s=0.0, outcome=JobOutcome.DONE, detail="") for one in starts]
    rows: Rows = [("event", {"kind": "crash", "text": "", "at": at(3.0)})] * told
    assert len(judge(tmp_path, rows, lives=lives, runs=runs)) == count


@pytest.mark.parametrize(
    ("spent", "told", "count"),
    [(0.7, None, 0), (0.85, None, 1), (0.85, 1.0, 0), (0.7, 1.0, 1), (0.85, 2.0, 1)],
)
def test_that_most_of_a_budget_is_used_is_said(tmp_path: Path, spent: float, told: float | None, count: int) -> None:
    call = {"at": stamp(0.1), "cost_usd": spent, "worst_usd": 2.0, "latency_s": 60.0}
    rows: Rows = [("model_call", call)]
    key = "budget_80:all models"
    rows += [] if told is None else alert(key, "85% of the budget of today is used", stamp(told))
    configs = [{"llm": {"budget": {"day_usd": 1.0}}}]
    assert len(judge(tmp_path, rows, 1.0, 2.0, configs=configs)) == count


# Of 100 that an account was worth at noon.
@pytest.mark.parametrize(
    ("lost", "moved", "told", "count"),
    [
        (5.0, 0.0, None, 0),
        (20.0, 0.0, None, 1),
        (20.0, 0.0, 1.0, 0),
        (5.0, 0.0, 1.0, 1),
        # What was taken out of it is no loss.
        (20.0, -18.0, None, 0),
    ],
)
def test_a_big_loss_is_said(tmp_path: Path, lost: float, moved: float, told: float | None, count: int) -> None:
    row = {"venue": "sea", "paper": 0, "unconfirmed": 0.0}
    rows: Rows = [("account_reading", {**row, "id": 1, "at": stamp(0.0), "equity": 100.0, "transfers": 0.0})]
    rows += [("account_reading", {**row, "id": 2, "at": stamp(0.5), "equity": 100.0 - lost, "transfers": moved})]
    rows += [] if told is None else alert("loss:sea", "the account at sea lost 20.00", stamp(told))
    assert len(judge(tmp_path, rows, 1.0, configs=[{"alerts": {"loss_share": 0.1}}])) == count


@pytest.mark.parametrize(
    ("said", "count"),
    [("-2.00 COIN, now worth 118.00", 0), ("+18.00 COIN, now worth 118.00", 1), ("-2.00 COIN, now worth 100.00", 1)],
)
def test_a_letter_says_what_an_account_gained(tmp_path: Path, said: str, count: int) -> None:
    row = {"venue": "sea", "paper": 0, "unconfirmed": 0.0}
    rows: Rows = [("account_reading", {**row, "id": 1, "at": stamp(-30.0), "equity": 100.0, "transfers": 0.0})]
    rows += [("account_reading", {**row, "id": 2, "at": stamp(-9.0), "equity": 118.0, "transfers": 20.0})]
    text = f"Forecasts: none\nAccount at sea: {said}\nModels: 0 calls, 0.00 USD"
    rows += [message(stamp(-3.9), text, subject="Foxcast, week to 2026-03-02: 0 forecasts")]
    found = judge(tmp_path, rows, configs=[{}])
    assert ["and the account gained -2.00" in one for one in found] == [True] * count


@pytest.mark.parametrize(("first", "second", "count"), [(1.0, 1.1, 0), (1.2, 1.1, 1), (None, 1.1, 1), (1.0, None, 0)])
def test_a_channel_gets_messages_in_order(
    tmp_path: Path, first: float | None, second: float | None, count: int
) -> None:
    ended = [None if one is None else stamp(one) for one in (first, second)]
    states = ["waiting" if one is None else "delivered" for one in ended]
    rows = [
        message(stamp(0.1 * number), "x", ended_at=one, state=state, due_at=stamp(9.0))
        for number, (one, state) in enumerate(zip(ended, states, strict=True))
    ]
    found = [one for one in judge(tmp_path, rows, configs=[{}]) if "sent at" in one]
    assert ["before" in one for one in found] == [True] * count
