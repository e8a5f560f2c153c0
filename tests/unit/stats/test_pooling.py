"""Pools of distributions: agreement, bounds and hand arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from bot.stats.aggregation import linear_pool, logarithmic_pool, logarithmic_pool_cdf

pmf = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda raw: [value / sum(raw) for value in raw])


@given(st.lists(pmf, min_size=1, max_size=6))
def test_pooled_masses_sum_to_one(pmfs: list[list[float]]) -> None:
    assert linear_pool(pmfs).sum() == pytest.approx(1.0, abs=1e-12)
    assert logarithmic_pool(pmfs).sum() == pytest.approx(1.0, abs=1e-12)


@given(pmf, st.integers(1, 6))
def test_agreement_is_kept(opinion: list[float], times: int) -> None:
    assert linear_pool([opinion] * times).tolist() == opinion
    assert logarithmic_pool([opinion] * times) == pytest.approx(opinion, abs=1e-12)


def test_pools_by_hand() -> None:
    opinions = [[0.9, 0.1], [0.5, 0.5]]
    assert linear_pool(opinions, [3, 1]) == pytest.approx([0.8, 0.2])
    assert linear_pool(opinions, [0.2, 0.6]) == pytest.approx([0.6, 0.4])
    assert linear_pool(opinions, [0.0, 2.0]) == pytest.approx([0.5, 0.5])
    # sqrt(0.9 * 0.5) : sqrt(0.1 * 0.5) = 3 : 1
    assert logarithmic_pool(opinions) == pytest.approx([0.75, 0.25])


def test_one_zero_does_not_forbid_an_option() -> None:
    assert logarithmic_pool([[1.0, 0.0], [0.2, 0.8]])[1] > 0.0


def test_the_log_pool_of_two_normal_curves_is_the_normal_between_them() -> None:
    # Densities proportional to exp(-(x +- 1)^2 / 2) multiply, square root taken, to exp(-x^2 / 2).
    grid = np.linspace(-8, 8, 4001)
    pooled = logarithmic_pool_cdf([norm.cdf(grid, -1), norm.cdf(grid, 1)])
    inside = np.abs(grid) < 2
    assert pooled[inside] == pytest.approx(norm.cdf(grid[inside]), abs=5e-3)


@given(st.lists(st.lists(st.integers(1, 50), min_size=4, max_size=4), min_size=1, max_size=7))
def test_closed_bounds_stay_closed_and_curves_never_fall(opinions: list[list[int]]) -> None:
    cdfs = [np.concatenate([[0.0], np.cumsum(steps)[:-1] / sum(steps), [1.0]]) for steps in opinions]
    for pooled in (linear_pool(cdfs), logarithmic_pool_cdf(cdfs)):
        assert (pooled[0], pooled[-1]) == (0.0, 1.0)
        assert (np.diff(pooled) >= 0.0).all()


@pytest.mark.parametrize(("opinions", "weights"), [([0.5, 0.5], None), ([[0.5, 0.5]], [0.0]), ([[0.5, 0.5]], [1, 1])])
def test_malformed_opinions_are_refused(opinions: list[float], weights: list[float] | None) -> None:
    with pytest.raises(ValueError, match="needs"):
        linear_pool(opinions, weights)


def test_the_log_pool_of_curves_with_open_ends_by_hand() -> None:
    """Masses .2 .4 .4 and .5 .3 .2, the last beyond the grid: roots of .10, .12 and .08, divided by their sum."""
    roots = np.sqrt([0.10, 0.12, 0.08])
    shares = roots / roots.sum()
    pooled = logarithmic_pool_cdf([[0.2, 0.6], [0.5, 0.8]])
    assert pooled == pytest.approx([shares[0], 1.0 - shares[2]])
    # Three parts of the first and one of the second; each power is a share of the weight.
    masses = np.array([[0.2, 0.4, 0.4], [0.5, 0.3, 0.2]])
    weighted = masses[0] ** 0.75 * masses[1] ** 0.25
    weighted /= weighted.sum()
    assert logarithmic_pool_cdf([[0.2, 0.6], [0.5, 0.8]], [3.0, 1.0]) == pytest.approx([weighted[0], 1.0 - weighted[2]])
