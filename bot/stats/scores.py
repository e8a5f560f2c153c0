"""Scores of forecasts on arrays.

Brier score and Brier Index, CRPS of curves, and logarithmic baseline and peer scores of tournaments. The index of a
population is that of its mean Brier score, never a mean of indices; the two published definitions of Overall have
separate names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bot.core.distributions import TAIL_MASS
from bot.core.light_dataclass import dataclass
from bot.stats.arrays import FloatArray, IntArray, require_finite, require_same_length, require_unit_interval


def brier_scores(probabilities: ArrayLike, outcomes: ArrayLike) -> FloatArray:
    """Return (p - o)^2 row by row; both have shape (n,) and values in [0, 1], fractional outcomes included.

    Raises ValueError for empty or unequal columns and for values outside [0, 1].
    """
    p = require_unit_interval(probabilities, "probability")
    o = require_unit_interval(outcomes, "outcome")
    require_same_length(probabilities=p, outcomes=o)
    return np.asarray(np.square(p - o), dtype=np.float64)


def mean_brier(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Return the mean Brier score of binary forecasts, 0 (best) to 1. Errors as in ``brier_scores``."""
    return float(brier_scores(probabilities, outcomes).mean())


def choice_brier_scores(pmfs: ArrayLike, outcomes: ArrayLike) -> FloatArray:
    """Return sum over options of (p - o)^2 for each question: 0 (best) to 2, twice the binary score for two options.

    pmfs has shape (n, options) with rows that sum to 1 within 1e-6 (pad short rows with zeros: padding costs nothing);
    outcomes has shape (n,) and holds the index of the option that came true. Raises ValueError otherwise.
    Source: G. W. Brier, Monthly Weather Review 78 (1950), equation 2.
    """
    p = require_unit_interval(pmfs, "option probability")
    o = np.asarray(outcomes, dtype=np.int64)
    if p.ndim != 2 or o.shape != p.shape[:1] or not o.size:
        message = f"needs (n, options) and (n,), got {p.shape} and {o.shape}"
        raise ValueError(message)
    if o.min() < 0 or o.max() >= p.shape[1] or np.abs(p.sum(axis=1) - 1.0).max() > 1e-6:
        message = "an outcome names no option, or the options of a question do not sum to 1"
        raise ValueError(message)
    on_outcome = np.take_along_axis(p, o[:, None], axis=1)[:, 0]
    return np.asarray(np.square(p).sum(axis=1) + 1.0 - 2.0 * on_outcome, dtype=np.float64)


def mean_outcome(outcomes: ArrayLike) -> float:
    """Return the mean outcome of shape (n,), a share in [0, 1]. Raises ValueError for no rows."""
    o = require_unit_interval(outcomes, "outcome")
    require_same_length(outcomes=o)
    return float(o.mean())


def index_from_brier(brier: ArrayLike) -> FloatArray:
    """Return 100 * (1 - sqrt(brier)) in percent, any shape; 50 is the score of always saying one half.

    A difficulty-adjusted mean can be negative; it counts as 0, so its index is 100. Rank by the adjusted score itself,
    which keeps the order. Source: BLF paper, appendix A.2.
    """
    return np.asarray(100.0 * (1.0 - np.sqrt(np.maximum(require_finite(brier, "Brier score"), 0.0))), dtype=np.float64)


def brier_index(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Return the Brier Index of a population of binary forecasts in percent. Errors as in ``brier_scores``."""
    return float(index_from_brier(mean_brier(probabilities, outcomes)))


def overall_mean_of_indices(group_briers: Sequence[float]) -> float:
    """Return the mean of the groups' indices in percent: the Overall of the BLF paper.

    group_briers are mean Brier scores, one a group (market and dataset). Raises ValueError for no group.
    """
    return float(np.mean(index_from_brier(_require_groups(group_briers))))


def overall_index_of_mean_brier(group_briers: Sequence[float]) -> float:
    """Return the index of the groups' mean Brier score in percent: the Overall of the public leaderboard.

    Never above ``overall_mean_of_indices``, and about two points below it in practice. Raises ValueError for no group.
    """
    return float(index_from_brier(np.mean(_require_groups(group_briers))))


def _require_groups(group_briers: Sequence[float]) -> FloatArray:
    briers = require_finite(group_briers, "Brier score")
    require_same_length(group_briers=briers)
    return briers


# A value at most this far beyond an end, as a share of the range, counts as the end, because of rounding.
END_TOLERANCE = 1e-9


def grid_locations(values: ArrayLike, grid: ArrayLike) -> FloatArray:
    """Return the scaled location u of each value, any shape: 0 to 1 within the grid, linear between its points.

    grid has shape (points,) and increases strictly. Values below are one step below 0 and values above one step above
    1, infinities included. Raises ValueError for a NaN or a grid that does not increase.
    """
    points = require_finite(grid, "grid")
    if points.ndim != 1 or points.size < 2 or np.diff(points).min() <= 0.0:
        message = "a grid needs two or more strictly increasing points"
        raise ValueError(message)
    x = np.asarray(values, dtype=np.float64)
    if np.isnan(x).any():
        message = "a value on a grid is not a number"
        raise ValueError(message)
    steps = points.size - 1
    slack = END_TOLERANCE * (points[-1] - points[0])
    within = np.interp(x, points, np.linspace(0.0, 1.0, points.size))
    beyond = [x < points[0] - slack, x > points[-1] + slack]
    return np.asarray(np.select(beyond, [-1.0 / steps, 1.0 + 1.0 / steps], within), dtype=np.float64)


def crps_scores(cdfs: ArrayLike, locations: ArrayLike) -> FloatArray:
    """Return the integral over u from 0 to 1 of (F(u) - [y <= u])^2: 0 (best) to 1, in shares of the range.

    cdfs has shape (..., points) with values of F at equal steps of u, and F is linear between them; locations has the
    shape before it. An outcome beyond an end counts as that end: only the part of such a miss that lies on the grid is
    counted, so the score stays proper (it is the threshold-weighted CRPS with weight 1 on the range and 0 beyond it).
    All mass in the outcome's own step scores up to 1 / (3 * steps), not 0, as the mass counts as spread over the step.
    Raises ValueError for values outside [0, 1], a CDF that falls, a location that is not finite or shapes that differ.
    Sources: J. E. Matheson and R. L. Winkler, Management Science 22 (1976); T. Gneiting and A. E. Raftery, JASA 102
    (2007), equation 20; T. Gneiting and R. Ranjan, JBES 29 (2011) for the weight.
    """
    curves, y = require_unit_interval(cdfs, "CDF value"), require_finite(locations, "location")
    if curves.ndim == 0 or curves.shape[-1] < 2 or y.shape != curves.shape[:-1]:
        message = f"needs (..., points) and (...), got {curves.shape} and {y.shape}"
        raise ValueError(message)
    first, last = curves[..., :-1], curves[..., 1:]
    if (last < first).any():
        message = "a CDF never decreases"
        raise ValueError(message)
    steps = first.shape[-1]
    # The share of each step before the outcome: there F^2 counts, after it (1 - F)^2.
    before = np.clip(y[..., None] * steps - np.arange(steps), 0.0, 1.0)
    middle = first + before * (last - first)
    parts = before * _mean_square(first, middle) + (1.0 - before) * _mean_square(1.0 - middle, 1.0 - last)
    return np.asarray(parts.sum(axis=-1) / steps, dtype=np.float64)


def _mean_square(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the mean square of a line from a to b."""
    return np.asarray((a * a + a * b + b * b) / 3.0, dtype=np.float64)


MIN_PROBABILITY = 0.001
DISCRETE_PEER_SCALE = 100.0
CONTINUOUS_PEER_SCALE = 50.0
# The minimum mass of a step is this share of an even step: 5e-5 with 200 steps.
MIN_STEP_SHARE = 0.01
_EDGE_TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLayout:
    """How a continuous question is cut: ``inside`` buckets of equal width and one beyond each end.

    Bucket 0 lies below the range, 1 .. inside within it (closed on the right), inside + 1 above. ``open_ends`` counts
    the ends (0, 1 or 2) where an outcome beyond the range is possible.
    """

    inside: int
    open_ends: int

    def __post_init__(self) -> None:
        """Refuse an empty range and an impossible number of ends."""
        if self.inside < 1 or self.open_ends not in {0, 1, 2}:
            message = f"needs inside >= 1 and 0 to 2 open ends, got {self.inside}, {self.open_ends}"
            raise ValueError(message)


def binary_baseline_scores(probabilities: ArrayLike, outcomes: ArrayLike) -> FloatArray:
    """Return 100 * (1 + log2 q), shape (n,): 100 is perfect, 0 is one half, about -897 the worst.

    q is p where the outcome is at least one half and 1 - p elsewhere, within [0.001, 0.999], the range the platform
    accepts. Raises ValueError for empty or unequal columns and values outside [0, 1].
    """
    p = require_unit_interval(probabilities, "probability")
    o = require_unit_interval(outcomes, "outcome")
    require_same_length(probabilities=p, outcomes=o)
    q = np.clip(np.where(o >= 0.5, p, 1.0 - p), MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return np.asarray(100.0 * (1.0 + np.log2(q)), dtype=np.float64)


def choice_baseline_scores(masses: ArrayLike, options: int) -> FloatArray:
    """Return 100 * ln(p * k) / ln(k) for the mass p on the outcome among k options, any shape.

    Raises ValueError for fewer than two options or a mass outside (0, 1].
    """
    if options < 2:
        message = f"a choice has two or more options, got {options}"
        raise ValueError(message)
    return np.asarray(100.0 * (1.0 + _log_mass(masses) / np.log(options)), dtype=np.float64)


def continuous_baseline_scores(masses: ArrayLike, bucket: ArrayLike, buckets: BucketLayout) -> FloatArray:
    """Return 50 * ln(p / b) for the mass p in the outcome's bucket, any shape shared by masses and bucket.

    The flat forecast b keeps 0.05 for each open end and spreads the rest evenly over the inside.
    Raises ValueError for a mass outside (0, 1] or a bucket outside 0 .. inside + 1.
    """
    where = np.asarray(bucket, dtype=np.int64)
    if where.size and (where.min() < 0 or where.max() > buckets.inside + 1):
        message = f"buckets run from 0 to {buckets.inside + 1}"
        raise ValueError(message)
    within = (where >= 1) & (where <= buckets.inside)
    flat = np.where(within, (1.0 - TAIL_MASS * buckets.open_ends) / buckets.inside, TAIL_MASS)
    return np.asarray(CONTINUOUS_PEER_SCALE * (_log_mass(masses) - np.log(flat)), dtype=np.float64)


def curve_baseline_scores(cdfs: ArrayLike, locations: ArrayLike, *, open_lower: bool, open_upper: bool) -> FloatArray:
    """Return the continuous baseline score of each CDF, (n, points) at equal steps, for the location of its outcome.

    A mass below ``min_bucket_mass`` counts as that much, so that one certain error costs 230 points at most and not
    infinitely many. Errors as in ``bucket_masses`` and ``outcome_buckets``.
    """
    masses = bucket_masses(cdfs)
    inside = masses.shape[-1] - 2
    bucket = outcome_buckets(locations, inside)
    on_outcome = np.take_along_axis(masses, bucket[..., None], axis=-1)[..., 0]
    buckets = BucketLayout(inside=inside, open_ends=open_lower + open_upper)
    return continuous_baseline_scores(np.maximum(on_outcome, min_bucket_mass(bucket, inside)), bucket, buckets)


def log_scores(masses: ArrayLike) -> FloatArray:
    """Return -ln p for the mass p on the outcome, any shape: 0 is perfect, and less is better (also called log loss).

    A mass below 0.001 counts as 0.001, so that one certain error is 6.9 and not infinite: the platforms accept no less.
    Raises ValueError for a mass outside [0, 1]. Source: I. J. Good, Rational Decisions, JRSS B 14 (1952).
    """
    p = require_unit_interval(masses, "mass on the outcome")
    return np.asarray(-np.log(np.maximum(p, MIN_PROBABILITY)), dtype=np.float64)


def min_bucket_mass(bucket: ArrayLike, inside: int) -> FloatArray:
    """Return the least mass that the platform accepts in each bucket: 0.01 / inside within the range, 0.001 beyond it.

    A forecast made for another venue may have less, even 0, and is then scored as if it had this much.
    """
    where = np.asarray(bucket, dtype=np.int64)
    within = (where >= 1) & (where <= inside)
    return np.asarray(np.where(within, MIN_STEP_SHARE / inside, MIN_PROBABILITY), dtype=np.float64)


def peer_scores(masses: ArrayLike, scale: float = DISCRETE_PEER_SCALE) -> FloatArray:
    """Return scale * n / (n - 1) * ln(p / g) for n forecasters at one moment; shape (n,), summing to zero.

    g is the geometric mean of all masses on the outcome. A single forecaster scores 0. scale is ``DISCRETE_PEER_SCALE``
    for binary and choice questions, ``CONTINUOUS_PEER_SCALE`` for continuous ones. Raises ValueError for a mass outside
    (0, 1].
    """
    logs = _log_mass(masses)
    require_same_length(masses=logs)
    if logs.size == 1:
        return np.zeros(1)
    return np.asarray(scale * logs.size / (logs.size - 1) * (logs - logs.mean()), dtype=np.float64)


def bucket_masses(cdf: ArrayLike) -> FloatArray:
    """Turn CDF values at inside + 1 equal steps into masses of the inside + 2 buckets; last axis, any shape before it.

    Raises ValueError for a value outside [0, 1], a CDF that falls, or fewer than two points.
    """
    values = require_unit_interval(cdf, "CDF value")
    if values.ndim == 0 or values.shape[-1] < 2:
        message = f"a CDF needs two or more points, got shape {values.shape}"
        raise ValueError(message)
    masses = np.diff(values, axis=-1, prepend=0.0, append=1.0)
    if masses.min() < 0.0:
        message = "a CDF never decreases"
        raise ValueError(message)
    return np.asarray(masses, dtype=np.float64)


def outcome_buckets(locations: ArrayLike, inside: int) -> IntArray:
    """Return the bucket of each location u, where 0 and 1 are the ends of the range; any shape.

    u < 0 is bucket 0, u > 1 is inside + 1, both ends belong to the range. No tolerance at u = 1: on a logarithmic scale
    rounding can put the upper bound itself above the range, as the platform does. Raises ValueError for a NaN.
    """
    u = require_finite(locations, "location")
    within = np.clip(np.floor(u * inside + 1.0 - _EDGE_TOLERANCE), 1, inside)
    return np.asarray(np.select([u < 0.0, u > 1.0], [0, inside + 1], within), dtype=np.int64)


def _log_mass(masses: ArrayLike) -> FloatArray:
    p = require_unit_interval(masses, "mass on the outcome")
    if p.size and p.min() <= 0.0:
        message = "a mass of 0 on the outcome has no logarithmic score"
        raise ValueError(message)
    return np.asarray(np.log(p), dtype=np.float64)
