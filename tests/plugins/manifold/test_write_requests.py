"""Bets as the venue lists them: which one is ours, and what was traded; and the arithmetic of requests."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.api import (
    BinaryPrediction,
    ContractSide,
    HttpResponse,
    Intent,
    IntentAction,
    IntentState,
    Order,
    OrderSide,
    QuestionRef,
    RequestRejectedError,
    ResponsibleParty,
    SealedRequest,
)
from plugins.manifold.api_records import ManifoldBetRecord, from_milliseconds, parse_record
from plugins.manifold.settings import ManifoldSettings
from plugins.manifold.write_requests import (
    MAX_RENDERED_CHARS,
    bet_fills,
    comment_marker,
    dry_run_objection,
    is_own_comment,
    is_requested_bet,
    is_resting,
    is_too_late,
    remaining_stake,
    seal_bet,
    seal_comment,
    seal_sale,
    would_self_trade,
    write_verdict,
)

SALE = Order(
    contract="m1",
    leg=ContractSide.YES,
    side=OrderSide.SELL,
    shares=30.0,
    limit=0.01,
    cost=0.0,
    expected=0.5,
    currency="MANA",
)
MADE_MS, EXPIRES_MS = 1_000_000_000, 1_000_600_000
PURCHASE = replace(
    SALE,
    contract="m1/a",
    side=OrderSide.BUY,
    limit=0.6,
    stake=5000.0,
    cost=5000.0,
    terms={"limit_prob": "0.60", "type": "MULTIPLE_CHOICE"},
)
INTENT = Intent(
    id="i1",
    account="default",
    ref=QuestionRef("manifold", "m1/a"),
    forecast="f1",
    action=IntentAction.ORDER,
    predictions={"outcome": BinaryPrediction(0.7)},
    batch="i1",
)
SEALED = SealedRequest(intent="i1", tag="1000000000-sell", body='{"outcome":"YES","shares":30.0}')


def bet(**changes: Any) -> ManifoldBetRecord:
    row = {
        "id": "b1",
        "contractId": "m1",
        "outcome": "YES",
        "amount": 20.0,
        "orderAmount": 50.0,
        "shares": 36.0,
        "limitProb": 0.6,
        "createdTime": 1_000_000_500,
        "fills": [{"matchedBetId": None, "amount": 20.0, "shares": 36.0, "timestamp": 1_000_000_500}],
    }
    return parse_record(ManifoldBetRecord, {**row, **changes}, "a bet")


def sold(**changes: Any) -> ManifoldBetRecord:
    row: dict[str, Any] = {"amount": -14.0, "orderAmount": -14.0, "shares": -30.0, "limitProb": None, "fills": []}
    return bet(**{**row, **changes})


def test_a_sale_is_known_by_its_shares_and_pairs_that_were_paid_out_are_none() -> None:
    assert is_requested_bet(sold(), SALE, SEALED)
    assert not is_requested_bet(sold(isRedemption=True), SALE, SEALED)
    assert not is_requested_bet(sold(shares=-29.9), SALE, SEALED)
    assert not is_requested_bet(sold(outcome="NO"), SALE, SEALED)
    assert not is_requested_bet(sold(contractId="m2"), SALE, SEALED)
    assert not is_requested_bet(bet(shares=30.0), SALE, SEALED)


def test_a_sale_brings_cash() -> None:
    (fill,) = bet_fills(sold())
    assert (fill.cash, fill.shares) == (14.0, 30.0)
    assert fill.price == pytest.approx(14.0 / 30.0)


def test_a_part_keeps_its_reference_while_others_are_added() -> None:
    first = {"matchedBetId": None, "amount": 20.0, "shares": 36.0, "timestamp": 1_000_000_500}
    later = {"matchedBetId": "b7", "amount": 6.0, "shares": 10.0, "timestamp": 1_000_009_000}
    before = bet_fills(bet())
    after = bet_fills(bet(amount=26.0, shares=46.0, fills=[first, later]))
    assert after[:1] == before
    assert [fill.reference for fill in after] == ["b1:0", "b1:1"]
    assert [fill.cash for fill in after] == [-20.0, -6.0]


def test_a_part_keeps_its_reference_in_a_list_that_comes_backwards() -> None:
    pool = {"matchedBetId": None, "amount": 12.0, "shares": 21.0, "timestamp": 1_000_000_500}
    order = {"matchedBetId": "b5", "amount": 8.0, "shares": 15.0, "timestamp": 1_000_000_500}
    later = {"matchedBetId": "b7", "amount": 6.0, "shares": 10.0, "timestamp": 1_000_009_000}
    before = bet_fills(bet(fills=[pool, order]))
    assert {fill.cash for fill in before} == {-12.0, -8.0}
    assert bet_fills(bet(fills=[order, pool])) == before
    assert bet_fills(bet(amount=26.0, shares=46.0, fills=[later, order, pool]))[:2] == before


def test_parts_that_are_listed_twice_are_one() -> None:
    first = {"matchedBetId": None, "amount": 20.0, "shares": 36.0, "timestamp": 1_000_000_500}
    assert bet_fills(bet(fills=[first, dict(first)])) == bet_fills(bet())


def test_what_is_made_of_other_answers_is_a_part_of_its_own() -> None:
    direct = {"matchedBetId": None, "amount": 12.0, "shares": 20.0, "timestamp": 1_000_000_500}
    before = bet_fills(bet(fills=[direct]))
    assert [(fill.reference, fill.cash, fill.shares) for fill in before] == [
        ("b1:0", -12.0, 20.0),
        ("b1:joint", -8.0, 16.0),
    ]
    later = {"matchedBetId": "b7", "amount": 6.0, "shares": 10.0, "timestamp": 1_000_009_000}
    after = {fill.reference: fill for fill in bet_fills(bet(amount=26.0, shares=46.0, fills=[direct, later]))}
    assert after["b1:joint"] == before[1]
    assert after["b1:1"].cash == -6.0


def test_a_bet_that_met_nothing_has_no_part() -> None:
    assert bet_fills(bet(amount=0, shares=0, fills=[])) == ()


@pytest.mark.parametrize(
    ("amount", "shares", "parts"),
    [
        # What is listed is 36 shares for 20. A rounding error is no part.
        (20.0000005, 36.0000005, {"b1:0": (20.0, 36.0)}),
        # More shares at any price from 0 to 1 are a part of their own.
        (20.0, 40.0, {"b1:0": (20.0, 36.0), "b1:joint": (0.0, 4.0)}),
        (22.0, 40.0, {"b1:0": (20.0, 36.0), "b1:joint": (2.0, 4.0)}),
        (24.0, 40.0, {"b1:0": (20.0, 36.0), "b1:joint": (4.0, 4.0)}),
        # Nobody pays less than nothing or more than 1 for a share: then it belongs to the part that is listed.
        (19.0, 40.0, {"b1:0": (19.0, 40.0)}),
        (25.0, 40.0, {"b1:0": (25.0, 40.0)}),
        (21.0, 36.0, {"b1:0": (21.0, 36.0)}),
    ],
)
def test_the_parts_of_a_bet_add_up_to_it(amount: float, shares: float, parts: dict[str, tuple[float, float]]) -> None:
    fills = bet_fills(bet(amount=amount, shares=shares))
    assert {fill.reference: (-fill.cash, fill.shares) for fill in fills} == parts


def test_a_part_without_a_time_is_as_old_as_its_bet() -> None:
    parts = [
        {"matchedBetId": "b7", "amount": 8.0, "shares": 15.0, "timestamp": 1_000_009_000},
        {"matchedBetId": None, "amount": 12.0, "shares": 21.0},
    ]
    first, later = bet_fills(bet(fills=parts))
    assert (first.cash, first.at) == (-12.0, from_milliseconds(1_000_000_500))
    assert (later.cash, later.at) == (-8.0, from_milliseconds(1_000_009_000))


@pytest.mark.parametrize(
    ("odd", "is_ours"),
    [
        ({}, True),
        # Amounts are compared to a millionth part of them.
        ({"orderAmount": 5000.004}, True),
        ({"orderAmount": 5000.006}, False),
        ({"limitProb": 0.6000005}, True),
        ({"limitProb": 0.61}, False),
        ({"limitProb": None}, False),
        ({"outcome": "NO"}, False),
        # The expiry is what tells it from an equal one.
        ({"expiresAt": EXPIRES_MS + 1}, False),
        ({"answerId": "b"}, False),
        ({"answerId": None}, False),
        ({"contractId": "m2"}, False),
        ({"isRedemption": True}, False),
    ],
)
def test_a_purchase_is_known_by_all_that_was_asked_for(odd: dict[str, Any], *, is_ours: bool) -> None:
    sealed = seal_bet(INTENT, PURCHASE, made_ms=MADE_MS, expires_ms=EXPIRES_MS)
    found = {"answerId": "a", "orderAmount": 5000.0, "limitProb": 0.6, "expiresAt": EXPIRES_MS}
    assert is_requested_bet(bet(**{**found, **odd}), PURCHASE, sealed) is is_ours


@pytest.mark.parametrize(
    ("after_ms", "created_ms", "is_ours"),
    [
        # The clock of the venue may be 605 s behind; a sale that was there before, at that time or not, is another one.
        (0, MADE_MS - 604_999, True),
        (0, MADE_MS - 605_000, False),
        (MADE_MS - 60_000, MADE_MS - 59_999, True),
        (MADE_MS - 60_000, MADE_MS - 60_000, False),
    ],
)
def test_a_sale_is_later_than_equal_ones_before_it(after_ms: int, created_ms: int, *, is_ours: bool) -> None:
    sealed = seal_sale(INTENT, SALE, made_ms=MADE_MS, after_ms=after_ms)
    assert is_requested_bet(sold(createdTime=created_ms), SALE, sealed) is is_ours


def test_a_sale_is_sent_within_half_a_minute_and_a_bet_until_shortly_before_its_expiry() -> None:
    sale = seal_sale(INTENT, SALE, made_ms=MADE_MS, after_ms=MADE_MS - 7)
    purchase = seal_bet(INTENT, PURCHASE, made_ms=MADE_MS, expires_ms=EXPIRES_MS)
    for sealed, last_ms in ((sale, MADE_MS + 30_000), (purchase, EXPIRES_MS - 5_000)):
        assert not is_too_late(sealed, from_milliseconds(last_ms - 1))
        assert is_too_late(sealed, from_milliseconds(last_ms))
    # No request takes effect after its fence: sending takes at most 45 s, and lists may be a minute old.
    assert sale.fence == from_milliseconds(MADE_MS) + timedelta(seconds=30 + 45 + 60)
    assert purchase.fence == from_milliseconds(EXPIRES_MS) + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("state", "left"),
    [
        ({}, 30.0),
        ({"amount": 49.5}, 0.5),
        ({"amount": 50.0}, 0.0),
        ({"amount": 50.5}, 0.0),
        ({"isFilled": True}, 0.0),
        ({"isCancelled": True}, 0.0),
        ({"limitProb": None}, 0.0),
        ({"orderAmount": None}, 0.0),
    ],
)
def test_an_order_may_still_spend_what_was_not_filled(state: dict[str, Any], left: float) -> None:
    assert remaining_stake(bet(**state)) == left
    assert is_resting(bet(**state), from_milliseconds(MADE_MS)) is (left > 0.0)


@pytest.mark.parametrize(("expires_ms", "rests"), [(None, True), (0, True), (MADE_MS + 1, True), (MADE_MS, False)])
def test_an_order_rests_until_its_expiry_and_without_one_for_good(expires_ms: int | None, *, rests: bool) -> None:
    assert is_resting(bet(expiresAt=expires_ms), from_milliseconds(MADE_MS)) is rests


@pytest.mark.parametrize("leg", [ContractSide.YES, ContractSide.NO])
@pytest.mark.parametrize("linked", [True, False])
def test_own_orders_meet_on_opposite_legs_and_where_one_answer_wins_on_equal_legs_of_two(
    leg: ContractSide, *, linked: bool
) -> None:
    same, other = leg.upper(), "NO" if leg is ContractSide.YES else "YES"
    purchase, sale = (replace(PURCHASE, leg=leg, side=side) for side in (OrderSide.BUY, OrderSide.SELL))
    for outcome in ("YES", "NO"):
        here, elsewhere = bet(answerId="a", outcome=outcome), bet(answerId="b", outcome=outcome)
        assert would_self_trade(here, purchase, linked=linked) is (outcome == other)
        assert would_self_trade(elsewhere, purchase, linked=linked) is (linked and outcome == same)
        # A sale of one leg is a bet on the other.
        assert would_self_trade(here, sale, linked=linked) is (outcome == same)
        assert would_self_trade(elsewhere, sale, linked=linked) is (linked and outcome == other)


@pytest.mark.parametrize(("amount", "shares", "why"), [(51.0, 100.0, None), (51.1, 100.0, "a share would cost 0.5110")])
def test_a_dry_run_may_cost_a_cent_more_than_planned(amount: float, shares: float, why: str | None) -> None:
    found = dry_run_objection(bet(amount=amount, shares=shares), PURCHASE)
    assert found is None if why is None else str(found).startswith(why)


def test_a_dry_run_that_fills_nothing_keeps_the_bet_back() -> None:
    assert dry_run_objection(bet(amount=0.0, shares=0.0), PURCHASE) == "nothing would be filled now"
    assert dry_run_objection(bet(amount=0.0, shares=1e-9), PURCHASE) == "nothing would be filled now"


@pytest.mark.parametrize(
    ("status", "fields", "responsible"),
    [
        (401, {"message": "Invalid key"}, ResponsibleParty.OPERATOR),
        (403, {}, ResponsibleParty.OPERATOR),
        (403, {"message": "You are banned from trading"}, ResponsibleParty.OPERATOR),
        (403, {"message": "Market is closed"}, ResponsibleParty.NOBODY),
        (403, {"message": "Insufficient balance"}, ResponsibleParty.NOBODY),
        (400, {"message": "You are banned"}, ResponsibleParty.NOBODY),
        (400, {}, ResponsibleParty.NOBODY),
        (400, {"message": "Invalid request", "details": [{"field": "amount"}]}, ResponsibleParty.DEVELOPER),
    ],
)
def test_a_refusal_is_for_the_one_who_can_mend_its_cause(
    status: int, fields: dict[str, Any], responsible: ResponsibleParty
) -> None:
    verdict = write_verdict(HttpResponse(status=status, body=json.dumps(fields).encode()))
    assert (verdict.state, verdict.responsible) == (IntentState.REFUSED, responsible)
    assert ('[{"field": "amount"}]' in verdict.detail) is ("details" in fields)


@pytest.mark.parametrize("text", ["a" * 8_001, "é" * 3_300, "a\n" * 330, "short"])
def test_a_long_comment_is_cut_to_what_the_venue_renders(text: str) -> None:
    """The venue counts the document as JSON; a line becomes a paragraph of some 60 characters more."""
    asked = replace(INTENT, action=IntentAction.COMMENT, order=None, text=text)
    sealed = seal_comment(asked, ManifoldSettings(comments=True), made_ms=MADE_MS)
    kept, _, marker = json.loads(sealed.body)["markdown"].rpartition("\n\n")
    assert marker == comment_marker(asked)
    assert is_own_comment({"content": marker})
    rendered = len(json.dumps(kept)) + 60 * (kept.count("\n") + 1)
    assert rendered <= MAX_RENDERED_CHARS - 1_000
    assert text.startswith(kept)
    # No more is cut than is needed.
    assert len(kept) >= 0.9 * min(len(text.strip()), 8_000, 3_150) or rendered > 0.85 * MAX_RENDERED_CHARS


@pytest.mark.parametrize(("end", "is_whole"), [("aa", True), ("aaa", False)])
def test_a_comment_that_just_fits_is_not_cut(end: str, *, is_whole: bool) -> None:
    # Two quotation marks, six characters for each letter with an accent, and sixty for the line: 19,000 with two more.
    text = "é" * ((19_000 - 60 - 2 - 2) // 6) + end
    asked = replace(INTENT, action=IntentAction.COMMENT, order=None, text=text)
    body = json.loads(seal_comment(asked, ManifoldSettings(comments=True), made_ms=MADE_MS).body)
    assert body["markdown"].startswith(f"{text}\n\n") is is_whole


@pytest.mark.parametrize(
    ("terms", "limit"),
    [
        ({"limit_prob": "0.605", "type": "BINARY"}, 0.605),
        ({"limit_prob": "0.005", "type": "PSEUDO_NUMERIC"}, 0.005),
        ({"limit_prob": "0.995", "type": "PSEUDO_NUMERIC"}, 0.995),
        ({"limit_prob": "0.61", "type": "BINARY"}, 0.60),
        ({"limit_prob": "NaN", "type": "BINARY"}, 0.60),
        ({"limit_prob": "Infinity", "type": "PSEUDO_NUMERIC"}, 0.60),
        ({"limit_prob": "high", "type": "BINARY"}, 0.60),
        ({"type": "BINARY"}, 0.60),
    ],
)
def test_a_limit_that_the_venue_does_not_take_or_that_was_not_decided_is_refused(
    terms: dict[str, Any], limit: float
) -> None:
    with pytest.raises(RequestRejectedError, match="the limit"):
        seal_bet(INTENT, replace(PURCHASE, terms=terms, limit=limit), made_ms=MADE_MS, expires_ms=EXPIRES_MS)


@pytest.mark.parametrize(("leg", "limit"), [(ContractSide.YES, 0.01), (ContractSide.NO, 0.99)])
def test_the_limits_at_both_ends_are_accepted_and_are_of_the_leg(leg: ContractSide, limit: float) -> None:
    order = replace(PURCHASE, leg=leg, limit=limit, terms={"limit_prob": "0.01", "type": "BINARY"})
    body = json.loads(seal_bet(INTENT, order, made_ms=MADE_MS, expires_ms=EXPIRES_MS).body)
    assert (body["limitProb"], body["outcome"], body["answerId"]) == (0.01, leg.upper(), "a")


@pytest.mark.parametrize(("stake", "fine"), [(None, False), (0.99, False), (1.0, True), (7.0, True), (7.01, False)])
def test_a_stake_is_at_least_a_mana_and_at_most_what_the_order_may_cost(stake: float | None, *, fine: bool) -> None:
    order = replace(PURCHASE, stake=stake, cost=7.0)
    if fine:
        assert json.loads(seal_bet(INTENT, order, made_ms=1, expires_ms=2).body)["amount"] == stake
        return
    with pytest.raises(RequestRejectedError, match="stake"):
        seal_bet(INTENT, order, made_ms=1, expires_ms=2)
