"""Time-series estimators against the vectors, scipy and the calendar, and on the awkward days of the calendar."""

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress, norm

from bot.stats.time_series import (
    DAILY_PRICES,
    ECONOMIC_SERIES,
    SEASONAL_SERIES,
    DailySeries,
    TrendModel,
    daily_series,
    hybrid_exceedance,
    prior_year_exceedance,
    seasonal_exceedance,
    trend_exceedance,
)

CLASSES = {"yfinance": DAILY_PRICES, "fred": ECONOMIC_SERIES, "dbnomics": SEASONAL_SERIES}
LEAP_DAY = np.datetime64("2028-02-29")
WHOLE_TRUST = TrendModel(window=40, unit="points", trust=1.0, trend_share=1.0)


def daily(values: list[float] | np.ndarray, start: str = "2022-01-01") -> DailySeries:
    return daily_series(np.datetime64(start) + np.arange(len(values)), values)


@pytest.fixture(scope="module")
def seasonal(vectors: dict[str, Any]) -> DailySeries:
    given_series = vectors["time_series"]["series"]
    return daily(given_series["values"], given_series["start"])


def test_seasonal_exceedance_agrees_with_the_vectors(seasonal: DailySeries, vectors: dict[str, Any]) -> None:
    for case in vectors["time_series"]["knn"]:
        for on, points, probability in case["out"]:
            found = seasonal_exceedance(seasonal, case["threshold"], np.datetime64(on))
            assert found.points == points
            assert found.probability == pytest.approx(probability, abs=1e-12)


def test_trend_and_hybrid_agree_with_the_vectors(seasonal: DailySeries, vectors: dict[str, Any]) -> None:
    for case in vectors["time_series"]["trend"]:
        model, on = CLASSES[case["source"]], np.datetime64(case["rd"])
        assert f"{trend_exceedance(seasonal, case['threshold'], on, model).probability:.2f}" == case["linear"]
        assert f"{hybrid_exceedance(seasonal, case['threshold'], on, model).probability:.2f}" == case["combined"]


def test_the_trend_is_the_normal_tail_around_the_line_of_scipy() -> None:
    values = np.random.default_rng(1).normal(0.0, 1.0, 100).cumsum()
    past = daily(values)
    line = linregress(np.arange(60, 100), values[60:])
    spread = np.std(values[60:] - (line.intercept + line.slope * np.arange(60, 100)))
    found = trend_exceedance(past, 1.0, np.datetime64("2022-01-01") + 120, WHOLE_TRUST)
    tail = norm.sf((1.0 - (line.intercept + line.slope * 120)) / spread)
    assert found.probability == pytest.approx(tail, abs=1e-12)
    assert found.points == 40


def test_days_of_the_year_are_those_of_the_calendar() -> None:
    # A threshold below everything makes the count visible; 31 December of a leap year is day 366.
    days = [date(2019, 1, 1) + timedelta(day) for day in range(2557)]
    past = daily_series(np.array(days, dtype="datetime64[D]"), np.ones(len(days)))
    for on in ("2026-01-01", "2028-02-29", "2028-12-31", "2026-06-30"):
        there = date.fromisoformat(on).timetuple().tm_yday
        apart = [abs(day.timetuple().tm_yday - there) for day in days]
        near = sum(min(distance, 365 - distance) <= 10 for distance in apart)
        assert seasonal_exceedance(past, 0.0, np.datetime64(on)).points == near


@pytest.mark.parametrize("model", CLASSES.values(), ids=CLASSES)
def test_a_leap_day_is_a_day_like_any_other(seasonal: DailySeries, model: TrendModel) -> None:
    on_leap_day = hybrid_exceedance(seasonal, 3.0, LEAP_DAY, model)
    neighbour = hybrid_exceedance(seasonal, 3.0, LEAP_DAY + 1, model)
    assert on_leap_day.points == neighbour.points
    assert on_leap_day.probability == pytest.approx(neighbour.probability, abs=0.25)
    assert seasonal_exceedance(seasonal, 3.0, LEAP_DAY).points > 0


def test_earlier_years_of_a_leap_day_are_read_at_the_end_of_february() -> None:
    days = ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2027-03-09"]
    past = daily_series(np.array(days, dtype="datetime64[D]"), [9.0, 9.0, 1.0, 9.0, 1.0])
    # Four years are known (2023 is not), three of them above 5: (3 + 1) / (4 + 2).
    assert prior_year_exceedance(past, 5.0, LEAP_DAY) == pytest.approx((4 / 6, 4))


def test_a_value_equal_to_the_threshold_is_not_above_it() -> None:
    flat = daily([5.0] * 400)
    on = np.datetime64("2023-01-20")
    # 21 days of January 2022 and none above: 1 / 23 is held at the floor; one earlier year, not above: 1 / 3.
    assert seasonal_exceedance(flat, 5.0, on).probability == 0.05
    assert prior_year_exceedance(flat, 5.0, on) == pytest.approx((1 / 3, 1))


@pytest.mark.parametrize(
    ("day", "points"), [("2022-06-08", 1), ("2022-06-07", 0), ("2022-06-22", 1), ("2022-06-23", 0)]
)
def test_an_earlier_year_counts_within_seven_days(day: str, points: int) -> None:
    past = daily_series([np.datetime64(day)], [1.0])
    assert prior_year_exceedance(past, 0.0, np.datetime64("2023-06-15")).points == points


def test_only_points_strictly_before_the_day_are_past() -> None:
    past = daily([1.0, 2.0, 3.0]).before(np.datetime64("2022-01-03"))
    assert past.values.tolist() == [1.0, 2.0]
    assert past.days.tolist() == daily([1.0, 2.0]).days.tolist()


def test_gaps_are_left_out_and_days_put_in_order() -> None:
    days = np.array(["2022-01-03", "2022-01-01", "2022-01-02"], dtype="datetime64[D]")
    mixed = daily_series(days, [3.0, 1.0, np.nan])
    assert mixed.values.tolist() == [1.0, 3.0]


def test_little_history_gives_one_half() -> None:
    few = daily([1.0] * 29)
    assert seasonal_exceedance(few, 0.0, np.datetime64("2022-02-01")).probability == 0.5
    winter = daily([1.0] * 60)
    assert seasonal_exceedance(winter, 0.0, np.datetime64("2022-07-01")) == (0.5, 0)
    assert trend_exceedance(daily([1.0, 2.0]), 0.0, np.datetime64("2022-02-01"), DAILY_PRICES).probability == 0.5


def test_without_earlier_years_the_hybrid_is_the_trend() -> None:
    past = daily(np.random.default_rng(2).normal(size=100))
    on = np.datetime64("2022-05-01")
    assert hybrid_exceedance(past, 0.0, on, ECONOMIC_SERIES) == trend_exceedance(past, 0.0, on, ECONOMIC_SERIES)


@pytest.mark.parametrize("model", CLASSES.values(), ids=CLASSES)
def test_an_empty_past_gives_one_half(model: TrendModel) -> None:
    nothing = daily([1.0]).before(np.datetime64("2022-01-01"))
    assert hybrid_exceedance(nothing, 0.0, LEAP_DAY, model) == (0.5, 0)


@pytest.mark.parametrize(("threshold", "probability"), [(79.0, 1.0), (80.0, 0.5), (81.0, 0.0)])
def test_an_exact_line_leaves_no_doubt(threshold: float, probability: float) -> None:
    past = daily(np.arange(50.0))
    found = trend_exceedance(past, threshold, np.datetime64("2022-01-01") + 80, WHOLE_TRUST)
    assert found.probability == probability


@given(st.lists(st.floats(-100, 100), min_size=40, max_size=80), st.floats(-100, 100), st.floats(0, 50))
def test_a_higher_threshold_is_never_more_likely(values: list[float], threshold: float, step: float) -> None:
    past, on = daily(values), np.datetime64("2023-01-20")
    likely, less = (
        [seasonal_exceedance(past, level, on), hybrid_exceedance(past, level, on, SEASONAL_SERIES)]
        for level in (threshold, threshold + step)
    )
    for low, high in zip(likely, less, strict=True):
        assert 0.0 <= high.probability <= low.probability <= 1.0


def test_malformed_series_are_refused() -> None:
    day = np.datetime64("2022-01-01")
    with pytest.raises(ValueError, match="twice"):
        daily_series([day, day], [1.0, 2.0])
    with pytest.raises(ValueError, match="missing"):
        daily_series([day, np.datetime64("NaT")], [1.0, 2.0])
    with pytest.raises(ValueError, match="not finite"):
        daily_series([day], [np.inf])
    with pytest.raises(ValueError, match="one length"):
        daily_series([day], [1.0, 2.0])
