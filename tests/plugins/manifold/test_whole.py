"""From a belief to a position and its outcome, on the fake venue: planner, writer, account and resolver together."""

import pytest

from bot.api import Appetite, Binary, Choice, Happened, IntentState, Order, Prediction, Question, Wish
from plugins.manifold.planner import ManifoldPlanner
from tests.intents import placed
from tests.plugins.manifold.stand import Stand, query_of

QUARTER = Appetite(kelly=0.25, shrink=0.2, edge=0.01, band=(0.02, 0.98), most=100.0)


async def planned(stand: Stand, question: Question, prediction: Prediction) -> Order | None:
    stand.clock.pass_unnoticed(1)
    wish = Wish(
        question=question,
        predictions={"outcome": prediction},
        account=await stand.writer().account(),
        appetite=QUARTER,
        now=stand.clock.now(),
    )
    return (await ManifoldPlanner(stand.client()).plan(wish)).order


async def test_a_belief_becomes_a_bet_that_never_goes_beyond_it(stand: Stand) -> None:
    market = stand.world.add_market(liquidity=1000.0)
    question = await stand.question(market)
    order = await planned(stand, question, Binary(0.7))
    assert order is not None
    batch, receipt = await placed(stand.writer(), question, order)
    assert receipt.state is IntentState.ACKED
    (bet,) = [one for one in stand.venue.state.bets.values() if one.user == stand.ada.id]
    # MF-S5: the belief, shrunk by a fifth towards the price of one half in log-odds, is below 0.7.
    assert bet.limit is not None
    assert bet.prob_after <= bet.limit <= 0.7
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(order.cost, rel=1e-6)
    assert sum(fill.shares for fill in receipt.fills) == pytest.approx(order.shares, rel=1e-6)
    stand.clock.pass_unnoticed(300)
    account = await stand.writer().account()
    assert account.cash == pytest.approx(1000.0 - order.cost)
    (position,) = account.positions
    assert (position.contract, position.ref) == (order.contract, question.ref)
    assert position.shares == pytest.approx(order.shares, rel=1e-6)
    assert [one.state for one in await stand.writer().standing(batch)] == [IntentState.ACKED]
    stand.world.resolve(market, "YES")
    stand.clock.pass_unnoticed(1000)
    (found,) = [one async for one in stand.reader().resolutions([question.ref])]
    assert found.outcome == Happened(1.0)
    assert (await stand.writer().account()).cash == pytest.approx(1000.0 - order.cost + order.shares, rel=1e-6)


async def test_where_one_answer_wins_the_most_underpriced_one_is_bought(stand: Stand) -> None:
    answers = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))
    market = stand.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=answers, liquidity=1000.0)
    question = await stand.question(market)
    order = await planned(stand, question, Choice({"Ann": 0.4, "Bob": 0.2, "Cid": 0.4}))
    assert order is not None
    _, receipt = await placed(stand.writer(), question, order)
    assert receipt.state is IntentState.ACKED
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(order.cost, rel=1e-4)
    assert sum(fill.shares for fill in receipt.fills) == pytest.approx(order.shares, rel=1e-4)
    stand.clock.pass_unnoticed(300)
    (position,) = (await stand.writer().account()).positions
    assert (position.ref, position.option) == (question.ref, order.option)


async def test_mf_r4_the_next_plan_knows_of_the_last_trade(stand: Stand) -> None:
    market = stand.world.add_market(liquidity=1000.0)
    question = await stand.question(market)
    first = await planned(stand, question, Binary(0.7))
    assert first is not None
    _, receipt = await placed(stand.writer(), question, first)
    second = await planned(stand, question, Binary(0.7))
    # A quarter of what is left, on the price that the first one made.
    assert second is None or second.expected > first.expected
    reads = [query_of(asked)["fresh"] for asked in stand.asked(f"/v0/market/{market.id}")]
    assert receipt.reference
    assert len(set(reads)) >= 2
