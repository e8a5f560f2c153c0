"""Several dates, named options, numbers and dates: each is asked for, read, bounded and shown in its own way."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from scipy import stats

from bot.core.beliefs import Step, belief_mismatch
from bot.core.language_models import ModelDialect
from bot.core.predictions import ChoicePrediction, CurvePrediction
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import (
    CHOICE,
    CURVE,
    DATE_CURVE,
    DATES,
    DAYS,
    GRID,
    believing,
    create_context,
    probabilities,
    question,
    search,
    steps_of,
    submit,
)

LEVELS = (5, 10, 25, 50, 75, 90, 95)


def quantiles(*values: Any) -> dict[str, Any]:
    return {f"p{level}": value for level, value in zip(LEVELS, values, strict=True)}


def choice(step: Step) -> dict[str, float]:
    (found,) = step.belief.predictions.values()
    assert isinstance(found, ChoicePrediction)
    return dict(found.probabilities)


def curve(step: Step) -> CurvePrediction:
    (found,) = step.belief.predictions.values()
    assert isinstance(found, CurvePrediction)
    return found


@pytest.mark.parametrize(
    ("answer", "understood"),
    [
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),
        (dict(zip(DATES, (0.1, 0.2, 0.3), strict=True)), [0.1, 0.2, 0.3]),
        (dict(zip(reversed(DATES), (0.1, 0.2, 0.3), strict=True)), [0.3, 0.2, 0.1]),
        (0.4, [0.4, 0.4, 0.4]),
        ([0.0, 1.0, 0.5], [0.05, 0.95, 0.5]),
    ],
)
async def test_an_answer_for_several_dates_is_a_list_in_order_an_object_or_one_number(
    answer: Any, understood: list[float]
) -> None:
    asked = question(targets=DATES)
    for field in ("probability", "probabilities"):
        steps, error = await steps_of(asked, create_context(submit(answer, field=field)))
        assert error is None
        assert probabilities(steps[0]) == pytest.approx(understood)
        assert belief_mismatch(steps[0].belief, asked) is None


@pytest.mark.parametrize("answer", [[0.1, 0.2], {DATES[0]: 0.1}, {**dict.fromkeys(DATES, 0.1), "2030-01-01": 0.2}, []])
async def test_an_answer_that_misses_a_date_or_names_another_is_no_answer(answer: Any) -> None:
    steps, error = await steps_of(question(targets=DATES), create_context(submit(answer), submit(answer)))
    assert [step.action.name for step in steps] == ["stop"]
    assert error is not None


async def test_a_belief_for_several_dates_is_kept_by_date() -> None:
    at = create_context(search(belief=believing([0.2, 0.3, 0.99])), submit([0.2, 0.3, 0.4]))
    steps, _ = await steps_of(question(targets=DATES), at)
    assert probabilities(steps[0]) == [0.2, 0.3, 0.98]
    assert "2026-03-01: 0.3;" in at.prompts[1].prompt.messages[-1].text
    schema: Any = at.prompts[0].prompt.tools[-1].parameters["properties"]
    assert schema["probability"]["required"] == [*DATES]


async def test_options_get_probabilities_that_sum_to_one_and_none_is_impossible() -> None:
    answer = {"red": 3, "green": 1, "blue": 0}
    fractions = {name: value / 10 for name, value in answer.items()}
    steps, error = await steps_of(question(CHOICE), create_context(submit(fractions, field="probabilities")))
    assert error is None
    found = choice(steps[0])
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["blue"] == pytest.approx(0.01)
    assert found["red"] == pytest.approx(0.74, abs=0.01)


async def test_the_floor_of_options_is_a_setting() -> None:
    answer = {"red": 0.9, "green": 0.1, "blue": 0.0}
    at = create_context(submit(answer, field="probabilities"))
    steps, _ = await steps_of(question(CHOICE), at, BlfSettings(option_floor=0.0))
    assert choice(steps[0]) == pytest.approx(answer)


@pytest.mark.parametrize(
    "given",
    [
        {"red": 0.5, "green": 0.5},
        {"red": 0.5, "green": 0.6, "blue": -0.1},
        {"red": 0.0, "green": 0.0, "blue": 0.0},
        {"red": 0.2, "green": 0.3, "blue": None},
        {"red": 0.2, "green": 0.3, "blue": 0.1, "black": 0.4},
        0.5,
        [0.2, 0.3, 0.5],
    ],
)
async def test_options_that_are_missing_negative_or_unknown_are_refused(given: Any) -> None:
    answer = submit(given, field="probabilities")
    steps, error = await steps_of(question(CHOICE), create_context(answer, answer))
    assert error is not None
    assert choice(steps[0]) == pytest.approx(dict.fromkeys(CHOICE.options, 1 / 3))


async def test_percents_of_options_are_whole_numbers_in_the_json_dialect() -> None:
    answer = {"action": "submit", "arguments": {"reasoning": "", "percents": {"red": 20, "green": 30, "blue": 50}}}
    at = create_context(script=lambda _: json_answer(answer), dialect=ModelDialect.JSON)
    steps, _ = await steps_of(question(CHOICE), at)
    assert choice(steps[0]) == pytest.approx({"red": 0.2, "green": 0.3, "blue": 0.5})


def json_answer(answer: Any) -> Any:
    from bot.core.language_models import ModelCompletion

    return ModelCompletion(text=json.dumps(answer))


async def test_quantiles_become_a_cdf_on_the_grid() -> None:
    values = [float(stats.norm.ppf(level / 100, 50, 15)) for level in LEVELS]
    at = create_context(submit(quantiles(*values), field="quantiles"))
    asked = question(CURVE)
    steps, error = await steps_of(asked, at, BlfSettings(curve_step_mass=0.0))
    assert error is None
    assert belief_mismatch(steps[0].belief, asked) is None
    assert curve(steps[0]).cdf == pytest.approx(stats.norm.cdf(GRID, 50, 15), abs=0.006)


async def test_every_step_of_the_grid_gets_its_least_mass() -> None:
    at = create_context(submit(quantiles(10, 11, 12, 13, 14, 15, 16), field="quantiles"))
    steps, _ = await steps_of(question(CURVE), at, BlfSettings(curve_step_mass=0.001))
    cdf = curve(steps[0]).cdf
    assert min(b - a for a, b in pairwise(cdf)) >= 0.001 - 1e-12


async def test_dates_are_stated_and_printed_as_dates() -> None:
    days = [datetime.fromtimestamp(DAYS[day], UTC).date().isoformat() for day in (5, 10, 25, 50, 60, 70, 80)]
    stated = believing(quantiles(*days), field="quantiles")
    at = create_context(search(belief=stated), submit(quantiles(*days), field="quantiles"))
    asked = question(DATE_CURVE)
    steps, error = await steps_of(asked, at, BlfSettings(curve_step_mass=0.0))
    assert error is None
    assert curve(steps[0]).cdf[50] == pytest.approx(0.5, abs=1e-6)
    assert f"p50 {days[3]}" in at.prompts[1].prompt.messages[-1].text


@pytest.mark.parametrize(
    "given",
    [
        quantiles(1, 2, 3, 2, 5, 6, 7),
        quantiles(1, 2, 3, 4, 5, 6, "many"),
        {"p50": 3},
        quantiles(1, 2, 3, 4, 5, 6, None),
        [1, 2, 3],
    ],
)
async def test_quantiles_that_fall_or_are_missing_are_refused(given: Any) -> None:
    answer = submit(given, field="quantiles")
    asked = question(CURVE)
    steps, error = await steps_of(asked, create_context(answer, answer))
    assert error is not None
    assert belief_mismatch(steps[0].belief, asked) is None


async def test_quantiles_that_fall_are_told_in_one_sentence_with_rounded_figures() -> None:
    falling = quantiles(1_000_000.0, 24.1, 30, 40, 50, 60, 62.099999999999994)
    at = create_context(
        search(belief=believing(falling, field="quantiles")), submit(quantiles(*range(7)), field="quantiles")
    )
    steps, error = await steps_of(question(CURVE), at)
    assert error is None
    assert steps[0].remarks[-1] == (
        "belief kept: quantiles should rise from p5 to p95, not fall: "
        "p5 1000000, p10 24.1, p25 30, p50 40, p75 50, p90 60, p95 62.1"
    )


async def test_options_for_several_dates_are_told_from_options_of_one() -> None:
    one = {"red": 0.2, "green": 0.3, "blue": 0.5}
    other = {"red": 0.5, "green": 0.3, "blue": 0.2}
    asked = question(CHOICE, targets=DATES[:2])
    for answer, last in ((one, one), ([one, other], other), (dict(zip(DATES, (one, other), strict=False)), other)):
        steps, error = await steps_of(asked, create_context(submit(answer, field="probabilities")))
        assert error is None
        found = steps[0].belief.predictions[DATES[1]]
        assert isinstance(found, ChoicePrediction)
        assert found.probabilities == pytest.approx(last)
