"""A trial believes something valid at every step, and says why it ended where that was not by submitting."""

from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from bot.core.beliefs import ModelUsage, Step, StepObservation, ToolResult
from bot.core.errors import FoxcastError, MalformedDataError, RequestRejectedError, TrialLimitReachedError
from bot.core.language_models import ModelCompletion, ToolDefinition
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction
from bot.forecasting.agent.answer_schema import AnswerSettings
from bot.forecasting.agent.belief_state import StartingPoint, find_starting_point
from bot.forecasting.agent.chat_session import open_session
from bot.forecasting.agent.loop import BeliefLoop, LoopSettings, create_belief_loop
from bot.forecasting.agent.parsing import ModelAction
from bot.forecasting.agent.prompt_texts import question_text, submit_tool
from bot.forecasting.agent.tool_schemas import text_result
from bot.testing.trial_context import ScriptedTrialContext
from tests.plugins.blf.cases import (
    CHOICE,
    CURVE,
    CUTOFF,
    believing,
    create_context,
    move,
    priced,
    probability,
    question,
    search,
    submit,
)

THINK = ToolDefinition(name="think", description="Think", parameters={"type": "object", "properties": {}})
BELIEVED = believing(0.6)


def loop_of(at: ScriptedTrialContext, *, steps: int = 5, price: float | None = None, **manner: Any) -> BeliefLoop:
    asked = question() if price is None else priced(price)
    session = open_session(at, "main", seed=1)
    return create_belief_loop(
        asked, session, find_starting_point(asked), steps=steps, settings=AnswerSettings(**manner)
    )


async def steps_of(loop: BeliefLoop, **way: Any) -> tuple[list[Step], FoxcastError | None]:
    submits = submit_tool(loop.question, loop.answer_format, loop.settings.submit_margin)
    how = LoopSettings(**{"offer": lambda _: (*loop.context.tools, THINK, submits), "act": loop.use_tool, **way})
    await loop.begin("You forecast.", "Will it?", "the texts")
    steps: list[Step] = []
    try:
        async with aclosing(loop.run(how)) as stream:
            async for step in stream:
                steps.append(step)  # noqa: PERF401 - those before an error count
    except FoxcastError as error:
        return steps, error
    return steps, None


async def test_a_loop_begins_with_the_crowd_and_ends_by_submitting() -> None:
    at = create_context(search("ship", BELIEVED), submit(0.99, BELIEVED))
    steps, error = await steps_of(loop_of(at, price=0.3))
    assert error is None
    assert [step.action.name for step in steps] == ["web_search", "submit"]
    assert "began with 0.3: the crowd's estimate" in steps[0].remarks[0]
    assert [probability(step) for step in steps] == [0.6, 0.95]
    assert steps[0].belief.searches == ("ship",)
    assert (steps[0].final, steps[1].final) == (False, True)
    assert at.stored_texts == ["the texts"]
    assert "Belief state after step 1 of 5\nprobability: 0.6" in at.prompts[1].prompt.messages[-1].text


async def test_no_more_steps_are_walked_than_the_engine_allows() -> None:
    assert loop_of(create_context(), steps=50).steps == 10
    assert loop_of(create_context(), steps=0).steps == 1


@pytest.mark.parametrize(
    ("way", "steps", "limit", "told", "verdicts"),
    [
        ({"repeats": 2}, 5, "repeats", "it made the same call again and again", [False]),
        ({"tokens": 10, "repeats": None}, 5, "tokens", "its tokens are used up", [None]),
        ({"repeats": None}, 2, "steps", "no step is left", [False]),
    ],
)
async def test_a_limit_ends_the_trial_with_what_it_believes_and_the_reason(
    way: dict[str, Any], steps: int, limit: str, told: str, verdicts: list[bool | None]
) -> None:
    said = move("think", {}, believing(0.98))
    costly = ModelCompletion(calls=said.calls, finish=said.finish, usage=ModelUsage(calls=1, tokens_in=6))
    at = create_context(*[costly] * 2)
    passed, error = await steps_of(loop_of(at, steps=steps), act=_thought, **way)
    assert isinstance(error, TrialLimitReachedError)
    assert error.limit == limit
    assert probability(passed[-1]) == 0.95
    assert not passed[-1].final
    assert passed[-1].remarks[-1] == str(error) == f"ended without submitting: {told}"
    assert [one.submitted for one in at.reported_performances] == verdicts


async def _thought(_move: ModelAction) -> ToolResult:
    return ToolResult(observation=StepObservation(text="noted"))


async def test_a_fault_of_the_way_is_found_behind_that_of_the_ballot() -> None:
    at = create_context(submit(2.0, BELIEVED), submit(0.97, BELIEVED))
    steps, error = await steps_of(loop_of(at), find_fault=lambda move: f"{move.name}: restate the criteria first")
    assert isinstance(error, MalformedDataError)
    assert "restate the criteria first" in str(error)
    assert "between 0 and 1" in steps[0].observation.text
    assert probability(steps[0]) == 0.6


async def test_what_stands_after_a_step_follows_the_belief() -> None:
    at = create_context(search("ship", BELIEVED), submit(0.5, BELIEVED))
    await steps_of(loop_of(at), reply_suffix=lambda number: f"{5 - number} steps are left")
    text = at.prompts[1].prompt.messages[-1].text
    assert text.index("last change") < text.index("4 steps are left") < text.index("Step 2 of 5")


async def test_each_reply_shows_the_belief_of_its_own_step() -> None:
    # The second action changes nothing, and the third comes from a tool that changes the belief itself.
    at = create_context(search("a", BELIEVED), move("think", {}), move("think", {}), submit(0.5, BELIEVED))
    loop, summaries = loop_of(at), list[str]()

    async def act(move: ModelAction) -> ToolResult:
        if move.name != "think":
            return await loop.use_tool(move)
        if len(at.prompts) == 3:
            assert loop.session.summary is not None
            summaries.append(loop.session.summary())
            loop.state = replace(loop.state, reason="a tool found more")
            summaries.append(loop.session.summary())
        return text_result("noted")

    await steps_of(loop, act=act, repeats=None)
    replies = [one.prompt.messages[-1].text for one in at.prompts[1:]]
    assert [f"Belief state after step {number} of 5" in reply for number, reply in enumerate(replies, 1)] == [True] * 3
    assert ["a tool found more" in reply for reply in replies] == [False, False, True]
    assert ["a tool found more" in summary for summary in summaries] == [False, True]


async def test_without_beliefs_only_submitting_changes_the_answer() -> None:
    at = create_context(search("ship"), submit(0.7))
    steps, error = await steps_of(loop_of(at, states_beliefs=False))
    assert error is None
    assert [probability(step) for step in steps] == [0.5, 0.7]
    assert "Belief state" not in at.prompts[1].prompt.messages[-1].text
    assert "updated_belief" not in at.prompts[0].prompt.tools[0].parameters["required"]  # type: ignore[operator]


async def test_how_far_the_last_actions_moved_the_answer_is_known() -> None:
    loop = loop_of(
        create_context(search("a", believing(0.6)), search("b", believing(0.9)), RequestRejectedError("no money"))
    )
    assert loop.recent_shift(1) is None
    _, error = await steps_of(loop)
    assert isinstance(error, RequestRejectedError)
    assert loop.recent_shift(2) == pytest.approx(0.4)
    assert loop.recent_shift(3) is None


def test_without_a_crowd_all_answers_are_even() -> None:
    assert find_starting_point(question()).prediction == BinaryPrediction(0.5)
    assert find_starting_point(priced(0.3), crowd=False).kind == "even"
    assert find_starting_point(priced(0.3)).prediction == BinaryPrediction(0.3)
    assert find_starting_point(question(CHOICE)).prediction == ChoicePrediction(dict.fromkeys(CHOICE.options, 1 / 3))
    curve = find_starting_point(question(CURVE)).prediction
    assert isinstance(curve, CurvePrediction)
    # Open above: 5 % lie there, as the site has it that such questions come from.
    assert (curve.cdf[0], curve.cdf[10], curve.cdf[-1]) == pytest.approx((0.0, 0.475, 0.95))


def test_the_question_is_put_with_its_cutoff_and_with_the_crowd_only_where_it_is_wanted() -> None:
    asked = priced(0.3)
    loop = loop_of(create_context(), price=0.3)
    told = question_text(asked, loop.answer_format, find_starting_point(asked), cutoff=CUTOFF)
    assert "Today is 2026-01-01 (UTC); the time is 00:00." in told
    assert "the crowd's estimate was: 0.3" in told
    blind = question_text(
        asked,
        loop.answer_format,
        StartingPoint("prior", "one in ten", BinaryPrediction(0.1)),
        cutoff=CUTOFF,
        crowd=False,
    )
    assert "0.3" not in blind
    assert "## Prior\none in ten Start from that" in blind
