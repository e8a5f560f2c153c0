"""The loop of an agent acts until it closes, and every limit ends it with a reason."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import pytest

from bot.core.beliefs import ModelUsage, StepObservation, ToolResult
from bot.core.errors import MalformedDataError, ServiceUnavailableError
from bot.core.language_models import ModelCompletion, ModelDialect, ToolDefinition
from bot.forecasting.agent.chat_session import open_session
from bot.forecasting.agent.loop import LoopSettings, LoopTurn, run_loop
from bot.forecasting.agent.parsing import ModelAction
from bot.testing.trial_context import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTrialContext,
    answer_in_turn,
    tool_call_answer,
)


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(name=name, description=f"Does {name}", parameters={"type": "object", "properties": {}})


LOOK, REPORT, ASK = tool("look"), tool("report"), tool("ask")
CLOSING = frozenset({"report", "ask"})


def said(name: str, arguments: Mapping[str, Any] | None = None, tokens: int = 0) -> ModelCompletion:
    made = tool_call_answer(name, json.dumps(dict(arguments or {})))
    return ModelCompletion(calls=made.calls, finish=made.finish, usage=ModelUsage(calls=1, tokens_in=tokens))


async def look(move: ModelAction) -> ToolResult:
    seen = StepObservation(text=f"saw {move.arguments.get('at', 'nothing')}", documents=("seen",))
    return ToolResult(observation=seen, usage=ModelUsage(cost_usd=0.5))


def offer(_number: int) -> tuple[ToolDefinition, ...]:
    return (LOOK, REPORT, ASK)


def scripted(*answers: ScriptedAnswer) -> ScriptedTrialContext:
    return ScriptedTrialContext(models={"main": ScriptedModel(answer_in_turn(*answers), ModelDialect.TOOLS)})


async def walked(at: ScriptedTrialContext, *, steps: int = 5, **way: Any) -> list[LoopTurn]:
    session = open_session(at, "main", seed=1)
    session.begin("You look around.", "Find the ship.")
    how = LoopSettings(**{"offer": offer, "act": look, "closing_tools": CLOSING, **way})
    async with aclosing(run_loop(session, how, steps=steps)) as turns:
        return [turn async for turn in turns]


async def test_a_loop_acts_and_replies_until_it_is_closed() -> None:
    at = scripted(said("look", {"at": "port"}), said("report", {"found": True}))
    first, last = await walked(at, reply_suffix=lambda number: f"budget after {number}")
    assert first.result is not None
    assert (first.number, first.reply, first.is_last) == (1, "saw port", False)
    assert first.turn_result.usage.cost_usd == 0.5
    assert len(first.turn_result.documents) == 2
    assert (last.end_reason, last.is_last, last.failure, last.result) == ("closed", True, None, None)
    assert last.action is not None
    assert last.action.arguments == {"found": True}
    prompt = at.prompts[1].prompt
    assert (
        at.prompts[0].prompt.messages[1].text == "Find the ship.\n\nStep 1 of 5. You can call now: look, report, ask."
    )
    assert prompt.messages[-1].text == (
        "saw port\n\nbudget after 1\n\nStep 2 of 5. You can call now: look, report, ask."
    )


async def test_what_was_heard_twice_in_vain_ends_the_loop_as_silence() -> None:
    (turn,) = await walked(scripted(ModelCompletion(), ModelCompletion(text="hm")))
    assert (turn.end_reason, turn.is_last, turn.action) == ("silent", True, None)
    assert isinstance(turn.failure, MalformedDataError)
    assert len(turn.notes) == 2


async def test_where_nobody_can_be_asked_the_loop_ends_with_the_error() -> None:
    error = ServiceUnavailableError("down")
    *_, turn = await walked(scripted(said("look"), error))
    assert (turn.end_reason, turn.failure) == ("unasked", error)


async def test_the_last_step_ends_the_loop_also_where_nothing_was_closed() -> None:
    turns = await walked(scripted(said("look", {"at": "1"}), said("look", {"at": "2"})), steps=2)
    assert [turn.end_reason for turn in turns] == ["", "steps"]
    assert turns[-1].result is not None
    assert turns[-1].failure is None


async def test_at_the_last_step_only_what_closes_is_taken() -> None:
    at = scripted(said("look"), said("report"))
    (turn,) = await walked(at, offer=lambda _: (REPORT, ASK))
    assert turn.end_reason == "closed"
    assert "only report, ask can be called now" in turn.notes[0]


async def test_a_loop_ends_once_its_tokens_are_used_up() -> None:
    turns = await walked(
        scripted(said("look", {"at": "1"}, 60), said("look", {"at": "2"}, 60), said("report")), tokens=100
    )
    assert [turn.end_reason for turn in turns] == ["", "tokens"]


async def test_the_same_call_is_refused_in_words_and_the_third_ends_the_loop() -> None:
    at = scripted(said("look", {"at": "port"}), said("look", {"at": "port"}), said("look", {"at": "port"}))
    turns = await walked(at)
    assert [turn.end_reason for turn in turns] == ["", "", "repeats"]
    assert "made this very call" in turns[1].reply
    assert turns[1].result is not None
    assert turns[1].result.failed


async def test_calls_that_differ_are_no_repetition_and_some_tools_may_be_called_again() -> None:
    answers = [said("look", {"at": str(number % 2)}) for number in range(4)]
    turns = await walked(scripted(*answers, said("report")), repeatable=frozenset({"look"}))
    assert [turn.end_reason for turn in turns] == ["", "", "", "", "closed"]
    turns = await walked(scripted(*answers[:1] * 4, said("report")), repeats=None)
    assert {turn.reply for turn in turns[:-1]} == {"saw 0"}
    turns = await walked(scripted(said("look", {"at": "a", "on": 1}), said("look", {"on": 1, "at": "a"})), repeats=2)
    assert turns[-1].end_reason == "repeats"


async def test_a_tool_that_is_not_there_is_told_with_those_that_are() -> None:
    at = scripted(said("fly"), said("report"))
    first, _ = await walked(at, act=_never)
    assert first.reply == "There is no tool 'fly' here. Tools that there are: look."
    at = scripted(said("fly"), said("report"))
    offers = iter([(LOOK,), (REPORT,)])
    first, _ = await walked(at, offer=lambda _: next(offers))
    assert "Tools that there are: look." in first.reply


async def _never(move: ModelAction) -> ToolResult:
    message = f"{move.name} was acted on"
    raise AssertionError(message)


async def test_a_fault_that_the_way_finds_is_repaired() -> None:
    at = scripted(said("report"), said("report", {"found": True}))
    (turn,) = await walked(at, find_fault=lambda move: None if move.arguments else "say what you found")
    assert turn.action is not None
    assert turn.action.arguments == {"found": True}
    assert "say what you found" in at.prompts[1].prompt.messages[-1].text


async def test_a_closed_loop_can_go_on_with_an_answer_to_what_closed_it() -> None:
    at = scripted(said("ask", {"what": "where?"}), said("report"))
    session = open_session(at, "main", seed=1)
    session.begin("You look around.", "Find the ship.")
    way = LoopSettings(offer=offer, act=look, closing_tools=CLOSING)
    (asked,) = [turn async for turn in run_loop(session, way, steps=5)]
    session.say("In the harbour.")
    (turn,) = [turn async for turn in run_loop(session, way, steps=5, begin=asked.number + 1)]
    assert (turn.number, turn.end_reason) == (2, "closed")
    assert at.prompts[1].prompt.messages[-1].text.startswith("In the harbour.\n\nStep 2 of 5.")
    assert at.prompts[1].prompt.messages[-1].answers == "call"


@pytest.mark.parametrize("begin", [6, 7])
async def test_a_walk_that_begins_behind_its_end_has_no_turn(begin: int) -> None:
    session = open_session(scripted(), "main", seed=1)
    session.begin("You look around.", "Find the ship.")
    assert [turn async for turn in run_loop(session, LoopSettings(offer=offer, act=look), steps=5, begin=begin)] == []
