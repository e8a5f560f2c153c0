"""What orders on paper had to bring, judged on ledgers that are written by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.full_system.hand_written_ledger import write_ledger
from tests.simulation.full_system.paper_checks import PaperChecks, read_marks

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
# The columns that the checks read, of the tables that they read.
TABLES = """
create table intent (id, seq, venue, account, mode, ref, action, state, planned_at, cost, order_body);
create table resolution (ref, seen_at);
create table attempt (intent, started_at, detail);
create table fill (intent, reference, at, shares, price, cash);
create table account_reading (id, venue, paper, at, until, cash, reserved, equity, body);
create table halt (venue, by, at, why, end_condition, resumed_at, resumed_by);
"""
BOOK = ("lamp", "yes")
# Four in a hundred times the chance of each side.
FEES = (0.04, 1.0)
RESTS: dict[str, Any] = {"type": "GTD", "lifetime_s": 3600.0}


def at(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def order(
    number: int, after_s: float, *, leg: str = "yes", shares: float = 10.0, price: float = 0.4, **terms: Any
) -> list[Any]:
    """Return the rows of a purchase that was sent at noon and filled so much later; fewer than 0 shares are sold."""
    side = "buy" if shares > 0 else "sell"
    body: Any = {"contract": "lamp", "leg": leg, "side": side, "limit": 0.42 if side == "buy" else 0.38}
    body |= {"shares": abs(shares)}
    body |= {"terms": terms} if terms else {}
    row = {"id": f"i{number}", "seq": number, "venue": "polymarket", "mode": "paper", "ref": "polymarket:lamp"}
    row |= {"action": "order", "planned_at": at(number), "cost": max(shares, 0.0) * price}
    fill = {"intent": f"i{number}", "at": at(after_s), "shares": abs(shares), "price": price, "cash": -shares * price}
    return [
        ("intent", {**row, "state": "acked", "order_body": json.dumps(body)}),
        ("attempt", {"intent": f"i{number}", "started_at": at(0.0)}),
        ("fill", fill),
    ]


def judge(
    folder: Path, *rows: Any, books: Any = None, endings: Any = None, trades: Any = (), **caps: float
) -> list[str]:
    """Return what is wrong with a ledger of these rows, by a table each."""
    ledger = write_ledger(folder, TABLES, rows)
    config = {"venues": {"polymarket": {"paper": {"delay_s": 5.0, "cash": 100.0}, "caps": caps}}}
    checks = PaperChecks(
        ledger=ledger,
        configs=[config],
        books=books or {},
        endings=endings or {},
        trades={"lamp": trades},
        contracts={"lamp": {"question": "lamp", "event": "row", "fees": FEES}},
        expired=["i1"],
    )
    return [*checks.violations()]


def shown(after_s: float, bid: float, ask: float) -> dict[str, Any]:
    return {"clock": NOON + timedelta(seconds=after_s), "bid": bid, "ask": ask}


@pytest.mark.parametrize(
    ("rows", "seen", "why"),
    [
        (order(1, 5.0), [], ""),
        (order(1, 4.0), [], "was filled after 4.000 s"),
        (order(1, 5.0, price=0.43), [], "its limit is 0.4200"),
        (order(1, 5.0), [shown(5.0, 0.38, 0.4)], ""),
        (order(1, 5.0), [shown(0.0, 0.38, 0.4)], "its market was not read then"),
        (order(1, 5.0), [shown(0.0, 0.38, 0.4), shown(5.0, 0.38, 0.41)], "and the market was"),
        (order(1, 5.0, shares=-5.0), [shown(5.0, 0.4, 0.41)], ""),
        (order(1, 5.0, shares=-5.0), [shown(5.0, 0.39, 0.41)], "and the market was"),
        (order(1, 5.0, shares=-5.0, price=0.37), [], "its limit is 0.3800"),
    ],
)
def test_an_order_meets_the_market_of_its_arrival(tmp_path: Path, rows: list[Any], seen: list[Any], why: str) -> None:
    found = judge(tmp_path, *rows, books={BOOK: seen} if seen else {})
    assert (len(found), all(why in one for one in found)) == (bool(why), True)


def traded(after_s: float, price: float, size: float, *, buys: bool = False) -> dict[str, Any]:
    return {"at": NOON + timedelta(seconds=after_s), "price": price, "size": size, "buys": buys}


# It wants 10 of YES at 0.42 while the best offer is 0.44, and rests for an hour.
@pytest.mark.parametrize(
    ("rows", "trades", "why"),
    [
        (order(1, 900.0, price=0.42, **RESTS), [traded(600.0, 0.41, 10.0)], ""),
        (order(1, 900.0, price=0.42, **RESTS), [traded(600.0, 0.42, 4.0), traded(700.0, 0.4, 6.0)], ""),
        (order(1, 900.0, price=0.41, **RESTS), [traded(600.0, 0.41, 10.0)], "rested at 0.4200"),
        (order(1, 900.0, price=0.42, **RESTS), [], "0 came to its price"),
        (order(1, 900.0, price=0.42, **RESTS), [traded(600.0, 0.41, 9.0)], "9 came to its price"),
        (order(1, 900.0, price=0.42, **RESTS), [traded(600.0, 0.43, 10.0)], "0 came to its price"),
        (order(1, 900.0, price=0.42, **RESTS), [traded(600.0, 0.41, 10.0, buys=True)], "0 came to its price"),
        (order(1, 900.0, price=0.42, **RESTS), [traded(-60.0, 0.41, 10.0)], "0 came to its price"),
        (order(1, 7200.0, price=0.42, **RESTS), [traded(3700.0, 0.41, 10.0)], "0 came to its price"),
        # 10 of NO at 0.42 are bought by whoever wants YES at 0.58 or more.
        (order(1, 900.0, leg="no", price=0.42, **RESTS), [traded(600.0, 0.58, 10.0, buys=True)], ""),
        (order(1, 900.0, leg="no", price=0.42, **RESTS), [traded(600.0, 0.57, 10.0, buys=True)], "0 came"),
    ],
)
def test_an_order_that_rests_is_filled_at_its_price_by_trades_that_reach_it(
    tmp_path: Path, rows: list[Any], trades: list[Any], why: str
) -> None:
    found = judge(tmp_path, *rows, books={BOOK: [shown(900.0, 0.41, 0.44)]}, trades=trades)
    assert (len(found), all(why in one for one in found)) == (bool(why), True)


def test_own_orders_keep_their_effect_on_the_price_of_a_market_maker(tmp_path: Path) -> None:
    seen = {("lamp", "pool"): [{"clock": NOON + timedelta(seconds=5.0), "prob": 0.41}]}
    assert len(judge(tmp_path, *order(1, 5.0), books=seen)) == 1
    (tmp_path / "again").mkdir()
    assert len(judge(tmp_path / "again", *order(1, 5.0, price=0.42), *order(2, 5.0), books=seen)) == 0


@pytest.mark.parametrize(("refused", "count"), [(4, 0), (5, 1)])
def test_not_most_orders_are_refused(tmp_path: Path, refused: int, count: int) -> None:
    rows = [row for number in range(6) for row in order(number, 5.0)]
    rows = [(table, {**row, "state": "refused"} if row.get("seq", 9) < refused else row) for table, row in rows]
    found = judge(tmp_path, *rows)
    assert len(found) == count
    assert all("5 of 6 orders on paper at polymarket met no market" in one for one in found)


# 4.00 are paid for 10 shares, half of which are sold; another 4.00 follow: 6.00 are at stake then.
@pytest.mark.parametrize("name", ["per_order", "per_question", "per_event", "per_day", "total"])
@pytest.mark.parametrize("is_resolved", [False, True])
def test_caps_hold_on_paper_and_a_sale_frees_its_part_alone(tmp_path: Path, name: str, *, is_resolved: bool) -> None:
    rows = [*order(1, 5.0), *order(8, 9.0, shares=-5.0), *order(20, 30.0)]
    rows += [("resolution", {"ref": "polymarket:lamp", "seen_at": at(15.0)})] if is_resolved else []
    ended_stake = {"per_order": 4.0, "per_day": 8.0}.get(name, 4.0 if is_resolved else 6.0)
    for cap, count in ((ended_stake, 0), (ended_stake - 0.1, 1)):
        (folder := tmp_path / f"{cap}").mkdir()
        found = judge(folder, *rows, **{name: cap})
        assert len([one for one in found if f"{ended_stake:.2f} is at stake by {name}" in one]) >= count
        assert bool(found) is bool(count)


def ended(hours_ago: float, yes: float | None, *, undone: bool = False, final: bool = False) -> Any:
    since = NOON + timedelta(hours=100.0 - hours_ago)
    return {("polymarket", "lamp"): {"yes": yes, "since": since, "was_undone": undone, "is_final": final}}


# 10 shares of YES are bought for 4.00, 5 of them sold for 2.00, and 5 of NO bought for 2.00.
@pytest.mark.parametrize(
    ("endings", "cash", "is_right"),
    [
        ({}, 101.0, True),
        ({}, 96.0, False),
        (ended(40.0, 1.0), 101.0, True),
        (ended(40.0, 0.0), 101.0, True),
        (ended(40.0, None), 100.0, True),
        (ended(40.0, None), 101.0, False),
        (ended(2.0, None), 101.0, True),
        (ended(40.0, 0.0, undone=True), 100.0, True),
        (ended(40.0, 0.0, undone=True, final=True), 101.0, True),
        (ended(40.0, 0.0, undone=True, final=True), 100.0, False),
        (ended(2.0, 0.0, undone=True, final=True), 100.0, True),
    ],
)
def test_cash_on_paper_is_what_fills_brought_and_outcomes_paid(
    tmp_path: Path, endings: Any, cash: float, *, is_right: bool
) -> None:
    rows = [*order(1, 5.0), *order(2, 6.0, shares=-5.0), *order(3, 7.0, leg="no", shares=5.0)]
    last = {"id": 1, "venue": "polymarket", "paper": 1, "at": at(360_000.0), "until": "", "cash": cash, "reserved": 0.0}
    found = judge(tmp_path, *rows, ("account_reading", last), endings=endings)
    assert (not found) is is_right


@pytest.mark.parametrize(("yes", "cash"), [(1.0, 106.0), (0.0, 96.0), (0.5, 101.0)])
def test_an_outcome_pays_its_share_of_what_is_held(tmp_path: Path, yes: float, cash: float) -> None:
    for name, brought, count in (("right", cash, 0), ("wrong", 102.0, 1)):
        (tmp_path / name).mkdir()
        last = {"id": 1, "venue": "polymarket", "paper": 1, "at": at(360_000.0), "until": "", "reserved": 2.0}
        row = ("account_reading", {**last, "cash": brought - 2.0})
        assert len(judge(tmp_path / name, *order(1, 5.0), row, endings=ended(40.0, yes))) == count


# 50 mana bought 83.3333 shares of YES of a pool of 100 and 100. Sold in the pool that this purchase left they bring 50
# again, and in one that never had it 33.3333.
SHARES = 50.0 + 100.0 - 100.0 * 100.0 / 150.0


@pytest.mark.parametrize(
    ("price", "leg", "is_alone", "says"),
    [(0.6, "yes", True, False), (0.4, "yes", True, True), (0.4, "yes", False, False), (0.6, "no", True, False)],
)
def test_shares_on_paper_are_worth_what_they_cost_at_a_market_maker_now(
    tmp_path: Path, price: float, leg: str, *, is_alone: bool, says: bool
) -> None:
    seen = {"clock": NOON, "prob": 0.5, "pool": (100.0, 100.0, 0.5), "is_alone": is_alone, "faults": 0}
    mark = {"venue": "manifold", "clock": NOON, "contract": "market1", "leg": leg, "shares": SHARES, "mark": price}
    checks = PaperChecks(
        ledger=write_ledger(tmp_path, TABLES, []),
        configs=[],
        books={("market1", "pool"): [seen]},
        endings={},
        marks=[mark],
    )
    assert [("worth 33.3333" in one, "market 50.0000" in one) for one in checks.violations()] == [(True, True)] * says


def test_the_marks_of_a_ledger_are_those_of_the_newest_readings(tmp_path: Path) -> None:
    body = json.dumps({"positions": [{"contract": "market1", "leg": "yes", "shares": 2.0, "mark": 0.5}, {"shares": 1}]})
    new = {"id": 2, "venue": "manifold", "paper": 1, "at": at(0.0), "until": at(60.0), "body": body}
    rows = [("account_reading", {**new, "id": 1, "body": ""}), ("account_reading", new)]
    [mark] = read_marks(write_ledger(tmp_path, TABLES, rows))
    assert (mark["contract"], mark["mark"], mark["clock"]) == ("market1", 0.5, NOON + timedelta(seconds=60.0))


def reading(after_s: float, cash: float, reserved: float = 0.0, number: int = 1, **more: Any) -> Any:
    row = {"id": number, "venue": "polymarket", "paper": 1, "at": at(after_s), "until": at(after_s), "cash": cash}
    return "account_reading", {**row, "reserved": reserved, "body": "", **more}


# 10 shares at 0.42 rest until 4 of them are bought for 1.68; the book began with 100.
@pytest.mark.parametrize(
    ("cash", "reserved", "why"),
    [
        (95.8, 4.2, ""),
        (100.0, 0.0, "of 100.0000 on paper at polymarket"),
        (100.0, 4.2, "there are 104.2000 on paper"),
        (98.4, 1.6, "0"),
    ],
)
def test_what_orders_that_rest_may_cost_is_no_free_cash(tmp_path: Path, cash: float, reserved: float, why: str) -> None:
    rows = order(1, 900.0, shares=4.0, price=0.42, **RESTS)
    found = judge(tmp_path, *rows, reading(300.0, cash, reserved), trades=[traded(600.0, 0.41, 4.0)])
    assert (bool(found), all(why in one for one in found)) == (bool(why), True)


# A market maker with 100 shares of each side gives 10 + 100 - 100 * 100 / 110 = 19.0909 shares of YES for 10, and its
# price is 0.5475 then; for the next 10 it gives 10 + 90.9091 - 10000 / 120 = 17.5758.
@pytest.mark.parametrize(
    ("shares", "stake", "before", "count"),
    [
        (19.0909, 10.0, 0.0, 0),
        (20.0, 10.0, 0.0, 1),
        (17.5758, 10.0, 19.0909, 0),
        (19.0909, 10.0, 19.0909, 1),
        # At its limit of 0.52 it has 104.0833 of NO: 4.0833 buy 8.0066 shares of YES, and the rest of the stake rests.
        (8.0064, 10.0, 0.0, 0),
    ],
)
def test_a_fill_at_a_market_maker_is_what_it_would_give(
    tmp_path: Path, shares: float, stake: float, before: float, count: int
) -> None:
    limit = 0.52 if shares < 10.0 else 0.6
    spent = 4.0833 if shares < 10.0 else 10.0
    seen = {"clock": NOON + timedelta(seconds=5.0), "prob": 0.5, "pool": (100.0, 100.0, 0.5), "is_alone": True}
    rows = [*order(1, -3600.0, shares=before, price=10.0 / before)] if before else []
    mine = order(2, 5.0, shares=shares, price=spent / shares)
    mine[0][1]["order_body"] = json.dumps(
        {"contract": "lamp", "leg": "yes", "side": "buy", "limit": limit, "stake": stake}
    )
    found = judge(tmp_path, *rows, *mine, books={("lamp", "pool"): [seen]})
    assert len([one for one in found if "by its market" in one]) == count


# 4 shares at 0.40 and 6 at 0.42 cost 1.60 + 2.52, and fees of 0.04 * (4 * 0.24 + 6 * 0.2436).
COST = 1.6 + 2.52 + 0.04 * (4 * 0.24 + 6 * 0.2436)


# And 6 shares at 0.42 cost what is left of that without the level at 0.40.
LESS = 2.52 + 0.04 * 6 * 0.2436


def book(after_s: float, size: float, leg: str = "yes") -> dict[str, Any]:
    """Return the book of a side while so many shares of YES are offered at the best price."""
    asks, bids = [(0.4, size), (0.42, 6.0), (0.43, 9.0)], [(0.38, 9.0)]
    if leg == "no":
        asks, bids = [(0.62, 9.0)], [(0.6, size), (0.58, 6.0), (0.57, 9.0)]
    return shown(after_s, bids[0][0], asks[0][0]) | {"asks": asks, "bids": bids}


@pytest.mark.parametrize(
    ("shares", "cash", "earlier", "size", "count"),
    [
        (10.0, COST, {}, 4.0, 0),
        (10.0, COST - 0.05, {}, 4.0, 1),
        (4.0, 1.6 + 0.04 * 4 * 0.24, {}, 4.0, 1),
        # What own orders took is gone, whichever side they were for, until the level shows another size.
        (10.0, COST, {"shares": 4.0, "price": 0.4}, 4.0, 1),
        (6.0, LESS, {"shares": 4.0, "price": 0.4}, 4.0, 0),
        (10.0, COST, {"shares": 4.0, "price": 0.4}, 5.0, 0),
        (10.0, COST, {"shares": -4.0, "price": 0.6, "leg": "no"}, 4.0, 1),
        (6.0, LESS, {"shares": -4.0, "price": 0.6, "leg": "no"}, 4.0, 0),
        (10.0, COST, {"shares": 4.0, "price": 0.62, "leg": "no"}, 4.0, 0),
        # Of what it was shown nothing is known: it may have been any level.
        (4.0, 1.68 + 0.04 * 4 * 0.2436, {"shares": 4.0}, 0.0, 0),
    ],
)
def test_an_order_takes_the_levels_of_the_book_with_fees(
    tmp_path: Path, shares: float, cash: float, earlier: dict[str, Any], size: float, count: int
) -> None:
    leg = earlier.get("leg", "yes")
    rows = order(1, -3600.0, **earlier, type="FAK") if earlier else []
    before = [book(-3600.0, size, leg)] if earlier and size else []
    mine = order(2, 5.0, shares=shares, price=cash / shares, type="FAK")
    mine[0][1]["order_body"] = json.dumps({**json.loads(mine[0][1]["order_body"]), "shares": 10.0})
    books = {BOOK: [book(5.0, 4.0)]}
    books[BOOK[0], leg] = [*before, *books.get((BOOK[0], leg), [])]
    found = judge(tmp_path, *rows, *mine, books=books)
    assert len([one for one in found if "i2" in one and "by its book" in one]) == count


@pytest.mark.parametrize(("got", "beyond", "count"), [(6.0, 6.0, 0), (4.0, 6.0, 1), (4.0, 4.0, 0), (10.0, 60.0, 0)])
def test_an_order_that_rested_got_all_that_was_traded_beyond_its_price(
    tmp_path: Path, got: float, beyond: float, count: int
) -> None:
    rows = order(1, 900.0, shares=got, price=0.42, **RESTS)
    rows[0][1]["order_body"] = json.dumps({**json.loads(rows[0][1]["order_body"]), "shares": 10.0})
    trades = [traded(600.0, 0.41, beyond), traded(700.0, 0.42, 50.0), traded(700.0, 0.41, 50.0, buys=True)]
    found = judge(tmp_path, *rows, trades=trades)
    assert len([one for one in found if "traded beyond its price" in one]) == count


@pytest.mark.parametrize(
    ("equities", "halt", "resumed", "count"),
    [
        ((100.0, 94.0, 94.0, 94.0), None, None, 1),
        ((100.0, 96.0, 96.0, 96.0), None, None, 0),
        ((100.0, 94.0, 94.0, 94.0), None, 250.0, 0),
        ((100.0, 94.0, 94.0, 94.0), "5.00 was lost today, more than caps.daily_loss = 5", None, 1),
        ((100.0, 96.0, 96.0, 96.0), "5.10 was lost today, more than caps.daily_loss = 5", None, 1),
    ],
)
def test_losses_stop_an_account_on_paper(
    tmp_path: Path, equities: tuple[float, ...], halt: str | None, resumed: float | None, count: int
) -> None:
    rows = [reading(100.0 * place, 100.0, number=place, equity=value) for place, value in enumerate(equities)]
    halted = {"venue": "polymarket", "by": "", "why": halt or "", "at": at(399.0), "end_condition": "person"}
    rows += [("halt", {**halted, "resumed_at": None if resumed is None else at(resumed), "resumed_by": "ada"})]
    mine = order(400, 405.0)
    mine[1][1]["started_at"] = at(400.0)
    found = judge(tmp_path, *rows, *mine, daily_loss=5.0)
    assert len([one for one in found if "lost" in one]) == count


# Of a day before, the readings of hours are kept.
@pytest.mark.parametrize(("hours", "count"), [(0.0, 1), (1.0, 0)])
def test_a_loss_is_judged_where_its_reading_is_kept(tmp_path: Path, hours: float, count: int) -> None:
    rows = [reading(100.0 * place, 100.0, number=place, equity=96.0) for place in range(4)]
    why, since = "5.10 was lost since the highest reading, more than caps.drawdown = 5", 399.0 + 3600.0 * hours
    halted = {"venue": "polymarket", "by": "", "why": why, "at": at(since), "end_condition": "person"}
    found = judge(tmp_path, *rows, ("halt", halted), drawdown=5.0)
    assert len([one for one in found if "lost" in one]) == count


# 10 shares rest at 0.42, of which 4 were bid for before; then 9 are sold at 0.42.
@pytest.mark.parametrize(
    ("queue", "got", "price", "count"),
    [
        ("neutral", 5.0, 0.42, 0),
        ("neutral", 6.0, 0.42, 1),
        (None, 6.0, 0.42, 1),
        ("optimistic", 9.0, 0.42, 0),
        ("strict", 1.0, 0.42, 1),
        ("strict", 9.0, 0.41, 0),
    ],
)
def test_an_order_that_rests_waits_behind_those_before_it(
    tmp_path: Path, queue: str | None, got: float, price: float, count: int
) -> None:
    rows = order(1, 900.0, shares=got, price=0.42, **RESTS)
    settings = {} if queue is None else {"paper_queue": queue}
    checks = PaperChecks(
        ledger=write_ledger(tmp_path, TABLES, rows),
        configs=[{"venues": {"polymarket": {"paper": {"delay_s": 5.0}, "settings": settings}}}],
        books={BOOK: [shown(5.0, 0.42, 0.44) | {"asks": [(0.44, 9.0)], "bids": [(0.42, 4.0), (0.4, 9.0)]}]},
        endings={},
        trades={"lamp": [traded(600.0, price, 9.0)]},
    )
    assert ["behind those before it" in one for one in checks.violations()] == [True] * count


@pytest.mark.parametrize(("waited", "undone", "count"), [(600.0, False, 0), (500.0, False, 1), (500.0, True, 0)])
def test_shares_are_paid_after_as_long_as_is_set(tmp_path: Path, waited: float, *, undone: bool, count: int) -> None:
    checks = PaperChecks(
        ledger=write_ledger(tmp_path, TABLES, []),
        configs=[{"venues": {"polymarket": {"settings": {"paper_settle_s": 600.0}}}}],
        books={},
        endings={("polymarket", "lamp"): {"yes": 1.0, "since": NOON, "was_undone": undone}},
        payouts=[{"ref": "polymarket:lamp", "at": at(waited)}],
    )
    assert ["600 s are set" in one for one in checks.violations()] == [True] * count


@pytest.mark.parametrize(
    ("after_s", "kind", "count"), [(8.0, "FAK", 0), (6.0, "FAK", 1), (5.0, "FAK", 1), (6.0, "GTD", 0)]
)
def test_an_order_at_once_is_held_for_as_long_as_its_market_does(
    tmp_path: Path, after_s: float, kind: str, count: int
) -> None:
    checks = PaperChecks(
        ledger=write_ledger(tmp_path, TABLES, order(1, after_s, price=0.42, type=kind, lifetime_s=3600.0)),
        configs=[{"venues": {"polymarket": {"paper": {"delay_s": 5.0}}}}],
        books={},
        endings={},
        contracts={"lamp": {"delay_s": 3.0}},
    )
    assert ["its delay is 0:00:08" in one for one in checks.violations() if "its delay" in one] == [True] * count
