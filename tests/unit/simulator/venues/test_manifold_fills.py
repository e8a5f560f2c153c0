"""The fills of the fake Manifold against the numbers that the venue's own code gave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.simulator.venues.manifold_market_maker import (
    ArbitrageTrade,
    LinkedAnswers,
    NumericPriceScale,
    ReferenceFill,
    ReferenceLimitOrder,
    ReferenceOrderBook,
    ReferencePool,
    ReferenceTrade,
    WantedTrade,
    buy_answer,
    buy_answers,
    fill_trade,
)

Values = Mapping[str, Any]
NOW = 1_790_000_000_000.0
CLOSE = 1e-6
POOLS = st.builds(ReferencePool, st.floats(20, 5_000), st.floats(20, 5_000), st.floats(0.1, 0.9))
SIDES = st.sampled_from(["YES", "NO"])


class FillVectors:
    def __init__(self, folder: Path) -> None:
        self._all = json.loads((folder / "manifold_cpmm_vectors.json").read_text())["vectors"]

    def of(self, name: str, count: int) -> Sequence[tuple[Values, Values]]:
        """Return input and output of each vector of a group, whose size is known from the document."""
        found = [(vector["input"], vector["output"]) for vector in self._all if vector["fn"] == name]
        assert len(found) == count
        return found


@pytest.fixture(scope="module")
def vectors(shared: Path) -> FillVectors:
    return FillVectors(shared / "venues")


def near(value: float, tolerance: float = CLOSE) -> Any:
    return pytest.approx(value, rel=tolerance, abs=1e-9)


def pool_of(values: Values) -> ReferencePool:
    return ReferencePool(values["YES"], values["NO"], values.get("p", 0.5))


def book_of(values: Values, answer: str | None = None) -> ReferenceOrderBook:
    orders = [
        ReferenceLimitOrder(
            id=order["id"],
            user=order["userId"],
            outcome=order["outcome"],
            limit=order["limitProb"],
            left=order["orderAmount"] - order["amount"],
            created=order.get("createdTime", 0),
            expires=order.get("expiresAt"),
        )
        for order in values.get("orders", ())
        if order.get("answerId") == answer
    ]
    return ReferenceOrderBook(orders=orders, balances=values.get("balances", {}), now=NOW)


def answers_of(values: Values) -> LinkedAnswers:
    pools = {answer["id"]: ReferencePool(answer["poolYes"], answer["poolNo"]) for answer in values["answers"]}
    return LinkedAnswers(pools=pools, books={answer: book_of(values, answer) for answer in pools})


def want_of(values: Values) -> WantedTrade:
    return WantedTrade(outcome=values["outcome"], amount=values["amount"], limit=values.get("limitProb"))


def rows(fills: Sequence[ReferenceFill], key: str) -> list[Values]:
    return [{key: fill.order, "amount": near(fill.amount), "shares": near(fill.shares)} for fill in fills]


def is_filled(trade: ReferenceTrade | ArbitrageTrade, values: Values) -> bool:
    return values["limitProb"] is None or abs(trade.amount - values["amount"]) < CLOSE


# One market maker


def test_prices_and_invariants(vectors: FillVectors) -> None:
    for values, expected in vectors.of("probability", 8):
        pool = pool_of(values)
        assert (pool.prob, pool.k) == (near(expected["prob"]), near(expected["k"]))


def test_purchases_from_the_market_maker(vectors: FillVectors) -> None:
    for values, expected in vectors.of("purchase", 15):
        shares, pool = pool_of(values).bought(values["outcome"], values["amount"])
        assert shares == near(expected["shares"])
        assert (pool.yes, pool.no) == (near(expected["newPool"]["YES"]), near(expected["newPool"]["NO"]))
        assert pool.prob == near(expected["probAfter"])


def test_what_it_costs_to_move_a_price(vectors: FillVectors) -> None:
    for values, expected in vectors.of("amountToProb", 12):
        pool, outcome = pool_of(values), values["outcome"]
        amount = pool.cost_to(outcome, values["targetProb"])
        assert amount == near(expected["amount"])
        if amount > 0:
            shares, after = pool.bought(outcome, amount)
            assert (shares, after.prob) == (near(expected["shares"]), near(expected["probAfter"]))


def test_what_a_number_of_shares_costs(vectors: FillVectors) -> None:
    for values, expected in vectors.of("amountToBuySharesFixedP", 4):
        assert pool_of(values).cost_of(values["outcome"], values["shares"]) == near(expected["amount"])


def test_liquidity_keeps_the_price(vectors: FillVectors) -> None:
    for values, expected in vectors.of("addLiquidity", 3):
        pool = pool_of(values).with_liquidity(values["amount"])
        assert pool.p == near(expected["newP"])
        assert pool.prob == near(expected["probAfter"])


def test_a_round_trip_returns_the_stake(vectors: FillVectors) -> None:
    for values, expected in vectors.of("roundTrip", 1):
        shares, pool = pool_of(values).bought(values["outcome"], values["amount"])
        assert shares == near(expected["shares"])
        assert shares - pool.cost_of("NO", shares) == near(expected["saleValue"])


def test_the_scale_of_a_numeric_market(vectors: FillVectors) -> None:
    for values, expected in vectors.of("pseudoNumeric", 4):
        scale = NumericPriceScale(low=values["min"], high=values["max"], is_log=values["isLogScale"])
        assert scale.value(values["prob"]) == near(expected["value"])
        assert scale.prob(expected["value"]) == near(expected["probBack"])


# Market maker and book


def test_bets_meet_market_maker_and_book(vectors: FillVectors) -> None:
    for values, expected in vectors.of("binaryBet", 17):
        trade = fill_trade(pool_of(values), want_of(values), book_of(values))
        assert trade.amount == near(expected["amount"])
        assert trade.shares == near(expected["shares"])
        assert trade.pool.prob == near(expected["probAfter"])
        assert is_filled(trade, values) is expected["isFilled"]
        assert [dict(row) for row in expected["fills"]] == rows(trade.fills, "matchedBetId")
        assert [dict(row) for row in expected["makers"]] == rows(trade.makers, "id")
        assert list(trade.exhausted_orders) == expected["ordersToCancel"]


def test_sales_are_purchases_of_the_other_side(vectors: FillVectors) -> None:
    for values, expected in vectors.of("sale", 4):
        other = {"YES": "NO", "NO": "YES"}[values["outcome"]]
        trade = fill_trade(pool_of(values), WantedTrade(outcome=other, shares=values["shares"]), book_of(values))
        assert trade.amount == near(expected["buyAmount"])
        assert values["shares"] - trade.amount == near(expected["saleValue"])
        assert trade.pool.prob == near(expected["probAfter"])


def test_bets_at_their_best_size(vectors: FillVectors) -> None:
    for values, expected in [*vectors.of("kelly", 11), *vectors.of("kellyBook", 3)]:
        if expected["outcome"] is None:
            continue
        trade = fill_trade(
            pool_of(values), WantedTrade(outcome=expected["outcome"], amount=expected["amount"]), book_of(values)
        )
        assert trade.shares == near(expected["shares"])
        assert trade.pool.prob == near(expected["probAfter"])


# Several answers


def test_a_bet_on_an_independent_answer_moves_nothing_else(vectors: FillVectors) -> None:
    for values, expected in vectors.of("multiBetIndependent", 2):
        trade = answers_of(values).walk(values["answerId"], want_of(values))
        assert (trade.amount, trade.shares) == (near(expected["amount"]), near(expected["shares"]))
        assert trade.pool.prob == near(expected["probAfter"])
        assert (trade.pool.yes, trade.pool.no) == (near(expected["newPool"]["YES"]), near(expected["newPool"]["NO"]))


def test_a_bet_on_one_of_several_answers_keeps_the_sum_of_prices(vectors: FillVectors) -> None:
    for values, expected in vectors.of("multiBetSumToOne", 11):
        answer = values["answerId"]
        joint = buy_answer(answers_of(values), answer, want_of(values))
        assert joint.amount == near(expected["amount"])
        assert joint.shares(answer) == near(expected["shares"])
        trades = {**joint.direct, **joint.others}
        assert {name: near(trade.pool.prob) for name, trade in trades.items()} == expected["probsAfter"]
        assert is_filled(joint, values) is expected["isFilled"]


def test_equal_shares_of_several_answers(vectors: FillVectors) -> None:
    for values, expected in vectors.of("multiBet", 1):
        joint = buy_answers(answers_of(values), tuple(values["answerIds"]), values["amount"])
        assert joint.amount == near(values["amount"])
        for leg in expected["legs"]:
            assert joint.shares(leg["answerId"]) == near(leg["shares"])
            assert joint.direct[leg["answerId"]].pool.prob == near(leg["probAfter"])


def test_a_sale_of_one_of_several_answers(vectors: FillVectors) -> None:
    for values, expected in vectors.of("sellSumToOne", 3):
        other = {"YES": "NO", "NO": "YES"}[values["outcome"]]
        joint = buy_answer(answers_of(values), values["answerId"], WantedTrade(outcome=other, shares=values["shares"]))
        assert joint.amount == near(expected["buyAmount"])
        assert values["shares"] - joint.amount == near(expected["saleValue"])
        assert joint.direct[values["answerId"]].pool.prob == near(expected["resultProb"])


def test_bets_at_their_best_size_on_one_of_several_answers(vectors: FillVectors) -> None:
    for values, expected in vectors.of("kellySumToOne", 3):
        want = WantedTrade(outcome=expected["outcome"], amount=expected["amount"])
        joint = buy_answer(answers_of(values), values["answerId"], want)
        assert joint.shares(values["answerId"]) == near(expected["shares"])
        assert joint.direct[values["answerId"]].pool.prob == near(expected["probAfter"])


# Whatever is traded


@given(pool=POOLS, side=SIDES, amount=st.floats(0.5, 500), limit=st.none() | st.integers(1, 99))
def test_a_bet_spends_no_more_than_it_has_and_stops_at_its_limit(
    pool: ReferencePool, side: str, amount: float, limit: int | None
) -> None:
    want = WantedTrade(outcome=side, amount=amount, limit=None if limit is None else limit / 100)
    trade = fill_trade(pool, want, ReferenceOrderBook())
    assert trade.amount <= amount + CLOSE
    if trade.fills:
        assert trade.pool.k == near(pool.k)
        low, high = (0.0, want.stop) if side == "YES" else (want.stop, 1.0)
        assert low - CLOSE <= trade.pool.prob <= high + CLOSE
    assert bool(trade.fills) is (not want.reached(pool.prob, want.stop))


@given(pool=POOLS, side=SIDES, amount=st.floats(1, 300), price=st.integers(2, 98), left=st.floats(1, 300))
def test_mana_is_neither_made_nor_lost(pool: ReferencePool, side: str, amount: float, price: int, left: float) -> None:
    other = {"YES": "NO", "NO": "YES"}[side]
    resting = ReferenceLimitOrder(id="o", user="u", outcome=other, limit=price / 100, left=left)
    trade = fill_trade(pool, WantedTrade(outcome=side, amount=amount), ReferenceOrderBook(orders=[resting]))
    paid_in = trade.amount + sum(maker.amount for maker in trade.makers)
    # Whatever comes true, market maker and makers can pay out what the taker and they were promised.
    for outcome, held in (("YES", trade.pool.yes - pool.yes), ("NO", trade.pool.no - pool.no)):
        owed = trade.shares if outcome == side else sum(maker.shares for maker in trade.makers)
        assert held + owed == pytest.approx(paid_in, rel=1e-6, abs=1e-6)


@given(
    shares=st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6),
    depth=st.floats(50, 2_000),
    side=SIDES,
    amount=st.floats(1, 200),
)
def test_the_prices_of_exclusive_answers_sum_to_one_after_any_bet(
    shares: list[float], depth: float, side: str, amount: float
) -> None:
    whole = sum(shares)
    probs = [share / whole for share in shares]
    pools = {
        str(n): ReferencePool(depth * ((1 - p) / p) ** 0.5, depth * (p / (1 - p)) ** 0.5) for n, p in enumerate(probs)
    }
    joint = buy_answer(LinkedAnswers(pools=pools), "0", WantedTrade(outcome=side, amount=amount))
    if all(0.011 < trade.pool.prob < 0.989 for trade in (*joint.direct.values(), *joint.others.values())):
        assert joint.total == near(1.0)
        assert joint.amount == near(amount)
