"""Long notes are shortened by the small model, and stay as they are where that does not work out."""

import json
from typing import Any

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.errors import RequestRejectedError, ServiceUnavailableError
from bot.core.language_models import ModelCompletion, ModelDialect
from bot.testing.trial_context import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTrialContext,
    answer_in_turn,
    tool_call_answer,
)
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import believing, create_context, question, search, steps_of, submit

LONG = [{"text": f"{number} {'fact ' * 70}", "source": f"search_1_result_{number}"} for number in range(5)]
SHORT = {
    "evidence_for": [{"text": "five facts", "source": "search_1_result_3"}],
    "evidence_against": [{"text": "a doubt", "source": "search_2_result_1"}],
    "key_uncertainties": ["the crew"],
}
STATED = believing(
    0.6,
    evidence_for=LONG,
    evidence_against=[{"text": "a doubt " * 40, "source": "search_2_result_1"}],
    base_rate_anchor="one in two",
    update_reasoning="five facts speak for it",
    key_uncertainties=["the crew", "the weather"],
)


def keep(notes: Any) -> ModelCompletion:
    return tool_call_answer("keep_notes", json.dumps(notes))


def with_summariser(
    *answer: ScriptedAnswer, dialect: ModelDialect = ModelDialect.TOOLS, steps: int = 1
) -> ScriptedTrialContext:
    models = {
        "main": ScriptedModel(answer_in_turn(*[search(str(step), STATED) for step in range(steps)], submit(0.6))),
        "summariser": ScriptedModel(answer_in_turn(*answer), dialect, "scripted:small"),
    }
    return create_context(models=models)


async def test_long_notes_are_shortened_and_everything_else_stays() -> None:
    at = with_summariser(keep(SHORT))
    steps, _ = await steps_of(question(), at)
    belief = steps[0].belief
    assert [(item.text, item.source) for item in belief.evidence_for] == [("five facts", "search_1_result_3")]
    assert [item.text for item in belief.evidence_against] == ["a doubt"]
    assert belief.open_questions == ("the crew",)
    assert (belief.anchor, belief.reason) == ("one in two", "five facts speak for it")
    assert "notes shortened" in steps[0].observation.text
    assert "five facts speak for it" in at.prompts[-1].prompt.messages[-1].text
    assert [
        (performance.role, performance.model, performance.unparsed) for performance in at.reported_performances[:1]
    ] == [("summariser", "scripted:small", 0)]


async def test_shortening_is_paid_for_and_on_record() -> None:
    answer = ModelCompletion(calls=keep(SHORT).calls, usage=ModelUsage(calls=1, tokens_in=7, cost_usd=0.25))
    steps, _ = await steps_of(question(), with_summariser(answer))
    assert steps[0].usage.cost_usd == 0.25
    assert steps[0].usage.calls == 2
    assert len(steps[0].observation.documents) == 4


async def test_a_summariser_that_speaks_json_is_asked_in_json() -> None:
    answer = ModelCompletion(text=json.dumps({"action": "keep_notes", "arguments": SHORT}))
    at = with_summariser(answer, dialect=ModelDialect.JSON)
    steps, _ = await steps_of(question(), at)
    assert [item.text for item in steps[0].belief.evidence_for] == ["five facts"]


@pytest.mark.parametrize(
    "answer",
    [
        ServiceUnavailableError("down"),
        RequestRejectedError("budget"),
        ModelCompletion(text="They are short already."),
        keep({}),
        keep({**SHORT, "evidence_for": []}),
        keep({**SHORT, "evidence_for": [{"text": "new", "source": "made up"}]}),
        keep({**SHORT, "evidence_for": [{"text": "without a source"}]}),
        keep({**SHORT, "evidence_for": [{"text": "x" * 399, "source": "search_1_result_1"}] * 6}),
    ],
)
async def test_notes_that_could_not_be_shortened_stay_whole(answer: ScriptedAnswer) -> None:
    steps, error = await steps_of(question(), with_summariser(answer))
    assert error is None
    assert [item.source for item in steps[0].belief.evidence_for] == [item["source"] for item in LONG]
    assert steps[0].belief.open_questions == ("the crew", "the weather")
    assert steps[0].belief.reason == "five facts speak for it"
    assert "notes not shortened" in steps[0].observation.text


async def test_without_a_summariser_the_notes_stay_whole() -> None:
    steps, error = await steps_of(question(), create_context(search(belief=STATED), submit(0.6)))
    assert error is None
    assert len(steps[0].belief.evidence_for) == 5


async def test_what_stayed_long_is_not_tried_again_at_every_step() -> None:
    at = with_summariser(ServiceUnavailableError("down"), steps=3)
    await steps_of(question(), at)
    assert [asked.role for asked in at.prompts].count("summariser") == 1


async def test_compaction_can_be_switched_off() -> None:
    at = with_summariser()
    await steps_of(question(), at, BlfSettings(compaction_chars=0))
    assert {asked.role for asked in at.prompts} == {"main"}
