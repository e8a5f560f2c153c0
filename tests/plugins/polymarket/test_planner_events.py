"""Orders on events where one outcome wins: which option, which leg, and what is held of the others."""

import json

from bot.api import ChoicePrediction, ContractSide
from tests.plugins.polymarket.records import condition
from tests.plugins.polymarket.test_planner import plan, planned, wants
from tests.plugins.polymarket.trading_inputs import (
    SCHEDULE,
    FakePolymarketReader,
    a_book,
    account,
    contract,
    held,
    question,
)

OPTIONS = {"Ann": contract(1, fees=SCHEDULE), "Bob": contract(2), "Cid": contract(3)}


def race(*prices: tuple[str, str]) -> FakePolymarketReader:
    books = [
        a_book(number, bids=((bid, "500"),), asks=((ask, "500"),)) for number, (bid, ask) in enumerate(prices, start=1)
    ]
    return FakePolymarketReader.of(*books)


async def test_the_option_furthest_from_the_market_is_ordered() -> None:
    venue = race(("0.49", "0.51"), ("0.29", "0.31"), ("0.14", "0.16"))
    beliefs = ChoicePrediction({"Ann": 0.52, "Bob": 0.14, "Cid": 0.30, "Other": 0.04})
    found = await planned(venue, beliefs, about=question(**OPTIONS))
    assert (found.option, found.leg, found.contract) == ("Bob", ContractSide.NO, condition(2)) or (
        found.option,
        found.leg,
        found.contract,
    ) == ("Cid", ContractSide.YES, condition(3))


async def test_the_next_option_is_tried_where_the_best_may_not_be_traded() -> None:
    venue = race(("0.49", "0.51"), ("0.29", "0.31"), ("0.14", "0.16"))
    venue.terms[condition(3)] = {"ao": False}
    beliefs = ChoicePrediction({"Ann": 0.45, "Bob": 0.10, "Cid": 0.45, "Other": 0.0})
    found = await planned(venue, beliefs, about=question(**OPTIONS))
    assert (found.option, found.leg) == ("Bob", ContractSide.NO)


async def test_options_without_a_market_or_a_book_are_left_out() -> None:
    venue = race(("0.49", "0.51"), ("0.29", "0.31"))
    beliefs = ChoicePrediction({"Ann": 0.2, "Bob": 0.3, "Cid": 0.4, "Other": 0.1})
    found = await plan(venue, beliefs, about=question(**OPTIONS))
    assert found.order is not None
    assert (found.order.option, found.order.leg) == ("Ann", ContractSide.NO)
    assert json.loads(found.market_state)["touches"].keys() == {"Bob"}


async def test_where_no_option_can_be_ordered_the_best_one_says_why() -> None:
    venue = race(("0.49", "0.51"), ("0.29", "0.31"), ("0.14", "0.16"))
    for number in (1, 2, 3):
        venue.terms[condition(number)] = {"ao": False}
    beliefs = ChoicePrediction({"Ann": 0.45, "Bob": 0.10, "Cid": 0.45, "Other": 0.0})
    found = await plan(venue, beliefs, about=question(**OPTIONS))
    assert (found.order, found.why) == (None, "Cid: the market accepts no orders now")
    state = json.loads(found.market_state)
    # Its whole book is kept, and the best prices of the others.
    assert (state["option"], state["book"]["hash"]) == ("Cid", "0xbook3")
    prices = {name: (touch["bid"], touch["ask"]) for name, touch in state["touches"].items()}
    assert prices == {"Ann": ("0.49", "0.51"), "Bob": ("0.29", "0.31")}


async def test_an_order_names_its_option_and_a_side_without_offers_has_no_price() -> None:
    venue = race(("0.49", "0.51"), ("0.29", "0.31"), ("0.14", "0.16"))
    venue.put(a_book(2, bids=()))
    venue.put(a_book(3, asks=()))
    beliefs = ChoicePrediction({"Ann": 0.7, "Bob": 0.1, "Cid": 0.1, "Other": 0.1})
    found = await plan(venue, beliefs, about=question(**OPTIONS))
    assert found.why.startswith("buy ")
    assert " yes of Ann at 0.51" in found.why
    prices = {name: (one["bid"], one["ask"]) for name, one in json.loads(found.market_state)["touches"].items()}
    assert prices == {"Bob": (None, "0.57"), "Cid": ("0.55", None)}


async def test_every_option_that_may_not_be_traded_is_named() -> None:
    found = await plan(
        FakePolymarketReader.of(),
        ChoicePrediction({"Ann": 0.5, "Bob": 0.3, "Cid": 0.2, "Other": 0.0}),
        about=question(**OPTIONS),
    )
    assert found.why == "Ann: there is no book; Bob: there is no book; Cid: there is no book"


async def test_shares_of_another_option_count_as_what_they_pay() -> None:
    venue = race(("0.49", "0.51"), ("0.29", "0.31"), ("0.14", "0.16"))
    beliefs = ChoicePrediction({"Ann": 0.50, "Bob": 0.36, "Cid": 0.14, "Other": 0.0})
    bare = await planned(venue, beliefs, about=question(**OPTIONS), sizing=wants(kelly_fraction=0.5))
    has = account(positions=[held(30.0, ContractSide.NO, 1, "Ann")])
    hedged = await planned(venue, beliefs, about=question(**OPTIONS), has=has, sizing=wants(kelly_fraction=0.5))
    assert (bare.option, bare.leg) == (hedged.option, hedged.leg) == ("Bob", ContractSide.YES)
    assert hedged.shares < bare.shares
