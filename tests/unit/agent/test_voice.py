"""A participant that is asked for one structured answer, or for moves, never ends the trial for the others."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bot.agent import reading
from bot.agent.reading import Misread
from bot.agent.voice import Filled, Heard, seed_of, voice_for
from bot.domain.prediction import Binary
from bot.domain.prompt import Completion, Dialect, Speaker, Tool
from bot.domain.step import Json
from bot.errors import ConfigError, ContractError, FoxcastError, Rejected, Unauthorized, Unavailable
from bot.testing.desk import Said, ScriptedDesk, ScriptedModel, call, in_turn

VOTE = Tool(
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
    return reading.share(arguments["percent"], "percent", percent=True)


def desk(*said: Said, dialect: Dialect = Dialect.TOOLS, role: str = "juror") -> ScriptedDesk:
    return ScriptedDesk(models={role: ScriptedModel(in_turn(*said), dialect, "scripted:juror")})


def vote(percent: Any) -> Completion:
    return call("vote", json.dumps({"percent": percent}))


def spoken(percent: Any) -> Completion:
    return Completion(text=json.dumps({"action": "vote", "arguments": {"percent": percent}}))


def speakers(at: ScriptedDesk) -> list[str]:
    return [str(message.speaker) for message in at.asked[-1].prompt.messages]


async def test_a_structured_answer_is_asked_for_alone_and_read() -> None:
    at = desk(vote(70))
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    filled = await voice.fill(VOTE, share)
    assert (filled.value, filled.why, filled.failure, filled.unasked) == (0.7, "", None, None)
    assert filled.said == {"percent": 70}
    assert (len(filled.documents), filled.usage.calls) == (1, 1)
    prompt = at.asked[0].prompt
    assert [tool.name for tool in prompt.tools] == ["vote"]
    assert prompt.allowed == ()
    assert at.asked[0].seed == 3


async def test_a_model_that_writes_json_is_told_what_the_tool_is_and_only_once() -> None:
    at = desk(spoken(70), spoken(60), dialect=Dialect.JSON)
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    assert voice.percent
    assert (await voice.fill(VOTE, share)).value == 0.7
    voice.say("And now?")
    assert (await voice.fill(VOTE, share)).value == 0.6
    first, second = (one.prompt for one in at.asked)
    assert "- vote: Vote" in first.messages[-1].text
    assert second.messages[-1].text == "And now?"
    assert speakers(at) == ["system", "user", "assistant", "user"]


async def test_what_is_said_next_answers_the_call_so_that_no_speaker_speaks_twice_in_a_row() -> None:
    at = desk(vote(70), vote(60), vote(50))
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    voice.say("Think of the season.")
    await voice.fill(VOTE, share)
    voice.say("The others said 30 %.")
    voice.say("Vote again.")
    await voice.fill(VOTE, share)
    await voice.fill(VOTE, share)
    assert speakers(at) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    texts = [message.text for message in at.asked[-1].prompt.messages]
    assert texts[1] == "Will it rain?\n\nThink of the season.\n\nAnswer with one call of vote."
    assert texts[3] == "The others said 30 %.\n\nVote again.\n\nAnswer with one call of vote."
    assert texts[5] == "Answer with one call of vote."


async def test_a_conversation_may_begin_without_a_system_text() -> None:
    at = desk(vote(70))
    voice = voice_for(at, "juror", seed=3)
    voice.say("Will it rain?")
    assert (await voice.fill(VOTE, share)).value == 0.7
    assert speakers(at) == ["user"]


async def test_an_answer_that_is_not_kept_leaves_no_trace_in_the_conversation() -> None:
    at = desk(vote(170), vote(70), vote(60), dialect=Dialect.TOOLS)
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    before = list(voice.messages)
    assert (await voice.fill(VOTE, share, keep=False)).value == 0.7
    assert voice.messages == before
    assert (await voice.fill(VOTE, share)).value == 0.6
    assert at.asked[-1].prompt.messages == at.asked[0].prompt.messages


@pytest.mark.parametrize(
    "wrong", [vote(170), vote("many"), call("vote", "{}"), call("shout", "{}"), Completion(text="It may rain.")]
)
async def test_an_answer_that_cannot_be_read_is_asked_for_once_more_with_the_reason(wrong: Completion) -> None:
    at = desk(wrong, vote(40))
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    filled = await voice.fill(VOTE, share)
    assert filled.value == 0.4
    assert len(filled.notes) == 1
    told = at.asked[1].prompt.messages[-1].text
    assert told.startswith("That did not count: ")
    assert "Answer with exactly one tool call. You can call now: vote." in told
    await voice.grade()
    assert [(one.asked, one.unparsed, one.submitted) for one in at.graded] == [(2, 1, None)]


async def test_a_second_answer_that_cannot_be_read_ends_in_a_reason_and_no_value() -> None:
    at = desk(vote(170), vote(-1))
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    filled = await voice.fill(VOTE, share)
    assert filled.value is None
    assert "between 0 and 100" in filled.why
    assert isinstance(filled.failure, ContractError)
    assert filled.unasked is None
    assert filled.said == {"percent": -1}


@pytest.mark.parametrize("error", [Unavailable("down"), Rejected("no money"), Unauthorized("no key"), ConfigError("?")])
async def test_who_cannot_be_asked_is_told_from_who_answers_badly(error: FoxcastError) -> None:
    voice = voice_for(desk(error), "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    filled: Filled[float] = await voice.fill(VOTE, share)
    assert (filled.value, filled.failure, filled.unasked) == (None, error, error)
    assert (filled.why, filled.said) == (str(error), {})


async def test_a_value_that_is_false_is_still_a_value() -> None:
    voice = voice_for(desk(vote(0)), "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    assert (await voice.fill(VOTE, share)).value == 0.0


async def test_a_fault_in_a_move_is_repaired_once_and_never_twice() -> None:
    at = desk(vote(1), vote(2))
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    heard = await voice.hear((VOTE,), lambda _: "no")
    assert isinstance(heard.failure, ContractError)
    assert heard.move is not None
    assert len(at.asked) == 2
    before = list(voice.messages)
    voice.keep(heard)
    assert voice.messages == before


async def test_a_reply_without_a_move_is_only_said() -> None:
    voice = voice_for(desk(), "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    voice.answer(Heard(), "Go on.")
    assert voice.messages[-1].text == "Will it rain?\n\nGo on."


async def test_the_first_role_that_a_model_plays_is_heard() -> None:
    at = desk(vote(70), role="main")
    voice = voice_for(at, "juror_2", "juror", "main", seed=3)
    assert voice.role == "main"
    voice.begin("You are a juror.", "Will it rain?")
    await voice.fill(VOTE, share)
    await voice.grade(submitted={"outcome": Binary(0.7)}, believed={"outcome": Binary(0.6)})
    assert [(one.role, one.submitted) for one in at.graded] == [("main", True)]
    assert at.graded[0].gap == pytest.approx(0.1)


async def test_who_could_have_submitted_and_did_not_is_told_from_who_never_could() -> None:
    at = desk(vote(70))
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    await voice.fill(VOTE, share)
    await voice.grade(free=True)
    assert [one.submitted for one in at.graded] == [False]


def test_where_no_model_plays_any_of_the_roles_the_first_one_is_named() -> None:
    with pytest.raises(ConfigError, match="role juror_2"):
        voice_for(desk(role="main"), "juror_2", "juror", seed=3)
    with pytest.raises(ConfigError, match="needs a role"):
        voice_for(desk(), seed=3)


def test_a_seed_belongs_to_a_trial_and_its_labels() -> None:
    one, other = ScriptedDesk(trial=1), ScriptedDesk(trial=2)
    assert seed_of(one, "juror", "1") == seed_of(ScriptedDesk(trial=1), "juror", "1")
    assert len({seed_of(one, "juror", "1"), seed_of(one, "juror", "2"), seed_of(other, "juror", "1")}) == 3


async def test_a_belief_is_asked_for_with_every_move_and_never_with_a_single_answer() -> None:
    at = desk(vote(70), vote(60))
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    voice.believe({"type": "object", "properties": {}})
    voice.answer(await voice.hear((VOTE,)), "Noted by hand.")
    await voice.fill(VOTE, share)
    believed, single = (one.prompt.tools[0].parameters["required"] for one in at.asked)
    assert believed == ["percent", "updated_belief"]
    assert single == ["percent"]
    assert at.asked[1].prompt.messages[-1].speaker is Speaker.TOOL


def test_a_misreading_is_an_error_of_value_with_words_for_the_model() -> None:
    with pytest.raises(Misread, match="percent should be a number"):
        share({"percent": None})
