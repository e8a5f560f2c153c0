"""The logit scale against scipy and its own inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.special import logit as scipy_logit

from bot.core.distributions import LOGIT_EPSILON
from bot.stats.arrays import logit, sigmoid


@given(st.floats(LOGIT_EPSILON, 1 - LOGIT_EPSILON))
def test_logit_agrees_with_scipy_inside_the_clip(probability: float) -> None:
    assert float(logit(probability)) == pytest.approx(float(scipy_logit(probability)), abs=1e-12)


@given(st.floats(-1e6, 1e6))
def test_sigmoid_agrees_with_scipy_without_overflow(log_odds: float) -> None:
    assert float(sigmoid(log_odds)) == pytest.approx(float(expit(log_odds)), abs=1e-15)


@given(st.floats(0, 1))
def test_sigmoid_undoes_logit_up_to_the_clip(probability: float) -> None:
    clipped = min(max(probability, LOGIT_EPSILON), 1 - LOGIT_EPSILON)
    assert float(sigmoid(logit(probability))) == pytest.approx(clipped, abs=1e-12)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_value_that_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        logit(np.array([0.5, bad]))
