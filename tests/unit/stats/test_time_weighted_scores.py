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

from bot.stats.scores import (
    CONTINUOUS_PEER_SCALE,
    DISCRETE_PEER_SCALE,
    BucketLayout,
    binary_baseline_scores,
    choice_baseline_scores,
    continuous_baseline_scores,
    grid_locations,
    outcome_buckets,
    peer_scores,
)
from bot.stats.time_weighted_scores import (
    QuestionSpan,
    ScoringTerms,
    StandingForecast,
    spot_peer_scores,
    spot_score,
    time_average_peer_scores,
    time_average_score,
    tournament_scores,
)

CLOSE = 1795292852.01732
SPAN = QuestionSpan(opens_s=CLOSE - 45, closes_s=CLOSE, scheduled_s=CLOSE)
OWN = StandingForecast(forecaster="own", mass=0.8, start_s=1795292817.678212)
OTHER = StandingForecast(forecaster="other", mass=0.5, start_s=1795292818.969561)
MINUTE = QuestionSpan(opens_s=0, closes_s=60, scheduled_s=60)


def test_the_time_averages_of_the_binary_sample_are_those_of_the_platform() -> None:
    baseline = time_average_score([OWN], binary_baseline_scores([0.8], [1]), SPAN)
    assert baseline.coverage == pytest.approx(0.7630912886725532, abs=1e-7)
    assert baseline.score == pytest.approx(51.7430763885056, abs=1e-5)
    assert time_average_peer_scores([OWN, OTHER], SPAN)["own"].score == pytest.approx(34.51681462831987, abs=1e-5)
    assert spot_peer_scores([OWN, OTHER], CLOSE)["own"] == pytest.approx(47.00036292457356, abs=1e-9)


def test_the_numeric_sample_has_the_coverage_and_peer_score_of_the_platform(shared: Path) -> None:
    sample = json.loads((shared / "venues" / "metaculus_samples" / "post_spot_num.json").read_bytes())
    question = sample["response"]["json"]["question"]
    mine: dict[str, Any] = question["my_forecasts"]["score_data"]
    median: dict[str, Any] = question["aggregations"]["unweighted"]["score_data"]
    start = CLOSE - 45 * mine["coverage"]
    # The other forecast's start follows from the two scores of the sample: peers exist for this share of the span.
    both = mine["peer_score"] / mine["spot_peer_score"]
    standings = [
        StandingForecast(forecaster="own", mass=0.0045, start_s=start),
        StandingForecast(forecaster="other", mass=0.0025, start_s=CLOSE - 45 * both),
    ]
    averaged = time_average_peer_scores(standings, SPAN, CONTINUOUS_PEER_SCALE)
    assert averaged["own"].score == pytest.approx(mine["peer_score"], abs=1e-6)
    assert averaged["own"].coverage == pytest.approx(median["coverage"], abs=1e-6)


def of_two(p: float) -> float:
    return float(binary_baseline_scores([p], [1])[0])


def of_three(p: float) -> float:
    return float(choice_baseline_scores(p, 3))


def of_the_value(p: float) -> float:
    # 50.2 on a scale from 0 to 100 that is open above.
    bucket = outcome_buckets(grid_locations(50.2, np.linspace(0, 100, 201)), 200)
    return float(continuous_baseline_scores(p, bucket, BucketLayout(inside=200, open_ends=1)))


@pytest.mark.parametrize(
    ("sample", "masses", "baseline", "scale"),
    [
        ("post_spot_bin", (0.8, 0.5), of_two, DISCRETE_PEER_SCALE),
        ("post_spot_mc", (0.6, 0.3), of_three, DISCRETE_PEER_SCALE),
        ("post_spot_num", (0.0045, 0.0025), of_the_value, CONTINUOUS_PEER_SCALE),
    ],
)
def test_all_scores_of_the_samples_are_those_of_the_platform(
    shared: Path, sample: str, masses: tuple[float, float], baseline: Callable[[float], float], scale: float
) -> None:
    text = (shared / "venues" / "metaculus_samples" / f"{sample}.json").read_bytes()
    question = json.loads(text)["response"]["json"]["question"]

    def at(name: str) -> float:
        return datetime.fromisoformat(question[name]).timestamp()

    span = QuestionSpan(
        opens_s=at("open_time"), closes_s=at("actual_close_time"), scheduled_s=at("scheduled_close_time")
    )
    # The median changed when the second of the two forecasters came.
    starts = [entry["start_time"] for entry in question["aggregations"]["unweighted"]["history"]]
    standings = [
        StandingForecast(forecaster=name, mass=mass, start_s=start)
        for name, mass, start in zip(("own", "other"), masses, starts, strict=True)
    ]
    terms = ScoringTerms(span=span, spot_s=at("spot_scoring_time"), scale=scale)
    own = tournament_scores(standings, [baseline(mass) for mass in masses], terms)["own"]
    theirs = question["my_forecasts"]["score_data"]
    found = (own.baseline, own.peer, own.coverage, own.spot_baseline, own.spot_peer)
    names = ("baseline_score", "peer_score", "coverage", "spot_baseline_score", "spot_peer_score")
    assert found == pytest.approx([theirs[name] for name in names], abs=1e-9)


def test_who_stands_no_more_at_the_spot_moment_keeps_the_time_average_alone() -> None:
    left = StandingForecast(forecaster="left", mass=0.9, start_s=0, end_s=30)
    stays = StandingForecast(forecaster="stays", mass=0.5, start_s=0)
    found = tournament_scores([left, stays], [80.0, 0.0], ScoringTerms(span=MINUTE, spot_s=45))
    assert (found["left"].baseline, found["left"].coverage) == (40.0, 0.5)
    assert (found["left"].spot_baseline, found["left"].spot_peer) == (None, None)
    assert (found["stays"].spot_baseline, found["stays"].spot_peer) == (0.0, 0.0)


def test_a_spot_moment_after_the_close_is_the_close() -> None:
    closed_early = QuestionSpan(opens_s=0, closes_s=30, scheduled_s=60)
    revised = [
        StandingForecast(forecaster="own", mass=0.6, start_s=0, end_s=40),
        StandingForecast(forecaster="own", mass=0.9, start_s=40),
    ]
    assert (
        tournament_scores(revised, [1.0, 2.0], ScoringTerms(span=closed_early, spot_s=50))["own"].spot_baseline == 1.0
    )


def test_the_spot_score_is_that_of_the_forecast_that_stands_then() -> None:
    first = StandingForecast(forecaster="own", mass=0.5, start_s=0, end_s=30)
    second = StandingForecast(forecaster="own", mass=0.9, start_s=30)
    assert [spot_score([first, second], [1.0, 2.0], moment) for moment in (-1, 0, 29.9, 30)] == [None, 1.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="two forecasts"):
        spot_score([first, first], [1.0, 2.0], 5)
    with pytest.raises(ValueError, match="needs a score for each"):
        spot_score([first], [1.0, 2.0], 5)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 1), st.integers(-10, 70), st.integers(0, 60), st.integers(0, 4)),
        min_size=1,
        max_size=12,
    )
)
def test_running_sums_equal_a_loop_over_every_second(rows: list[tuple[float, int, int, int]]) -> None:
    standings: list[StandingForecast] = []
    free_from: dict[str, int] = {}
    for mass, start, length, who in rows:
        begin = max(start, free_from.get(str(who), start))
        free_from[str(who)] = begin + length
        standings.append(StandingForecast(forecaster=str(who), mass=mass, start_s=begin, end_s=begin + length))
    earned = dict.fromkeys(free_from, 0.0)
    seconds = dict.fromkeys(free_from, 0)
    for second in range(60):
        there = [standing for standing in standings if standing.start_s <= second < standing.end_s]
        scores = peer_scores([standing.mass for standing in there]) if there else np.empty(0)
        for standing, score in zip(there, scores.tolist(), strict=True):
            earned[standing.forecaster] += score / 60
            seconds[standing.forecaster] += 1
    averaged = time_average_peer_scores(standings, MINUTE)
    for name in free_from:
        assert averaged[name].score == pytest.approx(earned[name], abs=1e-8)
        assert averaged[name].coverage == pytest.approx(seconds[name] / 60, abs=1e-12)


def test_an_early_close_and_a_withdrawal_lower_coverage() -> None:
    closed_early = QuestionSpan(opens_s=0, closes_s=30, scheduled_s=60)
    forecast = StandingForecast(forecaster="own", mass=0.9, start_s=0)
    withdrawn = StandingForecast(forecaster="own", mass=0.9, start_s=0, end_s=15)
    assert time_average_score([forecast], [40.0], closed_early) == (20.0, 0.5)
    assert time_average_score([withdrawn], [40.0], closed_early) == (10.0, 0.25)
    rival = StandingForecast(forecaster="rival", mass=0.45, start_s=0)
    # 100 * ln 2 ahead for half of the scheduled minute.
    assert time_average_peer_scores([forecast, rival], closed_early)["own"] == pytest.approx((50 * log(2), 0.5))


def test_successive_forecasts_add_up_by_their_durations() -> None:
    first = StandingForecast(forecaster="own", mass=0.5, start_s=0, end_s=30)
    second = StandingForecast(forecaster="own", mass=0.9, start_s=30)
    peerless = StandingForecast(forecaster="other", mass=0.5, start_s=0)
    averaged = time_average_peer_scores([first, second, peerless], MINUTE)
    # Half the time equal to the only peer, half the time 100 * ln(0.9 / 0.5) ahead.
    assert averaged["own"] == pytest.approx((50 * log(1.8), 1.0))
    assert time_average_score([first, second], [10.0, 20.0], MINUTE) == pytest.approx((15.0, 1.0))


def test_only_those_who_stand_at_the_spot_moment_have_a_spot_score() -> None:
    ended = StandingForecast(forecaster="ended", mass=0.9, start_s=0, end_s=10)
    late = StandingForecast(forecaster="late", mass=0.9, start_s=11)
    there = StandingForecast(forecaster="there", mass=0.5, start_s=10)
    assert spot_peer_scores([ended, late, there], 10) == {"there": 0.0}
    assert spot_peer_scores([ended], 10) == {}


def test_overlapping_forecasts_of_one_forecaster_are_refused() -> None:
    twice = [StandingForecast(forecaster="own", mass=mass, start_s=0) for mass in (0.5, 0.6)]
    with pytest.raises(ValueError, match="same time"):
        time_average_peer_scores(twice, MINUTE)
    with pytest.raises(ValueError, match="same time"):
        time_average_score(twice, [1.0, 2.0], MINUTE)
    with pytest.raises(ValueError, match="two forecasts"):
        spot_peer_scores(twice, 5)


def test_impossible_values_are_refused() -> None:
    with pytest.raises(ValueError, match="bad standing"):
        StandingForecast(forecaster="own", mass=0.0, start_s=0)
    with pytest.raises(ValueError, match="bad standing"):
        StandingForecast(forecaster="own", mass=0.5, start_s=2, end_s=1)
    with pytest.raises(ValueError, match="opens"):
        QuestionSpan(opens_s=0, closes_s=2, scheduled_s=1)
    with pytest.raises(ValueError, match="one length"):
        time_average_peer_scores([], MINUTE)
