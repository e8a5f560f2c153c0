"""Newton's method for ``bot.stats.ridge_regression``: the most probable coefficients, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bot.stats.arrays import FloatArray, IntArray, sigmoid

_MAX_STEPS = 60
_MAX_HALVINGS = 30
_TOLERANCE = 1e-8


class _RegressionProblem(NamedTuple):
    """The regression as arrays; a row names the few coefficients that it has.

    ``columns`` and ``values`` are (rows, k): the coefficients of each row and their factors, filled up with zero times
    the first one. ``pairs`` is columns times columns, flat as in a (p, p) matrix: (rows, k, k). Outcomes and weights
    are (rows,), means and precisions (p,).
    """

    columns: IntArray
    values: FloatArray
    pairs: IntArray
    outcomes: FloatArray
    weights: FloatArray
    means: FloatArray
    precisions: FloatArray

    def margins(self, at: FloatArray) -> FloatArray:
        return np.asarray((self.values * at[self.columns]).sum(axis=1), dtype=np.float64)

    def loss(self, at: FloatArray) -> float:
        margins = self.margins(at)
        likelihood = self.weights @ (np.logaddexp(0.0, margins) - margins * self.outcomes)
        return float(likelihood + 0.5 * self.precisions @ np.square(at - self.means))

    def step(self, at: FloatArray) -> FloatArray:
        fitted = sigmoid(self.margins(at))
        misses = (self.weights * (fitted - self.outcomes))[:, None] * self.values
        gradient = _sum_by_place(self.columns, misses, len(at)) + self.precisions * (at - self.means)
        spreads = (self.weights * fitted * (1.0 - fitted))[:, None, None]
        bends = spreads * self.values[:, :, None] * self.values[:, None, :]
        curvature = _sum_by_place(self.pairs, bends, len(at) ** 2).reshape(len(at), len(at))
        return np.asarray(np.linalg.solve(curvature + np.diag(self.precisions), gradient), dtype=np.float64)


def solve_regression(
    *,
    columns: Sequence[Sequence[int]],
    values: Sequence[Sequence[float]],
    outcomes: Sequence[float],
    weights: Sequence[float],
    means: Sequence[float],
    deviations: Sequence[float],
    reach: float,
) -> list[float]:
    """Return the coefficients, at most ``reach`` deviations from their means; errors as in ``fit_coefficients``.

    Each row has the numbers of its coefficients in ``columns`` and their factors in ``values``.
    """
    lengths = np.array([len(row) for row in columns])
    used = np.arange(lengths.max()) < lengths[:, None]
    places, factors = np.zeros(used.shape, dtype=np.int64), np.zeros(used.shape)
    places[used] = [place for row in columns for place in row]
    factors[used] = [factor for row in values for factor in row]
    problem = _RegressionProblem(
        columns=places,
        values=factors,
        pairs=places[:, :, None] * len(means) + places[:, None, :],
        outcomes=np.array(outcomes),
        weights=np.array(weights),
        means=np.array(means),
        precisions=np.array([one**-2 for one in deviations]),
    )
    at = _minimise_loss(problem)
    spread = reach / np.sqrt(problem.precisions)
    return [*map(float, np.clip(at, problem.means - spread, problem.means + spread))]


def _sum_by_place(places: IntArray, amounts: FloatArray, count: int) -> FloatArray:
    return np.asarray(np.bincount(places.ravel(), weights=amounts.ravel(), minlength=count), dtype=np.float64)


def _minimise_loss(problem: _RegressionProblem) -> FloatArray:
    at = problem.means
    reached = problem.loss(at)
    for _ in range(_MAX_STEPS):
        step = problem.step(at)
        if np.abs(step).max() < _TOLERANCE:
            return at
        at, reached = _line_search(problem, at, step=step, reached=reached)
    message = f"no optimum after {_MAX_STEPS} Newton steps"
    raise ArithmeticError(message)


def _line_search(
    problem: _RegressionProblem, at: FloatArray, *, step: FloatArray, reached: float
) -> tuple[FloatArray, float]:
    length = 1.0
    # A full step far from the optimum can overshoot, and plain Newton then runs away.
    slack = 1e-10 * (1.0 + abs(reached))
    for _ in range(_MAX_HALVINGS):
        candidate = at - length * step
        loss = problem.loss(candidate)
        if loss <= reached + slack:
            break
        length /= 2.0
    return candidate, loss
