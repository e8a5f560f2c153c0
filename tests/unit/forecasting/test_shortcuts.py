"""What makes a trial quick changes nothing: digests tell apart what differs, and shortcuts lead where the way leads."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import MalformedDataError
from bot.core.language_models import Message, MessageRole, Prompt, ToolCall, ToolDefinition
from bot.core.values import Json
from bot.forecasting.leak_guard.blocked_addresses import BlockedAddresses
from bot.forecasting.trial_memory import NOTE_SERIALIZER, ShownResult, ToolCallNote, TrialMemory
from bot.forecasting.web_addresses import find_links, parse_address
from bot.testing.research import ScriptedModelGateway
from tests.unit.forecasting.research_fixture import ResearchFixture

BLOCKED = BlockedAddresses(frozenset({"blocked.example"}))
PARTS = [
    "https://",
    "http://",
    "www.",
    "news.example",
    "blocked.example",
    "/a",
    "//",
    "b.c",
    "?u=",
    "(",
    ").",
    "@",
    ":1",
]
WORDS = st.lists(st.lists(st.sampled_from(PARTS), max_size=6).map("".join).filter(bool), max_size=8)

SAY = Message(speaker=MessageRole.USER, text="Will it rain?")
CALLED = Message(speaker=MessageRole.ASSISTANT, calls=(ToolCall(id="1", name="look", arguments="{}"),))
# Whatever is moved from one field to another must not come to the same.
MESSAGES = [
    SAY,
    replace(SAY, text="Will it snow?"),
    replace(SAY, text="Will it rain?\n"),
    replace(SAY, text="half \ud800"),
    replace(SAY, text="half \ufffd"),
    replace(SAY, speaker=MessageRole.SYSTEM),
    replace(SAY, speaker=MessageRole.TOOL, answers="1"),
    replace(SAY, speaker=MessageRole.TOOL, answers="2"),
    CALLED,
    replace(CALLED, text="{}", calls=(ToolCall(id="1", name="look", arguments=""),)),
    replace(CALLED, calls=(*CALLED.calls, ToolCall(id="", name="", arguments=""))),
    replace(CALLED, calls=(ToolCall(id="2", name="look", arguments="{}"),)),
    replace(CALLED, calls=(ToolCall(id="1", name="see", arguments="{}"),)),
    replace(CALLED, calls=(ToolCall(id="1", name="look", arguments="[]"),)),
]
OBJECT: dict[str, Json] = {"type": "object"}
LOOK = ToolDefinition(name="look", description="Look.", parameters=OBJECT)
PROMPTS = [
    *(Prompt(messages=(message,)) for message in MESSAGES),
    Prompt(messages=(SAY, SAY)),
    Prompt(messages=(SAY, *MESSAGES)),
    Prompt(messages=(SAY,), tools=(LOOK,)),
    Prompt(messages=(SAY,), tools=(LOOK,), allowed=("look",)),
    Prompt(messages=(SAY,), tools=(LOOK, LOOK)),
    Prompt(messages=(SAY,), tools=(replace(LOOK, description="See."),)),
    Prompt(messages=(SAY,), tools=(replace(LOOK, parameters={"type": "array"}),)),
    Prompt(messages=(SAY,), schema=OBJECT),
    Prompt(messages=(SAY,), schema={"type": "array"}),
]


def furnish(research: ResearchFixture) -> ScriptedModelGateway:
    research.models = ScriptedModelGateway(roles={"main": lambda inquiry: repr(inquiry.prompt)})
    return research.models


def again(prompt: Prompt) -> Prompt:
    """Return the prompt made anew: equal in all, identical in nothing."""
    changed: dict[str, Any] = {"messages": tuple(map(replace, prompt.messages))}
    changed["tools"] = tuple(replace(tool, parameters=dict(tool.parameters)) for tool in prompt.tools)
    changed["schema"] = None if prompt.schema is None else dict(prompt.schema)
    return replace(prompt, **changed)


async def test_prompts_that_differ_in_anything_are_told_apart_and_equal_ones_are_found_again(
    research: ResearchFixture,
) -> None:
    models = furnish(research)
    context = await research.open_trial()
    told = [(await context.ask_model("main", prompt)).completion.text for prompt in PROMPTS]
    assert len(models.requests) == len(PROMPTS)
    research.models = None
    resumed = await research.open_trial()
    # In another order, since the record answers in any.
    heard = [(await resumed.ask_model("main", again(prompt))).completion.text for prompt in reversed(PROMPTS)]
    assert heard == told[::-1]


async def test_a_tool_that_takes_the_place_of_one_that_is_gone_is_not_taken_for_it(research: ResearchFixture) -> None:
    models = furnish(research)
    context = await research.open_trial()
    for number in range(600):
        # Python gives the place of what is gone to what comes next, and with it the identity.
        tool = ToolDefinition(name=f"tool_{number}", description="Look.", parameters=OBJECT)
        await context.ask_model("main", Prompt(messages=(replace(SAY),), tools=(tool,)))
        assert models.requests.pop().nth == 0


async def test_what_is_no_message_is_refused_as_a_mistake_of_the_forecaster(research: ResearchFixture) -> None:
    furnish(research)
    none: Any = None
    with pytest.raises(MalformedDataError, match="cannot be written as JSON"):
        await (await research.open_trial()).ask_model(
            "main", Prompt(messages=(Message(speaker=MessageRole.USER, text=none),))
        )


@given(words=WORDS, space=st.sampled_from([" ", "\n", "\t", "\u00a0", "\u2028"]))
def test_addresses_are_found_in_a_text_as_in_each_of_its_words(words: list[str], space: str) -> None:
    text = space.join(words)
    assert find_links(text) == list(dict.fromkeys(link for word in words for link in find_links(word)))
    assert BLOCKED.redact(text) == space.join(map(BLOCKED.redact, words))


@given(
    host=st.from_regex(r"[a-z0-9-]{1,9}(\.[a-z0-9-]{1,9}){0,3}", fullmatch=True), path=st.text("aB0._~/-", max_size=12)
)
def test_an_address_in_its_usual_spelling_is_the_same_as_in_any_other(host: str, path: str) -> None:
    path = f"/{path}" if path else ""
    usual = parse_address(f"https://{host}{path}")
    assert usual is not None
    assert usual == parse_address(f"HTTPS://{host}{path}") == parse_address(f"https://{host}:443{path}")


def test_the_notes_of_a_trial_are_there_when_they_are_asked_for() -> None:
    found = ShownResult(exchange="search a 0", place=0, url="https://news.example/1")
    memory = TrialMemory()
    memory.allow_addresses(["", "ftp://files.example/"])
    assert (memory.knows_addresses, memory.readable_addresses) == (False, {})
    memory.add_note("web_search", NOTE_SERIALIZER.plain(ToolCallNote(search=3, found=(found,), addresses=(found.url,))))
    memory.add_note(
        "web_search", NOTE_SERIALIZER.plain(ToolCallNote(search=5, addresses=("HTTPS://www.News.example/1/",)))
    )
    # The first spelling stays.
    assert memory.readable_addresses == {"news.example/1": "https://news.example/1"}
    assert memory.searches == {3: (found,), 5: ()}
    assert (memory.search_count, memory.found_anything, memory.knows_addresses) == (2, True, True)
    assert memory.begin_search() == 6
