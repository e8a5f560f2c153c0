"""Markets of several answers, against the venue's own code and by their laws."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import ContractSide
from plugins.manifold.book_walk import PoolTakerOrder, RestingLimitOrder
from plugins.manifold.cpmm import CpmmPool
from plugins.manifold.market_simulation import SimulatedMarket
from tests.plugins.manifold.golden_vectors import board_of, leg_of, vectors


def total(board: SimulatedMarket) -> float:
    return math.fsum(board.probability(answer) for answer in board.pools)


def test_bets_on_independent_and_linked_answers_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "multiBetIndependent", "multiBetSumToOne"):
        raw, expected = vector.input, vector.output
        board = board_of(vector, linked=vector.fn == "multiBetSumToOne")
        trade = board.simulate_trade(
            raw["answerId"], PoolTakerOrder(leg=leg_of(raw), stake=raw["amount"], limit=raw["limitProb"])
        )
        after = board.after_trade(trade)
        assert trade.stake == pytest.approx(expected["amount"], rel=1e-9), vector.id
        assert trade.shares == pytest.approx(expected["shares"], rel=1e-9), vector.id
        assert trade.marginal_price == pytest.approx(expected["probAfter"], rel=1e-9), vector.id
        probabilities = {answer: after.probability(answer) for answer in after.pools}
        assert probabilities == pytest.approx(expected["probsAfter"], rel=1e-9), vector.id
        pool = after.pools[raw["answerId"]]
        assert pool.yes == pytest.approx(expected["newPool"]["YES"], rel=1e-9), vector.id
        assert pool.no == pytest.approx(expected["newPool"]["NO"], rel=1e-9), vector.id


def test_sales_of_linked_answers_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "sellSumToOne"):
        board = board_of(vector, linked=True)
        sale = board.simulate_sale(vector.input["answerId"], leg_of(vector.input), vector.input["shares"])
        assert sale.stake == pytest.approx(vector.output["saleValue"], rel=1e-9), vector.id
        after = board.after_trade(sale).probability(vector.input["answerId"])
        assert after == pytest.approx(vector.output["resultProb"], rel=1e-9), vector.id


@st.composite
def linked_boards(draw: st.DrawFn) -> SimulatedMarket:
    """Pools whose prices sum to 1, with a few bids and offers of people who can pay."""
    weights = draw(st.lists(st.floats(0.2, 1.0), min_size=2, max_size=5))
    depth = draw(st.floats(50.0, 2000.0))
    pools, orders = {}, []
    for number, weight in enumerate(weights):
        price = weight / math.fsum(weights)
        pools[f"a{number}"] = CpmmPool(
            depth * math.sqrt((1.0 - price) / price), depth * math.sqrt(price / (1.0 - price))
        )
        for leg, limit in ((ContractSide.YES, price * 0.9), (ContractSide.NO, price + (1.0 - price) * 0.1)):
            size = draw(st.sampled_from([0.0, 20.0]))
            orders.append(
                RestingLimitOrder(
                    id=f"{number}{leg}", user=f"{number}", leg=leg, limit=limit, remaining=size, balance=500.0,
                    answer=f"a{number}",
                )
            )  # fmt: skip
    return SimulatedMarket(pools=pools, orders=tuple(orders), is_linked=True)


LEGS = st.sampled_from(list(ContractSide))


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 300.0))
def test_prices_of_linked_answers_sum_to_one_after_a_bet(
    board: SimulatedMarket, leg: ContractSide, stake: float
) -> None:
    trade = board.simulate_trade("a0", PoolTakerOrder(leg=leg, stake=stake))
    after = board.after_trade(trade)
    stopped = any(not 0.0101 < after.probability(answer) < 0.9899 for answer in after.pools)
    assert stopped or total(after) == pytest.approx(1.0, abs=1e-9)
    assert stopped or trade.stake == pytest.approx(stake, rel=1e-9)


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 100.0))
def test_arbitrage_never_buys_fewer_shares_than_the_pool_alone(
    board: SimulatedMarket, leg: ContractSide, stake: float
) -> None:
    alone = board.walk("a0", PoolTakerOrder(leg=leg, stake=stake), {})
    whole = board.simulate_trade("a0", PoolTakerOrder(leg=leg, stake=stake))
    assert alone.stake < stake * (1.0 - 1e-9) or whole.shares >= alone.shares * (1.0 - 1e-9)


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 100.0), share=st.floats(0.1, 0.9))
def test_two_bets_in_a_row_on_linked_answers_cost_what_one_costs(
    board: SimulatedMarket, leg: ContractSide, stake: float, share: float
) -> None:
    whole = board.simulate_trade("a0", PoolTakerOrder(leg=leg, stake=stake))
    first = board.simulate_trade("a0", PoolTakerOrder(leg=leg, stake=stake * share))
    second = board.after_trade(first).simulate_trade("a0", PoolTakerOrder(leg=leg, stake=stake * (1.0 - share)))
    assert first.shares + second.shares == pytest.approx(whole.shares, rel=1e-6)


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 100.0))
def test_buying_a_linked_answer_and_selling_it_back_never_gains(
    board: SimulatedMarket, leg: ContractSide, stake: float
) -> None:
    bought = board.simulate_trade("a0", PoolTakerOrder(leg=leg, stake=stake))
    sold = board.after_trade(bought).simulate_sale("a0", leg, bought.shares)
    back = sold.stake if sold.shares >= bought.shares * (1.0 - 1e-9) else 0.0
    assert back <= bought.stake * (1.0 + 1e-6)


@given(board=linked_boards(), leg=LEGS, shares=st.floats(0.5, 100.0))
def test_shares_cost_what_buys_them(board: SimulatedMarket, leg: ContractSide, shares: float) -> None:
    wanted = board.simulate_trade("a0", PoolTakerOrder(leg=leg, shares=shares))
    bought = board.simulate_trade("a0", PoolTakerOrder(leg=leg, stake=wanted.stake))
    assert bought.shares == pytest.approx(wanted.shares, rel=1e-7)


def test_no_of_one_of_two_answers_is_yes_of_the_other() -> None:
    board = SimulatedMarket(pools={"x": CpmmPool(58.7, 109.0), "y": CpmmPool(109.0, 58.7)}, is_linked=True)
    yes = board.simulate_trade("x", PoolTakerOrder(leg=ContractSide.YES, stake=30.0))
    no = board.simulate_trade("y", PoolTakerOrder(leg=ContractSide.NO, stake=30.0))
    assert yes.shares == pytest.approx(no.shares, rel=1e-12)
    assert board.after_trade(yes).probability("x") == pytest.approx(board.after_trade(no).probability("x"), rel=1e-12)


def test_an_owner_of_orders_on_several_answers_pays_once() -> None:
    def rests(answer: str, balance: float) -> RestingLimitOrder:
        return RestingLimitOrder(
            id=answer, user="u", leg=ContractSide.YES, limit=0.25, remaining=20, balance=balance, answer=answer
        )

    pools = {"a": CpmmPool(100.0, 100.0), "b": CpmmPool(173.2, 57.7), "c": CpmmPool(173.2, 57.7)}
    board = SimulatedMarket(pools=pools, orders=(rests("b", 25.0), rests("c", 25.0)), is_linked=True)
    after = board.after_trade(board.simulate_trade("a", PoolTakerOrder(leg=ContractSide.YES, stake=400.0)))
    # 20 for the one order, and the 5 that are left for the other.
    assert {order.id: order.remaining for order in after.orders} == {"c": pytest.approx(15.0)}


@pytest.mark.parametrize("leg", list(ContractSide))
def test_a_stake_beyond_all_stops_brings_only_shares_that_somebody_sold(leg: ContractSide) -> None:
    pools = {"a": CpmmPool(100.0, 100.0), "b": CpmmPool(173.2, 57.7), "c": CpmmPool(173.2, 57.7)}
    trade = SimulatedMarket(pools=pools, is_linked=True).simulate_trade("a", PoolTakerOrder(leg=leg, stake=1e6))
    assert trade.stake < 1e4
    for other in "bc":
        assert trade.walks_by_answer[other].shares == pytest.approx(
            trade.shares - trade.walks_by_answer["a"].shares, rel=1e-6
        )
