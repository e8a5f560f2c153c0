"""Sales: all that is held can be sold, to the hundredth of a share, at every tick; amounts as the official client's."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from polymarket._internal.actions.orders.market import _compute_market_order_amounts

from bot.api import BinaryPrediction, ClosingProposal, ContractSide, OpenOrder, OrderSide, Position, RemainderState
from plugins.polymarket.order_terms import PolymarketOrderTerms
from plugins.polymarket.paper_market import mark_position
from plugins.polymarket.planner import PolymarketPlanner
from plugins.polymarket.settings import PolymarketTradingSettings
from plugins.polymarket.write_requests import build_unsigned_order
from tests.plugins.polymarket.records import condition
from tests.plugins.polymarket.test_paper_fills import meet
from tests.plugins.polymarket.test_planner import planned, wants
from tests.plugins.polymarket.test_planner_held import resting
from tests.plugins.polymarket.test_write_requests import INTENT, terms
from tests.plugins.polymarket.trading_inputs import NOW, FakePolymarketReader, a_book, account, held, order, question

TICKS = [Decimal(tick) for tick in ("0.1", "0.01", "0.005", "0.0025", "0.001", "0.0001")]


@given(tick=st.sampled_from(TICKS), steps=st.integers(1, 9_999), hundredths=st.integers(1, 10_000_000))
def test_amounts_of_a_sale_are_those_that_the_official_client_signs(tick: Decimal, steps: int, hundredths: int) -> None:
    price = tick * (1 + steps % (int(1 / tick) - 1))
    size = Decimal(hundredths) / 100
    asked = build_unsigned_order(INTENT, terms(str(price), str(size), side=OrderSide.SELL), now=NOW)
    theirs = _compute_market_order_amounts(amount=size, price=price, side="SELL", tick_size=tick)
    assert (asked.maker_amount, asked.taker_amount) == theirs


@pytest.mark.parametrize(
    ("tick", "bid", "ask"),
    [("0.0001", "0.5731", "0.5735"), ("0.001", "0.573", "0.575"), ("0.01", "0.57", "0.59")],
)
async def test_no_remainder_stays_whatever_the_tick(tick: str, bid: str, ask: str) -> None:
    book = a_book(bids=((bid, "5000"),), asks=((ask, "5000"),), tick=Decimal(tick))
    found = await planned(FakePolymarketReader.of(book), BinaryPrediction(0.30), has=account(positions=[held(99.99)]))
    assert (found.side, found.leg, found.shares) == (OrderSide.SELL, ContractSide.YES, 99.99)
    assert PolymarketOrderTerms.from_order(found).refusal_reason(tick=Decimal(tick), min_size=Decimal(5)) is None


async def test_a_sale_needs_no_cash_and_no_room_under_a_cap() -> None:
    has = account(0.0, [held(30.0)])
    found = await planned(
        FakePolymarketReader.of(a_book()), BinaryPrediction(0.30), has=has, sizing=wants(max_cost=0.0)
    )
    assert (found.side, found.cost) == (OrderSide.SELL, 0.0)


def closing(position: Position, *, has: float = 0.0, orders: Sequence[OpenOrder] = ()) -> ClosingProposal:
    return ClosingProposal(question=question(), position=position, account=account(has, [position], orders), now=NOW)


async def test_a_position_is_closed_down_the_bids_whatever_the_belief() -> None:
    book = a_book(bids=(("0.55", "20"), ("0.40", "100")))
    found = await PolymarketPlanner(PolymarketTradingSettings(), FakePolymarketReader.of(book)).plan_closing(
        closing(held(30.0))
    )
    assert found.order is not None, found.why
    sale = found.order
    assert (sale.side, sale.leg, sale.shares, sale.limit, sale.cost) == (
        OrderSide.SELL,
        ContractSide.YES,
        30.0,
        0.40,
        0.0,
    )
    assert sale.expected == pytest.approx((20 * 0.55 + 10 * 0.40) / 30)
    # A question with one market has no option to name.
    assert found.why.startswith("sell 30 yes at ")


async def test_own_orders_on_the_market_are_cancelled_before_a_position_is_closed_also_where_nobody_sells() -> None:
    own = resting(ContractSide.YES)
    others = [own, replace(own, id="r2", contract=condition(2))]
    planner = PolymarketPlanner(PolymarketTradingSettings(), FakePolymarketReader.of(a_book(asks=())))
    sale = (await planner.plan_closing(closing(held(30.0), orders=others))).order
    assert sale is not None
    assert sale.cancels == ("r1",)
    # Without a middle, the limit is in its place.
    assert PolymarketOrderTerms.from_order(sale).mid == Decimal("0.55")


async def test_only_what_is_bid_for_is_sold_and_a_no_says_why() -> None:
    planner = PolymarketPlanner(PolymarketTradingSettings(), FakePolymarketReader.of(a_book(bids=(("0.55", "20"),))))
    part = (await planner.plan_closing(closing(held(30.0)))).order
    assert part is not None
    assert part.shares == 20.0
    dust = await planner.plan_closing(closing(held(0.004)))
    assert dust.order is None
    assert "less than can be sold" in dust.why
    empty = PolymarketPlanner(PolymarketTradingSettings(), FakePolymarketReader.of(a_book(bids=())))
    nobody = await empty.plan_closing(closing(held(30.0)))
    assert nobody.order is None
    assert nobody.why == "there are no bids for yes"


async def test_a_sale_of_no_is_worth_what_the_askers_of_yes_leave() -> None:
    """YES offered at .60 x 50 and .70 x 100 is NO bid at .40 x 50 and .30 x 100: one pool, as the venue describes."""
    book = a_book(bids=(("0.55", "9000"),), asks=((".60", "50"), (".70", "100"), (".99", "9000")))
    position = held(70.0, ContractSide.NO)
    found = (
        await PolymarketPlanner(PolymarketTradingSettings(), FakePolymarketReader.of(book)).plan_closing(
            closing(position)
        )
    ).order
    assert found is not None
    assert (found.side, found.leg, found.shares, found.limit) == (OrderSide.SELL, ContractSide.NO, 70.0, 0.30)
    # By hand: (50 x .40 + 20 x .30) / 70 = 26 / 70.
    assert found.expected == pytest.approx(26 / 70)
    assert mark_position(book, position) == pytest.approx(26 / 70)
    result = meet(order("70", "0.30", leg=ContractSide.NO, side=OrderSide.SELL, mid="0.425"), book=book)
    assert [(fill.shares, fill.price) for fill in result.fills] == [(50.0, 0.40), (20.0, 0.30)]
    assert result.remainder is RemainderState.FILLED


async def test_no_that_is_held_against_the_belief_is_sold_down_the_bids_of_no() -> None:
    book = a_book(bids=(("0.55", "9000"),), asks=((".60", "50"), (".70", "100"), (".99", "9000")))
    found = await planned(
        FakePolymarketReader.of(book), BinaryPrediction(0.90), has=account(positions=[held(30.0, ContractSide.NO)])
    )
    assert (found.side, found.leg, found.shares, found.limit) == (OrderSide.SELL, ContractSide.NO, 30.0, 0.40)
    assert found.expected == pytest.approx(0.40)
    # NO is worth .10 by the belief and sells at .40, less the fee: the rate .04 x .40 x .60.
    assert found.edge == pytest.approx(0.30 - 0.0096)


def test_without_askers_of_yes_no_is_worth_nothing() -> None:
    assert mark_position(a_book(asks=()), held(10.0, ContractSide.NO)) is None
    assert mark_position(a_book(bids=()), held(10.0, ContractSide.NO)) is not None
