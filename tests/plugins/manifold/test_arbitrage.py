"""Markets of several answers, against the venue's own code and by their laws."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import Leg
from plugins.manifold.arbitrage import Board
from plugins.manifold.book import Resting, Take
from plugins.manifold.cpmm import Pool
from tests.plugins.manifold.vectors import board_of, leg_of, vectors


def total(board: Board) -> float:
    return math.fsum(board.probability(answer) for answer in board.pools)


def test_bets_on_independent_and_linked_answers_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "multiBetIndependent", "multiBetSumToOne"):
        raw, expected = vector.input, vector.output
        board = board_of(vector, linked=vector.fn == "multiBetSumToOne")
        trade = board.trade(raw["answerId"], Take(leg=leg_of(raw), stake=raw["amount"], limit=raw["limitProb"]))
        after = board.after(trade)
        assert trade.stake == pytest.approx(expected["amount"], rel=1e-9), vector.id
        assert trade.shares == pytest.approx(expected["shares"], rel=1e-9), vector.id
        assert trade.marginal == pytest.approx(expected["probAfter"], rel=1e-9), vector.id
        probabilities = {answer: after.probability(answer) for answer in after.pools}
        assert probabilities == pytest.approx(expected["probsAfter"], rel=1e-9), vector.id
        pool = after.pools[raw["answerId"]]
        assert pool.yes == pytest.approx(expected["newPool"]["YES"], rel=1e-9), vector.id
        assert pool.no == pytest.approx(expected["newPool"]["NO"], rel=1e-9), vector.id


def test_a_basket_is_that_of_the_vector(shared: Path) -> None:
    for vector in vectors(shared, "multiBet"):
        board = board_of(vector, linked=True)
        trade = board.basket(vector.input["answerIds"], vector.input["amount"])
        after = board.after(trade)
        assert trade.stake == pytest.approx(vector.input["amount"])
        for leg in vector.output["legs"]:
            assert trade.shares == pytest.approx(leg["shares"], rel=1e-6)
            assert after.probability(leg["answerId"]) == pytest.approx(leg["probAfter"], rel=1e-6)


def test_sales_of_linked_answers_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "sellSumToOne"):
        board = board_of(vector, linked=True)
        sale = board.sale(vector.input["answerId"], leg_of(vector.input), vector.input["shares"])
        assert sale.stake == pytest.approx(vector.output["saleValue"], rel=1e-9), vector.id
        after = board.after(sale).probability(vector.input["answerId"])
        assert after == pytest.approx(vector.output["resultProb"], rel=1e-9), vector.id


@st.composite
def linked_boards(draw: st.DrawFn) -> Board:
    """Pools whose prices sum to 1, with a few bids and offers of people who can pay."""
    weights = draw(st.lists(st.floats(0.2, 1.0), min_size=2, max_size=5))
    depth = draw(st.floats(50.0, 2000.0))
    pools, orders = {}, []
    for number, weight in enumerate(weights):
        price = weight / math.fsum(weights)
        pools[f"a{number}"] = Pool(depth * math.sqrt((1.0 - price) / price), depth * math.sqrt(price / (1.0 - price)))
        for leg, limit in ((Leg.YES, price * 0.9), (Leg.NO, price + (1.0 - price) * 0.1)):
            size = draw(st.sampled_from([0.0, 20.0]))
            orders.append(
                Resting(
                    id=f"{number}{leg}", user=f"{number}", leg=leg, limit=limit, remaining=size, balance=500.0,
                    answer=f"a{number}",
                )
            )  # fmt: skip
    return Board(pools=pools, orders=tuple(orders), linked=True)


LEGS = st.sampled_from(list(Leg))


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 300.0))
def test_prices_of_linked_answers_sum_to_one_after_a_bet(board: Board, leg: Leg, stake: float) -> None:
    trade = board.trade("a0", Take(leg=leg, stake=stake))
    after = board.after(trade)
    stopped = any(not 0.0101 < after.probability(answer) < 0.9899 for answer in after.pools)
    assert stopped or total(after) == pytest.approx(1.0, abs=1e-9)
    assert stopped or trade.stake == pytest.approx(stake, rel=1e-9)


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 100.0))
def test_arbitrage_never_buys_fewer_shares_than_the_pool_alone(board: Board, leg: Leg, stake: float) -> None:
    alone = board.walk("a0", Take(leg=leg, stake=stake), {})
    whole = board.trade("a0", Take(leg=leg, stake=stake))
    assert alone.stake < stake * (1.0 - 1e-9) or whole.shares >= alone.shares * (1.0 - 1e-9)


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 100.0), share=st.floats(0.1, 0.9))
def test_two_bets_in_a_row_on_linked_answers_cost_what_one_costs(
    board: Board, leg: Leg, stake: float, share: float
) -> None:
    whole = board.trade("a0", Take(leg=leg, stake=stake))
    first = board.trade("a0", Take(leg=leg, stake=stake * share))
    second = board.after(first).trade("a0", Take(leg=leg, stake=stake * (1.0 - share)))
    assert first.shares + second.shares == pytest.approx(whole.shares, rel=1e-6)


@given(board=linked_boards(), leg=LEGS, stake=st.floats(1.0, 100.0))
def test_buying_a_linked_answer_and_selling_it_back_never_gains(board: Board, leg: Leg, stake: float) -> None:
    bought = board.trade("a0", Take(leg=leg, stake=stake))
    sold = board.after(bought).sale("a0", leg, bought.shares)
    back = sold.stake if sold.shares >= bought.shares * (1.0 - 1e-9) else 0.0
    assert back <= bought.stake * (1.0 + 1e-6)


@given(board=linked_boards(), leg=LEGS, shares=st.floats(0.5, 100.0))
def test_shares_cost_what_buys_them(board: Board, leg: Leg, shares: float) -> None:
    wanted = board.trade("a0", Take(leg=leg, shares=shares))
    bought = board.trade("a0", Take(leg=leg, stake=wanted.stake))
    assert bought.shares == pytest.approx(wanted.shares, rel=1e-7)


def test_no_of_one_of_two_answers_is_yes_of_the_other() -> None:
    board = Board(pools={"x": Pool(58.7, 109.0), "y": Pool(109.0, 58.7)}, linked=True)
    yes = board.trade("x", Take(leg=Leg.YES, stake=30.0))
    no = board.trade("y", Take(leg=Leg.NO, stake=30.0))
    assert yes.shares == pytest.approx(no.shares, rel=1e-12)
    assert board.after(yes).probability("x") == pytest.approx(board.after(no).probability("x"), rel=1e-12)


def test_an_owner_of_orders_on_several_answers_pays_once() -> None:
    def rests(answer: str, balance: float) -> Resting:
        return Resting(id=answer, user="u", leg=Leg.YES, limit=0.25, remaining=20, balance=balance, answer=answer)

    pools = {"a": Pool(100.0, 100.0), "b": Pool(173.2, 57.7), "c": Pool(173.2, 57.7)}
    board = Board(pools=pools, orders=(rests("b", 25.0), rests("c", 25.0)), linked=True)
    after = board.after(board.trade("a", Take(leg=Leg.YES, stake=400.0)))
    # 20 for the one order, and the 5 that are left for the other.
    assert {order.id: order.remaining for order in after.orders} == {"c": pytest.approx(15.0)}


@pytest.mark.parametrize("leg", list(Leg))
def test_a_stake_beyond_all_stops_brings_only_shares_that_somebody_sold(leg: Leg) -> None:
    pools = {"a": Pool(100.0, 100.0), "b": Pool(173.2, 57.7), "c": Pool(173.2, 57.7)}
    trade = Board(pools=pools, linked=True).trade("a", Take(leg=leg, stake=1e6))
    assert trade.stake < 1e4
    for other in "bc":
        assert trade.walks[other].shares == pytest.approx(trade.shares - trade.walks["a"].shares, rel=1e-6)
