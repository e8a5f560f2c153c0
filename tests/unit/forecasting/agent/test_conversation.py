"""A conversation only grows, offers one list of tools, and gives each answer back as its provider gave it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.errors import MalformedDataError, RequestRejectedError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelCompletion,
    ModelDialect,
    NativeMessage,
    Prompt,
    ToolCall,
    ToolDefinition,
)
from bot.core.values import Json
from bot.forecasting.agent.chat_session import ChatSession, open_session
from bot.forecasting.agent.dialects import NOT_RUN
from bot.forecasting.agent.parsing import EMPTY_ANSWER
from bot.testing.trial_context import (
    AnswerScript,
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    ScriptedTrialContext,
    answer_in_turn,
    changed_prefixes,
    fixed_text_tool,
    tool_call_answer,
)
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import QUERY, believing, question, searches, steps_of
from tests.plugins.blf.cases import create_context as context


def tool(name: str) -> ToolDefinition:
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": {"percent": {"type": "integer"}},
        "required": ["percent"],
    }
    return ToolDefinition(name=name, description=f"Does {name}", parameters=parameters)


VOTE, ARGUE = tool("vote"), tool("argue")


def opened(
    *said: ScriptedAnswer, dialect: ModelDialect = ModelDialect.TOOLS
) -> tuple[ScriptedTrialContext, ChatSession]:
    """Return a trial context and a chat session in it that was asked whether it will rain."""
    at = ScriptedTrialContext(models={"juror": ScriptedModel(answer_in_turn(*said), dialect, "scripted:juror")})
    session = open_session(at, "juror", seed=3)
    session.begin("You are a juror.", "Will it rain?")
    return at, session


def percent(arguments: Mapping[str, Json]) -> int:
    given = arguments["percent"]
    if not isinstance(given, int):
        message = "percent should be a whole number"
        raise TypeError(message)
    return given


def vote(number: int = 40, identity: str = "call") -> ModelCompletion:
    return tool_call_answer("vote", json.dumps({"percent": number}), identity=identity)


def spoken(number: int = 40) -> ModelCompletion:
    return ModelCompletion(text=json.dumps({"action": "vote", "arguments": {"percent": number}}))


def signed(said: ModelCompletion, number: int) -> ModelCompletion:
    """Return an answer with what its provider wants back."""
    text = json.dumps({"signature": f"{number} " + "s" * 20_000})
    return replace(said, native=NativeMessage(provider="scripted", model="main", text=text))


def thinking(number: int, *names: str) -> ModelCompletion:
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
    return signed(ModelCompletion(text=f"Step {number}: ...  ", calls=calls, finish=FinishReason.CALLS), number)


def answers_of(prompt: Prompt, place: int) -> list[tuple[str | None, str]]:
    """Return what answers the message at a place: the ids and the texts, up to the next message of the model."""
    found = []
    for message in prompt.messages[place + 1 :]:
        if message.speaker is MessageRole.ASSISTANT:
            break
        found.append((message.answers, message.text))
    return found


async def test_ten_steps_go_back_word_for_word_with_all_calls_and_each_of_them_answered() -> None:
    said = [thinking(number, "web_search", *["lookup_url", "web_search"][: number % 3]) for number in range(1, 10)]
    last = tool_call_answer("submit", json.dumps({"probability": 0.7, "updated_belief": believing(0.7)}))
    at = context(*said, signed(last, 10))
    steps, error = await steps_of(question(), at)
    assert error is None
    assert len(at.prompts) == len(steps) == 10
    assert changed_prefixes(at.prompts) == []
    final = at.prompts[-1].prompt
    places = [place for place, message in enumerate(final.messages) if message.speaker is MessageRole.ASSISTANT]
    for place, answer in zip(places, said, strict=True):
        kept = final.messages[place]
        assert (kept.text, kept.calls, kept.native) == (answer.text, answer.calls, answer.native)
        (first, result), *others = answers_of(final, place)
        assert [first, *(one for one, _ in others)] == [one.id for one in answer.calls]
        assert "the ship left port" in result
        assert {text for _, text in others} <= {NOT_RUN}
    # Of each answer one call alone was run.
    assert len(at.tool_calls) == 9


async def test_a_model_that_writes_json_finds_its_answers_as_it_wrote_them() -> None:
    odd = signed(ModelCompletion(text='{"action":"vote",  "arguments":{"percent":40}}'), 1)
    at, session = opened(odd, spoken(), dialect=ModelDialect.JSON)
    await session.ask_structured(VOTE, percent)
    session.say("Vote again.")
    await session.ask_structured(VOTE, percent)
    kept = at.prompts[1].prompt.messages[2]
    assert (kept.text, kept.native) == (odd.text, odd.native)


async def test_an_answer_in_words_is_met_by_one_reminder_and_both_stay() -> None:
    words = signed(ModelCompletion(text="It may rain."), 1)
    at, session = opened(words, vote())
    assert (await session.ask_structured(VOTE, percent)).value == 40
    *_, said, reminder = at.prompts[1].prompt.messages
    assert (said.text, said.native) == (words.text, words.native)
    why = "the answer held no action"
    assert reminder == Message(
        speaker=MessageRole.USER,
        text=f"That did not count: {why}. Answer with exactly one tool call. You can call now: vote.",
    )
    at, session = opened(words, words)
    filled = await session.ask_structured(VOTE, percent)
    assert isinstance(filled.failure, MalformedDataError)
    assert len(at.prompts) == 2


async def test_a_wrong_call_is_answered_as_the_tool_with_the_reason() -> None:
    wrong = ModelCompletion(
        calls=(*tool_call_answer("argue", "{}", identity="a").calls, *vote(identity="b").calls),
        finish=FinishReason.CALLS,
    )
    at, session = opened(wrong, vote())
    await session.ask_structured(VOTE, percent)
    *_, said, first, second = at.prompts[1].prompt.messages
    assert said.calls == wrong.calls
    assert (first.speaker, first.answers) == (MessageRole.TOOL, "a")
    assert "only vote can be called now" in first.text
    assert (second.answers, second.text) == ("b", NOT_RUN)


async def test_an_empty_answer_is_met_by_one_reminder_and_no_empty_message_goes_back() -> None:
    at, session = opened(ModelCompletion(thinking="Hm.", finish=FinishReason.LENGTH), vote())
    assert (await session.ask_structured(VOTE, percent)).value == 40
    first, second = (one.prompt.messages for one in at.prompts)
    assert second[: len(first)] == first
    assert all(message.text for message in second)
    assert second[-1].text.startswith("That did not count: the answer was cut off")


@pytest.mark.parametrize("dialect", [*ModelDialect])
async def test_a_refusal_is_not_asked_for_again(dialect: ModelDialect) -> None:
    at, session = opened(ModelCompletion(text="I must not.", finish=FinishReason.REFUSED), dialect=dialect)
    filled = await session.ask_structured(VOTE, percent)
    assert len(at.prompts) == 1
    assert isinstance(filled.failure, RequestRejectedError)
    assert str(filled.failure) == "scripted:juror: the model refused to answer"
    # It was asked and has answered.
    assert filled.request_error is None
    await session.report_performance()
    assert [(one.asked, one.unparsed) for one in at.reported_performances] == [(1, 1)]


@pytest.mark.parametrize(
    "second", [ModelCompletion(), ModelCompletion(text="Well."), vote(identity="x"), tool_call_answer("argue", "{}")]
)
async def test_what_is_said_after_a_turn_that_came_to_nothing_changes_no_message(second: ModelCompletion) -> None:
    at, session = opened(ModelCompletion(text="Well..."), second, vote())

    def none(_: Mapping[str, Json]) -> int:
        message = "no"
        raise ValueError(message)

    assert (await session.ask_structured(VOTE, none)).failure is not None
    session.say("The others have voted.")
    assert (await session.ask_structured(VOTE, percent)).value == 40
    assert changed_prefixes(at.prompts) == []
    *_, said, last = at.prompts[2].prompt.messages
    assert said.speaker is MessageRole.ASSISTANT
    assert (said.text or said.calls) == (second.text or second.calls or EMPTY_ANSWER)
    assert last.text.startswith("That was no valid action: ")
    assert last.text.endswith("The others have voted.\n\nAnswer with one call of vote.")


async def test_a_tool_that_was_not_named_changes_the_list_and_voids_what_was_signed() -> None:
    at, session = opened(signed(vote(), 1), signed(vote(), 2), tool_call_answer("argue", '{"percent": 1}'))
    session.declare_tools([VOTE])
    await session.ask_structured(VOTE, percent)
    await session.ask_structured(tool("vote"), percent)
    # An equal tool is the same one.
    assert at.prompts[1].prompt.tools == (VOTE,)
    assert at.prompts[1].prompt.tools[0] is VOTE
    await session.ask_structured(ARGUE, percent)
    last = at.prompts[2].prompt
    assert ([one.name for one in last.tools], last.allowed) == (["vote", "argue"], ("argue",))
    assert [message.native for message in last.messages] == [None] * len(last.messages)


async def test_a_belief_that_is_asked_for_from_some_move_on_changes_the_list_as_well() -> None:
    at, session = opened(signed(vote(), 1), signed(vote(), 2), signed(vote(), 3))
    await session.ask_structured(VOTE, percent)
    session.request_belief({"type": "object", "properties": {}})
    session.reply_to_action(await session.ask_action((VOTE,)), "Once more.")
    session.reply_to_action(await session.ask_action((VOTE,)), "Thanks.")
    second, third = (one.prompt for one in at.prompts[1:])
    assert [message.native is not None for message in second.messages if message.calls] == [False]
    # From there on the list is the same again.
    assert [message.native is not None for message in third.messages if message.calls] == [False, True]


async def test_an_answer_that_is_not_kept_voids_nothing() -> None:
    at, session = opened(signed(vote(), 1), tool_call_answer("argue", '{"percent": 1}'), signed(vote(), 3))
    session.declare_tools([VOTE])
    session.reply_to_action(await session.ask_action((VOTE,)), "Once more.")
    await session.ask_structured(ARGUE, percent, keep=False)
    await session.ask_action((VOTE,))
    first, other, last = (one.prompt for one in at.prompts)
    assert [message.native for message in other.messages] == [None] * 4
    assert (last.tools, last.messages[: len(first.messages)]) == (first.tools, first.messages)
    assert last.messages[2].native is not None


async def test_in_json_no_tool_is_part_of_the_request_so_nothing_is_void() -> None:
    said = signed(spoken(), 1)
    at, session = opened(
        said, ModelCompletion(text='{"action": "argue", "arguments": {"percent": 1}}'), dialect=ModelDialect.JSON
    )
    await session.ask_structured(VOTE, percent)
    await session.ask_structured(ARGUE, percent)
    assert at.prompts[1].prompt.messages[2].native == said.native


async def test_a_conversation_made_anew_knows_nothing_of_the_one_before() -> None:
    at, session = opened(signed(vote(), 1), tool_call_answer("argue", '{"percent": 1}'))
    opening = tuple(session.messages)
    await session.ask_structured(VOTE, percent)
    session.restart(opening)
    await session.ask_structured(ARGUE, percent)
    prompt = at.prompts[1].prompt
    assert ([one.name for one in prompt.tools], prompt.model, prompt.handover) == (["argue"], "", ())
    assert [message.text for message in prompt.messages] == [
        "You are a juror.",
        "Will it rain?\n\nAnswer with one call of argue.",
    ]


async def test_a_call_without_arguments_goes_back_as_an_object() -> None:
    bare = ModelCompletion(calls=(ToolCall(id="a", name="argue", arguments=""),), finish=FinishReason.CALLS)
    at, session = opened(bare, vote())
    await session.ask_structured(VOTE, percent)
    assert at.prompts[1].prompt.messages[2].calls == (ToolCall(id="a", name="argue", arguments="{}"),)


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
    at, session = opened(signed(ModelCompletion(text="So:", calls=wrong, finish=FinishReason.CALLS), 1), vote())
    await session.ask_structured(VOTE, percent)
    said, *replies = at.prompts[1].prompt.messages[2:]
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
FINISHES = st.sampled_from([one for one in FinishReason if one is not FinishReason.REFUSED])


@st.composite
def answers(draw: st.DrawFn) -> ModelCompletion:
    made = [
        ToolCall(id=draw(st.sampled_from(["", "a", "b", "c" * 200])), name=draw(NAMES), arguments=draw(ARGUMENTS))
        for _ in range(draw(st.integers(0, 3)))
    ]
    said = ModelCompletion(text=draw(TEXTS), calls=tuple(made), finish=draw(FINISHES))
    return signed(said, draw(st.integers(0, 9))) if draw(st.booleans()) else said


def repeated(said: list[ModelCompletion]) -> AnswerScript:
    turn: Iterator[int] = count()
    return lambda _: said[next(turn) % len(said)]


@settings(max_examples=60)
@given(
    st.lists(answers(), min_size=1, max_size=8),
    st.sampled_from(ModelDialect),
    st.builds(BlfSettings, belief=st.booleans()),
)
async def test_whatever_is_answered_the_requests_of_a_trial_only_grow(
    said: list[ModelCompletion], dialect: ModelDialect, how: BlfSettings
) -> None:
    once = ScriptedTool(fixed_text_tool("lookup_url", "a page", url=QUERY).tool, searches().run, use_limit=1)
    at = context(script=repeated(said), dialect=dialect, scripted_tools=[searches(), once], limits=TrialLimits(steps=6))
    await steps_of(question(), at, how)
    assert changed_prefixes(at.prompts) == []
    assert all(one.prompt.tools or one.prompt.schema for one in at.prompts)
    _require_answers(at)


@settings(max_examples=60)
@given(
    st.lists(answers(), min_size=1, max_size=8),
    st.lists(st.sampled_from([VOTE, ARGUE]), min_size=1, max_size=5),
    st.sampled_from(ModelDialect),
)
async def test_whatever_is_answered_the_requests_to_one_person_only_grow(
    said: list[ModelCompletion], asked: list[ToolDefinition], dialect: ModelDialect
) -> None:
    at = ScriptedTrialContext(models={"juror": ScriptedModel(repeated(said), dialect)})
    session = open_session(at, "juror", seed=3)
    session.declare_tools([VOTE, ARGUE])
    session.begin("You are a juror.", "Will it rain?")
    for number, one in enumerate(asked):
        session.say(f"Say {number}.")
        before = list(session.messages)
        await session.ask_structured(one, percent, keep=number % 2 == 0)
        assert number % 2 == 0 or session.messages == before
    kept = [one for one in at.prompts if _is_kept(one.prompt, session)]
    assert changed_prefixes(kept) == []
    _require_answers(at)


def _is_kept(prompt: Prompt, session: ChatSession) -> bool:
    """Whether a request is a part of what the conversation became in the end."""
    return tuple(session.messages[: len(prompt.messages)]) == prompt.messages


def _require_answers(at: ScriptedTrialContext) -> None:
    """Each call of a message is answered directly after it, once, and no speaker speaks twice in a row."""
    for prompt in (one.prompt for one in at.prompts):
        for place, message in enumerate(prompt.messages):
            if message.speaker is MessageRole.ASSISTANT:
                told = answers_of(prompt, place)
                assert tuple(one for one, _ in told) == (tuple(one.id for one in message.calls) or (None,))
                assert all(text for _, text in told)
                assert message.text or message.calls
