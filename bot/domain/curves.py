"""From a few quantiles, as a person or a model states them, to a CDF on a question's grid, and back.

Where nothing is known at all there is the flat prediction.

Between the quantiles the CDF is the monotone cubic of Fritsch and Carlson (PCHIP). Beyond the lowest and the highest
one it has an exponential tail that goes on with the density it meets there: towards a closed bound it is cut off at
the bound, so that the CDF is exactly 0 or 1 there; towards an open bound some of it lies beyond the grid.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from bot.domain.prediction import Binary, Choice, ChoiceShape, Curve, CurveShape, Prediction, Shape

# What the flat prediction leaves beyond each open bound: the tournament platform's baseline scores compare with it.
# Source: its venue document, section 9.
TAIL_MASS = 0.05
# Equal quantiles are a jump; it is drawn this wide, as a share of the grid's length. No venue's cells are so narrow.
_JUMP = 1e-6
# A quantile farther outside than this many lengths of the grid says no more on it than one as far as that.
_FARTHEST = 1e6
# Beyond this steepness a tail is a point mass for every grid there is, and exp would leave the floats.
_STEEPEST = 500.0


def curve_through(quantiles: Mapping[float, float], shape: CurveShape, *, step_mass: float = 0.0) -> Curve:
    """Return the CDF on the grid of the shape that passes through the quantiles.

    ``quantiles`` maps levels in (0, 1) to values in the question's unit, two or more, finite and not decreasing with
    the level; equal values are a jump. A value beyond a closed bound counts as the bound. ``step_mass`` is the least
    probability of each step of the grid, for venues that ask for one. Raises ValueError for anything else.
    """
    levels, values = _checked(quantiles)
    if not 0.0 <= step_mass * (len(shape.grid) - 1) < 1.0:
        message = f"{len(shape.grid) - 1} steps of at least {step_mass:g} leave no room within probability 1"
        raise ValueError(message)
    low, high = shape.grid[0], shape.grid[-1]
    bounds = (-math.inf if shape.open_lower else low, math.inf if shape.open_upper else high)
    within = [min(max(value, bounds[0]), bounds[1]) for value in values]
    # In units of the grid's length: a difference of dates in seconds would lose digits in the cubic.
    spots = _apart([min(max((value - low) / (high - low), -_FARTHEST), _FARTHEST) for value in within])
    ends = ((bounds[0] - low) / (high - low), (bounds[1] - low) / (high - low))
    cdf = _with_floor(_through([(point - low) / (high - low) for point in shape.grid], spots, levels, ends), step_mass)
    if not shape.open_lower:
        cdf[0] = 0.0
    if not shape.open_upper:
        cdf[-1] = 1.0
    return Curve(tuple(cdf))


def flat_prediction(shape: Shape) -> Prediction:
    """Return what is said where nothing is known: one half, the same for each option, the flat curve.

    The flat curve has ``TAIL_MASS`` beyond each open bound and rises evenly over the steps of the grid, which are those
    of the question's scale: its baseline score is 0 whatever happens.
    """
    match shape:
        case ChoiceShape(options=options):
            return Choice(dict.fromkeys(options, 1.0 / len(options)))
        case CurveShape(grid=grid):
            low, high = TAIL_MASS * shape.open_lower, 1.0 - TAIL_MASS * shape.open_upper
            steps = len(grid) - 1
            return Curve(tuple(low + (high - low) * (step / steps) for step in range(steps + 1)))
        case _:
            return Binary(0.5)


def quantile(curve: Curve, shape: CurveShape, level: float) -> float | None:
    """Return the value below which there is so much probability, straight between the points of the grid.

    Of a discrete question it is the value within whose step the level lies. None where it lies beyond an end of the
    grid.
    """
    cdf, grid = curve.cdf, shape.grid
    above = bisect_left(cdf, level)
    if above == len(cdf) or (above == 0 and cdf[0] > level):
        return None
    if shape.discrete:
        return shape.middle(max(above, 1))
    if above == 0:
        return grid[0]
    share = (level - cdf[above - 1]) / (cdf[above] - cdf[above - 1])
    return grid[above - 1] + share * (grid[above] - grid[above - 1])


def quantiles_of(curve: Curve, shape: CurveShape, levels: Sequence[float]) -> dict[float, float]:
    """Return the value at each level, straight between the points of the grid.

    A level that lies beyond an open bound has the end of the grid as its value, since the CDF says no more.
    """
    return {level: quantile_within(curve, shape, level) for level in levels}


def quantile_within(curve: Curve, shape: CurveShape, level: float) -> float:
    """Return the value at a level as ``quantile`` does; beyond the grid it is the end there."""
    found = quantile(curve, shape, level)
    return shape.ends[0 if curve.cdf[0] > level else 1] if found is None else found


def _checked(quantiles: Mapping[float, float]) -> tuple[list[float], list[float]]:
    levels = sorted(quantiles)
    values = [quantiles[level] for level in levels]
    if len(levels) < 2 or not all(0.0 < level < 1.0 for level in levels):
        message = f"two or more levels between 0 and 1 are needed, got {levels}"
        raise ValueError(message)
    if not all(math.isfinite(value) for value in values) or any(b < a for a, b in pairwise(values)):
        message = f"quantiles must be finite and must not decrease: {', '.join(f'{value:.6g}' for value in values)}"
        raise ValueError(message)
    return levels, values


def _apart(spots: Sequence[float]) -> list[float]:
    """Return the places with equal ones spread over a narrow jump that ends where they are."""
    apart: list[float] = []
    for spot, group in groupby(spots):
        count = len([*group])
        room = min(_JUMP, (spot - apart[-1]) / 2) if apart else _JUMP
        apart += [spot - room * (count - 1 - index) / count for index in range(count)]
    # Two places may be different and yet too near to each other for a difference of floats.
    for index in range(1, len(apart)):
        apart[index] = max(apart[index], math.nextafter(apart[index - 1] + 1e-12, math.inf))
    return apart


def _through(
    grid: Sequence[float], spots: Sequence[float], levels: Sequence[float], ends: tuple[float, float]
) -> list[float]:
    import numpy as np  # noqa: PLC0415 - with scipy a second, and most questions have no grid
    from scipy.interpolate import PchipInterpolator

    inner = PchipInterpolator(spots, levels)
    slope = inner.derivative()
    points = np.asarray(grid, dtype=float)
    cdf = np.asarray(inner(np.clip(points, spots[0], spots[-1])), dtype=float)
    below, above = points < spots[0], points > spots[-1]
    first = _density(float(slope(spots[0])), levels[0], levels[1], spots[1] - spots[0])
    last = _density(float(slope(spots[-1])), 1.0 - levels[-1], 1.0 - levels[-2], spots[-1] - spots[-2])
    lower = _Tail(levels[0], spots[0] - ends[0], first)
    upper = _Tail(1.0 - levels[-1], ends[1] - spots[-1], last)
    cdf[below] = [lower.beyond(spots[0] - point) for point in points[below]]
    cdf[above] = [1.0 - upper.beyond(point - spots[-1]) for point in points[above]]
    rising: list[float] = np.maximum.accumulate(np.clip(cdf, 0.0, 1.0)).tolist()
    return rising


def _density(slope: float, outer: float, inner: float, gap: float) -> float:
    """Return the density with which a tail begins; outer and inner are the masses beyond the two outermost quantiles.

    PCHIP may end flat where levels are spaced unevenly, and a tail without density would put its mass at the far
    bound. So it has at least the density of the exponential tail through both quantiles.
    """
    return max(slope, outer * math.log(inner / outer) / gap)


class _Tail:
    """The probability beyond an outermost quantile: ``mass`` in all, over ``length`` (infinite for an open bound).

    Its density falls, or rises, exponentially from the given one, at the rate at which the whole mass fits.
    """

    def __init__(self, mass: float, length: float, density: float) -> None:
        self.mass = mass
        self.length = length
        self.rate = density / mass if math.isinf(length) else _rate(density * length / mass)

    def beyond(self, distance: float) -> float:
        """Return the mass that lies farther out than the distance from the quantile."""
        if math.isinf(self.length):
            return self.mass * math.exp(-self.rate * distance)
        share = distance / self.length
        if self.rate == 0.0 or share >= 1.0:
            return self.mass * max(0.0, 1.0 - share)
        return self.mass * math.expm1(self.rate * (1.0 - share)) / math.expm1(self.rate)


def _rate(ratio: float) -> float:
    """Return u with u / (1 - exp(-u)) = ratio: the rate of a cut-off exponential from its first over its mean density.

    The left side grows from 0 to infinity and lies above u, so the ratio itself bounds u.
    """
    from scipy.optimize import brentq

    def first_over_mean(rate: float) -> float:
        return 1.0 if abs(rate) < 1e-9 else -rate / math.expm1(-rate)

    if ratio >= _STEEPEST:
        return _STEEPEST
    if ratio <= first_over_mean(-_STEEPEST):
        return -_STEEPEST
    return float(brentq(lambda rate: first_over_mean(rate) - ratio, -_STEEPEST, max(ratio, 1.0)))


def _with_floor(cdf: Sequence[float], step_mass: float) -> list[float]:
    """Mix with even steps in the share that gives every step its least mass; both ends stay in their range."""
    steps = len(cdf) - 1
    share = steps * step_mass
    return [min(1.0, (1.0 - share) * value + share * index / steps) for index, value in enumerate(cdf)]
