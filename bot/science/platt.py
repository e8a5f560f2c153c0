"""Platt calibration: a line on the logit scale, with an offset for each group where groups are given.

``p' = sigmoid(slope * logit(p) + intercept + offset[group])`` minimises log loss plus a penalty times the sum of
squared offsets; an unknown group has offset 0. Outcomes may be fractional. Leave-one-out refits are exact and run as
one batch of Newton steps, because the nightly job repeats them on every row.

Source: BLF paper, appendix C.11, equations 12 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from bot.science.arrays import Coded, FloatArray, IntArray, encode, same_length, unit_interval
from bot.science.logit import EPS_LOGIT, logit, sigmoid
from bot.science.newton import LogisticProblem

# Bounds the memory of one batch of refits: fits * rows numbers of 8 bytes, a few times over.
_BATCH_CELLS = 500_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibrationRows:
    """Forecasts with their outcomes, all of one length above zero.

    ``probabilities`` and ``outcomes`` have shape (n,) and values in [0, 1]; ``groups`` holds a group name for each row,
    or nothing for a fit without offsets. Build it with ``calibration_rows``.
    """

    probabilities: FloatArray
    outcomes: FloatArray
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Penalty:
    """Strength of the pull: of the group offsets to 0, and of slope and intercept to the identity (1 and 0).

    The identity pull is tiny by default: it moves no fit visibly but keeps separable rows finite.
    """

    offsets: float = 1.0
    identity: float = 1e-7

    def __post_init__(self) -> None:
        """Refuse what could leave a fit without an optimum."""
        if not (self.offsets > 0.0 and self.identity > 0.0):
            message = f"penalties must be above 0, got {self}"
            raise ValueError(message)


STANDARD_PENALTY = Penalty()


@dataclass(frozen=True, slots=True, kw_only=True)
class Platt:
    """A fitted calibration; ``rows`` is how many rows it was fitted on, ``eps`` the clipping before the logit."""

    slope: float
    intercept: float
    offsets: Mapping[str, float]
    rows: int
    eps: float = EPS_LOGIT

    def apply(self, probabilities: ArrayLike, groups: Sequence[str] = ()) -> FloatArray:
        """Return calibrated probabilities, shape (n,); groups has n names or is empty for no offsets.

        Raises ValueError for a value outside [0, 1] or another number of groups.
        """
        log_odds = logit(probabilities, self.eps)
        if not groups:
            return sigmoid(self.slope * log_odds + self.intercept)
        offsets = np.array([self.offsets.get(group, 0.0) for group in groups])
        same_length(probabilities=log_odds, groups=offsets)
        return sigmoid(self.slope * log_odds + self.intercept + offsets)


def calibration_rows(probabilities: ArrayLike, outcomes: ArrayLike, groups: Sequence[str] = ()) -> CalibrationRows:
    """Check the columns and put them together.

    Raises ValueError for empty or unequal columns or values outside [0, 1].
    """
    p = unit_interval(probabilities, "probability")
    o = unit_interval(outcomes, "outcome")
    same_length(probabilities=p, outcomes=o, groups=np.zeros(len(groups)) if groups else p)
    return CalibrationRows(probabilities=p, outcomes=o, groups=tuple(groups))


def fit_platt(rows: CalibrationRows, penalty: Penalty = STANDARD_PENALTY, eps: float = EPS_LOGIT) -> Platt:
    """Fit slope, intercept and, where rows have groups, one offset for each group.

    eps clips probabilities to [eps, 1 - eps] before the logit. Raises NotConverged when no optimum is reached.
    """
    groups = encode(rows.groups)
    problem = _problem(rows, groups, penalty, eps)
    fitted = _fit_all(problem).tolist()
    return Platt(
        slope=fitted[0],
        intercept=fitted[1],
        offsets=MappingProxyType(dict(zip(map(str, groups.labels), fitted[2:], strict=True))),
        rows=len(rows.outcomes),
        eps=eps,
    )


def leave_one_out(
    rows: CalibrationRows,
    penalty: Penalty = STANDARD_PENALTY,
    *,
    eps: float = EPS_LOGIT,
    clusters: IntArray | None = None,
) -> FloatArray:
    """Return each row's probability calibrated by a fit that did not see it, shape (n,).

    clusters holds an integer for each row, equal for rows that share a fate (one question, one date): a refit then
    leaves out the whole cluster. Raises ValueError for clusters of another length or fewer than two of them, and
    NotConverged as ``fit_platt`` does. Leaving out single rows does not protect against shocks common to a date.
    """
    everything = np.arange(len(rows.outcomes))
    cluster = everything if clusters is None else clusters
    same_length(clusters=cluster, rows=everything)
    groups = encode(rows.groups)
    order = _by_group(rows, groups)
    names, cluster = np.unique(cluster[order], return_inverse=True)
    if names.size < 2:
        message = "leaving one out needs two or more rows or clusters"
        raise ValueError(message)
    calibrated = np.empty(everything.size)
    calibrated[order] = sigmoid(_held_out_margins(_problem(rows, groups, penalty, eps), cluster))
    return calibrated


def _held_out_margins(problem: LogisticProblem, cluster: IntArray) -> FloatArray:
    warm = _fit_all(problem)
    clusters = int(cluster.max()) + 1
    batch = max(1, _BATCH_CELLS // cluster.size)
    group = np.repeat(np.arange(problem.group_sizes.size), problem.group_sizes)
    margins = np.empty(cluster.size)
    for first in range(0, clusters, batch):
        left_out = np.arange(first, min(first + batch, clusters))
        fitted = problem.minimise((cluster != left_out[:, None]).astype(np.float64), warm)
        mine = np.flatnonzero((cluster >= first) & (cluster <= left_out[-1]))
        own = fitted[cluster[mine] - first]
        margins[mine] = own[:, 0] * problem.x[mine] + own[:, 1]
        if group.size:
            margins[mine] += np.take_along_axis(own[:, 2:], group[mine, None], axis=1)[:, 0]
    return margins


def _fit_all(problem: LogisticProblem) -> FloatArray:
    start = np.zeros(2 + problem.group_sizes.size)
    start[0] = 1.0
    (fitted,) = problem.minimise(np.ones((1, problem.x.size)), start)
    return np.asarray(fitted, dtype=np.float64)


def _problem(rows: CalibrationRows, groups: Coded, penalty: Penalty, eps: float) -> LogisticProblem:
    order = _by_group(rows, groups)
    return LogisticProblem(
        x=logit(rows.probabilities[order], eps),
        outcomes=rows.outcomes[order],
        group_sizes=np.bincount(groups.codes, minlength=len(groups.labels)),
        line_penalty=penalty.identity,
        offset_penalty=penalty.offsets,
    )


def _by_group(rows: CalibrationRows, groups: Coded) -> IntArray:
    if not groups.labels:
        return np.arange(len(rows.outcomes))
    return np.argsort(groups.codes, kind="stable")
