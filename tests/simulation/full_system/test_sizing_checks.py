"""What orders are worth and how large they may be, judged on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.sizing_checks import SizingChecks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# The columns that the checks read, of the tables that they read.
TABLES = """
create table intent (id, seq, venue, account, mode, ref, action, state, planned_at, changed_at, cost, order_body,
  predictions);
create table fill (intent, reference, at, shares, cash);
create table attempt (intent, started_at);
create table account_reading (venue, account, paper, at, until, cash, equity);
"""
WHO = {"venue": "manifold", "account": "a"}
# Four in a hundred times the chance of each side, at one market.
FEES = {"ship": {"fees": (0.04, 1.0)}}


def at(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def intent(
    number: int = 1, minutes: float = 0.0, *, cost: float = 2.0, known: float | None = -30.0, **order: Any
) -> tuple[str, dict[str, Any]]:
    """Return a purchase of YES at 0.4, worth 0.6 by its forecast, so that all of a Kelly stake is a third of the cash.

    It was ``known`` so many minutes after noon that it was taken. What differs is in ``order``.
    """
    body = {"contract": "lamp", "leg": "yes", "side": "buy", "expected": 0.4, "limit": 0.41, "edge": 0.2}
    body |= {"shares": cost / 0.4, **order}
    row = {"id": f"i{number}", "seq": number, "mode": "live", "ref": "manifold:lamp", "action": "order", "cost": cost}
    row |= {"state": "unknown" if known is None else "acked", "changed_at": at(minutes if known is None else known)}
    row |= {"planned_at": at(minutes), "order_body": json.dumps(body)}
    return "intent", {**WHO, **row, "predictions": json.dumps({"outcome": {"probability": 0.6}})}


def reading(minutes: float, cash: float, until: float | None = None) -> tuple[str, dict[str, Any]]:
    row = {"paper": 0, "at": at(minutes), "until": at(minutes if until is None else until)}
    return "account_reading", {**WHO, **row, "cash": cash, "equity": 1_000.0}


def sent(number: int, minutes: float) -> tuple[str, dict[str, Any]]:
    return "attempt", {"intent": f"i{number}", "started_at": at(minutes)}


def bought(number: int, minutes: float, shares: float) -> tuple[str, dict[str, Any]]:
    return "fill", {
        "intent": f"i{number}",
        "reference": "r",
        "at": at(minutes),
        "shares": shares,
        "cash": -0.4 * shares,
    }


def judge(folder: Path, *rows: tuple[str, dict[str, Any]], books: Any = None, **trading: Any) -> list[str]:
    """Return what is wrong with a ledger of these rows, by a table each."""
    ledger = write_ledger(folder, TABLES, rows)
    config = {"venues": {"manifold": {"trading": {"kelly": 0.5, **trading}}}}
    return [*SizingChecks(ledger=ledger, configs=[config], books=books or {}, contracts=FEES).violations()]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({}, ""),
        ({"edge": 0.19, "fees": 0.05}, ""),
        ({"edge": 0.15}, "counts a share as worth 0.550000"),
        ({"edge": 0.25}, "promises 0.2500 a share, 0.2000"),
        ({"limit": 0.61}, "would buy yes at 0.6100"),
        ({"leg": "no", "expected": 0.3, "edge": 0.1, "limit": 0.35}, ""),
        ({"leg": "no"}, "worth 0.4000 by its own forecast"),
    ],
)
def test_an_edge_is_what_a_share_is_worth_less_what_it_costs(tmp_path: Path, order: dict[str, Any], why: str) -> None:
    found = judge(tmp_path, intent(**order))
    assert (bool(found), any(why in one for one in found)) == (bool(why), bool(why))


@pytest.mark.parametrize(
    ("limit", "band", "count"), [(0.44, (0.1, 0.45), 0), (0.46, (0.1, 0.45), 1), (0.44, (0.41, 0.9), 1)]
)
def test_nothing_is_bought_outside_the_band(
    tmp_path: Path, limit: float, band: tuple[float, float], count: int
) -> None:
    found = judge(tmp_path, intent(limit=limit), band=band)
    assert len(found) == count
    assert all("trading.band is" in one for one in found)


# Between 0.6 and 0.5 a fifth of the way from 0.6, in log-odds: 1.5 ** 0.8 = 1.3832 to 1.
@pytest.mark.parametrize(("share", "count"), [(0.2, 0), (0.8, 1)])
def test_a_belief_moves_to_the_market_by_the_share_that_is_set(tmp_path: Path, share: float, count: int) -> None:
    shown = {("lamp", "pool"): [{"clock": NOON, "prob": 0.5, "faults": 0}]}
    worth = 1.3832 / 2.3832
    found = judge(tmp_path, intent(edge=worth - 0.4), books=shown, shrink=share)
    assert len(found) == count


# Of 24 in cash half of a third may be staked.
@pytest.mark.parametrize(
    ("cost", "rows", "why"),
    [
        (4.0, [reading(-5.0, 24.0)], ""),
        (4.1, [reading(-5.0, 24.0)], "4.00 of 24.00 at most"),
        (4.1, [], ""),
        (4.1, [reading(-60.0, 24.0)], ""),
        (4.1, [reading(-60.0, 24.0, until=-1.0)], "4.00 of 24.00 at most"),
        (4.1, [reading(-5.0, 24.0), reading(-2.0, 30.0)], ""),
        # What is in the air since before the pass is not free; what has settled is in the reading.
        (4.0, [reading(-5.0, 24.0), intent(0, -60.0, known=None), sent(0, -60.0)], "free"),
        (3.6, [reading(-5.0, 24.0), intent(0, -60.0), sent(0, -60.0), bought(0, -30.0, 0.5)], ""),
        # Of what is held of the same side, less is bought.
        (
            1.0,
            [reading(-5.0, 24.0), intent(0, -60.0), sent(0, -60.0), bought(0, -60.0, 12.0)],
            "0.40 of 24.00 at most",
        ),
        (1.0, [reading(-5.0, 24.0), intent(0, -60.0), sent(0, -60.0), bought(0, -60.0, 5.0)], ""),
    ],
)
def test_a_purchase_is_within_the_share_of_the_stake_of_free_cash(
    tmp_path: Path, cost: float, rows: list[tuple[str, dict[str, Any]]], why: str
) -> None:
    rows = [(table, {**row, "ref": "manifold:ship"} if why == "free" and "seq" in row else row) for table, row in rows]
    found = judge(tmp_path, intent(2, cost=cost), *rows)
    assert (bool(found), all(why.replace("free", "at most") in one for one in found)) == (bool(why), True)


# A market maker with 100 shares of each side, weighed alike, gives 110 - 100 * 100 / 110 = 19.0909 shares for 10, and
# asks 110 / (110 + 90.9091) = 0.5475 then. That is the whole stake of somebody who believes 0.6 and has b, where
# 0.6 * 0.4525 * (b - 10) = 0.4 * 0.5475 * (b + 9.0909): of b = 89.66 half of it is 5.
@pytest.mark.parametrize(("cash", "count"), [(89.7, 0), (85.0, 1)])
def test_a_stake_at_a_market_maker_is_the_share_of_the_whole_stake(tmp_path: Path, cash: float, count: int) -> None:
    seen = {("lamp", "pool"): [{"clock": NOON, "prob": 0.5, "faults": 0, "pool": (100.0, 100.0, 0.5)}]}
    shares = 5.0 + 100.0 - 10_000.0 / 105.0
    bought = intent(1, cost=5.0, shares=shares, expected=5.0 / shares, edge=0.6 - 5.0 / shares, limit=0.53)
    found = judge(tmp_path, bought, reading(-5.0, cash), books=seen)
    assert len(found) == count
    assert all("at most by its share" in one for one in found)


@pytest.mark.parametrize(("under_way", "count"), [(None, 1), (1.0, 1), (-30.0, 0)])
def test_a_purchase_costs_no_more_than_the_cash_that_nothing_else_may_take(
    tmp_path: Path, under_way: float | None, count: int
) -> None:
    other = intent(1, -60.0, cost=20.0, known=under_way)
    other[1]["ref"] = "manifold:ship"
    # It knows its worth for certain, so that all of the cash is staked.
    found = judge(
        tmp_path,
        other,
        sent(1, -60.0),
        reading(-5.0, 24.0),
        ("intent", {**intent(2, cost=8.0)[1], "predictions": "{}"}),
    )
    assert len(found) == count
    assert all("costs 8.00, 4.00 are free and 20.00 under way" in one for one in found)


@pytest.mark.parametrize(("minutes", "count"), [(-2.0, 1), (-6.0, 0)])
def test_what_was_bought_since_a_reading_is_not_free(tmp_path: Path, minutes: float, count: int) -> None:
    other = ("intent", {**intent(1, minutes, cost=20.0)[1], "ref": "manifold:ship", "predictions": "{}"})
    certain = ("intent", {**intent(2, cost=8.0)[1], "predictions": "{}"})
    found = judge(tmp_path, other, bought(1, minutes, 50.0), reading(-5.0, 24.0), certain)
    assert len(found) == count
    assert all("costs 8.00, 4.00 are free" in one for one in found)


@pytest.mark.parametrize(("limit", "count"), [(0.55, 0), (0.58, 1)])
def test_each_level_of_a_book_gains_the_least_edge(tmp_path: Path, limit: float, count: int) -> None:
    name, row = intent(limit=limit)
    ledger = write_ledger(tmp_path, TABLES, [(name, {**row, "venue": "polymarket"})])
    config = {"venues": {"polymarket": {"trading": {"kelly": 0.5, "edge": 0.05}}}}
    found = SizingChecks(ledger=ledger, configs=[config], books={}).violations()
    assert len([one for one in found if "each must gain" in one]) == count


@pytest.mark.parametrize(("least", "count"), [(2.0, 0), (2.1, 1)])
def test_no_purchase_is_smaller_than_the_least_stake(tmp_path: Path, least: float, count: int) -> None:
    ledger = write_ledger(tmp_path, TABLES, [intent(cost=2.0), reading(-5.0, 24.0)])
    config = {"venues": {"manifold": {"trading": {"kelly": 0.5}, "bankroll": {"min_stake": least}}}}
    found = [*SizingChecks(ledger=ledger, configs=[config], books={}).violations()]
    assert len([one for one in found if "bankroll.min_stake is" in one]) == count


def book(*asks: tuple[float, float], bids: Any = ((0.38, 50.0),)) -> Any:
    """Return what was shown of the book of YES at noon."""
    best = {"bid": bids[0][0] if bids else None, "ask": asks[0][0] if asks else None}
    return {("lamp", "yes"): [{"clock": NOON, **best, "asks": [*asks], "bids": [*bids], "tick": 0.01, "faults": 0}]}


# Half of 24 is staked by somebody who believes 0.6: at 0.40 that is a third, 4.00 or 10 shares, and of a book with 6 at
# 0.40 and others at 0.50 x more with 0.6 * 0.5 / (12 + 6 * 0.6 + x / 2) = 0.4 * 0.5 / (12 - 2.4 - x / 2): 0.
@pytest.mark.parametrize(
    ("asks", "shares", "count"),
    [
        ([(0.4, 90.0)], 10.0, 0),
        ([(0.4, 90.0)], 10.2, 1),
        ([(0.4, 4.0), (0.41, 90.0)], 9.4, 0),
        ([(0.4, 4.0), (0.41, 90.0)], 10.0, 1),
        ([(0.4, 6.0), (0.58, 90.0)], 6.0, 0),
        ([(0.4, 6.0), (0.58, 90.0)], 6.2, 1),
    ],
)
def test_an_order_has_no_more_shares_than_its_book_gives_for_its_share(
    tmp_path: Path, asks: list[tuple[float, float]], shares: float, count: int
) -> None:
    mine = intent(cost=0.4 * shares, shares=shares, terms={"type": "FAK"}, limit=0.55)
    found = judge(tmp_path, mine, reading(-5.0, 24.0), books=book(*asks))
    assert len([one for one in found if "by its book" in one]) == count


# One tick better than the best bid of 0.38 is 0.39; at 0.39 half of 24 gives 10.59 shares.
@pytest.mark.parametrize(("price", "shares", "count"), [(0.39, 10.5, 0), (0.4, 10.0, 1), (0.39, 11.9, 1)])
def test_an_order_rests_a_tick_above_the_best(tmp_path: Path, price: float, shares: float, count: int) -> None:
    terms = {"type": "GTD"}
    mine = intent(cost=price * shares, shares=shares, terms=terms, limit=price, expected=price, edge=0.6 - price)
    found = judge(tmp_path, mine, reading(-5.0, 24.0), books=book((0.44, 50.0)))
    assert len([one for one in found if "by its book" in one]) == count


# 10 are held, and each is worth 0.45 by the belief. A market maker with 25 of each side has 25 * (0.45 / 0.55) ** 0.5 =
# 22.613 of NO left at that price, for 27.639 of YES: it takes 2.639 + 2.387 shares. Bids of 0.50 and 0.46 take 4 and 3.
@pytest.mark.parametrize(
    ("books", "shares", "closing", "count"),
    [
        ("pool", 10.0, "", 0),
        ("pool", 9.0, "", 1),
        ("small pool", 5.026, "", 0),
        ("small pool", 7.0, "", 1),
        ("small pool", 10.0, "stop-loss: it lost", 0),
        ("small pool", 5.4, "stop-loss: it lost", 1),
        ("book", 7.0, "", 0),
        ("book", 8.0, "", 1),
        ("book", 10.0, "stop-loss: it lost", 0),
    ],
)
def test_as_much_is_sold_as_brings_what_it_is_worth(
    tmp_path: Path, books: str, shares: float, closing: str, count: int
) -> None:
    size = 25.0 if books == "small pool" else 100.0
    maker = {"clock": NOON, "prob": 0.5, "pool": (size, size, 0.5), "is_alone": True, "faults": 0}
    bids = ((0.5, 4.0), (0.46, 3.0), (0.4, 50.0))
    seen = book((0.6, 9.0), bids=bids) if books == "book" else {("lamp", "pool"): [maker]}
    mine = intent(
        2, side="sell", shares=shares, cost=0.0, expected=0.48, edge=0.03, limit=0.46, closing=closing, fees=0.0
    )
    mine[1]["predictions"] = json.dumps({"outcome": {"probability": 0.45}})
    found = judge(tmp_path, intent(1, -60.0), bought(1, -60.0, 10.0), mine, books=seen)
    assert len([one for one in found if "were to be sold" in one]) == count


@pytest.mark.parametrize(("contract", "count"), [("lamp", 0), ("ship", 1)])
def test_a_sale_is_for_no_less_than_its_worth_after_the_fee(tmp_path: Path, contract: str, count: int) -> None:
    mine = intent(side="sell", contract=contract, shares=5.0, expected=0.61, edge=0.01, limit=0.605, fees=0.0)
    found = judge(tmp_path, mine)
    assert len([one for one in found if "would sell" in one]) == count
