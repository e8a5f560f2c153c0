"""What the ledger records, computed again on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.execution.paper.forecast_book import FORECAST_BOOK_FILE
from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.record_checks import RecordChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
REF = "manifold:lamp"
# The columns that the checks read, of the tables that they read.
TABLES = """
create table score (forecast, target, rule, resolution, value);
create table resolution (id, ref, target, kind, value, body, resolved_at, seen_at);
create table forecast (id, ref, version, forecaster, state, price, revision, cutoff, started_at, made_at, fitted,
  detail);
create table question_version (version, ref, body, seen_at);
create table prediction (forecast, target, ref, probability, body, raw_probability, raw_body, scored_against);
create table question (ref, version, title, opens_at, closes_at, as_of, source, batch);
create table account_reading (id, venue, paper, at, equity, transfers, unconfirmed);
create table score_total (forecaster, rule, n, value);
create view score_round as select * from score_total;
create table score_bin (forecaster, bin, n, probability, outcome);
create table price (id, ref, seen_at, probability, body);
create table fill (intent, shares, price, fee, cash);
create table trial (forecast, number, ending, body, ended_at);
create table intent (id, ref, venue, mode, action, state, forecast, planned_at, order_body, text, predictions);
create table approval (forecast, state);
"""
Values = dict[str, Any]
Rows = list[tuple[str, Values]]


def judge(folder: Path, rows: Rows, *, trading: Values | None = None, trials: int = 1, **facts: Any) -> list[str]:
    ledger = write_ledger(folder, TABLES, rows)
    config = {"venues": {"manifold": {"trading": trading or {}}}, "forecasters": {"drifter": {"trials": trials}}}
    return [*RecordChecks(ledger=ledger, configs=[config], **{"endings": {}, **facts}).violations()]


def shares(ash: float, elm: float) -> str:
    return json.dumps({"probabilities": {"ash": ash, "elm": elm, "oak": 1.0 - ash - elm}})


# Of ash with a half: 0.25 + 0.0625 + 0.0625; ln 2; of 3 options 1 - ln 2 / ln 3. The price was a quarter, ln 4.
@pytest.mark.parametrize(
    ("rule", "value", "count"),
    [
        ("choice brier", 0.375, 0),
        ("choice brier", 0.1875, 1),
        ("choice log", 0.69314718, 0),
        ("choice log", 1.0, 1),
        ("choice baseline", 36.90702464, 0),
        ("choice baseline", 50.0, 1),
        ("crowd choice log", 1.38629436, 0),
        ("crowd choice baseline", -26.18595071, 0),
        ("crowd choice log", 0.69314718, 1),
    ],
)
def test_scores_of_a_choice_follow_their_formulas(tmp_path: Path, rule: str, value: float, count: int) -> None:
    outcome = json.dumps({"option": "ash"})
    rows: Rows = [
        ("score", {"forecast": "f", "target": "t", "rule": rule, "resolution": 1, "value": value}),
        ("resolution", {"id": 1, "ref": REF, "kind": "chosen", "body": outcome, "resolved_at": NOON.isoformat()}),
        ("forecast", {"id": "f", "ref": REF, "forecaster": "drifter", "state": "done", "price": 1}),
        ("prediction", {"forecast": "f", "target": "t", "body": shares(0.5, 0.25)}),
        ("price", {"id": 1, "ref": REF, "seen_at": NOON.isoformat(), "body": shares(0.25, 0.5)}),
    ]
    assert len(judge(tmp_path, rows)) == count


@pytest.mark.parametrize(("cash", "count"), [(-4.1, 0), (3.9, 0), (-4.0, 1), (4.1, 1)])
def test_a_fill_moves_its_shares_at_its_price_with_its_fee(tmp_path: Path, cash: float, count: int) -> None:
    row = {"intent": "i", "shares": 10.0, "price": 0.4, "fee": 0.1, "cash": cash}
    assert len(judge(tmp_path, [("fill", row)])) == count


@pytest.mark.parametrize(("trials", "count"), [(3, 0), (2, 1)])
def test_a_forecast_has_as_many_trials_as_are_set(tmp_path: Path, trials: int, count: int) -> None:
    rows: Rows = [("forecast", {"id": "f", "ref": REF, "forecaster": "drifter", "state": "done"})]
    rows += [("trial", {"forecast": "f", "number": number}) for number in range(1, trials + 1)]
    assert len(judge(tmp_path, rows, trials=3)) == count


@pytest.mark.parametrize(("hours", "seen", "count"), [(0.0, 0.25, 0), (1.0, 0.25, 1), (0.0, 0.2, 1)])
def test_an_outcome_counts_since_its_venue_gave_it(tmp_path: Path, hours: float, seen: float, count: int) -> None:
    known: Any = {("manifold", "lamp"): {"since": NOON, "was_undone": False}}
    times = {"resolved_at": NOON + timedelta(hours=hours), "seen_at": NOON + timedelta(hours=seen)}
    row = {"ref": REF, "kind": "happened", **{name: one.isoformat() for name, one in times.items()}}
    assert len(judge(tmp_path, [("resolution", row)], endings=known)) == count


# Of 0.7 and 0.4 the log-odds are 0.847 and -0.405.
@pytest.mark.parametrize(
    ("limit", "approved", "count"), [(1.3, None, 0), (1.0, None, 1), (1.0, "used", 0), (1.0, "rejected", 1)]
)
def test_nothing_too_far_from_the_market_is_sent_without_an_answer(
    tmp_path: Path, limit: float, approved: str | None, count: int
) -> None:
    body = json.dumps({"side": "buy", "leg": "yes", "expected": 0.4})
    row = {"id": "i", "ref": REF, "venue": "manifold", "mode": "live", "action": "order", "state": "acked"}
    rows: Rows = [("intent", {**row, "forecast": "f", "planned_at": NOON.isoformat(), "order_body": body})]
    rows += [("prediction", {"forecast": "f", "target": "t", "probability": 0.7})]
    rows += [] if approved is None else [("approval", {"forecast": "f", "state": approved})]
    assert len(judge(tmp_path, rows, trading={"divergence": limit})) == count


# Of the oak's 0.2 and 0.5 the log-odds are -1.386 and 0.
@pytest.mark.parametrize(("belief", "limit", "count"), [(0.7, 1.4, 0), (0.7, 1.3, 1), (0.5, 1.0, 0)])
def test_of_several_options_the_farthest_one_counts(tmp_path: Path, belief: float, limit: float, count: int) -> None:
    row = {"id": "i", "ref": REF, "venue": "manifold", "mode": "live", "action": "forecast", "state": "acked"}
    row |= {"forecast": "f", "planned_at": NOON.isoformat(), "order_body": "{}"}
    rows: Rows = [
        ("intent", row),
        ("prediction", {"forecast": "f", "target": "t", "body": shares(belief, 0.1)}),
        ("price", {"id": 1, "ref": REF, "seen_at": NOON.isoformat(), "body": shares(0.4, 0.1)}),
    ]
    assert len(judge(tmp_path, rows, trading={"divergence": limit})) == count


# Of two buckets: 0.2 on the first one by a flat 0.45 is 50 ln(0.2 / 0.45), and beyond an end by 0.05.
@pytest.mark.parametrize(
    ("outcome", "ends", "value", "count"),
    [
        (5.0, (True, True), -40.546511, 0),
        (5.0, (True, False), -40.546511, 1),
        (5.0, (True, False), -43.249872, 0),
        (10.0, (True, True), -40.546511, 0),
        (-1.0, (True, True), 69.314718, 0),
    ],
)
def test_a_curve_scores_by_its_mass_on_what_happened(
    tmp_path: Path, outcome: float, ends: tuple[bool, bool], value: float, count: int
) -> None:
    shape = {"grid": [0.0, 10.0, 20.0], "open_lower": ends[0], "open_upper": ends[1]}
    cdf = [0.2, 0.4, 0.9]
    rows: Rows = [
        ("score", {"forecast": "f", "target": "t", "rule": "curve baseline", "resolution": 1, "value": value}),
        ("resolution", {"id": 1, "ref": REF, "kind": "landed", "value": outcome, "resolved_at": NOON.isoformat()}),
        ("forecast", {"id": "f", "ref": REF, "version": "v", "forecaster": "drifter", "state": "done"}),
        ("question_version", {"version": "v", "ref": REF, "body": json.dumps({"shape": shape})}),
        ("prediction", {"forecast": "f", "target": "t", "body": json.dumps({"cdf": cdf})}),
    ]
    assert len(judge(tmp_path, rows)) == count


# The log-odds of 0.2, 0.5 and 0.8 are -1.386, 0 and 1.386.
@pytest.mark.parametrize(
    ("trials", "said", "count"),
    [
        ([("finished", 0.8), ("finished", 0.5), ("time", 0.2)], 2.0 / 3.0, 0),
        ([("finished", 0.8), ("finished", 0.5), ("time", 0.2)], 0.5, 1),
        ([("finished", 0.8), ("time", 0.2)], 0.5, 0),
        ([("finished", 0.8), ("time", 0.2)], 0.8, 1),
        ([("finished", 0.8), ("failed", 0.2)], 0.8, 0),
        # A mean of log-odds takes no chance for smaller than one in ten thousand.
        ([("finished", 0.00002), ("finished", 0.00002)], 0.0001, 0),
        ([("finished", 0.99998), ("finished", 0.99998)], 0.9999, 0),
        ([("finished", 0.00002), ("finished", 0.00002)], 0.00002, 1),
    ],
)
def test_a_forecast_is_made_of_the_trials_that_count(
    tmp_path: Path, trials: list[tuple[str, float]], said: float, count: int
) -> None:
    rows: Rows = [("forecast", {"id": "f", "ref": REF, "forecaster": "drifter", "state": "done"})]
    rows += [("prediction", {"forecast": "f", "target": "t", "probability": said})]
    for number, (ending, chance) in enumerate(trials, 1):
        body = json.dumps({"belief": {"predictions": {"t": {"probability": chance}}}})
        rows.append(("trial", {"forecast": "f", "number": number, "ending": ending, "body": body}))
    assert len(judge(tmp_path, rows, trials=len(trials))) == count


# Ash came true, or what stands for it; what was not in force yet is part of the last one.
@pytest.mark.parametrize(
    ("outcome", "value", "count"),
    [
        ({"option": "ash", "otherwise": ["oak"]}, 0.69314718, 0),
        ({"option": "ash", "otherwise": ["oak"]}, 1.38629436, 1),
        ({"option": "fir", "otherwise": ["oak"]}, 1.38629436, 0),
        ({"option": "fir", "otherwise": ["ivy", "elm"]}, 1.38629436, 0),
        ({"option": "oak", "otherwise": ["oak"], "early": ["elm"]}, 0.69314718, 0),
        ({"option": "oak", "otherwise": ["oak"], "early": ["elm"]}, 1.38629436, 1),
    ],
)
def test_another_option_stands_for_one_that_is_not_there(
    tmp_path: Path, outcome: Values, value: float, count: int
) -> None:
    rows: Rows = [
        ("score", {"forecast": "f", "target": "t", "rule": "choice log", "resolution": 1, "value": value}),
        ("resolution", {"id": 1, "ref": REF, "kind": "chosen", "body": json.dumps(outcome)}),
        ("forecast", {"id": "f", "ref": REF, "forecaster": "x", "state": "done"}),
        ("prediction", {"forecast": "f", "target": "t", "body": shares(0.5, 0.25)}),
    ]
    assert len(judge(tmp_path, rows)) == count


# Of the curve 0, 0.5, 1 over two steps and an outcome in the middle: twice the integral of a square from 0 to a half.
@pytest.mark.parametrize(("value", "count"), [(1.0 / 12.0, 0), (0.1, 1)])
def test_the_distance_of_a_curve_is_squared(tmp_path: Path, value: float, count: int) -> None:
    shape = json.dumps({"shape": {"grid": [0.0, 10.0, 20.0]}})
    rows: Rows = [
        ("score", {"forecast": "f", "target": "t", "rule": "crps", "resolution": 1, "value": value}),
        ("resolution", {"id": 1, "ref": REF, "kind": "landed", "value": 10.0, "resolved_at": NOON.isoformat()}),
        ("forecast", {"id": "f", "ref": REF, "version": "v", "forecaster": "x", "state": "done"}),
        ("question_version", {"version": "v", "ref": REF, "body": shape}),
        ("prediction", {"forecast": "f", "target": "t", "body": json.dumps({"cdf": [0.0, 0.5, 1.0]})}),
    ]
    assert len(judge(tmp_path, rows)) == count


def scored(rules: list[str], kind: str = "happened", hours: float = 0.0, **values: Any) -> Rows:
    """Return a forecast that was made so many hours after noon, with its scores for what came true at noon."""
    name = f"f{hours}"
    cutoff = (NOON + timedelta(hours=hours)).isoformat()
    row = {"id": name, "ref": REF, "version": "v", "forecaster": "x", "state": "done", "revision": hours + 10.0}
    said = {"forecast": name, "target": "t", "ref": REF, "probability": 0.5, "scored_against": 1}
    return [
        ("forecast", {**row, "cutoff": cutoff, **values}),
        ("prediction", said),
        *(("score", {"forecast": name, "target": "t", "rule": one, "resolution": 1, "value": 0.25}) for one in rules),
    ]


# Of one half that came true.
BIN: tuple[str, Values] = ("score_bin", {"forecaster": "x", "bin": 4, "n": 1, "probability": 0.5, "outcome": 1.0})


def asked(kind: str = "happened") -> Rows:
    """Return a question that closed, and had its outcome, at noon."""
    outcome = {"id": 1, "ref": REF, "kind": kind, "value": 1.0, "body": "{}", "resolved_at": NOON.isoformat()}
    return [
        ("question", {"ref": REF, "version": "v", "closes_at": NOON.isoformat()}),
        ("question_version", {"version": "v", "ref": REF, "body": json.dumps({"shape": {}, "facts": {}})}),
        ("resolution", outcome),
        ("price", {"id": 1, "ref": REF, "seen_at": NOON.isoformat(), "probability": 0.4}),
    ]


@pytest.mark.parametrize(
    ("kind", "rules", "price", "count"),
    [
        ("happened", ["brier"], None, 0),
        ("happened", [], None, 1),
        ("happened", ["brier"], 1, 1),
        ("happened", ["brier", "crowd brier"], 1, 0),
        ("void", [], None, 0),
        ("void", ["brier"], None, 1),
    ],
)
def test_what_is_marked_as_scored_has_its_scores(
    tmp_path: Path, kind: str, rules: list[str], price: int | None, count: int
) -> None:
    total = ("score_total", {"forecaster": "x", "rule": "brier", "n": 1, "value": 0.25})
    totals = [total] if "brier" in rules and kind != "void" else []
    totals += [BIN] * (kind == "happened")
    assert len(judge(tmp_path, [*asked(kind), *scored(rules, kind, -1.0, price=price), *totals])) == count


@pytest.mark.parametrize(("counted", "count"), [(1, 0), (2, 1), (0, 1)])
def test_the_last_forecast_before_the_outcome_is_in_the_totals(tmp_path: Path, counted: int, count: int) -> None:
    rows = [*asked(), *(row for hours in (-2.0, -1.0, 1.0) for row in scored(["brier"], hours=hours))]
    rows += [("score_total", {"forecaster": "x", "rule": "brier", "n": counted, "value": 0.25 * counted}), BIN]
    # Sums by round are those of the totals here.
    assert len(judge(tmp_path, rows)) == 2 * count


# Where a venue scores at one moment, what is forecast later does not count.
@pytest.mark.parametrize(("spot", "count"), [(-0.5, 0), (-1.5, 1)])
def test_what_is_forecast_after_the_moment_of_its_score_does_not_count(tmp_path: Path, spot: float, count: int) -> None:
    total = ("score_total", {"forecaster": "x", "rule": "brier", "n": 1, "value": 0.25})
    found = judge(
        tmp_path, [*asked(), *scored(["brier"], hours=-1.0), total, BIN], spots={REF: NOON + timedelta(hours=spot)}
    )
    assert len(found) == 3 * count


@pytest.mark.parametrize(("changed", "count"), [({}, 0), ({"bin": 5}, 2), ({"n": 2}, 1), ({"outcome": 0.0}, 1)])
def test_chances_are_counted_in_bins(tmp_path: Path, changed: Values, count: int) -> None:
    total = ("score_total", {"forecaster": "x", "rule": "brier", "n": 1, "value": 0.25})
    rows = [*asked(), *scored(["brier"], hours=-1.0), total, ("score_bin", {**BIN[1], **changed})]
    assert len(judge(tmp_path, rows)) == count


@pytest.mark.parametrize(
    ("text", "template", "count"),
    [
        ("Forecast 50% (revision 2, 1 trial of x, information until 2026-03-02 12:00 UTC)", None, 0),
        ("Forecast 50% (revision 1, 1 trial of x, information until 2026-03-02 12:00 UTC)", None, 1),
        ("Forecast 50% (revision 2, 1 trial of y, information until 2026-03-02 12:00 UTC)", None, 1),
        ("It is half.", "{forecast}", 0),
    ],
)
def test_a_comment_is_of_its_forecast(tmp_path: Path, text: str, template: str | None, count: int) -> None:
    made = {"id": "f", "ref": REF, "forecaster": "x", "revision": 2, "state": "failed", "cutoff": NOON.isoformat()}
    said = {"id": "i", "ref": REF, "venue": "manifold", "action": "comment", "forecast": "f", "text": text}
    ledger = write_ledger(tmp_path, TABLES, [("forecast", made), ("intent", said)])
    config = {"venues": {"manifold": {} if template is None else {"comment_template": template}}}
    assert len([*RecordChecks(ledger=ledger, configs=[config], endings={}).violations()]) == count


@pytest.mark.parametrize(
    ("said", "raw", "use", "count"),
    [(0.5, 0.5, None, 0), (0.55, 0.5, None, 1), (0.55, 0.5, "gated", 0), (0.65, 0.5, "gated", 1)],
)
def test_a_forecast_is_corrected_where_that_is_set(
    tmp_path: Path, said: float, raw: float, use: str | None, count: int
) -> None:
    rows: Rows = [
        ("forecast", {"id": "f", "ref": REF, "forecaster": "x", "state": "done"}),
        ("prediction", {"forecast": "f", "target": "t", "probability": said, "raw_probability": raw}),
    ]
    tables: Values = {"venues": {"manifold": {}}, **({} if use is None else {"calibration": {"use": use}})}
    ledger = write_ledger(tmp_path, TABLES, rows)
    assert len([*RecordChecks(ledger=ledger, configs=[tables], endings={}).violations()]) == count


# The log-odds of 0.6 and 0.8 are 0.405 and 1.386; 0.575 of both are 1.030, which is 0.737.
@pytest.mark.parametrize(
    ("said", "weights", "count"),
    [
        (0.7369666277, "equal weights with the sum 1.15: ash 0.57, elm 0.57", 0),
        (0.7, "equal weights with the sum 1.15: ash 0.57, elm 0.57", 1),
        (0.831164, "equal weights with the sum 1.15: elm 1.15", 1),
        (0.731059, "weights fitted to 4 outcomes in 2 blocks: ash 0.70, elm 0.52", 0),
        (0.8, "weights fitted to 4 outcomes in 2 blocks: ash 0.70, elm 0.52", 1),
    ],
)
def test_a_blend_is_made_of_the_newest_answers(tmp_path: Path, said: float, weights: str, count: int) -> None:
    tables: Values = {"venues": {"manifold": {}}, "forecasters": {"both": {"settings": {"members": ["ash", "elm"]}}}}
    answers = (("ash", -5.0, 0.1), ("ash", -2.0, 0.6), ("elm", -1.0, 0.8), ("elm", 2.0, 0.3), ("both", 0.0, said))
    rows: Rows = []
    for who, hours, chance in answers:
        times = dict.fromkeys(("cutoff", "started_at", "made_at"), (NOON + timedelta(hours=hours)).isoformat())
        made = {
            "id": f"{who}{hours}",
            "ref": REF,
            "version": "v",
            "forecaster": who,
            "state": "done",
            "revision": hours,
        }
        rows.append(("forecast", {**made, **times}))
        known = {"forecast": f"{who}{hours}", "target": "t", "probability": chance, "raw_probability": chance}
        rows.append(("prediction", known))
    belief = json.dumps({"belief": {"reason": f"a pool of log odds by {weights}"}})
    rows.append(("trial", {"forecast": "both0.0", "number": 1, "body": belief}))
    ledger = write_ledger(tmp_path, TABLES, rows)
    found = [*RecordChecks(ledger=ledger, configs=[tables], endings={}).violations()]
    assert len([one for one in found if "the blend" in one]) == count


@pytest.mark.parametrize(("kept", "count"), [([1, 2], 0), ([2], 1), ([1], 0)])
def test_the_highest_value_of_an_account_is_kept(tmp_path: Path, kept: list[int], count: int) -> None:
    rows = [{"venue": "sea", "paper": 1, "at": f"{number}"} for number in (1, 2, 3)]
    readings = [{**row, "worth": 10.0 - number} for number, row in enumerate(rows[:2])]
    left = [
        {**rows[number - 1], "id": number, "equity": 9.0, "transfers": 0.0, "unconfirmed": 0.0} for number in (*kept, 3)
    ]
    ledger = write_ledger(tmp_path, TABLES, [("account_reading", row) for row in left])
    checks = RecordChecks(ledger=ledger, configs=[{"venues": {}}], endings={}, readings=readings)
    assert len([*checks.violations()]) == count


@pytest.mark.parametrize(("ended", "count"), [("2", 0), ("3", 1), (None, 1)])
def test_on_paper_a_forecast_ends_with_the_next_statement(tmp_path: Path, ended: str | None, count: int) -> None:
    (folder := tmp_path / "metaculus").mkdir()
    statements = "create table statement (seq, account, ref, action, begun_at, ended_at)"
    known = {"account": "a", "ref": REF}
    said: Rows = [
        ("statement", {**known, "seq": 1, "action": "forecast", "begun_at": "1", "ended_at": ended}),
        ("statement", {**known, "seq": 2, "action": "withdraw", "begun_at": "2", "ended_at": "2"}),
    ]
    write_ledger(folder, statements, said).rename(folder / FORECAST_BOOK_FILE)
    assert len(judge(tmp_path, [])) == count


@pytest.mark.parametrize(
    ("learned", "days_ago", "training", "count"),
    [(0, 1, "", 1), (1, 1, "", 0), (2, 1, "", 1), (1, 0, "", 1), (0, 0, "", 0), (1, 1, "no", 1)],
)
def test_a_blend_learns_from_what_came_before_its_day(
    tmp_path: Path, learned: int, days_ago: int, training: str, count: int
) -> None:
    tables: Values = {"venues": {"manifold": {}}, "forecasters": {"both": {"settings": {"members": ["ash"]}}}}
    ended, version = (NOON - timedelta(days=days_ago)).isoformat(), {"facts": {"training": training}}
    early = dict.fromkeys(("cutoff", "started_at", "made_at"), (NOON - timedelta(days=2)).isoformat())
    today = dict.fromkeys(("cutoff", "started_at", "made_at"), NOON.isoformat())
    kept = {"version": "v", "state": "done", "revision": 1}
    how = f"weights fitted to {learned} outcomes in 1 blocks" if learned else "equal weights with the sum 1.15"
    rows: Rows = [
        ("question_version", {"version": "v", "ref": "o", "body": json.dumps(version)}),
        ("question", {"ref": "o", "version": "v"}),
        (
            "resolution",
            {"id": 1, "ref": "o", "target": "t", "kind": "happened", "resolved_at": ended, "seen_at": ended},
        ),
        ("forecast", {**kept, **early, "id": "a", "ref": "o", "forecaster": "ash"}),
        ("prediction", {"forecast": "a", "target": "t", "raw_probability": 0.5, "probability": 0.5}),
        ("forecast", {**kept, **today, "id": "m", "ref": REF, "forecaster": "ash"}),
        ("prediction", {"forecast": "m", "target": "t", "raw_probability": 0.6, "probability": 0.6}),
        ("forecast", {**kept, **today, "id": "b", "ref": REF, "forecaster": "both"}),
        ("prediction", {"forecast": "b", "target": "t", "raw_probability": 0.6145, "probability": 0.6145}),
        ("trial", {"forecast": "b", "number": 1, "body": json.dumps({"belief": {"reason": f"by {how}: ash 1.15"}})}),
    ]
    ledger = write_ledger(tmp_path, TABLES, rows)
    found = [*RecordChecks(ledger=ledger, configs=[tables], endings={}).violations()]
    assert len([one for one in found if "outcomes taught" in one]) == count


@pytest.mark.parametrize(
    ("answers", "share", "count"),
    [((0, 0), 0.5, 0), ((1, 0), 0.5, 1), ((1, 0), 0.6, 0), ((0, 0), 0.0, 0), ((1, 0), 0.0, 1)],
)
def test_a_forecast_fails_only_where_too_few_trials_answered(
    tmp_path: Path, answers: tuple[int, ...], share: float, count: int
) -> None:
    rows: Rows = [("forecast", {"id": "f", "ref": REF, "forecaster": "drifter", "state": "failed"})]
    rows[0][1]["detail"] = "1 trial failed: it broke"
    for number, answer in enumerate(answers, 1):
        body = json.dumps({"belief": {"predictions": {}}} if answer else {})
        ending = "no step" if answer else "failed"
        values = {"forecast": "f", "number": number, "ending": ending, "body": body, "ended_at": NOON.isoformat()}
        rows.append(("trial", values))
    ledger = write_ledger(tmp_path, TABLES, rows)
    tables = {"venues": {"manifold": {}}, "limits": {"min_trial_share": share}}
    found = [*RecordChecks(ledger=ledger, configs=[tables], endings={}).violations()]
    assert ["failed with" in one for one in found] == [True] * count


@pytest.mark.parametrize(("said", "count"), [("Forecast 38.3% (", 0), ("Forecast 61.7% (", 1), ("Forecast (", 1)])
def test_a_comment_says_what_was_forecast(tmp_path: Path, said: str, count: int) -> None:
    text = f"{said}revision 1, 1 trial of drifter, information until 2026-03-01 12:00 UTC)"
    forecast = {"id": "f", "ref": REF, "forecaster": "drifter", "revision": 1, "cutoff": "2026-03-01T12:00:00Z"}
    rows: Rows = [("forecast", forecast), ("prediction", {"forecast": "f", "probability": 0.38275})]
    rows += [
        ("intent", {"id": "i", "ref": REF, "venue": "metaculus", "action": "comment", "text": text, "forecast": "f"})
    ]
    found = judge(tmp_path, rows)
    assert ["was forecast" in one for one in found] == [True] * count


@pytest.mark.parametrize(("said", "closing", "count"), [(0.3, "", 0), (0.7, "", 1), (0.7, "ada asked for it", 0)])
def test_what_is_submitted_is_what_was_forecast(tmp_path: Path, said: float, closing: str, count: int) -> None:
    predictions = json.dumps({"outcome": {"kind": "binary", "probability": said}})
    row = {"id": "i", "ref": REF, "action": "order", "forecast": "f", "predictions": predictions}
    rows: Rows = [("intent", {**row, "order_body": json.dumps({"closing": closing})})]
    rows += [("prediction", {"forecast": "f", "target": "outcome", "probability": 0.3})]
    assert ["and its forecast" in one for one in judge(tmp_path, rows)] == [True] * count


@pytest.mark.parametrize(
    ("hours", "as_of", "count"), [(0.0, None, 0), (1.0, None, 1), (-1.0, None, 1), (-5.0, -5.0, 0), (0.0, -5.0, 1)]
)
def test_a_forecast_knows_what_there_was_when_it_began(
    tmp_path: Path, hours: float, as_of: float | None, count: int
) -> None:
    moments = {
        name: (NOON + timedelta(hours=one)).isoformat() for name, one in (("cutoff", hours), ("started_at", 0.0))
    }
    rows: Rows = [("forecast", {"id": "f", "ref": REF, "state": "done", **moments})]
    day = None if as_of is None else (NOON + timedelta(hours=as_of)).isoformat()
    rows += [
        ("question", {"ref": REF, "version": "v", "as_of": day}),
        ("question_version", {"version": "v", "ref": REF}),
    ]
    assert ["knows what there was by" in one for one in judge(tmp_path, rows)] == [True] * count


# Of a round of the second of March, forecast in the course of that day, whatever day its questions have on record.
@pytest.mark.parametrize(("hours", "count"), [(-12.0, 0), (0.0, 1), (11.99, 1)])
def test_a_round_is_forecast_with_what_was_known_before_its_day(tmp_path: Path, hours: float, count: int) -> None:
    ref, cutoff = "forecastbench:2026-03-02/fred/dgs10", (NOON + timedelta(hours=hours)).isoformat()
    made = {"cutoff": cutoff, "started_at": (NOON + timedelta(hours=1.0)).isoformat()}
    rows: Rows = [
        ("forecast", {"id": "f", "ref": ref, "state": "done", **made}),
        ("question", {"ref": ref, "version": "v", "as_of": cutoff}),
        ("question_version", {"version": "v", "ref": ref}),
    ]
    assert ["knows what there was by" in one for one in judge(tmp_path, rows)] == [True] * count


@pytest.mark.parametrize(
    ("changed", "count"), [({}, 0), ({"closes_at": "2026-03-03T12:00:00Z"}, 1), ({"title": "Is it lit?"}, 1)]
)
def test_the_row_of_a_question_is_that_of_its_newest_version(tmp_path: Path, changed: Values, count: int) -> None:
    body = {"title": "Will it be lit?", "closes_at": "2026-03-02T12:00:00Z"}
    rows: Rows = [
        ("question", {"ref": "manifold:lamp", "version": "v", **body, **changed}),
        ("question_version", {"version": "v", "ref": "manifold:lamp", "body": json.dumps(body)}),
    ]
    found = judge(tmp_path, rows)
    assert len(found) == count
    assert all(one.startswith("questions: ") for one in found)
