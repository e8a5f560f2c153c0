"""The critic that all forecasters share: what it is asked and how its answer is read, for each kind of question."""

from datetime import UTC, datetime

import pytest

from bot.core.predictions import BinaryShape, ChoiceShape, CurveShape, QuestionShape
from bot.core.questions import Question, QuestionRef, Target
from bot.core.values import Json
from bot.forecasting.agent.critic import critic_prompt, critique_tool, read_critique
from bot.forecasting.agent.parsing import UnreadableAnswer

CHOICE = ChoiceShape(options=("red", "green", "blue"))
CURVE = CurveShape(grid=tuple(float(point) for point in range(0, 101, 5)), unit="points")


def question(shape: QuestionShape) -> Question:
    targets = (Target(resolves_at=datetime(2026, 2, 1, tzinfo=UTC)),)
    return Question(ref=QuestionRef("harbour", "q"), title="Which ship comes in?", shape=shape, targets=targets)


@pytest.mark.parametrize(
    ("shape", "given", "line"),
    [
        (BinaryShape(), {"probability_change": "LOWER"}, "The probability should be: lower"),
        (CURVE, {"quantiles": "wider"}, "The quantiles should be: wider"),
        (
            CHOICE,
            {"too_low": ["blue"], "too_high": ["red", "pink"]},
            "Options that deserve more: blue\nOptions that deserve less: red",
        ),
        (CHOICE, {}, "Options that deserve more: none\nOptions that deserve less: none"),
    ],
)
def test_a_critique_speaks_of_what_the_question_asks_for(
    shape: QuestionShape, given: dict[str, Json], line: str
) -> None:
    text = read_critique({"verdict": "Thin.", "objections": "One source.", **given}, question(shape))
    assert text == f"Thin.\nObjections: One source.\nMissing: nothing\n{line}"


@pytest.mark.parametrize(
    ("shape", "fields"),
    [(BinaryShape(), {"probability_change"}), (CURVE, {"quantiles"}), (CHOICE, {"too_low", "too_high"})],
)
def test_each_kind_of_question_has_its_own_fields(shape: QuestionShape, fields: set[str]) -> None:
    required = critique_tool(question(shape)).parameters["required"]
    assert isinstance(required, list)
    assert {*required} == {"verdict", *fields}


def test_an_unknown_change_is_refused_with_the_words_that_exist() -> None:
    with pytest.raises(UnreadableAnswer, match="quantiles should be one of higher, lower, wider, narrower"):
        read_critique({"verdict": "x", "quantiles": "bigger"}, question(CURVE))
    with pytest.raises(UnreadableAnswer, match="verdict is missing"):
        read_critique({"quantiles": "wider"}, question(CURVE))


def test_the_instructions_say_how_to_judge_that_kind_of_question() -> None:
    prompts = {critic_prompt(question(shape)) for shape in (BinaryShape(), CHOICE, CURVE)}
    assert len(prompts) == 3
    assert all("How to judge" in prompt for prompt in prompts)
