"""From several trials to one probability, target by target.

Trials are a matrix (trials, targets) in which NaN marks a target that a trial did not answer; every function here
works down the columns and skips NaN. Means of lists are taken per target, never per trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import FloatArray, IntArray
from bot.science.logit import logit, sigmoid

Answer = float | Sequence[float | None] | None


class LogitMoments(NamedTuple):
    """What shrinkage needs to know of the trials, arrays of shape (targets,).

    ``std`` is the population standard deviation of the clipped logits; ``single`` is the probability itself where only
    one trial answered (it is returned unchanged, not even clipped) and NaN elsewhere.
    """

    mean: FloatArray
    std: FloatArray
    single: FloatArray


def trial_matrix(answers: Sequence[Answer], targets: int) -> FloatArray:
    """Lay answers out as (trials, targets): one number serves all targets, None is missing, short lists leave gaps.

    Raises ValueError for no trial, a list longer than targets, or a value outside [0, 1].
    """
    matrix = np.full((len(answers), targets), np.nan)
    for row, answer in zip(matrix, answers, strict=True):
        values = [answer] * targets if isinstance(answer, int | float) else list(answer or ())
        if len(values) > targets:
            message = f"a trial answers {len(values)} targets out of {targets}"
            raise ValueError(message)
        row[: len(values)] = np.array(values, dtype=np.float64)
    return _checked(matrix)


def mean(trials: ArrayLike) -> FloatArray:
    """Return the arithmetic mean of each target, shape (targets,). Source: BLF paper, equation 3.

    Raises ValueError for a target that no trial answered and for values outside [0, 1]; so do all functions here.
    """
    return np.asarray(np.nanmean(_answered(trials), axis=0), dtype=np.float64)


def median(trials: ArrayLike) -> FloatArray:
    """Return the median of each target, shape (targets,); the middle of two for an even number of trials."""
    return np.asarray(np.nanmedian(_answered(trials), axis=0), dtype=np.float64)


def logit_mean(trials: ArrayLike) -> FloatArray:
    """Return the sigmoid of the mean clipped logit of each target, shape (targets,). Source: BLF paper, equation 6."""
    return sigmoid(np.nanmean(_logits(_answered(trials)), axis=0))


def logit_moments(trials: ArrayLike) -> LogitMoments:
    """Return mean and spread of each target's clipped logits."""
    answered = _answered(trials)
    logits = _logits(answered)
    alone = counts(answered) == 1
    return LogitMoments(
        mean=np.asarray(np.nanmean(logits, axis=0), dtype=np.float64),
        std=np.asarray(np.nanstd(logits, axis=0), dtype=np.float64),
        single=np.where(alone, np.nansum(answered, axis=0), np.nan),
    )


def counts(trials: ArrayLike) -> IntArray:
    """Return how many trials answered each target, shape (targets,)."""
    return np.asarray(np.isfinite(_checked(trials)).sum(axis=0), dtype=np.int64)


def _logits(trials: FloatArray) -> FloatArray:
    missing = np.isnan(trials)
    return np.where(missing, np.nan, logit(np.where(missing, 0.5, trials)))


def _answered(trials: ArrayLike) -> FloatArray:
    matrix = _checked(trials)
    missing = np.isnan(matrix).all(axis=0)
    if missing.any():
        message = f"no trial answers target {int(missing.argmax())}"
        raise ValueError(message)
    return matrix


def _checked(trials: ArrayLike) -> FloatArray:
    matrix = np.asarray(trials, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        message = f"want (trials, targets), got shape {matrix.shape}"
        raise ValueError(message)
    if ((matrix < 0.0) | (matrix > 1.0)).any():
        message = "a trial has a probability outside [0, 1]"
        raise ValueError(message)
    return matrix
