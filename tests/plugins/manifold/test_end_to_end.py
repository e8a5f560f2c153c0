"""From a belief to a position and its outcome, on the fake venue: planner, writer, account and resolver together."""

import pytest

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    ChoicePrediction,
    IntentState,
    Order,
    Prediction,
    Question,
    SizingPolicy,
    TradeProposal,
)
from plugins.manifold.planner import ManifoldPlanner
from tests.order_intents import seal_and_submit
from tests.plugins.manifold.fixture import ManifoldFixture, query_of

QUARTER = SizingPolicy(
    kelly_fraction=0.25, market_shrinkage=0.2, min_edge=0.01, price_band=(0.02, 0.98), max_cost=100.0
)


async def planned(manifold: ManifoldFixture, question: Question, prediction: Prediction) -> Order | None:
    manifold.clock.advance_without_waking(1)
    proposal = TradeProposal(
        question=question,
        predictions={"outcome": prediction},
        account=await manifold.writer().account(),
        sizing=QUARTER,
        now=manifold.clock.now(),
    )
    return (await ManifoldPlanner(manifold.client()).plan_order(proposal)).order


async def test_a_belief_becomes_a_bet_that_never_goes_beyond_it(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(liquidity=1000.0)
    question = await manifold.question(market)
    order = await planned(manifold, question, BinaryPrediction(0.7))
    assert order is not None
    batch, receipt = await seal_and_submit(manifold.writer(), question, order)
    assert receipt.state is IntentState.ACKED
    (bet,) = [one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id]
    # The belief, shrunk by a fifth towards the price of one half in log-odds, is below 0.7.
    assert bet.limit is not None
    assert bet.prob_after <= bet.limit <= 0.7
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(order.cost, rel=1e-6)
    assert sum(fill.shares for fill in receipt.fills) == pytest.approx(order.shares, rel=1e-6)
    manifold.clock.advance_without_waking(300)
    account = await manifold.writer().account()
    assert account.cash == pytest.approx(1000.0 - order.cost)
    (position,) = account.positions
    assert (position.contract, position.ref) == (order.contract, question.ref)
    assert position.shares == pytest.approx(order.shares, rel=1e-6)
    assert [one.state for one in await manifold.writer().read_submissions(batch)] == [IntentState.ACKED]
    manifold.world.resolve(market, "YES")
    manifold.clock.advance_without_waking(1000)
    (found,) = [one async for one in manifold.reader().resolutions([question.ref])]
    assert found.outcome == BinaryOutcome(1.0)
    assert (await manifold.writer().account()).cash == pytest.approx(1000.0 - order.cost + order.shares, rel=1e-6)


async def test_where_one_answer_wins_the_most_underpriced_one_is_bought(manifold: ManifoldFixture) -> None:
    answers = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=answers, liquidity=1000.0)
    question = await manifold.question(market)
    order = await planned(manifold, question, ChoicePrediction({"Ann": 0.4, "Bob": 0.2, "Cid": 0.4}))
    assert order is not None
    _, receipt = await seal_and_submit(manifold.writer(), question, order)
    assert receipt.state is IntentState.ACKED
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(order.cost, rel=1e-4)
    assert sum(fill.shares for fill in receipt.fills) == pytest.approx(order.shares, rel=1e-4)
    manifold.clock.advance_without_waking(300)
    (position,) = (await manifold.writer().account()).positions
    assert (position.ref, position.option) == (question.ref, order.option)


async def test_mf_r4_the_next_plan_knows_of_the_last_trade(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(liquidity=1000.0)
    question = await manifold.question(market)
    first = await planned(manifold, question, BinaryPrediction(0.7))
    assert first is not None
    _, receipt = await seal_and_submit(manifold.writer(), question, first)
    second = await planned(manifold, question, BinaryPrediction(0.7))
    # A quarter of what is left, on the price that the first one made.
    assert second is None or second.expected > first.expected
    reads = [query_of(asked)["fresh"] for asked in manifold.asked(f"/v0/market/{market.id}")]
    assert receipt.reference
    assert len(set(reads)) >= 2
