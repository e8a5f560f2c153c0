"""Two engines of fills that were written apart, the fake venue's and the plugin's, agree on whatever is traded."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bot.api import ContractSide
from bot.simulator.venues.manifold_market_maker import (
    LinkedAnswers,
    ReferenceLimitOrder,
    ReferenceOrderBook,
    ReferencePool,
    WantedTrade,
    buy_answer,
    fill_trade,
)
from plugins.manifold import book_walk, cpmm, market_simulation

BALANCES = {"poor": 0.0, "modest": 30.0, "rich": 1e6}
AMOUNTS = st.floats(1.0, 400.0)
PERCENTS = st.integers(1, 99)
ORDERS = st.lists(st.tuples(st.sampled_from(list(BALANCES)), PERCENTS, st.floats(1.0, 150.0)), max_size=4)


@st.composite
def wants(draw: st.DrawFn) -> WantedTrade:
    outcome = draw(st.sampled_from(["YES", "NO"]))
    if draw(st.booleans()):
        return WantedTrade(outcome=outcome, shares=draw(AMOUNTS))
    limit = draw(st.none() | PERCENTS)
    return WantedTrade(outcome=outcome, amount=draw(AMOUNTS), limit=None if limit is None else limit / 100)


@st.composite
def books(draw: st.DrawFn, prob: float, name: str = "") -> list[ReferenceLimitOrder]:
    """Orders that do not meet each other: bids below the price, offers above it."""
    return [
        ReferenceLimitOrder(
            id=f"{name}{number}",
            user=user,
            outcome="YES" if percent / 100 < prob else "NO",
            limit=percent / 100,
            left=left,
            created=float(number),
        )
        for number, (user, percent, left) in enumerate(draw(ORDERS))
    ]


@st.composite
def choices(draw: st.DrawFn) -> dict[str, tuple[ReferencePool, list[ReferenceLimitOrder]]]:
    shares = draw(st.lists(st.floats(0.1, 1.0), min_size=2, max_size=4))
    depth, found = draw(st.floats(50.0, 1_000.0)), {}
    for number, share in enumerate(shares):
        prob = share / sum(shares)
        pool = ReferencePool(depth * math.sqrt((1 - prob) / prob), depth * math.sqrt(prob / (1 - prob)))
        found[f"a{number}"] = (pool, draw(books(prob, f"a{number}-")))
    return found


def twin_orders(orders: list[ReferenceLimitOrder], answer: str = "") -> list[book_walk.RestingLimitOrder]:
    return [
        book_walk.RestingLimitOrder(
            id=order.id,
            user=order.user,
            leg=ContractSide[order.outcome],
            limit=order.limit,
            remaining=order.left,
            created=order.created,
            balance=BALANCES[order.user],
            answer=answer,
        )
        for order in orders
    ]


def twin_want(want: WantedTrade) -> book_walk.PoolTakerOrder:
    leg = ContractSide[want.outcome]
    if math.isfinite(want.shares):
        return book_walk.PoolTakerOrder(leg=leg, shares=want.shares)
    return book_walk.PoolTakerOrder(leg=leg, stake=want.amount, limit=want.limit)


def twin_pool(pool: ReferencePool) -> cpmm.CpmmPool:
    return cpmm.CpmmPool(pool.yes, pool.no, pool.p)


@given(data=st.data(), yes=st.floats(20, 2_000), no=st.floats(20, 2_000), p=st.floats(0.1, 0.9), want=wants())
def test_on_one_pool_with_its_book(data: st.DataObject, yes: float, no: float, p: float, want: WantedTrade) -> None:
    pool = ReferencePool(yes, no, p)
    orders = data.draw(books(pool.prob))
    trade = fill_trade(pool, want, ReferenceOrderBook(orders=orders, balances=BALANCES))
    twin = market_simulation.SimulatedMarket(
        pools={"": twin_pool(pool)}, orders=tuple(twin_orders(orders))
    ).simulate_trade("", twin_want(want))
    assert (trade.amount, trade.shares) == pytest.approx((twin.stake, twin.shares), rel=1e-6, abs=1e-6)
    assert trade.pool.prob == pytest.approx(twin.walks_by_answer[""].pool.probability, abs=1e-7)


@given(market=choices(), want=wants())
def test_on_answers_of_which_one_wins(
    market: dict[str, tuple[ReferencePool, list[ReferenceLimitOrder]]], want: WantedTrade
) -> None:
    others = [order for name, (_, orders) in market.items() for order in orders if name != "a0"]
    # Where the bet ends and an order begins at the same price, rounding decides how much of it is filled.
    assume(want.limit is None or len(market) > 2 or all(abs(order.limit + want.limit - 1) > 1e-9 for order in others))
    answers = LinkedAnswers(
        pools={name: pool for name, (pool, _) in market.items()},
        books={name: ReferenceOrderBook(orders=orders, balances=BALANCES) for name, (_, orders) in market.items()},
    )
    joint = buy_answer(answers, "a0", want)
    twin = market_simulation.SimulatedMarket(
        pools={name: twin_pool(pool) for name, (pool, _) in market.items()},
        orders=tuple(order for name, (_, orders) in market.items() for order in twin_orders(orders, name)),
        is_linked=True,
    ).simulate_trade("a0", twin_want(want))
    assert (joint.amount, joint.shares("a0")) == pytest.approx((twin.stake, twin.shares), rel=1e-5, abs=1e-5)
    for name, trade in {**joint.direct, **joint.others}.items():
        # A bet beyond its limit walks nowhere.
        pool = twin.walks_by_answer[name].pool if name in twin.walks_by_answer else twin_pool(market[name][0])
        assert trade.pool.prob == pytest.approx(pool.probability, abs=1e-6)
