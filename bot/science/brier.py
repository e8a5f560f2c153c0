"""Brier score and Brier Index, for one number and for a population.

The index of a population is the transform of its mean Brier score, never a mean of per-question indices: the square
root is concave, and on the synthetic conformance rows the two differ by six points. There are two published
definitions of "Overall"; each has its own name here and a report must say which one it shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import FloatArray, finite, same_length, unit_interval


def brier_scores(probabilities: ArrayLike, outcomes: ArrayLike) -> FloatArray:
    """Return (p - o)^2 row by row; both have shape (n,) and values in [0, 1], fractional outcomes included.

    Raises ValueError for empty or unequal columns and for values outside [0, 1].
    """
    p = unit_interval(probabilities, "probability")
    o = unit_interval(outcomes, "outcome")
    same_length(probabilities=p, outcomes=o)
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
    p = unit_interval(pmfs, "option probability")
    o = np.asarray(outcomes, dtype=np.int64)
    if p.ndim != 2 or o.shape != p.shape[:1] or not o.size:
        message = f"want (n, options) and (n,), got {p.shape} and {o.shape}"
        raise ValueError(message)
    if o.min() < 0 or o.max() >= p.shape[1] or np.abs(p.sum(axis=1) - 1.0).max() > 1e-6:
        message = "an outcome names no option, or the options of a question do not sum to 1"
        raise ValueError(message)
    on_outcome = np.take_along_axis(p, o[:, None], axis=1)[:, 0]
    return np.asarray(np.square(p).sum(axis=1) + 1.0 - 2.0 * on_outcome, dtype=np.float64)


def base_rate(outcomes: ArrayLike) -> float:
    """Return the mean outcome of shape (n,), a share in [0, 1]. Raises ValueError for no rows."""
    o = unit_interval(outcomes, "outcome")
    same_length(outcomes=o)
    return float(o.mean())


def index_of_brier(brier: ArrayLike) -> FloatArray:
    """Return 100 * (1 - sqrt(brier)) in percent, any shape; 50 is the score of always saying one half.

    A difficulty-adjusted mean can be negative; it counts as 0, so its index is 100. Rank by the adjusted score itself,
    which keeps the order. Source: BLF paper, appendix A.2.
    """
    return np.asarray(100.0 * (1.0 - np.sqrt(np.maximum(finite(brier, "Brier score"), 0.0))), dtype=np.float64)


def brier_index(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Return the Brier Index of a population of binary forecasts in percent. Errors as in ``brier_scores``."""
    return float(index_of_brier(mean_brier(probabilities, outcomes)))


def overall_mean_of_indices(group_briers: Sequence[float]) -> float:
    """Return the mean of the groups' indices in percent: the Overall of the BLF paper.

    group_briers are mean Brier scores, one a group (market and dataset). Raises ValueError for no group.
    """
    return float(np.mean(index_of_brier(_groups(group_briers))))


def overall_index_of_mean_brier(group_briers: Sequence[float]) -> float:
    """Return the index of the groups' mean Brier score in percent: the Overall of the public leaderboard.

    Never above ``overall_mean_of_indices``, and about two points below it in practice. Raises ValueError for no group.
    """
    return float(index_of_brier(np.mean(_groups(group_briers))))


def _groups(group_briers: Sequence[float]) -> FloatArray:
    briers = finite(group_briers, "Brier score")
    same_length(group_briers=briers)
    return briers
