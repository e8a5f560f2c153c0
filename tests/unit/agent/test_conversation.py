"""A conversation only grows, offers one list of tools, and gives each answer back as its provider gave it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.dialects.move import NOTHING
from bot.agent.dialects.native import NOT_RUN
from bot.agent.voice import Voice, voice_for
from bot.domain.forecast import Limits
from bot.domain.prompt import Completion, Dialect, Finish, Message, NativeMessage, Prompt, Speaker, Tool, ToolCall
from bot.domain.step import Json
from bot.errors import ContractError, Rejected
from bot.testing.desk import (
    Said,
    Script,
    ScriptedDesk,
    ScriptedModel,
    ScriptedTool,
    call,
    in_turn,
    prefix_faults,
    tool_that_says,
)
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import QUERY, believing, desk, question, searches, steps_of


def tool(name: str) -> Tool:
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": {"percent": {"type": "integer"}},
        "required": ["percent"],
    }
    return Tool(name=name, description=f"Does {name}", parameters=parameters)


VOTE, ARGUE = tool("vote"), tool("argue")


def opened(*said: Said, dialect: Dialect = Dialect.TOOLS) -> tuple[ScriptedDesk, Voice]:
    """Return a desk and a voice at it that has been asked whether it will rain."""
    at = ScriptedDesk(models={"juror": ScriptedModel(in_turn(*said), dialect, "scripted:juror")})
    voice = voice_for(at, "juror", seed=3)
    voice.begin("You are a juror.", "Will it rain?")
    return at, voice


def percent(arguments: Mapping[str, Json]) -> int:
    given = arguments["percent"]
    if not isinstance(given, int):
        message = "percent should be a whole number"
        raise TypeError(message)
    return given


def vote(number: int = 40, identity: str = "call") -> Completion:
    return call("vote", json.dumps({"percent": number}), identity=identity)


def spoken(number: int = 40) -> Completion:
    return Completion(text=json.dumps({"action": "vote", "arguments": {"percent": number}}))


def signed(said: Completion, number: int) -> Completion:
    """Return an answer with what its provider wants back."""
    text = json.dumps({"signature": f"{number} " + "s" * 20_000})
    return replace(said, native=NativeMessage(provider="scripted", model="main", text=text))


def thinking(number: int, *names: str) -> Completion:
    """Return an answer of several calls with long ids, signed; its arguments are written oddly."""
    belief = json.dumps(believing(0.6))
    calls = tuple(
        ToolCall(
            id=f"{number}-{place}-" + "i" * 3000,
            name=name,
            arguments=f'{{"updated_belief":  {belief},\n"query": "{number} {place}",  "url": "a"}}',
        )
        for place, name in enumerate(names)
    )
    return signed(Completion(text=f"Step {number}: ...  ", calls=calls, finish=Finish.CALLS), number)


def answers_of(prompt: Prompt, place: int) -> list[tuple[str | None, str]]:
    """Return what answers the message at a place: the ids and the texts, up to the next message of the model."""
    found = []
    for message in prompt.messages[place + 1 :]:
        if message.speaker is Speaker.ASSISTANT:
            break
        found.append((message.answers, message.text))
    return found


async def test_ten_steps_go_back_word_for_word_with_all_calls_and_each_of_them_answered() -> None:
    said = [thinking(number, "web_search", *["lookup_url", "web_search"][: number % 3]) for number in range(1, 10)]
    last = call("submit", json.dumps({"probability": 0.7, "updated_belief": believing(0.7)}))
    at = desk(*said, signed(last, 10))
    steps, error = await steps_of(question(), at)
    assert error is None
    assert len(at.asked) == len(steps) == 10
    assert prefix_faults(at.asked) == []
    final = at.asked[-1].prompt
    places = [place for place, message in enumerate(final.messages) if message.speaker is Speaker.ASSISTANT]
    for place, answer in zip(places, said, strict=True):
        kept = final.messages[place]
        assert (kept.text, kept.calls, kept.native) == (answer.text, answer.calls, answer.native)
        (first, result), *others = answers_of(final, place)
        assert [first, *(one for one, _ in others)] == [one.id for one in answer.calls]
        assert "the ship left port" in result
        assert {text for _, text in others} <= {NOT_RUN}
    # Of each answer one call alone was run.
    assert len(at.used) == 9


async def test_a_model_that_writes_json_finds_its_answers_as_it_wrote_them() -> None:
    odd = signed(Completion(text='{"action":"vote",  "arguments":{"percent":40}}'), 1)
    at, voice = opened(odd, spoken(), dialect=Dialect.JSON)
    await voice.fill(VOTE, percent)
    voice.say("Vote again.")
    await voice.fill(VOTE, percent)
    kept = at.asked[1].prompt.messages[2]
    assert (kept.text, kept.native) == (odd.text, odd.native)


async def test_an_answer_in_words_is_met_by_one_reminder_and_both_stay() -> None:
    words = signed(Completion(text="It may rain."), 1)
    at, voice = opened(words, vote())
    assert (await voice.fill(VOTE, percent)).value == 40
    *_, said, reminder = at.asked[1].prompt.messages
    assert (said.text, said.native) == (words.text, words.native)
    why = "the answer held no action"
    assert reminder == Message(
        speaker=Speaker.USER,
        text=f"That did not count: {why}. Answer with exactly one tool call. You can call now: vote.",
    )
    at, voice = opened(words, words)
    filled = await voice.fill(VOTE, percent)
    assert isinstance(filled.failure, ContractError)
    assert len(at.asked) == 2


async def test_a_wrong_call_is_answered_as_the_tool_with_the_reason() -> None:
    wrong = Completion(calls=(*call("argue", "{}", identity="a").calls, *vote(identity="b").calls), finish=Finish.CALLS)
    at, voice = opened(wrong, vote())
    await voice.fill(VOTE, percent)
    *_, said, first, second = at.asked[1].prompt.messages
    assert said.calls == wrong.calls
    assert (first.speaker, first.answers) == (Speaker.TOOL, "a")
    assert "only vote can be called now" in first.text
    assert (second.answers, second.text) == ("b", NOT_RUN)


async def test_an_empty_answer_is_asked_for_once_more_with_the_very_same_request() -> None:
    at, voice = opened(Completion(thinking="Hm.", finish=Finish.LENGTH), vote())
    assert (await voice.fill(VOTE, percent)).value == 40
    first, second = (one.prompt for one in at.asked)
    assert first.messages == second.messages


@pytest.mark.parametrize("dialect", [*Dialect])
async def test_a_refusal_is_not_asked_for_again(dialect: Dialect) -> None:
    at, voice = opened(Completion(text="I must not.", finish=Finish.REFUSED), dialect=dialect)
    filled = await voice.fill(VOTE, percent)
    assert len(at.asked) == 1
    assert isinstance(filled.failure, Rejected)
    assert str(filled.failure) == "scripted:juror: the model refused to answer"
    # It was asked and has answered.
    assert filled.unasked is None
    await voice.grade()
    assert [(one.asked, one.unparsed) for one in at.graded] == [(1, 1)]


@pytest.mark.parametrize("second", [Completion(), Completion(text="Well."), vote(identity="x"), call("argue", "{}")])
async def test_what_is_said_after_a_turn_that_came_to_nothing_changes_no_message(second: Completion) -> None:
    at, voice = opened(Completion(text="Well..."), second, vote())

    def none(_: Mapping[str, Json]) -> int:
        message = "no"
        raise ValueError(message)

    assert (await voice.fill(VOTE, none)).failure is not None
    voice.say("The others have voted.")
    assert (await voice.fill(VOTE, percent)).value == 40
    assert prefix_faults(at.asked) == []
    *_, said, last = at.asked[2].prompt.messages
    assert said.speaker is Speaker.ASSISTANT
    assert (said.text or said.calls) == (second.text or second.calls or NOTHING)
    assert last.text.startswith("That was no valid action: ")
    assert last.text.endswith("The others have voted.\n\nAnswer with one call of vote.")


async def test_a_tool_that_was_not_named_changes_the_list_and_voids_what_was_signed() -> None:
    at, voice = opened(signed(vote(), 1), signed(vote(), 2), call("argue", '{"percent": 1}'))
    voice.declare([VOTE])
    await voice.fill(VOTE, percent)
    await voice.fill(tool("vote"), percent)
    # An equal tool is the same one.
    assert at.asked[1].prompt.tools == (VOTE,)
    assert at.asked[1].prompt.tools[0] is VOTE
    await voice.fill(ARGUE, percent)
    last = at.asked[2].prompt
    assert ([one.name for one in last.tools], last.allowed) == (["vote", "argue"], ("argue",))
    assert [message.native for message in last.messages] == [None] * len(last.messages)


async def test_a_belief_that_is_asked_for_from_some_move_on_changes_the_list_as_well() -> None:
    at, voice = opened(signed(vote(), 1), signed(vote(), 2), signed(vote(), 3))
    await voice.fill(VOTE, percent)
    voice.believe({"type": "object", "properties": {}})
    voice.answer(await voice.hear((VOTE,)), "Once more.")
    voice.answer(await voice.hear((VOTE,)), "Thanks.")
    second, third = (one.prompt for one in at.asked[1:])
    assert [message.native is not None for message in second.messages if message.calls] == [False]
    # From there on the list is the same again.
    assert [message.native is not None for message in third.messages if message.calls] == [False, True]


async def test_an_answer_that_is_not_kept_voids_nothing() -> None:
    at, voice = opened(signed(vote(), 1), call("argue", '{"percent": 1}'), signed(vote(), 3))
    voice.declare([VOTE])
    voice.answer(await voice.hear((VOTE,)), "Once more.")
    await voice.fill(ARGUE, percent, keep=False)
    await voice.hear((VOTE,))
    first, other, last = (one.prompt for one in at.asked)
    assert [message.native for message in other.messages] == [None] * 4
    assert (last.tools, last.messages[: len(first.messages)]) == (first.tools, first.messages)
    assert last.messages[2].native is not None


async def test_in_json_no_tool_is_part_of_the_request_so_nothing_is_void() -> None:
    said = signed(spoken(), 1)
    at, voice = opened(said, Completion(text='{"action": "argue", "arguments": {"percent": 1}}'), dialect=Dialect.JSON)
    await voice.fill(VOTE, percent)
    await voice.fill(ARGUE, percent)
    assert at.asked[1].prompt.messages[2].native == said.native


async def test_a_conversation_made_anew_knows_nothing_of_the_one_before() -> None:
    at, voice = opened(signed(vote(), 1), call("argue", '{"percent": 1}'))
    opening = tuple(voice.messages)
    await voice.fill(VOTE, percent)
    voice.restart(opening)
    await voice.fill(ARGUE, percent)
    prompt = at.asked[1].prompt
    assert ([one.name for one in prompt.tools], prompt.model, prompt.handover) == (["argue"], "", ())
    assert [message.text for message in prompt.messages] == [
        "You are a juror.",
        "Will it rain?\n\nAnswer with one call of argue.",
    ]


async def test_a_call_without_arguments_goes_back_as_an_object() -> None:
    bare = Completion(calls=(ToolCall(id="a", name="argue", arguments=""),), finish=Finish.CALLS)
    at, voice = opened(bare, vote())
    await voice.fill(VOTE, percent)
    assert at.asked[1].prompt.messages[2].calls == (ToolCall(id="a", name="argue", arguments="{}"),)


@pytest.mark.parametrize(
    "wrong",
    [
        (ToolCall(id="a", name="vote", arguments='{"percent": NaN}'),),
        (ToolCall(id="a", name="vote", arguments='{"percent": 4'),),
        (ToolCall(id="a", name="vote", arguments="[4]"),),
        (ToolCall(id="", name="vote", arguments="{}"),),
        (ToolCall(id="a", name="vote now", arguments="{}"),),
        (ToolCall(id="a", name="vote", arguments="{}"), ToolCall(id="a", name="vote", arguments="{}")),
        (ToolCall(id="a", name="vote", arguments="{}"), ToolCall(id="b", name="vote", arguments="{")),
    ],
)
async def test_calls_that_servers_refuse_in_a_history_do_not_go_back(wrong: tuple[ToolCall, ...]) -> None:
    at, voice = opened(signed(Completion(text="So:", calls=wrong, finish=Finish.CALLS), 1), vote())
    await voice.fill(VOTE, percent)
    said, *replies = at.asked[1].prompt.messages[2:]
    assert said.native is None
    assert len(said.calls) <= 1
    assert [message.answers for message in replies] == [one.id for one in said.calls] or [None]
    for one in said.calls:
        assert one.id
        assert isinstance(json.loads(one.arguments, parse_constant=lambda _: None), dict)


# Whatever a model answers. Refusals and errors end a turn at once, and are shown above.

TEXTS = st.sampled_from(["", " ", "So.", '{"action": "vote", "arguments": {"percent": 1}}', '{"action": "vote"', "{}"])
NAMES = st.sampled_from(["vote", "argue", "web_search", "submit", "fly", "", "a b"])
ARGUMENTS = st.sampled_from(
    ["", "{}", "[", '{"percent": 1}', '{"percent": NaN}', '{"probability": 0.4}', '{"query": "a"}', "\x00"]
)
FINISHES = st.sampled_from([one for one in Finish if one is not Finish.REFUSED])


@st.composite
def answers(draw: st.DrawFn) -> Completion:
    made = [
        ToolCall(id=draw(st.sampled_from(["", "a", "b", "c" * 200])), name=draw(NAMES), arguments=draw(ARGUMENTS))
        for _ in range(draw(st.integers(0, 3)))
    ]
    said = Completion(text=draw(TEXTS), calls=tuple(made), finish=draw(FINISHES))
    return signed(said, draw(st.integers(0, 9))) if draw(st.booleans()) else said


def repeated(said: list[Completion]) -> Script:
    turn: Iterator[int] = count()
    return lambda _: said[next(turn) % len(said)]


@settings(max_examples=60)
@given(
    st.lists(answers(), min_size=1, max_size=8),
    st.sampled_from(Dialect),
    st.builds(BlfSettings, belief=st.booleans()),
)
async def test_whatever_is_answered_the_requests_of_a_trial_only_grow(
    said: list[Completion], dialect: Dialect, how: BlfSettings
) -> None:
    once = ScriptedTool(tool_that_says("lookup_url", "a page", url=QUERY).tool, searches().run, uses=1)
    at = desk(script=repeated(said), dialect=dialect, bench=[searches(), once], limits=Limits(steps=6))
    await steps_of(question(), at, how)
    assert prefix_faults(at.asked) == []
    assert all(one.prompt.tools or one.prompt.schema for one in at.asked)
    _require_answers(at)


@settings(max_examples=60)
@given(
    st.lists(answers(), min_size=1, max_size=8),
    st.lists(st.sampled_from([VOTE, ARGUE]), min_size=1, max_size=5),
    st.sampled_from(Dialect),
)
async def test_whatever_is_answered_the_requests_to_one_person_only_grow(
    said: list[Completion], asked: list[Tool], dialect: Dialect
) -> None:
    at = ScriptedDesk(models={"juror": ScriptedModel(repeated(said), dialect)})
    voice = voice_for(at, "juror", seed=3)
    voice.declare([VOTE, ARGUE])
    voice.begin("You are a juror.", "Will it rain?")
    for number, one in enumerate(asked):
        voice.say(f"Say {number}.")
        before = list(voice.messages)
        await voice.fill(one, percent, keep=number % 2 == 0)
        assert number % 2 == 0 or voice.messages == before
    kept = [one for one in at.asked if _is_kept(one.prompt, voice)]
    assert prefix_faults(kept) == []
    _require_answers(at)


def _is_kept(prompt: Prompt, voice: Voice) -> bool:
    """Whether a request is a part of what the conversation became in the end."""
    return tuple(voice.messages[: len(prompt.messages)]) == prompt.messages


def _require_answers(at: ScriptedDesk) -> None:
    """Each call of a message is answered directly after it, once, and no speaker speaks twice in a row."""
    for prompt in (one.prompt for one in at.asked):
        for place, message in enumerate(prompt.messages):
            if message.speaker is Speaker.ASSISTANT:
                told = answers_of(prompt, place)
                assert tuple(one for one, _ in told) == (tuple(one.id for one in message.calls) or (None,))
                assert all(text for _, text in told)
                assert message.text or message.calls
