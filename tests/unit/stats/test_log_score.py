"""Tournament scores against the golden values of the platform and hand arithmetic."""

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from bot.core.distributions import flat_prediction
from bot.core.predictions import CurvePrediction, CurveShape
from bot.stats.scores import (
    CONTINUOUS_PEER_SCALE,
    BucketLayout,
    binary_baseline_scores,
    bucket_masses,
    choice_baseline_scores,
    continuous_baseline_scores,
    log_scores,
    min_bucket_mass,
    outcome_buckets,
    peer_scores,
)

OPEN_UPPER = BucketLayout(inside=200, open_ends=1)


def test_binary_baselines_agree_with_the_vectors(vectors: dict[str, Any]) -> None:
    cases = vectors["scores"]
    scores = binary_baseline_scores([case["p"] for case in cases], [case["o"] for case in cases])
    assert scores == pytest.approx([case["metaculus"] for case in cases], abs=1e-9)


def test_the_binary_sample_question_scores_as_the_platform_did() -> None:
    assert peer_scores([0.8, 0.5])[0] == pytest.approx(47.00036292457356, abs=1e-12)
    assert binary_baseline_scores([0.8], [1]) == pytest.approx([67.80719051126378], abs=1e-12)


def test_the_choice_sample_question_scores_as_the_platform_did() -> None:
    assert peer_scores([0.6, 0.3])[0] == pytest.approx(69.31471805599455, abs=1e-12)
    assert choice_baseline_scores(0.6, options=3) == pytest.approx(53.502647928207274, abs=1e-12)


def test_the_numeric_sample_question_scores_as_the_platform_did() -> None:
    bucket = outcome_buckets(0.502, inside=200)
    assert peer_scores([0.0045, 0.0025], CONTINUOUS_PEER_SCALE)[0] == pytest.approx(29.389333245105938, abs=1e-12)
    assert continuous_baseline_scores(0.0045, bucket, OPEN_UPPER) == pytest.approx(-2.703361063513744, abs=1e-12)


def test_the_flat_mass_beyond_an_open_end_scores_zero() -> None:
    assert continuous_baseline_scores(0.05, 201, OPEN_UPPER) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("open_ends", [0, 1, 2])
def test_the_flat_forecast_scores_zero_inside_the_range(open_ends: int) -> None:
    # Each open end keeps 0.05, so ten buckets share 1, 0.95 or 0.9.
    flat = [0.1, 0.095, 0.09][open_ends]
    assert continuous_baseline_scores(
        [flat] * 2, [1, 10], BucketLayout(inside=10, open_ends=open_ends)
    ) == pytest.approx([0, 0])


@given(st.floats(0.001, 0.999))
def test_a_binary_question_is_a_choice_of_two(probability: float) -> None:
    assert binary_baseline_scores([probability], [1])[0] == pytest.approx(
        float(choice_baseline_scores(probability, 2)), abs=1e-9
    )


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.integers(0, 1))
def test_the_log_score_is_the_log_loss_of_scikit_learn(weights: list[float], outcome: int) -> None:
    pmf = np.array([weights]) / sum(weights)
    labels = list(range(len(weights)))
    assert log_scores(pmf[:, outcome])[0] == pytest.approx(log_loss([outcome], pmf, labels=labels), abs=1e-9)


def test_a_certain_error_has_the_log_score_of_the_least_mass_that_is_accepted() -> None:
    assert log_scores([0.0, 0.0009, 0.001]).tolist() == [-log(0.001)] * 3


def test_the_least_masses_are_those_that_the_platform_accepts() -> None:
    assert min_bucket_mass([0, 1, 200, 201], 200) == pytest.approx([0.001, 5e-5, 5e-5, 0.001])
    assert min_bucket_mass(1, 10) == pytest.approx(0.001)


@pytest.mark.parametrize(("lower", "upper"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_flat_curve_scores_zero_wherever_an_outcome_can_be(lower: bool, upper: bool) -> None:  # noqa: FBT001
    shape = CurveShape(grid=tuple(float(2**point) for point in range(11)), open_lower=lower, open_upper=upper)
    flat = flat_prediction(shape)
    assert isinstance(flat, CurvePrediction)
    masses = bucket_masses(flat.cdf)
    possible = np.arange(0 if lower else 1, 12 if upper else 11)
    scores = continuous_baseline_scores(masses[possible], possible, BucketLayout(inside=10, open_ends=lower + upper))
    assert scores == pytest.approx(np.zeros(possible.size), abs=1e-9)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=20))
def test_peer_scores_sum_to_zero(masses: list[float]) -> None:
    assert peer_scores(masses).sum() == pytest.approx(0.0, abs=1e-8)


@given(st.lists(st.floats(1e-6, 1), min_size=2, max_size=8))
def test_a_peer_score_is_the_mean_lead_over_each_other_forecaster(masses: list[float]) -> None:
    leads = [100 * log(masses[0] / other) for other in masses[1:]]
    assert peer_scores(masses)[0] == pytest.approx(float(np.mean(leads)), abs=1e-8)


def test_a_single_forecaster_has_no_peers() -> None:
    assert peer_scores([0.9]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("location", "inside", "bucket"),
    [
        (0.0, 200, 1),
        (0.005, 200, 1),
        (0.005000001, 200, 2),
        (0.5, 200, 100),
        (0.502, 200, 101),
        (0.9990000000000001, 200, 200),
        (1.0, 200, 200),
        (-0.01, 200, 0),
        (1.01, 200, 201),
        (0.005297324767484535, 200, 2),
        (0.46279486402436987, 200, 93),
        (0.8363294410525788, 200, 168),
        (1.0000000000000002, 200, 201),
        (0.05, 10, 1),
        (0.35, 10, 4),
        (0.95, 10, 10),
        (1.1, 10, 11),
        (0.09082724313866603, 200, 19),
    ],
)
def test_the_bucket_is_the_one_of_the_platform(location: float, inside: int, bucket: int) -> None:
    assert outcome_buckets(location, inside) == bucket


def test_masses_of_a_cdf_include_both_tails() -> None:
    assert bucket_masses([[0.1, 0.4, 0.9], [0.0, 0.5, 1.0]]) == pytest.approx(
        np.array([[0.1, 0.3, 0.5, 0.1], [0.0, 0.5, 0.5, 0.0]])
    )


@pytest.mark.parametrize(
    ("cdf", "reason"),
    [([0.5, 0.4], "decreases"), ([0.5], "two or more"), (0.5, "two or more"), ([0.0, 1.1], "outside")],
)
def test_a_malformed_cdf_is_refused(cdf: list[float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        bucket_masses(cdf)


def test_a_mass_of_zero_and_impossible_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="mass of 0"):
        peer_scores([0.0, 0.5])
    with pytest.raises(ValueError, match="two or more options"):
        choice_baseline_scores(0.5, options=1)
    with pytest.raises(ValueError, match="0 to 201"):
        continuous_baseline_scores(0.5, 202, OPEN_UPPER)
    with pytest.raises(ValueError, match="open ends"):
        BucketLayout(inside=0, open_ends=0)
