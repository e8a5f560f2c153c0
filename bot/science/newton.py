"""Many penalised logistic regressions on the same rows at once, by damped Newton steps.

The model is a line plus one offset for each group: ``slope * x + intercept + offset[group]``. The fits differ only in
their row weights, so a leave-one-out campaign is one matrix of weights with a zero in each row. Offsets never meet
in one row, hence the curvature is diagonal in them and a step costs a few sums over the rows and one 2 x 2 solution:
no large matrix products, whose threads stall when the machine is busy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bot.science.arrays import FloatArray, IntArray

_MAX_STEPS = 100
# Each step squares the error of the last, so a step this small leaves about 1e-12.
_TOLERANCE = 1e-6
_IDENTITY = np.array([1.0, 0.0])


class NotConverged(ArithmeticError):
    """A fit did not settle; the penalty is too weak for these rows."""


class _Point(NamedTuple):
    """Where the fits stand: coefficients (fits, 2 + groups), objectives (fits,), fitted probabilities (fits, rows)."""

    at: FloatArray
    value: FloatArray
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

        Raises NotConverged after 100 steps, or where no unique optimum exists; penalties above 0 prevent both.
        """
        point = self._evaluate(np.tile(start, (len(weights), 1)), weights)
        for _ in range(_MAX_STEPS):
            step = self._newton_step(point, weights)
            if np.abs(step).max() < _TOLERANCE:
                return point.at - step
            point = self._descend(point, step, weights)
        message = f"no optimum after {_MAX_STEPS} Newton steps"
        raise NotConverged(message)

    def _evaluate(self, at: FloatArray, weights: FloatArray) -> _Point:
        margins = at[:, [0]] * self.x + at[:, [1]]
        if self.group_sizes.size:
            margins += np.repeat(at[:, 2:], self.group_sizes, axis=1)
        decay = np.exp(-np.abs(margins))
        losses = np.maximum(margins, 0.0) + np.log1p(decay) - margins * self.outcomes
        value = np.einsum("fr,fr->f", weights, losses)
        value += self.line_penalty * np.square(at[:, :2] - _IDENTITY).sum(axis=1)
        value += self.offset_penalty * np.square(at[:, 2:]).sum(axis=1)
        return _Point(at=at, value=value, fitted=np.where(margins < 0.0, decay, 1.0) / (1.0 + decay))

    def _newton_step(self, point: _Point, weights: FloatArray) -> FloatArray:
        excess = weights * (point.fitted - self.outcomes)
        bend = weights * point.fitted * (1.0 - point.fitted)
        bend_x = bend * self.x
        slope_line = np.stack([np.einsum("fr,r->f", excess, self.x), excess.sum(axis=1)], axis=1)
        slope_line += 2.0 * self.line_penalty * (point.at[:, :2] - _IDENTITY)
        slope_offsets = self._by_group(excess) + 2.0 * self.offset_penalty * point.at[:, 2:]
        mixed = bend_x.sum(axis=1)
        square = np.stack([np.einsum("fr,r->f", bend_x, self.x), mixed, mixed, bend.sum(axis=1)], axis=1)
        curvature_line = square.reshape(-1, 2, 2) + np.diag([2.0 * self.line_penalty] * 2)
        curvature_offsets = self._by_group(bend) + 2.0 * self.offset_penalty
        border = np.stack([self._by_group(bend_x), self._by_group(bend)], axis=1)
        # Eliminate the offsets (a Schur complement), solve for the line, then go back for the offsets.
        scaled = border / curvature_offsets[:, None, :]
        line = _solve(
            curvature_line - np.einsum("fig,fjg->fij", scaled, border),
            slope_line - np.einsum("fig,fg->fi", scaled, slope_offsets),
        )
        offsets = slope_offsets / curvature_offsets - np.einsum("fig,fi->fg", scaled, line)
        return np.hstack([line, offsets])

    def _descend(self, point: _Point, step: FloatArray, weights: FloatArray) -> _Point:
        length = np.ones(len(step))
        slack = 1e-12 * (1.0 + np.abs(point.value))
        # Ends because a step of no length is never worse.
        while True:
            reached = self._evaluate(point.at - length[:, None] * step, weights)
            worse = reached.value > point.value + slack
            if not worse.any():
                return reached
            length = np.where(worse, length / 2.0, length)

    def _by_group(self, values: FloatArray) -> FloatArray:
        starts = np.cumsum(self.group_sizes) - self.group_sizes
        return np.asarray(np.add.reduceat(values, starts, axis=1), dtype=np.float64)


def _solve(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(matrices, vectors[..., None])[..., 0], dtype=np.float64)
    except np.linalg.LinAlgError as error:
        message = "a coefficient has no finite optimum: give it a penalty"
        raise NotConverged(message) from error
