"""Purchases that are too small, and reasons to buy nothing that are wrong, on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.omission_checks import JobPass
from tests.simulation.full_system.shortfall_checks import WITH_LESS, ShortfallChecks
from tests.simulation.full_system.sizing_checks import SizingChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# The columns that the checks read, of the tables that they read.
TABLES = """
create table intent (id, seq, venue, account, mode, ref, action, state, planned_at, changed_at, cost, order_body,
  predictions, event, creator, category, forecast);
create table fill (intent, reference, at, shares, cash);
create table attempt (intent, started_at, settled_at, state);
create table account_reading (venue, account, paper, at, until, cash, equity);
create table resolution (ref, seen_at);
create table decision (forecast, at, until, verdict, why);
create table forecast (id, ref, made_at);
create table question (ref, venue);
create table prediction (forecast, probability);
create table approval (asked_at, venue);
"""
WHO = {"venue": "manifold", "account": "a"}
Values = dict[str, Any]


def at(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def bought(cost: float, number: int = 1, minutes: float = 0.0, ref: str = "manifold:lamp", **values: Any) -> Any:
    """Return a purchase from a market maker with 100 shares of each side, by somebody who believes 0.6."""
    shares = cost + 100.0 - 10_000.0 / (100.0 + cost)
    body = {"contract": ref.partition(":")[2], "leg": "yes", "side": "buy", "expected": cost / shares, "limit": 0.6}
    body |= {"shares": shares, "cost": cost, "edge": 0.6 - cost / shares}
    row = {"id": f"i{number}", "seq": number, "mode": "live", "ref": ref, "action": "order", "state": "acked"}
    row |= {"planned_at": at(minutes), "changed_at": at(minutes), "cost": cost, "order_body": json.dumps(body)}
    return "intent", {**WHO, **row, "predictions": "{}", "event": "", "creator": "", "category": "", **values}


def judge(folder: Path, *rows: tuple[str, Values], cash: float = 2_000.0, **tables: Values) -> list[str]:
    """Return what is wrong with a ledger of these rows, at a venue with these tables of its configuration."""
    reading = {"paper": 0, "at": at(-1.0), "until": at(0.0), "cash": cash, "equity": 2_000.0}
    ledger = write_ledger(folder, TABLES, [("account_reading", {**WHO, **reading}), *rows])
    seen = {(name, "pool"): [{"clock": NOON, "prob": 0.5, "pool": (100.0, 100.0, 0.5)}] for name in ("lamp", "ship")}
    config = {"venues": {"manifold": tables}}
    passes = [JobPass(job="submit", started_at=NOON - timedelta(minutes=1), ended_at=NOON + timedelta(minutes=1))]
    seen |= {
        ("row", leg): [{"clock": NOON, "bid": 0.38, "ask": 0.41, "bids": [(0.38, 9.0)], "asks": [(0.41, 9.0)]}]
        for leg in ("yes", "no")
    }
    groups = dict.fromkeys(("event", "creator", "category"), "")
    sizing = SizingChecks(ledger=ledger, configs=[config], books=seen, contracts={"row": {**groups, "fees": None}})
    return [*ShortfallChecks(sizing=sizing, acts=[], passes=passes).violations()]


HELD: tuple[str, Values] = ("decision", {"forecast": "f", "at": at(0.0), "until": at(10.0), "verdict": "hold"})
FORECAST: list[tuple[str, Values]] = [
    ("forecast", {"id": "f", "ref": "manifold:row", "made_at": at(-1.0)}),
    ("question", {"ref": "manifold:row", "venue": "manifold"}),
    ("prediction", {"forecast": "f", "probability": 0.6}),
]


# All of the cash would be worth 19.6 or so, as far as the price stays a cent below the belief: with 100 a side it is
# 0.59 after 20 (120 / (120 + 83.3)). A quarter of what the whole stake is comes to 5.2.
@pytest.mark.parametrize(
    ("cost", "rows", "tables", "count"),
    [
        (5.2, [], {}, 0),
        (4.0, [], {}, 1),
        (4.0, [], {"caps": {"per_order": 4.0}}, 0),
        (3.5, [], {"caps": {"per_order": 4.0}}, 1),
        (4.0, [bought(4.0, 2, ref="manifold:ship")], {"caps": {"per_day": 8.0}}, 0),
        (4.0, [bought(4.0, 2, ref="manifold:ship")], {"caps": {"per_day": 12.0}}, 2),
        # What was bought in the morning counts for the day, and for the account until it is known how it ended.
        (4.0, [bought(8.0, 0, -300.0, "manifold:ship")], {"caps": {"per_day": 12.0}}, 0),
        (4.0, [bought(8.0, 0, -300.0, "manifold:ship")], {"caps": {"total": 12.0}}, 0),
        (
            4.0,
            [bought(8.0, 0, -300.0, "manifold:ship"), ("resolution", {"ref": "manifold:ship", "seen_at": at(-60.0)})],
            {"caps": {"total": 12.0}},
            1,
        ),
        # Others that may have been meant in the same pass, and an order of the same question.
        (4.0, [*FORECAST, ("decision", {**HELD[1], "why": "halted by STOP"})], {}, 0),
        (4.0, [*FORECAST, ("decision", {**HELD[1], "why": "no order: it is cheap"})], {}, 1),
        # One that was sized with it, and got less than the venue takes.
        (
            4.0,
            [*FORECAST, ("decision", {**HELD[1], "why": f"no order: 9 are wanted: only 1 {WITH_LESS} order"})],
            {},
            0,
        ),
        (4.0, [("approval", {"asked_at": at(0.0), "venue": "manifold"})], {}, 0),
        (4.0, [bought(4.0, 2, 0.5, "manifold:ship", state="superseded")], {}, 0),
    ],
)
def test_a_purchase_is_as_large_as_it_may_be(
    tmp_path: Path, cost: float, rows: list[tuple[str, Values]], tables: Values, count: int
) -> None:
    found = judge(tmp_path, bought(cost), *rows, **tables)
    assert len(found) == count
    assert all("nothing bounds it so" in one for one in found)


@pytest.mark.parametrize(
    ("why", "count"),
    [
        ("nothing may be bought: caps.per_day = 9 leaves 1.00, 8.00 is at stake", 0),
        ("nothing may be bought: caps.per_day = 9 leaves 0.50, 8.50 is at stake", 1),
        ("nothing may be bought: caps.per_day = 7 leaves 0.00, 8.00 is at stake", 1),
        ("nothing may be bought: caps.per_question = 3 leaves 0.00, 8.00 is at stake", 1),
        ("no order: the belief 0.600 is within 0.03 of the market's 0.580", 0),
        ("no order: the belief 0.600 is within 0.03 of the market's 0.550", 1),
        ("no order: the belief 0.600 is within 0.09 of the market's 0.550", 1),
        ("no order: the belief 0.570 is within 0.03 of the market's 0.550", 1),
    ],
)
def test_a_reason_to_buy_nothing_is_true(tmp_path: Path, why: str, count: int) -> None:
    caps = {"per_day": 9.0, "per_question": 3.0}
    rows: list[tuple[str, Values]] = [*FORECAST, ("decision", {**HELD[1], "why": why})]
    rows += [bought(8.0, 1, -300.0, "manifold:ship")]
    assert len(judge(tmp_path, *rows, caps=caps)) == count


# YES is offered at 0.41 and wanted at 0.38; 2000 of cash are there, and nothing was closed or bought on the question.
@pytest.mark.parametrize(
    ("why", "hours", "count"),
    [
        ("no order: yes costs 0.4100 with fees and is worth 0.4200 by the belief: a gain of less than 0.03", 1.0, 1),
        ("no order: yes costs 0.4300 with fees and is worth 0.6000 by the belief: a gain of less than 0.03", 1.0, 1),
        ("no order: yes costs 0.4100 with fees and is worth 0.6000 by the belief: a gain of less than 0.2", 1.0, 1),
        ("no order: yes is offered at 0.41, outside the band 0.03 to 0.97", 1.0, 1),
        ("no order: 5.00 yes are held, but selling brings less than their worth of 0.370", 1.0, 1),
        ("no order: 5.00 yes are held, but selling brings less than their worth of 0.400", 1.0, 0),
        ("no order: 5.00 yes are held, but selling brings less than their worth of 0.370", 9.0, 0),
        ("no order: the held shares are enough for a belief of 0.600 at 0.500", 1.0, 1),
        ("no order: 0.40 may be spent, less than the minimum bet", 1.0, 1),
        ("caps.orders_per_hour = 1: 1 in the last hour", 1.0 / 6.0, 1),
        ("a position in it was closed at 2026-03-02 09:00 UTC; it pauses (trading.cooldown_h = 168)", 165.0, 1),
    ],
)
def test_a_reason_about_market_and_money_is_true(tmp_path: Path, why: str, hours: float, count: int) -> None:
    held = {**HELD[1], "why": why, "until": at(60.0 * hours)}
    sent = ("attempt", {"intent": "i1", "started_at": at(-200.0), "settled_at": at(-200.0), "state": "acked"})
    ship = bought(8.0, 1, -300.0, "manifold:ship")
    found = judge(tmp_path, *FORECAST, ("decision", held), ship, sent, caps={"orders_per_hour": 1})
    assert len([one for one in found if "manifold:row" in one]) == count


# Each costs 5.2, a quarter of the whole stake; both are of one event.
@pytest.mark.parametrize(
    ("bankroll", "says"),
    [
        ({}, ["each alone may get"]),
        ({"correlation": 0.0}, []),
        ({"correlation": 0.0, "per_pass": 0.005}, ["of the account are 10.00"]),
        ({"correlation": 0.0, "per_pass": 0.006}, []),
    ],
)
def test_a_pass_buys_no_more_than_its_share_and_bets_on_one_event_are_one(
    tmp_path: Path, bankroll: Values, says: list[str]
) -> None:
    rows = [bought(5.2, 1, event="e"), bought(5.2, 2, ref="manifold:ship", event="e")]
    rows = [(name, {**row, "predictions": json.dumps({"outcome": {"probability": 0.6}})}) for name, row in rows]
    found = [one for one in judge(tmp_path, *rows, bankroll=bankroll) if "the pass of" in one]
    assert [text in one for text, one in zip(says, found, strict=True)] == [True] * len(says)


# The pass began a minute before noon.
@pytest.mark.parametrize(("minutes", "count"), [(-2.0, 1), (-0.5, 0)])
def test_what_was_forecast_in_the_course_of_a_pass_is_a_bet_of_its_own(
    tmp_path: Path, minutes: float, count: int
) -> None:
    rows = [bought(5.2, 1, event="e"), bought(5.2, 2, ref="manifold:ship", event="e", forecast="later")]
    rows = [(name, {**row, "predictions": json.dumps({"outcome": {"probability": 0.6}})}) for name, row in rows]
    rows += [("forecast", {"id": "later", "ref": "manifold:ship", "made_at": at(minutes)})]
    found = judge(tmp_path, *rows)
    assert ["each alone may get" in one for one in found if "the pass of" in one] == [True] * count


def test_what_was_sold_again_is_not_at_stake_once_that_is_known(tmp_path: Path) -> None:
    _, sale = bought(1.0, 2, -200.0, "manifold:ship")
    sale |= {"cost": 0.0, "order_body": json.dumps({**json.loads(sale["order_body"]), "side": "sell", "cost": 0.0})}
    fills = [("i1", -300.0, 16.0, -8.0), ("i2", -200.0, 8.0, 5.0)]
    rows: list[tuple[str, Values]] = [
        ("fill", {"intent": name, "reference": "r", "at": at(minutes), "shares": shares, "cash": cash})
        for name, minutes, shares, cash in fills
    ]
    for used, asked, count in ((4.0, -190.0, 0), (8.0, -190.0, 1), (8.0, 9.0, 0)):
        (folder := tmp_path / f"{used}, {asked}").mkdir()
        attempt = ("attempt", {"intent": "i2", "settled_at": at(asked)})
        why = f"nothing may be bought: caps.total = 9 leaves 0.00, {used:.2f} is at stake"
        held = [bought(8.0, 1, -300.0, "manifold:ship"), ("intent", sale), attempt, *rows]
        found = judge(folder, *held, *FORECAST, ("decision", {**HELD[1], "why": why}), caps={"total": 9.0})
        assert len(found) == count


# Three purchases may cost 12.2 together: 9.9 shares each at 0.41, of which 9 are whole. What one loses by that, the
# others do not get.
@pytest.mark.parametrize(("shares", "count"), [(9.0, 0), (8.0, 3)])
def test_what_others_of_a_pass_lose_by_rounding_is_nobodys(tmp_path: Path, shares: float, count: int) -> None:
    who, refs = {"venue": "polymarket", "account": "a"}, ("polymarket:a", "polymarket:b", "polymarket:c")
    reading = {"paper": 0, "at": at(-1.0), "until": at(0.0), "cash": 2_000.0, "equity": 2_000.0}
    rows = [("account_reading", {**who, **reading})]
    for number, ref in enumerate(refs):
        name, row = bought(0.41 * shares, number, ref=ref, venue="polymarket")
        body = json.loads(row["order_body"]) | {"shares": shares, "expected": 0.41, "limit": 0.41, "edge": 0.19}
        rows.append((name, {**row, "order_body": json.dumps(body)}))
    ledger = write_ledger(tmp_path, TABLES, rows)
    book = {"clock": NOON, "bid": 0.38, "ask": 0.41, "bids": [(0.38, 900.0)], "asks": [(0.41, 900.0)]}
    sizing = SizingChecks(
        ledger=ledger,
        configs=[{"venues": {"polymarket": {"caps": {"per_day": 12.2}}}}],
        books={(ref.partition(":")[2], "yes"): [book] for ref in refs},
        contracts={},
    )
    passes = [JobPass(job="submit", started_at=NOON - timedelta(minutes=1), ended_at=NOON + timedelta(minutes=1))]
    assert len([*ShortfallChecks(sizing=sizing, acts=[], passes=passes).violations()]) == count
