"""Reliability bins against scikit-learn and hand arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from bot.stats.calibration import equal_mass_bins, equal_width_bins

rows = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=2, max_size=60)


@given(rows, st.integers(1, 12))
def test_equal_width_bins_agree_with_scikit_learn(pairs: list[tuple[float, int]], count: int) -> None:
    p, o = np.array([p for p, _ in pairs]), np.array([o for _, o in pairs])
    rate, forecast = calibration_curve([*o, 0, 1], [*p, 0.0, 1.0], n_bins=count, strategy="uniform")
    bins = equal_width_bins([*p, 0.0, 1.0], [*o, 0, 1], count)
    assert bins.event_rate == pytest.approx(rate)
    assert bins.mean_forecast == pytest.approx(forecast)


@given(rows, st.integers(1, 12))
def test_equal_mass_bins_agree_with_scikit_learn(pairs: list[tuple[float, int]], count: int) -> None:
    p, o = [p for p, _ in pairs], [o for _, o in pairs]
    rate, forecast = calibration_curve([*o, 0, 1], [*p, 0.0, 1.0], n_bins=count, strategy="quantile")
    bins = equal_mass_bins([*p, 0.0, 1.0], [*o, 0, 1], count)
    assert bins.event_rate == pytest.approx(rate)
    assert bins.mean_forecast == pytest.approx(forecast)


@given(rows)
def test_every_row_is_in_one_bin_and_between_its_edges(pairs: list[tuple[float, int]]) -> None:
    p, o = [p for p, _ in pairs], [o for _, o in pairs]
    for bins in (equal_width_bins(p, o), equal_mass_bins(p, o)):
        assert bins.rows.sum() == len(pairs)
        assert (bins.mean_forecast >= bins.lower - 1e-12).all()
        assert (bins.mean_forecast <= bins.upper + 1e-12).all()


def test_the_calibration_error_is_the_weighted_gap() -> None:
    # Two rows at 0.2 of which none came true, two at 0.8 of which one did: gaps 0.2 and 0.3.
    bins = equal_width_bins([0.2, 0.2, 0.8, 0.8], [0, 0, 0, 1], 2)
    assert bins.rows.tolist() == [2, 2]
    assert bins.expected_calibration_error == pytest.approx(0.25)


def test_no_bin_and_no_row_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one bin"):
        equal_width_bins([0.5], [1], 0)
    with pytest.raises(ValueError, match="one length"):
        equal_mass_bins([], [])


def test_ten_bins_unless_said_otherwise_and_one_is_enough() -> None:
    p, o = np.linspace(0.0, 1.0, 101), np.arange(101) % 2
    for bins in (equal_width_bins, equal_mass_bins):
        assert len(bins(p, o).rows) == 10
        assert bins(p, o, 1).rows.tolist() == [101]


def test_a_forecast_on_an_edge_belongs_to_the_bin_below() -> None:
    bins = equal_width_bins([0.5, 0.500001, 1.0], [1, 0, 0], 2)
    assert (bins.rows.tolist(), bins.event_rate.tolist()) == ([1, 2], [1.0, 0.0])
