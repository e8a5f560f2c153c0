"""The paper market on order books: what an order takes, what stays taken, and what an outcome pays."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from bot.core.errors import NotFoundError, RequestRejectedError
from bot.core.orders import ContractSide, Order, OrderSide, Position, UnpaidOutcome
from bot.core.outcomes import RESOLUTION_UNDONE, BinaryOutcome, ChoiceOutcome, Outcome, VoidOutcome
from bot.execution.order_book import OrderBook, ShareFees
from bot.execution.order_sizing import ContractMarket
from bot.execution.paper.book_market import OrderBookPaperMarket, pay_winning_side
from bot.execution.paper.paper_market import EarlierPaperOrder, FillRequest, FillResult, RemainderState
from bot.testing.clock import START, FakeClock

YES, NO = ContractSide
BUY, SELL = OrderSide
# The book and the walks of docs/facts/kalshi.md#books, with its fee of 0.07 * price * (1 - price) a contract.
BIDS = (("0.55", "40"),)
ASKS = (("0.57", "12"), ("0.58", "30"), ("0.60", "100"), ("0.99", "9000"))
FEES = ShareFees(formula=lambda price: Decimal("0.07") * price * (1 - price), step=Decimal("0.0001"))


def contract_market(bids: Any = BIDS, asks: Any = ASKS, **changes: Any) -> ContractMarket:
    sides = {
        name: [(Decimal(price), Decimal(size)) for price, size in levels]
        for name, levels in (("bids", bids), ("asks", asks))
    }
    market = ContractMarket(
        contract="rain",
        book=OrderBook.from_levels("rain", **sides),
        fees=FEES,
        tick=Decimal("0.01"),
        lot=Decimal("0.01"),
    )
    return replace(market, **changes)


def make_order(shares: float, limit: float, leg: ContractSide = YES, side: OrderSide = BUY) -> Order:
    cost = shares if side is BUY else 0.0
    return Order(
        contract="rain", leg=leg, side=side, shares=shares, limit=limit, cost=cost, expected=limit, currency="USD"
    )


async def fill(market: ContractMarket | Exception, order: Order, *earlier: EarlierPaperOrder) -> FillResult:
    async def read_market(_contract: str) -> ContractMarket:
        if isinstance(market, Exception):
            raise market
        return market

    request = FillRequest(
        id="order", order=order, sealed_at=START, expires_at=None, last_checked_at=START, earlier_orders=earlier
    )
    return await OrderBookPaperMarket(read_market, FakeClock()).fill_new_order(request)


def earlier_order(order: Order, result: FillResult, at: datetime = START) -> EarlierPaperOrder:
    return EarlierPaperOrder(order=order, at=at, fills=result.fills, market_state=result.market_state)


@pytest.mark.parametrize(
    ("shares", "limit", "value", "fee", "remainder"),
    [
        (20.0, 0.58, 11.48, 0.3424, RemainderState.FILLED),
        (100.0, 0.60, 59.04, 1.6919, RemainderState.FILLED),
        (200.0, 0.99, 141.66, 2.4377, RemainderState.FILLED),
        (20.0, 0.57, 6.84, 0.2059, RemainderState.DROPPED),
    ],
)
async def test_an_order_walks_the_levels_within_its_limit(
    shares: float, limit: float, value: float, fee: float, remainder: RemainderState
) -> None:
    result = await fill(contract_market(), make_order(shares, limit))
    assert sum(one.shares * one.price for one in result.fills) == pytest.approx(value)
    assert sum(one.fee for one in result.fills) == pytest.approx(fee)
    assert result.remainder is remainder
    assert (result.why == "") is (remainder is RemainderState.FILLED)


async def test_what_own_orders_took_stays_taken_until_the_level_changes() -> None:
    first = make_order(20.0, 0.58)
    taken = earlier_order(first, await fill(contract_market(), first))
    # Selling NO at 0.42 takes the asks of YES at 0.58 too: 22 of 30 are left, and none at 0.57.
    result = await fill(contract_market(), make_order(30.0, 0.42, NO, SELL), taken)
    assert [(one.shares, one.price) for one in result.fills] == [(22.0, 0.42)]
    both = earlier_order(make_order(30.0, 0.42, NO, SELL), result)
    assert (await fill(contract_market(), first, both, taken)).fills == ()
    changed = contract_market(asks=(("0.57", "13"), ("0.58", "30")))
    assert [(one.shares, one.price) for one in (await fill(changed, first, both, taken)).fills] == [(13.0, 0.57)]
    # The other side of the book is not touched by them.
    assert [one.shares for one in (await fill(contract_market(), make_order(9.0, 0.45, NO), both, taken)).fills] == [9]


async def test_buying_no_and_selling_yes_take_the_same_bids_past_orders_that_took_nothing() -> None:
    first = make_order(25.0, 0.45, NO)
    taken = earlier_order(first, await fill(contract_market(), first))
    nothing = EarlierPaperOrder(order=first, at=START, fills=(), market_state="")
    result = await fill(contract_market(), make_order(40.0, 0.55, YES, SELL), nothing, taken)
    assert [(one.shares, one.price) for one in result.fills] == [(15.0, 0.55)]


@pytest.mark.parametrize(
    ("market", "why"),
    [
        (contract_market(objection="the market is closed"), "closed"),
        (contract_market(bids=(("0.57", "1"),)), "crossed"),
        (NotFoundError("gone"), "gone"),
        (RequestRejectedError("not traded"), "not traded"),
        (contract_market(asks=(("0.59", "5"),)), "0 of 20.0 shares are offered within 0.58"),
    ],
)
async def test_what_cannot_be_traded_fills_nothing_and_says_why(market: ContractMarket | Exception, why: str) -> None:
    result = await fill(market, make_order(20.0, 0.58))
    assert (result.fills, result.remainder) == ((), RemainderState.DROPPED)
    assert why in result.why


async def test_positions_are_marked_at_what_the_bids_bring_and_left_out_if_unreadable() -> None:
    async def read_market(contract: str) -> ContractMarket:
        if contract == "gone":
            raise NotFoundError(contract)
        objection = "the market is closed" if contract.startswith("closed") else ""
        return contract_market(bids=() if contract.endswith("empty") else BIDS, objection=objection)

    names = ("gone", "rain", "empty", "closed and empty", "closed")
    held = [Position(contract=name, leg=YES, shares=80.0, paid=40.0) for name in names]
    marks = await OrderBookPaperMarket(read_market, FakeClock()).mark_prices(held)
    # Of 80 shares 40 can be sold, at 0.55; where nobody can bid any more, the last price stays.
    half = pytest.approx(0.275)
    assert marks == {("rain", YES): half, ("empty", YES): None, ("closed", YES): half}


@pytest.mark.parametrize(
    ("outcome", "yes"),
    [
        (BinaryOutcome(1.0), 1.0),
        (BinaryOutcome(0.0), 0.0),
        (ChoiceOutcome("dry"), 1.0),
        (ChoiceOutcome("wet"), 0.0),
        (VoidOutcome("cancelled"), UnpaidOutcome.REFUND),
        (VoidOutcome(RESOLUTION_UNDONE), UnpaidOutcome.OPEN),
    ],
)
def test_the_side_that_came_true_is_paid(outcome: Outcome, yes: float | UnpaidOutcome) -> None:
    held = Position(contract="rain", leg=YES, shares=1.0, paid=0.5, option="dry")
    no = yes if isinstance(yes, UnpaidOutcome) else 1.0 - yes
    assert [pay_winning_side(replace(held, leg=leg), outcome) for leg in (YES, NO)] == [yes, no]
