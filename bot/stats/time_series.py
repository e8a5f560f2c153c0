"""Probability that a daily series stands above a threshold on a later day: seasons, trends and their mixture.

These are deliberately simple estimators of "will the value rise above what it is now", for series without a better
model. Give them ``DailySeries.before(day)`` for the forecast day, and as threshold the value on that day, not an older
one. Source: BLF paper, appendix I, equations 17-23, with the constants of its published code where the text does not
state them.
"""

from __future__ import annotations

from math import erfc, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bot.core.light_dataclass import dataclass
from bot.stats.arrays import DateArray, FloatArray, require_finite, require_same_length

Day = np.datetime64
_MIN_POINTS = 30
_MIN_NEIGHBOURS = 5
_ONE_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DailySeries:
    """Values by day: ``days`` is datetime64[D], strictly increasing, of the shape of ``values`` (n,)."""

    days: DateArray
    values: FloatArray

    def before(self, day: Day) -> DailySeries:
        """Return the points strictly before the day."""
        end = int(np.searchsorted(self.days, day, side="left"))
        return DailySeries(days=self.days[:end], values=self.values[:end])


class ExceedanceEstimate(NamedTuple):
    """The probability of standing above the threshold, and the number of past points behind it."""

    probability: float
    points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendModel:
    """How a class of series is extrapolated.

    The line is fitted to the last ``window`` points or days; ``trust`` in [0, 1] is its weight against one half, and
    ``trend_share`` in [0, 1] the weight of the trend against earlier years where these are known.
    """

    window: int
    unit: Literal["points", "days"]
    trust: float
    trend_share: float


DAILY_PRICES = TrendModel(window=60, unit="points", trust=0.1, trend_share=0.5)
ECONOMIC_SERIES = TrendModel(window=30, unit="points", trust=0.5, trend_share=0.5)
SEASONAL_SERIES = TrendModel(window=365, unit="days", trust=0.4, trend_share=0.3)


def daily_series(days: ArrayLike, values: ArrayLike) -> DailySeries:
    """Combine days and values (n,) in order of days, without NaN values.

    Raises ValueError for unequal lengths, a day given twice, a missing day or an infinite value.
    """
    when = np.asarray(days, dtype="datetime64[D]")
    numbers = np.asarray(values, dtype=np.float64)
    require_same_length(days=when.astype(np.int64), values=numbers)
    order = np.argsort(when[~np.isnan(numbers)])
    when, numbers = when[~np.isnan(numbers)][order], numbers[~np.isnan(numbers)][order]
    if np.isnat(when).any() or (np.diff(when) <= np.timedelta64(0, "D")).any():
        message = "a day is missing or given twice"
        raise ValueError(message)
    return DailySeries(days=when, values=require_finite(numbers, "series value"))


def seasonal_exceedance(past: DailySeries, threshold: float, on: Day, half_width: int = 10) -> ExceedanceEstimate:
    """Count past points within half_width days of the same day of the year: (above + 1) / (points + 2).

    The result stays in [0.05, 0.95]. Days of the year are compared around a circle of 365, so the last day of a leap
    year meets 1 January. Fewer than 30 points in all, or 5 in season, give one half. Source: equations 17-19.
    """
    if past.values.size < _MIN_POINTS:
        return ExceedanceEstimate(probability=0.5, points=0)
    apart = np.abs(_day_of_year(past.days) - _day_of_year(np.asarray(on, dtype="datetime64[D]")))
    near = past.values[np.minimum(apart, 365 - apart) <= half_width]
    if near.size < _MIN_NEIGHBOURS:
        return ExceedanceEstimate(probability=0.5, points=near.size)
    smoothed = (float((near > threshold).sum()) + 1.0) / (near.size + 2.0)
    return ExceedanceEstimate(probability=min(max(smoothed, 0.05), 0.95), points=near.size)


def prior_year_exceedance(past: DailySeries, threshold: float, on: Day, years: int = 5) -> ExceedanceEstimate:
    """Ask the nearest point, within 7 days, of the same date in each earlier year: (above + 1) / (points + 2).

    29 February becomes 28 February in common years. Without any point the answer is one half with 0 points.
    """
    found = [_value_near(past, _years_earlier(on, back)) for back in range(1, years + 1)]
    known = np.array([value for value in found if value is not None])
    above = float((known > threshold).sum())
    return ExceedanceEstimate(probability=(above + 1.0) / (known.size + 2.0), points=known.size)


def trend_exceedance(past: DailySeries, threshold: float, on: Day, model: TrendModel) -> ExceedanceEstimate:
    """Extend the least-squares line to the day and take the normal tail above the threshold, shrunk to one half.

    The spread is the population standard deviation of the residuals, the same for every horizon; on an exact line the
    tail is 0, one half or 1. Fewer than 3 points in the window give one half. Source: equations 20 and 21.
    """
    recent = _recent_window(past, model)
    if recent.values.size < 3:
        return ExceedanceEstimate(probability=0.5, points=recent.values.size)
    days = (recent.days - recent.days[-1]) / _ONE_DAY
    slope, level = np.polynomial.polynomial.polyfit(days, recent.values, 1)[::-1]
    spread = float(np.std(recent.values - (level + slope * days)))
    ahead = float(level + slope * ((on - recent.days[-1]) / _ONE_DAY))
    tail = _normal_tail(threshold - ahead, spread, floor=1e-12 * float(np.abs(recent.values).max()))
    probability = model.trust * tail + (1.0 - model.trust) * 0.5
    return ExceedanceEstimate(probability=probability, points=recent.values.size)


def hybrid_exceedance(past: DailySeries, threshold: float, on: Day, model: TrendModel) -> ExceedanceEstimate:
    """Mix the trend with earlier years; the trend alone where no earlier year is known. Source: equations 22 and 23."""
    trend = trend_exceedance(past, threshold, on, model)
    seasons = prior_year_exceedance(past, threshold, on)
    if not seasons.points:
        return trend
    mixed = model.trend_share * trend.probability + (1.0 - model.trend_share) * seasons.probability
    return ExceedanceEstimate(probability=mixed, points=trend.points + seasons.points)


def _day_of_year(days: DateArray) -> FloatArray:
    return np.asarray((days - days.astype("datetime64[Y]")) / _ONE_DAY, dtype=np.float64)


def _years_earlier(day: Day, years: int) -> Day:
    month = day.astype("datetime64[M]")
    into_month = day - month.astype("datetime64[D]")
    earlier = month - np.timedelta64(12 * years, "M")
    last = (earlier + np.timedelta64(1, "M")).astype("datetime64[D]") - _ONE_DAY
    return min(earlier.astype("datetime64[D]") + into_month, last)


def _value_near(past: DailySeries, day: Day, reach: int = 7) -> float | None:
    if not past.days.size:
        return None
    apart = np.abs((past.days - day) / _ONE_DAY)
    nearest = int(apart.argmin())
    return float(past.values[nearest]) if apart[nearest] <= reach else None


def _recent_window(past: DailySeries, model: TrendModel) -> DailySeries:
    if model.unit == "points" or not past.days.size:
        return DailySeries(days=past.days[-model.window :], values=past.values[-model.window :])
    chosen = past.days >= past.days[-1] - np.timedelta64(model.window, "D")
    return DailySeries(days=past.days[chosen], values=past.values[chosen])


def _normal_tail(distance: float, spread: float, *, floor: float) -> float:
    if spread > floor:
        return 0.5 * erfc(distance / (spread * sqrt(2.0)))
    if abs(distance) <= floor:
        return 0.5
    return 0.0 if distance > 0.0 else 1.0
