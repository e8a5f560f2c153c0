"""A participant that is asked for one structured answer, or for moves, never ends the trial for the others."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.language_models import MessageRole, ModelCompletion, ModelDialect, ToolDefinition
from bot.core.predictions import BinaryPrediction
from bot.core.values import Json
from bot.forecasting.agent import parsing
from bot.forecasting.agent.chat_session import StructuredAnswer, TurnResult, derive_seed, open_session
from bot.forecasting.agent.parsing import UnreadableAnswer
from bot.testing.trial_context import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTrialContext,
    answer_in_turn,
    tool_call_answer,
)

VOTE = ToolDefinition(
    name="vote",
    description="Vote",
    parameters={
        "type": "object",
        "properties": {"percent": {"type": "integer"}},
        "required": ["percent"],
        "additionalProperties": False,
    },
)


def share(arguments: Mapping[str, Json]) -> float:
    return parsing.read_probability(arguments["percent"], "percent", percent=True)


def scripted_context(
    *said: ScriptedAnswer, dialect: ModelDialect = ModelDialect.TOOLS, role: str = "juror"
) -> ScriptedTrialContext:
    return ScriptedTrialContext(models={role: ScriptedModel(answer_in_turn(*said), dialect, "scripted:juror")})


def vote(percent: Any) -> ModelCompletion:
    return tool_call_answer("vote", json.dumps({"percent": percent}))


def spoken(percent: Any) -> ModelCompletion:
    return ModelCompletion(text=json.dumps({"action": "vote", "arguments": {"percent": percent}}))


def speakers(at: ScriptedTrialContext) -> list[str]:
    return [str(message.speaker) for message in at.prompts[-1].prompt.messages]


async def test_a_structured_answer_is_asked_for_alone_and_read() -> None:
    at = scripted_context(vote(70))
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    filled = await session.ask_structured(VOTE, share)
    assert (filled.value, filled.reason, filled.failure, filled.request_error) == (0.7, "", None, None)
    assert filled.arguments == {"percent": 70}
    assert (len(filled.documents), filled.usage.calls) == (1, 1)
    prompt = at.prompts[0].prompt
    assert [tool.name for tool in prompt.tools] == ["vote"]
    assert prompt.allowed == ()
    assert at.prompts[0].seed == 3


async def test_conversations_may_begin_with_the_same_texts() -> None:
    at = scripted_context(vote(70), vote(60))
    for part in ("You are Ada.", "You are Bo."):
        session = open_session(at, "juror", seed=3)
        session.begin("You are a juror.", "Will it rain?", part)
        await session.ask_structured(VOTE, share)
    first, second = ([message.text for message in one.prompt.messages] for one in at.prompts)
    assert first[:2] == second[:2] == ["You are a juror.", "Will it rain?"]
    # What is asked joins the last text alone.
    assert second[2:] == ["You are Bo.\n\nAnswer with one call of vote."]


async def test_a_model_that_writes_json_is_told_what_the_tool_is_and_only_once() -> None:
    at = scripted_context(spoken(70), spoken(60), dialect=ModelDialect.JSON)
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    assert session.percent
    assert (await session.ask_structured(VOTE, share)).value == 0.7
    session.say("And now?")
    assert (await session.ask_structured(VOTE, share)).value == 0.6
    first, second = (one.prompt for one in at.prompts)
    assert "- vote: Vote" in first.messages[-1].text
    assert second.messages[-1].text == "And now?"
    assert speakers(at) == ["system", "user", "assistant", "user"]


async def test_what_is_said_next_answers_the_call_so_that_no_speaker_speaks_twice_in_a_row() -> None:
    at = scripted_context(vote(70), vote(60), vote(50))
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    session.say("Think of the season.")
    await session.ask_structured(VOTE, share)
    session.say("The others said 30 %.")
    session.say("Vote again.")
    await session.ask_structured(VOTE, share)
    await session.ask_structured(VOTE, share)
    assert speakers(at) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    texts = [message.text for message in at.prompts[-1].prompt.messages]
    assert texts[1] == "Will it rain?\n\nThink of the season.\n\nAnswer with one call of vote."
    assert texts[3] == "The others said 30 %.\n\nVote again.\n\nAnswer with one call of vote."
    assert texts[5] == "Answer with one call of vote."


async def test_a_conversation_may_begin_without_a_system_text() -> None:
    at = scripted_context(vote(70))
    session = open_session(at, "juror", seed=3)
    session.say("Will it rain?")
    assert (await session.ask_structured(VOTE, share)).value == 0.7
    assert speakers(at) == ["user"]


async def test_an_answer_that_is_not_kept_leaves_no_trace_in_the_conversation() -> None:
    at = scripted_context(vote(170), vote(70), vote(60), dialect=ModelDialect.TOOLS)
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    before = list(session.messages)
    assert (await session.ask_structured(VOTE, share, keep=False)).value == 0.7
    assert session.messages == before
    assert (await session.ask_structured(VOTE, share)).value == 0.6
    assert at.prompts[-1].prompt.messages == at.prompts[0].prompt.messages


@pytest.mark.parametrize(
    "wrong",
    [
        vote(170),
        vote("many"),
        tool_call_answer("vote", "{}"),
        tool_call_answer("shout", "{}"),
        ModelCompletion(text="It may rain."),
    ],
)
async def test_an_answer_that_cannot_be_read_is_asked_for_once_more_with_the_reason(wrong: ModelCompletion) -> None:
    at = scripted_context(wrong, vote(40))
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    filled = await session.ask_structured(VOTE, share)
    assert filled.value == 0.4
    assert len(filled.notes) == 1
    told = at.prompts[1].prompt.messages[-1].text
    assert told.startswith("That did not count: ")
    assert "Answer with exactly one tool call. You can call now: vote." in told
    await session.report_performance()
    assert [(one.asked, one.unparsed, one.submitted) for one in at.reported_performances] == [(2, 1, None)]


async def test_a_second_answer_that_cannot_be_read_ends_in_a_reason_and_no_value() -> None:
    at = scripted_context(vote(170), vote(-1))
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    filled = await session.ask_structured(VOTE, share)
    assert filled.value is None
    assert "between 0 and 100" in filled.reason
    assert isinstance(filled.failure, MalformedDataError)
    assert filled.request_error is None
    assert filled.arguments == {"percent": -1}


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnavailableError("down"),
        RequestRejectedError("no money"),
        AuthenticationError("no key"),
        ConfigError("?"),
    ],
)
async def test_who_cannot_be_asked_is_told_from_who_answers_badly(error: FoxcastError) -> None:
    session = open_session(scripted_context(error), "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    filled: StructuredAnswer[float] = await session.ask_structured(VOTE, share)
    assert (filled.value, filled.failure, filled.request_error) == (None, error, error)
    assert (filled.reason, filled.arguments) == (str(error), {})


async def test_a_value_that_is_false_is_still_a_value() -> None:
    session = open_session(scripted_context(vote(0)), "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    assert (await session.ask_structured(VOTE, share)).value == 0.0


async def test_a_fault_in_a_move_is_repaired_once_and_never_twice() -> None:
    at = scripted_context(vote(1), vote(2))
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    heard = await session.ask_action((VOTE,), lambda _: "no")
    assert isinstance(heard.failure, MalformedDataError)
    assert heard.action is not None
    assert len(at.prompts) == 2
    before = list(session.messages)
    session.keep_action(heard)
    assert session.messages == before


async def test_a_reply_without_a_move_is_only_said() -> None:
    session = open_session(scripted_context(), "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    session.reply_to_action(TurnResult(), "Go on.")
    assert session.messages[-1].text == "Will it rain?\n\nGo on."


async def test_the_first_role_that_a_model_plays_is_heard() -> None:
    at = scripted_context(vote(70), role="main")
    session = open_session(at, "juror_2", "juror", "main", seed=3)
    assert session.role == "main"
    session.begin("You are a juror.", "Will it rain?")
    await session.ask_structured(VOTE, share)
    await session.report_performance(
        submitted={"outcome": BinaryPrediction(0.7)}, believed={"outcome": BinaryPrediction(0.6)}
    )
    assert [(one.role, one.submitted) for one in at.reported_performances] == [("main", True)]
    assert at.reported_performances[0].submission_gap == pytest.approx(0.1)


async def test_who_could_have_submitted_and_did_not_is_told_from_who_never_could() -> None:
    at = scripted_context(vote(70))
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    await session.ask_structured(VOTE, share)
    await session.report_performance(free=True)
    assert [one.submitted for one in at.reported_performances] == [False]


def test_where_no_model_plays_any_of_the_roles_the_first_one_is_named() -> None:
    with pytest.raises(ConfigError, match="role juror_2"):
        open_session(scripted_context(role="main"), "juror_2", "juror", seed=3)
    with pytest.raises(ConfigError, match="needs a role"):
        open_session(scripted_context(), seed=3)


def test_a_seed_belongs_to_a_trial_and_its_labels() -> None:
    one, other = ScriptedTrialContext(trial=1), ScriptedTrialContext(trial=2)
    assert derive_seed(one, "juror", "1") == derive_seed(ScriptedTrialContext(trial=1), "juror", "1")
    assert len({derive_seed(one, "juror", "1"), derive_seed(one, "juror", "2"), derive_seed(other, "juror", "1")}) == 3


async def test_a_belief_is_asked_for_with_every_move_and_never_with_a_single_answer() -> None:
    at = scripted_context(vote(70), vote(60))
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    session.request_belief({"type": "object", "properties": {}})
    session.reply_to_action(await session.ask_action((VOTE,)), "Noted by hand.")
    await session.ask_structured(VOTE, share)
    believed, single = (one.prompt.tools[0].parameters["required"] for one in at.prompts)
    assert believed == ["percent", "updated_belief"]
    assert single == ["percent"]
    assert at.prompts[1].prompt.messages[-1].speaker is MessageRole.TOOL


def test_a_misreading_is_an_error_of_value_with_words_for_the_model() -> None:
    with pytest.raises(UnreadableAnswer, match="percent should be a number"):
        share({"percent": None})
