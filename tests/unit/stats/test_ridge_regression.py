import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression

from bot.stats.ridge_regression import RegressionRow, RegressionTerm, fit_coefficients, sum_terms

SEED = 7


def test_coefficients_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(SEED)
    design = rng.normal(size=(200, 4))
    outcomes = (rng.uniform(size=200) < 0.4).astype(float)
    weights = rng.uniform(0.1, 2.0, size=200)
    sd = 0.7
    rows = [
        RegressionRow(
            tuple(RegressionTerm(f"x{i}", float(x), 0.0, sd, "") for i, x in enumerate(line)), float(y), float(w)
        )
        for line, y, w in zip(design, outcomes, weights, strict=True)
    ]
    other = LogisticRegression(C=sd**2, fit_intercept=False, tol=1e-12, max_iter=10_000)
    other.fit(design, outcomes, sample_weight=weights)
    fitted = fit_coefficients(rows)
    assert [fitted[f"x{i}"] for i in range(4)] == pytest.approx(other.coef_[0].tolist(), abs=1e-6)


def test_rows_that_have_only_some_of_the_terms_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(SEED)
    design = rng.normal(size=(300, 12)) * (rng.uniform(size=(300, 12)) < 0.25)
    design[:, 11] = 1.0
    outcomes = (rng.uniform(size=300) < 0.4).astype(float)
    rows = [
        RegressionRow(
            tuple(RegressionTerm(f"x{i}", float(x), 0.0, 0.7, "") for i, x in enumerate(line) if x), float(y), 1.0
        )
        for line, y in zip(design, outcomes, strict=True)
    ]
    other = LogisticRegression(C=0.7**2, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(design, outcomes)
    fitted = fit_coefficients(rows)
    assert [fitted[f"x{i}"] for i in range(12)] == pytest.approx(other.coef_[0].tolist(), abs=1e-6)


@given(st.floats(-3.0, 3.0), st.floats(0.05, 3.0), st.integers(0, 40), st.integers(0, 40))
def test_one_coefficient_solves_its_score_equation(mean: float, sd: float, ones: int, zeros: int) -> None:
    rows = [RegressionRow((RegressionTerm("all", 1.0, mean, sd, ""),), 1.0, 1.0)] * ones
    rows += [RegressionRow((RegressionTerm("all", 1.0, mean, sd, ""),), 0.0, 1.0)] * zeros

    def score(at: float) -> float:
        return ones - (ones + zeros) / (1.0 + math.exp(-at)) - (at - mean) / sd**2

    expected = brentq(score, -400.0, 400.0, xtol=1e-13)
    assert fit_coefficients(rows).get("all", mean) == pytest.approx(expected, abs=1e-6)


def test_what_was_never_seen_stays_at_its_prior_mean() -> None:
    term = RegressionTerm("new", 2.0, 0.3, 1.0, "")
    assert sum_terms([term], {"old": 9.0}) == pytest.approx(0.6)


def test_the_reach_caps_a_coefficient() -> None:
    rows = [RegressionRow((RegressionTerm("all", 1.0, 1.0, 0.5, ""),), 0.0, 100.0)] * 50
    assert fit_coefficients(rows, reach=2.0)["all"] == pytest.approx(0.0)


def test_a_far_start_does_not_run_away() -> None:
    rows = [RegressionRow((RegressionTerm("all", 30.0, 1.0, 5.0, ""),), 0.0, 1.0)] * 500
    assert -5.0 < fit_coefficients(rows)["all"] < 0.0
