"""What may be said at a venue: bounded, without markup, links, mentions and keys."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.config.venue_schema import VenueTable
from bot.core.beliefs import Belief, Evidence
from bot.core.forecasts import Forecast, Trial, TrialEnd
from bot.core.orders import ContractSide
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.core.questions import Question, QuestionRef, Target
from bot.core.redaction import register_secrets, temporary_secrets
from bot.execution.gate.comment_text import MAX_COMMENT_CHARS, render_comment, sanitize_line
from tests.unit.execution.gate.decision_contexts import order

AT = datetime(2026, 11, 22, 7, 30, tzinfo=UTC)
REF = QuestionRef("lantern", "rain")


def said(prediction: Prediction, shape: QuestionShape, *beliefs: Belief, label: str = "", **more: Any) -> str:
    predictions = {"outcome": prediction}
    question = Question(
        ref=REF,
        title="Rain?",
        shape=shape,
        targets=(Target(),),
        closes_at=AT + timedelta(days=1),
        family="market",
        label=label,
    )
    forecast = Forecast(
        id="f",
        ref=REF,
        version="v",
        forecaster="bold",
        revision=2,
        cutoff=AT,
        made_at=AT,
        why="",
        raw=predictions,
        predictions=predictions,
    )
    trials = [
        Trial(number=number, end=TrialEnd.FINISHED, belief=belief, steps=1) for number, belief in enumerate(beliefs, 1)
    ]
    return render_comment(question, forecast, trials, **more)


def test_numbers_come_first_and_then_the_strongest_reasons() -> None:
    reasons = tuple(Evidence(text=f"reason {number}", source="", log_odds=number / 10) for number in range(5))
    belief = Belief(
        predictions={}, anchor="1 in 10", evidence_for=reasons, evidence_against=reasons[:1], reason="A dry year."
    )
    silent = Belief(predictions={})
    assert said(BinaryPrediction(0.7), BinaryShape(), silent, belief).split("\n") == [
        "Forecast 70.0% (revision 2, 2 trials of bold, information until 2026-11-22 07:30 UTC)",
        "Starting point: 1 in 10",
        "For: reason 4",
        "For: reason 3",
        "For: reason 2",
        "Against: reason 0",
        "In short: A dry year.",
    ]


def test_the_answer_is_named_that_a_question_is_about_or_that_was_bet_on() -> None:
    assert said(BinaryPrediction(0.7), BinaryShape(), label="By May").startswith(
        "Forecast 70.0% for By May (revision 2"
    )
    shares = {"Ann": 0.6, "Bo": 0.4}
    of_two = ChoiceShape(options=("Ann", "Bo"))
    on_bo = order(leg=ContractSide.NO, option="Bo")
    assert said(ChoicePrediction(shares), of_two, order=on_bo).startswith(
        "Forecast Ann 60.0%, Bo 40.0%; bet NO on Bo (revision 2"
    )


def test_the_words_are_those_of_the_operator_and_what_comes_into_them_is_harmless() -> None:
    belief = Belief(predictions={}, anchor="[a](https://evil.example/x) @all")
    template = "**{answer}**: {forecast}\n{reasons}"
    reported = said(BinaryPrediction(0.7), BinaryShape(), belief, label="<b>May</b>", template=template)
    assert reported == "**b May /b**: Forecast 70.0% for b May /b\nStarting point: a (evil.example) all"


@pytest.mark.parametrize("bad", ["{forecast", "{reason}", "{}", "{forecast.__class__}", "{title!r:{until}}"])
def test_a_template_that_names_what_is_not_there_is_refused_with_what_is(bad: str) -> None:
    with pytest.raises(ValidationError, match=r"not a valid template|not a placeholder"):
        VenueTable.model_validate({"forecasters": ["blf"], "comment_template": bad})


@pytest.mark.parametrize(
    ("prediction", "shape", "words"),
    [
        (ChoicePrediction({"a": 0.2, "b": 0.8}), ChoiceShape(options=("a", "b")), "Forecast b 80.0%, a 20.0%"),
        (
            CurvePrediction((0.0, 0.5, 1.0)),
            CurveShape(grid=(0.0, 10.0, 20.0), unit="mm"),
            "Forecast 10%: 2, 50%: 10, 90%: 18 mm",
        ),
    ],
)
def test_every_kind_of_forecast_is_told(prediction: Prediction, shape: QuestionShape, words: str) -> None:
    assert said(prediction, shape).startswith(words)


@given(st.text(max_size=400), st.text(alphabet="abcdef0123456789-", min_size=16, max_size=40))
def test_nothing_that_a_site_would_render_is_left_nor_a_secret(text: str, secret: str) -> None:
    with temporary_secrets():
        register_secrets(secret)
        line = sanitize_line(f"{text} {secret} [x](https://a.example/b) <img src=x> @all {text}")
    assert not set("<>[]{}|\\`*_~^#@$\n") & set(line)
    assert "://" not in line
    assert secret not in line


def test_what_looks_like_a_key_is_left_out_and_everything_is_bounded() -> None:
    assert sanitize_line("use 0123456789abcdef0123456789abcdef01234567 now") == "use (left out) now"
    long = Belief(predictions={}, anchor="word " * 2000, evidence_for=(Evidence(text="w " * 9000, source="s " * 900),))
    assert len(said(BinaryPrediction(0.5), BinaryShape(), long)) <= MAX_COMMENT_CHARS


def test_a_line_is_cut_only_where_it_is_longer_than_permitted() -> None:
    assert sanitize_line("0123456789", chars=10) == "0123456789"
    assert sanitize_line("0123456789A", chars=10) == "0123456..."
    assert sanitize_line("012345 789A", chars=10) == "012345..."


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"a": 0.3, "b": 0.25, "c": 0.2, "e": 0.15, "d": 0.1}, "d 10.0% ("),
        ({"a": 0.3, "b": 0.25, "c": 0.2, "d": 0.15, "e": 0.06, "f": 0.04}, "e 6.0% and 1 more ("),
    ],
)
def test_options_beyond_the_fifth_are_counted(shares: dict[str, float], words: str) -> None:
    assert words in said(ChoicePrediction(shares), ChoiceShape(options=tuple(shares)))


@pytest.mark.parametrize("kind", ["evidence_for", "evidence_against"])
def test_evidence_of_one_side_alone_is_a_reason(kind: str) -> None:
    belief = Belief(predictions={}, **{kind: (Evidence(text="A wet spring.", source=""),)})  # type: ignore[arg-type]  # fields by name
    assert "A wet spring." in said(BinaryPrediction(0.7), BinaryShape(), Belief(predictions={}), belief)
