"""What is sent for a prediction, and whether the forecast in force is the one that was sent."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    MalformedDataError,
    RequestRejectedError,
)
from bot.simulator.venues.metaculus_state import QuestionScaling
from bot.simulator.venues.metaculus_world import MetaculusWorld
from bot.testing.clock import START
from plugins.metaculus.api_records import MetaculusQuestionRecord
from plugins.metaculus.cdf_rules import CdfRules
from plugins.metaculus.post_parser import MetaculusParsedPosts
from plugins.metaculus.write_requests import (
    active_since,
    build_forecast_item,
    clamp_probabilities,
    is_withdrawn,
    read_forecast_item,
)
from tests.plugins.metaculus.documented_samples import answer
from tests.plugins.metaculus.test_cdf_rules import cdfs

NOW = datetime(2026, 11, 21, 21, tzinfo=UTC)
GRID = CurveShape(grid=tuple(float(n) for n in range(11)), open_upper=True)


def asked(shared: Path, name: str) -> MetaculusQuestionRecord:
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(answer(shared, name))
    assert unpacked.complaints == []
    return unpacked.entries[0].question


@pytest.mark.parametrize(
    ("given", "sent"), [(0.0, 0.001), (0.0009, 0.001), (0.001, 0.001), (0.5, 0.5), (0.9995, 0.999), (1.0, 0.999)]
)
def test_mc_s2_binary_values_are_clamped(given: float, sent: float) -> None:
    assert build_forecast_item(50001, BinaryPrediction(given), BinaryShape()) == {
        "question": 50001,
        "probability_yes": sent,
    }


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=60).filter(lambda values: math.fsum(values) > 0.01))
def test_mc_s2_choice_values_are_inside_the_bounds_and_sum_to_1(values: list[float]) -> None:
    total = math.fsum(values)
    given = {f"option {n}": value / total for n, value in enumerate(values)}
    sent = clamp_probabilities(given)
    assert abs(math.fsum(sent.values()) - 1.0) <= 1e-6
    assert all(0.001 <= value <= 0.999 for value in sent.values())
    free = [option for option in given if 0.0011 < sent[option] < 0.9989]
    for one in free:
        for other in free:
            assert sent[one] * given[other] == pytest.approx(sent[other] * given[one], abs=1e-8)


def test_mc_s2_a_valid_choice_is_sent_as_it_is() -> None:
    given = {"Red": 0.4, "Green": 0.3, "Blue": 0.2, "Other": 0.1}
    item = build_forecast_item(50010, ChoicePrediction(given), ChoiceShape(options=("Red", "Green", "Blue", "Other")))
    assert item["probability_yes_per_category"] == pytest.approx(given, abs=1e-9)
    assert list(item["probability_yes_per_category"]) == ["Red", "Green", "Blue", "Other"]


def test_options_without_room_are_refused() -> None:
    with pytest.raises(RequestRejectedError, match="1001 options"):
        clamp_probabilities({str(n): 1 / 1001 for n in range(1001)})
    # So many just fit.
    assert set(clamp_probabilities({str(n): 1 / 1000 for n in range(1000)}).values()) == {0.001}


def test_a_valid_curve_is_sent_as_it_is_and_another_is_moved() -> None:
    valid = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9)
    assert build_forecast_item(1, CurvePrediction(valid), GRID)["continuous_cdf"] == list(valid)
    moved = build_forecast_item(1, CurvePrediction((0.0,) * 5 + (1.0,) * 6), GRID)["continuous_cdf"]
    assert moved[0] == 0.0
    assert moved[-1] == pytest.approx(0.999)
    assert min(after - before for before, after in pairwise(moved)) >= 0.001 - 1e-10


@pytest.mark.parametrize(
    ("prediction", "shape"),
    [
        (BinaryPrediction(0.5), GRID),
        (CurvePrediction((0.0, 1.0)), GRID),
        (ChoicePrediction({"A": 0.5, "B": 0.5}), ChoiceShape(options=("A", "B", "C"))),
    ],
)
def test_a_prediction_of_another_shape_is_refused(prediction: Any, shape: Any) -> None:
    with pytest.raises(RequestRejectedError, match="does not answer"):
        build_forecast_item(1, prediction, shape)


@pytest.mark.parametrize(
    ("body", "fine"),
    [
        ([{"question": 1, "probability_yes": 0.5}], True),
        ([{"question": 1, "continuous_cdf": [0.0, 1.0]}], True),
        ([{"question": 1, "probability_yes_per_category": {"A": 1.0}}], True),
        ([{"question": 1}], False),
        ([{}], False),
        ([], False),
        ([{"question": 1, "probability_yes": 0.5}] * 2, False),
        (["probability_yes"], False),
        ({"question": 1, "probability_yes": 0.5}, False),
    ],
)
def test_a_sealed_forecast_is_a_list_of_one_item_with_a_prediction(body: Any, *, fine: bool) -> None:
    if fine:
        assert read_forecast_item(body) == body[0]
        return
    with pytest.raises(MalformedDataError):
        read_forecast_item(body)


def test_mc_c2_the_latest_forecast_equals_the_payload_within_float_noise(shared: Path) -> None:
    question = asked(shared, "post_bin")
    assert active_since(question, {"probability_yes": 0.62}, NOW) == 1795292567.219557
    assert active_since(question, {"probability_yes": 0.62 + 2e-9}, NOW) is None
    assert active_since(question, {"probability_yes": 0.6}, NOW) is None, "that one was replaced"


def test_mc_c2_a_curve_is_compared_point_by_point(shared: Path) -> None:
    question = asked(shared, "post_disc_full")
    values = list(answer(shared, "post_disc_full")["question"]["my_forecasts"]["latest"]["forecast_values"])
    assert active_since(question, {"continuous_cdf": values}, NOW) == 1795292569.916903
    assert active_since(question, {"continuous_cdf": [*values[:5], values[5] + 2e-9, *values[6:]]}, NOW) is None
    assert active_since(question, {"continuous_cdf": values[:-1]}, NOW) is None


def test_mc_c2_in_the_grace_period_both_forms_count(shared: Path) -> None:
    # See docs/facts/metaculus.md#aggregate-figures: history ends folded, the latest begins when the period ends.
    question = asked(shared, "post_mc_grace2")
    sent = {"A": 0.1, "B": 0.5, "D": 0.1, "C": 0.3}
    assert active_since(question, {"probability_yes_per_category": sent}, NOW) == 1795465959.960602
    folded = answer(shared, "post_mc_grace2")
    folded["question"]["my_forecasts"]["latest"] = None
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(folded)
    only_history = unpacked.entries[0].question
    assert active_since(only_history, {"probability_yes_per_category": sent}, NOW) == 1795293165.311882
    other = {"A": 0.1, "B": 0.5, "D": 0.2, "C": 0.3}
    assert active_since(only_history, {"probability_yes_per_category": other}, NOW) is None


def changed(shared: Path, change: Callable[[dict[str, Any]], None]) -> MetaculusQuestionRecord:
    """Return the question of the grace period, changed."""
    post = answer(shared, "post_mc_grace2")
    change(post["question"])
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(post)
    return unpacked.entries[0].question


@pytest.mark.parametrize(
    ("ever", "options", "kept", "sent", "is_active"),
    [
        # The last option that ever was has the share of new ones, also after one was deleted.
        ("AXBC", "ABC", [0.1, None, 0.5, 0.4], {"A": 0.1, "B": 0.5, "C": 0.4}, True),
        ("AXBDC", "ABDC", [0.1, None, 0.5, None, 0.4], {"A": 0.1, "B": 0.5, "D": 0.1, "C": 0.3}, True),
        ("AXBDC", "ABDC", [0.1, None, 0.5, None, 0.4], {"A": 0.1, "B": 0.5, "D": 0.2, "C": 0.2}, True),
        ("ADXC", "ADC", [0.6, None, None, 0.4], {"A": 0.6, "D": 0.1, "C": 0.3}, True),
        ("AXBDC", "ABDC", [0.1, None, 0.5, None, 0.4], {"A": 0.1, "B": 0.4, "D": 0.1, "C": 0.4}, False),
        # The last one is not among those that were sent, or is new itself: nothing has its share.
        ("ABDX", "ABD", [0.5, 0.5, None, None], {"A": 0.5, "B": 0.4, "D": 0.1}, False),
        ("ABC", "ABC", [0.5, 0.5, None], {"A": 0.5, "B": 0.4, "C": 0.1}, False),
        ("", "", [], {"A": 0.5, "B": 0.5}, False),
        # As many values as options are expected.
        ("ABC", "ABC", [0.5, 0.5], {"A": 0.5, "B": 0.4, "C": 0.1}, False),
    ],
)
def test_mc_c2_of_new_options_the_last_one_has_the_share(
    shared: Path, ever: str, options: str, kept: list[float | None], sent: dict[str, float], *, is_active: bool
) -> None:
    def change(question: dict[str, Any]) -> None:
        question |= {"all_options_ever": [*ever], "options": [*options]}
        question["my_forecasts"]["latest"]["forecast_values"] = kept
        question["my_forecasts"]["history"] = []

    found = active_since(changed(shared, change), {"probability_yes_per_category": sent}, NOW)
    assert found == (1795465959.960602 if is_active else None)


def test_mc_c2_of_the_history_only_the_last_forecast_may_be_in_force(shared: Path) -> None:
    def change(question: dict[str, Any]) -> None:
        mine = question["my_forecasts"]
        mine["latest"] = None
        # The clock of the site is ahead of ours.
        mine["history"][0] |= {"forecast_values": [0.1, 0.6, None, 0.3], "end_time": NOW.timestamp() + 60.0}

    question = changed(shared, change)
    replaced = {"probability_yes_per_category": {"A": 0.1, "B": 0.6, "C": 0.3}}
    assert active_since(question, replaced, NOW) is None
    last = {"probability_yes_per_category": {"A": 0.1, "B": 0.5, "C": 0.4}}
    assert active_since(question, last, NOW) == 1795293165.311882
    question.my_forecasts["history"] = question.my_forecasts["history"][1:]
    assert active_since(question, last, NOW) == 1795293165.311882


def test_mc_c5_a_withdrawn_forecast_is_still_the_latest_but_stands_no_more(shared: Path) -> None:
    question = asked(shared, "post_wd")
    assert question.my_forecasts["latest"]["forecast_values"] == [0.5, 0.5]
    assert is_withdrawn(question, NOW)
    assert active_since(question, {"probability_yes": 0.5}, NOW) is None
    assert not is_withdrawn(asked(shared, "post_bin"), NOW)


def test_mc_t1_a_question_without_our_forecasts_has_none(shared: Path) -> None:
    bare = answer(shared, "post_bin")
    del bare["question"]["my_forecasts"]
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(bare)
    assert is_withdrawn(unpacked.entries[0].question, NOW)


@given(case=cdfs())
def test_mc_s3_the_fake_site_takes_every_curve_as_it_is_sent(case: tuple[CdfRules, list[float]]) -> None:
    # Its rules were written by somebody else, after the same document.
    rules, cdf = case
    world = MetaculusWorld(lambda: START)
    scaling = QuestionScaling(
        low=0.0,
        high=1.0,
        count=rules.steps,
        nominal=(0.0, 1.0),
        open_lower=rules.open_lower,
        open_upper=rules.open_upper,
    )
    asked = world.add_question(type="discrete", scaling=scaling)
    grid = tuple(n / rules.steps for n in range(rules.steps + 1))
    shape = CurveShape(grid=grid, open_lower=rules.open_lower, open_upper=rules.open_upper)
    item = build_forecast_item(asked.id, CurvePrediction(tuple(cdf)), shape)
    world.forecast(world.add_user("samplebot"), asked, item["continuous_cdf"])
    assert asked.forecasts[0].values == item["continuous_cdf"]
