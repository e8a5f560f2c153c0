"""Time-averaged and spot scores against the platform's own answers and a plain loop over moments."""

import json
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.science.coverage import Span, Standing, average_peer, spot_peer, time_average
from bot.science.log_score import CONTINUOUS_SCALE, baseline_binary, peer

CLOSE = 1795292852.01732
SPAN = Span(opens_s=CLOSE - 45, closes_s=CLOSE, scheduled_s=CLOSE)
OWN = Standing(forecaster="own", mass=0.8, start_s=1795292817.678212)
OTHER = Standing(forecaster="other", mass=0.5, start_s=1795292818.969561)
MINUTE = Span(opens_s=0, closes_s=60, scheduled_s=60)


def test_the_time_averages_of_the_binary_sample_are_those_of_the_platform() -> None:
    baseline = time_average([OWN], baseline_binary([0.8], [1]), SPAN)
    assert baseline.coverage == pytest.approx(0.7630912886725532, abs=1e-7)
    assert baseline.score == pytest.approx(51.7430763885056, abs=1e-5)
    assert average_peer([OWN, OTHER], SPAN)["own"].score == pytest.approx(34.51681462831987, abs=1e-5)
    assert spot_peer([OWN, OTHER], CLOSE)["own"] == pytest.approx(47.00036292457356, abs=1e-9)


def test_the_numeric_sample_has_the_coverage_and_peer_score_of_the_platform(shared: Path) -> None:
    sample = json.loads((shared / "venues" / "metaculus_samples" / "post_spot_num.json").read_bytes())
    question = sample["response"]["json"]["question"]
    mine: dict[str, Any] = question["my_forecasts"]["score_data"]
    median: dict[str, Any] = question["aggregations"]["unweighted"]["score_data"]
    start = CLOSE - 45 * mine["coverage"]
    # The other forecast's start follows from the two scores of the sample: peers exist for this share of the span.
    both = mine["peer_score"] / mine["spot_peer_score"]
    standings = [
        Standing(forecaster="own", mass=0.0045, start_s=start),
        Standing(forecaster="other", mass=0.0025, start_s=CLOSE - 45 * both),
    ]
    averaged = average_peer(standings, SPAN, CONTINUOUS_SCALE)
    assert averaged["own"].score == pytest.approx(mine["peer_score"], abs=1e-6)
    assert averaged["own"].coverage == pytest.approx(median["coverage"], abs=1e-6)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 1), st.integers(-10, 70), st.integers(0, 60), st.integers(0, 4)),
        min_size=1,
        max_size=12,
    )
)
def test_running_sums_equal_a_loop_over_every_second(rows: list[tuple[float, int, int, int]]) -> None:
    standings: list[Standing] = []
    free_from: dict[str, int] = {}
    for mass, start, length, who in rows:
        begin = max(start, free_from.get(str(who), start))
        free_from[str(who)] = begin + length
        standings.append(Standing(forecaster=str(who), mass=mass, start_s=begin, end_s=begin + length))
    earned = dict.fromkeys(free_from, 0.0)
    seconds = dict.fromkeys(free_from, 0)
    for second in range(60):
        there = [standing for standing in standings if standing.start_s <= second < standing.end_s]
        scores = peer([standing.mass for standing in there]) if there else np.empty(0)
        for standing, score in zip(there, scores.tolist(), strict=True):
            earned[standing.forecaster] += score / 60
            seconds[standing.forecaster] += 1
    averaged = average_peer(standings, MINUTE)
    for name in free_from:
        assert averaged[name].score == pytest.approx(earned[name], abs=1e-8)
        assert averaged[name].coverage == pytest.approx(seconds[name] / 60, abs=1e-12)


def test_an_early_close_and_a_withdrawal_lower_coverage() -> None:
    closed_early = Span(opens_s=0, closes_s=30, scheduled_s=60)
    forecast = Standing(forecaster="own", mass=0.9, start_s=0)
    withdrawn = Standing(forecaster="own", mass=0.9, start_s=0, end_s=15)
    assert time_average([forecast], [40.0], closed_early) == (20.0, 0.5)
    assert time_average([withdrawn], [40.0], closed_early) == (10.0, 0.25)
    rival = Standing(forecaster="rival", mass=0.45, start_s=0)
    # 100 * ln 2 ahead for half of the scheduled minute.
    assert average_peer([forecast, rival], closed_early)["own"] == pytest.approx((50 * log(2), 0.5))


def test_successive_forecasts_add_up_by_their_durations() -> None:
    first = Standing(forecaster="own", mass=0.5, start_s=0, end_s=30)
    second = Standing(forecaster="own", mass=0.9, start_s=30)
    peerless = Standing(forecaster="other", mass=0.5, start_s=0)
    averaged = average_peer([first, second, peerless], MINUTE)
    # Half the time equal to the only peer, half the time 100 * ln(0.9 / 0.5) ahead.
    assert averaged["own"] == pytest.approx((50 * log(1.8), 1.0))
    assert time_average([first, second], [10.0, 20.0], MINUTE) == pytest.approx((15.0, 1.0))


def test_only_those_who_stand_at_the_spot_moment_have_a_spot_score() -> None:
    ended = Standing(forecaster="ended", mass=0.9, start_s=0, end_s=10)
    late = Standing(forecaster="late", mass=0.9, start_s=11)
    there = Standing(forecaster="there", mass=0.5, start_s=10)
    assert spot_peer([ended, late, there], 10) == {"there": 0.0}
    assert spot_peer([ended], 10) == {}


def test_overlapping_forecasts_of_one_forecaster_are_refused() -> None:
    twice = [Standing(forecaster="own", mass=mass, start_s=0) for mass in (0.5, 0.6)]
    with pytest.raises(ValueError, match="same time"):
        average_peer(twice, MINUTE)
    with pytest.raises(ValueError, match="same time"):
        time_average(twice, [1.0, 2.0], MINUTE)
    with pytest.raises(ValueError, match="two forecasts"):
        spot_peer(twice, 5)


def test_impossible_values_are_refused() -> None:
    with pytest.raises(ValueError, match="bad standing"):
        Standing(forecaster="own", mass=0.0, start_s=0)
    with pytest.raises(ValueError, match="bad standing"):
        Standing(forecaster="own", mass=0.5, start_s=2, end_s=1)
    with pytest.raises(ValueError, match="opens"):
        Span(opens_s=0, closes_s=2, scheduled_s=1)
    with pytest.raises(ValueError, match="one length"):
        average_peer([], MINUTE)
