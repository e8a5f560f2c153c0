"""Fees and books against the published formula and the vectors of docs/facts/kalshi.md#fee-figures and #books."""

from decimal import Decimal
from typing import Any

import pytest

from bot.api import BookLevel, ContractSide, MalformedDataError, OrderSide, RequestRejectedError, walk_levels
from plugins.kalshi.market_parser import KalshiFeeTerms, PriceRange
from plugins.kalshi.order_books import fee_rate, is_on_grid, parse_book, taker_fees
from tests.plugins.kalshi.records import BOOK, WALK_BOOK

YES, NO = ContractSide.YES, ContractSide.NO
RATE = Decimal("0.07")


@pytest.mark.parametrize(
    ("count", "price", "multiplier", "fee"),
    [
        # Both were charged so on recorded fills.
        ("1", "0.52", "1", "0.0175"),
        ("1", "0.99", "1", "0.0007"),
        ("100", "0.50", "1", "1.7500"),
        ("100", "0.50", "0.5", "0.8750"),
        ("4", "0.80", "1", "0.0448"),
        ("3", "0.055", "1", "0.0110"),
        ("0.90", "0.50", "1", "0.0158"),
        ("250", "0.123", "1", "1.8878"),
        ("100", "0.50", "0", "0.0000"),
    ],
)
def test_fees_are_those_of_the_formula(count: str, price: str, multiplier: str, fee: str) -> None:
    rate = fee_rate(KalshiFeeTerms(type="quadratic", multiplier=Decimal(multiplier)))
    assert taker_fees(rate).fee_for(Decimal(price), Decimal(count)) == Decimal(fee)


@pytest.mark.parametrize(("kind", "multiplier"), [("flat", Decimal(1)), ("", Decimal(1)), ("quadratic", None)])
def test_without_a_known_formula_nothing_is_traded(kind: str, multiplier: Decimal | None) -> None:
    with pytest.raises(RequestRejectedError, match="fees are unknown"):
        fee_rate(KalshiFeeTerms(type=kind, multiplier=multiplier))


def levels(*rows: tuple[str, str]) -> list[list[str]]:
    return [list(row) for row in rows]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_best_prices_are_the_highest_bids_in_any_order(is_reversed: bool) -> None:  # noqa: FBT001 - a case
    record = {name: rows[::-1] if is_reversed else rows for name, rows in BOOK.items()}
    book = parse_book(record, "T")
    assert book.levels(YES, OrderSide.SELL)[0] == BookLevel(Decimal("0.47"), Decimal(3))
    assert book.levels(YES, OrderSide.BUY) == (
        BookLevel(Decimal("0.52"), Decimal(3)),
        BookLevel(Decimal("0.53"), Decimal(10)),
    )
    assert book.levels(NO, OrderSide.BUY)[0] == BookLevel(Decimal("0.53"), Decimal(3))
    assert book.mid == Decimal("0.495")


@pytest.mark.parametrize(
    ("yes", "no", "why"),
    [
        ((("0.99", "5"),), (), "no asks"),
        ((), (), "no bids"),
        ((("0.62", "10"),), (("0.39", "4"),), "crossed"),
        ((("0.20", "10"),), (("0.39", "4"),), "too wide"),
    ],
)
def test_books_that_are_not_traded_on(yes: Any, no: Any, why: str) -> None:
    book = parse_book({"yes_dollars": levels(*yes), "no_dollars": levels(*no)}, "T")
    assert why in (book.unusable_reason(Decimal("0.1")) or "")


@pytest.mark.parametrize(
    "row", [[0.46, "1.00"], ["0.46", 1], ["1.00", "1.00"], ["0.46", "-1"], ["0.46"], "x", ["", ""]]
)
def test_a_level_in_another_form_is_refused(row: Any) -> None:
    with pytest.raises(MalformedDataError):
        parse_book({"yes_dollars": [row], "no_dollars": []}, "T")


@pytest.mark.parametrize(
    ("count", "limit", "filled", "cost", "fee"),
    [
        ("20", "0.57", "12", "6.84", "0.2059"),
        ("20", "0.58", "20", "11.48", "0.3424"),
        ("100", "0.60", "100", "59.04", "1.6919"),
        ("200", "0.99", "200", "141.66", "2.4377"),
    ],
)
def test_a_walk_takes_level_by_level(count: str, limit: str, filled: str, cost: str, fee: str) -> None:
    asks = [one for one in parse_book(WALK_BOOK, "T").levels(YES, OrderSide.BUY) if one.price <= Decimal(limit)]
    walk = walk_levels(asks, taker_fees(RATE), shares=Decimal(count))
    assert (walk.size, walk.value, walk.fee) == (Decimal(filled), Decimal(cost), Decimal(fee))


def test_prices_are_on_the_grid_of_their_range() -> None:
    cent, tenth = Decimal("0.01"), Decimal("0.001")
    ranges = (
        PriceRange(start=Decimal(0), end=Decimal("0.10"), step=tenth),
        PriceRange(start=Decimal("0.10"), end=Decimal(1), step=cent),
    )
    assert [is_on_grid(Decimal(price), ranges) for price in ("0.035", "0.52", "0.525")] == [True, True, False]
    # Both ends belong to a range, and its steps begin at its start.
    odd = (PriceRange(start=Decimal("0.01"), end=Decimal("0.97"), step=Decimal("0.03")),)
    prices = ("0.00", "0.01", "0.03", "0.04", "0.97", "1.00")
    assert [is_on_grid(Decimal(price), odd) for price in prices] == [False, True, False, True, True, False]
