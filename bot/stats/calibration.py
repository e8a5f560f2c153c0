"""Platt calibration by penalised logistic regression with exact leave-one-out refits.

And reliability of forecasts by bins. Source: BLF paper, appendix C.11, equations 12 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bot.core.distributions import LOGIT_EPSILON
from bot.core.light_dataclass import dataclass
from bot.stats.arrays import (
    EncodedKeys,
    FloatArray,
    IntArray,
    encode_keys,
    logit,
    require_same_length,
    require_unit_interval,
    sigmoid,
)

_MAX_NEWTON_STEPS = 100
# Each step squares the error of the last, so a step this small leaves about 1e-12.
_STEP_TOLERANCE = 1e-6
_IDENTITY_LINE = np.array([1.0, 0.0])


class ConvergenceError(ArithmeticError):
    """A fit did not converge; the penalty is too weak for these rows."""


class _FitState(NamedTuple):
    """The state of the fits: coefficients (fits, 2 + groups), objectives (fits,), fitted probabilities (fits, rows)."""

    coefficients: FloatArray
    objective: FloatArray
    fitted: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticProblem:
    """Minimise ``sum weight * log loss + line_penalty * |line - (1, 0)|^2 + offset_penalty * |offsets|^2``.

    ``x`` and ``outcomes`` have shape (rows,), rows sorted by group; ``group_sizes`` (groups,) holds how many rows each
    group has and is empty for a line without offsets. Outcomes may be fractional. Coefficients are slope, intercept
    and the offsets in the order of the groups.
    """

    x: FloatArray
    outcomes: FloatArray
    group_sizes: IntArray
    line_penalty: float
    offset_penalty: float

    def minimise(self, weights: FloatArray, start: FloatArray) -> FloatArray:
        """Return coefficients (fits, 2 + groups) for row weights (fits, rows), starting from ``start`` (2 + groups,).

        Raises ConvergenceError after 100 steps, or where no unique optimum exists; penalties above 0 prevent both.
        """
        point = self._evaluate(np.tile(start, (len(weights), 1)), weights)
        for _ in range(_MAX_NEWTON_STEPS):
            step = self._newton_step(point, weights)
            if np.abs(step).max() < _STEP_TOLERANCE:
                return point.coefficients - step
            point = self._descend(point, step, weights)
        message = f"no optimum after {_MAX_NEWTON_STEPS} Newton steps"
        raise ConvergenceError(message)

    def _evaluate(self, at: FloatArray, weights: FloatArray) -> _FitState:
        margins = at[:, [0]] * self.x + at[:, [1]]
        if self.group_sizes.size:
            margins += np.repeat(at[:, 2:], self.group_sizes, axis=1)
        decay = np.exp(-np.abs(margins))
        losses = np.maximum(margins, 0.0) + np.log1p(decay) - margins * self.outcomes
        value = np.einsum("fr,fr->f", weights, losses)
        value += self.line_penalty * np.square(at[:, :2] - _IDENTITY_LINE).sum(axis=1)
        value += self.offset_penalty * np.square(at[:, 2:]).sum(axis=1)
        return _FitState(coefficients=at, objective=value, fitted=np.where(margins < 0.0, decay, 1.0) / (1.0 + decay))

    def _newton_step(self, point: _FitState, weights: FloatArray) -> FloatArray:
        excess = weights * (point.fitted - self.outcomes)
        bend = weights * point.fitted * (1.0 - point.fitted)
        bend_x = bend * self.x
        slope_line = np.stack([np.einsum("fr,r->f", excess, self.x), excess.sum(axis=1)], axis=1)
        slope_line += 2.0 * self.line_penalty * (point.coefficients[:, :2] - _IDENTITY_LINE)
        slope_offsets = self._by_group(excess) + 2.0 * self.offset_penalty * point.coefficients[:, 2:]
        mixed = bend_x.sum(axis=1)
        square = np.stack([np.einsum("fr,r->f", bend_x, self.x), mixed, mixed, bend.sum(axis=1)], axis=1)
        curvature_line = square.reshape(-1, 2, 2) + np.diag([2.0 * self.line_penalty] * 2)
        curvature_offsets = self._by_group(bend) + 2.0 * self.offset_penalty
        border = np.stack([self._by_group(bend_x), self._by_group(bend)], axis=1)
        # Eliminate the offsets (a Schur complement), solve for the line, then go back for the offsets.
        scaled = border / curvature_offsets[:, None, :]
        line = _solve_systems(
            curvature_line - np.einsum("fig,fjg->fij", scaled, border),
            slope_line - np.einsum("fig,fg->fi", scaled, slope_offsets),
        )
        offsets = slope_offsets / curvature_offsets - np.einsum("fig,fi->fg", scaled, line)
        return np.hstack([line, offsets])

    def _descend(self, point: _FitState, step: FloatArray, weights: FloatArray) -> _FitState:
        length = np.ones(len(step))
        slack = 1e-12 * (1.0 + np.abs(point.objective))
        # Ends because a step of no length is never worse.
        while True:
            reached = self._evaluate(point.coefficients - length[:, None] * step, weights)
            worse = reached.objective > point.objective + slack
            if not worse.any():
                return reached
            length = np.where(worse, length / 2.0, length)

    def _by_group(self, values: FloatArray) -> FloatArray:
        starts = np.cumsum(self.group_sizes) - self.group_sizes
        return np.asarray(np.add.reduceat(values, starts, axis=1), dtype=np.float64)


def _solve_systems(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(matrices, vectors[..., None])[..., 0], dtype=np.float64)
    except np.linalg.LinAlgError as error:
        message = "a coefficient has no finite optimum: give it a penalty"
        raise ConvergenceError(message) from error


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
class CalibrationPenalty:
    """Strength of the pull: of the group offsets to 0, and of slope and intercept to the identity (1 and 0).

    The identity pull is tiny by default: it moves no fit visibly but keeps separable rows finite.
    """

    offsets: float = 1.0
    identity: float = 1e-7

    def __post_init__(self) -> None:
        """Refuse a penalty with which a fit may have no optimum."""
        if not (self.offsets > 0.0 and self.identity > 0.0):
            message = f"penalties must be above 0, got {self}"
            raise ValueError(message)


STANDARD_PENALTY = CalibrationPenalty()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlattCalibration:
    """A fitted calibration; ``rows`` is how many rows it was fitted on, ``eps`` the clipping before the logit."""

    slope: float
    intercept: float
    offsets: Mapping[str, float]
    rows: int
    eps: float = LOGIT_EPSILON

    def apply(self, probabilities: ArrayLike, groups: Sequence[str] = ()) -> FloatArray:
        """Return calibrated probabilities, shape (n,); groups has n names or is empty for no offsets.

        Raises ValueError for a value outside [0, 1] or another number of groups.
        """
        log_odds = logit(probabilities, self.eps)
        if not groups:
            return sigmoid(self.slope * log_odds + self.intercept)
        offsets = np.array([self.offsets.get(group, 0.0) for group in groups])
        require_same_length(probabilities=log_odds, groups=offsets)
        return sigmoid(self.slope * log_odds + self.intercept + offsets)


def calibration_rows(probabilities: ArrayLike, outcomes: ArrayLike, groups: Sequence[str] = ()) -> CalibrationRows:
    """Check the columns and put them together.

    Raises ValueError for empty or unequal columns or values outside [0, 1].
    """
    p = require_unit_interval(probabilities, "probability")
    o = require_unit_interval(outcomes, "outcome")
    require_same_length(probabilities=p, outcomes=o, groups=np.zeros(len(groups)) if groups else p)
    return CalibrationRows(probabilities=p, outcomes=o, groups=tuple(groups))


def fit_platt(
    rows: CalibrationRows, penalty: CalibrationPenalty = STANDARD_PENALTY, eps: float = LOGIT_EPSILON
) -> PlattCalibration:
    """Fit slope, intercept and, where rows have groups, one offset for each group.

    eps clips probabilities to [eps, 1 - eps] before the logit. Raises ConvergenceError when no optimum is reached.
    """
    groups = encode_keys(rows.groups)
    problem = _logistic_problem(rows, groups, penalty, eps)
    fitted = _fit_all(problem).tolist()
    return PlattCalibration(
        slope=fitted[0],
        intercept=fitted[1],
        offsets=MappingProxyType(dict(zip(map(str, groups.labels), fitted[2:], strict=True))),
        rows=len(rows.outcomes),
        eps=eps,
    )


def calibrate_leave_one_out(
    rows: CalibrationRows,
    penalty: CalibrationPenalty = STANDARD_PENALTY,
    *,
    eps: float = LOGIT_EPSILON,
    clusters: IntArray | None = None,
) -> FloatArray:
    """Return each row's probability calibrated by a fit that did not see it, shape (n,).

    clusters holds an integer for each row, equal for rows that resolve together (one question, one date): a refit then
    excludes the whole cluster. Raises ValueError for clusters of another length or fewer than two of them, and
    ConvergenceError as ``fit_platt`` does. Excluding single rows does not protect against shocks common to a date.
    """
    everything = np.arange(len(rows.outcomes))
    cluster = everything if clusters is None else clusters
    require_same_length(clusters=cluster, rows=everything)
    groups = encode_keys(rows.groups)
    order = _group_order(rows, groups)
    names, cluster = np.unique(cluster[order], return_inverse=True)
    if names.size < 2:
        message = "leaving one out needs two or more rows or clusters"
        raise ValueError(message)
    calibrated = np.empty(everything.size)
    calibrated[order] = sigmoid(_held_out_margins(_logistic_problem(rows, groups, penalty, eps), cluster))
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


def _logistic_problem(
    rows: CalibrationRows, groups: EncodedKeys, penalty: CalibrationPenalty, eps: float
) -> LogisticProblem:
    order = _group_order(rows, groups)
    return LogisticProblem(
        x=logit(rows.probabilities[order], eps),
        outcomes=rows.outcomes[order],
        group_sizes=np.bincount(groups.codes, minlength=len(groups.labels)),
        line_penalty=penalty.identity,
        offset_penalty=penalty.offsets,
    )


def _group_order(rows: CalibrationRows, groups: EncodedKeys) -> IntArray:
    if not groups.labels:
        return np.arange(len(rows.outcomes))
    return np.argsort(groups.codes, kind="stable")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReliabilityBins:
    """Non-empty bins of one reliability diagram, all arrays of shape (bins,).

    ``mean_forecast`` and ``event_rate`` are means over the rows of a bin, ``lower`` and ``upper`` its edges; a forecast
    on an edge belongs to the bin below it.
    """

    lower: FloatArray
    upper: FloatArray
    rows: IntArray
    mean_forecast: FloatArray
    event_rate: FloatArray

    @property
    def expected_calibration_error(self) -> float:
        """Mean absolute gap between forecast and event rate, weighted by rows; 0 is perfect."""
        return float(np.average(np.abs(self.mean_forecast - self.event_rate), weights=self.rows))


def equal_width_bins(probabilities: ArrayLike, outcomes: ArrayLike, count: int = 10) -> ReliabilityBins:
    """Cut [0, 1] into ``count`` bins of one width.

    Both columns have shape (n,) and values in [0, 1]. Raises ValueError for empty or unequal columns, a value outside
    [0, 1] or a count below 1. Source: Guo et al., On Calibration of Modern Neural Networks (2017), equation 3.
    """
    p, o = _require_columns(probabilities, outcomes)
    return _fill_bins(p, o, np.linspace(0.0, 1.0, _require_positive(count) + 1))


def equal_mass_bins(probabilities: ArrayLike, outcomes: ArrayLike, count: int = 10) -> ReliabilityBins:
    """Cut at the quantiles of the forecasts, so that bins hold about equally many rows; ties stay together.

    Shapes and errors as in ``equal_width_bins``.
    """
    p, o = _require_columns(probabilities, outcomes)
    return _fill_bins(p, o, np.percentile(p, np.linspace(0.0, 1.0, _require_positive(count) + 1) * 100.0))


def _require_columns(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[FloatArray, FloatArray]:
    p = require_unit_interval(probabilities, "probability")
    o = require_unit_interval(outcomes, "outcome")
    require_same_length(probabilities=p, outcomes=o)
    return p, o


def _require_positive(count: int) -> int:
    if count < 1:
        message = f"needs at least one bin, got {count}"
        raise ValueError(message)
    return count


def _fill_bins(p: FloatArray, o: FloatArray, edges: FloatArray) -> ReliabilityBins:
    size = edges.size - 1
    bins = np.searchsorted(edges[1:-1], p, side="left")
    rows = np.bincount(bins, minlength=size)
    full = rows > 0
    return ReliabilityBins(
        lower=edges[:-1][full],
        upper=edges[1:][full],
        rows=rows[full],
        mean_forecast=np.bincount(bins, weights=p, minlength=size)[full] / rows[full],
        event_rate=np.bincount(bins, weights=o, minlength=size)[full] / rows[full],
    )
