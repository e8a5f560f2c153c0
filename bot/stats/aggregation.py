"""From several trials or opinions to one.

Means of probabilities target by target, linear and logarithmic pools of distributions, and shrinkage towards a prior.
Sources: BLF paper, equations 3, 6, 10 and 11; C. Genest and J. V. Zidek (1986).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bot.core.beliefs import PriorSource
from bot.core.light_dataclass import dataclass
from bot.stats.arrays import (
    FloatArray,
    IntArray,
    logit,
    require_finite,
    require_same_length,
    require_unit_interval,
    sigmoid,
)
from bot.stats.scores import bucket_masses

TrialAnswer = float | Sequence[float | None] | None


class LogitMoments(NamedTuple):
    """The figures of the trials that shrinkage needs, arrays of shape (targets,).

    ``std`` is the population standard deviation of the clipped logits; ``single`` is the probability itself where only
    one trial answered (it is returned unchanged, not even clipped) and NaN elsewhere.
    """

    mean: FloatArray
    std: FloatArray
    single: FloatArray


def trial_matrix(answers: Sequence[TrialAnswer], targets: int) -> FloatArray:
    """Arrange answers as (trials, targets): one number counts for all targets, None is missing, short lists have gaps.

    Raises ValueError for no trial, a list longer than targets, or a value outside [0, 1].
    """
    matrix = np.full((len(answers), targets), np.nan)
    for row, answer in zip(matrix, answers, strict=True):
        values = [answer] * targets if isinstance(answer, int | float) else list(answer or ())
        if len(values) > targets:
            message = f"a trial answers {len(values)} targets out of {targets}"
            raise ValueError(message)
        row[: len(values)] = np.array(values, dtype=np.float64)
    return _require_trial_matrix(matrix)


def mean_probability(trials: ArrayLike) -> FloatArray:
    """Return the arithmetic mean of each target, shape (targets,). Source: BLF paper, equation 3.

    Raises ValueError for a target that no trial answered and for values outside [0, 1]; so do all functions here.
    """
    return np.asarray(np.nanmean(_require_answers(trials), axis=0), dtype=np.float64)


def median_probability(trials: ArrayLike) -> FloatArray:
    """Return the median of each target, shape (targets,); the middle of two for an even number of trials."""
    return np.asarray(np.nanmedian(_require_answers(trials), axis=0), dtype=np.float64)


def logit_mean_probability(trials: ArrayLike) -> FloatArray:
    """Return the sigmoid of the mean clipped logit of each target, shape (targets,). Source: BLF paper, equation 6."""
    return sigmoid(np.nanmean(_clipped_logits(_require_answers(trials)), axis=0))


def logit_moments(trials: ArrayLike) -> LogitMoments:
    """Return mean and spread of each target's clipped logits."""
    answered = _require_answers(trials)
    logits = _clipped_logits(answered)
    alone = answer_counts(answered) == 1
    return LogitMoments(
        mean=np.asarray(np.nanmean(logits, axis=0), dtype=np.float64),
        std=np.asarray(np.nanstd(logits, axis=0), dtype=np.float64),
        single=np.where(alone, np.nansum(answered, axis=0), np.nan),
    )


def answer_counts(trials: ArrayLike) -> IntArray:
    """Return how many trials answered each target, shape (targets,)."""
    return np.asarray(np.isfinite(_require_trial_matrix(trials)).sum(axis=0), dtype=np.int64)


def _clipped_logits(trials: FloatArray) -> FloatArray:
    missing = np.isnan(trials)
    return np.where(missing, np.nan, logit(np.where(missing, 0.5, trials)))


def _require_answers(trials: ArrayLike) -> FloatArray:
    matrix = _require_trial_matrix(trials)
    missing = np.isnan(matrix).all(axis=0)
    if missing.any():
        message = f"no trial answers target {int(missing.argmax())}"
        raise ValueError(message)
    return matrix


def _require_trial_matrix(trials: ArrayLike) -> FloatArray:
    matrix = np.asarray(trials, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        message = f"needs (trials, targets), got shape {matrix.shape}"
        raise ValueError(message)
    if ((matrix < 0.0) | (matrix > 1.0)).any():
        message = "a trial has a probability outside [0, 1]"
        raise ValueError(message)
    return matrix


MIN_POOLED_MASS = 1e-6


def linear_pool(distributions: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Return the weighted mean of pmfs or CDFs; (opinions, points) becomes (points,).

    weights has shape (opinions,), defaults to equal ones and is scaled to sum to 1. Raises ValueError for values
    outside [0, 1], a wrong shape, or weights that are negative or all zero.
    """
    opinions = _require_opinions(distributions)
    pooled = _normalise_weights(weights, opinions) @ opinions
    # Rounding must not open a closed bound: where all opinions agree the pool agrees exactly.
    return np.clip(pooled, opinions.min(axis=0), opinions.max(axis=0))


def logarithmic_pool(pmfs: ArrayLike, weights: ArrayLike | None = None, *, power: float = 1.0) -> FloatArray:
    """Return the normalised weighted geometric mean of pmfs; (opinions, options) becomes (options,).

    Above 1 the power makes the pool surer, below 1 flatter. Masses below 1e-6 count as 1e-6, so that one overconfident
    zero cannot forbid an option. Errors as in ``linear_pool``.
    """
    opinions = _require_opinions(pmfs)
    logs = power * (_normalise_weights(weights, opinions) @ np.log(np.maximum(opinions, MIN_POOLED_MASS)))
    masses = np.exp(logs - logs.max())
    return np.asarray(masses / masses.sum(), dtype=np.float64)


def logarithmic_pool_cdf(cdfs: ArrayLike, weights: ArrayLike | None = None, *, power: float = 1.0) -> FloatArray:
    """Return the CDF whose bucket masses (both tails included) are the log-linear pool of the opinions'.

    (opinions, points) becomes (points,). A tail that is empty in every opinion (a closed bound) stays empty; ``power``
    as in ``logarithmic_pool``. Raises ValueError for a CDF that falls; other errors as in ``linear_pool``.
    """
    masses = bucket_masses(_require_opinions(cdfs))
    used = masses.max(axis=0) > 0.0
    pooled = np.zeros(masses.shape[1])
    pooled[used] = logarithmic_pool(masses[:, used], weights, power=power)
    top = 1.0 - pooled[-1]
    cdf = np.minimum(np.cumsum(pooled)[:-1], top)
    cdf[-1] = top
    return np.asarray(cdf, dtype=np.float64)


def _require_opinions(distributions: ArrayLike) -> FloatArray:
    opinions = require_unit_interval(distributions, "probability")
    if opinions.ndim != 2 or not opinions.size:
        message = f"needs (opinions, points), got shape {opinions.shape}"
        raise ValueError(message)
    return opinions


def _normalise_weights(weights: ArrayLike | None, opinions: FloatArray) -> FloatArray:
    raw = np.ones(len(opinions)) if weights is None else require_finite(weights, "weight")
    if raw.shape != opinions.shape[:1] or raw.min() < 0.0 or raw.sum() <= 0.0:
        message = f"needs {len(opinions)} weights of at least 0, not all 0"
        raise ValueError(message)
    return np.asarray(raw / raw.sum(), dtype=np.float64)


class WeightRule(Protocol):
    """How much the trials count against the prior."""

    def weights(self, std: FloatArray) -> FloatArray:
        """Return weights in [0, 1] for logit standard deviations; one shape."""


@dataclass(frozen=True, slots=True)
class FixedWeight:
    """The same weight for every target, in [0, 1]; 1 is the plain logit mean."""

    weight: float

    def __post_init__(self) -> None:
        """Check the range."""
        require_unit_interval(self.weight, "weight")

    def weights(self, std: FloatArray) -> FloatArray:
        return np.full_like(std, self.weight)


@dataclass(frozen=True, slots=True)
class SpreadWeight:
    """The weight max(floor, 1 - slope * std): 1 where trials agree, never below the floor."""

    floor: float
    slope: float

    def __post_init__(self) -> None:
        """Check the ranges."""
        require_unit_interval(self.floor, "floor")
        if not self.slope >= 0.0:
            message = f"slope {self.slope} is negative"
            raise ValueError(message)

    def weights(self, std: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(self.floor, 1.0 - self.slope * std), dtype=np.float64)


class TunedForecasts(NamedTuple):
    """Forecasts of shape (items,), each made with a rule tuned without it, and the rules that were chosen."""

    probabilities: FloatArray
    chosen: tuple[WeightRule, ...]


# The weight of trials against their prior, by the kind of the prior. Sources: with the crowd's estimate in the prompt
# leave-one-out tuning chose no shrinkage (BLF paper, appendix C.9); towards a base rate the constants of its published
# code. For trials without a prior the paper gives no numbers. Even odds are no information, so these pull less: they
# are the best pair of the grid below under the paper's model (equations 7 and 8) with five trials, logits of standard
# deviation 1.5, and trial noise of 0.2 to 1.5 with half as much again that trials share.
DEFAULT_WEIGHTS: Mapping[PriorSource, WeightRule] = {
    PriorSource.CROWD: SpreadWeight(1.0, 0.0),
    PriorSource.BASE_RATE: SpreadWeight(0.3, 0.7),
    PriorSource.EVEN: SpreadWeight(0.7, 0.4),
}
# The floor is the outer loop, so that the first of several equal minima is the one the published code picks.
SPREAD_GRID = tuple(SpreadWeight(f / 10, c / 5) for f in range(11) for c in range(11))
FIXED_GRID = tuple(FixedWeight(weight / 20) for weight in range(1, 21))


def shrink_to_prior(moments: LogitMoments, rule: WeightRule, prior: ArrayLike = 0.5) -> FloatArray:
    """Return shrunk probabilities, shape (targets,).

    prior is a probability or one for each target (crowd price, base rate). Raises ValueError outside [0, 1].
    """
    weight = rule.weights(moments.std)
    shrunk = sigmoid(weight * moments.mean + (1.0 - weight) * logit(prior))
    return np.where(np.isnan(moments.single), shrunk, moments.single)


def tune_weight_rule(
    moments: LogitMoments,
    outcomes: ArrayLike,
    *,
    rules: Sequence[WeightRule] = SPREAD_GRID,
    prior: ArrayLike = 0.5,
    item_weights: ArrayLike | None = None,
) -> WeightRule:
    """Return the rule with the least mean Brier score on all items, the first of equals.

    moments, outcomes and item_weights describe the same items, shape (items,). The score of these items under this rule
    is optimistic: it was chosen on them. Raises ValueError for unequal lengths, outcomes outside [0, 1] or no rule.
    """
    losses = _brier_losses(_candidate_forecasts(moments, rules, prior), outcomes)
    weights = None if item_weights is None else require_finite(item_weights, "weight")
    return rules[int(np.average(losses, axis=1, weights=weights).argmin())]


def tune_leave_one_out(
    moments: LogitMoments,
    outcomes: ArrayLike,
    *,
    rules: Sequence[WeightRule] = SPREAD_GRID,
    prior: ArrayLike = 0.5,
    clusters: IntArray | None = None,
) -> TunedForecasts:
    """Forecast every item with the rule that is best on all other items, the first of equals.

    clusters holds an integer for each item, equal for items that resolve together (dates of one question): tuning then
    excludes the whole cluster. Errors as in ``tune_weight_rule``; also ValueError with fewer than two items or
    clusters.
    """
    candidates = _candidate_forecasts(moments, rules, prior)
    losses = _brier_losses(candidates, outcomes)
    items = np.arange(losses.shape[1])
    names, cluster = np.unique(items if clusters is None else clusters, return_inverse=True)
    require_same_length(clusters=cluster, items=items)
    if names.size < 2:
        message = "leaving one out needs two or more items or clusters"
        raise ValueError(message)
    by_cluster = np.array([np.bincount(cluster, weights=row) for row in losses], dtype=np.float64)
    best = _sum_of_others(by_cluster).argmin(axis=0)[cluster]
    return TunedForecasts(probabilities=candidates[best, items], chosen=tuple(rules[rule] for rule in best.tolist()))


def _candidate_forecasts(moments: LogitMoments, rules: Sequence[WeightRule], prior: ArrayLike) -> FloatArray:
    if not rules:
        message = "no rule to choose from"
        raise ValueError(message)
    return np.stack([shrink_to_prior(moments, rule, prior) for rule in rules])


def _sum_of_others(losses: FloatArray) -> FloatArray:
    # Total minus own would let an item's outcome decide, through rounding, between rules that tie on all others.
    blank = np.zeros((len(losses), 1))
    left = np.hstack([blank, np.cumsum(losses[:, :-1], axis=1)])
    right = np.hstack([np.cumsum(losses[:, :0:-1], axis=1)[:, ::-1], blank])
    return np.asarray(left + right, dtype=np.float64)


def _brier_losses(candidates: FloatArray, outcomes: ArrayLike) -> FloatArray:
    o = require_unit_interval(outcomes, "outcome")
    require_same_length(outcomes=o, items=candidates[0])
    return np.asarray(np.square(candidates - o), dtype=np.float64)
