"""The order book: which levels an order takes, what they come to, and when a book may not be traded on."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.orders import ContractSide, OrderSide
from bot.execution.order_book import (
    BookLevel,
    LevelFill,
    OrderBook,
    ShareFees,
    levels_within_limit,
    subtract_consumed,
    walk_levels,
)

YES, NO, BUY, SELL = ContractSide.YES, ContractSide.NO, OrderSide.BUY, OrderSide.SELL
CENT_A_SHARE = ShareFees(formula=lambda _price: Decimal("0.01"))

cents = st.integers(1, 99).map(lambda number: Decimal(number) / 100)
shares = st.integers(1, 10_000).map(lambda number: Decimal(number) / 10)
sides = st.lists(st.tuples(cents, shares), max_size=6, unique_by=lambda level: level[0])


def level(price: str, size: float) -> BookLevel:
    return BookLevel(Decimal(price), Decimal(repr(size)))


def book(bids: list[BookLevel], asks: list[BookLevel]) -> OrderBook:
    return OrderBook.from_levels("ferry", bids=bids, asks=asks)


BOOK = book([level("0.40", 5), level("0.30", 10)], [level("0.50", 4), level("0.60", 20)])


@given(levels=sides, wanted=shares)
def test_an_order_takes_the_best_levels_first_and_no_more_than_it_wants(
    levels: list[tuple[Decimal, Decimal]], wanted: Decimal
) -> None:
    walk = walk_levels(book([], [BookLevel(*one) for one in levels]).asks, CENT_A_SHARE, shares=wanted)
    shown = sorted(levels)
    # One share after the other, in tenths, from the cheapest on.
    tenths = [price for price, size in shown for _ in range(int(size * 10))][: int(wanted * 10)]
    assert walk.size * 10 == len(tenths)
    assert walk.value * 10 == sum(tenths, Decimal(0))
    assert [one.price for one in walk.fills] == sorted(set(tenths))


def test_each_fill_has_a_fee_rounded_up_and_the_averages_count_it_for_or_against() -> None:
    walk = walk_levels(BOOK.asks, CENT_A_SHARE, shares=Decimal("4.5"))
    assert walk.fills == (
        LevelFill(price=Decimal("0.50"), size=Decimal(4), fee=Decimal("0.04")),
        LevelFill(price=Decimal("0.60"), size=Decimal("0.5"), fee=Decimal("0.01")),
    )
    assert (walk.value, walk.fee) == (Decimal("2.3"), Decimal("0.05"))
    assert walk.average_price == Decimal("2.3") / Decimal("4.5")
    assert walk.average_price_with_fee(BUY) == Decimal("2.35") / Decimal("4.5")
    assert walk.average_price_with_fee(SELL) == Decimal("2.25") / Decimal("4.5")
    assert CENT_A_SHARE.max_cost_per_share(Decimal("0.50")) == Decimal("0.51")


def test_an_order_for_nothing_takes_nothing() -> None:
    assert walk_levels(BOOK.asks, CENT_A_SHARE, shares=Decimal(0)).fills == ()


def test_a_walk_ends_where_the_wanted_shares_end() -> None:
    walk = walk_levels(BOOK.asks, ShareFees(), shares=Decimal(4))
    assert walk.fills == (LevelFill(price=Decimal("0.50"), size=Decimal(4), fee=Decimal(0)),)


@pytest.mark.parametrize(
    ("side", "limit", "prices"),
    [
        (BUY, None, ["0.50", "0.60"]),
        (BUY, "0.60", ["0.50", "0.60"]),
        (BUY, "0.59", ["0.50"]),
        (BUY, "0.49", []),
        (SELL, "0.50", ["0.50", "0.60"]),
        (SELL, "0.51", ["0.60"]),
        (SELL, "0.61", []),
    ],
)
def test_a_limit_itself_is_within_the_limit(side: OrderSide, limit: str | None, prices: list[str]) -> None:
    found = levels_within_limit(BOOK.asks, side, None if limit is None else Decimal(limit))
    assert [str(one.price) for one in found] == prices


def test_what_was_consumed_is_gone_and_an_empty_level_is_left_out() -> None:
    left = subtract_consumed(BOOK.asks, {Decimal("0.50"): Decimal(4), Decimal("0.60"): Decimal(5)})
    assert left == (level("0.60", 15),)
    assert subtract_consumed(BOOK.asks, {Decimal("0.50"): Decimal(9)}) == (level("0.60", 20),)
    assert subtract_consumed(BOOK.asks, {}) == BOOK.asks
    rest = subtract_consumed(BOOK.asks, {Decimal("0.50"): Decimal("3.5")})
    assert [one.size for one in rest] == [Decimal("0.5"), Decimal(20)]


@pytest.mark.parametrize(
    ("leg", "held", "price"),
    [
        (YES, 5.0, 0.40),
        # 5 at 0.40 and 5 at 0.30.
        (YES, 10.0, 0.35),
        # 15 are bid for: the other 5 bring nothing.
        (YES, 20.0, 0.25),
        # A share of NO is sold to a buyer of NO, who is a seller of YES at 0.50.
        (NO, 4.0, 0.50),
        (YES, 0.5, 0.40),
        (YES, 0.0, None),
    ],
)
def test_shares_are_worth_what_all_of_them_bring_now(leg: ContractSide, held: float, price: float | None) -> None:
    assert BOOK.sale_price(leg, held) == (None if price is None else pytest.approx(price))


def test_shares_without_bids_have_no_price() -> None:
    assert book([], [level("0.50", 4)]).sale_price(YES, 3.0) is None
    assert book([level("0.40", 4)], []).sale_price(NO, 3.0) is None


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (BOOK, None),
        (book([], [level("0.50", 4)]), "the book has no bids"),
        (book([level("0.50", 4)], []), "the book has no asks"),
        (book([], []), "the book has no bids"),
        (book([level("0.50", 4)], [level("0.50", 4)]), "the book is crossed: 0.50 is bid, 0.50 asked"),
        (book([level("0.51", 4)], [level("0.50", 4)]), "the book is crossed: 0.51 is bid, 0.50 asked"),
        # A tenth is not too wide.
        (book([level("0.40", 4)], [level("0.50", 4)]), None),
        (book([level("0.40", 4)], [level("0.51", 4)]), "the book is too wide: 0.40 is bid, 0.51 asked"),
    ],
)
def test_a_book_that_may_not_be_traded_on_says_why(of: OrderBook, why: str | None) -> None:
    assert of.unusable_reason(Decimal("0.10")) == why


@given(bids=sides, asks=sides)
def test_both_legs_are_one_pool(bids: list[tuple[Decimal, Decimal]], asks: list[tuple[Decimal, Decimal]]) -> None:
    of = book([BookLevel(*one) for one in bids], [BookLevel(*one) for one in asks])
    assert of.levels(YES, BUY) == tuple(BookLevel(*one) for one in sorted(asks))
    assert of.levels(YES, SELL) == tuple(BookLevel(*one) for one in sorted(bids, reverse=True))
    for side, pool in ((BUY, of.bids), (SELL, of.asks)):
        found = of.levels(NO, side)
        assert [(one.price + other.price, one.size) for one, other in zip(found, pool, strict=True)] == [
            (Decimal(1), other.size) for other in pool
        ]


def test_the_middle_needs_two_sides_that_do_not_cross() -> None:
    assert (BOOK.best_bid, BOOK.best_ask, BOOK.spread, BOOK.mid) == tuple(
        map(Decimal, ("0.40", "0.50", "0.10", "0.45"))
    )
    assert not BOOK.is_crossed
    one_sided = book([level("0.40", 5)], [])
    assert (one_sided.mid, one_sided.spread, one_sided.best_ask, one_sided.is_crossed) == (None, None, None, False)
    assert book([], [level("0.40", 5)]).best_bid is None
    crossed = book([level("0.60", 5)], [level("0.50", 4)])
    assert (crossed.mid, crossed.is_crossed) == (None, True)


def test_a_book_is_recorded_as_text_so_that_no_digit_is_lost() -> None:
    assert BOOK.to_map() == {
        "bids": [["0.40", "5"], ["0.30", "10"]],
        "asks": [["0.50", "4"], ["0.60", "20"]],
    }


def test_no_fee_is_free() -> None:
    assert ShareFees().is_free
    assert not CENT_A_SHARE.is_free
    assert ShareFees().fee_for(Decimal("0.5"), Decimal(100)) == 0
    assert CENT_A_SHARE.rounding == Decimal("0.01")
