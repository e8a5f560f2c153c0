"""Logistic regression with named coefficients, each with a stated normal prior.

A coefficient without data stays at its prior mean, so an unseen series, country or source is forecast like its group.
The baseline forecaster and the weights of blends are fitted with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


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


def sum_terms(terms: Iterable[RegressionTerm], coefficients: Mapping[str, float]) -> float:
    """Return the log odds of the terms; a coefficient that was never fitted has its prior mean."""
    return sum(term.value * coefficients.get(term.name, term.mean) for term in terms)


def fit_coefficients(rows: Sequence[RegressionRow], *, reach: float = math.inf) -> dict[str, float]:
    """Return the most probable coefficients by name (maximum a posteriori, exact to about 1e-8).

    ``reach`` caps how many prior standard deviations a coefficient may end from its prior mean. No rows give no
    coefficients. Raises ArithmeticError if Newton's method does not converge, which a proper prior rules out.
    """
    if not rows:
        return {}
    from bot.stats.ridge_solver import solve_regression  # noqa: PLC0415 - numpy, which a start does not need

    terms = {term.name: term for row in rows for term in row.terms}
    column = {name: index for index, name in enumerate(terms)}
    found = solve_regression(
        columns=[[column[term.name] for term in row.terms] for row in rows],
        values=[[term.value for term in row.terms] for row in rows],
        outcomes=[row.outcome for row in rows],
        weights=[row.weight for row in rows],
        means=[term.mean for term in terms.values()],
        deviations=[term.sd for term in terms.values()],
        reach=reach,
    )
    return dict(zip(terms, found, strict=True))
