"""The book of a token: the venue's form of it, the order of its levels, and the mirror of NO."""

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import BookLevel, MalformedDataError
from plugins.polymarket.order_books import PolymarketOrderBook, parse_book, parse_levels
from tests.plugins.polymarket.records import T1, T2, book

PRICES = st.integers(1, 999).map(lambda number: Decimal(number) / 1000)
SIDES = st.dictionaries(PRICES, st.decimals("0.01", 10**6, places=2), max_size=30)


def said(side: dict[Decimal, Decimal]) -> list[dict[str, str]]:
    return [{"price": str(price), "size": str(size)} for price, size in side.items()]


def test_pm_r4_best_bid_and_best_ask_are_the_last_of_their_arrays() -> None:
    raw = book(T1)
    found = parse_book(raw)
    assert (found.bids[0], found.asks[0]) == (
        BookLevel(Decimal("0.36"), Decimal(120)),
        (Decimal("0.38"), Decimal("30.25")),
    )
    assert str(found.best_bid) == raw["bids"][-1]["price"]
    assert str(found.best_ask) == raw["asks"][-1]["price"]


@given(SIDES, SIDES, st.randoms())
def test_pm_r4_shuffled_arrays_give_the_same_book(
    bids: dict[Decimal, Decimal], asks: dict[Decimal, Decimal], chance: random.Random
) -> None:
    raw = book(T1, bids=said(bids), asks=said(asks))
    chance.shuffle(raw["bids"])
    chance.shuffle(raw["asks"])
    found = parse_book(raw)
    assert found.best_bid == (max(bids) if bids else None)
    assert found.best_ask == (min(asks) if asks else None)
    assert dict(found.bids) == bids
    assert dict(found.asks) == asks


def test_pm_r6_no_is_the_mirror_of_yes() -> None:
    """docs/facts/polymarket.md#parsing-figures: YES bid .56 x 10 is NO ask .44 x 10."""
    yes = parse_book(book(T1, bids=[{"price": "0.56", "size": "10"}], asks=[{"price": "0.58", "size": "4"}]))
    no = yes.mirrored(T2)
    assert no.asks == ((Decimal("0.44"), Decimal(10)),)
    assert no.bids == ((Decimal("0.42"), Decimal(4)),)
    assert no.token == T2


@given(SIDES, SIDES)
def test_pm_r6_mirrored_twice_is_the_same_pool(bids: dict[Decimal, Decimal], asks: dict[Decimal, Decimal]) -> None:
    yes = parse_book(book(T1, bids=said(bids), asks=said(asks)))
    assert yes.mirrored(T2).mirrored(T1) == yes
    assert sum(size for _, size in yes.mirrored(T2).asks) == sum(bids.values())


def test_pm_r6_the_last_trade_is_in_terms_of_yes_in_both_books() -> None:
    yes = parse_book(book(T1, last_trade_price="0.370"))
    assert yes.mirrored(T2).last_trade == yes.last_trade == Decimal("0.37")


def test_a_book_says_tick_least_size_and_moment() -> None:
    found = parse_book(book(T1, tick_size="0.001", min_order_size="15", timestamp="1767225600123", neg_risk=True))
    assert (found.tick, found.min_size, found.neg_risk) == (Decimal("0.001"), Decimal(15), True)
    assert found.at.isoformat() == "2026-01-01T00:00:00.123000+00:00"


@pytest.mark.parametrize(
    ("bid", "ask", "mid", "crossed"),
    [
        ("0.36", "0.38", "0.37", False),
        ("0.38", "0.38", None, True),
        (None, "0.38", None, False),
        ("0.4", None, None, False),
    ],
)
def test_only_a_book_of_two_sides_that_do_not_cross_has_a_middle(
    bid: str | None, ask: str | None, mid: str | None, *, crossed: bool
) -> None:
    found = parse_book(book(T1, bid, ask))
    assert found.mid == (None if mid is None else Decimal(mid))
    assert found.is_crossed is crossed
    assert (found.spread is None) == (bid is None or ask is None)


@pytest.mark.parametrize(
    "changes",
    [
        {"asset_id": ""},
        {"timestamp": "soon"},
        {"tick_size": "wide"},
        {"bids": [{"price": "1", "size": "5"}]},
        {"asks": [{"price": "0.5", "size": "-5"}]},
        {"asks": [{"price": "NaN", "size": "5"}]},
        {"asks": [["0.5"]]},
        {"bids": "none"},
    ],
)
def test_a_book_of_another_form_is_refused_whole(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedDataError):
        parse_book(book(T1, **changes))


def test_empty_levels_and_empty_sides_are_no_levels() -> None:
    assert parse_levels([{"price": "0.5", "size": "0"}, {"price": "0.4", "size": "1"}], highest_first=True) == (
        (Decimal("0.4"), Decimal(1)),
    )
    assert parse_levels(None, highest_first=True) == ()


@given(bids=SIDES, asks=SIDES, tick=st.sampled_from(["0.1", "0.01", "0.0025"]), neg_risk=st.booleans())
def test_a_book_comes_back_from_its_json_digit_by_digit(
    bids: dict[Decimal, Decimal], asks: dict[Decimal, Decimal], tick: str, *, neg_risk: bool
) -> None:
    found = parse_book(book(T1, bids=said(bids), asks=said(asks), tick_size=tick, neg_risk=neg_risk))
    text = found.to_json()
    assert PolymarketOrderBook.from_json(text) == found
    assert all(isinstance(part, str) for level in json.loads(text)["bids"] for part in level)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"token": "1"}', "[" * 100_000])
def test_other_json_is_no_book(text: str) -> None:
    with pytest.raises(MalformedDataError):
        PolymarketOrderBook.from_json(text)
