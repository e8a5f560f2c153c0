"""What a model is told of a question: the day, the time that is left, what to read first, and advice by source."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.core.language_models import ToolDefinition
from bot.core.questions import Question
from bot.forecasting.agent.answer_schema import AnswerSettings, create_answer_format
from bot.forecasting.agent.belief_state import find_starting_point
from bot.forecasting.agent.prompt_texts import (
    judging_name,
    judging_text,
    question_text,
    repair_text,
    submit_tool,
    turn_text,
)
from tests.plugins.blf.cases import CHOICE, CURVE, CUTOFF, DATE_CURVE, DATES, priced, question

LOOK = ToolDefinition(name="look", description="Look", parameters={})
SUBMIT = ToolDefinition(name="submit", description="Submit", parameters={})
DAY = timedelta(days=1)


def told(asked: Question, **more: Any) -> str:
    ballot = create_answer_format(asked, AnswerSettings(), percent=False)
    return question_text(asked, ballot, find_starting_point(asked), **{"cutoff": CUTOFF, **more})


def test_a_question_of_today_is_told_the_date_as_such() -> None:
    for as_of in (None, CUTOFF + 3 * DAY):
        text = told(question(as_of=as_of))
        assert "Today is 2026-01-01 (UTC); the time is 00:00." in text
        assert "as of" not in text


@pytest.mark.parametrize("cutoff", [CUTOFF, CUTOFF + DAY])
def test_a_backdated_question_is_told_as_of_when_it_is_asked(cutoff: Any) -> None:
    text = told(question(as_of=CUTOFF), cutoff=min(cutoff, CUTOFF))
    assert "The question is asked as of 2026-01-01 00:00 UTC." in text
    assert "use nothing that became known later" in text
    assert "Today is" not in text


def test_pages_that_the_question_names_are_to_be_read_first_where_it_is_of_today() -> None:
    first = "where you can read them, do that first"
    assert first in told(question(criteria="As https://port.example/status says."))
    assert first in told(question(background="See https://port.example/status."))
    assert first not in told(question(criteria="As the port says."))
    assert first not in told(question(criteria="As https://port.example/status says.", as_of=CUTOFF))


def test_the_time_that_is_left_is_told_in_days() -> None:
    assert "It is decided on 2026-01-31, 30 days ahead." in told(question())
    closes = replace(question(), targets=(replace(question().targets[0], resolves_at=None),), closes_at=CUTOFF + DAY)
    assert "It is decided on 2026-01-02, 1 day ahead." in told(closes)
    assert "2026-01-01, the same day." in told(replace(closes, closes_at=CUTOFF + DAY / 2))
    assert "2025-12-30, 2 days back." in told(replace(closes, closes_at=CUTOFF - 2 * DAY))
    assert "One answer.\n" in told(replace(closes, closes_at=None))


def test_the_dates_of_a_series_are_listed_once_each() -> None:
    targets = tuple(
        replace(question().targets[0], key=key, resolves_at=CUTOFF + 30 * DAY * number)
        for number, key in enumerate(("2026-01-31", "second", "third"), 1)
    )
    last = replace(targets[2], resolves_at=None)
    text = told(replace(question(), targets=(*targets[:2], last)))
    assert "- 2026-01-31 (30 days ahead)\n- second (on 2026-03-02, 60 days ahead)\n- third\n" in text
    assert "a later date is never less likely than an earlier one" in text
    assert "the wider is the distribution" in told(question(CURVE, targets=DATES))
    assert "never less likely" not in told(question(CHOICE, targets=DATES))


def test_advice_for_the_source_is_shown_where_there_is_some() -> None:
    assert "## Questions of this source\nNear one half." in told(question(), advice="Near one half.")
    assert "## Questions of this source" not in told(question())


def test_the_line_of_a_turn_is_short_and_says_which_is_the_last() -> None:
    assert turn_text(2, 5, (LOOK, SUBMIT), "") == "Step 2 of 5. You can call now: look, submit."
    assert turn_text(5, 5, (SUBMIT,), "") == "Step 5 of 5, the last one. You can call now: submit."


def test_a_reminder_says_what_was_wrong_and_what_can_be_called() -> None:
    text = repair_text("the answer held no action", (LOOK, SUBMIT))
    assert text == (
        "That did not count: the answer held no action. Answer with exactly one tool call. "
        "You can call now: look, submit."
    )


@pytest.mark.parametrize(
    ("shape", "name", "words"),
    [
        (None, "judge_binary", "if the answer were yes, and how likely if it were no"),
        (CHOICE, "judge_choice", "under each of the options"),
        (CURVE, "judge_number", "if the value came out high"),
        (DATE_CURVE, "judge_date", "if the date were early"),
    ],
)
def test_how_to_judge_is_said_in_the_words_of_the_shape(shape: Any, name: str, words: str) -> None:
    asked = question(shape)
    assert judging_name(asked) == name
    assert words in judging_text(asked)
    assert "Mean what you say." in judging_text(asked)


def test_every_property_of_submitting_says_what_it_is() -> None:
    for shape in (None, CHOICE, CURVE, DATE_CURVE):
        asked = question(shape)
        properties: Any = submit_tool(
            asked, create_answer_format(asked, AnswerSettings(), percent=True), 0.05
        ).parameters["properties"]
        assert [name for name, schema in properties.items() if not schema.get("description")] == []


def test_the_crowd_is_told_with_a_decimal_where_it_is_small() -> None:
    assert "the crowd's estimate was: 0.012." in told(priced(0.012))
