"""What the ledger records, computed again on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.record_checks import RecordChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
REF = "manifold:lamp"
# The columns that the checks read, of the tables that they read.
TABLES = """
create table score (forecast, target, rule, resolution, value);
create table resolution (id, ref, kind, body, resolved_at);
create table forecast (id, ref, forecaster, state, price);
create table prediction (forecast, target, probability, body);
create table price (id, ref, seen_at, probability, body);
create table fill (intent, shares, price, fee, cash);
create table trial (forecast, number);
create table intent (id, ref, venue, mode, action, state, forecast, planned_at, order_body);
create table approval (forecast, state);
"""
Values = dict[str, Any]
Rows = list[tuple[str, Values]]


def judge(
    folder: Path, rows: Rows, *, trading: Values | None = None, trials: int = 1, endings: Any = None
) -> list[str]:
    ledger = write_ledger(folder, TABLES, rows)
    config = {"venues": {"manifold": {"trading": trading or {}}}, "forecasters": {"drifter": {"trials": trials}}}
    return [*RecordChecks(ledger=ledger, configs=[config], endings={} if endings is None else endings).violations()]


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


@pytest.mark.parametrize(("hours", "count"), [(0.0, 0), (1.0, 1)])
def test_an_outcome_counts_since_its_venue_gave_it(tmp_path: Path, hours: float, count: int) -> None:
    known: Any = {("manifold", "lamp"): {"since": NOON, "was_undone": False}}
    row = {"ref": REF, "kind": "happened", "resolved_at": (NOON + timedelta(hours=hours)).isoformat()}
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
