"""A market as it was read: tolerant of what is new, strict about prices, and the same after its record."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.api import ContractSide, MalformedDataError, RequestRejectedError
from plugins.manifold.book_walk import PoolTakerOrder
from plugins.manifold.market_state import (
    MAX_ORDER_OWNERS,
    AnswerShares,
    ManifoldMarketState,
    contract_name,
    nearest_order_owners,
    option_names,
    read_market_state,
    split_contract,
)
from tests.plugins.manifold.api_replies import NOW, FakeMarketReader, answer, at, binary, choice, limit_bet, numeric


def state_of(market: dict[str, Any], *bets: dict[str, Any]) -> ManifoldMarketState:
    return ManifoldMarketState.from_api(market, bets, read_at=NOW)


def test_a_binary_market_is_one_pool_with_its_weight() -> None:
    state = state_of(binary(p=0.3))
    assert [(a.id, a.pool.yes, a.pool.p) for a in state.answers] == [("", 1000.0, 0.3)]
    assert not state.linked
    assert state.closed_reason(now=NOW) is None


def test_answers_come_in_order_of_their_index_with_even_weights() -> None:
    state = state_of(choice(answer("b", 0.3), answer("a", 0.7)))
    assert [(a.id, a.pool.p) for a in state.answers] == [("a", 0.5), ("b", 0.5)]
    assert state.linked
    assert not state_of(choice(answer("a", 0.7), answer("b", 0.7), linked=False)).linked


def test_a_market_and_its_orders_are_the_same_after_their_record() -> None:
    bets = (limit_bet("x", "NO", 0.7, answerId="a", expiresAt=at(NOW) + 5), limit_bet("y", "YES", 0.2, answerId="b"))
    market = choice(answer("a", 0.6, resolution="YES"), answer("b", 0.4), linked=False)
    state = state_of(market, *bets).with_own_shares([AnswerShares(answer="a", yes=3.5)]).with_balances({"owner-x": 7.0})
    assert ManifoldMarketState.from_json(state.to_json()) == state
    scaled = state_of(numeric(min=1, isLogScale=True))
    assert ManifoldMarketState.from_json(scaled.to_json()) == scaled


def test_a_record_of_something_else_is_refused() -> None:
    with pytest.raises(MalformedDataError, match="not a market state"):
        ManifoldMarketState.from_json('{"market": 3}')


def test_orders_of_another_form_are_left_out_and_counted() -> None:
    bets = (
        limit_bet("good", "NO", 0.6),
        limit_bet("no limit", "NO", 0.6) | {"limitProb": None},
        limit_bet("maybe", "MAYBE", 0.6),
        {"id": "bare"},
        limit_bet("stray", "NO", 0.6, answerId="elsewhere"),
    )
    state = state_of(binary(), *bets)
    assert [order.id for order in state.orders] == ["good"]
    assert state.skipped == 3


@pytest.mark.parametrize("over", [{"isFilled": True}, {"isCancelled": True}, {"amount": 90}])
def test_an_order_that_is_over_has_nothing_left(over: dict[str, Any]) -> None:
    assert [order.remaining for order in state_of(binary(), limit_bet("o", "NO", 0.6, **over)).orders] == [0.0]


@pytest.mark.parametrize(
    "market",
    [
        binary(pool=None),
        binary(p=None),
        binary(pool={"YES": 0, "NO": 5}),
        binary(pool={"YES": 5}),
        binary(p=float("nan")),
        # A market maker whose arithmetic is another one.
        binary(mechanism="cpmm-multi-2"),
        choice(answer("a", 0.5, pool={"YES": "much", "NO": 1}), answer("b", 0.5)),
    ],
)
def test_a_market_without_a_price_is_an_error_with_its_id(market: dict[str, Any]) -> None:
    with pytest.raises(MalformedDataError, match=r"market m[12]"):
        state_of(market)


def test_a_market_is_closed_at_its_time_or_when_it_is_resolved() -> None:
    assert state_of(binary(closeTime=at(NOW))).closed_reason(now=NOW) == "the market is closed"
    assert state_of(binary(isResolved=True)).closed_reason(now=NOW) == "the market is resolved"
    assert state_of(binary(closeTime=None)).closed_reason(now=NOW + timedelta(days=9999)) is None


def test_answers_that_were_not_read_at_one_moment_are_not_traded_on() -> None:
    torn = choice(answer("a", 0.6), answer("b", 0.6))
    assert "sum to 1.200" in str(state_of(torn).closed_reason(now=NOW))
    assert state_of(choice(answer("a", 0.6), answer("b", 0.405))).closed_reason(now=NOW) is None
    assert state_of(torn | {"shouldAnswersSumToOne": False}).closed_reason(now=NOW) is None


def test_the_names_of_options_differ() -> None:
    assert option_names(["A", "A ", "", "A"]) == ("A", "A (2)", "(no text)", "A (3)")


def test_a_contract_names_market_and_answer() -> None:
    assert split_contract(contract_name("m", "a")) == ("m", "a")
    assert split_contract(contract_name("m")) == ("m", "")


def test_orders_of_ones_own_are_nobodys_to_be_met() -> None:
    bets = [limit_bet("mine", "NO", 0.6, userId="me"), limit_bet("other", "NO", 0.6)]
    state = ManifoldMarketState.from_api(binary(), bets, read_at=NOW, user="me")
    assert [order.id for order in state.orders] == ["other"]


async def test_the_owners_of_the_nearest_orders_are_asked_what_they_have() -> None:
    bets = [limit_bet(f"{n}", "NO", 0.51 + n / 100) for n in range(MAX_ORDER_OWNERS + 3)]
    venue = FakeMarketReader(binary(), bets, {"owner-0": 5.0})
    state = await read_market_state(venue, "m1", now=NOW, own_orders=["1"])
    assert venue.asked == [f"owner-{n}" for n in range(MAX_ORDER_OWNERS + 1) if n != 1]
    assert {order.id: order.balance for order in state.orders}["0"] == 5.0
    assert {order.id: order.balance for order in state.orders}["2"] is None
    assert "1" not in {order.id for order in state.orders}


async def test_a_market_that_is_not_there_is_rejected() -> None:
    with pytest.raises(RequestRejectedError, match="no market elsewhere"):
        await read_market_state(FakeMarketReader(binary()), "elsewhere", now=NOW)


def test_owners_are_named_once_nearest_first() -> None:
    bets = (
        limit_bet("far", "YES", 0.2),
        limit_bet("near", "NO", 0.52),
        limit_bet("also", "NO", 0.6, userId="owner-near"),
    )
    state = state_of(binary(), *bets)
    assert nearest_order_owners(state) == ("owner-near", "owner-far")
    assert nearest_order_owners(replace(state, orders=())) == ()


def test_a_board_leaves_out_what_is_decided_and_meets_no_expired_order() -> None:
    state = state_of(binary(), limit_bet("old", "NO", 0.52, expiresAt=at(NOW))).with_balances({"owner-old": 500.0})
    assert (
        state.simulated_market()
        .simulate_trade("", PoolTakerOrder(leg=ContractSide.YES, stake=300.0))
        .walks_by_answer[""]
        .paid_by_order
        == {}
    )
    assert list(state.simulated_market().pools) == [""]
    market = choice(answer("a", 0.6, resolution="NO"), answer("b", 0.4), linked=False)
    assert list(state_of(market).simulated_market().pools) == ["b"]
    assert state.orders[0].leg is ContractSide.NO
