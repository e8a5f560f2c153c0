"""Options that change, the community, and scores on the fake Metaculus, after docs/facts/metaculus.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bot.simulator.venues.metaculus_scores import outcome_bucket
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion, QuestionScaling
from bot.simulator.venues.metaculus_world import question_scaling
from tests.unit.simulator.venues.metaculus_client import RawMetaculusClient, line

DAY_S = 86_400.0
CLOSED, UPPER = QuestionScaling(low=0, high=100), QuestionScaling(low=0, high=100, open_upper=True)


# Options that change, docs/facts/metaculus.md#option-changes


async def test_new_options_must_be_named_at_once_and_count_when_the_grace_period_is_over(
    metaculus: RawMetaculusClient,
) -> None:
    question = metaculus.world.add_question(type="multiple_choice", options=["A", "B", "C"])
    before = {"A": 0.1, "B": 0.6, "C": 0.3}
    await metaculus.forecast(question, before)
    await metaculus.clock.advance(60.0)
    metaculus.world.change_options(question, ["A", "B", "D", "C"], grace_s=2 * DAY_S)
    until = metaculus.venue.now().timestamp() + 2 * DAY_S
    assert (await metaculus.question(question))["my_forecasts"]["latest"]["forecast_values"] == [0.1, 0.6, None, 0.3]
    assert (await metaculus.forecast(question, before)).status_code == 400
    assert (await metaculus.forecast(question, {"A": 0.1, "B": 0.5, "D": 0.1, "C": 0.3})).status_code == 201
    mine = (await metaculus.question(question))["my_forecasts"]
    assert mine["history"][-1]["forecast_values"] == [0.1, 0.5, None, pytest.approx(0.4)]
    assert mine["history"][-1]["end_time"] is None
    assert (mine["latest"]["forecast_values"], mine["latest"]["start_time"]) == ([0.1, 0.5, 0.1, 0.3], until)
    await metaculus.clock.advance(2 * DAY_S + 1)
    history = (await metaculus.question(question))["my_forecasts"]["history"]
    assert (history[-1]["start_time"], history[-2]["end_time"]) == (until, until)


async def test_what_stands_when_options_are_added_ends_with_the_grace_period(metaculus: RawMetaculusClient) -> None:
    question = metaculus.world.add_question(type="multiple_choice", options=["A", "B"])
    await metaculus.forecast(question, {"A": 0.5, "B": 0.5})
    metaculus.world.change_options(question, ["A", "New", "B"], grace_s=60.0)
    row = await metaculus.question(question)
    assert row["all_options_ever"] == ["A", "New", "B"]
    assert [since for since, _ in row["options_history"]] == ["0001-01-01T00:00:00", "2026-01-01T00:01:00+00:00"]
    assert row["my_forecasts"]["latest"]["end_time"] == metaculus.venue.now().timestamp() + 60.0


# Community forecasts and scores, docs/facts/metaculus.md#scale, #score-figures and #aggregate-figures


async def pair(metaculus: RawMetaculusClient, question: FakeMetaculusQuestion, own: Any, other: Any) -> None:
    assert (await metaculus.forecast(question, own)).status_code == 201
    metaculus.world.forecast(metaculus.other, question, other)


async def test_the_community_is_the_middle_of_those_who_count_and_hidden_until_revealed(
    metaculus: RawMetaculusClient,
) -> None:
    reveal = metaculus.venue.now() + timedelta(minutes=1)
    more: dict[str, Any] = {"counts_bots": True, "method": "unweighted", "cp_reveal": reveal}
    binary = metaculus.world.add_question(**more)
    choice = metaculus.world.add_question(type="multiple_choice", options=["x", "y", "z"], **more)
    await pair(metaculus, binary, 0.8, 0.5)
    await pair(metaculus, choice, {"x": 0.6, "y": 0.3, "z": 0.1}, {"x": 0.3, "y": 0.3, "z": 0.4})
    assert (await metaculus.question(binary))["aggregations"]["unweighted"]["latest"] is None
    await metaculus.clock.advance(61.0)
    assert (await metaculus.question(binary))["aggregations"]["unweighted"]["latest"]["centers"] == pytest.approx(
        [0.65]
    )
    centers = (await metaculus.question(choice))["aggregations"]["unweighted"]["latest"]["centers"]
    assert centers == pytest.approx([0.45, 0.3, 0.25])
    metaculus.other.is_primary = False
    assert (await metaculus.question(binary))["aggregations"]["unweighted"]["latest"]["forecaster_count"] == 1


@pytest.mark.parametrize(
    ("fields", "forecasts", "resolution", "expected"),
    [
        ({}, (0.8, 0.5), "yes", (47.00036292457356, 67.80719051126378)),
        (
            {"type": "multiple_choice", "options": ["x", "y", "z"]},
            ({"x": 0.6, "y": 0.3, "z": 0.1}, {"x": 0.3, "y": 0.3, "z": 0.4}),
            "x",
            (69.31471805599455, 53.502647928207274),
        ),
        (
            {"type": "numeric", "scaling": UPPER},
            (line(0.0, 0.9), line(0.0, 0.5)),
            "50.2",
            (29.389333245105938, -2.703361063513744),
        ),
    ],
)
async def test_spot_scores_are_those_of_the_real_server(
    metaculus: RawMetaculusClient,
    fields: dict[str, Any],
    forecasts: tuple[Any, Any],
    resolution: str,
    expected: tuple[float, float],
) -> None:
    spot = metaculus.venue.now() + timedelta(minutes=1)
    question = metaculus.world.add_question(counts_bots=True, spot=spot, **fields)
    await pair(metaculus, question, *forecasts)
    await metaculus.clock.advance(120.0)
    metaculus.world.resolve(question, resolution)
    score = (await metaculus.question(question))["my_forecasts"]["score_data"]
    assert (score["spot_peer_score"], score["spot_baseline_score"]) == pytest.approx(expected, rel=1e-9)


async def test_scores_over_time_are_those_of_the_real_server(metaculus: RawMetaculusClient) -> None:
    begin, now = metaculus.venue.now(), metaculus.venue.now()
    question = metaculus.world.add_question(counts_bots=True, open=begin, scheduled_close=now + timedelta(seconds=45))
    # Opened at 1795292807.01732, forecast at ...17.678212 and ...18.969561, closed 45 s after opening.
    await metaculus.clock.advance(1795292817.678212 - 1795292807.01732)
    await metaculus.forecast(question, 0.8)
    await metaculus.clock.advance(1795292818.969561 - 1795292817.678212)
    metaculus.world.forecast(metaculus.other, question, 0.5)
    await metaculus.clock.advance(60.0)
    metaculus.world.resolve(question, "yes")
    score = (await metaculus.question(question))["my_forecasts"]["score_data"]
    assert score["coverage"] == pytest.approx(0.7630912886725532, rel=1e-6)
    assert score["baseline_score"] == pytest.approx(51.7430763885056, rel=1e-6)
    assert score["peer_score"] == pytest.approx(34.51681462831987, rel=1e-6)


@pytest.mark.parametrize(
    ("scaling", "resolution", "place"),
    [
        (CLOSED, "0", 1),
        (CLOSED, "0.5", 1),
        (CLOSED, "0.5000001", 2),
        (CLOSED, "50", 100),
        (CLOSED, "50.2", 101),
        (CLOSED, "99.9", 200),
        (CLOSED, "100", 200),
        (CLOSED, "below_lower_bound", 0),
        (CLOSED, "above_upper_bound", 201),
        (question_scaling(1, 10_000, zero_point=0), "1.05", 2),
        (question_scaling(1, 10_000, zero_point=0), "100", 100),
        (question_scaling(10, 1000, zero_point=-5), "100", 93),
        (question_scaling(10, 1000, zero_point=-5), "500", 168),
        (question_scaling(10, 1000, zero_point=-5), "1000", 201),
        (question_scaling(0, 9, count=10), "3", 4),
        (question_scaling(0, 9, count=10), "9", 10),
        (question_scaling(0, 9, count=10), "above_upper_bound", 11),
        (question_scaling(1795292472.060379, 1826828472.060379), "2026-12-25 00:00:00+00:00", 19),
    ],
)
async def test_outcomes_fall_into_their_buckets(
    metaculus: RawMetaculusClient, scaling: QuestionScaling, resolution: str, place: int
) -> None:
    kind = "date" if "-" in resolution else "numeric"
    question = metaculus.world.add_question(type=kind, scaling=scaling)
    metaculus.world.resolve(question, resolution)
    assert outcome_bucket(question) == place
