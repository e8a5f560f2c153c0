"""The referee by itself, on facts that are written by hand: it accepts what may be, and names what may not."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.simulation.full_system.account_values import list_transfers
from tests.simulation.full_system.referee import LEDGER_TABLES, WorldReferee

Fact = dict[str, Any]
Ledger = dict[str, list[Fact]]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_S = 43_200.0
SHIP, TOKEN = "0x01", "7" * 77


def config(**values: Any) -> Fact:
    """Return a configuration of Polymarket."""
    return {"mode": "paper", "venues": {"polymarket": {"mode": "live", "caps": {}, **values}}}


def moment(after_s: float = 0.0) -> Fact:
    return {"at_s": NOON_S + after_s, "clock": NOON + timedelta(seconds=after_s)}


def act(kind: str, before_s: float = 3_600.0, **values: Any) -> Fact:
    """Return what somebody did an hour ago."""
    return {"kind": kind, "venue": "polymarket", "config": config(), **moment(-before_s), **values}


def arm(before_s: float = 3_600.0, **values: Any) -> Fact:
    amounts = {"per_order": 10.0, "per_day": 40.0, "total": 100.0}
    return act("arm", before_s, **{"until": NOON + timedelta(days=1), **amounts, **values})


def write(after_s: float = 0.0) -> Fact:
    asked = {"questions": {"polymarket:-": NOON + timedelta(seconds=400.0)}}
    return {
        "venue": "polymarket",
        "number": 1,
        "kind": "write",
        "path": "/order",
        "body": {},
        "old_answers": 0,
        **asked,
        **moment(after_s),
    }


def order(after_s: float = 0.0, *, cost: float = 5.0, name: str = "0xa", **values: Any) -> Fact:
    """Return a purchase of NO that was filled at once."""
    made = {"id": name, "same_as": name, "contract": SHIP, "leg": "no", "side": "buy", "limit": 0.5, "asked": cost}
    stakes = {"stakes": [(NOON_S + after_s, cost)], "held": {SHIP: cost}, "fills": [("t", cost / 0.5, -cost)]}
    return {**write(after_s), **made, **stakes, "effect_s": NOON_S + after_s, "is_over": True, **values}


def account(after_s: float, cash: float, *positions: Fact, faults: int = 0, reserved: float = 0.0) -> Fact:
    facts = {"venue": "polymarket", "cash": cash, "moved": 0.0, "positions": [*positions], "faults": faults}
    facts["free"] = cash - reserved
    return {**moment(after_s), **facts}


def shares_of_no(bid: float = 0.4) -> Fact:
    return {"contract": SHIP, "leg": "no", "shares": 10.0, "bid": bid, "has_book": True, "pays": None, "paid": 5.0}


def intent(name: str = "i1", **values: Any) -> Fact:
    body = {"contract": SHIP, "leg": "no", "side": "buy", "expected": 0.5, "terms": {"type": "FAK"}, **values}
    row = {"ref": f"polymarket:{SHIP}", "venue": "polymarket", "mode": "live", "action": "order", "state": "acked"}
    row |= {"forecaster": "drifter", "made_at": NOON.isoformat()}
    return {"id": name, **row, "planned_at": NOON.isoformat(), "order_body": json.dumps(body)}


def judge(ledger: Ledger | None = None, **facts: Any) -> list[str]:
    """Return what the referee says of a world in which all is well but for these facts."""
    groups = {"question": f"polymarket:{SHIP}", "event": "20001", "creator": "", "category": ""}
    era = {"from_s": 0.0, **moment(-NOON_S), "config": facts.pop("config", config())}
    world = {"acts": [arm()], "eras": [era], "contracts": {SHIP: groups, "0x02": {**groups, "question": "other"}}}
    world |= {name: [] for name in ("writes", "orders", "accounts", "calls", "last")}
    rows: Ledger = {name: [] for name in LEDGER_TABLES} | dict(ledger or {})
    return [*WorldReferee({**world, "books": {}, "outcomes": {}, **facts}, rows).violations()]


LOCK = {"ref": "polymarket:-", "venue": None}


@pytest.mark.parametrize(
    ("acts", "why"),
    [
        ([arm()], ""),
        ([], "nobody had armed it"),
        ([arm(until=NOON - timedelta(minutes=5))], "its arm record ended at 03-01 11:55:00"),
        ([arm(until=NOON - timedelta(seconds=60))], ""),
        ([arm(), act("disarm", 300.0)], "nobody had armed it"),
        ([arm(), act("disarm", 60.0)], ""),
        ([arm(7_200.0), act("disarm", 3_600.0), arm(1_800.0)], ""),
        ([arm(config=config(caps={"per_day": 1.0}))], "nobody had armed it"),
        ([arm(config={**config(), "policy": {"min_gap_h": 2.0}})], "nobody had armed it"),
        ([arm(), act("halt", 300.0, venue="")], "there was a halt"),
        ([arm(), act("halt", 300.0, venue="manifold")], ""),
        ([arm(), act("halt", 900.0), act("resume", 600.0, venue=None)], ""),
        ([arm(), act("stop file", 300.0)], "there was a stop file"),
        ([arm(), act("stop file", 900.0), act("stop file gone", 600.0)], ""),
        ([arm(), act("lock", 300.0, **LOCK)], "its question was locked"),
        ([arm(), act("lock", 900.0, **LOCK), act("unlock", 600.0, **LOCK)], ""),
    ],
)
def test_what_arrives_was_permitted_at_that_moment(acts: list[Fact], why: str) -> None:
    found = judge(acts=acts, writes=[write()])
    assert (len(found), all(why in one for one in found)) == (bool(why), True)


@pytest.mark.parametrize(
    ("bid", "ask", "age_s", "words"),
    [
        (0.46, 0.5, 60.0, ""),
        (0.35, 0.5, 60.0, "0.1 may be"),
        (None, 0.5, 60.0, "whose sides were"),
        (0.46, 0.5, 20_000.0, ""),
        (0.46, 0.5, 30_000.0, "had not moved for 30000 s"),
    ],
)
def test_an_order_is_for_a_book_of_two_sides_that_moves(
    bid: float | None, ask: float, age_s: float, words: str
) -> None:
    seen = {**moment(), "bid": bid, "ask": ask, "faults": 0, "age_s": age_s}
    found = judge({"intents": [intent()]}, books={(SHIP, "no"): [seen]})
    assert [words in one for one in found] == [True] * bool(words)


def test_a_sale_needs_bids_alone() -> None:
    books = {(SHIP, "no"): [{**moment(), "bid": 0.5, "ask": 0.65, "faults": 0, "age_s": 60.0}]}
    for side, expected, count in (("buy", 0.65, 1), ("sell", 0.5, 0)):
        found = judge({"intents": [intent(side=side, expected=expected)]}, books=books)
        assert ["whose sides were" in one for one in found] == [True] * count


def test_no_bet_meets_an_own_order() -> None:
    [found] = judge(self_trades=[("bet2", "bet1")])
    assert "bet2 of manifold was filled by an own order, bet1" in found
    assert judge(self_trades=[]) == []


def test_nothing_is_sent_for_a_question_before_it_opens() -> None:
    [found] = judge(acts=[arm()], writes=[{**write(), "unopened": ["metaculus:8"]}])
    assert found.endswith("and metaculus:8 is not open yet")
    assert judge(acts=[arm()], writes=[{**write(), "unopened": []}]) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"on_post": 7, "is_private": True}, ""),
        ({"on_post": 8, "is_private": True}, "nothing of metaculus:8:"),
        ({"on_post": 9, "is_private": True}, "nothing of metaculus:9:"),
        ({"on_post": 7, "is_private": False}, "everybody can read it"),
    ],
)
def test_a_comment_is_private_and_below_the_post_of_what_was_forecast(body: Fact, words: str) -> None:
    asked: Fact = {"venue": "metaculus", "questions": {"metaculus:7:8": None}}
    comment = {
        **write(60.0),
        **asked,
        "kind": "comment",
        "path": "/api/comments/create/",
        "questions": {},
        "body": body,
    }
    settings = {"venues": {"metaculus": {"mode": "live"}}}
    acts = [{**arm(config=settings), "venue": "metaculus"}]
    found = judge(acts=acts, config=settings, writes=[{**write(), **asked}, comment])
    assert [words in one for one in found] == [True] * bool(words)


@pytest.mark.parametrize(
    ("locked", "unlocked", "count"),
    [("drifter", None, 1), ("second", None, 0), ("drifter", {}, 1), ("drifter", {"forecaster": "drifter"}, 0)],
)
def test_a_lock_of_one_forecaster_holds_what_that_one_says(locked: str, unlocked: Fact | None, count: int) -> None:
    settings = config(forecasters=["drifter", "second"])
    acts = [arm(config=settings), act("lock", 900.0, **LOCK, forecaster=locked)]
    acts += [] if unlocked is None else [act("unlock", 600.0, **LOCK, **unlocked)]
    assert len(judge(acts=acts, writes=[write()], config=settings)) == count


def test_what_a_dead_daemon_cannot_have_heard_is_not_held_against_it() -> None:
    begins = [{"from_s": at_s, **moment(at_s - NOON_S), "config": config()} for at_s in (0.0, NOON_S - 60.0)]
    asked = [arm(), act("disarm", 3_000.0)]
    assert judge(acts=asked, writes=[write()], eras=begins) == []
    assert len(judge(acts=asked, writes=[write(90.0)], eras=begins)) == 1


def test_no_more_than_its_share_of_the_account_is_at_stake() -> None:
    settings = config(bankroll={"per_question": 0.1, "total": 1.0})
    for cash, count in ((49.0, 1), (51.0, 0)):
        seen = [account(-3_600.0, 900.0), account(-60.0, cash)]
        found = judge(config=settings, acts=[arm(config=settings)], orders=[order()], accounts=seen)
        assert len([one for one in found if "5.00 is at stake by bankroll.per_question" in one]) == count


def test_no_venue_refuses_what_an_account_cannot_pay_unless_money_left_it() -> None:
    refused = refusal()
    rows: Ledger = {"refusals": [{**refused, "detail": "not enough balance / allowance"}]}
    seen = [account(-1_800.0, 9.0), account(60.0, 9.0)]
    assert len(judge(rows, accounts=seen)) == 1
    assert judge(rows, accounts=seen, acts=[arm(), act("foreign write")]) == []
    assert judge(rows, accounts=[seen[0], {**seen[1], "moved": -1.0}]) == []
    assert judge({"refusals": [{**refused, "detail": "market is closed"}]}, accounts=seen) == []


def refusal(detail: str = "", **values: object) -> dict[str, object]:
    of = {"id": "i1", "venue": "polymarket", "ref": "polymarket:-", "mode": "live", "action": "order"}
    return {**of, "started_at": NOON.isoformat(), "detail": detail, **values}


@pytest.mark.parametrize(
    ("row", "count"),
    [
        (refusal("CDF Invalid: continuous_cdf at upper bound must be at most 0.999", action="forecast"), 1),
        (refusal("invalid price (0.995), min: 0.01 - max: 0.99"), 1),
        (refusal("invalid price (0.995), min: 0.01 - max: 0.99", mode="paper"), 0),
        (refusal("not open but resolved"), 0),
        (refusal("Comment is too long", action="comment"), 0),
    ],
)
def test_no_venue_refuses_the_form_of_a_request(row: dict[str, object], count: int) -> None:
    assert len([one for one in judge({"refusals": [row]}) if "for its form" in one]) == count


def test_what_a_clairvoyant_forecaster_said_is_never_submitted() -> None:
    sees, blind = ({**config(), "forecasters": {"drifter": {"clairvoyant": sees}}} for sees in (True, False))
    begins = [
        {"from_s": at_s, **moment(at_s - NOON_S), "config": one} for at_s, one in ((0.0, sees), (18_000.0, blind))
    ]
    for hour, count in ((2, 1), (9, 0)):
        made = {"forecaster": "drifter", "made_at": NOON.replace(hour=hour).isoformat()}
        rows: Ledger = {"intents": [{**intent(), "order_body": None, **made}]}
        assert len(judge(rows, eras=begins)) == count


def test_money_that_comes_while_a_person_places_an_order_is_no_transfer() -> None:
    quiet, ordering = [account(0.0, 30.0), account(60.0, 40.0)], [account(0.0, 30.0), account(60.0, 40.0, reserved=2.0)]
    for seen, is_transfer in ((quiet, True), (ordering, False)):
        came = [{**one, "moved": one["cash"]} for one in seen]
        assert [*list_transfers(came, [])][-1] == (10.0, is_transfer)


def test_a_deposit_while_nothing_else_changes_hides_no_loss() -> None:
    settings, lost = config(caps={"daily_loss": 5.0}), [50.0, 43.0, 42.0, 42.0, 41.0]
    seen = [account(-18_000.0 + 3_000.0 * place, cash) for place, cash in enumerate(lost)]
    deposited = [{**one, "cash": one["cash"] + 9.0, "free": one["free"] + 9.0, "moved": 9.0} for one in seen[1:]]
    for facts in ([*seen, account(-900.0, 41.0)], [seen[0], *deposited, {**deposited[-1], **moment(-900.0)}]):
        found = judge(config=settings, acts=[arm(config=settings)], orders=[order()], accounts=facts)
        assert any("were lost, daily_loss is 5" in one for one in found)


def test_nothing_is_written_on_paper() -> None:
    (found,) = judge(config=config(mode="paper"), acts=[arm(config=config(mode="paper"))], writes=[write()])
    assert found.endswith("its mode is paper")


@pytest.mark.parametrize(
    ("caps", "values", "why"),
    [
        ({"per_order": 5.0}, {}, ""),
        ({"per_order": 4.0}, {}, "5.00 is at stake by per_order, 4 may be"),
        ({"per_question": 6.0}, {"held": {SHIP: 7.0}}, "7.00 is at stake by per_question"),
        ({"per_question": 6.0}, {"held": {SHIP: 5.0, "0x02": 5.0}}, ""),
        ({"per_event": 6.0}, {"held": {SHIP: 5.0, "0x02": 5.0}}, "10.00 is at stake by per_event"),
        ({"total": 9.0}, {"held": {SHIP: 5.0, "0x02": 5.0}}, "10.00 is at stake by total"),
        ({}, {"asked": 11.0}, "11.00 is at stake by per_order, 10 may be"),
        ({}, {"side": "sell", "asked": 0.0, "held": {}}, ""),
    ],
)
def test_what_is_at_stake_is_within_every_cap(caps: Fact, values: Fact, why: str) -> None:
    settings = config(caps=caps)
    found = judge(config=settings, acts=[arm(config=settings)], orders=[order(**values)])
    said = [one for one in found if "at stake" in one]
    assert (len(said), all(why in one for one in said)) == (bool(why), True)


def test_caps_of_a_day_an_hour_and_an_arm_record_add_up() -> None:
    many = [order(60.0 * place, name=f"0x{place}", cost=8.0, held={SHIP: 8.0}) for place in range(6)]
    said = [one.rpartition(" and ")[2] for one in judge(orders=many) if "at stake" in one]
    assert said == ["48.00 is at stake by per_day, 40 may be"]
    said = [one for one in judge(orders=many, acts=[arm(total=45.0, per_day=None)]) if "arm record" in one]
    assert len(said) == 1
    settings = config(caps={"orders_per_hour": 5})
    said = [one for one in judge(config=settings, acts=[arm(config=settings)], orders=many) if "an hour" in one]
    assert len(said) == 1
    slower = [order(900.0 * place, name=f"0x{place}", cost=1.0) for place in range(6)]
    assert not [one for one in judge(config=settings, acts=[arm(config=settings)], orders=slower) if "an hour" in one]


@pytest.mark.parametrize(
    ("limit", "shown", "covers"),
    [
        (0.50, {}, True),
        (0.51, {}, True),
        (0.52, {}, False),
        (0.50, {"cost": "4.00 USD"}, False),
        (0.50, {"order": f"buy yes {SHIP}"}, False),
    ],
)
def test_in_mode_approve_each_order_is_one_that_somebody_saw(limit: float, shown: Fact, *, covers: bool) -> None:
    settings = config(mode="approve")
    seen = {"order": f"buy no {SHIP}", "cost": "5.00 USD", "limit": "0.5000", **shown}
    acts = [arm(config=settings), act("answer", approved=True, shown=seen, venue=None)]
    orders = [order(limit=limit), order(60.0, limit=limit, name="0xb")]
    said = [one for one in judge(config=settings, acts=acts, orders=orders) if "nobody approved" in one]
    # One approval is for one order.
    assert len(said) == 2 - covers


def test_nothing_is_bought_after_a_loss_until_a_person_resumes() -> None:
    settings = config(caps={"daily_loss": 5.0, "drawdown": 50.0})
    days = [account(-7_200.0, 1_000.0), *(account(-600.0 + 60.0 * place, 990.0) for place in range(3))]
    acts = [arm(config=settings)]
    sold: Fact = {"config": settings, "accounts": days, "orders": [order()]}
    (said,) = [one for one in judge(acts=acts, **sold) if "lost" in one]
    assert said.endswith("10.00 were lost, daily_loss is 5")
    assert not [one for one in judge(acts=[*acts, act("resume", 700.0, venue=None)], **sold) if "lost" in one]


@pytest.mark.parametrize(("moved", "is_lost"), [(0.0, True), (-10.0, False), (40.0, True)])
def test_money_that_people_take_out_is_no_loss(moved: float, *, is_lost: bool) -> None:
    settings = config(caps={"drawdown": 5.0})
    days = [account(-7_200.0, 1_000.0)]
    days += [{**account(-600.0 + 60.0 * place, 990.0), "moved": moved} for place in range(3)]
    found = judge(config=settings, acts=[arm(config=settings)], accounts=days, orders=[order()])
    assert any("were lost" in one for one in found) is is_lost


@pytest.mark.parametrize(
    ("over_s", "resumed_s", "venue", "is_wrong"),
    [
        (7_200.0, None, "polymarket", True),
        (7_200.0, None, "", True),
        (7_200.0, None, "manifold", False),
        (4_000.0, None, "polymarket", False),
        (7_200.0, 4_000.0, "polymarket", False),
        (7_200.0, 6_500.0, "polymarket", True),
    ],
)
def test_what_rests_at_a_venue_that_is_halted_is_cancelled(
    over_s: float, resumed_s: float | None, venue: str, *, is_wrong: bool
) -> None:
    resting = order(effect_s=NOON_S, over_s=NOON_S + over_s)
    for kind in ("halt", *(() if venue else ("stop file",))):
        acts = [arm(), act(kind, -3_600.0, venue=venue)]
        acts += [] if resumed_s is None else [act("resume", -resumed_s, venue=None)]
        found = judge(acts=acts, orders=[resting])
        assert any("rested until" in one for one in found) is is_wrong


def halt(after_s: float, resumed_s: float | None = None, name: str = "drawdown", limit: float = 5.0) -> Fact:
    """Return a halt for more than was lost."""
    row = {"venue": "polymarket", "at": moment(after_s)["clock"].isoformat()}
    resumed = None if resumed_s is None else moment(resumed_s)["clock"].isoformat()
    return {**row, "why": f"9.00 was lost, more than caps.{name} = {limit:g}", "resumed_at": resumed}


@pytest.mark.parametrize(
    ("rows", "values", "is_wrong"),
    [
        ([], (990.0,) * 6, True),
        ([halt(3_700.0)], (990.0,) * 6, False),
        ([halt(3_700.0, resumed_s=4_000.0)], (990.0,) * 6, True),
        ([], (996.0,) * 6, False),
        # Less was lost in between.
        ([], (990.0, 990.0, 990.0, 998.0, 990.0, 990.0), False),
    ],
)
def test_a_venue_that_has_lost_too_much_for_hours_has_stopped(
    rows: list[Fact], values: tuple[float, ...], *, is_wrong: bool
) -> None:
    seen = [account(0.0, 1_000.0), *(account(3_600.0 * place, one) for place, one in enumerate(values, 1))]
    found = judge({"halts": rows}, config=config(caps={"drawdown": 5.0}), accounts=seen, orders=[order()])
    assert any("has not stopped" in one for one in found) is is_wrong


@pytest.mark.parametrize(
    ("name", "hours", "readings", "is_wrong"),
    [
        ("drawdown", 3.0, [(1.0, 1_000.0, 0.0), (2.0, 994.0, 0.0)], False),
        ("drawdown", 3.0, [(1.0, 1_000.0, 0.0), (2.0, 996.0, 0.0)], True),
        # Money that came was spent on what is worth nothing now, or is taken out again, or other money is.
        ("drawdown", 3.0, [(0.5, 1_000.0, 0.0), (1.0, 1_010.0, 10.0), (2.0, 1_000.0, 10.0)], False),
        ("drawdown", 3.0, [(0.5, 1_000.0, 0.0), (1.0, 1_010.0, 10.0), (2.0, 1_000.0, 0.0)], True),
        ("drawdown", 3.0, [(0.5, 1_000.0, 0.0), (2.0, 990.0, -10.0)], False),
        # What was lost on the day before is not lost today.
        ("daily_loss", 16.0, [(1.0, 1_000.0, 0.0), (11.0, 990.0, 0.0), (15.0, 988.0, 0.0)], True),
        ("daily_loss", 16.0, [(1.0, 1_000.0, 0.0), (11.0, 990.0, 0.0), (15.0, 984.0, 0.0)], False),
    ],
)
def test_no_venue_stops_for_a_loss_that_its_account_cannot_have_had(
    name: str, hours: float, readings: list[tuple[float, float, float]], *, is_wrong: bool
) -> None:
    seen = [{**account(3_600.0 * after, cash), "moved": moved} for after, cash, moved in readings]
    found = judge({"halts": [halt(3_600.0 * hours, name=name)]}, accounts=seen)
    assert any("can have been lost" in one for one in found) is is_wrong


@pytest.mark.parametrize(
    ("resumed_s", "old_answers", "settings", "is_wrong"),
    [
        (None, 0, {}, True),
        (2_000.0, 0, {}, False),
        (4_000.0, 0, {}, True),
        (None, 1, {}, False),
        (None, 0, {"hand_trading": True}, False),
    ],
)
def test_nothing_is_bought_once_somebody_else_wrote_to_the_account(
    resumed_s: float | None, old_answers: int, settings: Fact, *, is_wrong: bool
) -> None:
    acts = [arm(5_000.0, config=config(**settings)), act("foreign write", old_answers=0)]
    acts += [] if resumed_s is None else [act("resume", resumed_s, venue=None)]
    bought = order(old_answers=old_answers)
    found = [one for one in judge(config=config(**settings), acts=acts, orders=[bought]) if "somebody else" in one]
    assert len(found) == is_wrong
    # A pass that had begun before may go on.
    # And a list may show it only later.
    for late in (act("foreign write", 600.0, old_answers=0), act("foreign write", old_answers=0, listed_after_s=9e3)):
        acts[1] = late
        assert not [one for one in judge(acts=acts, orders=[bought]) if "somebody else" in one]


def test_one_order_has_one_effect() -> None:
    twice = [order(), order(60.0, name="0xb", same_as="0xa")]
    assert [one for one in judge(orders=twice) if "executed 2 times" in one]


def test_the_same_forecast_is_not_paid_twice_side_by_side() -> None:
    call = {"question": "polymarket:1", "forecaster": 1, "trial": 1, "step": 1, "life": "life 1"}
    first, second = {**call, "from_s": 0.0, "to_s": 20.0}, {**call, "from_s": 10.0, "to_s": 30.0}
    (said,) = judge(calls=[first, second])
    assert "is paid twice side by side in life 1, trial 1" in said
    for other in ({"life": "life 2"}, {"trial": 2}, {"forecaster": 2}, {"from_s": 20.0}):
        assert judge(calls=[first, {**second, **other}]) == []


@pytest.mark.parametrize(
    ("margin_s", "why"), [(None, ""), (500.0, ""), (900.0, "polymarket:- closes at 03-01 12:06:40")]
)
def test_nothing_is_sent_shortly_before_the_close(margin_s: float | None, why: str) -> None:
    # It closes in 400 s, and what was sent two minutes ago may arrive now.
    margin = {} if margin_s is None else {"close_margin_s": margin_s}
    found = judge(writes=[write()], config=config(**margin), acts=[arm(config=config(**margin))])
    assert [one.partition(", and ")[2] for one in found] == [why] * bool(why)


def test_the_bills_of_a_day_are_within_its_budget() -> None:
    usage: Fact = {"prompt_tokens": 3_000_000, "completion_tokens": 1_000_000}
    usage |= {"prompt_tokens_details": {"cached_tokens": 1_000_000}}
    llm = {
        "models": {"m": {"price_in": 2.0, "price_cached": 0.5, "price_out": 8.0}},
        "budget": {"day_usd": 20.0},
    }
    bill = {**usage, "true_time": NOON}
    assert judge(bills=[bill], config={**config(), "llm": llm}) == []
    assert judge(bills=[bill, {**bill, "true_time": NOON + timedelta(days=1)}], config={**config(), "llm": llm}) == []
    (said,) = judge(bills=[bill, bill], config={**config(), "llm": llm})
    assert said == "referee: models cost 25.0000 dollars on 2026-03-01, 20 may be"


@pytest.mark.parametrize(("leg", "side"), [("yes", "buy"), ("yes", "sell"), ("no", "buy"), ("no", "sell")])
def test_position_and_cash_after_each_order_are_those_of_the_venue(leg: str, side: str) -> None:
    cash = -5.0 if side == "buy" else 5.0
    made = order(leg=leg, side=side, fills=[("t", 10.0, cash)])
    rows = [{"intent": "i1", "reference": "0xa", "state": "acked"}]
    fill = {"intent": "i1", "reference": "t", "shares": 10.0, "cash": cash}

    def said(fill: Fact, **body: Any) -> list[str]:
        ledger = {"intents": [intent(**{"leg": leg, "side": side, **body})], "attempts": rows, "fills": [fill]}
        return [one.rpartition("clock)")[2] for one in judge(ledger, orders=[made])]

    assert said(fill) == []
    assert said({**fill, "cash": -cash}) == [f": 10.0000 shares for {cash:.4f}, and 10.0000 for {-cash:.4f} on record"]
    assert said({**fill, "shares": 9.0})
    assert said(fill, leg="no" if leg == "yes" else "yes")
    assert said(fill, side="sell" if side == "buy" else "buy")


def test_an_order_that_the_ledger_does_not_know_is_named() -> None:
    assert [one for one in judge(orders=[order()]) if "by the ledger that is of []" in one]


@pytest.mark.parametrize(
    ("leg", "side", "expected", "kind", "is_right"),
    [
        ("no", "sell", 0.40, "FAK", True),
        ("no", "sell", 0.58, "FAK", False),
        ("yes", "sell", 0.58, "FAK", True),
        ("yes", "sell", 0.60, "FAK", False),
        ("no", "buy", 0.42, "FAK", True),
        ("no", "buy", 0.41, "FAK", False),
        ("no", "buy", 0.41, "GTD", True),
        ("no", "buy", 0.60, "GTD", False),
        ("yes", "buy", 0.60, "FAK", True),
    ],
)
def test_an_order_is_planned_on_the_book_of_its_own_token(
    leg: str, side: str, expected: float, kind: str, *, is_right: bool
) -> None:
    books = {
        (SHIP, "yes"): [{**moment(-5.0), "bid": 0.58, "ask": 0.60, "faults": 0}],
        (SHIP, "no"): [{**moment(-5.0), "bid": 0.40, "ask": 0.42, "faults": 0}],
    }
    planned = intent(leg=leg, side=side, expected=expected, terms={"type": kind})
    assert (judge({"intents": [planned]}, books=books) == []) is is_right


@pytest.mark.parametrize(
    ("equity", "faults", "says"),
    [(1_004.0, 0, ""), (1_006.0, 0, "was 1004.0000"), (1_000.0, 0, "was 1004.0000"), (1_006.0, 1, "")],
)
def test_an_account_is_worth_its_cash_and_its_shares_on_their_own_book(equity: float, faults: int, says: str) -> None:
    row = {"venue": "polymarket", "paper": 0, "at": NOON.isoformat(), "cash": 1_000.0, "equity": equity}
    seen = [account(-5.0, 1_000.0, shares_of_no(0.4)), account(2.0, 1_000.0, shares_of_no(0.4), faults=faults)]
    found = judge({"readings": [row]}, accounts=seen)
    assert (len(found), all(says in one for one in found)) == (bool(says), True)


@pytest.mark.parametrize(
    ("cash", "moved_s", "wrong"), [(990.0, 0.0, 0), (1_000.0, 0.0, 1), (980.0, 0.0, 1), (1_000.0, 9.0, 0)]
)
def test_what_orders_may_still_cost_is_no_free_cash(cash: float, moved_s: float, wrong: int) -> None:
    row = {"venue": "polymarket", "paper": 0, "at": NOON.isoformat(), "cash": cash, "equity": 1_000.0}
    moved = act("clock moved", moved_s)
    acts = [moved] if moved_s else []
    found = judge({"readings": [row]}, accounts=[account(-5.0, 1_000.0, reserved=10.0)], acts=acts)
    assert len([one for one in found if "is free at" in one]) == wrong


@pytest.mark.parametrize(("unread", "says"), [([], True), ([SHIP], False), (["0x02"], True)])
def test_shares_of_a_market_that_could_not_be_read_may_be_counted_at_cost(unread: list[str], *, says: bool) -> None:
    row = {"venue": "polymarket", "paper": 0, "at": NOON.isoformat(), "cash": 1_000.0, "equity": 1_005.0}
    failed = [{"venue": "polymarket", "market": one, **moment(-60.0)} for one in unread]
    found = judge({"readings": [row]}, accounts=[account(0.0, 1_000.0, shares_of_no())], unread=failed)
    assert bool(found) is says


@pytest.mark.parametrize(
    ("unread", "equity", "says"), [([SHIP], 1_004.5, False), ([SHIP], 1_004.8, True), ([], 1_004.5, True)]
)
def test_shares_of_a_market_that_could_not_be_read_may_keep_their_last_price(
    unread: list[str], equity: float, *, says: bool
) -> None:
    # Ten shares were worth 4.50 an hour ago and are worth 4.00 now; they cost 4.10.
    row = {"venue": "polymarket", "paper": 0, "at": NOON.isoformat(), "cash": 1_000.0, "equity": equity}
    failed = [{"venue": "polymarket", "market": one, **moment(-60.0)} for one in unread]
    seen = [
        account(at_s, 1_000.0, {**shares_of_no(bid), "paid": 4.1})
        for at_s, bid in ((-3_600.0, 0.45), (-1_800.0, 0.4), (-5.0, 0.4))
    ]
    found = judge({"readings": [row]}, accounts=[*seen, {**seen[-1], **moment(2.0)}], unread=failed)
    assert bool(found) is says


def test_shares_of_manifold_are_worth_what_their_sale_brings() -> None:
    # A purchase of YES for 50 in a pool of 100 and 100 gives 83.3333 shares; to sell them again brings 50.
    shares = 50.0 + 100.0 - 100.0 * 100.0 / 150.0
    pool = (100.0 * 100.0 / 150.0, 150.0, 0.5)
    held = {"contract": "market1", "leg": "yes", "shares": shares, "pool": pool, "paid": 50.0}
    seen = [{**account(-5.0, 950.0, held), "venue": "manifold"}]
    row = {"venue": "manifold", "paper": 0, "at": NOON.isoformat(), "cash": 950.0, "equity": 1_000.0}
    assert judge({"readings": [row]}, accounts=seen) == []
    (said,) = judge({"readings": [{**row, "equity": 1_000.01}]}, accounts=seen)
    assert said.endswith("and was 1000.0000")


def test_scores_follow_the_published_formulas() -> None:
    # The figures of docs/facts/metaculus.md#score-figures for a yes that was forecast with 0.8.
    outcomes = {"metaculus:1:1": {"yes": 1.0, "spot": 50.0, "said": [(0.0, 40.0, 0.5), (40.0, 90.0, 0.8)]}}
    brier = {"ref": "metaculus:1:1", "rule": "brier", "probability": 0.8, "value": 0.04}
    spot = {"ref": "metaculus:1:1", "rule": "spot baseline", "value": 67.80719051126378}
    assert judge({"scores": [brier], "venue_scores": [spot]}, outcomes=outcomes) == []
    assert len(judge({"scores": [{**brier, "value": 0.64}]}, outcomes=outcomes)) == 1
    assert len(judge({"venue_scores": [{**spot, "value": 0.0}]}, outcomes=outcomes)) == 1


@pytest.mark.parametrize(("name", "started_s", "wrong"), [("0xp", None, 1), ("0xa", None, 0), ("0xp", -60.0, 0)])
def test_what_somebody_else_ordered_is_not_cancelled(name: str, started_s: float | None, wrong: int) -> None:
    cancel = {**write(), "kind": "cancel", "path": f"/v0/bet/cancel/{name}"}
    ledger: Ledger = {"intents": [intent()]}
    if started_s is not None:
        # A write on the same market has no known outcome: the order may be that one.
        started = (NOON + timedelta(seconds=started_s)).isoformat()
        row = {"intent": "i1", "reference": "", "state": "unknown", "started_at": started, "settled_at": None}
        ledger["attempts"] = [row]
    found = judge(ledger, writes=[cancel], foreign_orders={"0xp": SHIP})
    assert len([one for one in found if "somebody else had placed" in one]) == wrong
