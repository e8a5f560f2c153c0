"""Orders of who holds something already: less of the same, first the other leg, and no order twice."""

import pytest

from bot.api import BinaryPrediction, ContractSide, OpenOrder, OrderSide
from tests.plugins.polymarket.records import condition
from tests.plugins.polymarket.test_planner import plan, planned, wants
from tests.plugins.polymarket.trading_inputs import FakePolymarketReader, a_book, account, held


def resting(leg: ContractSide, side: OrderSide = OrderSide.BUY, name: str = "r1") -> OpenOrder:
    return OpenOrder(id=name, contract=condition(1), leg=leg, side=side, limit=0.4, shares=10.0, reserves=4.0, ref=None)


async def test_planning_again_with_what_was_bought_plans_nothing() -> None:
    deep = FakePolymarketReader.of(a_book(asks=(("0.57", "100000"),)))
    for share in (0.25, 1.0):
        first = await planned(deep, BinaryPrediction(0.62), sizing=wants(kelly_fraction=share))
        paid = first.shares * first.expected + first.fees
        has = account(1000.0 - paid, [held(first.shares)])
        again = await plan(deep, BinaryPrediction(0.62), has=has, sizing=wants(kelly_fraction=share))
        assert again.order is None or again.order.shares <= 2.0


async def test_positions_reduce_what_is_bought() -> None:
    deep = FakePolymarketReader.of(a_book(asks=(("0.57", "100000"),)))
    found = await planned(deep, BinaryPrediction(0.62), has=account(1000.0 - 57.98, [held(100.0)]))
    assert found.shares == pytest.approx(65.0, abs=2.0)


@pytest.mark.parametrize("order_type", ["FAK", "GTD"])
async def test_what_is_held_of_the_other_leg_is_sold_at_once_not_bought_against(order_type: str) -> None:
    found = await planned(
        FakePolymarketReader.of(a_book()),
        BinaryPrediction(0.30),
        has=account(positions=[held(30.0)]),
        order_type=order_type,
    )
    assert (found.terms["type"], found.terms["lifetime_s"]) == ("FAK", 0.0)
    assert (found.leg, found.side, found.cost) == (ContractSide.YES, OrderSide.SELL, 0.0)
    assert (found.limit, found.shares) == (0.55, 30.0)
    assert found.edge == pytest.approx(0.55 - 0.55 * 0.45 * 0.04 - 0.30, abs=1e-5)


async def test_nothing_is_sold_for_less_than_it_is_worth() -> None:
    """The belief is below the middle, and above what a share would bring."""
    found = await plan(FakePolymarketReader.of(a_book()), BinaryPrediction(0.555), has=account(positions=[held(30.0)]))
    assert found.order is None
    assert "30.00 yes are held" in found.why


async def test_too_much_of_a_good_thing_is_not_sold_below_its_worth() -> None:
    """A holder of far more than a share of Kelly allows would sell at any price for safety alone."""
    has = account(10.0, [held(1000.0)])
    found = await plan(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.545), has=has, sizing=wants(kelly_fraction=0.25)
    )
    assert found.order is None
    assert "selling brings less than their worth of 0.545" in found.why


async def test_no_more_is_sold_than_is_held() -> None:
    found = await planned(FakePolymarketReader.of(a_book()), BinaryPrediction(0.05), has=account(positions=[held(7.9)]))
    assert (found.side, found.shares) == (OrderSide.SELL, 7.9)


async def test_dust_of_the_other_leg_stops_nothing() -> None:
    found = await planned(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.80), has=account(positions=[held(0.02, ContractSide.NO)])
    )
    assert (found.leg, found.side) == (ContractSide.YES, OrderSide.BUY)


async def test_an_own_order_that_rests_is_not_placed_twice() -> None:
    found = await plan(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.80), has=account(orders=[resting(ContractSide.YES)])
    )
    assert found.why == "our own order for yes already rests: r1"
    sale = await plan(
        FakePolymarketReader.of(a_book()),
        BinaryPrediction(0.80),
        has=account(orders=[resting(ContractSide.NO, OrderSide.SELL)]),
    )
    assert sale.order is None


async def test_own_orders_on_the_other_side_go_first() -> None:
    found = await planned(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.80), has=account(orders=[resting(ContractSide.NO)])
    )
    assert found.cancels == ("r1",)
