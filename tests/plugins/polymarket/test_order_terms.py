"""What an order carries survives the ledger unchanged, nothing else is taken for it, and sizes are fine."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import ContractSide, MalformedDataError, Order, OrderSide
from plugins.polymarket.order_books import TICK_SIZES
from plugins.polymarket.order_terms import (
    PolymarketOrderTerms,
    PolymarketOrderType,
    round_to_step,
    round_to_tick,
    size_step,
)
from tests.plugins.polymarket.records import condition, token
from tests.plugins.polymarket.trading_inputs import SCHEDULE, contract, order

CENT = Decimal("0.01")
WAITING: dict[str, Any] = {"kind": PolymarketOrderType.GTD, "lifetime": timedelta(hours=1)}

on_tick = st.sampled_from(TICK_SIZES).flatmap(lambda tick: st.integers(1, int(1 / tick) - 1).map(lambda n: n * tick))


@pytest.mark.parametrize(
    "asked",
    [
        order("12", "0.57"),
        order("12", "0.43", leg=ContractSide.NO, side=OrderSide.SELL, kind=PolymarketOrderType.FOK, cancel=("a", "b")),
        order("20", "0.55", taker_delay_s=Decimal("0.25"), of=contract(version="v2", neg_risk=True), **WAITING),
    ],
)
def test_terms_are_read_back_as_they_were_written(asked: Order) -> None:
    stored = replace(asked, terms=json.loads(json.dumps(dict(asked.terms))))
    terms = PolymarketOrderTerms.from_order(stored)
    assert terms.to_map() == dict(asked.terms)
    assert terms.token == token(1, 0 if asked.leg is ContractSide.YES else 1)
    assert (terms.contract.market, terms.side, terms.leg) == (condition(1), asked.side, asked.leg)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("price", None),
        ("price", "0.58"),
        ("size", "13"),
        ("size", "many"),
        ("tick", None),
        ("mid", None),
        ("held_s", None),
        ("lifetime_s", "soon"),
        ("type", "GTC"),
        ("type", "GTD"),
        ("post_only", True),
        ("post_only", None),
        ("token", token(1, 1)),
        ("market", condition(2)),
        ("yes", None),
        ("fees", {"rate": "0.04"}),
    ],
)
def test_an_order_whose_terms_contradict_it_is_none(name: str, value: Any) -> None:
    asked = order("12", "0.57")
    with pytest.raises(MalformedDataError):
        PolymarketOrderTerms.from_order(replace(asked, terms={**asked.terms, name: value}))


@pytest.mark.parametrize(
    ("size", "price", "more", "why"),
    [
        # The grid goes from a step above nothing to a step below one.
        ("100", "0.01", {}, None),
        ("100", "0.99", {}, None),
        ("100", "0.00", {}, "not on the grid"),
        ("100", "1.00", {}, "not on the grid"),
        ("100", "1.01", {}, "not on the grid"),
        ("100", "0.005", {}, "not on the grid"),
        ("0", "0.50", {"side": OrderSide.SELL}, "more than two decimals"),
        ("-1", "0.50", {"side": OrderSide.SELL}, "more than two decimals"),
        ("0.001", "0.50", {"side": OrderSide.SELL}, "more than two decimals"),
        ("0.01", "0.50", {"side": OrderSide.SELL}, None),
        # A purchase that is matched at once is worth at least a dollar, in whole cents.
        ("2", "0.50", {}, None),
        ("1.98", "0.50", {}, "1 is the minimum"),
        ("2.01", "0.50", {}, "whole cents"),
        # A resting order has at least the size of the book, and three minutes.
        ("5", "0.50", {"kind": PolymarketOrderType.GTD, "lifetime": timedelta(minutes=3)}, None),
        ("4.99", "0.50", {"kind": PolymarketOrderType.GTD, "lifetime": timedelta(minutes=3)}, "5 is the minimum"),
        ("5", "0.50", {"kind": PolymarketOrderType.GTD, "lifetime": timedelta(seconds=179)}, "three minutes"),
    ],
)
def test_the_venue_accepts_prices_and_sizes_up_to_their_bounds(
    size: str, price: str, more: dict[str, Any], why: str | None
) -> None:
    """The bounds are those of docs/facts/polymarket.md#amounts and #orders."""
    terms = PolymarketOrderTerms(
        contract=contract(fees=SCHEDULE),
        leg=ContractSide.YES,
        side=more.get("side", OrderSide.BUY),
        type=more.get("kind", PolymarketOrderType.FAK),
        price=Decimal(price),
        size=Decimal(size),
        tick=CENT,
        mid=Decimal("0.5"),
        lifetime=more.get("lifetime", timedelta()),
        book={},
    )
    found = terms.refusal_reason(tick=CENT, min_size=Decimal(5))
    assert found is None if why is None else why in str(found)


def test_an_order_of_another_venue_is_none() -> None:
    with pytest.raises(MalformedDataError, match="this is not a contract"):
        PolymarketOrderTerms.from_order(replace(order("12", "0.57"), terms={"limit_prob": "0.57"}))


@given(price=on_tick)
def test_pm_s6_sizes_are_as_fine_as_whole_cents_allow(price: Decimal) -> None:
    grain = size_step(price, PolymarketOrderType.FAK)
    assert (price * grain) % CENT == 0
    assert grain % CENT == 0
    hundredths = int(grain / CENT)
    assert all((price * CENT * part) % CENT for part in range(1, hundredths))
    assert size_step(price, PolymarketOrderType.GTD) == CENT


def test_a_price_that_no_grid_has_has_no_sizes() -> None:
    with pytest.raises(ValueError, match="no tick grid is as fine"):
        size_step(Decimal("0.12345"), PolymarketOrderType.FAK)


@pytest.mark.parametrize("cents", range(1, 100))
def test_prices_in_cents_stay_on_the_grid(cents: int) -> None:
    """The float trap of docs/facts/polymarket.md#amounts: 0.29, 0.57 and 0.58 must not become a cent less."""
    price = Decimal(repr(cents / 100))
    assert round_to_tick(price, CENT, OrderSide.BUY) == round_to_tick(price, CENT, OrderSide.SELL) == price


@given(price=st.decimals("0.0001", "0.9999", places=6), tick=st.sampled_from(TICK_SIZES))
def test_a_price_between_two_steps_is_never_made_worse(price: Decimal, tick: Decimal) -> None:
    bought, sold = round_to_tick(price, tick, OrderSide.BUY), round_to_tick(price, tick, OrderSide.SELL)
    assert bought <= price <= sold
    assert sold - bought in {0, tick}
    assert bought % tick == 0


@given(shares=st.decimals("0", "100000", places=6), price=on_tick)
def test_whole_steps_are_never_more(shares: Decimal, price: Decimal) -> None:
    grain = size_step(price, PolymarketOrderType.FAK)
    cut = round_to_step(shares, grain)
    assert 0 <= shares - cut < grain
    assert cut % grain == 0


def test_the_schedule_travels_with_the_order() -> None:
    assert PolymarketOrderTerms.from_order(order("12", "0.57")).contract.fees == SCHEDULE
    assert PolymarketOrderTerms.from_order(order("12", "0.57", of=contract())).contract.fees is None
