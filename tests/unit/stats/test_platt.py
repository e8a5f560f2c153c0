"""Platt calibration against the vectors, scikit-learn, statsmodels, and refits one by one."""

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from bot.stats.arrays import logit, sigmoid
from bot.stats.calibration import (
    CalibrationPenalty,
    CalibrationRows,
    ConvergenceError,
    LogisticProblem,
    PlattCalibration,
    calibrate_leave_one_out,
    calibration_rows,
    fit_platt,
)
from bot.stats.scores import mean_brier
from tests.unit.stats.published_rounds import ScoredRow

GROUPS = "abcdefghi"


def simulated(size: int, seed: int) -> CalibrationRows:
    """Overconfident forecasts in nine groups of different bias."""
    rng = np.random.default_rng(seed)
    group = rng.integers(len(GROUPS), size=size)
    log_odds = rng.normal(0.0, 1.5, size)
    came_true = rng.random(size) < sigmoid(0.7 * log_odds + 0.1 * (group - 4.0))
    return calibration_rows(sigmoid(log_odds), came_true.astype(float), [GROUPS[g] for g in group])


def without(rows: CalibrationRows, left_out: list[int]) -> CalibrationRows:
    kept = [row for row in range(len(rows.outcomes)) if row not in left_out]
    return calibration_rows(rows.probabilities[kept], rows.outcomes[kept], [rows.groups[row] for row in kept])


def test_the_global_fit_agrees_with_the_vectors(grouped: CalibrationRows, vectors: dict[str, Any]) -> None:
    fitted = fit_platt(calibration_rows(grouped.probabilities, grouped.outcomes))
    assert fitted.slope == pytest.approx(vectors["platt_global"]["a"], abs=2e-4)
    assert fitted.intercept == pytest.approx(vectors["platt_global"]["b"], abs=2e-4)
    assert fitted.rows == vectors["platt_global"]["n"]


@pytest.mark.parametrize("name", ["platt_hier_lam1", "platt_hier_lam10"])
def test_the_hierarchical_fit_agrees_with_the_vectors(
    grouped: CalibrationRows, vectors: dict[str, Any], name: str
) -> None:
    model = vectors[name]
    fitted = fit_platt(grouped, CalibrationPenalty(offsets=model["lambda"]))
    assert fitted.slope == pytest.approx(model["a"], abs=2e-5)
    assert fitted.intercept == pytest.approx(model["b"], abs=2e-5)
    assert dict(fitted.offsets) == pytest.approx(model["group_offsets"], abs=2e-5)


def test_applying_a_given_model_agrees_with_the_vectors(grouped: CalibrationRows, vectors: dict[str, Any]) -> None:
    model = vectors["platt_hier_lam1"]
    platt = PlattCalibration(slope=model["a"], intercept=model["b"], offsets=model["group_offsets"], rows=model["n"])
    applied = platt.apply(grouped.probabilities, grouped.groups)
    assert applied == pytest.approx(vectors["platt_hier_applied"], abs=1e-9)


def test_leave_one_out_agrees_with_the_vectors(grouped: CalibrationRows, vectors: dict[str, Any]) -> None:
    assert calibrate_leave_one_out(grouped) == pytest.approx(vectors["platt_hier_loo"], abs=1e-5)


def test_the_fixed_split_of_the_published_rounds_is_reproduced(
    published: list[ScoredRow], expected: dict[str, Any]
) -> None:
    check = expected["platt_check"]
    market = [row for row in published if row.market]
    train, test = ([row for row in market if (row.due < "2026-03-01") is early] for early in (True, False))
    assert (len(train), len(test)) == (check["n_train"], check["n_test"])
    p, o = [row.probability for row in train], [row.outcome for row in train]
    crowd = fit_platt(calibration_rows(p, o), eps=1e-3)
    hierarchical = fit_platt(calibration_rows(p, o, [row.source for row in train]), eps=1e-3)
    assert (crowd.slope, crowd.intercept) == pytest.approx(tuple(check["global_platt"].values()), abs=1e-4)
    assert hierarchical.slope == pytest.approx(check["hier_platt"]["a"], abs=1e-4)
    assert hierarchical.intercept == pytest.approx(check["hier_platt"]["b"], abs=1e-4)
    assert dict(hierarchical.offsets) == pytest.approx(check["hier_platt"]["delta"], abs=1e-4)
    p, o = [row.probability for row in test], [row.outcome for row in test]
    briers = {
        "crowd": mean_brier(p, o),
        "global_platt": mean_brier(crowd.apply(p), o),
        "hier_platt": mean_brier(hierarchical.apply(p, [row.source for row in test]), o),
    }
    assert briers == pytest.approx(check["test_brier"], abs=1e-6)


def test_the_global_fit_agrees_with_scikit_learn_and_statsmodels() -> None:
    rows = simulated(400, seed=1)
    fitted = fit_platt(calibration_rows(rows.probabilities, rows.outcomes))
    log_odds = logit(rows.probabilities)
    forest = LogisticRegression(C=1e6, tol=1e-10, max_iter=1000).fit(log_odds[:, None], rows.outcomes)
    assert (fitted.slope, fitted.intercept) == pytest.approx((forest.coef_[0, 0], forest.intercept_[0]), abs=1e-5)
    likelihood = sm.Logit(rows.outcomes, sm.add_constant(log_odds)).fit(disp=0)
    assert (fitted.intercept, fitted.slope) == pytest.approx(tuple(likelihood.params), abs=1e-5)


def test_leave_one_out_equals_refits_one_by_one() -> None:
    rows = simulated(60, seed=2)
    left_out = calibrate_leave_one_out(rows)
    for row in range(60):
        refit = fit_platt(without(rows, [row]))
        assert left_out[row] == pytest.approx(refit.apply(rows.probabilities[[row]], [rows.groups[row]])[0], abs=1e-9)


def test_leave_one_out_without_groups_equals_refits_one_by_one() -> None:
    simulation = simulated(40, seed=7)
    p, o = simulation.probabilities, simulation.outcomes
    left_out = calibrate_leave_one_out(calibration_rows(p, o))
    for row in range(40):
        others = np.arange(40) != row
        refit = fit_platt(calibration_rows(p[others], o[others]))
        assert left_out[row] == pytest.approx(refit.apply(p[[row]])[0], abs=1e-9)


def test_clusters_are_left_out_whole() -> None:
    rows = simulated(60, seed=3)
    clusters = np.arange(60) // 4 + 100
    left_out = calibrate_leave_one_out(rows, clusters=clusters)
    for cluster in np.unique(clusters):
        mine = np.flatnonzero(clusters == cluster).tolist()
        refit = fit_platt(without(rows, mine))
        again = refit.apply(rows.probabilities[mine], [rows.groups[row] for row in mine])
        assert left_out[mine] == pytest.approx(again, abs=1e-9)


def test_batches_of_refits_join_without_a_seam() -> None:
    # 800 rows need two batches; rows on both sides of the border are refitted alone.
    rows = simulated(800, seed=4)
    left_out = calibrate_leave_one_out(rows)
    for row in (0, 624, 625, 799):
        refit = fit_platt(without(rows, [row]))
        assert left_out[row] == pytest.approx(refit.apply(rows.probabilities[[row]], [rows.groups[row]])[0], abs=1e-9)


@given(st.floats(0.3, 2.5), st.floats(-1, 1))
def test_fractional_outcomes_on_the_curve_give_the_curve_back(slope: float, intercept: float) -> None:
    p = np.linspace(0.02, 0.98, 50)
    fitted = fit_platt(calibration_rows(p, sigmoid(slope * logit(p) + intercept)))
    assert (fitted.slope, fitted.intercept) == pytest.approx((slope, intercept), abs=1e-5)


def test_an_unknown_group_has_offset_zero() -> None:
    platt = PlattCalibration(slope=1.0, intercept=0.0, offsets={"known": 1.0}, rows=10)
    assert platt.apply([0.3, 0.3], ["unknown", "known"])[0] == pytest.approx(0.3)
    assert platt.apply([0.3]) == pytest.approx([0.3])


def test_separable_rows_have_a_finite_fit() -> None:
    fitted = fit_platt(calibration_rows([0.2, 0.3, 0.7, 0.8], [0, 0, 1, 1], list("abab")))
    assert np.isfinite([fitted.slope, fitted.intercept]).all()
    assert fitted.slope > 5
    everything_happened = fit_platt(calibration_rows([0.5, 0.5], [1, 1]))
    assert everything_happened.apply([0.5])[0] > 0.99


def test_a_strong_pull_to_the_identity_leaves_forecasts_as_they_are() -> None:
    rows = simulated(100, seed=5)
    fitted = fit_platt(rows, CalibrationPenalty(offsets=1e9, identity=1e9))
    assert fitted.apply(rows.probabilities, rows.groups) == pytest.approx(rows.probabilities, abs=1e-5)


def test_a_start_far_from_the_optimum_is_survived() -> None:
    # Confident forecasts that are wrong four times in five: the first full step would overshoot a hundredfold.
    p = np.tile([0.001, 0.999], 50)
    o = np.where(np.arange(100) % 5 == 0, np.round(p), 1 - np.round(p))
    fitted = fit_platt(calibration_rows(p, o), eps=1e-3)
    likelihood = sm.Logit(o, sm.add_constant(logit(p, 1e-3))).fit(disp=0)
    assert (fitted.intercept, fitted.slope) == pytest.approx(tuple(likelihood.params), abs=1e-6)


@pytest.mark.parametrize(("penalty", "reason"), [(0.0, "no finite optimum"), (1e-13, "100 Newton steps")])
def test_a_problem_without_an_optimum_says_so(penalty: float, reason: str) -> None:
    everything_came_true = LogisticProblem(
        x=np.array([-1.0, 1.0]),
        outcomes=np.ones(2),
        group_sizes=np.array([], dtype=np.int64),
        line_penalty=penalty,
        offset_penalty=1.0,
    )
    with pytest.raises(ConvergenceError, match=reason):
        everything_came_true.minimise(np.ones((1, 2)), np.zeros(2))


def test_malformed_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        calibration_rows([0.5, 0.5], [1, 0], ["a"])
    with pytest.raises(ValueError, match="outcome"):
        calibration_rows([0.5], [2])
    with pytest.raises(ValueError, match="above 0"):
        CalibrationPenalty(offsets=0.0)
    with pytest.raises(ValueError, match="two or more"):
        calibrate_leave_one_out(simulated(5, seed=6), clusters=np.zeros(5, dtype=np.int64))
    with pytest.raises(ValueError, match="one length"):
        PlattCalibration(slope=1.0, intercept=0.0, offsets={}, rows=1).apply([0.5], ["a", "b"])


def test_two_clusters_are_enough_to_leave_one_out() -> None:
    rows = simulated(40, seed=5)
    clusters = np.arange(40) % 2
    left_out = calibrate_leave_one_out(rows, clusters=clusters)
    for cluster in (0, 1):
        mine = np.flatnonzero(clusters == cluster).tolist()
        refit = fit_platt(without(rows, mine))
        again = refit.apply(rows.probabilities[mine], [rows.groups[row] for row in mine])
        assert left_out[mine] == pytest.approx(again, abs=1e-9)
    with pytest.raises(ValueError, match="two or more"):
        calibrate_leave_one_out(rows, clusters=np.zeros(40, dtype=np.int64))


@pytest.mark.parametrize(("offsets", "identity"), [(1e-9, 1e-9), (0.5, 1e-7), (1e-9, 2.0)])
def test_any_penalty_above_zero_is_one(offsets: float, identity: float) -> None:
    assert CalibrationPenalty(offsets=offsets, identity=identity).offsets == offsets


@pytest.mark.parametrize(("offsets", "identity"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -1.0)])
def test_no_penalty_is_refused(offsets: float, identity: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        CalibrationPenalty(offsets=offsets, identity=identity)
