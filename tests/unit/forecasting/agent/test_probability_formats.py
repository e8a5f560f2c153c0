"""How finely a model states probabilities: fractions, percentages with decimals, and what could mean two things."""

from typing import Any

import pytest

from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.values import Json
from bot.forecasting.agent.answer_schema import (
    AnswerFormat,
    AnswerSettings,
    BinaryAnswerSchema,
    ChoiceAnswerSchema,
    create_answer_format,
)
from bot.forecasting.agent.parsing import UnreadableAnswer, read_probability
from bot.forecasting.agent.prompt_texts import bounds_text
from tests.plugins.blf.cases import CHOICE, CURVE, question

PERCENT = create_answer_format(question(), AnswerSettings(), percent=True)
PERCENTS = create_answer_format(question(CHOICE), AnswerSettings(option_floor=0.001), percent=True)


def stated(ballot: AnswerFormat, raw: Json) -> Any:
    (prediction,) = ballot.read({ballot.answer_schema.field: raw}).values()
    return prediction


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (7.5, 0.075),
        (99.6, 0.996),
        (40, 0.4),
        (1, 0.01),
        (0, 0.0),
        (100, 1.0),
        ("0.5 %", 0.005),
        ("40%", 0.4),
        ("7", 0.07),
    ],
)
def test_a_percentage_may_have_decimals(raw: Json, read: float) -> None:
    assert stated(PERCENT, raw) == BinaryPrediction(read)


@pytest.mark.parametrize(
    ("raw", "told"), [(0.7, '0.7 % or 70 %; write 70, or "0.7 %"'), ("0.05", "0.05 % or 5 %; write 5")]
)
def test_a_bare_percentage_below_one_is_asked_about(raw: Json, told: str) -> None:
    with pytest.raises(UnreadableAnswer) as found:
        read_probability(raw, "percent", percent=True)
    assert told in str(found.value)


@pytest.mark.parametrize("raw", [-1, 100.5, "101 %", None, "much", True])
def test_what_is_no_percentage_is_refused(raw: Json) -> None:
    with pytest.raises(UnreadableAnswer):
        stated(PERCENT, raw)


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ({"red": 0.5, "green": 30, "blue": 69.5}, (0.005, 0.3, 0.695)),
        ({"red": 0.2, "green": 0.3, "blue": 0.5}, (0.2, 0.3, 0.5)),
        ({"red": "0.5 %", "green": 3, "blue": 6.5}, (0.05, 0.3, 0.65)),
        ({"red": 1, "green": 3, "blue": 0}, (0.25, 0.75, 0.0)),
    ],
)
def test_percentages_of_options_are_told_from_fractions_by_their_sum(raw: Json, read: tuple[float, ...]) -> None:
    choice = stated(PERCENTS, raw)
    assert isinstance(choice, ChoicePrediction)
    assert tuple(choice.probabilities.values()) == pytest.approx(read, abs=0.002)


@pytest.mark.parametrize(
    "raw",
    [{"red": 0.7, "green": 20, "blue": 10}, {"red": 0.7, "green": 0.2, "blue": 2}, {"red": 120, "green": 0, "blue": 0}],
)
def test_percentages_of_options_that_may_mean_two_things_are_asked_about(raw: Json) -> None:
    with pytest.raises(UnreadableAnswer, match="100"):
        stated(PERCENTS, raw)


@pytest.mark.parametrize(
    ("probability", "percent", "fraction"),
    [
        (0.005, "0.5 %", "0.005"),
        (0.0004, "0.04 %", "0.0004"),
        (0.07, "7.0 %", "0.07"),
        (0.0999, "10.0 %", "0.1"),
        (0.1, "10 %", "0.1"),
        (0.6149, "61 %", "0.615"),
        (0.9, "90 %", "0.9"),
        (0.973, "97.3 %", "0.973"),
        (1.0, "100.0 %", "1"),
    ],
)
def test_probabilities_are_shown_with_a_decimal_below_ten_and_above_ninety_percent(
    probability: float, percent: str, fraction: str
) -> None:
    assert BinaryAnswerSchema(percent=True).format(BinaryPrediction(probability)) == percent
    assert BinaryAnswerSchema(percent=False).format(BinaryPrediction(probability)) == fraction


def test_options_are_shown_like_any_probability() -> None:
    shown = ChoiceAnswerSchema(("red", "green"), 0.01, percent=True).format(
        ChoicePrediction({"red": 0.955, "green": 0.045})
    )
    assert shown == "red 95.5 %, green 4.5 %"


@pytest.mark.parametrize(
    ("margin", "schema"),
    [
        (0.05, {"type": "number", "minimum": 5.0, "maximum": 95.0}),
        (0.01, {"type": "number", "minimum": 1.0, "maximum": 99.0}),
        (0.005, {"anyOf": [{"type": "number", "minimum": 1.0, "maximum": 99.5}, {"type": "string", "maxLength": 10}]}),
    ],
)
def test_a_percentage_below_one_is_a_text_in_the_schema_where_the_bounds_permit_it(
    margin: float, schema: dict[str, Any]
) -> None:
    asked = dict(PERCENT.answer_schema.schema(margin))
    assert "in percent" in str(asked.pop("description"))
    assert asked == schema


def test_the_description_for_several_dates_is_said_once() -> None:
    ballot = create_answer_format(question(targets=("2026-02-01", "2026-03-01")), AnswerSettings(), percent=False)
    schema: Any = ballot.schema(0.05)["probability"]
    assert schema["description"].startswith("One answer for each date. Probability of yes")
    assert all("description" not in one for one in schema["properties"].values())


def test_bounds_are_told_in_the_unit_of_the_answer() -> None:
    assert bounds_text(PERCENT, 0.05) == "Answer between 5.0 % and 95.0 %, with one decimal below 10 % and above 90 %."
    assert bounds_text(PERCENT, 0.005).endswith('Less than 1 % is written as a text: "0.5 %".')
    fraction = create_answer_format(question(), AnswerSettings(), percent=False)
    assert (
        bounds_text(fraction, 0.005) == "Answer between 0.005 and 0.995, with three decimals below 0.1 and above 0.9."
    )
    assert bounds_text(PERCENTS, 0.05).startswith("All options sum to 100 %")
    assert "rise with the percentage" in bounds_text(
        create_answer_format(question(CURVE), AnswerSettings(), percent=True), 0.05
    )
