"""The ranked probability score against numerical integration and the closed form of the uniform distribution."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from bot.stats.scores import crps_scores, grid_locations, outcome_buckets

# Any masses below, on and above a grid, as a CDF at its points.
CDFS = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=14).filter(lambda masses: sum(masses) > 0.1).map(
    lambda masses: np.minimum(np.cumsum(masses)[:-1] / sum(masses), 1.0).tolist()
)  # fmt: skip


def integrated(cdf: list[float], outcome: float) -> float:
    """The definition, integrated by another program between the places where the integrand bends."""
    points = np.linspace(0.0, 1.0, len(cdf))

    def miss(u: float) -> float:
        return float((np.interp(u, points, cdf) - (outcome <= u)) ** 2)

    bends = sorted({*points.tolist(), min(max(outcome, 0.0), 1.0)})
    return sum(quad(miss, low, high)[0] for low, high in pairwise(bends))


@given(CDFS, st.floats(-0.2, 1.2))
def test_the_score_is_the_integral_of_its_definition(cdf: list[float], outcome: float) -> None:
    assert crps_scores(cdf, outcome) == pytest.approx(integrated(cdf, outcome), abs=1e-9)


@pytest.mark.parametrize("outcome", [0.0, 0.1234, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("steps", [1, 10, 200])
def test_the_uniform_forecast_has_its_closed_form(outcome: float, steps: int) -> None:
    # E|X - y| - E|X - X'| / 2 for the uniform distribution on the range.
    assert crps_scores(np.linspace(0, 1, steps + 1), outcome) == pytest.approx(outcome**2 - outcome + 1 / 3, abs=1e-12)


def test_the_best_and_the_worst_forecast_of_an_outcome_at_an_end() -> None:
    beyond_the_end = np.zeros(201)
    assert crps_scores([beyond_the_end, np.ones(201)], [1.0, 1.0]) == pytest.approx([0.0, 1.0])
    assert crps_scores([beyond_the_end, np.ones(201)], [0.0, 0.0]) == pytest.approx([1.0, 0.0])


@given(CDFS, st.floats(1.0, 50.0))
def test_beyond_an_end_it_does_not_matter_how_far(cdf: list[float], outcome: float) -> None:
    assert crps_scores(cdf, outcome) == crps_scores(cdf, 1.0)
    assert crps_scores(cdf, -outcome) == crps_scores(cdf, 0.0)


@given(CDFS, CDFS)
def test_on_average_nothing_beats_what_one_believes(belief: list[float], other: list[float]) -> None:
    grid = np.linspace(0.0, 1.0, len(belief))
    said = np.interp(grid, np.linspace(0.0, 1.0, len(other)), other)
    # Mid-points of many equal shares of the belief, those beyond the ends there.
    shares = (np.arange(2000) + 0.5) / 2000
    levels = np.concatenate([[0.0], np.maximum.accumulate(belief), [1.0]])
    outcomes = np.interp(shares, levels + np.arange(levels.size) * 1e-12, np.concatenate([[-1e-9], grid, [1 + 1e-9]]))
    honest = crps_scores(np.tile(belief, (2000, 1)), outcomes).mean()
    assert honest <= crps_scores(np.tile(said, (2000, 1)), outcomes).mean() + 1e-3


def test_many_curves_at_once_are_scored_one_by_one() -> None:
    curves = np.sort(np.random.default_rng(3).uniform(size=(4, 5, 21)))
    outcomes = np.random.default_rng(4).uniform(-0.1, 1.1, size=(4, 5))
    found = crps_scores(curves, outcomes)
    assert found.shape == (4, 5)
    assert found[2, 3] == pytest.approx(integrated(curves[2, 3].tolist(), float(outcomes[2, 3])), abs=1e-9)


def log_scale(least: float, most: float, zero: float) -> np.ndarray:
    """The platform's logarithmic scale, as its documentation states it."""
    ratio = (most - zero) / (least - zero)
    return least + (most - least) * (ratio ** np.linspace(0, 1, 201) - 1) / (ratio - 1)


@pytest.mark.parametrize(
    ("grid", "value", "bucket"),
    [
        (np.linspace(0, 100, 201), 0, 1),
        (np.linspace(0, 100, 201), 0.5, 1),
        (np.linspace(0, 100, 201), 0.5000001, 2),
        (np.linspace(0, 100, 201), 50, 100),
        (np.linspace(0, 100, 201), 50.2, 101),
        (np.linspace(0, 100, 201), 99.9, 200),
        (np.linspace(0, 100, 201), 100, 200),
        (np.linspace(0, 100, 201), -np.inf, 0),
        (np.linspace(0, 100, 201), np.inf, 201),
        (log_scale(1, 10000, 0), 1, 1),
        (log_scale(1, 10000, 0), 1.05, 2),
        (log_scale(1, 10000, 0), 100, 100),
        (log_scale(1, 10000, 0), 10000, 200),
        (log_scale(10, 1000, -5), 100, 93),
        (log_scale(10, 1000, -5), 500, 168),
        (np.linspace(-0.5, 9.5, 11), 0, 1),
        (np.linspace(-0.5, 9.5, 11), 3, 4),
        (np.linspace(-0.5, 9.5, 11), 9, 10),
        (np.linspace(-0.5, 9.5, 11), 42, 11),
        (np.linspace(1795292472.060379, 1826828472.060379, 201), 1798156800.0, 19),
    ],
)
def test_an_outcome_falls_into_the_bucket_of_the_platform(grid: np.ndarray, value: float, bucket: int) -> None:
    assert outcome_buckets(grid_locations(value, grid), grid.size - 1) == bucket


def test_the_bound_itself_is_within_the_range_whatever_rounding_made_of_it() -> None:
    # The platform's own arithmetic puts this value above the range of its second logarithmic scale.
    grid = log_scale(10, 1000, -5)
    assert grid_locations([1000.0, np.nextafter(1000.0, 2000.0), 10.0], grid) == pytest.approx([1, 1, 0], abs=1e-12)
    assert grid_locations(1000.1, grid) > 1


def test_impossible_grids_and_values_are_refused() -> None:
    with pytest.raises(ValueError, match="strictly increasing"):
        grid_locations(1.0, [2.0, 2.0])
    with pytest.raises(ValueError, match="is not a number"):
        grid_locations(np.nan, [0.0, 1.0])
    with pytest.raises(ValueError, match="decreases"):
        crps_scores([0.5, 0.4], 0.0)
    with pytest.raises(ValueError, match="needs"):
        crps_scores([[0.0, 1.0]], 0.5)
    with pytest.raises(ValueError, match="not finite"):
        crps_scores([0.0, 1.0], np.inf)
