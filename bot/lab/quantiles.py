"""Quantiles of a curve: the numbers below which there is so much probability."""

from bisect import bisect_left

from bot.domain.prediction import Curve, CurveShape


def quantile(curve: Curve, shape: CurveShape, level: float) -> float | None:
    """Return the value below which there is so much probability, straight between the points of the grid.

    None where it lies beyond an end of the grid.
    """
    place = bisect_left(curve.cdf, level)
    if place == len(curve.cdf) or (place == 0 and curve.cdf[0] > level):
        return None
    if place == 0:
        return shape.grid[0]
    low, high = curve.cdf[place - 1], curve.cdf[place]
    share = (level - low) / (high - low)
    return shape.grid[place - 1] + share * (shape.grid[place] - shape.grid[place - 1])
