"""What was not done, judged on ledgers that are written by hand: what may be is accepted, and what may not is named."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.omission_checks import JobPass, OmissionChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
REF = "manifold:lamp"
# The columns that the checks read, of the tables that they read.
TABLES = """
create table forecast (id, ref, forecaster, state, why, detail, made_at, started_at, ended_at, forecast_only,
  decided_at, revision);
create table decision (id, forecast, at, until, verdict, why);
create table intent (seq, id, ref, venue, mode, action, state, forecast, batch, planned_at, changed_at, order_body);
create table attempt (intent, number, state, started_at, settled_at);
create table question (ref, venue, version, closes_at, as_of);
create table question_version (version, ref, body);
create table resolution (id, ref, target, kind, value, seen_at);
create view current_resolution as select * from resolution r
  where id = (select max(id) from resolution o where o.ref = r.ref and o.target = r.target);
create table payout (venue, contract, leg, price, paper, resolution);
create table schedule (ref, forecaster, why);
create table halt (venue, at, resumed_at);
create table event (kind, text, at);
create table audit (kind, actor, at);
create table approval (forecast, venue, state, answered_at, expires_at);
create table arm (venue, armed_at, until, disarmed_at);
"""
CONFIG: dict[str, Any] = {"venues": {"manifold": {"forecasters": ["drifter"]}}, "policy": {"stale_after_h": 6.0}}
LATE_VENUE = {"forecasters": ["drifter"], "settings": {"close_margin_s": 7_200.0}}
QUESTION = {"ref": REF, "venue": "manifold", "version": "v"}
Values = dict[str, Any]


def at(hours: float) -> str:
    return (NOON + timedelta(hours=hours)).isoformat()


def passed(job: str, *hours: float) -> list[JobPass]:
    times = [NOON + timedelta(hours=one) for one in hours]
    return [JobPass(job=job, started_at=one, ended_at=one + timedelta(minutes=1)) for one in times]


def forecast(hours: float, **values: Any) -> tuple[str, Values]:
    row = {"id": f"f{hours}", "ref": REF, "forecaster": "drifter", "state": "done", "revision": 1}
    return "forecast", {**row, "made_at": at(hours), "started_at": at(hours), **values}


def held(why: str, hours: float = 1.0, until: float | None = None) -> tuple[str, Values]:
    ends = None if until is None else at(until)
    return "decision", {"id": 1, "forecast": "f0.0", "at": at(hours), "until": ends, "verdict": "hold", "why": why}


def question(closes: float = 30.0) -> list[tuple[str, Values]]:
    body = json.dumps({"title": "lit?", "closes_at": at(closes)})
    return [
        ("question", {**QUESTION, "closes_at": at(closes)}),
        ("question_version", {"version": "v", "ref": REF, "body": body}),
    ]


def act(kind: str, hours: float, **values: Any) -> Values:
    return {"kind": kind, "clock": NOON + timedelta(hours=hours), **values}


def judge(folder: Path, *rows: tuple[str, Values], passes: list[JobPass], **facts: Any) -> list[str]:
    """Return what is wrong with a ledger of these rows, by a table each."""
    ledger = write_ledger(folder, TABLES, rows)
    values: Values = {"configs": [CONFIG], "clock_moves": (), "locked": (), "acts": [], **facts}
    return [*OmissionChecks(ledger=ledger, passes=passes, **values).violations()]


@pytest.mark.parametrize(
    ("decided", "moved", "count"), [(1.5, (), 0), (2.5, (), 1), (None, (), 1), (2.5, (NOON + timedelta(hours=2),), 0)]
)
def test_a_forecast_is_decided_on_by_the_next_pass(
    tmp_path: Path, decided: float | None, moved: tuple[datetime, ...], count: int
) -> None:
    rows = [] if decided is None else [held("superseded by revision 2", decided)]
    found = judge(tmp_path, forecast(0.0), *rows, *question(), passes=passed("submit", 1.5, 3.0), clock_moves=moved)
    assert len(found) == count
    assert all("passes later" in one for one in found)


@pytest.mark.parametrize(
    ("sent", "acts", "count"),
    [(0.01, [], 0), (2.0, [], 1), (None, [], 1), (2.0, [act("halt", 0.1), act("stop file gone", 1.9)], 0)],
)
def test_what_is_decided_leaves_with_the_next_pass(
    tmp_path: Path, sent: float | None, acts: list[Values], count: int
) -> None:
    row = {"id": "i", "ref": REF, "venue": "manifold", "action": "order", "state": "acked", "planned_at": at(0.0)}
    rows = [("intent", {**row, "changed_at": at(3.0)})]
    rows += [] if sent is None else [("attempt", {"intent": "i", "started_at": at(sent)})]
    found = judge(tmp_path, *rows, passes=passed("submit", 1.0), acts=acts)
    assert len(found) == count
    assert all("left at" in one for one in found)


# It is stale after six hours, and of a question that closes after nine it is renewed two hours before that.
@pytest.mark.parametrize(
    ("closes", "again", "config", "words"),
    [
        (40.0, 6.46, CONFIG, ""),
        (40.0, 8.5, CONFIG, "stale"),
        (40.0, None, CONFIG, "stale"),
        (7.5, 5.56, CONFIG, ""),
        (7.5, 6.9, CONFIG, "near its close"),
        # Where it is not forecast in the last two hours before its close.
        (7.5, 6.9, {"venues": {"manifold": LATE_VENUE}, "policy": {"stale_after_h": 6.0}}, ""),
        (5.0, None, {**CONFIG, "policy": {"near_close_h": [0.5]}}, ""),
        (30.0, None, {**CONFIG, "policy": {"stale_after_h": 72.0}}, "near its close"),
        (30.0, None, {**CONFIG, "policy": {"stale_after_h": 72.0, "near_close_h": []}}, ""),
        (30.0, None, {"venues": {"manifold": {"forecasters": [], "exclude": {"words": ["lit"]}}}}, ""),
    ],
)
def test_a_forecast_is_renewed_in_time(
    tmp_path: Path, closes: float, again: float | None, config: Values, words: str
) -> None:
    rows = [] if again is None else [forecast(again, revision=2)]
    passes = passed("forecast", 5.55, 6.45, 7.7, 9.0)
    found = judge(tmp_path, forecast(0.0), *rows, *question(closes), passes=passes, configs=[config])
    late = [one for one in found if f"of {NOON}" in one]
    assert (bool(late), all(words in one for one in late)) == (bool(words), True)


@pytest.mark.parametrize(("minutes", "count"), [(14.0, 1), (16.0, 0)])
def test_what_a_long_pass_could_not_begin_waits_for_the_next_one(tmp_path: Path, minutes: float, count: int) -> None:
    [one] = passed("forecast", 6.5)
    passes = [replace(one, ended_at=one.started_at + timedelta(minutes=minutes))]
    rows = [forecast(0.0), held("superseded by revision 2", 0.0), *question(30.0)]
    assert ["to be renewed" in one for one in judge(tmp_path, *rows, passes=passes)] == [True] * count


# It is stale after six hours.
@pytest.mark.parametrize(("closed", "count"), [([(5.0, None)], 0), ([(5.0, 5.5)], 0), ([(7.0, None)], 1), ([], 1)])
def test_what_its_venue_closed_early_is_not_to_be_renewed(
    tmp_path: Path, closed: list[tuple[float, float | None]], count: int
) -> None:
    passes, spans = passed("forecast", 6.2, 6.6), {REF: [[moment(one) for one in span] for span in closed]}
    assert len(judge(tmp_path, forecast(0.0), *question(), passes=passes, closed=spans)) == count


@pytest.mark.parametrize(
    ("closed", "lists", "why", "count"),
    [
        ([(1.0, None)], (1.1, 1.2, 1.3), "stale", 1),
        ([(1.0, 5.0)], (1.1, 1.2, 1.3), "stale", 1),
        ([(1.0, 3.0)], (1.1, 1.2, 1.3), "stale", 0),
        ([(1.0, None)], (1.1, 1.2), "stale", 0),
        ([(1.0, None)], (1.1, 1.2, 1.3), "asked for", 0),
        ([], (1.1, 1.2, 1.3), "stale", 0),
    ],
)
def test_what_its_venue_closed_early_is_not_forecast_unasked(
    tmp_path: Path, closed: list[tuple[float, float | None]], lists: tuple[float, ...], why: str, count: int
) -> None:
    spans = {REF: [[moment(one) for one in span] for span in closed]}
    rows, passes = [forecast(0.0), forecast(4.0, why=why, revision=2)], passed("discover manifold", *lists)
    found = judge(tmp_path, *rows, *question(), passes=passes, closed=spans)
    assert [one for one in found if "was closed since" in one] == found
    assert len(found) == count


def moment(hours: float | None) -> datetime | None:
    return None if hours is None else NOON + timedelta(hours=hours)


# It failed at noon, once, which is made good by the first pass after five minutes.
@pytest.mark.parametrize(
    ("closes", "again", "values", "count"),
    [
        (4.0, 3.0, {}, 0),
        (4.0, 3.7, {}, 1),
        (4.0, None, {}, 1),
        (4.0, None, {"forecast_only": 1}, 0),
        (0.08, None, {}, 0),
        (30.0, 3.51, {}, 0),
        (30.0, 6.51, {}, 1),
        (30.0, None, {}, 1),
    ],
)
def test_a_forecast_that_failed_is_tried_again_before_the_close(
    tmp_path: Path, closes: float, again: float | None, values: Values, count: int
) -> None:
    failed = forecast(0.0, state="failed", made_at=None, ended_at=at(0.0), **{"forecast_only": 0, **values})
    rows = [] if again is None else [forecast(again, revision=2)]
    found = judge(tmp_path, failed, *rows, *question(closes), passes=passed("forecast", 0.02, 3.5, 6.5))
    late = [one for one in found if "tried again" in one]
    assert len(late) == count


# After one failure that is five minutes later, after two an hour, after three six hours.
@pytest.mark.parametrize(
    ("states", "again", "count"),
    [
        (["failed"], 0.11, 0),
        (["failed"], 3.0, 1),
        (["failed", "done", "failed"], 3.0, 1),
        (["failed", "failed"], 1.11, 0),
        (["failed", "failed"], 3.0, 1),
        (["failed", "failed", "failed"], 3.0, 0),
        (["failed", "abandoned", "failed"], 3.0, 0),
    ],
)
def test_an_answer_ends_a_row_of_failures(tmp_path: Path, states: list[str], again: float, count: int) -> None:
    hours = [one - len(states) + 1.0 for one in range(len(states))]
    rows = [
        forecast(one, state=state, made_at=at(one) if state == "done" else None, ended_at=at(one), forecast_only=0)
        for one, state in zip(hours, states, strict=True)
    ]
    decided = [held("superseded by revision 2", one) for one in hours]
    passes = passed("forecast", 0.1, 1.1, 2.5, 6.5)
    rows += [*decided, forecast(again, revision=9), *question()]
    found = judge(tmp_path, *rows, passes=passes)
    assert [f"failed at {NOON} " in one for one in found if "tried again" in one] == [True] * count


def test_what_is_cut_off_may_count_as_a_failure(tmp_path: Path) -> None:
    failed = forecast(0.0, state="failed", made_at=None, started_at=at(-1.0), ended_at=at(0.0), forecast_only=0)
    rows = [failed, held("superseded by revision 2", 0.0), forecast(4.0, revision=2), *question()]
    cut = [NOON - timedelta(minutes=minutes) for minutes in (20, 30)]
    counts = []
    for lives in (cut, ()):
        (folder := tmp_path / str(len(lives))).mkdir()
        found = judge(folder, *rows, passes=passed("forecast", 0.1, 1.5, 3.5), lives=lives)
        counts.append(sum("tried again" in one for one in found))
    assert counts == [0, 1]


@pytest.mark.parametrize(("waits_for", "count"), [("it failed", 1), ("the market cannot be read", 0)])
def test_a_forecast_that_failed_may_be_postponed_for_another_reason(tmp_path: Path, waits_for: str, count: int) -> None:
    failed = forecast(0.0, state="failed", made_at=None, ended_at=at(0.0), forecast_only=0, detail="it failed")
    waits = ("schedule", {"ref": REF, "forecaster": "drifter", "why": waits_for})
    found = judge(tmp_path, failed, waits, *question(4.0), passes=passed("forecast", 3.5))
    assert sum("tried again" in one for one in found) == count


@pytest.mark.parametrize(("hours", "count"), [((1.0,), 0), ((1.0, 2.0), 1)])
def test_a_hold_is_decided_again_once_it_is_over(tmp_path: Path, hours: tuple[float, ...], count: int) -> None:
    rows = [forecast(0.0), held("no order: it is cheap", 1.0, 1.5), *question()]
    assert len(judge(tmp_path, *rows, passes=passed("submit", *hours))) == count


@pytest.mark.parametrize(
    ("why", "count"),
    [
        ("back to the gate: the price has moved", 1),
        ("no order: it is cheap", 1),
        ("recorded only: it was made by hand, without --submit", 0),
        ("superseded by revision 2", 0),
        ("the window closed at noon", 0),
    ],
)
def test_only_what_nothing_changes_is_held_for_good(tmp_path: Path, why: str, count: int) -> None:
    found = judge(tmp_path, forecast(0.0), held(why, 1.0), *question(), passes=passed("submit", 2.0, 3.0))
    assert ["did not decide again" in one for one in found if "it closes at" not in one] == [True] * count


# An outcome that was corrected an hour after noon, and what a share pays by the first or the second one.
@pytest.mark.parametrize(
    ("by", "paper", "hours", "count"),
    [
        (2, 0, (2.0, 3.0, 4.0), 0),
        (1, 0, (2.0, 3.0, 4.0), 1),
        (1, 0, (2.0, 3.0), 0),
        (1, 1, (2.0, 3.0, 4.0), 0),
        (1, 1, (10.0, 11.0, 12.0), 1),
    ],
)
def test_shares_pay_by_the_last_outcome(
    tmp_path: Path, by: int, paper: int, hours: tuple[float, ...], count: int
) -> None:
    known = {"ref": REF, "target": "t", "kind": "happened"}
    paid = {"venue": "manifold", "contract": "lamp", "leg": "yes", "price": 1.0, "paper": paper, "resolution": by}
    rows: list[tuple[str, Values]] = [
        ("resolution", {**known, "id": 1, "value": 1.0, "seen_at": at(0.0)}),
        ("resolution", {**known, "id": 2, "value": 0.0, "seen_at": at(1.0)}),
        ("payout", paid),
    ]
    assert ["pays 1.0 on record" in one for one in judge(tmp_path, *rows, passes=passed("accounts", *hours))] == [
        True
    ] * count


# A market has had its outcome since noon, which counts a quarter of an hour later.
@pytest.mark.parametrize(
    ("seen", "settings", "count"),
    [
        (2.0, {}, 0),
        (4.5, {}, 1),
        (None, {}, 1),
        (4.5, {"resolve_after_s": 7_200.0}, 0),
    ],
)
def test_an_outcome_is_on_record_soon(tmp_path: Path, seen: float | None, settings: Values, count: int) -> None:
    config = {"venues": {"manifold": {"forecasters": ["drifter"], "settings": settings}}}
    rows = [forecast(-1.0), held("superseded by revision 2", -1.0), *question()]
    rows += [] if seen is None else [("resolution", {"id": 1, "ref": REF, "seen_at": at(seen)})]
    passes = passed("resolve manifold", 0.1, 1.0, 3.0, 4.0)
    found = judge(tmp_path, *rows, passes=passes, configs=[config], outcomes={REF: NOON})
    assert ["has an outcome since" in one for one in found] == [True] * count


ARMED = ("arm", {"venue": "manifold", "armed_at": at(-2.0), "until": at(8.0), "disarmed_at": None})
OVER = ("arm", {**ARMED[1], "until": at(0.5)})
LOCK = act("lock", -1.0, ref=REF, forecaster=None)


@pytest.mark.parametrize(
    ("why", "rows", "acts", "count"),
    [
        ("locked: ada thinks", [], [], 1),
        ("locked: ada thinks", [], [LOCK], 0),
        ("locked: ada thinks", [], [LOCK, act("unlock", 0.0, ref=REF, forecaster=None)], 1),
        ("locked: ada thinks", [], [{**LOCK, "ref": "manifold:ship"}], 1),
        ("locked: ada thinks", [], [LOCK, act("unlock", 0.0, ref=REF, forecaster="drifter")], 0),
        ("halted by STOP: ada", [], [act("stop file", -1.0)], 0),
        ("halted by STOP: ada", [], [act("halt", -1.0, venue="")], 0),
        ("halted by STOP: ada", [], [act("halt", -1.0, venue="manifold")], 1),
        ("manifold was stopped by ada at noon", [], [act("halt", -1.0, venue="manifold")], 0),
        ("manifold was stopped by ada at noon", [], [act("halt", -1.0, venue="metaculus")], 1),
        ("manifold is not armed for live", [], [], 0),
        ("manifold is not armed for live", [ARMED], [], 1),
        ("manifold was disarmed at noon", [ARMED], [], 1),
        ("the arm record of manifold ended at noon", [ARMED], [], 1),
        ("the arm record of manifold ended at noon", [OVER], [], 0),
        ("the configuration of manifold was changed after", [ARMED], [], 1),
        ("the window closed at noon", [], [], 1),
    ],
)
def test_the_reason_of_a_hold_is_true(
    tmp_path: Path, why: str, rows: list[tuple[str, Values]], acts: list[Values], count: int
) -> None:
    found = judge(tmp_path, forecast(0.0), held(why), *question(), *rows, passes=[], acts=acts)
    assert len(found) == count


@pytest.mark.parametrize(("looked_h", "count"), [(-0.9, 1), (-0.5, 0)])
def test_a_halt_lasts_where_nobody_heard_in_time_that_it_was_to_end(
    tmp_path: Path, looked_h: float, count: int
) -> None:
    acts = [act("halt", -2.0, venue="manifold"), act("resume", -1.0, venue=None)]
    rows = [forecast(0.0), held("manifold was stopped by ada at noon"), *question()]
    found = judge(tmp_path, *rows, passes=passed("requests", looked_h), acts=acts)
    assert ["was held" in one for one in found if "not in the audit" not in one] == [True] * count


@pytest.mark.parametrize(("waits_for", "count"), [("stale", 1), ("ServiceUnavailableError: no answer", 0)])
def test_a_renewal_may_be_postponed_where_the_price_could_not_be_read(
    tmp_path: Path, waits_for: str, count: int
) -> None:
    waits = ("schedule", {"ref": REF, "forecaster": "drifter", "why": waits_for})
    found = judge(tmp_path, forecast(0.0), waits, *question(30.0), passes=passed("forecast", 6.5))
    assert sum("to be renewed" in one for one in found) == count


@pytest.mark.parametrize(
    ("state", "ended", "batch", "count"),
    [
        ("planned", None, "i", 1),
        ("acked", 1.0, "i", 0),
        ("acked", 3.0, "i", 1),
        ("superseded", 1.0, "i", 0),
        ("superseded", 3.0, "i", 1),
        ("planned", None, "b", 0),
    ],
)
def test_what_did_not_arrive_is_sent_again(
    tmp_path: Path, state: str, ended: float | None, batch: str, count: int
) -> None:
    sent = {"id": "i", "ref": REF, "venue": "manifold", "action": "forecast", "state": state, "planned_at": at(-0.01)}
    rows: list[tuple[str, Values]] = [("intent", {**sent, "batch": batch, "changed_at": at(ended or 0.0)})]
    tries = [(0.0, "absent")] + [(ended, "acked")] * (state == "acked" and ended is not None)
    rows += [
        (
            "attempt",
            {"intent": "i", "number": number, "state": end, "started_at": at(hours or 0.0), "settled_at": at(0.0)},
        )
        for number, (hours, end) in enumerate(tries)
    ]
    assert len(judge(tmp_path, *rows, passes=passed("submit", 1.0, 2.0, 3.5))) == count
    # While the venue answers badly nothing can be read there.
    (bad := tmp_path / "bad").mkdir()
    spoilt = {"manifold": [moment(hours) for hours in (1.0, 2.0, 3.5)]}
    assert judge(bad, *rows, passes=passed("submit", 1.0, 2.0, 3.5), spoilt=spoilt) == []


# Stale after six hours, and an hour is left to renew it.
@pytest.mark.parametrize(
    ("stale", "followed", "renewed", "closes", "count"),
    [
        ({"withdraw_stale": True}, None, None, 30.0, 1),
        ({}, None, None, 30.0, 0),
        ({"withdraw_stale": True}, 7.1, None, 30.0, 0),
        ({"withdraw_stale": True}, 9.5, None, 30.0, 1),
        ({"withdraw_stale": True}, None, 5.0, 30.0, 0),
        ({"withdraw_stale": True}, None, None, 7.2, 0),
    ],
)
def test_a_stale_forecast_is_withdrawn(
    tmp_path: Path, stale: Values, followed: float | None, renewed: float | None, closes: float, count: int
) -> None:
    ref, name = "metaculus:1:2", {"venue": "metaculus", "ref": "metaculus:1:2"}
    policy = {"stale_after_h": 6.0, **stale}
    config: Values = {"venues": {"metaculus": {"forecasters": ["drifter"]}}, "policy": policy}
    sent = {**name, "id": "i", "seq": 1, "forecast": "f0.0", "action": "forecast", "state": "acked", "batch": "i"}
    rows = [forecast(0.0, ref=ref, forecast_only=0), ("question", {**name, "version": "v", "closes_at": at(closes)})]
    rows += [("intent", {**sent, "planned_at": at(0.1), "changed_at": at(0.1)})]
    rows += [("attempt", {"intent": "i", "number": 1, "state": "acked", "started_at": at(0.1)})]
    rows += [held("superseded by revision 2", 0.01)]
    taken = {
        **sent,
        "id": "w",
        "seq": 2,
        "action": "withdraw",
        "planned_at": at(followed or 0.0),
        "state": "superseded",
    }
    rows += [] if followed is None else [("intent", {**taken, "changed_at": at(followed)})]
    rows += [] if renewed is None else [forecast(renewed, ref=ref, revision=2, forecast_only=0, decided_at=at(renewed))]
    found = judge(tmp_path, *rows, passes=passed("submit", 8.0, 9.0), configs=[config])
    assert ["was to be withdrawn" in one for one in found] == [True] * count


@pytest.mark.parametrize(
    ("commented", "closes", "halted", "config", "doubt", "count"),
    [
        (1.5, 30.0, False, True, 1.1, 0),
        (None, 30.0, False, True, 1.1, 1),
        (3.6, 30.0, False, True, 1.1, 1),
        (3.6, 30.0, False, True, 3.1, 0),
        (-3.0, 30.0, False, True, 1.1, 0),
        (None, 2.5, False, True, 1.1, 0),
        (None, 30.0, True, True, 1.1, 0),
        (None, 30.0, False, False, 1.1, 0),
    ],
)
def test_a_forecast_is_followed_by_a_comment(
    tmp_path: Path, commented: float | None, closes: float, *, halted: bool, config: bool, doubt: float, count: int
) -> None:
    ref, venue = "metaculus:7:8", {"mode": "live", "forecasters": ["drifter"], "comment": config}
    row = {"seq": 1, "id": "i", "ref": ref, "venue": "metaculus", "action": "forecast", "state": "acked"}
    rows: list[Any] = [("intent", {**row, "planned_at": at(0.9), "changed_at": at(1.0), "forecast": "f"})]
    rows += [("attempt", {"intent": "i", "started_at": at(0.95), "settled_at": at(doubt)})]
    rows += [("question", {"ref": ref, "venue": "metaculus", "version": "v", "closes_at": at(closes)})]
    rows += [("arm", {"venue": "metaculus", "armed_at": at(-9.0), "until": at(90.0)})]
    if commented is not None:
        about = {"ref": ref, "venue": "metaculus", "action": "comment", "state": "acked"}
        rows.append(("intent", {**about, "seq": 2, "planned_at": at(commented)}))
    acts = [act("halt", 1.1)] if halted else []
    found = judge(
        tmp_path,
        *rows,
        passes=passed("submit", 2.0, 3.0, 4.0),
        acts=acts,
        configs=[{**CONFIG, "venues": {"metaculus": venue}}],
    )
    assert ["was commented on at" in one for one in found] == [True] * count


@pytest.mark.parametrize(
    ("ran", "leg", "refused", "count"),
    [
        (1.02, "yes", False, 0),
        (1.02, None, False, 1),
        (1.02, "no", False, 1),
        (None, None, False, 0),
        (1.02, None, True, 0),
    ],
)
def test_what_people_ask_to_be_closed_is_tried(
    tmp_path: Path, ran: float | None, leg: str | None, *, refused: bool, count: int
) -> None:
    target = {"venue": "manifold", "contract": "lamp", "leg": "yes"}
    asked = act("close", 1.0, targets=[target], refused=refused)
    rows = (
        []
        if leg is None
        else [("event", {"kind": "close", "at": at(1.03), "text": json.dumps({**target, "leg": leg})})]
    )
    found = judge(tmp_path, *rows, passes=[] if ran is None else passed("close", ran), acts=[asked])
    assert ["was to be closed at" in one for one in found] == [True] * count


@pytest.mark.parametrize(
    ("heard", "kind", "actor", "count"),
    [
        (1.02, "disarm", "ada", 0),
        (1.02, "arm", "ada", 1),
        (1.02, "disarm", "", 1),
        (1.02, None, "", 1),
        (None, None, "", 0),
    ],
)
def test_what_people_permit_is_in_the_audit(
    tmp_path: Path, heard: float | None, kind: str | None, actor: str, count: int
) -> None:
    rows = [] if kind is None else [("audit", {"kind": kind, "actor": actor, "at": at(1.03)})]
    passes = [] if heard is None else passed("requests", heard)
    found = judge(tmp_path, *rows, passes=passes, acts=[act("disarm", 1.0, venue="manifold")])
    assert ["is not in the audit" in one for one in found] == [True] * count


@pytest.mark.parametrize(
    ("decided", "expires", "why", "acts", "count"),
    [
        (1.6, 9.0, "waits for approval", [], 0),
        (3.6, 9.0, "waits for approval", [], 1),
        (3.6, 9.0, "locked: ada thinks about it", [], 0),
        (None, 9.0, "waits for approval", [], 1),
        (None, 1.2, "waits for approval", [], 0),
        (None, 9.0, "waits for approval", [act("halt", 1.1, venue="manifold")], 0),
    ],
)
def test_what_was_approved_is_decided_again(
    tmp_path: Path, decided: float | None, expires: float, why: str, acts: list[Values], count: int
) -> None:
    asked = {"forecast": "f0.0", "venue": "manifold", "state": "approved", "answered_at": at(1.0)}
    rows = [held(why, 0.2), ("approval", {**asked, "expires_at": at(expires)})]
    rows += (
        [] if decided is None else [("decision", {"id": 2, "forecast": "f0.0", "at": at(decided), "verdict": "send"})]
    )
    found = judge(tmp_path, forecast(0.0), *rows, *question(), passes=passed("submit", 0.1, 1.5, 2.5, 3.5), acts=acts)
    assert ["was decided on again at" in one for one in found if "approved at" in one] == [True] * count


# Ten shares that cost 5 and bring 3, with a stop-loss of 30 %.
@pytest.mark.parametrize(
    ("bid", "tried", "acts", "count"),
    [
        (0.3, None, [], 1),
        (0.3, 1.51, [], 0),
        (0.4, None, [], 0),
        (0.3, None, [act("halt", 0.5, venue="polymarket")], 0),
    ],
)
def test_what_is_to_be_sold_by_policy_is_tried_to_be_sold(
    tmp_path: Path, bid: float, tried: float | None, acts: list[Values], count: int
) -> None:
    ref, venue = "polymarket:0x01", {"mode": "live", "forecasters": ["drifter"], "trading": {"stop_loss": 0.3}}
    row = {"ref": ref, "venue": "polymarket", "action": "order", "state": "acked", "mode": "live"}
    orders = [("buy", -9.0), *([("sell", tried)] if tried else [])]
    rows: list[Any] = [
        (
            "intent",
            {
                **row,
                "id": side,
                "planned_at": at(hours),
                "changed_at": at(hours),
                "order_body": json.dumps({"contract": "0x01", "side": side}),
            },
        )
        for side, hours in orders
    ]
    rows += [("attempt", {"intent": side, "started_at": at(hours)}) for side, hours in orders]
    rows += [("question", {"ref": ref, "venue": "polymarket", "version": "v", "closes_at": at(90.0)})]
    rows += [("arm", {"venue": "polymarket", "armed_at": at(-99.0), "until": at(99.0)})]
    position = {
        "contract": "0x01",
        "leg": "no",
        "shares": 10.0,
        "bid": bid,
        "has_book": True,
        "pays": None,
        "paid": 5.0,
    }
    accounts = [
        {"venue": "polymarket", "clock": moment(hours), "faults": 0, "positions": [position]} for hours in (1.0, 1.5)
    ]
    found = judge(
        tmp_path,
        *rows,
        passes=passed("submit", 1.0, 1.5),
        acts=acts,
        accounts=accounts,
        configs=[{**CONFIG, "venues": {"polymarket": venue}}],
    )
    assert ["to be sold at" in one for one in found] == [True] * count
