"""Two engines of fills that were written apart, the fake venue's and the plugin's, agree on whatever is traded."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import Leg
from bot.testing.venues.manifold_arbitrage import Answers, buy
from bot.testing.venues.manifold_math import Book, Pool, Resting, Want, walk
from plugins.manifold import arbitrage, book, cpmm

BALANCES = {"poor": 0.0, "modest": 30.0, "rich": 1e6}
AMOUNTS = st.floats(1.0, 400.0)
PERCENTS = st.integers(1, 99)
ORDERS = st.lists(st.tuples(st.sampled_from(list(BALANCES)), PERCENTS, st.floats(1.0, 150.0)), max_size=4)


@st.composite
def wants(draw: st.DrawFn) -> Want:
    outcome = draw(st.sampled_from(["YES", "NO"]))
    if draw(st.booleans()):
        return Want(outcome=outcome, shares=draw(AMOUNTS))
    limit = draw(st.none() | PERCENTS)
    return Want(outcome=outcome, amount=draw(AMOUNTS), limit=None if limit is None else limit / 100)


@st.composite
def books(draw: st.DrawFn, prob: float, name: str = "") -> list[Resting]:
    """Orders that do not meet each other: bids below the price, offers above it."""
    return [
        Resting(
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
def choices(draw: st.DrawFn) -> dict[str, tuple[Pool, list[Resting]]]:
    shares = draw(st.lists(st.floats(0.1, 1.0), min_size=2, max_size=4))
    depth, found = draw(st.floats(50.0, 1_000.0)), {}
    for number, share in enumerate(shares):
        prob = share / sum(shares)
        pool = Pool(depth * math.sqrt((1 - prob) / prob), depth * math.sqrt(prob / (1 - prob)))
        found[f"a{number}"] = (pool, draw(books(prob, f"a{number}-")))
    return found


def twin_orders(orders: list[Resting], answer: str = "") -> list[book.Resting]:
    return [
        book.Resting(
            id=order.id,
            user=order.user,
            leg=Leg[order.outcome],
            limit=order.limit,
            remaining=order.left,
            created=order.created,
            balance=BALANCES[order.user],
            answer=answer,
        )
        for order in orders
    ]


def twin_want(want: Want) -> book.Take:
    leg = Leg[want.outcome]
    if math.isfinite(want.shares):
        return book.Take(leg=leg, shares=want.shares)
    return book.Take(leg=leg, stake=want.amount, limit=want.limit)


def twin_pool(pool: Pool) -> cpmm.Pool:
    return cpmm.Pool(pool.yes, pool.no, pool.p)


@given(data=st.data(), yes=st.floats(20, 2_000), no=st.floats(20, 2_000), p=st.floats(0.1, 0.9), want=wants())
def test_on_one_pool_with_its_book(data: st.DataObject, yes: float, no: float, p: float, want: Want) -> None:
    pool = Pool(yes, no, p)
    orders = data.draw(books(pool.prob))
    trade = walk(pool, want, Book(orders=orders, balances=BALANCES))
    twin = arbitrage.Board(pools={"": twin_pool(pool)}, orders=tuple(twin_orders(orders))).trade("", twin_want(want))
    assert (trade.amount, trade.shares) == pytest.approx((twin.stake, twin.shares), rel=1e-6, abs=1e-6)
    assert trade.pool.prob == pytest.approx(twin.walks[""].pool.probability, abs=1e-7)


@given(market=choices(), want=wants())
def test_on_answers_of_which_one_wins(market: dict[str, tuple[Pool, list[Resting]]], want: Want) -> None:
    answers = Answers(
        pools={name: pool for name, (pool, _) in market.items()},
        books={name: Book(orders=orders, balances=BALANCES) for name, (_, orders) in market.items()},
    )
    joint = buy(answers, "a0", want)
    twin = arbitrage.Board(
        pools={name: twin_pool(pool) for name, (pool, _) in market.items()},
        orders=tuple(order for name, (_, orders) in market.items() for order in twin_orders(orders, name)),
        linked=True,
    ).trade("a0", twin_want(want))
    assert (joint.amount, joint.shares("a0")) == pytest.approx((twin.stake, twin.shares), rel=1e-5, abs=1e-5)
    for name, trade in {**joint.direct, **joint.others}.items():
        # A bet beyond its limit walks nowhere.
        pool = twin.walks[name].pool if name in twin.walks else twin_pool(market[name][0])
        assert trade.pool.prob == pytest.approx(pool.probability, abs=1e-6)
