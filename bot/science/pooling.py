"""Pools of whole distributions: options of a choice and curves on a shared grid.

The linear pool averages probabilities and keeps every opinion; the log-linear pool averages log-probabilities, so it is
sharper where opinions agree and any single zero vetoes. Neither may be given distributions on different grids.
Source: C. Genest and J. V. Zidek, Combining Probability Distributions, Statistical Science 1 (1986).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import FloatArray, finite, unit_interval
from bot.science.log_score import bucket_masses

EPS_MASS = 1e-6


def linear_pool(distributions: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Return the weighted mean of pmfs or CDFs; (opinions, points) becomes (points,).

    weights has shape (opinions,), defaults to equal ones and is scaled to sum to 1. Raises ValueError for values
    outside [0, 1], a wrong shape, or weights that are negative or all zero.
    """
    opinions = _opinions(distributions)
    pooled = _weights(weights, opinions) @ opinions
    # Rounding must not open a closed bound: where all opinions agree the pool agrees exactly.
    return np.clip(pooled, opinions.min(axis=0), opinions.max(axis=0))


def log_pool(pmfs: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Return the normalised weighted geometric mean of pmfs; (opinions, options) becomes (options,).

    Masses below 1e-6 count as 1e-6, so that one overconfident zero cannot forbid an option. Errors as in
    ``linear_pool``.
    """
    opinions = _opinions(pmfs)
    logs = _weights(weights, opinions) @ np.log(np.maximum(opinions, EPS_MASS))
    masses = np.exp(logs - logs.max())
    return np.asarray(masses / masses.sum(), dtype=np.float64)


def log_pool_cdf(cdfs: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Return the CDF whose bucket masses (both tails included) are the log-linear pool of the opinions'.

    (opinions, points) becomes (points,). A tail that every opinion leaves empty (a closed bound) stays empty.
    Raises ValueError for a CDF that falls; other errors as in ``linear_pool``.
    """
    masses = bucket_masses(_opinions(cdfs))
    used = masses.max(axis=0) > 0.0
    pooled = np.zeros(masses.shape[1])
    pooled[used] = log_pool(masses[:, used], weights)
    top = 1.0 - pooled[-1]
    cdf = np.minimum(np.cumsum(pooled)[:-1], top)
    cdf[-1] = top
    return np.asarray(cdf, dtype=np.float64)


def _opinions(distributions: ArrayLike) -> FloatArray:
    opinions = unit_interval(distributions, "probability")
    if opinions.ndim != 2 or not opinions.size:
        message = f"want (opinions, points), got shape {opinions.shape}"
        raise ValueError(message)
    return opinions


def _weights(weights: ArrayLike | None, opinions: FloatArray) -> FloatArray:
    raw = np.ones(len(opinions)) if weights is None else finite(weights, "weight")
    if raw.shape != opinions.shape[:1] or raw.min() < 0.0 or raw.sum() <= 0.0:
        message = f"want {len(opinions)} weights of at least 0, not all 0"
        raise ValueError(message)
    return np.asarray(raw / raw.sum(), dtype=np.float64)
