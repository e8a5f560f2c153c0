"""Time-averaged and spot scores against the platform's own answers and a plain loop over moments."""

import json
from collections.abc import Callable
from datetime import datetime
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.science.coverage import Span, Standing, Terms, at_spot, average_peer, earned, spot_peer, time_average
from bot.science.crps import location
from bot.science.log_score import (
    CONTINUOUS_SCALE,
    DISCRETE_SCALE,
    Buckets,
    baseline_binary,
    baseline_choice,
    baseline_continuous,
    peer,
    scoring_bucket,
)

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


def of_two(p: float) -> float:
    return float(baseline_binary([p], [1])[0])


def of_three(p: float) -> float:
    return float(baseline_choice(p, 3))


def of_the_value(p: float) -> float:
    # 50.2 on a scale from 0 to 100 that is open above.
    bucket = scoring_bucket(location(50.2, np.linspace(0, 100, 201)), 200)
    return float(baseline_continuous(p, bucket, Buckets(inside=200, open_ends=1)))


@pytest.mark.parametrize(
    ("sample", "masses", "baseline", "scale"),
    [
        ("post_spot_bin", (0.8, 0.5), of_two, DISCRETE_SCALE),
        ("post_spot_mc", (0.6, 0.3), of_three, DISCRETE_SCALE),
        ("post_spot_num", (0.0045, 0.0025), of_the_value, CONTINUOUS_SCALE),
    ],
)
def test_all_scores_of_the_samples_are_those_of_the_platform(
    shared: Path, sample: str, masses: tuple[float, float], baseline: Callable[[float], float], scale: float
) -> None:
    text = (shared / "venues" / "metaculus_samples" / f"{sample}.json").read_bytes()
    question = json.loads(text)["response"]["json"]["question"]

    def at(name: str) -> float:
        return datetime.fromisoformat(question[name]).timestamp()

    span = Span(opens_s=at("open_time"), closes_s=at("actual_close_time"), scheduled_s=at("scheduled_close_time"))
    # The median changed when the second of the two forecasters came.
    starts = [entry["start_time"] for entry in question["aggregations"]["unweighted"]["history"]]
    standings = [
        Standing(forecaster=name, mass=mass, start_s=start)
        for name, mass, start in zip(("own", "other"), masses, starts, strict=True)
    ]
    terms = Terms(span=span, spot_s=at("spot_scoring_time"), scale=scale)
    own = earned(standings, [baseline(mass) for mass in masses], terms)["own"]
    theirs = question["my_forecasts"]["score_data"]
    found = (own.baseline, own.peer, own.coverage, own.spot_baseline, own.spot_peer)
    names = ("baseline_score", "peer_score", "coverage", "spot_baseline_score", "spot_peer_score")
    assert found == pytest.approx([theirs[name] for name in names], abs=1e-9)


def test_who_stands_no_more_at_the_spot_moment_keeps_the_time_average_alone() -> None:
    left = Standing(forecaster="left", mass=0.9, start_s=0, end_s=30)
    stays = Standing(forecaster="stays", mass=0.5, start_s=0)
    found = earned([left, stays], [80.0, 0.0], Terms(span=MINUTE, spot_s=45))
    assert (found["left"].baseline, found["left"].coverage) == (40.0, 0.5)
    assert (found["left"].spot_baseline, found["left"].spot_peer) == (None, None)
    assert (found["stays"].spot_baseline, found["stays"].spot_peer) == (0.0, 0.0)


def test_a_spot_moment_after_the_close_is_the_close() -> None:
    closed_early = Span(opens_s=0, closes_s=30, scheduled_s=60)
    revised = [
        Standing(forecaster="own", mass=0.6, start_s=0, end_s=40),
        Standing(forecaster="own", mass=0.9, start_s=40),
    ]
    assert earned(revised, [1.0, 2.0], Terms(span=closed_early, spot_s=50))["own"].spot_baseline == 1.0


def test_the_spot_score_is_that_of_the_forecast_that_stands_then() -> None:
    first = Standing(forecaster="own", mass=0.5, start_s=0, end_s=30)
    second = Standing(forecaster="own", mass=0.9, start_s=30)
    assert [at_spot([first, second], [1.0, 2.0], moment) for moment in (-1, 0, 29.9, 30)] == [None, 1.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="two forecasts"):
        at_spot([first, first], [1.0, 2.0], 5)
    with pytest.raises(ValueError, match="want a score for each"):
        at_spot([first], [1.0, 2.0], 5)


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
