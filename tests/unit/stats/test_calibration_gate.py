"""The gate: identity by default, adoption on two agreeing windows, no leak, no large move."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import LeakError
from bot.stats.arrays import FloatArray, sigmoid
from bot.stats.calibration import PlattCalibration, calibration_rows, fit_platt
from bot.stats.calibration_gate import CalibrationDecision, CalibrationHistory, CalibrationPolicy, decide_calibration

BEFORE = date(2026, 3, 1)
FIRST = np.datetime64("2025-03-01")
POLICY = CalibrationPolicy()


def history(slopes: list[float], size: int = 2000, lag_days: int = 3) -> CalibrationHistory:
    """Forecasts over 350 days whose true slope on the logit scale goes through ``slopes`` in equal parts."""
    rng = np.random.default_rng(11)
    log_odds = rng.normal(0.0, 1.5, size)
    slope = np.repeat(slopes, size // len(slopes))
    outcomes = (rng.random(size) < sigmoid(slope * log_odds)).astype(float)
    made_on = FIRST + np.arange(size) * 350 // size
    return CalibrationHistory(
        rows=calibration_rows(sigmoid(log_odds), outcomes),
        made_on=made_on,
        resolved_on=made_on + np.timedelta64(lag_days, "D"),
    )


def failed(decision: CalibrationDecision) -> list[str]:
    return [check.name for check in decision.failures]


def test_a_steady_bias_is_corrected_by_a_fit_on_all_rows() -> None:
    steady = history([0.5])
    decision = decide_calibration(steady, before=BEFORE, policy=POLICY)
    assert decision.failures == ()
    assert decision.platt == fit_platt(steady.rows)
    assert decision.platt.slope == pytest.approx(0.5, abs=0.1)
    assert [check.name for check in decision.checks] == [
        "rows",
        "rows resolved before window 1",
        "rows in window 1",
        "gain in window 1",
        "rows resolved before window 2",
        "rows in window 2",
        "gain in window 2",
        "drift between windows",
    ]


def test_too_few_rows_mean_identity() -> None:
    decision = decide_calibration(history([0.5], size=100), before=BEFORE, policy=POLICY)
    assert decision.platt is None
    assert [(check.figure, check.bound) for check in decision.failures] == [(100, 150)]
    assert decision.apply([0.0, 0.3, 1.0]).tolist() == [0.0, 0.3, 1.0]


def test_calibrated_forecasts_show_no_gain() -> None:
    assert "gain in window 1" in failed(decide_calibration(history([1.0]), before=BEFORE, policy=POLICY))


def test_a_bias_that_vanishes_in_the_last_window_is_not_adopted() -> None:
    decision = decide_calibration(history([0.5, 0.5, 0.5, 1.3]), before=BEFORE, policy=POLICY)
    assert decision.platt is None
    assert "gain in window 2" in failed(decision)


def test_windows_that_want_different_maps_do_not_agree() -> None:
    decision = decide_calibration(history([0.7, 0.7, 0.1, 0.1]), before=BEFORE, policy=POLICY)
    assert failed(decision) == ["drift between windows"]


def test_slow_resolution_leaves_a_window_without_training_rows() -> None:
    slow = history([0.5], size=400, lag_days=300)
    decision = decide_calibration(slow, before=date(2027, 1, 1), policy=POLICY)
    assert failed(decision) == ["rows resolved before window 1"]


def test_a_single_day_cannot_be_split_into_windows() -> None:
    one_day = history([0.5])
    decision = decide_calibration(
        CalibrationHistory(rows=one_day.rows, made_on=np.full(2000, FIRST), resolved_on=one_day.resolved_on),
        before=BEFORE,
        policy=POLICY,
    )
    assert failed(decision) == ["rows resolved before window 1", "rows in window 1"]


def test_groups_get_their_own_offsets() -> None:
    flat = history([0.5])
    names = ["even", "odd"] * 1000
    rows = calibration_rows(flat.rows.probabilities, flat.rows.outcomes, names)
    decision = decide_calibration(
        CalibrationHistory(rows=rows, made_on=flat.made_on, resolved_on=flat.resolved_on), before=BEFORE, policy=POLICY
    )
    assert decision.platt is not None
    assert set(decision.platt.offsets) == {"even", "odd"}


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(-3, 3), st.floats(-5, 5), st.floats(0, 0.5))
def test_no_number_moves_further_than_the_cap(
    probabilities: list[float], slope: float, intercept: float, cap: float
) -> None:
    platt = PlattCalibration(slope=slope, intercept=intercept, offsets={}, rows=1000)
    decision = CalibrationDecision(platt=platt, cap=cap, before=BEFORE, checks=())
    moved = decision.apply(probabilities)
    assert (np.abs(moved - probabilities) <= cap + 1e-12).all()
    assert ((moved >= 0) & (moved <= 1)).all()


@pytest.mark.parametrize("offset", [0, 1, 30])
def test_a_row_that_resolves_on_the_day_or_later_is_a_leak(offset: int) -> None:
    clean = history([0.5])
    resolved_on = clean.resolved_on.copy()
    resolved_on[7] = np.datetime64(BEFORE) + np.timedelta64(offset, "D")
    with pytest.raises(LeakError, match="1 rows resolved on or after 2026-03-01"):
        decide_calibration(
            CalibrationHistory(rows=clean.rows, made_on=clean.made_on, resolved_on=resolved_on),
            before=BEFORE,
            policy=POLICY,
        )


def test_outcomes_after_a_window_began_do_not_reach_its_fit() -> None:
    steady = history([0.5])
    start = np.sort(steady.made_on)[1000]
    unknown_then = steady.resolved_on >= start

    def first_gain(outcomes: FloatArray) -> float:
        rows = calibration_rows(steady.rows.probabilities, outcomes)
        changed = CalibrationHistory(rows=rows, made_on=steady.made_on, resolved_on=steady.resolved_on)
        return decide_calibration(changed, before=BEFORE, policy=POLICY).checks[3].figure

    # Rows made before the window and resolved in it train nothing and are judged in no window.
    between = unknown_then & (steady.made_on < start)
    assert between.any()
    flipped = np.where(between, 1 - steady.rows.outcomes, steady.rows.outcomes)
    assert first_gain(flipped) == first_gain(steady.rows.outcomes)


def test_a_malformed_history_is_refused() -> None:
    rows = calibration_rows([0.5, 0.5], [0, 1])
    days = np.array(["2026-01-02", "2026-01-03"], dtype="datetime64[D]")
    day_before = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")
    with pytest.raises(ValueError, match="2 days"):
        CalibrationHistory(rows=rows, made_on=days[:1], resolved_on=days)
    with pytest.raises(ValueError, match="after its question"):
        CalibrationHistory(rows=rows, made_on=days, resolved_on=day_before)
    with pytest.raises(ValueError, match="missing"):
        CalibrationHistory(rows=rows, made_on=days, resolved_on=np.array(["2026-01-05", "NaT"], dtype="datetime64[D]"))
