"""What a model says of a question is read as a prediction, or refused in words that it can act on."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction
from bot.core.values import Json
from bot.forecasting.agent import parsing
from bot.forecasting.agent.answer_schema import (
    AnswerSettings,
    CurveAnswerSchema,
    create_answer_format,
    prediction_distance,
)
from bot.forecasting.agent.parsing import UnreadableAnswer
from tests.plugins.blf.cases import CHOICE, CURVE, DATE_CURVE, question


def test_predictions_of_different_kinds_are_as_far_apart_as_can_be() -> None:
    red, green = ChoicePrediction({"red": 0.7, "green": 0.3}), ChoicePrediction({"red": 0.5, "green": 0.5})
    assert prediction_distance({"a": red}, {"a": green}) == pytest.approx(0.2)
    assert prediction_distance(
        {"a": CurvePrediction((0.0, 0.5, 1.0))}, {"a": CurvePrediction((0.0, 0.1, 1.0))}
    ) == pytest.approx(0.4)
    assert prediction_distance({"a": red}, {"a": BinaryPrediction(0.5)}) == 1.0


def test_percentages_are_those_of_a_model_under_a_grammar() -> None:
    assert create_answer_format(question(), AnswerSettings(), percent=True).percent
    assert not create_answer_format(question(), AnswerSettings(), percent=False).percent
    assert not create_answer_format(question(CURVE), AnswerSettings(), percent=True).percent


def test_quantiles_that_make_no_curve_are_refused_in_words() -> None:
    ballot = create_answer_format(question(CURVE), AnswerSettings(quantiles=(50,)), percent=False)
    with pytest.raises(UnreadableAnswer, match="quantiles make no curve: two or more levels"):
        ballot.read({"quantiles": {"p50": 50.0}})


def test_a_curve_form_shows_nothing_of_what_is_no_curve() -> None:
    assert CurveAnswerSchema(CURVE, (10, 90), 5e-5).format(BinaryPrediction(0.5)) == ""


@pytest.mark.parametrize("raw", ["2026-03-01", "2026-03-01T00:00:00+00:00", " 2026-03-01T00:00:00 "])
def test_a_date_is_read_as_utc_unless_it_names_a_zone(raw: str) -> None:
    assert parsing.read_timestamp(raw, "p50") == datetime(2026, 3, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("raw", ["soon", 20260301, None, "2026-13-01", ""])
def test_what_is_no_date_is_refused(raw: Any) -> None:
    with pytest.raises(UnreadableAnswer, match="date such as 2026-03-01"):
        parsing.read_timestamp(raw, "p50")


def test_dates_are_asked_for_and_shown_as_dates() -> None:
    ballot = create_answer_format(question(DATE_CURVE), AnswerSettings(quantiles=(10, 50, 90)), percent=False)
    given: dict[str, Json] = {"p10": "2026-01-10", "p50": "2026-02-01", "p90": "2026-03-01"}
    read = ballot.read({"quantiles": given})
    assert ballot.format(read) == "p10 2026-01-10, p50 2026-02-01, p90 2026-03-01"
    falling: dict[str, Json] = {**given, "p90": "2026-01-01"}
    with pytest.raises(UnreadableAnswer, match="not fall"):
        ballot.read({"quantiles": falling})


def test_options_are_floored_and_sum_to_one() -> None:
    ballot = create_answer_format(question(CHOICE), AnswerSettings(option_floor=0.1), percent=True)
    (choice,) = ballot.read({"percents": {"red": 100, "green": 0, "blue": 0}}).values()
    assert isinstance(choice, ChoicePrediction)
    assert min(choice.probabilities.values()) == pytest.approx(0.1)
    assert sum(choice.probabilities.values()) == pytest.approx(1.0)
