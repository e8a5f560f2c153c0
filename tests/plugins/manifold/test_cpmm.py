"""One pool: prices, costs and shares, against the venue's own code and by their laws."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import ContractSide, CurvePrediction
from plugins.manifold.cpmm import TAKER_FEE, CpmmPool, find_root, taker_fee
from plugins.manifold.numeric_scale import ManifoldScale
from tests.plugins.manifold.golden_vectors import functions, leg_of, pool_of, vectors

EXACT = 1e-9
SIDES = st.floats(1.0, 1e6)
POOLS = st.builds(CpmmPool, SIDES, SIDES, st.floats(0.05, 0.95))
LEGS = st.sampled_from(list(ContractSide))
# A part of the pool, so that nothing drowns in rounding.
PARTS = st.floats(0.001, 10.0)


def close(expected: float) -> object:
    """The document asks for 1e-6; our arithmetic is held to more where no search made the vector."""
    return pytest.approx(expected, rel=EXACT, abs=1e-12)


def test_mf_x2_no_vector_is_left_out(shared: Path) -> None:
    here = {"probability", "purchase", "amountToProb", "amountToBuySharesFixedP", "roundTrip", "addLiquidity"}
    scales = {"pseudoNumeric", "expectedValue"}
    book = {"binaryBet", "sale"}
    linked = {"multiBetIndependent", "multiBetSumToOne", "multiBet", "sellSumToOne"}
    sizing = {"kelly", "kellyBook", "kellySumToOne"}
    known = functions(shared)
    assert known.keys() == here | scales | book | linked | sizing
    assert sum(known.values()) == 106


def test_prices_and_invariants_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "probability"):
        pool = pool_of(vector.input)
        assert pool.probability == close(vector.output["prob"]), vector.id
        assert pool.constant == close(vector.output["k"]), vector.id


def test_purchases_are_those_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "purchase"):
        pool, shares = pool_of(vector.input).buy(leg_of(vector.input), vector.input["amount"])
        assert shares == close(vector.output["shares"]), vector.id
        assert pool.yes == close(vector.output["newPool"]["YES"]), vector.id
        assert pool.no == close(vector.output["newPool"]["NO"]), vector.id
        assert pool.probability == close(vector.output["probAfter"]), vector.id


def test_the_cost_of_a_price_is_that_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "amountToProb"):
        leg, pool = leg_of(vector.input), pool_of(vector.input)
        stake = pool.stake_to_price(leg, vector.input["targetProb"])
        assert stake == close(vector.output["amount"]), vector.id
        if vector.output["shares"] is not None:
            after, shares = pool.buy(leg, stake)
            assert shares == close(vector.output["shares"]), vector.id
            assert after.probability == close(vector.output["probAfter"]), vector.id


def test_the_cost_of_shares_is_that_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "amountToBuySharesFixedP"):
        stake = pool_of(vector.input).stake_for_shares(leg_of(vector.input), vector.input["shares"])
        assert stake == close(vector.output["amount"]), vector.id


def test_selling_straight_back_is_that_of_the_vector(shared: Path) -> None:
    for vector in vectors(shared, "roundTrip"):
        pool, shares = pool_of(vector.input).buy(leg_of(vector.input), vector.input["amount"])
        assert shares == close(vector.output["shares"])
        paid = pool.stake_for_shares(ContractSide.NO, shares)
        back, _ = pool.buy(ContractSide.NO, paid)
        assert shares - paid == close(vector.output["saleValue"])
        assert back.yes == close(vector.output["poolAfter"]["YES"])
        assert back.no == close(vector.output["poolAfter"]["NO"])


def test_added_liquidity_is_that_of_the_vectors(shared: Path) -> None:
    for vector in vectors(shared, "addLiquidity"):
        deeper = pool_of(vector.input).with_liquidity(vector.input["amount"])
        assert (deeper.yes, deeper.no) == (vector.output["newPool"]["YES"], vector.output["newPool"]["NO"]), vector.id
        assert deeper.p == close(vector.output["newP"]), vector.id
        assert deeper.probability == close(vector.output["probBefore"]), vector.id


def test_pseudo_numeric_values_are_those_of_the_vectors_both_ways(shared: Path) -> None:
    for vector in vectors(shared, "pseudoNumeric"):
        raw = vector.input
        scale = ManifoldScale(low=raw["min"], high=raw["max"], logarithmic=raw["isLogScale"])
        assert scale.value(raw["prob"]) == close(vector.output["value"]), vector.id
        assert scale.probability(vector.output["value"]) == close(vector.output["probBack"]), vector.id


@given(pool=POOLS, leg=LEGS, part=PARTS)
def test_no_purchase_changes_the_invariant_or_makes_shares_free(pool: CpmmPool, leg: ContractSide, part: float) -> None:
    stake = part * min(pool.yes, pool.no)
    after, shares = pool.buy(leg, stake)
    assert after.constant == pytest.approx(pool.constant, rel=1e-9)
    assert shares >= stake
    rises = after.probability >= pool.probability
    assert rises is (leg is ContractSide.YES) or after.probability == pytest.approx(pool.probability, abs=1e-12)


@given(pool=POOLS, leg=LEGS, part=PARTS, share=st.floats(0.01, 0.99))
def test_a_stake_in_two_parts_buys_what_it_buys_at_once(
    pool: CpmmPool, leg: ContractSide, part: float, share: float
) -> None:
    stake = part * min(pool.yes, pool.no)
    whole, shares = pool.buy(leg, stake)
    first, some = pool.buy(leg, share * stake)
    second, more = first.buy(leg, stake - share * stake)
    assert some + more == pytest.approx(shares, rel=1e-9)
    assert second.probability == pytest.approx(whole.probability, rel=1e-9)


@given(pool=POOLS, leg=LEGS, part=PARTS)
def test_a_round_trip_returns_the_stake(pool: CpmmPool, leg: ContractSide, part: float) -> None:
    stake = part * min(pool.yes, pool.no)
    after, shares = pool.buy(leg, stake)
    other = ContractSide.NO if leg is ContractSide.YES else ContractSide.YES
    assert shares - after.stake_for_shares(other, shares) == pytest.approx(stake, rel=1e-6)


@given(pool=POOLS, leg=LEGS, part=PARTS)
def test_the_cost_of_shares_buys_those_shares(pool: CpmmPool, leg: ContractSide, part: float) -> None:
    shares = part * min(pool.yes, pool.no)
    assert pool.buy(leg, pool.stake_for_shares(leg, shares))[1] == pytest.approx(shares, rel=1e-8)


@given(pool=POOLS, target=st.floats(0.011, 0.989))
def test_the_cost_of_a_price_moves_the_price_there(pool: CpmmPool, target: float) -> None:
    leg = ContractSide.YES if target > pool.probability else ContractSide.NO
    stake = pool.stake_to_price(leg, target)
    assert stake >= -1e-6
    assert pool.buy(leg, max(stake, 0.0))[0].probability == pytest.approx(target, rel=1e-6)


@given(low=st.floats(-1e6, 1e6), span=st.floats(1.0, 1e6), log=st.booleans(), probability=st.floats(0.0, 1.0))
def test_a_number_and_its_price_are_the_same_thing(low: float, span: float, log: bool, probability: float) -> None:  # noqa: FBT001 - a drawn value
    scale = ManifoldScale(low=low, high=low + span, logarithmic=log)
    assert scale.probability(scale.value(probability)) == pytest.approx(probability, abs=1e-6)


def test_a_number_is_expected_to_pay_the_mean_of_its_payments() -> None:
    # All mass evenly between 20 and 40 of 0 to 100: the mean of the payments is 0.3.
    linear = ManifoldScale(low=0.0, high=100.0)
    assert linear.expected_payout((0.0, 20.0, 40.0, 100.0), CurvePrediction((0.0, 0.0, 1.0, 1.0))) == pytest.approx(0.3)
    # Half at each end of the grid, and beyond it: 0.5 on any scale.
    log = ManifoldScale(low=1.0, high=1000.0, logarithmic=True)
    assert log.expected_payout((1.0, 2.0, 1000.0), CurvePrediction((0.5, 0.5, 0.5))) == pytest.approx(0.5)


@pytest.mark.parametrize("sides", [(0.0, 1.0, 0.5), (1.0, float("nan"), 0.5), (1.0, 1.0, 1.0), (-1.0, 1.0, 0.5)])
def test_a_pool_without_a_price_is_refused(sides: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no price"):
        CpmmPool(*sides)


def test_mf_x10_the_fee_comes_from_one_constant() -> None:
    assert taker_fee(100.0) == 100.0 * TAKER_FEE == 0.0


@given(root=st.floats(0.0, 1e6), high=st.floats(1.0, 1e6), jump=st.floats(0.0, 10.0))
def test_a_crossing_is_found_through_jumps_and_infinities(root: float, high: float, jump: float) -> None:
    def excess(x: float) -> float:
        return float("-inf") if x > root + 1.0 else root - x + (jump if x < root else -jump)

    assert find_root(excess, 0.0, high) == pytest.approx(min(root, high), rel=1e-9, abs=1e-9)
