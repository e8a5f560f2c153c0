"""Scores of a whole curve: where on a grid the outcome lies, and the continuous ranked probability score (CRPS).

A grid holds the values at which a CDF is asked for, at equal steps of the scaled location u from 0 to 1 (on a
logarithmic scale the values are not evenly spaced, the locations are).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import FloatArray, finite, unit_interval

# So far beyond an end, as a share of the range, a value still counts as the end: what rounding does to a bound.
AT_THE_END = 1e-9


def location(values: ArrayLike, grid: ArrayLike) -> FloatArray:
    """Return the scaled location u of each value, any shape: 0 to 1 within the grid, straight between its points.

    grid has shape (points,) and increases strictly. Whatever lies below is one step below 0 and whatever lies above one
    step above 1, infinities included. Raises ValueError for a NaN or a grid that does not increase.
    """
    points = finite(grid, "grid")
    if points.ndim != 1 or points.size < 2 or np.diff(points).min() <= 0.0:
        message = "a grid needs two or more strictly increasing points"
        raise ValueError(message)
    x = np.asarray(values, dtype=np.float64)
    if np.isnan(x).any():
        message = "a value on a grid is a number"
        raise ValueError(message)
    steps = points.size - 1
    slack = AT_THE_END * (points[-1] - points[0])
    within = np.interp(x, points, np.linspace(0.0, 1.0, points.size))
    beyond = [x < points[0] - slack, x > points[-1] + slack]
    return np.asarray(np.select(beyond, [-1.0 / steps, 1.0 + 1.0 / steps], within), dtype=np.float64)


def crps(cdfs: ArrayLike, locations: ArrayLike) -> FloatArray:
    """Return the integral over u from 0 to 1 of (F(u) - [y <= u])^2: 0 (best) to 1, in shares of the range.

    cdfs has shape (..., points) with values of F at equal steps of u, and F is straight between them; locations has the
    shape before it. An outcome beyond an end counts as that end: of such a miss only what lies on the grid is counted,
    so the score stays proper (it is the threshold-weighted CRPS with weight 1 on the range and 0 beyond it). All mass
    in the outcome's own step scores up to 1 / (3 * steps), not 0, as the mass counts as spread over the step.
    Raises ValueError for values outside [0, 1], a CDF that falls, a location that is not finite or shapes that differ.
    Sources: J. E. Matheson and R. L. Winkler, Management Science 22 (1976); T. Gneiting and A. E. Raftery, JASA 102
    (2007), equation 20; T. Gneiting and R. Ranjan, JBES 29 (2011) for the weight.
    """
    curves, y = unit_interval(cdfs, "CDF value"), finite(locations, "location")
    if curves.ndim == 0 or curves.shape[-1] < 2 or y.shape != curves.shape[:-1]:
        message = f"want (..., points) and (...), got {curves.shape} and {y.shape}"
        raise ValueError(message)
    first, last = curves[..., :-1], curves[..., 1:]
    if (last < first).any():
        message = "a CDF never decreases"
        raise ValueError(message)
    steps = first.shape[-1]
    # The share of each step that lies before the outcome: there F^2 counts, after it (1 - F)^2.
    before = np.clip(y[..., None] * steps - np.arange(steps), 0.0, 1.0)
    middle = first + before * (last - first)
    parts = before * _squared(first, middle) + (1.0 - before) * _squared(1.0 - middle, 1.0 - last)
    return np.asarray(parts.sum(axis=-1) / steps, dtype=np.float64)


def _squared(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the mean square of a line from a to b."""
    return np.asarray((a * a + a * b + b * b) / 3.0, dtype=np.float64)
