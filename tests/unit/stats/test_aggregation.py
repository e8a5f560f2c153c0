"""Aggregation of trials against the vectors and the properties of means."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.stats.aggregation import (
    FixedWeight,
    SpreadWeight,
    answer_counts,
    logit_mean_probability,
    logit_moments,
    mean_probability,
    median_probability,
    shrink_to_prior,
    trial_matrix,
)
from bot.stats.arrays import FloatArray

METHODS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": mean_probability,
    "logit_mean": logit_mean_probability,
    "median": median_probability,
    "shrink_std_f.3_c.7": lambda trials: shrink_to_prior(logit_moments(trials), SpreadWeight(0.3, 0.7)),
    "shrink_std_f.5_c1.0": lambda trials: shrink_to_prior(logit_moments(trials), SpreadWeight(0.5, 1.0)),
    "shrink_alpha_.6": lambda trials: shrink_to_prior(logit_moments(trials), FixedWeight(0.6)),
    "shrink_std_f.3_c.7_prior.15": lambda trials: shrink_to_prior(logit_moments(trials), SpreadWeight(0.3, 0.7), 0.15),
}
answers = st.lists(st.floats(0, 1), min_size=1, max_size=7)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_agrees_with_the_vectors(vectors: dict[str, Any], method: str) -> None:
    for case in vectors["aggregate"]:
        aggregated = METHODS[method](trial_matrix(case["trials"], targets=1))
        assert aggregated == pytest.approx([case[method]], abs=1e-9), case["trials"]


def test_lists_are_averaged_per_date_over_the_trials_that_answer_it() -> None:
    trials = trial_matrix([[0.2, 0.4, 0.9], None, 0.6, [0.1, None]], targets=3)
    assert mean_probability(trials) == pytest.approx([(0.2 + 0.6 + 0.1) / 3, (0.4 + 0.6) / 2, (0.9 + 0.6) / 2])
    assert median_probability(trials) == pytest.approx([0.2, 0.5, 0.75])
    assert answer_counts(trials).tolist() == [3, 2, 2]


@given(st.lists(answers, min_size=1, max_size=4))
def test_targets_do_not_touch_each_other(columns: list[list[float]]) -> None:
    longest = max(len(column) for column in columns)
    padded = np.array([column + [np.nan] * (longest - len(column)) for column in columns]).T
    for method in METHODS.values():
        together = method(padded)
        alone = [method(np.array(column)[:, None])[0] for column in columns]
        assert together == pytest.approx(alone, abs=1e-12)


@given(answers)
def test_an_aggregate_lies_between_the_clipped_extremes(trials: list[float]) -> None:
    matrix = np.array(trials)[:, None]
    for method in (mean_probability, median_probability, logit_mean_probability):
        assert min(trials) - 1e-4 - 1e-12 <= method(matrix)[0] <= max(trials) + 1e-4 + 1e-12


@given(st.floats(0, 1))
def test_a_single_trial_is_not_shrunk(probability: float) -> None:
    assert shrink_to_prior(logit_moments([[probability]]), FixedWeight(0.1), 0.9).tolist() == [probability]


def test_what_cannot_be_aggregated_is_refused() -> None:
    with pytest.raises(ValueError, match="3 targets out of 2"):
        trial_matrix([[0.1, 0.2, 0.3]], targets=2)
    with pytest.raises(ValueError, match="target 1"):
        mean_probability(trial_matrix([[0.1]], targets=2))
    with pytest.raises(ValueError, match="outside"):
        trial_matrix([1.5], targets=1)
    with pytest.raises(ValueError, match="shape"):
        trial_matrix([], targets=1)
