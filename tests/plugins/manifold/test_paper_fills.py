"""Paper fills (docs/facts/manifold.md#paper-fills): what an order got, what is carried, what rests."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    ContractSide,
    MalformedDataError,
    NumericOutcome,
    Order,
    OrderSide,
    Outcome,
    VoidOutcome,
)
from plugins.manifold.cpmm import CpmmPool
from plugins.manifold.market_state import AnswerShares, ManifoldMarketState
from plugins.manifold.numeric_scale import ManifoldScale
from plugins.manifold.paper_fills import (
    ManifoldNoFill,
    ManifoldPaperBet,
    ManifoldPaperFill,
    ManifoldRemainderState,
    OrderTiming,
    fill_new_bet,
    fill_resting_bet,
    mark_shares,
    payout_of_outcome,
    redeem_pairs,
)
from tests.plugins.manifold.api_replies import NOW, answer, at, binary, choice, limit_bet

DELAY = timedelta(seconds=2)
THERE = NOW + DELAY


def read(market: dict[str, Any], *bets: dict[str, Any], moment: datetime = THERE) -> ManifoldMarketState:
    state = ManifoldMarketState.from_api(market, bets, read_at=moment)
    return state.with_balances({order.user: 1000.0 for order in state.orders})


def filled(
    ask: ManifoldPaperBet,
    state: ManifoldMarketState,
    own: Sequence[AnswerShares] = (),
    *,
    now: datetime = THERE,
    decided: datetime = NOW,
) -> ManifoldPaperFill:
    got = fill_new_bet(ask, state, own, now=now, timing=OrderTiming(decided_at=decided, delay=DELAY))
    assert isinstance(got, ManifoldPaperFill), got.why
    return got


def refused(ask: ManifoldPaperBet, state: ManifoldMarketState, *, now: datetime = THERE) -> str:
    got = fill_new_bet(ask, state, (), now=now, timing=OrderTiming(decided_at=NOW, delay=DELAY))
    assert isinstance(got, ManifoldNoFill)
    return got.why


def yes(stake: float, limit: float = 0.99, **fields: Any) -> ManifoldPaperBet:
    return replace(ManifoldPaperBet(answer="", leg=ContractSide.YES, stake=stake, limit=limit), **fields)


def no(stake: float, limit: float = 0.01, **fields: Any) -> ManifoldPaperBet:
    return yes(stake, limit, leg=ContractSide.NO, **fields)


SMALL = binary(pool={"YES": 100, "NO": 100})


def test_an_order_is_filled_as_the_venue_fills_it() -> None:
    got = filled(yes(50.0), read(SMALL))  # v040
    assert (got.stake, got.fee, got.remaining_stake, got.remainder) == (
        50.0,
        0.0,
        0.0,
        ManifoldRemainderState.NONE_LEFT,
    )
    assert got.shares == pytest.approx(83.33333333333333)
    assert [got.price_before, got.price_after] == pytest.approx([0.5, 0.6923076923076923])


def test_an_order_meets_the_book_that_can_pay() -> None:
    bet = limit_bet("o1", "NO", 0.55)
    got = filled(yes(300.0), read(binary(), bet))  # v047
    assert got.shares == pytest.approx(549.6638655462187)
    unknown = ManifoldMarketState.from_api(binary(), [bet], read_at=THERE)
    assert filled(yes(300.0), unknown).shares == pytest.approx(530.7692307692307)  # v051: as if it were not there


def test_a_rest_waits_until_its_expiry_or_is_dropped() -> None:
    later = THERE + timedelta(seconds=30)
    kept = filled(yes(100.0, 0.6, expires_at=later), read(SMALL))  # v043
    assert kept.stake == pytest.approx(22.47448713915891)
    assert kept.remaining_stake == pytest.approx(100.0 - 22.47448713915891)
    assert kept.remainder is ManifoldRemainderState.RESTS
    assert filled(yes(100.0, 0.6), read(SMALL)).remainder is ManifoldRemainderState.DROPPED
    assert refused(yes(100.0, 0.6, expires_at=THERE), read(SMALL)) == "it had expired"


def test_linked_answers_are_filled_with_the_arbitrage() -> None:
    state = read(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2)))
    alone = read(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2), linked=False))
    ask = yes(10.0, answer="a")
    assert filled(ask, state).shares > filled(ask, alone).shares


@pytest.mark.parametrize(
    ("state", "now", "why"),
    [
        (read(binary(), moment=NOW + timedelta(seconds=1)), THERE, "read before the order arrived"),
        (read(binary()), THERE + timedelta(minutes=2), "120 s ago"),
        (read(binary(), moment=THERE + timedelta(seconds=9)), THERE, "later than now"),
        (read(binary(isResolved=True)), THERE, "the market is resolved"),
        (read(binary(closeTime=at(THERE))), THERE, "the market is closed"),
        (read(choice(answer("a", 0.5), answer("b", 0.5))), THERE, "no longer has this answer"),
        (read(binary(pool={"YES": 0.02, "NO": 0.02})), THERE, "too small"),
    ],
)
def test_there_is_no_fill_on_what_cannot_stand_for_the_market(
    state: ManifoldMarketState, now: datetime, why: str
) -> None:
    assert why in refused(yes(10.0), state, now=now)


def test_mf_x4_there_is_no_fill_on_a_resolved_answer_or_under_the_least_bet() -> None:
    state = read(choice(answer("a", 0.5, resolution="YES"), answer("b", 0.5), linked=False))
    assert refused(yes(10.0, answer="a"), state) == "the answer is resolved"
    assert "minimum bet" in refused(yes(0.99), read(binary()))
    assert filled(yes(1.0), read(binary())).stake == 1.0


def test_mf_x4_a_price_at_the_end_of_the_scale_gives_nothing() -> None:
    # v054: at 1 % nobody sells NO any more.
    edge = binary(pool={"YES": 1043748.1561188638, "NO": 11520.402666342714}, p=0.47784802346618205)
    got = filled(no(50.0), read(edge))
    assert (got.stake, got.shares, got.remainder) == (0.0, 0.0, ManifoldRemainderState.DROPPED)


@given(
    first=st.floats(1.0, 200.0),
    second=st.floats(1.0, 200.0),
    leg=st.sampled_from(list(ContractSide)),
    p=st.floats(0.2, 0.8),
    size=st.floats(0.0, 60.0),
)
def test_two_bets_on_a_pool_that_never_saw_them_cost_what_one_costs(
    first: float, second: float, leg: ContractSide, p: float, size: float
) -> None:
    bets = [limit_bet("n", "NO", 0.97, orderAmount=size), limit_bet("y", "YES", 0.03, orderAmount=size)]
    state = read(binary(p=p), *bets)
    make = yes if leg is ContractSide.YES else no
    one = filled(make(first + second), state)
    a = filled(make(first), state)
    held = AnswerShares(answer="", yes=a.shares) if leg is ContractSide.YES else AnswerShares(answer="", no=a.shares)
    b = filled(make(second), state, [held])
    assert a.shares + b.shares == pytest.approx(one.shares, rel=1e-6)
    assert b.price_before == pytest.approx(a.price_after, rel=1e-6)


@given(first=st.floats(1.0, 100.0), second=st.floats(1.0, 100.0), third=st.floats(1.0, 100.0))
def test_bets_on_several_linked_answers_meet_each_other_in_any_order(first: float, second: float, third: float) -> None:
    state = read(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2)))
    a = filled(yes(first, answer="a"), state)
    b = filled(no(second, answer="b"), state, [AnswerShares(answer="a", yes=a.shares)])
    held = [AnswerShares(answer="a", yes=a.shares), AnswerShares(answer="b", no=b.shares)]
    one = filled(yes(third, answer="c"), state, held)
    other = filled(yes(third, answer="c"), state, held[::-1])
    assert one.shares == pytest.approx(other.shares, rel=1e-6)
    # What the market stood at after the second is what the third begins with.
    again = filled(yes(third, answer="b"), state, held)
    assert again.price_before == pytest.approx(b.price_after, rel=1e-6)


def test_what_was_sold_again_is_carried_no_more() -> None:
    state = read(SMALL)
    got = filled(yes(50.0), state)
    back = filled(no(got.shares - 50.0), state, [AnswerShares(answer="", yes=got.shares)])
    # Pairs are worth 1 each: the round trip returns the stake.
    assert back.shares == pytest.approx(got.shares)
    assert back.price_after == pytest.approx(0.5)
    assert redeem_pairs(got.shares, back.shares)[2] - back.stake == pytest.approx(50.0)
    assert filled(yes(50.0), state, [AnswerShares(answer="", yes=7.0, no=7.0)]) == got


def test_a_rest_is_filled_only_where_the_price_crosses_its_limit() -> None:
    later = THERE + timedelta(seconds=30)
    state = read(SMALL)
    got = filled(yes(100.0, 0.6, expires_at=later), state)
    own = [AnswerShares(answer="", yes=got.shares)]
    left = yes(got.remaining_stake, 0.6, expires_at=later)
    # The real pool still stands at 0.5, for it never saw the bet; the bet has taken what was there.
    still = fill_resting_bet(left, state, own, now=THERE)
    assert isinstance(still, ManifoldPaperFill)
    assert still.stake == pytest.approx(0.0, abs=1e-6)
    assert still.remainder is ManifoldRemainderState.RESTS


def test_a_rest_that_was_crossed_is_filled_at_its_limit_by_what_crossed_it() -> None:
    later = THERE + timedelta(seconds=30)
    fallen = read(
        binary(pool=dict(zip(("YES", "NO"), _sides(CpmmPool(100.0, 100.0).buy(ContractSide.NO, 30.0)[0]), strict=True)))
    )
    through = fallen.answers[0].pool
    crossed = fill_resting_bet(yes(1000.0, 0.45, expires_at=later), fallen, (), now=THERE)
    assert isinstance(crossed, ManifoldPaperFill)
    # As many shares as bring the pool back to 0.45, each at 0.45, which is dearer than the pool would have been.
    shares = through.buy(ContractSide.YES, through.stake_to_price(ContractSide.YES, 0.45))[1]
    assert crossed.shares == pytest.approx(shares)
    assert crossed.stake == pytest.approx(0.45 * shares)
    assert crossed.stake > through.stake_to_price(ContractSide.YES, 0.45)
    assert crossed.price_after == pytest.approx(0.45)
    assert crossed.remaining_stake == pytest.approx(1000.0 - crossed.stake)
    whole = fill_resting_bet(yes(3.0, 0.45, expires_at=later), fallen, (), now=THERE)
    assert isinstance(whole, ManifoldPaperFill)
    assert (whole.stake, whole.remaining_stake, whole.remainder) == (3.0, 0.0, ManifoldRemainderState.NONE_LEFT)
    assert whole.shares == pytest.approx(3.0 / 0.45)


def _sides(pool: CpmmPool) -> tuple[float, float]:
    return pool.yes, pool.no


def test_a_rest_ends_with_its_expiry_or_its_market() -> None:
    rest = yes(5.0, 0.6, expires_at=THERE)
    assert fill_resting_bet(rest, read(SMALL), (), now=THERE) == ManifoldNoFill("it had expired")
    over = read(binary(isResolved=True))
    assert fill_resting_bet(yes(5.0, expires_at=THERE + DELAY), over, (), now=THERE) == ManifoldNoFill(
        "the market is resolved"
    )


def test_shares_are_marked_at_what_all_of_them_would_bring() -> None:
    state = read(SMALL)
    got = filled(yes(50.0), state)
    held = AnswerShares(answer="", yes=got.shares)
    assert mark_shares(state, [held], held, now=THERE) == {
        ContractSide.YES: pytest.approx(50.0 / got.shares),
        ContractSide.NO: None,
    }
    assert mark_shares(read(binary(isResolved=True)), [held], held, now=THERE) == {
        ContractSide.YES: None,
        ContractSide.NO: None,
    }
    # A sale stops at no price: so many bring all the NO there is.
    far = mark_shares(state, [], AnswerShares(answer="", yes=1e9), now=THERE)[ContractSide.YES]
    assert far == pytest.approx(state.answers[0].pool.no / 1e9, rel=1e-6)


@given(yes_shares=st.floats(0.0, 1e6), no_shares=st.floats(0.0, 1e6))
def test_pairs_are_paid_out_one_each(yes_shares: float, no_shares: float) -> None:
    left_yes, left_no, mana = redeem_pairs(yes_shares, no_shares)
    assert min(left_yes, left_no) == 0.0
    # Whatever comes true, what is held pays the same before and after.
    assert left_yes + mana == pytest.approx(yes_shares)
    assert left_no + mana == pytest.approx(no_shares)


SCALE = ManifoldScale(low=0.0, high=200.0)


@pytest.mark.parametrize(
    ("outcome", "option", "paid"),
    [
        (BinaryOutcome(1.0), "", (1.0, 0.0)),
        (BinaryOutcome(0.0), "", (0.0, 1.0)),
        (BinaryOutcome(0.83), "", (0.83, pytest.approx(0.17))),
        (ChoiceOutcome("b"), "b", (1.0, 0.0)),
        (ChoiceOutcome("b"), "c", (0.0, 1.0)),
        (NumericOutcome(50.0), "", (0.25, 0.75)),
        (NumericOutcome(float("inf")), "", (1.0, 0.0)),
        (VoidOutcome("cancelled"), "", (None, None)),
    ],
)
def test_shares_pay_what_came_true(outcome: Outcome, option: str, paid: tuple[object, object]) -> None:
    assert (
        payout_of_outcome(outcome, ContractSide.YES, option=option, scale=SCALE),
        payout_of_outcome(outcome, ContractSide.NO, option=option, scale=SCALE),
    ) == paid


def test_a_number_without_its_ends_pays_nothing_known() -> None:
    with pytest.raises(ValueError, match="without its ends"):
        payout_of_outcome(NumericOutcome(5.0), ContractSide.YES)


def test_an_order_of_another_venue_is_no_order_here() -> None:
    order = Order(
        contract="x", leg=ContractSide.YES, side=OrderSide.BUY, shares=1, limit=0.5, cost=0.5, expected=0.5,
        currency="USDC",
    )  # fmt: skip
    with pytest.raises(MalformedDataError, match="not of this venue"):
        ManifoldPaperBet.from_order(order)
