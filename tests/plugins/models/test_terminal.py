"""A person as a model, asked over a real pseudo terminal."""

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ships none
import pytest

from bot.core.errors import RequestRejectedError
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    ModelCompletion,
    Prompt,
    SamplingSettings,
    ToolDefinition,
)
from bot.core.plugin_specs import PluginContext
from bot.core.values import Json
from bot.forecasting.agent.dialects import JsonDialect
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.models.terminal import TerminalProvider, TerminalSettings, foxcast_models

SAMPLING = SamplingSettings(max_tokens=100)
TEXT: Json = {"type": "string", "maxLength": 20}
CHOOSE = ToolDefinition(
    name="choose",
    description="One action.",
    parameters={
        "type": "object",
        "properties": {"option": {"type": "string", "enum": ["A", "B", "C"]}, "words": TEXT},
        "required": ["option", "words"],
        "additionalProperties": False,
    },
)
NOTES = ToolDefinition(
    name="take_notes",
    description="Notes.",
    parameters={
        "type": "object",
        "properties": {
            "facts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"text": TEXT, "speaks": {"type": "string", "enum": ["for", "against"]}},
                    "required": ["text", "speaks"],
                    "additionalProperties": False,
                },
                "maxItems": 2,
            },
            "percent": {"type": "integer", "minimum": 5, "maximum": 95},
            "aside": TEXT,
        },
        "required": ["facts", "percent"],
        "additionalProperties": False,
    },
)


@dataclass(slots=True)
class FakeTerminalPerson:
    """Sits at the other end of a pseudo terminal: waits for a prompt, then types the next line."""

    master: int
    device: Path
    seen: str = ""

    async def type(self, *lines: str) -> None:
        for line in lines:
            await self.wait_for(": ")
            os.write(self.master, f"{line}\n".encode())

    async def wait_for(self, end: str) -> None:
        came = ""
        while not came.endswith(end):
            ready, _, _ = await asyncio.to_thread(select.select, [self.master], [], [], 5)
            assert ready, f"nothing more after {self.seen + came!r}"
            came += os.read(self.master, 4096).decode()
        self.seen += came


@pytest.fixture
def person() -> Iterator[FakeTerminalPerson]:
    master, slave = pty.openpty()
    # What is typed is not shown again, so that what is shown ends with the prompt.
    attributes = termios.tcgetattr(slave)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    yield FakeTerminalPerson(master, Path(os.ttyname(slave)))
    os.close(master)
    os.close(slave)


def terminal(person: FakeTerminalPerson) -> TerminalProvider:
    return TerminalProvider(TerminalSettings(device=person.device))


def prompt(*tools: ToolDefinition, text: str = "What now?", more: tuple[Message, ...] = ()) -> Prompt:
    messages = (
        Message(speaker=MessageRole.SYSTEM, text="You are Ada."),
        Message(speaker=MessageRole.USER, text=text),
        *more,
    )
    return Prompt(messages=messages, tools=tools)


async def asked(person: FakeTerminalPerson, what: Prompt, *lines: str) -> ModelCompletion:
    answer, _ = await asyncio.gather(terminal(person).complete("Ada", what, SAMPLING), person.type(*lines))
    return answer


async def test_a_letter_and_words_become_a_call(person: FakeTerminalPerson) -> None:
    answer = await asked(person, prompt(CHOOSE), "b", "the tides")
    (call,) = answer.calls
    assert (call.name, json.loads(call.arguments)) == ("choose", {"option": "B", "words": "the tides"})
    assert answer.finish is FinishReason.CALLS
    assert answer.usage.calls == 1
    assert (answer.usage.tokens_in, answer.usage.tokens_out, answer.cost_usd) == (0, 0, None)
    assert "Ada is asked:" in person.seen
    assert "What now?" in person.seen


async def test_in_the_json_dialect_the_answer_is_an_object_of_the_schema(person: FakeTerminalPerson) -> None:
    speech = JsonDialect()
    asks = speech.build_prompt(prompt().messages, [NOTES])
    answer = await asked(person, asks, "y", "It sails", "a", "n", "85", "")
    message = json.loads(answer.text)
    jsonschema.validate(message, dict(asks.schema or {}))
    assert message["arguments"] == {"facts": [{"text": "It sails", "speaks": "for"}], "percent": 85}
    move = speech.read_action(answer)
    assert getattr(move, "name", None) == "take_notes"


async def test_what_does_not_fit_is_asked_for_again_with_the_reason(person: FakeTerminalPerson) -> None:
    lines = ("n", "often", "4", "50.5", "96", "50", "y", "x" * 21, "short")
    answer = await asked(person, prompt(NOTES), *lines)
    assert json.loads(answer.calls[0].arguments) == {"facts": [], "percent": 50, "aside": "short"}
    assert person.seen.count("That should be a number from 5 to 95.") == 3
    assert "That should be a whole number." in person.seen
    assert "That has 21 characters; it should have 0 to 20." in person.seen


async def test_of_several_actions_one_is_chosen_by_letter_or_by_name(person: FakeTerminalPerson) -> None:
    for lines in (("a", "c", ""), ("choose", "c", "")):
        answer = await asked(person, prompt(CHOOSE, NOTES), *lines)
        assert json.loads(answer.calls[0].arguments) == {"option": "C", "words": ""}
    speech = JsonDialect()
    answer = await asked(
        person, speech.build_prompt(prompt().messages, [CHOOSE, NOTES]), "none of it", "choose", "A", ""
    )
    assert json.loads(answer.text) == {"action": "choose", "arguments": {"option": "A", "words": ""}}
    assert "That is none of them." in person.seen


async def test_without_a_form_a_line_is_the_answer(person: FakeTerminalPerson) -> None:
    assert (await asked(person, prompt(), "It will come in.")).text == "It will come in."


@pytest.mark.parametrize(
    ("schema", "lines", "value"),
    [
        ({"type": "number", "minimum": 0.05, "maximum": 0.95}, ["70%"], 0.7),
        ({"type": "number"}, ["nan", "1e999", "-2.5"], -2.5),
        ({"type": "boolean"}, ["perhaps", "y"], True),
        ({"enum": [1, 2.5, None]}, ["b"], 2.5),
        ({"type": "string", "minLength": 1}, ["", "x"], "x"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, ["1", "y", "2"], [1, 2]),
        ({"oneOf": [{"const": "only"}]}, [], "only"),
    ],
)
async def test_every_kind_of_value_can_be_typed(
    person: FakeTerminalPerson, schema: Mapping[str, Any], lines: list[str], value: Any
) -> None:
    answer = await asked(person, Prompt(messages=prompt().messages, schema=schema), *lines)
    assert json.loads(answer.text) == value
    jsonschema.validate(value, dict(schema))


async def test_what_was_shown_in_the_prompt_before_is_not_shown_again(person: FakeTerminalPerson) -> None:
    asker = terminal(person)
    message = Message(speaker=MessageRole.ASSISTANT, text="What I said myself")
    again = Message(speaker=MessageRole.USER, text="And now?")
    for what in (prompt(CHOOSE), prompt(CHOOSE, more=(message, again))):
        await asyncio.gather(asker.complete("Ada", what, SAMPLING), person.type("a", ""))
    assert person.seen.count("You are Ada.") == 1
    assert person.seen.count("What now?") == 1
    assert person.seen.count("And now?") == 1
    assert "What I said myself" not in person.seen


async def test_the_same_question_asked_again_is_shown_again(person: FakeTerminalPerson) -> None:
    asker = terminal(person)
    for _ in range(2):
        await asyncio.gather(asker.complete("Ada", prompt(CHOOSE), SAMPLING), person.type("a", ""))
    assert person.seen.count("What now?") == 2
    await asyncio.gather(asker.complete("Ada", prompt(CHOOSE, text="Another?"), SAMPLING), person.type("a", ""))
    await asyncio.gather(asker.complete("Ada", prompt(CHOOSE), SAMPLING), person.type("a", ""))
    assert person.seen.count("What now?") == 3


async def test_what_was_typed_before_a_question_is_no_answer_to_it(person: FakeTerminalPerson) -> None:
    os.write(person.master, b"c\nfrom before\n")
    asker = terminal(person)
    waiting = asyncio.ensure_future(asker.complete("Ada", prompt(CHOOSE), SAMPLING))
    await person.wait_for(": ")
    # Typed for a question whose time is up: neither the whole line nor the half one is the next one's answer.
    os.write(person.master, b"b\nhalf a li")
    await person.wait_for("words: ")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    answer, _ = await asyncio.gather(asker.complete("Ada", prompt(CHOOSE), SAMPLING), person.type("a", "mine"))
    assert json.loads(answer.calls[0].arguments) == {"option": "A", "words": "mine"}


async def test_what_strangers_wrote_steers_no_terminal(person: FakeTerminalPerson) -> None:
    await asked(person, prompt(CHOOSE, text="\x1b[2J\x1b]0;title\x07clouds\u202e \x9b31m"), "a", "")
    assert "\x1b" not in person.seen
    assert "\x9b" not in person.seen
    assert "\u202e" not in person.seen
    assert "clouds" in person.seen


async def test_two_questions_are_asked_one_after_the_other(person: FakeTerminalPerson) -> None:
    asker = terminal(person)
    questions = (asker.complete(name, prompt(CHOOSE, text=f"{name}?"), SAMPLING) for name in ("Ada", "Ben"))
    answers = asyncio.gather(*questions)
    await person.type("a", "one", "b", "two")
    assert [json.loads(one.calls[0].arguments)["words"] for one in await answers] == ["one", "two"]
    assert person.seen.index("Ben is asked:") > person.seen.index("words: ")


async def test_the_end_of_the_line_is_no_answer(person: FakeTerminalPerson) -> None:
    async def leave() -> None:
        await person.wait_for(": ")
        os.write(person.master, b"\x04")

    with pytest.raises(RequestRejectedError, match="terminal:Ada gives no answer"):
        await asyncio.gather(terminal(person).complete("Ada", prompt(CHOOSE), SAMPLING), leave())


async def test_a_question_that_is_given_up_leaves_the_terminal_to_the_next(person: FakeTerminalPerson) -> None:
    asker = terminal(person)
    waiting = asyncio.ensure_future(asker.complete("Ada", prompt(CHOOSE), SAMPLING))
    await person.wait_for(": ")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    answer, _ = await asyncio.gather(asker.complete("Ada", prompt(CHOOSE), SAMPLING), person.type("c", ""))
    assert json.loads(answer.calls[0].arguments)["option"] == "C"


async def test_without_a_terminal_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for device, why in ((tmp_path / "none", "there is no terminal to ask on"), (tmp_path / "file", "is no terminal")):
        asker = TerminalProvider(TerminalSettings(device=device))
        with pytest.raises(RequestRejectedError, match=why):
            await asker.complete("Ada", prompt(CHOOSE), SAMPLING)
        assert why in str(await asker.lacks("Ada"))
        assert "in the foreground" in str(await asker.lacks("Ada"))


BEHIND = r"""
import asyncio, os, pty, sys
pid, master = pty.fork()
if pid == 0:
    other = os.fork()
    if other == 0:
        from plugins.models.terminal import TerminalProvider, TerminalSettings
        asker = TerminalProvider(TerminalSettings())
        before = asyncio.run(asker.lacks("Ada"))
        os.setpgid(0, 0)
        os.write(1, f"{before} | {asyncio.run(asker.lacks('Ada'))}\n".encode())
        os._exit(0)
    os.waitpid(other, 0)
    os._exit(0)
shown = b""
try:
    while chunk := os.read(master, 4096):
        shown += chunk
except OSError:
    pass
os.waitpid(pid, 0)
print(shown.decode())
"""


def test_a_program_in_the_background_does_not_ask() -> None:
    root = Path(__file__).parents[3]
    shown = subprocess.run(
        [sys.executable, "-c", BEHIND], cwd=root, capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert shown.startswith("None | /dev/tty belongs to another program now")


async def test_the_engine_opens_it_and_knows_that_it_converses(tmp_path: Path) -> None:
    (spec,) = foxcast_models()
    assert spec.is_interactive
    place = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    async with spec.open(TerminalSettings(), place) as opened:
        # Nobody is free before config says so.
        assert await opened.price("Ada") is None
