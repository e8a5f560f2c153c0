"""Scales against figures that the backend's own functions gave (docs/facts/metaculus.md#scale)."""

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.metaculus.numeric_scale import MetaculusScale
from tests.plugins.metaculus.documented_samples import answer

LINEAR = MetaculusScale(low=0.0, high=100.0, steps=200)
LOG_A = MetaculusScale(low=1.0, high=10000.0, steps=200, zero_point=0.0)
LOG_B = MetaculusScale(low=10.0, high=1000.0, steps=200, zero_point=-5.0)
DISCRETE = MetaculusScale(low=-0.5, high=9.5, steps=10)
DATE = MetaculusScale(low=1795292472.060379, high=1826828472.060379, steps=200)
CHRISTMAS = datetime(2026, 12, 25, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("scale", "value", "place", "bucket"),
    [
        (LINEAR, 0.0, 0.0, 1),
        (LINEAR, 0.5, 0.005, 1),
        (LINEAR, 0.5000001, 0.005000001, 2),
        (LINEAR, 50.0, 0.5, 100),
        (LINEAR, 50.2, 0.502, 101),
        (LINEAR, 99.9, 0.9990000000000001, 200),
        (LINEAR, 100.0, 1.0, 200),
        (LINEAR, -1.0, -0.01, 0),
        (LINEAR, 101.0, 1.01, 201),
        (LOG_A, 1.0, 0.0, 1),
        (LOG_A, 1.05, 0.005297324767484535, 2),
        (LOG_A, 100.0, 0.5, 100),
        (LOG_A, 10000.0, 1.0, 200),
        (LOG_B, 100.0, 0.46279486402436987, 93),
        (LOG_B, 500.0, 0.8363294410525788, 168),
        (LOG_B, 1000.0, 1.0000000000000002, 201),
        (DISCRETE, 0.0, 0.05, 1),
        (DISCRETE, 3.0, 0.35, 4),
        (DISCRETE, 9.0, 0.95, 10),
        (DISCRETE, 10.5, 1.1, 11),
        (DATE, CHRISTMAS, 0.09082724313866603, 19),
    ],
)
def test_golden_places_and_buckets(scale: MetaculusScale, value: float, place: float, bucket: int) -> None:
    assert scale.location(value) == place
    assert scale.bucket_index(value) == bucket


@pytest.mark.parametrize(
    ("scale", "place", "value"),
    [
        (LOG_B, 0.25, 37.91508328864458),
        (LOG_B, 0.5, 117.78029157808676),
        (LOG_B, 0.75, 346.275095951844),
        (LOG_A, 1 / 200, 1.0471285480508996),
    ],
)
def test_golden_values_at_places(scale: MetaculusScale, place: float, value: float) -> None:
    assert scale.value(place) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("name", ["post_num_open_log_full", "post_disc_full"])
def test_the_grid_is_the_one_the_server_lists(shared: Path, name: str) -> None:
    asked = answer(shared, name)["question"]
    scaling = asked["scaling"]
    scale = MetaculusScale(
        low=scaling["range_min"],
        high=scaling["range_max"],
        zero_point=scaling["zero_point"],
        steps=asked["inbound_outcome_count"] or 200,
    )
    assert scale.grid() == pytest.approx(scaling["continuous_range"], rel=1e-14)


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    gap=st.none() | st.floats(1e-2, 1e6),
    place=st.floats(0.0, 1.0),
)
def test_a_place_has_one_value_and_a_value_one_place(low: float, width: float, gap: float | None, place: float) -> None:
    scale = MetaculusScale(low=low, high=low + width, steps=200, zero_point=None if gap is None else low - gap)
    assert scale.location(scale.value(place)) == pytest.approx(place, abs=1e-5)


def test_what_lies_far_below_a_zero_point_is_below_the_range() -> None:
    assert LOG_A.location(-1e9) == -math.inf
    assert LOG_A.bucket_index(-1e9) == 0


@pytest.mark.parametrize("terms", [(1.0, 1.0, None), (2.0, 1.0, None), (1.0, math.inf, None), (1.0, 2.0, 1.0)])
def test_a_scale_that_is_none_is_refused(terms: tuple[float, float, float | None]) -> None:
    low, high, zero_point = terms
    with pytest.raises(ValueError, match="no scale"):
        MetaculusScale(low=low, high=high, zero_point=zero_point, steps=200)
