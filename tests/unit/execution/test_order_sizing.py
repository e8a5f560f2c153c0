"""Sizing on an order book, against an optimiser of another library and against amounts that a person can check."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from scipy.optimize import minimize_scalar

from bot.core.errors import MalformedDataError, RequestRejectedError
from bot.core.orders import Account, ClosingProposal, ContractSide, OrderSide, Position, SizingPolicy, TradeProposal
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    Prediction,
)
from bot.core.questions import Question, QuestionRef, Target
from bot.execution.book_planner import ContractQuote, OrderBookPlanner
from bot.execution.order_book import OrderBook, ShareFees
from bot.execution.order_sizing import ContractMarket, OrderSizer, SizedOrder, size_closing_sale

YES, NO, BUY, SELL = ContractSide.YES, ContractSide.NO, OrderSide.BUY, OrderSide.SELL
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EAGER = SizingPolicy(kelly_fraction=1.0, market_shrinkage=0.0, min_edge=0.0, price_band=(0.01, 0.99), max_cost=1e9)
# Two cents a share, whatever the price.
FLAT = ShareFees(formula=lambda _price: Decimal("0.02"))


def levels(*rows: str) -> list[tuple[Decimal, Decimal]]:
    """Return levels from texts such as "0.55 x 20"."""
    return [(Decimal(price), Decimal(size)) for price, _, size in (row.split() for row in rows)]


def book(bids: str = "0.50 x 1000", asks: str = "0.52 x 1000") -> OrderBook:
    return OrderBook.from_levels("ferry", bids=levels(*bids.split(", ")), asks=levels(*asks.split(", ")))


def market(**changes: Any) -> ContractMarket:
    fields: dict[str, Any] = {
        "contract": "ferry",
        "book": book(),
        "fees": ShareFees(),
        "tick": Decimal("0.01"),
        "lot": Decimal(1),
    }
    return ContractMarket(**(fields | changes))


def proposal(prediction: Prediction | float, *, cash: float = 100.0, **changes: Any) -> TradeProposal:
    is_choice = isinstance(prediction, ChoicePrediction)
    return TradeProposal(
        question=Question(
            ref=QuestionRef("harbour", "race"),
            title="?",
            shape=ChoiceShape(options=("Ann", "Bob")) if is_choice else BinaryShape(),
            targets=(Target(),),
        ),
        predictions={"outcome": BinaryPrediction(prediction) if isinstance(prediction, float) else prediction},
        account=Account(at=NOW, currency="SHELL", cash=cash, positions=changes.pop("positions", ())),
        sizing=replace(EAGER, **changes),
        now=NOW,
    )


def size(belief: float, of: ContractMarket | None = None, **changes: Any) -> SizedOrder | str:
    found = of or market()
    price = float(found.book.mid or 0)
    return OrderSizer(proposal(belief, **changes), {"": "ferry"}).size_order(found, {"": price})


def sized(belief: float, of: ContractMarket | None = None, **changes: Any) -> SizedOrder:
    found = size(belief, of, **changes)
    assert isinstance(found, SizedOrder), found
    return found


@pytest.mark.parametrize(("belief", "leg", "price"), [(0.7, YES, 0.52), (0.3, NO, 0.50)])
def test_a_size_is_that_of_most_growth(belief: float, leg: ContractSide, price: float) -> None:
    worth = belief if leg is YES else 1 - belief
    cost = price + 0.02

    def loss(shares: float) -> float:
        return -(worth * math.log(100 + shares * (1 - cost)) + (1 - worth) * math.log(100 - shares * cost))

    best = minimize_scalar(loss, bounds=(0, 99 / cost), method="bounded", options={"xatol": 1e-9}).x
    found = sized(belief, market(fees=FLAT, lot=Decimal("0.01")))
    assert (found.leg, found.side, float(found.limit)) == (leg, BUY, price)
    assert float(found.size) == pytest.approx(best, abs=0.011)
    # Its fee is rounded up to the next cent.
    assert float(found.edge) == pytest.approx(worth - cost, abs=0.01 / float(found.size))


def test_each_level_is_taken_as_far_as_it_gains_after_fees() -> None:
    deep = market(book=book(asks="0.52 x 10, 0.60 x 10, 0.69 x 1000"), fees=FLAT)
    found = sized(0.70, deep, cash=1000.0)
    # 0.69 costs 0.71 with its fee.
    assert (found.size, found.limit, found.fee) == (Decimal(20), Decimal("0.60"), Decimal("0.40"))
    assert found.expected == Decimal("0.56")
    # At the limit, 20 shares cost 0.62 each, and each of two fees may be rounded up by a cent.
    assert found.cost == Decimal("12.42")


def test_whole_lots_are_bought_and_no_cap_is_exceeded() -> None:
    found = sized(0.9, market(fees=FLAT, lot=Decimal(5)), max_cost=10.0)
    # 18 shares of 0.54 cost 9.72.
    assert (found.size, found.cost) == (Decimal(15), Decimal("8.11"))
    assert sized(0.9, market(), max_cost=5.2).cost == Decimal("5.20")


@pytest.mark.parametrize(
    ("changes", "of", "why"),
    [
        ({"price_band": (0.1, 0.5)}, {}, "outside the band 0.1 to 0.5"),
        ({"min_edge": 0.4}, {}, "a gain of less than 0.4"),
        ({"max_cost": 0.3}, {}, "0.30 may be spent, less than the minimum order"),
        ({"max_cost": 5.0}, {"min_purchase": Decimal(6)}, "less than the minimum order"),
        ({"cash": 0.0}, {}, "the held shares are enough"),
        ({}, {"objection": "it is paused"}, "it is paused"),
        ({}, {"tick": Decimal("0.05")}, "0.52 is not a price that the market takes"),
    ],
)
def test_caps_bounds_and_minimums_are_reasons(changes: dict[str, Any], of: dict[str, Any], why: str) -> None:
    found = size(0.8, market(**of), **changes)
    assert isinstance(found, str)
    assert why in found


def held(leg: ContractSide, shares: float) -> Position:
    return Position(contract="ferry", leg=leg, shares=shares, paid=shares / 2)


def test_planning_again_with_what_was_bought_plans_nothing() -> None:
    part: dict[str, Any] = {"kelly_fraction": 0.5}
    first = sized(0.8, **part)
    cost = float(first.size * first.expected)
    again = size(0.8, positions=(held(YES, float(first.size)),), cash=100.0 - cost, **part)
    assert isinstance(again, str) or again.size <= 1


@pytest.mark.parametrize(
    ("belief", "leg", "limit"),
    # A share of YES brings 0.50, one of NO 1 - 0.52.
    [(0.3, YES, "0.50"), (0.7, NO, "0.48")],
)
def test_shares_held_against_the_belief_are_sold_first(belief: float, leg: ContractSide, limit: str) -> None:
    found = sized(belief, positions=(held(leg, 30.0),), cash=0.0)
    assert (found.leg, found.side, found.size, found.limit, found.cost) == (
        *(leg, SELL),
        *(Decimal(30), Decimal(limit), Decimal(0)),
    )
    assert found.buys_yes is (leg is NO)
    assert found.yes_price == Decimal("0.50" if leg is YES else "0.52")


def test_nothing_is_sold_below_its_worth() -> None:
    found = size(0.505, positions=(held(YES, 30.0),))
    assert found == "30.00 yes are held, but selling brings less than their worth of 0.505"
    few = market(min_sale=Decimal(40))
    assert sized(0.2, few, positions=(held(YES, 30.0),)).side is BUY


def test_a_position_is_closed_at_any_price() -> None:
    deep = market(book=book(bids="0.50 x 20, 0.10 x 5"), fees=FLAT)
    found = size_closing_sale(deep, held(YES, 30.0))
    assert isinstance(found, SizedOrder)
    assert (found.size, found.limit, found.fee, found.edge) == tuple(
        Decimal(one) for one in ("25", "0.10", "0.50", "0")
    )
    assert size_closing_sale(market(objection="it is paused"), held(YES, 1.0)) == "it is paused"


@pytest.mark.parametrize("belief", [0.45, 0.35])
def test_a_sale_is_that_of_most_growth_after_fees(belief: float) -> None:
    net = 0.50 - 0.02

    def loss(shares: float) -> float:
        return -(belief * math.log(150 - shares + shares * net) + (1 - belief) * math.log(50 + shares * net))

    best = minimize_scalar(loss, bounds=(0, 100), method="bounded", options={"xatol": 1e-9}).x
    of = market(book=book(bids="0.50 x 1000"), fees=FLAT, lot=Decimal("0.01"))
    found = sized(belief, of, positions=(held(YES, 100.0),), cash=50.0)
    assert (found.side, found.leg) == (SELL, YES)
    assert float(found.size) == pytest.approx(best, abs=0.011)
    assert float(found.edge) == pytest.approx(net - belief, abs=0.01 / float(found.size))


def test_shares_are_sold_at_their_worth_and_not_below_after_the_fee() -> None:
    of, mine = market(fees=FLAT), {"positions": (held(YES, 30.0),), "cash": 0.0}
    found = sized(0.48, of, **mine)
    # 0.50 less a fee of 0.02 is what they are worth.
    assert (found.side, found.size, found.fee, found.edge) == (SELL, Decimal(30), Decimal("0.60"), Decimal(0))
    assert "selling brings less than their worth of 0.490" in str(size(0.49, of, **mine))


def test_any_share_against_the_belief_is_sold_from_the_least_sale_on() -> None:
    of, mine = market(lot=Decimal("0.01")), {"positions": (held(NO, 0.5),)}
    assert (sized(0.9, of, **mine).side, sized(0.9, of, **mine).size) == (SELL, Decimal("0.50"))
    few = market(min_sale=Decimal(30), min_purchase=Decimal(1000))
    assert sized(0.2, few, positions=(held(YES, 30.0),)).side is SELL
    # The least purchase is none of a sale.
    assert sized(0.2, market(), positions=(held(YES, 1.0),)).size == 1


def test_a_position_that_cannot_be_closed_says_why() -> None:
    empty = market(book=OrderBook(bids=(), asks=book().asks))
    assert size_closing_sale(empty, held(YES, 30.0)) == "there are no bids for yes"
    assert size_closing_sale(market(lot=Decimal(40)), held(YES, 30.0)) == "30.0000 yes are held, less than can be sold"


def test_bounds_themselves_are_within_the_bounds() -> None:
    assert sized(0.8, price_band=(0.52, 0.99)).limit == Decimal("0.52")
    assert sized(0.8, price_band=(0.10, 0.52)).limit == Decimal("0.52")
    # A gain of 0.20 is the least that is wanted.
    assert sized(0.72, min_edge=0.2).edge == Decimal("0.20")
    assert sized(0.9, market(min_purchase=Decimal("5.20")), max_cost=5.2).size == 10
    assert sized(0.9, max_cost=0.6).size == 1


def test_levels_without_the_least_gain_are_left_and_the_fee_is_no_gain() -> None:
    deep = market(book=book(asks="0.52 x 10, 0.60 x 10"))
    assert sized(0.70, deep, min_edge=0.15).size == 10
    # 0.70 - 0.52 - 0.02 is 0.16.
    assert sized(0.70, market(fees=FLAT), min_edge=0.16).side is BUY
    assert "yes costs 0.5400 with fees and is worth 0.7000" in str(size(0.70, market(fees=FLAT), min_edge=0.17))


def test_less_than_a_share_can_be_wanted_and_fees_stay_within_the_cap() -> None:
    little = sized(0.6, market(lot=Decimal("0.01")), cash=1.0)
    # The growth is greatest with (0.6 - 0.52) / 0.48 of the cash at stake.
    assert little.size == Decimal("0.32")
    full = sized(0.9, market(fees=FLAT, lot=Decimal("0.01")), max_cost=10.0)
    assert Decimal("9.9") < full.cost <= 10


def test_of_equal_sizes_the_better_limit_is_taken() -> None:
    # 5 shares at each limit: 3.20 are 6 shares of 0.52 and 5.3 of 0.60.
    of = market(book=book(asks="0.52 x 6, 0.60 x 10"), lot=Decimal(5))
    assert (sized(0.9, of, max_cost=3.2).size, sized(0.9, of, max_cost=3.2).limit) == (Decimal(5), Decimal("0.52"))


def test_steps_may_depend_on_the_price() -> None:
    def tick(yes: Decimal) -> Decimal:
        return Decimal("0.01") if yes > Decimal("0.5") else Decimal("0.05")

    def lot(price: Decimal, side: OrderSide) -> Decimal:
        return Decimal(7) if (price, side) == (Decimal("0.52"), BUY) else Decimal(1)

    assert sized(0.8, market(tick=tick, lot=lot), max_cost=5.2).size == 7
    low = market(book=book(bids="0.41 x 9", asks="0.42 x 9"), tick=tick)
    assert size(0.8, low) == "0.42 is not a price that the market takes"


def test_a_book_with_two_levels_of_one_price_is_refused() -> None:
    one, two = book(), book(bids="0.50 x 1", asks="0.52 x 1")
    for doubled in (
        OrderBook(bids=one.bids + two.bids, asks=one.asks),
        OrderBook(bids=one.bids, asks=one.asks + two.asks),
    ):
        with pytest.raises(ValueError, match="not best first"):
            market(book=doubled)


def test_only_the_other_leg_of_the_same_contract_is_held_against_the_belief() -> None:
    sizer = OrderSizer(
        proposal(ChoicePrediction({"Ann": 0.6, "Bob": 0.4}), positions=(held(NO, 5.0),)),
        {"Ann": "ferry", "Bob": "barge"},
    )
    # Bob is further from its price, but the shares are against Ann.
    assert sizer.rank_options({"Ann": 0.55, "Bob": 0.2}) == ["Ann", "Bob"]
    assert sizer.rank_options({"Ann": 0.65, "Bob": 0.2}) == ["Bob", "Ann"]


def test_one_more_option_is_tried_for_each_that_is_held_against() -> None:
    names = ("Ann", "Bob", "Cid", "Dan", "Eve")
    beliefs = ChoicePrediction(dict(zip(names, (0.4, 0.3, 0.1, 0.1, 0.1), strict=True)))
    contracts = {name: name.lower() for name in names}
    prices = dict.fromkeys(names, 0.2)
    assert len(OrderSizer(proposal(beliefs), contracts).rank_options(prices)) == 3
    mine = (Position(contract="bob", leg=NO, shares=5.0, paid=2.0),)
    assert OrderSizer(proposal(beliefs, positions=mine), contracts).rank_options(prices)[0] == "Bob"
    assert len(OrderSizer(proposal(beliefs, positions=mine), contracts).rank_options(prices)) == 4


def test_of_several_options_those_held_against_come_first_and_then_the_furthest() -> None:
    beliefs = ChoicePrediction({"Ann": 0.6, "Bob": 0.4})
    prices = {"Ann": 0.5, "Bob": 0.45}
    contracts = {"Ann": "ferry", "Bob": "barge"}
    assert OrderSizer(proposal(beliefs), contracts).rank_options(prices) == ["Ann", "Bob"]
    mine = (Position(contract="barge", leg=YES, shares=5.0, paid=2.0),)
    assert OrderSizer(proposal(beliefs, positions=mine), contracts).rank_options(prices) == ["Bob", "Ann"]


def test_a_curve_has_no_options() -> None:
    with pytest.raises(RequestRejectedError, match="takes a curve"):
        OrderSizer(proposal(CurvePrediction((0.0, 0.5, 1.0))), {"": "ferry"})


@pytest.mark.parametrize(("price", "shares"), [("55", "1"), ("1", "1"), ("0", "1"), ("0.5", "-1")])
def test_prices_in_cents_and_negative_sizes_name_the_contract(price: str, shares: str) -> None:
    with pytest.raises(MalformedDataError, match="ferry: a bid of"):
        OrderBook.from_levels("ferry", bids=[(Decimal(price), Decimal(shares))], asks=[])


def test_levels_are_sorted_and_added() -> None:
    found = book(bids="0.40 x 1, 0.45 x 2, 0.40 x 3", asks="0.60 x 1, 0.55 x 0, 0.50 x 1")
    assert found.bids == tuple(levels("0.45 x 2", "0.40 x 4"))
    assert found.levels(NO, BUY) == tuple(levels("0.55 x 2", "0.60 x 4"))
    assert found.levels(NO, SELL) == tuple(levels("0.50 x 1", "0.40 x 1"))


@pytest.mark.parametrize("changes", [{"tick": Decimal(0)}, {"lot": Decimal(-1)}])
def test_a_market_without_steps_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a step is above 0"):
        market(**changes)


def test_a_book_that_is_not_sorted_is_refused() -> None:
    unsorted = OrderBook(bids=book().bids, asks=book(asks="0.52 x 1, 0.53 x 1").asks[::-1])
    with pytest.raises(ValueError, match="not best first"):
        market(book=unsorted)


# The planner


def planner(*markets: ContractMarket, **changes: Any) -> OrderBookPlanner:
    async def read_quotes(_question: Question) -> list[ContractQuote]:
        return [ContractQuote.from_market(one) for one in markets]

    settings: dict[str, Any] = {"currency": "SHELL", "max_spread": Decimal("0.1")}
    return OrderBookPlanner(read_quotes, **(settings | changes))


async def test_a_planner_is_quotes_and_terms() -> None:
    made = planner(market(), order_terms=lambda found, order: {"id": found.contract, "price": str(order.yes_price)})
    plan = await made.plan_order(proposal(0.3))
    assert plan.order is not None
    assert plan.why == f"buy {plan.order.shares:g} no of ferry at 0.5000, limit 0.5, edge 0.2000 per share after fees"
    assert (plan.order.currency, plan.order.terms) == ("SHELL", {"id": "ferry", "price": "0.50"})
    assert '"asks":[["0.52","1000"]]' in plan.market_state


async def test_a_plan_says_what_the_venue_takes_at_least() -> None:
    assert (await planner(market(min_purchase=Decimal(2))).plan_order(proposal(0.3))).min_cost == 2.0


async def test_the_next_option_is_tried_if_the_first_may_not_be_traded() -> None:
    markets = [market(option="Ann"), market(option="Bob", contract="barge", objection="it is paused")]
    beliefs = proposal(ChoicePrediction({"Ann": 0.8, "Bob": 0.2}))
    plan = await planner(*markets).plan_order(beliefs)
    assert plan.order is not None
    assert (plan.order.option, plan.order.contract, plan.order.leg) == ("Ann", "ferry", YES)
    wide = await planner(*markets, max_spread=Decimal("0.01")).plan_order(beliefs)
    assert wide.why == "Bob: the book is too wide: 0.50 is bid, 0.52 asked"


async def test_without_prices_there_is_a_reason() -> None:
    empty = market(book=OrderBook(bids=book().bids, asks=()))
    assert (await planner(empty).plan_order(proposal(0.9))).why == "its book has not two sides"
    assert "no market of it" in (await planner().plan_order(proposal(0.9))).why


async def test_an_option_is_sized_at_the_price_of_the_book_just_read() -> None:
    async def read_market() -> ContractMarket:
        return market()

    async def read_quotes(_question: Question) -> list[ContractQuote]:
        return [ContractQuote(contract="ferry", price=0.9, read_market=read_market)]

    stale = OrderBookPlanner(read_quotes, currency="SHELL", max_spread=Decimal("0.1"))
    plan = await stale.plan_order(proposal(0.7))
    assert plan.order is not None
    assert plan.order.leg is YES


async def test_a_book_that_lost_a_side_since_the_quote_is_a_reason() -> None:
    async def read_market() -> ContractMarket:
        return market(book=OrderBook(bids=book().bids, asks=()), contract="fähre")

    async def read_quotes(_question: Question) -> list[ContractQuote]:
        return [ContractQuote(contract="fähre", price=0.5, read_market=read_market)]

    plan = await OrderBookPlanner(read_quotes, currency="SHELL", max_spread=Decimal("0.1")).plan_order(proposal(0.7))
    assert plan.why == "fähre: the book has no asks"
    assert '"contract":"fähre"' in plan.market_state


async def test_each_option_without_a_price_is_named() -> None:
    empty = OrderBook(bids=book().bids, asks=())
    markets = [market(option=name, contract=name, book=empty) for name in ("Ann", "Bob")]
    plan = await planner(*markets).plan_order(proposal(ChoicePrediction({"Ann": 0.8, "Bob": 0.2})))
    assert plan.why == "Ann: its book has not two sides; Bob: its book has not two sides"
    assert ContractQuote.from_market(market()).why == ""


async def test_a_planner_closes_what_is_held_and_refuses_other_contracts() -> None:
    asked = proposal(0.5)
    closing = ClosingProposal(question=asked.question, position=held(NO, 7.0), account=asked.account, now=NOW)
    order = (await planner(market()).plan_closing(closing)).order
    assert order is not None
    assert (order.side, order.leg, order.shares, order.limit, order.cost) == (SELL, NO, 7.0, 0.48, 0.0)
    with pytest.raises(RequestRejectedError, match="has no market ferry"):
        await planner(market(contract="barge")).plan_closing(closing)
