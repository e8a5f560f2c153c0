"""Planning and paper in front of the strict double: both legs, fees, caps, fills, and settlement to the cent."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from bot.api import (
    ChoiceOutcome,
    ChoicePrediction,
    ClosingProposal,
    ContractMarket,
    ContractSide,
    IntentState,
    Order,
    OrderSide,
    PaperTradingSubmitter,
    Position,
    Question,
    RequestRejectedError,
    UnpaidOutcome,
    WriteReceipt,
)
from bot.store.serialization import OUTCOME
from plugins.kalshi.order_books import order_fees
from plugins.kalshi.paper_market import open_paper, share_payout
from plugins.kalshi.planner import KalshiQuotes, create_planner, read_contract, read_event_state
from plugins.kalshi.questions import NONE_OPTION
from tests.plugins.kalshi.conftest import KalshiFixture
from tests.plugins.kalshi.records import WALK_BOOK, event, market, quoted, series, settled
from tests.plugins.kalshi.trading import EAGER, account, paper_place, plan, send

A = "KXDEMO-26DEC31-A"
YES, NO, BUY, SELL = ContractSide.YES, ContractSide.NO, OrderSide.BUY, OrderSide.SELL


def list_market(kalshi: KalshiFixture, **changes: Any) -> None:
    kalshi.venue.add(event(quoted("A", "0.5500", "0.5700", **changes)))
    kalshi.venue.books[A] = WALK_BOOK


def held(leg: ContractSide, shares: float) -> Position:
    return Position(contract=A, leg=leg, shares=shares, paid=shares / 2)


@pytest.mark.parametrize(
    ("belief", "position", "leg", "side", "book_side", "limit"),
    [
        (0.85, None, YES, BUY, "bid", "0.6000"),
        (0.40, None, NO, BUY, "ask", "0.5500"),
        (0.40, YES, YES, SELL, "ask", "0.5500"),
        (0.70, NO, NO, SELL, "bid", None),
    ],
)
async def test_the_leg_that_gains_is_bought_or_the_other_sold_at_a_price_of_yes(
    kalshi: KalshiFixture,
    belief: float,
    position: ContractSide | None,
    leg: ContractSide,
    side: OrderSide,
    book_side: str,
    limit: str | None,
) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    owned = () if position is None else (held(position, 30.0),)
    order = (await plan(kalshi, question, belief, account(kalshi, positions=owned))).order
    assert order is not None
    assert (order.leg, order.side, order.terms["book_side"]) == (leg, side, book_side)
    price = Decimal(str(order.terms["price"]))
    assert limit is None or order.terms["price"] == limit
    assert float(price) == pytest.approx(order.limit if leg is YES else 1 - order.limit)
    assert order.edge > 0
    assert order.cost <= 100.0
    assert order.shares == float(str(order.terms["count"]))


async def test_no_level_is_bought_that_costs_more_than_the_belief_after_fees(kalshi: KalshiFixture) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    # The levels cost 0.5872, 0.5971 and 0.6168 with their fees.
    order = (await plan(kalshi, question, 0.61, account(kalshi, cash=1000.0))).order
    assert order is not None
    assert order.limit == 0.58
    assert (await plan(kalshi, question, 0.585)).order is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_cost": 5.0}, None),
        ({"price_band": (0.6, 0.9)}, "outside the band"),
        ({"min_edge": 0.2}, "a gain of less than 0.2"),
        ({"max_cost": 0.01}, "nothing of that can be traded"),
    ],
)
async def test_caps_band_and_least_edge_bind(kalshi: KalshiFixture, changes: dict[str, Any], why: str | None) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    found = await plan(kalshi, question, 0.70, sizing=replace(EAGER, **changes))
    if why is None:
        assert found.order is not None
        assert 4.0 < found.order.cost <= 5.0
    else:
        assert found.order is None
        assert why in found.why


async def test_fees_of_the_event_replace_those_of_the_series(kalshi: KalshiFixture) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    with_fees = (await plan(kalshi, question, 0.70)).order
    kalshi.venue.events["KXDEMO-26DEC31"]["fee_multiplier_override"] = 0
    without = (await plan(kalshi, question, 0.70)).order
    assert with_fees is not None
    assert without is not None
    assert (with_fees.fees > 0, without.fees) == (True, 0.0)
    kalshi.venue.series["KXDEMO"] = series(fee_type="flat")
    with pytest.raises(RequestRejectedError, match="fees are unknown"):
        await plan(kalshi, question, 0.70)


async def test_the_gate_reads_the_fees_of_the_event_or_series_from_the_question(kalshi: KalshiFixture) -> None:
    list_market(kalshi)
    order = a_purchase(10.0, 0.5)
    half = Decimal("0.5")
    for multiplier, fee in ((None, "0.0175"), (0.5, "0.00875"), (0, "0")):
        kalshi.venue.events["KXDEMO-26DEC31"]["fee_multiplier_override"] = multiplier
        assert order_fees((await kalshi.questions())[A], order).per_share(half) == Decimal(fee)
    kalshi.venue.series["KXDEMO"] = series(fee_type="flat")
    with pytest.raises(RequestRejectedError, match="its fees were unknown when it was read"):
        order_fees((await kalshi.questions())[A], order)


async def test_of_an_event_the_option_furthest_from_the_market_is_traded(kalshi: KalshiFixture) -> None:
    kalshi.venue.add(event(quoted("A", "0.55", "0.57"), quoted("B", "0.28", "0.30"), mutually_exclusive=True))
    kalshi.venue.books = {A: WALK_BOOK, "KXDEMO-26DEC31-B": WALK_BOOK}
    question = (await kalshi.questions())["event:KXDEMO-26DEC31"]
    beliefs = ChoicePrediction({"Candidate A": 0.8, "Candidate B": 0.15, NONE_OPTION: 0.05})
    order = (await plan(kalshi, question, beliefs)).order
    assert order is not None
    assert (order.option, order.contract, order.leg) == ("Candidate A", A, YES)


async def test_a_market_that_left_the_event_has_no_price_and_cannot_be_traded(kalshi: KalshiFixture) -> None:
    members = quoted("A", "0.5500", "0.5700"), quoted("B", "0.2800", "0.3000")
    kalshi.venue.add(event(*members, number=30, mutually_exclusive=True))
    race = (await kalshi.questions())["event:KXDEMO-26DEC30"]
    kalshi.venue.archive("KXDEMO-26DEC30-B")
    quotes = {one.option: one for one in await KalshiQuotes(kalshi.settings, kalshi.client).read_quotes(race)}
    assert quotes["Candidate A"].price == pytest.approx(0.56)
    assert quotes["Candidate B"].price is None
    with pytest.raises(RequestRejectedError, match="has no market"):
        await quotes["Candidate B"].read_market()


async def test_a_contract_has_the_steps_of_its_ranges_until_its_close(kalshi: KalshiFixture) -> None:
    list_market(kalshi, price_ranges=[{"start": "0.01", "end": "0.97", "step": "0.03"}])

    async def read() -> ContractMarket:
        state = await read_event_state(kalshi.client, "KXDEMO-26DEC31")
        return await read_contract(kalshi.client, state, "", A)

    contract = await read()
    assert contract.objection == ""
    assert callable(contract.tick)
    steps = [contract.tick(Decimal(price)) for price in ("0.01", "0.04", "0.97", "0.05", "0.98")]
    # No price is a multiple of 1: one that is not on the grid fits no order.
    assert steps == [Decimal("0.03")] * 3 + [Decimal(1)] * 2
    kalshi.venue.change_market(A, close_time=kalshi.clock.now().isoformat())
    assert "it closed at" in (await read()).objection


async def test_a_position_is_closed_at_the_bids(kalshi: KalshiFixture) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    mine = held(YES, 50.0)
    owner = account(kalshi, cash=0.0, positions=(mine,))
    proposal = ClosingProposal(question=question, position=mine, account=owner, now=kalshi.clock.now())
    order = (await create_planner(kalshi.settings, kalshi.client).plan_closing(proposal)).order
    assert order is not None
    assert (order.side, order.leg, order.shares, order.limit, order.cost) == (SELL, YES, 40.0, 0.55, 0.0)


async def buy(kalshi: KalshiFixture, book: PaperTradingSubmitter, question: Question) -> tuple[Order, WriteReceipt]:
    """Send what a belief of 0.70 plans for 12 dollars; return the order and its receipt."""
    order = (await plan(kalshi, question, 0.70, sizing=replace(EAGER, max_cost=12.0))).order
    assert order is not None
    return order, await send(book, "one", order, question.ref)


@pytest.mark.parametrize(("result", "value", "paid"), [("yes", "1", 1.0), ("no", "0", 0.0), ("scalar", "0.37", 0.37)])
async def test_from_belief_to_payout_to_the_cent(kalshi: KalshiFixture, result: str, value: str, paid: float) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    async with open_paper(kalshi.settings, paper_place(kalshi)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        order, receipt = await buy(kalshi, book, question)
        assert receipt.state is IntentState.ACKED
        # See docs/facts/kalshi.md#fee-figures: 12 at 0.57 cost a fee of 0.2059, and the rest is at 0.58.
        assert [fill.price for fill in receipt.fills] == [0.57, 0.58]
        assert receipt.fills[0].cash == pytest.approx(-12 * 0.57 - 0.2059)
        before = await book.account()
        assert 100.0 - before.cash == pytest.approx(order.shares * order.expected + order.fees)
        (position,) = before.positions
        assert position.mark == pytest.approx(0.55)
        kalshi.venue.add(event(settled(market("A"), result, value)))
        kalshi.clock.advance_without_waking(86_400)
        known = list((await kalshi.resolutions(A)).values())
        assert await book.settle(known) == 1
        after = await book.account()
    assert after.positions == ()
    assert after.cash == pytest.approx(before.cash + paid * position.shares)
    assert {request.method for request in kalshi.venue.requests} == {"GET"}


async def test_a_paper_position_keeps_its_price_while_its_market_waits_for_its_outcome(kalshi: KalshiFixture) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    async with open_paper(kalshi.settings, paper_place(kalshi)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        await buy(kalshi, book, question)
        before = await book.account()
        kalshi.venue.books[A] = {"yes_dollars": [], "no_dollars": []}
        kalshi.venue.change_market(A, status="closed")
        assert (await book.account()).equity == before.equity
        kalshi.venue.change_market(A, status="active")
        assert (await book.account()).equity == before.cash


RACE = "event:KXDEMO-26DEC31"


@pytest.mark.parametrize(
    ("results", "paid"),
    [((("yes", "1"), ("no", "0")), 1.0), ((("no", "0"), ("yes", "1")), 0.0), ((("scalar", "0.37"), ("no", "0")), 0.37)],
)
async def test_an_option_that_was_renamed_is_paid_by_its_market(
    kalshi: KalshiFixture, results: tuple[tuple[str, str], ...], paid: float
) -> None:
    kalshi.venue.add(event(quoted("A", "0.55", "0.57"), quoted("B", "0.28", "0.30"), mutually_exclusive=True))
    kalshi.venue.books[A] = WALK_BOOK
    question = (await kalshi.questions())[RACE]
    async with open_paper(kalshi.settings, paper_place(kalshi)) as book:
        assert isinstance(book, PaperTradingSubmitter)
        order = replace(a_purchase(12.0, 0.57), option="Candidate A")
        receipt = await send(book, "one", order, question.ref)
        before = await book.account()
        # The names change places, so that the name alone points to the other market.
        names = zip("AB", ("Candidate B", "Candidate A"), results, strict=True)
        members = [settled(market(letter, yes_sub_title=name), *result) for letter, name, result in names]
        kalshi.venue.add(event(*members, mutually_exclusive=True))
        kalshi.clock.advance_without_waking(86_400)
        # As the outcome is kept.
        known = [
            replace(one, outcome=OUTCOME.decode(OUTCOME.encode(one.outcome)))
            for one in (await kalshi.resolutions(RACE)).values()
        ]
        assert await book.settle(known) == 1
        after = await book.account()
    assert receipt.fills[0].shares == 12.0
    assert after.cash == pytest.approx(before.cash + paid * 12.0)


def test_an_outcome_without_a_market_pays_a_name_it_knows_and_never_nothing() -> None:
    position = Position(contract=A, leg=YES, shares=1.0, paid=0.5, option="Candidate A")
    assert share_payout(position, ChoiceOutcome("Candidate A")) == 1.0
    assert share_payout(position, ChoiceOutcome("Alpha")) is UnpaidOutcome.OPEN
    assert share_payout(position, ChoiceOutcome(NONE_OPTION)) == 0.0


async def test_what_own_orders_took_is_gone_until_the_level_changes(kalshi: KalshiFixture) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    async with open_paper(kalshi.settings, paper_place(kalshi)) as book:
        order = a_purchase(12.0, 0.57)
        first = await send(book, "one", order, question.ref)
        assert sum(fill.shares for fill in first.fills) == 12.0
        second = await send(book, "two", order, question.ref)
        assert second.fills == ()
        assert "0 of 12.0 shares are offered within 0.57" in second.detail
        kalshi.venue.books[A] = WALK_BOOK | {"no_dollars": [["0.4300", "13.00"]]}
        third = await send(book, "three", order, question.ref)
        assert sum(fill.shares for fill in third.fills) == 12.0


def close_market(kalshi: KalshiFixture) -> None:
    kalshi.venue.change_market(A, status="inactive")


def cross_book(kalshi: KalshiFixture) -> None:
    kalshi.venue.books[A] = {"yes_dollars": [["0.6200", "10.00"]], "no_dollars": [["0.3900", "4.00"]]}


def drop_book(kalshi: KalshiFixture) -> None:
    del kalshi.venue.books[A]


def pass_close(kalshi: KalshiFixture) -> None:
    kalshi.clock.advance_without_waking(200 * 86_400)


@pytest.mark.parametrize(
    ("change", "why"),
    [(close_market, "not open"), (cross_book, "crossed"), (drop_book, "cannot be read"), (pass_close, "not open")],
)
async def test_no_fill_without_an_open_market_and_a_fit_book(
    kalshi: KalshiFixture, change: Callable[[KalshiFixture], None], why: str
) -> None:
    list_market(kalshi)
    question = (await kalshi.questions())[A]
    async with open_paper(kalshi.settings, paper_place(kalshi)) as book:
        change(kalshi)
        receipt = await send(book, "one", a_purchase(12.0, 0.57), question.ref)
        assert (receipt.state, receipt.fills) == (IntentState.REFUSED, ())
        assert why in receipt.detail


def a_purchase(shares: float, limit: float) -> Order:
    return Order(
        contract=A,
        leg=YES,
        side=BUY,
        shares=shares,
        limit=limit,
        cost=shares * 0.6,
        expected=limit,
        currency="USD",
        terms={"event": "KXDEMO-26DEC31", "count": f"{shares:.2f}", "price": f"{limit:.4f}", "book_side": "bid"},
    )
