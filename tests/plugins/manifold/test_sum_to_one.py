"""Long lists of answers of which one wins, most of them under one percent: the plugin and the double, each by itself.

The vectors were made with the venue's own arithmetic. Beyond them both are held to the one law that needs no
arithmetic: whoever wins, what is paid out is what was paid in.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.api import ContractSide
from bot.simulator.venues import manifold_market_maker
from bot.simulator.venues.manifold_market_maker import (
    LinkedAnswers,
    ReferenceOrderBook,
    WantedTrade,
    buy_answer,
    fill_trade,
)
from plugins.manifold.book_walk import PoolTakerOrder, RestingLimitOrder
from plugins.manifold.cpmm import CpmmPool
from plugins.manifold.market_simulation import SimulatedMarket, SimulatedTrade

Values = Mapping[str, Any]
CLOSE = 1e-9
OTHER = {"YES": "NO", "NO": "YES"}


@pytest.fixture(scope="module")
def cases(shared: Path) -> Sequence[Values]:
    file = shared / "venues" / "manifold_sum_to_one_vectors.json"
    if not file.exists():
        pytest.skip(f"{file.name} is not beside this repository")
    found: Sequence[Values] = json.loads(file.read_text())["vectors"]
    assert len(found) == 213
    return found


def board_of(case: Values) -> SimulatedMarket:
    orders = (
        RestingLimitOrder(
            id=raw["id"],
            user=raw["user"],
            leg=ContractSide(raw["leg"].lower()),
            limit=raw["limit"],
            remaining=raw["remaining"],
            created=raw["created"],
            balance=raw["balance"],
            answer=raw["answer"],
        )
        for raw in case["orders"]
    )
    pools = {answer: CpmmPool(*sides) for answer, sides in case["pools"].items()}
    return SimulatedMarket(pools=pools, orders=tuple(orders), is_linked=case["kind"] == "sum_to_one")


def traded(board: SimulatedMarket, case: Values) -> SimulatedTrade:
    leg = ContractSide(case["leg"].lower())
    if case["op"] == "sell":
        return board.simulate_sale(case["answer"], leg, case["shares"])
    return board.simulate_trade(case["answer"], PoolTakerOrder(leg=leg, stake=case["stake"], limit=case["limit"]))


def near(values: Mapping[str, float]) -> Any:
    return pytest.approx(dict(values), rel=CLOSE, abs=0.0)


def test_the_plugin_trades_as_the_venue_does(cases: Sequence[Values]) -> None:
    for number, case in enumerate(cases):
        board, expected = board_of(case), case["result"]
        trade, sign = traded(board, case), -1.0 if case["op"] == "sell" else 1.0
        after = board.after_trade(trade)
        assert {"amount": sign * trade.stake, "shares": sign * trade.shares} == near(
            {"amount": expected["amount"], "shares": expected["shares"]}
        ), number
        assert {answer: after.probability(answer) for answer in after.pools} == near(expected["prob_after"]), number


def answers_of(case: Values) -> LinkedAnswers:
    def rests(raw: Values) -> manifold_market_maker.ReferenceLimitOrder:
        return manifold_market_maker.ReferenceLimitOrder(
            id=raw["id"],
            user=raw["user"],
            outcome=raw["leg"],
            limit=raw["limit"],
            left=raw["remaining"],
            created=raw["created"],
        )

    balances = {raw["user"]: raw["balance"] for raw in case["orders"]}
    books = {
        name: ReferenceOrderBook(
            orders=[rests(raw) for raw in case["orders"] if raw["answer"] == name], balances=balances
        )
        for name in case["pools"]
    }
    return LinkedAnswers(
        pools={name: manifold_market_maker.ReferencePool(*sides) for name, sides in case["pools"].items()}, books=books
    )


def test_the_double_trades_as_the_venue_does(cases: Sequence[Values]) -> None:
    for number, case in enumerate(cases):
        answers, name, expected = answers_of(case), case["answer"], case["result"]
        want = (
            WantedTrade(outcome=OTHER[case["leg"]], shares=case["shares"], ignores_price=True)
            if case["op"] == "sell"
            else WantedTrade(outcome=case["leg"], amount=case["stake"], limit=case["limit"])
        )
        if case["kind"] == "independent":
            alone = fill_trade(answers.pools[name], want, answers.books[name])
            amount, shares, pools = alone.amount, alone.shares, {name: alone.pool}
        else:
            joint = buy_answer(answers, name, want)
            amount, shares = joint.amount, joint.shares(name)
            pools = {one: trade.pool for one, trade in {**joint.direct, **joint.others}.items()}
        if case["op"] == "sell":
            amount, shares = amount - shares, -shares
        assert {"amount": amount, "shares": shares} == near(
            {"amount": expected["amount"], "shares": expected["shares"]}
        ), number
        after = {one: pool.prob for one, pool in {**answers.pools, **pools}.items()}
        assert after == near(expected["prob_after"]), number


# Sequences

Act = tuple[int, str, float, bool]
ACTS = st.lists(
    st.tuples(st.integers(0, 29), st.sampled_from(["YES", "NO"]), st.floats(1.0, 400.0), st.booleans()),
    min_size=1,
    max_size=6,
)


def long_tail(count: int, fall: float, depth: float) -> dict[str, tuple[float, float]]:
    """Return pools (YES, NO) whose prices fall to a tenth of a percent and sum to 1."""
    weights = [max(fall**number, 0.001) for number in range(count)]
    prices = [weight / math.fsum(weights) for weight in weights]
    return {
        f"a{number}": (depth * math.sqrt((1.0 - price) / price), depth * math.sqrt(price / (1.0 - price)))
        for number, price in enumerate(prices)
    }


@settings(max_examples=30)
@given(fall=st.floats(0.3, 0.9), depth=st.floats(50.0, 2_000.0), acts=ACTS)
def test_bets_and_sales_in_any_order_make_and_lose_no_mana_and_both_agree(
    fall: float, depth: float, acts: list[Act]
) -> None:
    start = long_tail(30, fall, depth)
    board = SimulatedMarket(pools={name: CpmmPool(*sides) for name, sides in start.items()}, is_linked=True)
    answers = LinkedAnswers(pools={name: manifold_market_maker.ReferencePool(*sides) for name, sides in start.items()})
    held = {(name, side): 0.0 for name in start for side in OTHER}
    paid = 0.0
    for number, side, size, sells in acts:
        name = f"a{number}"
        if sells and held[name, side]:
            trade = board.simulate_sale(name, ContractSide(side.lower()), held[name, side])
            joint = buy_answer(
                answers, name, WantedTrade(outcome=OTHER[side], shares=held[name, side], ignores_price=True)
            )
            assert trade.stake == pytest.approx(joint.shares(name) - joint.amount, rel=CLOSE)
            paid, held[name, side] = paid - trade.stake, 0.0
        else:
            trade = board.simulate_trade(name, PoolTakerOrder(leg=ContractSide(side.lower()), stake=size))
            joint = buy_answer(answers, name, WantedTrade(outcome=side, amount=size))
            assert trade.shares == pytest.approx(joint.shares(name), rel=CLOSE)
            paid, held[name, side] = paid + trade.stake, held[name, side] + trade.shares
        board = board.after_trade(trade)
        moved = {one: part.pool for one, part in {**joint.direct, **joint.others}.items()}
        answers = LinkedAnswers(pools={**answers.pools, **moved})
        assert math.fsum(pool.probability for pool in board.pools.values()) == pytest.approx(1.0, abs=1e-12)
    for winner in start:
        owed = math.fsum(shares for (name, side), shares in held.items() if (side == "YES") is (name == winner))
        kept = sum(
            (pool.yes - start[name][0]) if name == winner else (pool.no - start[name][1])
            for name, pool in board.pools.items()
        )
        assert owed + kept == pytest.approx(paid, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("leg", list(ContractSide))
def test_an_answer_that_stands_beyond_the_limit_of_a_bet_is_not_bought_either_way(leg: ContractSide) -> None:
    pools = {name: CpmmPool(*sides) for name, sides in long_tail(30, 0.5, 300.0).items()}
    answer = "a0" if leg is ContractSide.YES else "a29"
    price = pools[answer].probability
    # As a market order: the last one stands at a tenth of a percent.
    limit = price - 0.01 if leg is ContractSide.YES else None
    trade = SimulatedMarket(pools=pools, is_linked=True).simulate_trade(
        answer, PoolTakerOrder(leg=leg, stake=50.0, limit=limit)
    )
    assert (trade.stake, trade.shares) == (0.0, 0.0)


def test_selling_what_was_bought_of_a_long_shot_brings_back_what_it_cost() -> None:
    pools = {name: CpmmPool(*sides) for name, sides in long_tail(30, 0.5, 300.0).items()}
    board = SimulatedMarket(pools=pools, is_linked=True)
    trade = board.simulate_trade("a25", PoolTakerOrder(leg=ContractSide.YES, stake=40.0))
    assert board.probability("a25") < 0.002
    sale = board.after_trade(trade).simulate_sale("a25", ContractSide.YES, trade.shares)
    assert sale.stake == pytest.approx(40.0, rel=1e-9)
    assert sale.shares == pytest.approx(trade.shares, rel=1e-9)
