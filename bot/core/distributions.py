"""Converts quantiles to a CDF on a question's grid and back.

Also builds the flat prediction, which is used when nothing is known, and gives the log odds of a probability. Between
the quantiles the CDF is a monotone cubic (PCHIP, Fritsch and Carlson); beyond the lowest and the highest one it has an
exponential tail that begins with the density of the cubic there. At a closed bound the tail is truncated, so the CDF is
exactly 0 or 1 there; at an open bound a part of it lies beyond the grid.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)

# The mass of the flat prediction beyond each open bound, which the baseline scores of the tournament platform assume.
# See docs/facts/scoring.md#flat-predictions.
TAIL_MASS = 0.05
# How far a probability may approach 0 and 1 before a logarithm.
LOGIT_EPSILON = 1e-4
# Equal quantiles are a jump of this width, as a share of the length of the grid; no venue has steps so narrow.
_JUMP_WIDTH = 1e-6
# A quantile is moved to at most this many lengths of the grid outside of it.
_MAX_GRID_DISTANCE = 1e6
# With a larger rate a tail is a point mass on every grid, and exp would overflow.
_MAX_TAIL_RATE = 500.0


def log_odds(probability: float, eps: float = 0.0) -> float:
    """Return log(p / (1 - p)) of a probability after clipping it to [eps, 1 - eps].

    Raises ValueError or ZeroDivisionError for 0 and 1 where ``eps`` is 0.
    """
    clipped = min(max(probability, eps), 1.0 - eps)
    return math.log(clipped / (1.0 - clipped))


def curve_from_quantiles(
    quantiles: Mapping[float, float], shape: CurveShape, *, step_mass: float = 0.0
) -> CurvePrediction:
    """Return the CDF on the grid of the shape that passes through the quantiles.

    ``quantiles`` maps levels in (0, 1) to values in the question's unit, two or more, finite and not decreasing with
    the level; equal values are a jump. A value beyond a closed bound counts as the bound. ``step_mass`` is the minimum
    probability of each step of the grid, for venues that require one. Raises ValueError for anything else.
    """
    levels, values = _check_quantiles(quantiles)
    if not 0.0 <= step_mass * (len(shape.grid) - 1) < 1.0:
        message = f"{len(shape.grid) - 1} steps of at least {step_mass:g} have a probability above 1"
        raise ValueError(message)
    low, high = shape.grid[0], shape.grid[-1]
    bounds = (-math.inf if shape.open_lower else low, math.inf if shape.open_upper else high)
    clipped = [min(max(value, bounds[0]), bounds[1]) for value in values]
    # In units of the grid's length: a difference of dates in seconds would lose digits in the cubic.
    positions = _separate_points(
        [min(max((value - low) / (high - low), -_MAX_GRID_DISTANCE), _MAX_GRID_DISTANCE) for value in clipped]
    )
    ends = ((bounds[0] - low) / (high - low), (bounds[1] - low) / (high - low))
    cdf = _with_minimum_steps(
        _interpolate_cdf([(point - low) / (high - low) for point in shape.grid], positions, levels, ends), step_mass
    )
    if not shape.open_lower:
        cdf[0] = 0.0
    if not shape.open_upper:
        cdf[-1] = 1.0
    return CurvePrediction(tuple(cdf))


def flat_prediction(shape: QuestionShape) -> Prediction:
    """Return the prediction without any knowledge: one half, equal options, the flat curve.

    The flat curve has ``TAIL_MASS`` beyond each open bound and rises evenly over the steps of the grid, which are those
    of the question's scale: its baseline score is 0 for every outcome.
    """
    match shape:
        case ChoiceShape(options=options):
            return ChoicePrediction(dict.fromkeys(options, 1.0 / len(options)))
        case CurveShape(grid=grid):
            low, high = TAIL_MASS * shape.open_lower, 1.0 - TAIL_MASS * shape.open_upper
            steps = len(grid) - 1
            return CurvePrediction(tuple(low + (high - low) * (step / steps) for step in range(steps + 1)))
        case _:
            return BinaryPrediction(0.5)


def curve_quantile(curve: CurvePrediction, shape: CurveShape, level: float) -> float | None:
    """Return the value at that probability, by linear interpolation between the points of the grid.

    For a discrete question it is the value whose step contains the level. None if it is beyond an end of the grid.
    """
    cdf, grid = curve.cdf, shape.grid
    above = bisect_left(cdf, level)
    if above == len(cdf) or (above == 0 and cdf[0] > level):
        return None
    if shape.discrete:
        return shape.step_midpoint(max(above, 1))
    if above == 0:
        return grid[0]
    share = (level - cdf[above - 1]) / (cdf[above] - cdf[above - 1])
    return grid[above - 1] + share * (grid[above] - grid[above - 1])


def curve_quantiles(curve: CurvePrediction, shape: CurveShape, levels: Sequence[float]) -> dict[float, float]:
    """Return the value at each level, by linear interpolation between the points of the grid.

    A level beyond an open bound has the end of the grid as its value, because the CDF has no further information.
    """
    return {level: clamped_quantile(curve, shape, level) for level in levels}


def clamped_quantile(curve: CurvePrediction, shape: CurveShape, level: float) -> float:
    """Return the value at a level as ``curve_quantile`` does; beyond the grid it is the end of the grid."""
    found = curve_quantile(curve, shape, level)
    return shape.value_range[0 if curve.cdf[0] > level else 1] if found is None else found


def _check_quantiles(quantiles: Mapping[float, float]) -> tuple[list[float], list[float]]:
    levels = sorted(quantiles)
    values = [quantiles[level] for level in levels]
    if len(levels) < 2 or not all(0.0 < level < 1.0 for level in levels):
        message = f"two or more levels between 0 and 1 are needed, got {levels}"
        raise ValueError(message)
    if not all(math.isfinite(value) for value in values) or any(b < a for a, b in pairwise(values)):
        message = f"quantiles must be finite and must not decrease: {', '.join(f'{value:.6g}' for value in values)}"
        raise ValueError(message)
    return levels, values


def _separate_points(positions: Sequence[float]) -> list[float]:
    """Return the positions with equal ones spread over a narrow jump that ends at their value."""
    separated: list[float] = []
    for position, group in groupby(positions):
        count = len([*group])
        width = min(_JUMP_WIDTH, (position - separated[-1]) / 2) if separated else _JUMP_WIDTH
        separated += [position - width * (count - 1 - index) / count for index in range(count)]
    # Two positions may differ and still be too close for a difference of floats.
    for index in range(1, len(separated)):
        separated[index] = max(separated[index], math.nextafter(separated[index - 1] + 1e-12, math.inf))
    return separated


def _interpolate_cdf(
    grid: Sequence[float], positions: Sequence[float], levels: Sequence[float], ends: tuple[float, float]
) -> list[float]:
    import numpy as np  # noqa: PLC0415 - with scipy a second, and most questions have no grid
    from scipy.interpolate import PchipInterpolator

    inner = PchipInterpolator(positions, levels)
    slope = inner.derivative()
    points = np.asarray(grid, dtype=float)
    cdf = np.asarray(inner(np.clip(points, positions[0], positions[-1])), dtype=float)
    below, above = points < positions[0], points > positions[-1]
    first = _tail_density(float(slope(positions[0])), levels[0], levels[1], positions[1] - positions[0])
    last = _tail_density(float(slope(positions[-1])), 1.0 - levels[-1], 1.0 - levels[-2], positions[-1] - positions[-2])
    lower = _ExponentialTail(levels[0], positions[0] - ends[0], first)
    upper = _ExponentialTail(1.0 - levels[-1], ends[1] - positions[-1], last)
    cdf[below] = [lower.mass_beyond(positions[0] - point) for point in points[below]]
    cdf[above] = [1.0 - upper.mass_beyond(point - positions[-1]) for point in points[above]]
    rising: list[float] = np.maximum.accumulate(np.clip(cdf, 0.0, 1.0)).tolist()
    return rising


def _tail_density(slope: float, outer: float, inner: float, gap: float) -> float:
    """Return the density at the beginning of a tail; outer and inner are the masses beyond the two outermost quantiles.

    PCHIP may end flat if levels are spaced unevenly, and a tail without density would have its mass at the far bound.
    So it has at least the density of the exponential tail through both quantiles.
    """
    return max(slope, outer * math.log(inner / outer) / gap)


class _ExponentialTail:
    """The probability beyond an outermost quantile: ``mass`` in total, over ``length`` (infinite for an open bound).

    Its density falls, or rises, exponentially from the given one, at the rate that gives the total mass.
    """

    def __init__(self, mass: float, length: float, density: float) -> None:
        self.mass = mass
        self.length = length
        self.rate = density / mass if math.isinf(length) else _tail_rate(density * length / mass)

    def mass_beyond(self, distance: float) -> float:
        """Return the mass beyond a distance from the quantile."""
        if math.isinf(self.length):
            return self.mass * math.exp(-self.rate * distance)
        share = distance / self.length
        if self.rate == 0.0 or share >= 1.0:
            return self.mass * max(0.0, 1.0 - share)
        return self.mass * math.expm1(self.rate * (1.0 - share)) / math.expm1(self.rate)


def _tail_rate(ratio: float) -> float:
    """Return u with u / (1 - exp(-u)) = ratio: the rate of a truncated exponential with this first over mean density.

    The left side grows from 0 to infinity and is above u, so the ratio itself bounds u.
    """
    from scipy.optimize import brentq

    def first_over_mean(rate: float) -> float:
        return 1.0 if abs(rate) < 1e-9 else -rate / math.expm1(-rate)

    if ratio >= _MAX_TAIL_RATE:
        return _MAX_TAIL_RATE
    if ratio <= first_over_mean(-_MAX_TAIL_RATE):
        return -_MAX_TAIL_RATE
    return float(brentq(lambda rate: first_over_mean(rate) - ratio, -_MAX_TAIL_RATE, max(ratio, 1.0)))


def _with_minimum_steps(cdf: Sequence[float], step_mass: float) -> list[float]:
    """Mix with even steps so that every step has its minimum mass; both ends stay in their range."""
    steps = len(cdf) - 1
    share = steps * step_mass
    return [min(1.0, (1.0 - share) * value + share * index / steps) for index, value in enumerate(cdf)]
