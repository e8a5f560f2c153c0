"""Shrinkage aggregation: trials that disagree are pulled towards a prior on the logit scale.

``p = sigmoid(w * mean(logit) + (1 - w) * logit(prior))`` where the weight w is fixed or falls with the spread of the
trials. A target that one trial answered is returned unchanged. Tuning is honest: ``tune_leave_one_out`` chooses the
rule for an item on the other items only. Source: BLF paper, appendix C.9, equations 10 and 11; the population standard
deviation and the grids follow its published code (the paper's text says sample).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bot.domain.belief import PriorSource
from bot.science.aggregate import LogitMoments
from bot.science.arrays import FloatArray, IntArray, same_length, unit_interval
from bot.science.logit import logit, sigmoid


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
        unit_interval(self.weight, "weight")

    def weights(self, std: FloatArray) -> FloatArray:
        return np.full_like(std, self.weight)


@dataclass(frozen=True, slots=True)
class SpreadWeight:
    """The weight max(floor, 1 - slope * std): 1 where trials agree, never below the floor."""

    floor: float
    slope: float

    def __post_init__(self) -> None:
        """Check the ranges."""
        unit_interval(self.floor, "floor")
        if not self.slope >= 0.0:
            message = f"slope {self.slope} is negative"
            raise ValueError(message)

    def weights(self, std: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(self.floor, 1.0 - self.slope * std), dtype=np.float64)


class Tuned(NamedTuple):
    """Forecasts of shape (items,), each made with a rule tuned without it, and the rules that were chosen."""

    probabilities: FloatArray
    chosen: tuple[WeightRule, ...]


# How much trials count against what they started from, by the kind of that. Sources: with the crowd's estimate in the
# prompt leave-one-out tuning chose no shrinkage (BLF paper, appendix C.9); towards a base rate the constants of its
# published code. For trials that started from nothing the paper gives no numbers. Even odds are no information, so
# these pull less: they are the best pair of the grid below under the paper's model (equations 7 and 8) with five
# trials, logits of standard deviation 1.5, and trial noise of 0.2 to 1.5 with half as much again that trials share.
DEFAULT_WEIGHTS: Mapping[PriorSource, WeightRule] = {
    PriorSource.CROWD: SpreadWeight(1.0, 0.0),
    PriorSource.BASE_RATE: SpreadWeight(0.3, 0.7),
    PriorSource.EVEN: SpreadWeight(0.7, 0.4),
}

# The floor is the outer loop, so that the first of several equal minima is the one the published code picks.
SPREAD_GRID = tuple(SpreadWeight(f / 10, c / 5) for f in range(11) for c in range(11))
FIXED_GRID = tuple(FixedWeight(weight / 20) for weight in range(1, 21))


def shrink(moments: LogitMoments, rule: WeightRule, prior: ArrayLike = 0.5) -> FloatArray:
    """Return shrunk probabilities, shape (targets,).

    prior is a probability or one for each target (crowd price, base rate). Raises ValueError outside [0, 1].
    """
    weight = rule.weights(moments.std)
    shrunk = sigmoid(weight * moments.mean + (1.0 - weight) * logit(prior))
    return np.where(np.isnan(moments.single), shrunk, moments.single)


def tune(
    moments: LogitMoments,
    outcomes: ArrayLike,
    *,
    rules: Sequence[WeightRule] = SPREAD_GRID,
    prior: ArrayLike = 0.5,
) -> WeightRule:
    """Return the rule with the least mean Brier score on all items, the first of equals.

    moments and outcomes describe the same items, shape (items,). The score of these items under this rule is
    optimistic: it was chosen on them. Raises ValueError for unequal lengths, outcomes outside [0, 1] or no rule.
    """
    losses = _losses(_candidates(moments, rules, prior), outcomes)
    return rules[int(losses.mean(axis=1).argmin())]


def tune_leave_one_out(
    moments: LogitMoments,
    outcomes: ArrayLike,
    *,
    rules: Sequence[WeightRule] = SPREAD_GRID,
    prior: ArrayLike = 0.5,
    clusters: IntArray | None = None,
) -> Tuned:
    """Forecast every item with the rule that is best on all other items, the first of equals.

    clusters holds an integer for each item, equal for items that share a fate (dates of one question): tuning then
    leaves out the whole cluster. Errors as in ``tune``; also ValueError with fewer than two items or clusters.
    """
    candidates = _candidates(moments, rules, prior)
    losses = _losses(candidates, outcomes)
    items = np.arange(losses.shape[1])
    names, cluster = np.unique(items if clusters is None else clusters, return_inverse=True)
    same_length(clusters=cluster, items=items)
    if names.size < 2:
        message = "leaving one out needs two or more items or clusters"
        raise ValueError(message)
    by_cluster = np.array([np.bincount(cluster, weights=row) for row in losses], dtype=np.float64)
    best = _sum_of_others(by_cluster).argmin(axis=0)[cluster]
    return Tuned(probabilities=candidates[best, items], chosen=tuple(rules[rule] for rule in best.tolist()))


def _candidates(moments: LogitMoments, rules: Sequence[WeightRule], prior: ArrayLike) -> FloatArray:
    if not rules:
        message = "no rule to choose from"
        raise ValueError(message)
    return np.stack([shrink(moments, rule, prior) for rule in rules])


def _sum_of_others(losses: FloatArray) -> FloatArray:
    # Total minus own would let an item's outcome decide, through rounding, between rules that tie on all others.
    blank = np.zeros((len(losses), 1))
    left = np.hstack([blank, np.cumsum(losses[:, :-1], axis=1)])
    right = np.hstack([np.cumsum(losses[:, :0:-1], axis=1)[:, ::-1], blank])
    return np.asarray(left + right, dtype=np.float64)


def _losses(candidates: FloatArray, outcomes: ArrayLike) -> FloatArray:
    o = unit_interval(outcomes, "outcome")
    same_length(outcomes=o, items=candidates[0])
    return np.asarray(np.square(candidates - o), dtype=np.float64)
