"""What makes a trial quick changes nothing: digests tell apart what differs, and shortcuts lead where the way leads."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.desk.addresses import address_of, links_in
from bot.desk.leaks.blocks import Blocks
from bot.desk.notebook import NOTE, Found, Note, Notebook
from bot.domain.prompt import Message, Prompt, Speaker, Tool, ToolCall
from bot.domain.step import Json
from bot.errors import ContractError
from bot.testing.research import ScriptedModels
from tests.unit.desk.workbench import Desk

BLOCKED = Blocks(frozenset({"blocked.example"}))
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

SAY = Message(speaker=Speaker.USER, text="Will it rain?")
CALLED = Message(speaker=Speaker.ASSISTANT, calls=(ToolCall(id="1", name="look", arguments="{}"),))
# Whatever is moved from one field to another must not come to the same.
MESSAGES = [
    SAY,
    replace(SAY, text="Will it snow?"),
    replace(SAY, text="Will it rain?\n"),
    replace(SAY, text="half \ud800"),
    replace(SAY, text="half \ufffd"),
    replace(SAY, speaker=Speaker.SYSTEM),
    replace(SAY, speaker=Speaker.TOOL, answers="1"),
    replace(SAY, speaker=Speaker.TOOL, answers="2"),
    CALLED,
    replace(CALLED, text="{}", calls=(ToolCall(id="1", name="look", arguments=""),)),
    replace(CALLED, calls=(*CALLED.calls, ToolCall(id="", name="", arguments=""))),
    replace(CALLED, calls=(ToolCall(id="2", name="look", arguments="{}"),)),
    replace(CALLED, calls=(ToolCall(id="1", name="see", arguments="{}"),)),
    replace(CALLED, calls=(ToolCall(id="1", name="look", arguments="[]"),)),
]
OBJECT: dict[str, Json] = {"type": "object"}
LOOK = Tool(name="look", description="Look.", parameters=OBJECT)
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


def furnish(desk: Desk) -> ScriptedModels:
    desk.models = ScriptedModels(roles={"main": lambda inquiry: repr(inquiry.prompt)})
    return desk.models


def again(prompt: Prompt) -> Prompt:
    """Return the prompt made anew: equal in all, identical in nothing."""
    changed: dict[str, Any] = {"messages": tuple(map(replace, prompt.messages))}
    changed["tools"] = tuple(replace(tool, parameters=dict(tool.parameters)) for tool in prompt.tools)
    changed["schema"] = None if prompt.schema is None else dict(prompt.schema)
    return replace(prompt, **changed)


async def test_prompts_that_differ_in_anything_are_told_apart_and_equal_ones_are_found_again(desk: Desk) -> None:
    models = furnish(desk)
    bench = await desk.bench()
    told = [(await bench.ask("main", prompt)).completion.text for prompt in PROMPTS]
    assert len(models.inquiries) == len(PROMPTS)
    desk.models = None
    resumed = await desk.bench()
    # In another order, since the record answers in any.
    heard = [(await resumed.ask("main", again(prompt))).completion.text for prompt in reversed(PROMPTS)]
    assert heard == told[::-1]


async def test_a_tool_that_takes_the_place_of_one_that_is_gone_is_not_taken_for_it(desk: Desk) -> None:
    models = furnish(desk)
    bench = await desk.bench()
    for number in range(600):
        # Python gives the place of what is gone to what comes next, and with it the identity.
        tool = Tool(name=f"tool_{number}", description="Look.", parameters=OBJECT)
        await bench.ask("main", Prompt(messages=(replace(SAY),), tools=(tool,)))
        assert models.inquiries.pop().nth == 0


async def test_what_is_no_message_is_refused_as_a_mistake_of_the_forecaster(desk: Desk) -> None:
    furnish(desk)
    none: Any = None
    with pytest.raises(ContractError, match="cannot be written down"):
        await (await desk.bench()).ask("main", Prompt(messages=(Message(speaker=Speaker.USER, text=none),)))


@given(words=WORDS, space=st.sampled_from([" ", "\n", "\t", "\u00a0", "\u2028"]))
def test_addresses_are_found_in_a_text_as_in_each_of_its_words(words: list[str], space: str) -> None:
    text = space.join(words)
    assert links_in(text) == list(dict.fromkeys(link for word in words for link in links_in(word)))
    assert BLOCKED.redacted(text) == space.join(map(BLOCKED.redacted, words))


@given(
    host=st.from_regex(r"[a-z0-9-]{1,9}(\.[a-z0-9-]{1,9}){0,3}", fullmatch=True), path=st.text("aB0._~/-", max_size=12)
)
def test_an_address_in_its_usual_spelling_is_the_same_as_in_any_other(host: str, path: str) -> None:
    path = f"/{path}" if path else ""
    usual = address_of(f"https://{host}{path}")
    assert usual is not None
    assert usual == address_of(f"HTTPS://{host}{path}") == address_of(f"https://{host}:443{path}")


def test_the_notes_of_a_trial_are_there_when_they_are_asked_for() -> None:
    found = Found(exchange="search a 0", place=0, url="https://news.example/1")
    notebook = Notebook()
    notebook.learn(["", "ftp://files.example/"])
    assert (notebook.knows_addresses, notebook.known) == (False, {})
    notebook.add("web_search", NOTE.plain(Note(search=3, found=(found,), addresses=(found.url,))))
    notebook.add("web_search", NOTE.plain(Note(search=5, addresses=("HTTPS://www.News.example/1/",))))
    # The first spelling stays.
    assert notebook.known == {"news.example/1": "https://news.example/1"}
    assert notebook.searches == {3: (found,), 5: ()}
    assert (notebook.search_count, notebook.found_anything, notebook.knows_addresses) == (2, True, True)
    assert notebook.number() == 6
