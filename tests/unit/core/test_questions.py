from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.core.beliefs import Belief, ModelUsage, belief_mismatch
from bot.core.outcomes import BinaryOutcome, NumericOutcome
from bot.core.predictions import BinaryPrediction, BinaryShape, ChoicePrediction, CurvePrediction
from bot.core.questions import CrowdForecast, Question, QuestionRef, Quote, Target

REF = QuestionRef("lantern", "2026/a:b")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def question(*targets: Target, crowd: CrowdForecast | None = None) -> Question:
    return Question(ref=REF, title="Will it?", shape=BinaryShape(), targets=targets or (Target(),), crowd=crowd)


def test_a_reference_is_read_back_from_its_text_even_with_colons_in_the_key() -> None:
    assert QuestionRef.parse(str(REF)) == REF


@pytest.mark.parametrize("text", ["", "lantern", "lantern:", ":key"])
def test_half_a_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="question reference"):
        QuestionRef.parse(text)


def test_two_targets_of_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match="different keys"):
        question(Target(key="x"), Target(key="x"))


def test_a_question_without_targets_is_refused() -> None:
    with pytest.raises(ValueError, match="different keys"):
        Question(ref=REF, title="Will it?", shape=BinaryShape(), targets=())


def test_a_moment_without_a_time_zone_names_its_question() -> None:
    with pytest.raises(ValueError, match=r"lantern:2026/a:b: closes_at .* has no time zone"):
        Question(
            ref=REF,
            title="Will it?",
            shape=BinaryShape(),
            targets=(Target(),),
            closes_at=datetime(2026, 1, 1),  # noqa: DTZ001 - the mistake under test
        )


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        question(Target(resolves_at=datetime(2026, 1, 1)))  # noqa: DTZ001 - the mistake under test


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
def test_a_moment_that_utc_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is before the first year in UTC, or after the last"):
        question(Target(resolves_at=datetime.fromisoformat(text)))
    question(Target(resolves_at=datetime.fromisoformat(f"{text[:-6]}+00:00")))


def test_a_quote_without_a_time_zone_is_refused_with_its_question() -> None:
    with pytest.raises(ValueError, match=r"^lantern:2026/a:b: at of a quote 2026-01-01T00:00:00 has no time zone$"):
        Quote(ref=REF, prediction=BinaryPrediction(0.4), at=NOW.replace(tzinfo=None))


def test_a_crowd_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="the crowd's choice prediction"):
        question(crowd=CrowdForecast(prediction=ChoicePrediction({"a": 0.5, "b": 0.5}), at=NOW))


def test_facts_cannot_be_changed_from_outside() -> None:
    facts = {"unit": "m"}
    asked = Question(ref=REF, title="?", shape=BinaryShape(), targets=(Target(),), facts=facts)
    facts["unit"] = "km"
    assert asked.facts["unit"] == "m"


def test_a_name_that_ends_in_a_version_keeps_all_of_it() -> None:
    asked = replace(question(), label="GPT-5.0", weight=2.0)
    assert asked.published_facts == {"label": "GPT-5.0", "weight": "2"}


def test_a_belief_must_answer_every_target_in_the_right_shape() -> None:
    asked = question(Target(key="a"), Target(key="b"))
    assert "targets ['a']" in str(belief_mismatch(Belief(predictions={"a": BinaryPrediction(0.5)}), asked))
    assert "target b: curve" in str(
        belief_mismatch(Belief(predictions={"a": BinaryPrediction(0.5), "b": CurvePrediction((0.0, 1.0))}), asked)
    )
    assert belief_mismatch(Belief(predictions={"a": BinaryPrediction(0.5), "b": BinaryPrediction(0.1)}), asked) is None


def test_an_outcome_that_is_no_outcome_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        BinaryOutcome(1.5)
    with pytest.raises(ValueError, match="number"):
        NumericOutcome(float("nan"))


def test_usage_adds_up_and_never_refunds() -> None:
    total = ModelUsage(calls=1, tokens_in=10, cost_usd=0.25) + ModelUsage(calls=2, tokens_out=5, cost_usd=0.5)
    assert total == ModelUsage(calls=3, tokens_in=10, tokens_out=5, cost_usd=0.75)
    with pytest.raises(ValueError, match="negative"):
        ModelUsage(cost_usd=-0.01)
    with pytest.raises(ValueError, match="negative"):
        ModelUsage(cost_usd=float("nan"))


def test_a_target_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="a target needs a key"):
        Target(key="")
