"""Curves through quantiles, against closed forms and the inverse of what was asked for."""

import math
from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bot.core.distributions import curve_from_quantiles, curve_quantiles
from bot.core.predictions import CurveShape, prediction_mismatch

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)

numbers = st.floats(-1e6, 1e6, allow_nan=False)
grids = st.builds(
    lambda start, cells: tuple(float(point) for point in start + np.cumsum([0.0, *cells])),
    st.floats(-1e6, 1e6),
    st.lists(st.floats(0.01, 1e4), min_size=1, max_size=60),
)
shapes = st.builds(CurveShape, grid=grids, open_lower=st.booleans(), open_upper=st.booleans())
levels = st.lists(st.integers(1, 99), min_size=2, max_size=9, unique=True).map(
    lambda found: [level / 100 for level in sorted(found)]
)


def shape(low: float, high: float, points: int = 201, *, is_open: bool = False) -> CurveShape:
    grid = tuple(np.linspace(low, high, points).tolist())
    return CurveShape(grid=grid, open_lower=is_open, open_upper=is_open)


@given(shapes, levels, st.data(), st.floats(0.0, 0.01))
def test_any_rising_quantiles_give_a_valid_curve_that_keeps_the_least_mass(
    asked: CurveShape, at: list[float], data: st.DataObject, share: float
) -> None:
    values = sorted(
        data.draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=len(at), max_size=len(at)))
    )
    least = share / len(asked.grid)
    curve = curve_from_quantiles(dict(zip(at, values, strict=True)), asked, step_mass=least)
    assert prediction_mismatch(curve, asked) is None
    assert all(b - a >= least - 1e-12 for a, b in zip(curve.cdf, curve.cdf[1:], strict=False))
    assert asked.open_lower or curve.cdf[0] == 0.0
    assert asked.open_upper or curve.cdf[-1] == 1.0


@given(shapes, levels, st.data())
def test_a_curve_passes_each_quantile_between_the_grid_points_beside_it(
    asked: CurveShape, at: list[float], data: st.DataObject
) -> None:
    low, high = asked.grid[0], asked.grid[-1]
    # Equal quantiles are a jump of a millionth of the grid (_JUMP_WIDTH): within it the curve is between the two.
    nothing = 1.1e-6 * (high - low)
    inside = st.floats(low, high, exclude_min=True, exclude_max=True)
    values = sorted(data.draw(st.lists(inside, min_size=len(at), max_size=len(at), unique=True)))
    curve = curve_from_quantiles(dict(zip(at, values, strict=True)), asked)
    for level, value in zip(at, values, strict=True):
        before = bisect_left(asked.grid, value - nothing) - 1
        after = bisect_right(asked.grid, value + nothing)
        assert before < 0 or curve.cdf[before] <= level + 1e-9
        assert after == len(asked.grid) or curve.cdf[after] >= level - 1e-9


@pytest.mark.parametrize("is_open", [False, True])
def test_quantiles_of_a_uniform_give_back_the_uniform_between_them(is_open: bool) -> None:  # noqa: FBT001 - a case
    asked = shape(0.0, 1.0, is_open=is_open)
    curve = curve_from_quantiles({level: level for level in LEVELS}, asked)
    inner = [(point, value) for point, value in zip(asked.grid, curve.cdf, strict=True) if 0.05 <= point <= 0.95]
    assert [value for _, value in inner] == pytest.approx([point for point, _ in inner], abs=1e-9)


def test_a_uniform_on_a_closed_range_is_exact_up_to_its_ends() -> None:
    asked = shape(2.0, 6.0)
    curve = curve_from_quantiles({level: 2.0 + 4.0 * level for level in LEVELS}, asked)
    assert curve.cdf == pytest.approx([(point - 2.0) / 4.0 for point in asked.grid], abs=1e-9)


@pytest.mark.parametrize("is_open", [False, True])
def test_quantiles_of_a_normal_give_back_the_normal_within_half_a_percent(is_open: bool) -> None:  # noqa: FBT001 - a case
    asked = shape(-5.0, 5.0, is_open=is_open)
    curve = curve_from_quantiles({level: float(stats.norm.ppf(level)) for level in LEVELS}, asked)
    assert curve.cdf == pytest.approx(stats.norm.cdf(asked.grid), abs=0.005)


def test_an_exponential_tail_beyond_an_open_bound_is_met_closely() -> None:
    asked = CurveShape(grid=tuple(np.linspace(0.0, 4.0, 81).tolist()), open_upper=True)
    curve = curve_from_quantiles({level: float(stats.expon.ppf(level)) for level in LEVELS}, asked)
    assert curve.cdf[-1] == pytest.approx(stats.expon.cdf(4.0), abs=0.005)
    assert curve.cdf[-1] < 1.0


def test_equal_quantiles_are_a_jump_at_their_value() -> None:
    asked = CurveShape(grid=(0.0, 1.0, 2.0, 3.0, 4.0), open_upper=True)
    curve = curve_from_quantiles({0.1: 1.0, 0.5: 1.0, 0.8: 1.0, 0.9: 3.0}, asked)
    assert curve.cdf[1] == pytest.approx(0.8)
    assert curve.cdf[0] == 0.0


def test_dates_in_seconds_lose_no_digits() -> None:
    start, day = 1_790_000_000.0, 86_400.0
    asked = CurveShape(grid=tuple(start + day * index for index in range(365)), unit="date")
    curve = curve_from_quantiles({0.1: start + 50 * day, 0.5: start + 100 * day, 0.9: start + 200 * day}, asked)
    assert curve.cdf[100] == pytest.approx(0.5)


def test_values_beyond_a_closed_bound_count_as_the_bound() -> None:
    asked = shape(0.0, 1.0, points=11)
    curve = curve_from_quantiles({0.1: -5.0, 0.5: 0.5, 0.9: 7.0}, asked)
    assert curve.cdf[0] == 0.0
    assert curve.cdf[1] >= 0.1
    assert curve.cdf[-2] <= 0.9


@given(shapes, levels, st.data())
def test_quantiles_are_read_back_within_one_cell(asked: CurveShape, at: list[float], data: st.DataObject) -> None:
    inside = st.floats(asked.grid[0], asked.grid[-1], exclude_min=True, exclude_max=True)
    values = sorted(data.draw(st.lists(inside, min_size=len(at), max_size=len(at), unique=True)))
    curve = curve_from_quantiles(dict(zip(at, values, strict=True)), asked)
    widest = max(b - a for a, b in zip(asked.grid, asked.grid[1:], strict=False))
    for level, value in curve_quantiles(curve, asked, at).items():
        given_value = values[at.index(level)]
        assert value == pytest.approx(given_value, abs=widest * (1 + 1e-6))


@pytest.mark.parametrize(
    "quantiles",
    [{}, {0.5: 1.0}, {0.0: 0.0, 0.5: 1.0}, {0.5: 1.0, 1.0: 2.0}, {0.2: 3.0, 0.8: 1.0}, {0.2: math.nan, 0.8: 1.0}],
)
def test_what_is_no_set_of_quantiles_is_refused(quantiles: dict[float, float]) -> None:
    with pytest.raises(ValueError, match=r"level|quantile"):
        curve_from_quantiles(quantiles, shape(0.0, 1.0))


def test_more_mass_per_step_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="probability above 1"):
        curve_from_quantiles({0.1: 0.1, 0.9: 0.9}, shape(0.0, 1.0, points=11), step_mass=0.1)
