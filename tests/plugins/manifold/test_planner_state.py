"""A market as it was read: tolerant of what is new, strict about prices, and the same after its record."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.api import ContractError, Leg, Rejected
from plugins.manifold.book import Take
from plugins.manifold.reading import MAKERS, nearest_makers, read_state
from plugins.manifold.state import MarketState, Shares, contract_of, option_names, parts_of
from tests.plugins.manifold.replies import NOW, Readable, answer, at, binary, choice, limit_bet, numeric


def state_of(market: dict[str, Any], *bets: dict[str, Any]) -> MarketState:
    return MarketState.from_api(market, bets, read_at=NOW)


def test_a_binary_market_is_one_pool_with_its_weight() -> None:
    state = state_of(binary(p=0.3))
    assert [(a.id, a.pool.yes, a.pool.p) for a in state.answers] == [("", 1000.0, 0.3)]
    assert not state.linked
    assert state.closed(now=NOW) is None


def test_answers_come_in_order_of_their_index_with_even_weights() -> None:
    state = state_of(choice(answer("b", 0.3), answer("a", 0.7)))
    assert [(a.id, a.pool.p) for a in state.answers] == [("a", 0.5), ("b", 0.5)]
    assert state.linked
    assert not state_of(choice(answer("a", 0.7), answer("b", 0.7), linked=False)).linked


def test_a_market_and_its_orders_are_the_same_after_their_record() -> None:
    bets = (limit_bet("x", "NO", 0.7, answerId="a", expiresAt=at(NOW) + 5), limit_bet("y", "YES", 0.2, answerId="b"))
    market = choice(answer("a", 0.6, resolution="YES"), answer("b", 0.4), linked=False)
    state = state_of(market, *bets).owning([Shares(answer="a", yes=3.5)]).knowing({"owner-x": 7.0})
    assert MarketState.from_json(state.to_json()) == state
    scaled = state_of(numeric(min=1, isLogScale=True))
    assert MarketState.from_json(scaled.to_json()) == scaled


def test_a_record_of_something_else_is_refused() -> None:
    with pytest.raises(ContractError, match="no state of a market"):
        MarketState.from_json('{"market": 3}')


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
    with pytest.raises(ContractError, match=r"market m[12]"):
        state_of(market)


def test_a_market_is_closed_at_its_time_or_when_it_is_resolved() -> None:
    assert state_of(binary(closeTime=at(NOW))).closed(now=NOW) == "the market is closed"
    assert state_of(binary(isResolved=True)).closed(now=NOW) == "the market is resolved"
    assert state_of(binary(closeTime=None)).closed(now=NOW + timedelta(days=9999)) is None


def test_answers_that_were_not_read_at_one_moment_are_not_traded_on() -> None:
    torn = choice(answer("a", 0.6), answer("b", 0.6))
    assert "sum to 1.200" in str(state_of(torn).closed(now=NOW))
    assert state_of(choice(answer("a", 0.6), answer("b", 0.405))).closed(now=NOW) is None
    assert state_of(torn | {"shouldAnswersSumToOne": False}).closed(now=NOW) is None


def test_the_names_of_options_differ() -> None:
    assert option_names(["A", "A ", "", "A"]) == ("A", "A (2)", "(no text)", "A (3)")


def test_a_contract_names_market_and_answer() -> None:
    assert parts_of(contract_of("m", "a")) == ("m", "a")
    assert parts_of(contract_of("m")) == ("m", "")


def test_orders_of_ones_own_are_nobodys_to_be_met() -> None:
    bets = [limit_bet("mine", "NO", 0.6, userId="me"), limit_bet("other", "NO", 0.6)]
    state = MarketState.from_api(binary(), bets, read_at=NOW, user="me")
    assert [order.id for order in state.orders] == ["other"]


async def test_the_owners_of_the_nearest_orders_are_asked_what_they_have() -> None:
    bets = [limit_bet(f"{n}", "NO", 0.51 + n / 100) for n in range(MAKERS + 3)]
    venue = Readable(binary(), bets, {"owner-0": 5.0})
    state = await read_state(venue, "m1", now=NOW, own_orders=["1"])
    assert venue.asked == [f"owner-{n}" for n in range(MAKERS + 1) if n != 1]
    assert {order.id: order.balance for order in state.orders}["0"] == 5.0
    assert {order.id: order.balance for order in state.orders}["2"] is None
    assert "1" not in {order.id for order in state.orders}


async def test_a_market_that_is_not_there_is_rejected() -> None:
    with pytest.raises(Rejected, match="no market elsewhere"):
        await read_state(Readable(binary()), "elsewhere", now=NOW)


def test_owners_are_named_once_nearest_first() -> None:
    bets = (
        limit_bet("far", "YES", 0.2),
        limit_bet("near", "NO", 0.52),
        limit_bet("also", "NO", 0.6, userId="owner-near"),
    )
    state = state_of(binary(), *bets)
    assert nearest_makers(state) == ("owner-near", "owner-far")
    assert nearest_makers(replace(state, orders=())) == ()


def test_a_board_leaves_out_what_is_decided_and_meets_no_expired_order() -> None:
    state = state_of(binary(), limit_bet("old", "NO", 0.52, expiresAt=at(NOW))).knowing({"owner-old": 500.0})
    assert state.board().trade("", Take(leg=Leg.YES, stake=300.0)).walks[""].used == {}
    assert list(state.board().pools) == [""]
    market = choice(answer("a", 0.6, resolution="NO"), answer("b", 0.4), linked=False)
    assert list(state_of(market).board().pools) == ["b"]
    assert state.orders[0].leg is Leg.NO
