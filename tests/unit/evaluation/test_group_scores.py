"""Standings of recorded forecasts against hand arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.evaluation.group_scores import score_group
from bot.evaluation.score_rows import BinaryScoreRow


def row(probability: float, outcome: float, crowd: float | None = None, series: str = "") -> BinaryScoreRow:
    return BinaryScoreRow(
        round="2026-04-26",
        family="market",
        source="src",
        series=series or f"{probability}/{outcome}/{crowd}",
        horizon_days=None,
        probability=probability,
        outcome=outcome,
        crowd=crowd,
    )


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_forecaster_and_crowd_are_compared_on_the_same_rows() -> None:
    # Errors of the forecaster: 0.2, 0.2 and 0.6; of the crowd, which has no word on the last row: 0.4 and 0.4.
    found = score_group([row(0.8, 1.0, 0.6), row(0.2, 0.0, 0.4), row(0.6, 0.0)], rng())
    assert found.n == 3
    assert found.base_rate == pytest.approx(1 / 3)
    assert found.brier == pytest.approx((0.04 + 0.04 + 0.36) / 3)
    assert found.crowd is not None
    assert found.crowd.n == 2
    assert found.crowd.brier_index == pytest.approx(80.0)
    assert found.crowd.crowd_brier_index == pytest.approx(60.0)
    assert found.crowd.gain.estimate == pytest.approx(20.0)


def test_without_a_crowd_there_is_no_comparison() -> None:
    assert score_group([row(0.8, 1.0)], rng()).crowd is None


def test_a_crowd_that_says_zero_is_a_crowd() -> None:
    found = score_group([row(0.5, 0.0, 0.0)], rng())
    assert found.crowd is not None
    assert found.crowd.crowd_brier_index == pytest.approx(100.0)


def test_one_series_says_nothing_about_chance_and_has_no_interval() -> None:
    found = score_group([row(0.8, 1.0, series="a"), row(0.3, 1.0, series="a")], rng()).brier_index
    assert (found.low, found.high) == (None, None)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=2, max_size=20))
def test_an_estimate_lies_in_its_interval_up_to_the_skew_of_small_samples(pairs: list[tuple[float, float]]) -> None:
    found = score_group([row(p, o, series=str(index)) for index, (p, o) in enumerate(pairs)], rng()).brier_index
    errors = [abs(p - o) for p, o in pairs]
    assert found.low is not None
    assert found.high is not None
    assert 100 * (1 - max(errors)) - 1e-6 <= found.low <= found.high <= 100 * (1 - min(errors)) + 1e-6
