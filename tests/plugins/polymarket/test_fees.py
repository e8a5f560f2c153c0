"""Fees against the tables of the venue document (9, 15.4, 15.6) and against the fake venue's own formula."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.api import ContractError, Side
from bot.testing.venues.polymarket_state import Fees as VenueFees
from plugins.polymarket.books import Level
from plugins.polymarket.depth import take
from plugins.polymarket.fees import Fees

CENTS_PER_SHARE = {
    "0.03": ("0.14", "0.27", "0.63", "0.75"),
    "0.04": ("0.19", "0.36", "0.84", "1.00"),
    "0.05": ("0.24", "0.45", "1.05", "1.25"),
    "0.07": ("0.33", "0.63", "1.47", "1.75"),
}
PRICES = ("0.05", "0.10", "0.30", "0.50")
FOUR = Fees(rate=Decimal("0.04"))
ASKS = tuple(Level(Decimal(p), Decimal(s)) for p, s in ((".57", 12), (".58", 30), (".60", 100), (".99", 9000)))

grid = st.integers(1, 9_999).map(lambda n: Decimal(n) / 10_000)
rates = st.integers(0, 999).map(lambda n: Decimal(n) / 10_000)
sizes = st.integers(1, 10_000_000).map(lambda n: Decimal(n) / 100)


@pytest.mark.parametrize(
    ("rate", "price", "cents"),
    [(r, p, c) for r, row in CENTS_PER_SHARE.items() for p, c in zip(PRICES, row, strict=True)],
)
def test_cents_per_share_are_those_of_the_table_on_both_sides(rate: str, price: str, cents: str) -> None:
    fees = Fees(rate=Decimal(rate))
    for p in (Decimal(price), 1 - Decimal(price)):
        assert (fees.per_share(p) * 100).quantize(Decimal("0.01"), ROUND_HALF_UP) == Decimal(cents)


def test_a_fee_is_rounded_half_up_to_five_places() -> None:
    assert FOUR.charged(Decimal("0.57"), Decimal(12)) == Decimal("0.11765")


def test_a_fee_below_the_least_is_nothing() -> None:
    assert FOUR.charged(Decimal("0.5"), Decimal("0.00099")) == 0
    assert FOUR.charged(Decimal("0.5"), Decimal("0.001")) == Decimal("0.00001")


def test_pm_x4_a_null_schedule_is_free_and_an_incomplete_one_is_an_error() -> None:
    assert Fees.of(None).charged(Decimal("0.5"), Decimal(1000)) == 0
    assert Fees.of({"rate": "0.04", "exponent": "1", "takerOnly": True}) == FOUR
    with pytest.raises(ContractError, match="feeSchedule is incomplete"):
        Fees.of({"rate": "0.04"}, "0xabc")


@pytest.mark.parametrize(
    ("price", "order", "fee"),
    [
        ("0.05", "96.3391", "3.6609"),
        ("0.30", "97.2763", "2.7237"),
        ("0.50", "98.0392", "1.9608"),
        ("0.90", "99.6016", "0.3984"),
    ],
)
def test_what_a_budget_of_100_buys_leaves_room_for_its_fee(price: str, order: str, fee: str) -> None:
    spent = Decimal(price) * 100 / FOUR.worst(Decimal(price))
    assert spent.quantize(Decimal("0.0001")) == Decimal(order)
    assert FOUR.charged(Decimal(price), spent / Decimal(price)).quantize(Decimal("0.0001")) == Decimal(fee)


@pytest.mark.parametrize(
    ("dollars", "cap", "row"),
    [
        ("20", ".60", ("34.6897", "0.57654", "0.00", "0.33874", "0.58631")),
        ("20", ".57", ("12.0000", "0.57000", "13.16", "0.11765", "0.57980")),
        ("100", ".60", ("142.0000", "0.59324", "15.76", "1.36997", "0.60289")),
        ("100", "1", ("157.9192", "0.63324", "0.00", "1.37627", "0.64195")),
    ],
)
def test_pm_x3_the_walk_of_a_book(dollars: str, cap: str, row: tuple[str, ...]) -> None:
    """Shares, average price, dollars left, fee, and what a share costs with it."""
    levels = [level for level in ASKS if level.price <= Decimal(cap)]
    taken = take(levels, FOUR, shares=bought_for(Decimal(dollars), levels))
    values = (taken.size, taken.average, Decimal(dollars) - taken.value, taken.fee, taken.net(Side.BUY))
    found = [str(value.quantize(Decimal(text), ROUND_HALF_UP)) for value, text in zip(values, row, strict=True)]
    assert [text.removeprefix("-") for text in found] == list(row)


def bought_for(dollars: Decimal, levels: list[Level]) -> Decimal:
    """As many shares as that buys, the cheapest first, as the table of the document counts them."""
    shares = Decimal(0)
    for price, size in levels:
        part = min(size, dollars / price)
        shares, dollars = shares + part, dollars - part * price
    return shares


@given(price=grid, rate=rates, size=sizes, exponent=st.sampled_from([1, 2, 3]))
def test_the_fake_venue_charges_the_same(price: Decimal, rate: Decimal, size: Decimal, exponent: int) -> None:
    ours = Fees(rate=rate, exponent=Decimal(exponent)).charged(price, size)
    assert ours == VenueFees(rate=rate, exponent=Decimal(exponent)).of(price, size)


@example(limit=Decimal("0.9999"), price=Decimal("0.9998"), rate=Decimal("0.09"), exponent="0.5")
@given(limit=grid, price=grid, rate=rates, exponent=st.sampled_from(["0", "0.5", "1", "1.5", "2", "4"]))
def test_nothing_within_a_limit_costs_more_than_the_worst(
    limit: Decimal, price: Decimal, rate: Decimal, exponent: str
) -> None:
    fees = Fees(rate=rate, exponent=Decimal(exponent))
    low, high = sorted((limit, price))
    assert low + fees.per_share(low) <= fees.worst(high) + Decimal("1e-20")
