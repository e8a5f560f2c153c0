"""Sales: what is held against the belief is sold, without mana and beyond all caps; a position is closed at a word."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    ClosingProposal,
    ContractSide,
    IntentState,
    Order,
    OrderPlan,
    OrderSide,
    Position,
    Question,
    RequestRejectedError,
)
from plugins.manifold.book_walk import PoolTakerOrder
from plugins.manifold.market_state import ManifoldMarketState
from plugins.manifold.planner import ManifoldPlanner
from plugins.manifold.sales import sale_price_objection
from tests.order_intents import make_batch, make_intent, seal_and_submit
from tests.plugins.manifold.api_replies import NOW, FakeMarketReader, answer, binary, choice, limit_bet
from tests.plugins.manifold.fixture import ManifoldFixture, bodies
from tests.plugins.manifold.fixture import order_of as bet_of
from tests.plugins.manifold.fixture import sale_of as a_sale
from tests.plugins.manifold.golden_vectors import vectors
from tests.plugins.manifold.test_planner import THREE, account, order_of, plan, question, resting, sizing

POOL = binary(pool={"YES": 1000.0, "NO": 1000.0})


def holds(shares: float, leg: ContractSide = ContractSide.YES, contract: str = "m1", paid: float = 1.0) -> Position:
    return Position(contract=contract, leg=leg, shares=shares, paid=paid)


@pytest.mark.parametrize("leg", [ContractSide.YES, ContractSide.NO])
async def test_what_is_held_against_the_belief_is_sold_at_a_cap_of_nothing_and_without_mana(leg: ContractSide) -> None:
    belief = 0.3 if leg is ContractSide.YES else 0.7
    has = account(0.0, [holds(50, leg)])
    order = order_of(
        await plan(
            FakeMarketReader(POOL),
            BinaryPrediction(belief),
            account=has,
            appetite=sizing(max_cost=0.0, min_edge=0.03),
        )
    )
    assert (order.side, order.leg, order.shares, order.cost) == (OrderSide.SELL, leg, 50, 0.0)
    assert order.limit == pytest.approx(0.3)
    assert "amount" not in order.terms
    assert order.edge == pytest.approx(order.expected - 0.3)


async def test_a_sale_brings_what_the_venues_own_arithmetic_says(shared: Path) -> None:
    """Vectors v057 to v060, the last into a resting bid."""
    for vector in vectors(shared, "sale"):
        given = vector.input
        market = binary(pool={"YES": given["YES"], "NO": given["NO"]}, p=given["p"])
        bids = [
            limit_bet(o["id"], o["outcome"], o["limitProb"], orderAmount=o["orderAmount"], userId=o["userId"])
            for o in given["orders"]
        ]
        venue = FakeMarketReader(market, bids, given["balances"])
        order = order_of(await closed(venue, holds(given["shares"], ContractSide(given["outcome"].lower()))))
        assert order.expected * order.shares == pytest.approx(vector.output["saleValue"], rel=1e-6)


async def test_no_more_is_sold_than_is_worth_less_by_the_belief() -> None:
    found = await plan(FakeMarketReader(POOL), BinaryPrediction(0.45), account=account(10.0, [holds(5000)]))
    order = order_of(found)
    assert (order.side, order.leg) == (OrderSide.SELL, ContractSide.YES)
    board = ManifoldMarketState.from_json(found.market_state).simulated_market()
    assert board.after_trade(board.simulate_sale("", ContractSide.YES, order.shares)).probability("") == pytest.approx(
        0.45, abs=1e-6
    )
    assert 0 < order.shares < 5000


async def test_nothing_is_sold_within_the_edge_and_a_band_keeps_no_sale_back() -> None:
    near = await plan(
        FakeMarketReader(POOL),
        BinaryPrediction(0.49),
        account=account(10.0, [holds(50)]),
        appetite=sizing(min_edge=0.03),
    )
    assert near.order is None
    assert "within 0.03" in near.why
    high = binary(pool={"YES": 10.0, "NO": 1000.0})
    policy = sizing(price_band=(0.1, 0.9), min_edge=0.03)
    order = order_of(
        await plan(FakeMarketReader(high), BinaryPrediction(0.9), account=account(10.0, [holds(5)]), appetite=policy)
    )
    assert order.side is OrderSide.SELL


async def test_once_it_is_sold_the_other_side_is_bought() -> None:
    first = order_of(await plan(FakeMarketReader(POOL), BinaryPrediction(0.3), account=account(500.0, [holds(50)])))
    assert (first.side, first.leg) == (OrderSide.SELL, ContractSide.YES)
    second = order_of(await plan(FakeMarketReader(POOL), BinaryPrediction(0.3), account=account(500.0)))
    assert (second.side, second.leg) == (OrderSide.BUY, ContractSide.NO)


async def test_an_answer_that_is_held_against_the_belief_goes_before_the_widest_gap() -> None:
    venue = FakeMarketReader(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2)))
    belief = ChoicePrediction({"Option a": 0.45, "Option b": 0.2, "Option c": 0.35})
    has = account(600.0, [holds(20, contract="m2/a")])
    order = order_of(await plan(venue, belief, shape=THREE, account=has))
    assert (order.contract, order.side, order.leg, order.option) == (
        "m2/a",
        OrderSide.SELL,
        ContractSide.YES,
        "Option a",
    )
    assert (await plan(venue, belief, shape=THREE, account=has)).why.startswith("sell 20.00 yes of Option a at ")


async def test_an_own_order_that_says_the_same_already_is_enough() -> None:
    found = await plan(
        FakeMarketReader(POOL), BinaryPrediction(0.3), account=account(500.0, [holds(50)], [resting(ContractSide.NO)])
    )
    assert found.order is None
    assert "already rests" in found.why


def closing(position: Position) -> ClosingProposal:
    return ClosingProposal(question=question(market="m1"), position=position, account=account(0.0, [position]), now=NOW)


async def closed(venue: FakeMarketReader, position: Position) -> OrderPlan:
    return await ManifoldPlanner(venue).plan_closing(closing(position))


@pytest.mark.parametrize(("leg", "other"), [(ContractSide.YES, ContractSide.NO), (ContractSide.NO, ContractSide.YES)])
async def test_a_position_is_closed_whole_with_a_limit_a_little_below_the_market(
    leg: ContractSide, other: ContractSide
) -> None:
    """A pool where YES is at one quarter; selling a leg is buying the other one, each pair being worth 1."""
    pool = binary(pool={"YES": 3000.0, "NO": 1000.0})
    order = order_of(await closed(FakeMarketReader(pool), holds(400, leg)))
    board = ManifoldMarketState.from_api(pool, [], read_at=NOW).simulated_market()
    bought = board.simulate_trade("", PoolTakerOrder(leg=other, shares=400.0))
    last = bought.marginal_price if leg is ContractSide.YES else 1.0 - bought.marginal_price
    assert (order.shares, order.edge) == (400, 0.0)
    assert order.expected == pytest.approx((400 - bought.stake) / 400)
    assert order.limit == pytest.approx(last - 0.02)


async def test_what_is_held_of_another_market_is_neither_sold_nor_counted() -> None:
    has = account(500.0, [holds(50, contract="m2")])
    order = order_of(await plan(FakeMarketReader(POOL), BinaryPrediction(0.3), account=has))
    assert order == order_of(await plan(FakeMarketReader(POOL), BinaryPrediction(0.3)))


@pytest.mark.parametrize("leg", [ContractSide.YES, ContractSide.NO])
async def test_a_leg_is_sold_until_the_next_share_is_worth_more_by_the_belief(leg: ContractSide) -> None:
    """Where YES is worth 0.45, NO is worth 0.55: both are sold until the market is there, from one half."""
    belief = 0.45 if leg is ContractSide.YES else 0.55
    found = await plan(FakeMarketReader(POOL), BinaryPrediction(belief), account=account(0.0, [holds(5000, leg)]))
    order = order_of(found)
    board = ManifoldMarketState.from_json(found.market_state).simulated_market()
    after = board.after_trade(board.simulate_sale("", leg, order.shares)).probability("")
    assert after == pytest.approx(belief, abs=1e-6)
    assert order.expected > order.limit == pytest.approx(0.45)


async def test_a_millionth_of_a_share_is_not_worth_a_sale() -> None:
    assert (await closed(FakeMarketReader(POOL), holds(0.9e-6))).why == "there is no buyer for yes"
    has = account(500.0, [holds(1e-6)])
    order = order_of(await plan(FakeMarketReader(POOL), BinaryPrediction(0.3), account=has))
    assert (order.side, order.leg) == (OrderSide.BUY, ContractSide.NO)


async def test_a_gap_of_exactly_the_edge_is_enough_for_a_sale() -> None:
    has, edge = account(0.0, [holds(50)]), sizing(min_edge=0.25)
    assert order_of(await plan(FakeMarketReader(POOL), BinaryPrediction(0.25), account=has, appetite=edge)).shares == 50
    assert (await plan(FakeMarketReader(POOL), BinaryPrediction(0.26), account=has, appetite=edge)).order is None


@pytest.mark.parametrize(("pool", "expected"), [((1.0, 1e6), 0.9999), ((1e6, 1.0), 0.0001)])
async def test_a_sale_expects_no_certain_price(pool: tuple[float, float], expected: float) -> None:
    market = binary(pool={"YES": pool[0], "NO": pool[1]})
    order = order_of(await closed(FakeMarketReader(market), holds(0.5)))
    assert order.expected == pytest.approx(expected)
    assert 0.0 < order.limit <= order.expected


@pytest.mark.parametrize("shares", [0.01, 50.0, 50_000.0])
async def test_a_market_that_has_not_moved_keeps_no_sale_back(shares: float) -> None:
    deep = binary(pool={"YES": 1e7, "NO": 1e7})
    order = order_of(await closed(FakeMarketReader(deep), holds(shares)))
    state = ManifoldMarketState.from_api(deep, [], read_at=NOW)
    assert sale_price_objection(state, order) is None
    assert sale_price_objection(state, replace(order, limit=order.expected)) is None
    assert "less than the limit" in str(sale_price_objection(state, replace(order, limit=order.expected + 0.001)))


async def test_a_pool_that_a_sale_against_the_belief_would_drain_is_left_alone() -> None:
    # With a weight of 0.9 the price is 0.03 only when nearly all NO is gone.
    thin = binary(pool={"YES": 1, "NO": 5}, p=0.9)
    found = await plan(FakeMarketReader(thin), BinaryPrediction(0.03), account=account(1e6, [holds(1e6)]))
    assert (found.order, found.why) == (None, "the pool is too small")


async def test_what_cannot_be_sold_says_why() -> None:
    over = await closed(FakeMarketReader(binary(isResolved=True)), holds(5))
    assert over.order is None
    assert over.why == "the market is resolved"
    gone = await closed(FakeMarketReader(POOL), holds(5, contract="m1/x"))
    assert gone.order is None
    assert "no longer has this answer" in gone.why


async def test_a_market_that_moved_beyond_the_limit_keeps_the_sale_back() -> None:
    order = order_of(await closed(FakeMarketReader(POOL), holds(50)))
    same = ManifoldMarketState.from_api(POOL, [], read_at=NOW)
    assert sale_price_objection(same, order) is None
    moved = ManifoldMarketState.from_api(binary(pool={"YES": 1300.0, "NO": 1000.0}), [], read_at=NOW)
    assert "less than the limit" in str(sale_price_objection(moved, order))


async def test_a_sale_on_the_venue_sells_the_shares_and_needs_no_mana(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(prob=0.5)
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, bet_of(market, amount=100.0, limit="0.90"))
    (position,) = (await writer.account()).positions
    manifold.ada.balance = 0.0
    order = await closing_order(manifold, question, position)
    _, receipt = await seal_and_submit(writer, question, order, "i2")
    assert receipt.state is IntentState.ACKED, receipt.detail
    assert manifold.ada.balance == pytest.approx(100.0)
    assert sum(fill.cash for fill in receipt.fills) == pytest.approx(100.0)
    assert (await writer.account()).positions == ()
    (body,) = bodies(manifold.asked(f"/v0/market/{market.id}/sell", "POST"))
    assert body == {"outcome": "YES", "shares": position.shares}


async def test_what_is_held_no_more_is_refused_by_the_venue(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(prob=0.5)
    _, receipt = await seal_and_submit(manifold.writer(), await manifold.question(market), a_sale(market, 5.0))
    assert receipt.state is IntentState.REFUSED
    assert "You don't have any YES shares to sell" in receipt.detail


async def test_a_market_that_fell_since_keeps_the_sale_from_being_sealed(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(prob=0.5)
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, bet_of(market, amount=100.0, limit="0.90"))
    (position,) = (await writer.account()).positions
    order = await closing_order(manifold, question, position)
    manifold.world.move_price(market, 0.3)
    await manifold.clock.advance(20)
    with pytest.raises(RequestRejectedError, match="less than the limit"):
        await writer.seal_requests(make_batch(question, make_intent(question, order)))
    assert not manifold.asked(f"/v0/market/{market.id}/sell", "POST")


async def test_a_changed_question_keeps_a_belief_from_selling_but_not_a_person(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(prob=0.5)
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, bet_of(market, amount=50.0, limit="0.90"))
    (position,) = (await writer.account()).positions
    order = await closing_order(manifold, question, position)
    market.question = "Something else?"
    await manifold.clock.advance(20)
    (unwritten,) = await writer.seal_requests(make_batch(question, make_intent(question, order)))
    assert unwritten.body == ""
    _, receipt = await seal_and_submit(writer, question, replace(order, closing="ann asked for it"), "i2")
    assert receipt.state is IntentState.ACKED, receipt.detail


async def closing_order(manifold: ManifoldFixture, question: Question, position: Position) -> Order:
    # Two clients whose clocks stand still ask in the same words, and an edge server gives both the same answer.
    await manifold.clock.advance(20)
    proposal = ClosingProposal(
        question=question, position=position, account=account(0.0, [position]), now=manifold.clock.now()
    )
    return order_of(await ManifoldPlanner(manifold.client()).plan_closing(proposal))
