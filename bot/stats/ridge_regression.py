"""Logistic regression with named coefficients, each with a stated normal prior.

A coefficient without data stays at its prior mean, so an unseen series, country or source is forecast like its group.
The baseline forecaster and the weights of blends are fitted with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bot.stats.arrays import FloatArray, IntArray, sigmoid

_MAX_STEPS = 60
_MAX_HALVINGS = 30
_TOLERANCE = 1e-8


class RegressionTerm(NamedTuple):
    """One summand of the log odds: ``value`` times the coefficient ``name``, which is normal(mean, sd) a priori.

    ``why`` explains the summand in words.
    """

    name: str
    value: float
    mean: float
    sd: float
    why: str


class RegressionRow(NamedTuple):
    """One outcome in [0, 1] with the terms of its log odds and its weight (1 = one independent outcome)."""

    terms: tuple[RegressionTerm, ...]
    outcome: float
    weight: float


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


def sum_terms(terms: Iterable[RegressionTerm], coefficients: Mapping[str, float]) -> float:
    """Return the log odds of the terms; a coefficient that was never fitted has its prior mean."""
    return sum(term.value * coefficients.get(term.name, term.mean) for term in terms)


def fit_coefficients(rows: Sequence[RegressionRow], *, reach: float = np.inf) -> dict[str, float]:
    """Return the most probable coefficients by name (maximum a posteriori, exact to about 1e-8).

    ``reach`` caps how many prior standard deviations a coefficient may end from its prior mean. No rows give no
    coefficients. Raises ArithmeticError if Newton's method does not converge, which a proper prior rules out.
    """
    if not rows:
        return {}
    terms = {term.name: term for row in rows for term in row.terms}
    problem = _build_problem(rows, terms)
    at = _minimise_loss(problem)
    spread = reach / np.sqrt(problem.precisions)
    capped = np.clip(at, problem.means - spread, problem.means + spread)
    return dict(zip(terms, capped.tolist(), strict=True))


def _build_problem(rows: Sequence[RegressionRow], terms: Mapping[str, RegressionTerm]) -> _RegressionProblem:
    column = {name: index for index, name in enumerate(terms)}
    lengths = np.array([len(row.terms) for row in rows])
    used = np.arange(lengths.max()) < lengths[:, None]
    columns, values = np.zeros(used.shape, dtype=np.int64), np.zeros(used.shape)
    columns[used] = [column[term.name] for row in rows for term in row.terms]
    values[used] = [term.value for row in rows for term in row.terms]
    return _RegressionProblem(
        columns=columns,
        values=values,
        pairs=columns[:, :, None] * len(terms) + columns[:, None, :],
        outcomes=np.array([row.outcome for row in rows]),
        weights=np.array([row.weight for row in rows]),
        means=np.array([term.mean for term in terms.values()]),
        precisions=np.array([term.sd**-2 for term in terms.values()]),
    )


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
