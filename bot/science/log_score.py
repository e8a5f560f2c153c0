"""Logarithmic tournament scores of the probability that was put on what happened.

A baseline score compares with the flat forecast, a peer score with the geometric mean of all forecasters (one's own
included); higher is better and 0 is the comparison itself. ``time_average`` in ``coverage`` turns the scores of the
moments into the score of a question. Source: venue document of the tournament platform, section 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bot.domain.curves import TAIL_MASS
from bot.science.arrays import FloatArray, IntArray, finite, same_length, unit_interval

BINARY_BOUND = 0.001
DISCRETE_SCALE = 100.0
CONTINUOUS_SCALE = 50.0
# The least mass of a step is this share of an even one: 5e-5 with 200 steps.
LEAST_STEP_SHARE = 0.01
_EDGE = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """How a continuous question is cut: ``inside`` buckets of equal width and one beyond each end.

    Bucket 0 lies below the range, 1 .. inside within it (closed on the right), inside + 1 above. ``open_ends`` counts
    the ends (0, 1 or 2) where an outcome beyond the range is possible.
    """

    inside: int
    open_ends: int

    def __post_init__(self) -> None:
        """Refuse an empty range and an impossible number of ends."""
        if self.inside < 1 or self.open_ends not in {0, 1, 2}:
            message = f"want inside >= 1 and 0 to 2 open ends, got {self.inside}, {self.open_ends}"
            raise ValueError(message)


def baseline_binary(probabilities: ArrayLike, outcomes: ArrayLike) -> FloatArray:
    """Return 100 * (1 + log2 q), shape (n,): 100 is perfect, 0 is one half, about -897 the worst.

    q is p where the outcome is at least one half and 1 - p elsewhere, within [0.001, 0.999], the range the platform
    accepts. Raises ValueError for empty or unequal columns and values outside [0, 1].
    """
    p = unit_interval(probabilities, "probability")
    o = unit_interval(outcomes, "outcome")
    same_length(probabilities=p, outcomes=o)
    q = np.clip(np.where(o >= 0.5, p, 1.0 - p), BINARY_BOUND, 1.0 - BINARY_BOUND)
    return np.asarray(100.0 * (1.0 + np.log2(q)), dtype=np.float64)


def baseline_choice(masses: ArrayLike, options: int) -> FloatArray:
    """Return 100 * ln(p * k) / ln(k) for the mass p on the outcome among k options, any shape.

    Raises ValueError for fewer than two options or a mass outside (0, 1].
    """
    if options < 2:
        message = f"a choice has two or more options, got {options}"
        raise ValueError(message)
    return np.asarray(100.0 * (1.0 + _log(masses) / np.log(options)), dtype=np.float64)


def baseline_continuous(masses: ArrayLike, bucket: ArrayLike, buckets: Buckets) -> FloatArray:
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
    return np.asarray(CONTINUOUS_SCALE * (_log(masses) - np.log(flat)), dtype=np.float64)


def baseline_curve(cdfs: ArrayLike, locations: ArrayLike, *, open_lower: bool, open_upper: bool) -> FloatArray:
    """Return the continuous baseline score of each CDF, (n, points) at equal steps, for the location of its outcome.

    A mass below ``least_mass`` counts as that much, so that one certain error costs 230 points at most and not
    infinitely many. Errors as in ``bucket_masses`` and ``scoring_bucket``.
    """
    masses = bucket_masses(cdfs)
    inside = masses.shape[-1] - 2
    bucket = scoring_bucket(locations, inside)
    on_outcome = np.take_along_axis(masses, bucket[..., None], axis=-1)[..., 0]
    buckets = Buckets(inside=inside, open_ends=open_lower + open_upper)
    return baseline_continuous(np.maximum(on_outcome, least_mass(bucket, inside)), bucket, buckets)


def log_scores(masses: ArrayLike) -> FloatArray:
    """Return -ln p for the mass p on the outcome, any shape: 0 is perfect, and less is better (also called log loss).

    A mass below 0.001 counts as 0.001, so that one certain error is 6.9 and not infinite: the platforms accept no less.
    Raises ValueError for a mass outside [0, 1]. Source: I. J. Good, Rational Decisions, JRSS B 14 (1952).
    """
    p = unit_interval(masses, "mass on the outcome")
    return np.asarray(-np.log(np.maximum(p, BINARY_BOUND)), dtype=np.float64)


def least_mass(bucket: ArrayLike, inside: int) -> FloatArray:
    """Return the least mass that the platform accepts in each bucket: 0.01 / inside within the range, 0.001 beyond it.

    A forecast made for another place may have less, even 0, and is then scored as if it had this much.
    """
    where = np.asarray(bucket, dtype=np.int64)
    within = (where >= 1) & (where <= inside)
    return np.asarray(np.where(within, LEAST_STEP_SHARE / inside, BINARY_BOUND), dtype=np.float64)


def peer(masses: ArrayLike, scale: float = DISCRETE_SCALE) -> FloatArray:
    """Return scale * n / (n - 1) * ln(p / g) for n forecasters at one moment; shape (n,), summing to zero.

    g is the geometric mean of all masses on the outcome. A single forecaster scores 0. scale is ``DISCRETE_SCALE`` for
    binary and choice questions, ``CONTINUOUS_SCALE`` for continuous ones. Raises ValueError for a mass outside (0, 1].
    """
    logs = _log(masses)
    same_length(masses=logs)
    if logs.size == 1:
        return np.zeros(1)
    return np.asarray(scale * logs.size / (logs.size - 1) * (logs - logs.mean()), dtype=np.float64)


def bucket_masses(cdf: ArrayLike) -> FloatArray:
    """Turn CDF values at inside + 1 equal steps into masses of the inside + 2 buckets; last axis, any shape before it.

    Raises ValueError for a value outside [0, 1], a CDF that falls, or fewer than two points.
    """
    values = unit_interval(cdf, "CDF value")
    if values.ndim == 0 or values.shape[-1] < 2:
        message = f"a CDF needs two or more points, got shape {values.shape}"
        raise ValueError(message)
    masses = np.diff(values, axis=-1, prepend=0.0, append=1.0)
    if masses.min() < 0.0:
        message = "a CDF never decreases"
        raise ValueError(message)
    return np.asarray(masses, dtype=np.float64)


def scoring_bucket(locations: ArrayLike, inside: int) -> IntArray:
    """Return the bucket of each location u, where 0 and 1 are the ends of the range; any shape.

    u < 0 is bucket 0, u > 1 is inside + 1, both ends belong to the range. No tolerance at u = 1: on a logarithmic scale
    rounding can put the upper bound itself above the range, as the platform does. Raises ValueError for a NaN.
    """
    u = finite(locations, "location")
    within = np.clip(np.floor(u * inside + 1.0 - _EDGE), 1, inside)
    return np.asarray(np.select([u < 0.0, u > 1.0], [0, inside + 1], within), dtype=np.int64)


def option_mass(pmf: Mapping[str, float], outcome: str, catch_all: str) -> float:
    """Return the mass on the option that came true.

    An option that did not exist when the forecast was made reads the mass of the catch-all (last) option.
    Raises KeyError when the forecast knows neither.
    """
    return pmf[outcome] if outcome in pmf else pmf[catch_all]


def take(scores: ArrayLike, weights: ArrayLike) -> float:
    """Return max(sum of score * weight, 0)^2, the share of a prize pool before division by everybody's sum.

    Both have one shape (questions,). Raises ValueError for unequal lengths.
    """
    s, w = finite(scores, "score"), finite(weights, "weight")
    same_length(scores=s, weights=w)
    return max(float(s @ w), 0.0) ** 2


def _log(masses: ArrayLike) -> FloatArray:
    p = unit_interval(masses, "mass on the outcome")
    if p.size and p.min() <= 0.0:
        message = "a mass of 0 on the outcome has no logarithmic score"
        raise ValueError(message)
    return np.asarray(np.log(p), dtype=np.float64)
