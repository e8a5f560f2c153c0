"""Bets as the venue lists them: which one is ours, and what was traded."""

from typing import Any

import pytest

from bot.api import ContractSide, Order, OrderSide, SealedRequest
from plugins.manifold.api_records import ManifoldBetRecord, parse_record
from plugins.manifold.write_requests import bet_fills, is_requested_bet

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
