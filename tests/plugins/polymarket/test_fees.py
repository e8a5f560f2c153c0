"""Fees against docs/facts/polymarket.md#fees, #fee-figures and #fill-figures, and the fake venue's formula."""

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.api import (
    BookLevel,
    KellyBankroll,
    MalformedDataError,
    OrderSide,
    ShareOffer,
    kelly_shares,
    payoff_scenarios,
    walk_levels,
)
from bot.simulator.venues.polymarket_state import FakeFeeSchedule as VenueFees
from plugins.polymarket.fees import TakerFees, order_fees
from plugins.polymarket.order_terms import PolymarketOrderType
from tests.plugins.polymarket import trading_inputs

CENTS_PER_SHARE = {
    "0.03": ("0.14", "0.27", "0.63", "0.75"),
    "0.04": ("0.19", "0.36", "0.84", "1.00"),
    "0.05": ("0.24", "0.45", "1.05", "1.25"),
    "0.07": ("0.33", "0.63", "1.47", "1.75"),
}
PRICES = ("0.05", "0.10", "0.30", "0.50")
FOUR = TakerFees(rate=Decimal("0.04"))
ASKS = tuple(BookLevel(Decimal(p), Decimal(s)) for p, s in ((".57", 12), (".58", 30), (".60", 100), (".99", 9000)))

grid = st.integers(1, 9_999).map(lambda n: Decimal(n) / 10_000)
rates = st.integers(0, 999).map(lambda n: Decimal(n) / 10_000)
sizes = st.integers(1, 10_000_000).map(lambda n: Decimal(n) / 100)


@pytest.mark.parametrize(
    ("rate", "price", "cents"),
    [(r, p, c) for r, row in CENTS_PER_SHARE.items() for p, c in zip(PRICES, row, strict=True)],
)
def test_cents_per_share_are_those_of_the_table_on_both_sides(rate: str, price: str, cents: str) -> None:
    fees = TakerFees(rate=Decimal(rate))
    for p in (Decimal(price), 1 - Decimal(price)):
        assert (fees.per_share(p) * 100).quantize(Decimal("0.01"), ROUND_HALF_UP) == Decimal(cents)


def test_a_fee_is_rounded_half_up_to_five_places() -> None:
    assert FOUR.fee_for(Decimal("0.57"), Decimal(12)) == Decimal("0.11765")


def test_a_fee_below_the_least_is_nothing() -> None:
    assert FOUR.fee_for(Decimal("0.5"), Decimal("0.00099")) == 0
    assert FOUR.fee_for(Decimal("0.5"), Decimal("0.001")) == Decimal("0.00001")


def test_pm_x4_a_null_schedule_is_free_and_an_incomplete_one_is_an_error() -> None:
    assert TakerFees.from_schedule(None).fee_for(Decimal("0.5"), Decimal(1000)) == 0
    assert TakerFees.from_schedule({"rate": "0.04", "exponent": "1", "takerOnly": True}) == FOUR
    with pytest.raises(MalformedDataError, match="feeSchedule is incomplete"):
        TakerFees.from_schedule({"rate": "0.04"}, "0xabc")


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
    spent = Decimal(price) * 100 / (Decimal(price) + FOUR.per_share(Decimal(price)))
    assert spent.quantize(Decimal("0.0001")) == Decimal(order)
    assert FOUR.fee_for(Decimal(price), spent / Decimal(price)).quantize(Decimal("0.0001")) == Decimal(fee)


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
    walked = walk_levels(levels, FOUR, shares=bought_for(Decimal(dollars), levels))
    values = (
        walked.size,
        walked.average_price,
        Decimal(dollars) - walked.value,
        walked.fee,
        walked.average_price_with_fee(OrderSide.BUY),
    )
    found = [str(value.quantize(Decimal(text), ROUND_HALF_UP)) for value, text in zip(values, row, strict=True)]
    assert [text.removeprefix("-") for text in found] == list(row)


def bought_for(dollars: Decimal, levels: list[BookLevel]) -> Decimal:
    """As many shares as that buys, the cheapest first, as the table of the document counts them."""
    shares = Decimal(0)
    for price, size in levels:
        part = min(size, dollars / price)
        shares, dollars = shares + part, dollars - part * price
    return shares


@given(price=grid, rate=rates, size=sizes, exponent=st.sampled_from([1, 2, 3]))
def test_the_fake_venue_charges_the_same(price: Decimal, rate: Decimal, size: Decimal, exponent: int) -> None:
    ours = TakerFees(rate=rate, exponent=Decimal(exponent)).fee_for(price, size)
    assert ours == VenueFees(rate=rate, exponent=Decimal(exponent)).fee_of(price, size)


def test_the_worst_fee_is_that_of_the_shares_which_the_dollars_buy_at_a_better_price() -> None:
    # 25 shares at 0.04 are one dollar. At 0.01 it buys 100 shares: 100 x 0.04 x 0.01 x 0.99 = 0.0396 is their fee.
    filled = 1 + FOUR.fee_for(Decimal("0.01"), Decimal(100))
    assert filled == Decimal("1.0396")
    # At the smallest tick, 0.0001, it is 10,000 x 0.04 x 0.0001 x 0.9999 = 0.039996.
    assert 25 * FOUR.max_cost_per_share(Decimal("0.04")) == Decimal("1.039996")


@pytest.mark.parametrize(
    ("exponent", "fee"),
    [
        # The highest fee of a dollar, in shares of the rate: at 0.0001 by 0.0001 ^ -0.5 x 0.9999 ^ 0.5, at a third by
        # 1/3 x (2/3) ^ 2.
        ("0.5", "99.995"),
        ("2", "0.148148"),
    ],
)
def test_the_worst_fee_of_other_exponents(exponent: str, fee: str) -> None:
    fees = TakerFees(rate=Decimal(1), exponent=Decimal(exponent))
    worst = fees.max_cost_per_share(Decimal("0.5")) / Decimal("0.5") - 1
    assert worst == pytest.approx(Decimal(fee), rel=Decimal("1e-5"))


@example(limit=Decimal("0.9999"), price=Decimal("0.9998"), rate=Decimal("0.09"), exponent="0.5")
@given(limit=grid, price=grid, rate=rates, exponent=st.sampled_from(["0", "0.5", "1", "1.5", "2", "4"]))
def test_nothing_within_a_limit_costs_more_than_the_worst(
    limit: Decimal, price: Decimal, rate: Decimal, exponent: str
) -> None:
    fees = TakerFees(rate=rate, exponent=Decimal(exponent))
    low, high = sorted((limit, price))
    # As many shares at the price as one share at the limit has dollars.
    assert high + fees.per_share(low) * high / low <= fees.max_cost_per_share(high) + Decimal("1e-20")


# Belief, ask, rate of the fee, cost of a share, and percent of the cash: docs/facts/polymarket.md#kelly-figures.
KELLY_TABLE = [
    (0.62, "0.57", "0.04", "0.57980", "9.57"),
    (0.62, "0.57", "0", "0.57000", "11.63"),
    (0.60, "0.57", "0.07", "0.58716", "3.11"),
    (0.97, "0.95", "0.05", "0.95238", "37.01"),
]


@pytest.mark.parametrize(("belief", "ask", "rate", "cost", "percent"), KELLY_TABLE)
def test_the_stakes_of_the_table(belief: float, ask: str, rate: str, cost: str, percent: str) -> None:
    price = Decimal(ask) + TakerFees(rate=Decimal(rate)).per_share(Decimal(ask))
    assert price.quantize(Decimal("0.00001"), ROUND_HALF_UP) == Decimal(cost)
    view = payoff_scenarios(KellyBankroll(cash=1000.0), {"": belief}, "")
    bought = kelly_shares(view, [ShareOffer(float(price), 1e12)])
    assert f"{bought * float(price) / 10.0:.2f}" == percent


@pytest.mark.parametrize(
    ("kind", "fee"),
    [(PolymarketOrderType.FAK, "0.01"), (PolymarketOrderType.FOK, "0.01"), (PolymarketOrderType.GTD, "0")],
)
def test_the_gate_reads_the_fees_from_the_question_and_an_order_that_rests_pays_none(
    kind: PolymarketOrderType, fee: str
) -> None:
    asked, wanted = trading_inputs.question(), trading_inputs.order("10", "0.5", kind=kind)
    assert order_fees(asked, wanted).per_share(Decimal("0.5")) == Decimal(fee)
    with pytest.raises(MalformedDataError, match="has no market 0xother"):
        order_fees(asked, replace(wanted, contract="0xother"))
