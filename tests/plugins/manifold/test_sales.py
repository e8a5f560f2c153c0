"""Sales: what is held against the belief is sold, without mana and beyond all caps; a position is closed at a word."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.api import Binary, Choice, ClosingWish, IntentState, Leg, Order, Plan, Position, Question, Rejected, Side
from plugins.manifold.book import Take
from plugins.manifold.planner import ManifoldPlanner
from plugins.manifold.sales import refused_price
from plugins.manifold.state import MarketState
from tests.intents import batch_of, intent_of, placed
from tests.plugins.manifold.replies import NOW, Readable, answer, binary, choice, limit_bet
from tests.plugins.manifold.stand import Stand, bodies
from tests.plugins.manifold.stand import order_of as bet_of
from tests.plugins.manifold.stand import sale_of as a_sale
from tests.plugins.manifold.test_planner import THREE, account, appetite, order_of, plan, question, resting
from tests.plugins.manifold.vectors import vectors

POOL = binary(pool={"YES": 1000.0, "NO": 1000.0})


def holds(shares: float, leg: Leg = Leg.YES, contract: str = "m1", paid: float = 1.0) -> Position:
    return Position(contract=contract, leg=leg, shares=shares, paid=paid)


@pytest.mark.parametrize("leg", [Leg.YES, Leg.NO])
async def test_what_is_held_against_the_belief_is_sold_at_a_cap_of_nothing_and_without_mana(leg: Leg) -> None:
    belief = 0.3 if leg is Leg.YES else 0.7
    has = account(0.0, [holds(50, leg)])
    order = order_of(await plan(Readable(POOL), Binary(belief), account=has, appetite=appetite(most=0.0, edge=0.03)))
    assert (order.side, order.leg, order.shares, order.cost) == (Side.SELL, leg, 50, 0.0)
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
        venue = Readable(market, bids, given["balances"])
        order = order_of(await closed(venue, holds(given["shares"], Leg(given["outcome"].lower()))))
        assert order.expected * order.shares == pytest.approx(vector.output["saleValue"], rel=1e-6)


async def test_no_more_is_sold_than_is_worth_less_by_the_belief() -> None:
    found = await plan(Readable(POOL), Binary(0.45), account=account(10.0, [holds(5000)]))
    order = order_of(found)
    assert (order.side, order.leg) == (Side.SELL, Leg.YES)
    board = MarketState.from_json(found.state).board()
    assert board.after(board.sale("", Leg.YES, order.shares)).probability("") == pytest.approx(0.45, abs=1e-6)
    assert 0 < order.shares < 5000


async def test_nothing_is_sold_within_the_edge_and_a_band_keeps_no_sale_back() -> None:
    near = await plan(Readable(POOL), Binary(0.49), account=account(10.0, [holds(50)]), appetite=appetite(edge=0.03))
    assert near.order is None
    assert "within 0.03" in near.why
    high = binary(pool={"YES": 10.0, "NO": 1000.0})
    policy = appetite(band=(0.1, 0.9), edge=0.03)
    order = order_of(await plan(Readable(high), Binary(0.9), account=account(10.0, [holds(5)]), appetite=policy))
    assert order.side is Side.SELL


async def test_once_it_is_sold_the_other_side_is_bought() -> None:
    first = order_of(await plan(Readable(POOL), Binary(0.3), account=account(500.0, [holds(50)])))
    assert (first.side, first.leg) == (Side.SELL, Leg.YES)
    second = order_of(await plan(Readable(POOL), Binary(0.3), account=account(500.0)))
    assert (second.side, second.leg) == (Side.BUY, Leg.NO)


async def test_an_answer_that_is_held_against_the_belief_goes_before_the_widest_gap() -> None:
    venue = Readable(choice(answer("a", 0.5), answer("b", 0.3), answer("c", 0.2)))
    belief = Choice({"Option a": 0.45, "Option b": 0.2, "Option c": 0.35})
    has = account(600.0, [holds(20, contract="m2/a")])
    order = order_of(await plan(venue, belief, shape=THREE, account=has))
    assert (order.contract, order.side, order.leg, order.option) == ("m2/a", Side.SELL, Leg.YES, "Option a")


async def test_an_own_order_that_says_the_same_already_is_enough() -> None:
    found = await plan(Readable(POOL), Binary(0.3), account=account(500.0, [holds(50)], [resting(Leg.NO)]))
    assert found.order is None
    assert "rests there" in found.why


def closing(position: Position) -> ClosingWish:
    return ClosingWish(question=question(market="m1"), position=position, account=account(0.0, [position]), now=NOW)


async def closed(venue: Readable, position: Position) -> Plan:
    return await ManifoldPlanner(venue).plan_closing(closing(position))


async def test_a_position_is_closed_whole_with_a_limit_a_little_below_the_market() -> None:
    order = order_of(await closed(Readable(POOL), holds(400)))
    board = MarketState.from_api(POOL, [], read_at=NOW).board()
    bought = board.trade("", Take(leg=Leg.NO, shares=400.0))
    assert order.shares == 400
    assert order.expected == pytest.approx((400 - bought.stake) / 400)
    assert bought.marginal - 0.03 < order.limit < bought.marginal


async def test_what_cannot_be_sold_says_why() -> None:
    over = await closed(Readable(binary(isResolved=True)), holds(5))
    assert over.order is None
    assert over.why == "the market is resolved"
    gone = await closed(Readable(POOL), holds(5, contract="m1/x"))
    assert gone.order is None
    assert "no such answer" in gone.why


async def test_a_market_that_moved_beyond_the_limit_keeps_the_sale_back() -> None:
    order = order_of(await closed(Readable(POOL), holds(50)))
    same = MarketState.from_api(POOL, [], read_at=NOW)
    assert refused_price(same, order) is None
    moved = MarketState.from_api(binary(pool={"YES": 1300.0, "NO": 1000.0}), [], read_at=NOW)
    assert "less than the limit" in str(refused_price(moved, order))


async def test_a_sale_on_the_venue_sells_the_shares_and_needs_no_mana(stand: Stand) -> None:
    market = stand.world.add_market(prob=0.5)
    question, writer = await stand.question(market), stand.writer()
    await placed(writer, question, bet_of(market, amount=100.0, limit="0.90"))
    (position,) = (await writer.account()).positions
    stand.ada.balance = 0.0
    order = await closing_order(stand, question, position)
    _, receipt = await placed(writer, question, order, "i2")
    assert receipt.state is IntentState.ACKED, receipt.detail
    assert stand.ada.balance == pytest.approx(100.0)
    assert sum(fill.cash for fill in receipt.fills) == pytest.approx(100.0)
    assert (await writer.account()).positions == ()
    (body,) = bodies(stand.asked(f"/v0/market/{market.id}/sell", "POST"))
    assert body == {"outcome": "YES", "shares": position.shares}


async def test_what_is_held_no_more_is_refused_by_the_venue(stand: Stand) -> None:
    market = stand.world.add_market(prob=0.5)
    _, receipt = await placed(stand.writer(), await stand.question(market), a_sale(market, 5.0))
    assert receipt.state is IntentState.REFUSED
    assert "You don't have any YES shares to sell" in receipt.detail


async def test_a_market_that_fell_since_keeps_the_sale_from_being_sealed(stand: Stand) -> None:
    market = stand.world.add_market(prob=0.5)
    question, writer = await stand.question(market), stand.writer()
    await placed(writer, question, bet_of(market, amount=100.0, limit="0.90"))
    (position,) = (await writer.account()).positions
    order = await closing_order(stand, question, position)
    stand.world.move(market, 0.3)
    await stand.clock.advance(20)
    with pytest.raises(Rejected, match="less than the limit"):
        await writer.seal(batch_of(question, intent_of(question, order)))
    assert not stand.asked(f"/v0/market/{market.id}/sell", "POST")


async def test_a_changed_question_keeps_a_belief_from_selling_but_not_a_person(stand: Stand) -> None:
    market = stand.world.add_market(prob=0.5)
    question, writer = await stand.question(market), stand.writer()
    await placed(writer, question, bet_of(market, amount=50.0, limit="0.90"))
    (position,) = (await writer.account()).positions
    order = await closing_order(stand, question, position)
    market.question = "Something else?"
    await stand.clock.advance(20)
    (unwritten,) = await writer.seal(batch_of(question, intent_of(question, order)))
    assert unwritten.body == ""
    _, receipt = await placed(writer, question, replace(order, closing="ann asked for it"), "i2")
    assert receipt.state is IntentState.ACKED, receipt.detail


async def closing_order(stand: Stand, question: Question, position: Position) -> Order:
    # Two clients whose clocks stand still ask in the same words, and an edge server gives both the same answer.
    await stand.clock.advance(20)
    wish = ClosingWish(question=question, position=position, account=account(0.0, [position]), now=stand.clock.now())
    return order_of(await ManifoldPlanner(stand.client()).plan_closing(wish))
