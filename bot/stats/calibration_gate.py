"""Decides whether a calibrator may be used: only with enough rows and gains in two later windows that agree.

Calibrating prices has not been shown to help, and offsets fitted on one season have hurt the next, so identity is the
default and every adoption is a decision with its figures. A window is judged by a fit on rows that had resolved before
it began; the fit in use sees those that had resolved before ``before``, and no probability moves further than the cap.
Source: docs/facts/scoring.md#calibration-findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
from numpy.typing import ArrayLike

from bot.core.errors import LeakError
from bot.core.light_dataclass import dataclass
from bot.stats.arrays import BoolArray, DateArray, FloatArray, require_unit_interval
from bot.stats.calibration import (
    STANDARD_PENALTY,
    CalibrationPenalty,
    CalibrationRows,
    PlattCalibration,
    calibration_rows,
    fit_platt,
)
from bot.stats.scores import mean_brier


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalibrationHistory:
    """Resolved forecasts; ``made_on`` and ``resolved_on`` are datetime64[D] of shape (n,), one day a row."""

    rows: CalibrationRows
    made_on: DateArray
    resolved_on: DateArray

    def __post_init__(self) -> None:
        """Refuse other lengths, missing days and forecasts made after their outcome."""
        shape = self.rows.outcomes.shape
        if self.made_on.shape != shape or self.resolved_on.shape != shape:
            message = f"needs {shape[0]} days, got {self.made_on.shape} and {self.resolved_on.shape}"
            raise ValueError(message)
        if not (self.made_on <= self.resolved_on).all():
            message = "a day is missing, or a forecast was made after its question resolved"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPolicy:
    """The requirements for a calibrator.

    ``min_rows``: rows for any fit, those that judge a window included. ``min_window_rows``: rows in each window.
    ``min_gain``: drop of the mean Brier score in each window (0.0005 is about 0.1 index points). ``max_drift``: largest
    gap between the two windows' fits on any forecast. ``cap``: how far a probability may move.
    """

    min_rows: int = 150
    min_window_rows: int = 50
    min_gain: float = 0.0005
    max_drift: float = 0.05
    cap: float = 0.1
    penalty: CalibrationPenalty = STANDARD_PENALTY


@dataclass(frozen=True, slots=True)
class CalibrationCheck:
    """One test of the gate: its figure, the bound for it, and whether it passed."""

    name: str
    figure: float
    bound: float
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationDecision:
    """A calibrator to use, or identity (``platt`` is None), with every check that led to it."""

    platt: PlattCalibration | None
    cap: float
    before: date
    checks: tuple[CalibrationCheck, ...]

    def apply(self, probabilities: ArrayLike, groups: Sequence[str] = ()) -> FloatArray:
        """Return calibrated probabilities, shape (n,), none moved by more than the cap; unchanged under identity.

        Raises ValueError for a value outside [0, 1] or a wrong number of groups.
        """
        raw = require_unit_interval(probabilities, "probability")
        return raw if self.platt is None else _calibrate_within_cap(self.platt, raw, groups, self.cap)

    @property
    def failures(self) -> tuple[CalibrationCheck, ...]:
        """The failed checks; empty when the calibrator was adopted."""
        return tuple(check for check in self.checks if not check.passed)


def decide_calibration(history: CalibrationHistory, *, before: date, policy: CalibrationPolicy) -> CalibrationDecision:
    """Fit on all rows and adopt the fit if every check passes.

    before is the day of the forecasts to be calibrated. Raises LeakError if any row resolved on or after it: rows are
    never dropped silently, because a caller who passes them has a leak elsewhere too.
    """
    late = int((history.resolved_on >= np.datetime64(before)).sum())
    if late:
        message = f"{late} rows resolved on or after {before}, the first day to be calibrated"
        raise LeakError(message)
    size = len(history.rows.outcomes)
    checks = [_check_at_least("rows", size, policy.min_rows)]
    if checks[0].passed:
        checks += _window_checks(history, policy)
    adopted = all(check.passed for check in checks)
    return CalibrationDecision(
        platt=fit_platt(history.rows, policy.penalty) if adopted else None,
        cap=policy.cap,
        before=before,
        checks=tuple(checks),
    )


def _window_checks(history: CalibrationHistory, policy: CalibrationPolicy) -> list[CalibrationCheck]:
    days = np.sort(history.made_on)
    middle, late = days[days.size // 2], days[3 * days.size // 4]
    first = (history.made_on >= middle) & (history.made_on < late)
    second = history.made_on >= late
    checks: list[CalibrationCheck] = []
    fits: list[PlattCalibration] = []
    for number, (start, window) in enumerate([(middle, first), (late, second)], start=1):
        known = history.resolved_on < start
        sizes = [
            _check_at_least(f"rows resolved before window {number}", known.sum(), policy.min_rows),
            _check_at_least(f"rows in window {number}", window.sum(), policy.min_window_rows),
        ]
        checks += sizes
        if not all(check.passed for check in sizes):
            return checks
        fits.append(fit_platt(_select_rows(history.rows, known), policy.penalty))
        gain = _window_gain(fits[-1], _select_rows(history.rows, window), policy.cap)
        checks.append(_check_at_least(f"gain in window {number}", gain, policy.min_gain))
    drift = np.abs(_calibrate_rows(fits[0], history.rows) - _calibrate_rows(fits[1], history.rows)).max()
    return [*checks, _check_at_most("drift between windows", drift, policy.max_drift)]


def _window_gain(platt: PlattCalibration, rows: CalibrationRows, cap: float) -> float:
    moved = _calibrate_within_cap(platt, rows.probabilities, rows.groups, cap)
    return mean_brier(rows.probabilities, rows.outcomes) - mean_brier(moved, rows.outcomes)


def _calibrate_rows(platt: PlattCalibration, rows: CalibrationRows) -> FloatArray:
    return platt.apply(rows.probabilities, rows.groups)


def _calibrate_within_cap(platt: PlattCalibration, raw: FloatArray, groups: Sequence[str], cap: float) -> FloatArray:
    moved = np.clip(platt.apply(raw, groups), raw - cap, raw + cap)
    return np.clip(moved, 0.0, 1.0)


def _select_rows(rows: CalibrationRows, chosen: BoolArray) -> CalibrationRows:
    groups = [rows.groups[row] for row in np.flatnonzero(chosen)] if rows.groups else ()
    return calibration_rows(rows.probabilities[chosen], rows.outcomes[chosen], groups)


def _check_at_least(name: str, figure: float, bound: float) -> CalibrationCheck:
    return CalibrationCheck(name, float(figure), bound, passed=bool(figure >= bound))


def _check_at_most(name: str, figure: float, bound: float) -> CalibrationCheck:
    return CalibrationCheck(name, float(figure), bound, passed=bool(figure <= bound))
