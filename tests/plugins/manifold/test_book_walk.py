"""The walk through pool and limit orders, against the venue's own code and by its rules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import ContractSide
from plugins.manifold.book_walk import PoolTakerOrder, RestingLimitOrder, opposite_orders, walk_pool
from plugins.manifold.cpmm import CpmmPool
from plugins.manifold.market_simulation import SimulatedMarket
from tests.plugins.manifold.golden_vectors import board_of, leg_of, vectors

POOL = CpmmPool(1000.0, 1000.0)


def order(name: str, limit: float, **fields: Any) -> RestingLimitOrder:
    start = RestingLimitOrder(
        id=name, user=f"owner of {name}", leg=ContractSide.NO, limit=limit, remaining=90.0, balance=1000.0
    )
    return replace(start, **fields)


def taken_from(
    *orders: RestingLimitOrder, stake: float = 300.0, limit: float | None = None, now_ms: float = 0.0
) -> list[str]:
    line = opposite_orders(orders, ContractSide.YES, now_ms=now_ms)
    walked = walk_pool(POOL, PoolTakerOrder(leg=ContractSide.YES, stake=stake, limit=limit), line)
    return [part.maker for part in walked.parts if part.maker]


def test_bets_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "binaryBet"):
        raw, expected = vector.input, vector.output
        board = board_of(vector)
        trade = board.simulate_trade("", PoolTakerOrder(leg=leg_of(raw), stake=raw["amount"], limit=raw["limitProb"]))
        walked = trade.walks_by_answer[""]
        assert trade.stake == pytest.approx(expected["amount"], rel=1e-9), vector.id
        assert trade.shares == pytest.approx(expected["shares"], rel=1e-9), vector.id
        assert walked.pool.probability == pytest.approx(expected["probAfter"], rel=1e-9), vector.id
        fills = [(part.maker, part.stake, part.shares) for part in walked.parts]
        makers = [fill["matchedBetId"] for fill in expected["fills"]]
        assert [maker for maker, _, _ in fills] == makers, vector.id
        numbers = [[fill["amount"], fill["shares"]] for fill in expected["fills"]]
        assert [pytest.approx(number, rel=1e-9) for number in numbers] == [[s, n] for _, s, n in fills], vector.id
        assert list(walked.exhausted_orders) == expected["ordersToCancel"], vector.id
        paid = {maker["id"]: maker["amount"] for maker in expected["makers"]}
        assert walked.paid_by_order == pytest.approx(paid, rel=1e-9), vector.id


def test_sales_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "sale"):
        board = board_of(vector)
        sale = board.simulate_sale("", leg_of(vector.input), vector.input["shares"])
        assert sale.stake == pytest.approx(vector.output["saleValue"], rel=1e-9), vector.id
        assert board.after_trade(sale).probability("") == pytest.approx(vector.output["probAfter"], rel=1e-9), vector.id


def test_mf_x4_the_better_price_is_met_first_and_of_equal_ones_the_older() -> None:
    young, old, dear = order("young", 0.52, created=2.0), order("old", 0.52, created=1.0), order("dear", 0.56)
    assert taken_from(dear, young, old, stake=500.0) == ["old", "young", "dear"]


def test_an_order_beyond_the_limit_is_not_met() -> None:
    assert taken_from(order("near", 0.52), order("far", 0.56), limit=0.55) == ["near"]


@pytest.mark.parametrize(("expires", "outcome"), [(None, True), (5.0, False), (10.0, False), (11.0, True), (0.0, True)])
def test_mf_x4_an_expired_order_is_not_met(expires: float | None, outcome: bool) -> None:  # noqa: FBT001 - a table
    assert taken_from(order("a", 0.52, expires=expires), now_ms=10.0) == (["a"] if outcome else [])


def test_mf_x4_an_owner_whose_balance_is_not_known_cannot_pay() -> None:
    assert taken_from(order("unknown", 0.52, balance=None), order("known", 0.53)) == ["known"]


def test_an_owner_pays_once_for_all_orders() -> None:
    both = [order("a", 0.52, user="u", balance=100.0), order("b", 0.53, user="u", balance=100.0)]
    walked = walk_pool(
        POOL, PoolTakerOrder(leg=ContractSide.YES, stake=900.0), opposite_orders(both, ContractSide.YES, now_ms=0.0)
    )
    assert sum(walked.paid_by_order.values()) == pytest.approx(100.0)
    assert walked.exhausted_orders == ("b",)


def test_what_was_taken_rests_no_more() -> None:
    board = SimulatedMarket(pools={"": POOL}, orders=(order("a", 0.52), order("b", 0.6, user="owner of a")))
    after = board.after_trade(board.simulate_trade("", PoolTakerOrder(leg=ContractSide.YES, stake=300.0)))
    assert [o.id for o in after.orders] == ["b"]
    assert after.orders[0].balance == pytest.approx(910.0)


def test_mf_x4_a_pool_side_below_the_floor_is_told() -> None:
    deep = SimulatedMarket(pools={"": CpmmPool(37.5, 412.25, 0.91)})
    assert not deep.simulate_trade("", PoolTakerOrder(leg=ContractSide.NO, stake=1.0)).drains_pool
    shallow = SimulatedMarket(pools={"": CpmmPool(0.02, 0.02)})
    assert shallow.simulate_trade("", PoolTakerOrder(leg=ContractSide.YES, stake=1.0)).drains_pool


ORDERS = st.lists(
    st.builds(
        RestingLimitOrder,
        id=st.uuids().map(str),
        user=st.sampled_from(["u", "v"]),
        leg=st.sampled_from(list(ContractSide)),
        limit=st.integers(1, 99).map(lambda percent: percent / 100),
        remaining=st.floats(0.0, 500.0),
        created=st.floats(0.0, 9.0),
        balance=st.just(200.0),
    ),
    max_size=6,
)
BOOKS = st.tuples(st.floats(20.0, 5000.0), st.floats(20.0, 5000.0), st.floats(0.2, 0.8), ORDERS)


def uncrossed(book: tuple[float, float, float, list[RestingLimitOrder]]) -> SimulatedMarket:
    """A book as it can be: nobody rests where the pool would have filled them."""
    yes, no, p, orders = book
    pool = CpmmPool(yes, no, p)
    here = pool.probability
    rests = [o for o in orders if (o.limit < here if o.leg is ContractSide.YES else o.limit > here)]
    return SimulatedMarket(pools={"": pool}, orders=tuple(rests))


@given(book=BOOKS, leg=st.sampled_from(list(ContractSide)), stake=st.floats(1.0, 2000.0), share=st.floats(0.05, 0.95))
def test_two_bets_in_a_row_cost_what_one_of_their_size_costs(
    book: tuple[float, float, float, list[RestingLimitOrder]], leg: ContractSide, stake: float, share: float
) -> None:
    board = uncrossed(book)
    whole = board.simulate_trade("", PoolTakerOrder(leg=leg, stake=stake))
    first = board.simulate_trade("", PoolTakerOrder(leg=leg, stake=stake * share))
    second = board.after_trade(first).simulate_trade("", PoolTakerOrder(leg=leg, stake=stake - stake * share))
    assert first.shares + second.shares == pytest.approx(whole.shares, rel=1e-6, abs=1e-6)


@given(book=BOOKS, leg=st.sampled_from(list(ContractSide)), stake=st.floats(1.0, 2000.0), limit=st.floats(0.02, 0.98))
def test_no_part_is_dearer_than_the_limit_and_no_stake_is_exceeded(
    book: tuple[float, float, float, list[RestingLimitOrder]], leg: ContractSide, stake: float, limit: float
) -> None:
    trade = uncrossed(book).simulate_trade("", PoolTakerOrder(leg=leg, stake=stake, limit=limit))
    assert trade.stake <= stake * (1.0 + 1e-9)
    price = limit if leg is ContractSide.YES else 1.0 - limit
    assert all(part.stake <= part.shares * price * (1.0 + 1e-6) + 1e-9 for part in trade.walks_by_answer[""].parts)


@given(book=BOOKS, leg=st.sampled_from(list(ContractSide)), stake=st.floats(1.0, 2000.0))
def test_buying_and_selling_back_never_gains(
    book: tuple[float, float, float, list[RestingLimitOrder]], leg: ContractSide, stake: float
) -> None:
    board = uncrossed(book)
    bought = board.simulate_trade("", PoolTakerOrder(leg=leg, stake=stake))
    sold = board.after_trade(bought).simulate_sale("", leg, bought.shares)
    back = sold.stake if sold.shares >= bought.shares * (1.0 - 1e-9) else 0.0
    assert back <= bought.stake * (1.0 + 1e-6) + 1e-6
