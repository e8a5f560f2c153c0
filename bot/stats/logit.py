"""The logit scale: the one place that decides how far a probability may approach 0 and 1 before a logarithm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from bot.stats.arrays import FloatArray, require_unit_interval

LOGIT_EPSILON = 1e-4


def logit(probabilities: ArrayLike, eps: float = LOGIT_EPSILON) -> FloatArray:
    """Return log(p / (1 - p)) after clipping p to [eps, 1 - eps]; any shape.

    Raises ValueError for a value outside [0, 1]. Source of the default eps: conformance vectors, ``eps_logit``.
    """
    clipped = np.clip(require_unit_interval(probabilities, "probability"), eps, 1.0 - eps)
    return np.asarray(np.log(clipped) - np.log1p(-clipped), dtype=np.float64)


def log_odds(probability: float, eps: float = 0.0) -> float:
    """Return log(p / (1 - p)) of one number after clipping it to [eps, 1 - eps].

    Raises ValueError or ZeroDivisionError for 0 and 1 where ``eps`` is 0.
    """
    clipped = min(max(probability, eps), 1.0 - eps)
    return math.log(clipped / (1.0 - clipped))


def sigmoid(log_odds: ArrayLike) -> FloatArray:
    """Return 1 / (1 + exp(-x)) without overflow, any shape."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(log_odds, dtype=np.float64))), dtype=np.float64)
