"""Two-way analysis of variance against statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm

from bot.stats.arrays import FloatArray, IntArray
from bot.stats.comparison import decompose_variance


def dummies(codes: IntArray) -> FloatArray:
    return np.asarray(codes[:, None] == np.unique(codes)[1:], dtype=np.float64)


def test_a_balanced_design_agrees_with_statsmodels() -> None:
    rng = np.random.default_rng(1)
    method, question, _ = (axis.ravel() for axis in np.meshgrid(range(4), range(12), range(5), indexing="ij"))
    scores = 0.1 * method + rng.normal(size=12)[question] + rng.normal(0, 0.5, method.size)
    found = decompose_variance(method.tolist(), question.tolist(), scores)
    full = sm.OLS(scores, sm.add_constant(np.hstack([dummies(method), dummies(question)]))).fit()
    for effect, other in ((found.method, question), (found.question, method)):
        without = sm.OLS(scores, sm.add_constant(dummies(other))).fit()
        f, p_value, degrees = full.compare_f_test(without)
        assert effect.sum_of_squares == pytest.approx(without.ssr - full.ssr)
        assert (effect.f, effect.p_value, effect.degrees) == pytest.approx((f, p_value, degrees))
    assert (found.residual, found.residual_degrees) == pytest.approx((full.ssr, full.df_resid))
    assert found.method.share + found.question.share == pytest.approx(full.rsquared)


def test_designs_without_a_residual_are_refused() -> None:
    with pytest.raises(ValueError, match="leave no residual"):
        decompose_variance(["a", "b"], ["q", "q"], [1.0, 2.0])
    with pytest.raises(ValueError, match="nothing is left"):
        decompose_variance(["a", "a", "b", "b"] * 2, ["q", "r"] * 4, [1.0] * 8)
