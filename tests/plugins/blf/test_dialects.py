"""Both dialects end in the same move, whatever surrounds it, and nothing that is no number gets through."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.prompt import Completion, Dialect, Finish
from bot.errors import Unavailable
from plugins.blf.dialects.json_object import JsonSpeech, bounded
from plugins.blf.dialects.move import Garble, Move, parsed
from plugins.blf.dialects.native import NativeSpeech
from tests.plugins.blf.cases import believing, call_of, desk, priced, probability, question, steps_of

BELIEF: dict[str, Any] = {"type": "object", "properties": {}}
BELIEVED = believing(61, field="percent")
SAID = {"action": "web_search", "arguments": {"query": "ship"}, "updated_belief": {"percent": 60}}


def read(text: str, finish: Finish = Finish.STOP) -> Move | Garble:
    return JsonSpeech(BELIEF).read(Completion(text=text, finish=finish))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SAID),
        f"```json\n{json.dumps(SAID, indent=2)}\n```",
        f"<think>maybe {{}} or {{'action': 1}}</think>{json.dumps(SAID)}",
        f"I reason without a mark for its beginning {{}}</think>\n{json.dumps(SAID)}",
        f"Here is my move: {json.dumps(SAID)} I hope it helps.",
        f"{json.dumps(SAID)}\n{json.dumps({**SAID, 'action': 'submit'})}",
        json.dumps(SAID).replace('"', "'"),
        json.dumps(SAID)[:-1] + ",}",
    ],
)
def test_a_json_move_is_found_whatever_surrounds_it(text: str) -> None:
    move = read(text)
    assert isinstance(move, Move)
    assert (move.name, dict(move.arguments), move.belief) == ("web_search", {"query": "ship"}, {"percent": 60})


def test_both_dialects_end_in_the_same_move() -> None:
    native = NativeSpeech(BELIEF).read(call_of("web_search", {"query": "ship", "updated_belief": {"percent": 60}}))
    spoken = read(json.dumps(SAID))
    assert isinstance(native, Move)
    assert isinstance(spoken, Move)
    assert (native.name, native.arguments, native.belief) == (spoken.name, spoken.arguments, spoken.belief)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "[1, 2]",
        '{"action": 3, "arguments": {}}',
        '{"arguments": {}}',
        '{"action": "submit", "arguments": [1]}',
        '{"action": "submit", "arguments": {"percent": NaN}}',
        '{"action": "submit", "arguments": {"percent": -Infinity}}',
        '{"action": "submit", "arguments": {"percent": 1e999}}',
        '{"action": "submit", "arguments": {"percent": ' + "9" * 400 + "}}",
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_what_is_no_move_is_said_to_be_none(text: str) -> None:
    assert isinstance(read(text), Garble)


def test_a_number_that_was_cut_off_is_not_mended() -> None:
    text = '{"action": "submit", "arguments": {"reasoning": "x", "percent": 7'
    assert isinstance(read(text), Garble)
    assert isinstance(read(text + "}}", Finish.LENGTH), Move)
    assert isinstance(read(text + ",}", Finish.LENGTH), Garble)


def test_two_objects_in_a_row_count_as_the_first_and_that_is_noted() -> None:
    move = read(json.dumps(SAID) * 2)
    assert isinstance(move, Move)
    assert any("first counts" in note for note in move.notes)


def test_mended_json_is_noted() -> None:
    move = read(json.dumps(SAID).replace('"', "'"))
    assert isinstance(move, Move)
    assert any("mended" in note for note in move.notes)


@given(st.text() | st.text(alphabet='{}[]":,0123456789.eE+-aNnul\\ '), st.booleans())
def test_any_text_is_parsed_to_finite_writable_json_or_called_garble(text: str, complete: bool) -> None:  # noqa: FBT001 - a case
    found = parsed(text, complete=complete)
    if not isinstance(found, Garble):
        json.dumps(found.value, allow_nan=False, ensure_ascii=False).encode()


def test_every_text_and_list_of_a_json_schema_is_bounded() -> None:
    schema: Any = bounded(
        {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "many": {
                    "type": "array",
                    "items": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {}}]},
                },
                "one": {"type": "string", "enum": ["a"]},
            },
        }
    )
    assert schema["additionalProperties"] is False
    assert schema["properties"]["type"] == {"type": "string", "maxLength": 500}
    assert schema["properties"]["many"]["maxItems"] > 0
    assert schema["properties"]["many"]["items"]["anyOf"][0]["maxLength"] == 500
    assert schema["properties"]["many"]["items"]["anyOf"][1]["additionalProperties"] is False
    assert schema["properties"]["one"] == {"type": "string", "enum": ["a"]}


async def test_the_json_dialect_asks_under_one_schema_per_action_with_whole_percentages() -> None:
    said = {
        "action": "submit",
        "arguments": {"reasoning": "", "percent": 73},
        "updated_belief": believing(70, field="percent"),
    }
    at = desk(Completion(text=json.dumps(said)), dialect=Dialect.JSON)
    steps, error = await steps_of(question(), at)
    assert error is None
    assert probability(steps[0]) == 0.73
    prompt = at.asked[0].prompt
    assert prompt.tools == ()
    schema: Any = prompt.schema
    submits = schema["anyOf"][-1]["properties"]
    assert submits["action"]["const"] == "submit"
    assert submits["arguments"]["properties"]["percent"] == {"type": "integer", "minimum": 5, "maximum": 95}
    assert submits["updated_belief"]["properties"]["percent"] == {"type": "integer", "minimum": 2, "maximum": 98}
    assert all(branch["additionalProperties"] is False for branch in schema["anyOf"])


async def test_a_fraction_called_percent_is_asked_for_again_instead_of_guessed() -> None:
    said = [
        Completion(text=json.dumps({"action": "submit", "arguments": {"reasoning": "", "percent": percent}}))
        for percent in (0.7, 70)
    ]
    steps, _ = await steps_of(question(), desk(*said, dialect=Dialect.JSON))
    assert "whole percentage" in steps[0].observation.text
    assert probability(steps[0]) == 0.7


async def test_who_is_asked_for_percentages_is_also_told_in_percentages() -> None:
    said = Completion(
        text=json.dumps({"action": "web_search", "arguments": {"query": "x"}, "updated_belief": BELIEVED})
    )
    at = desk(said, Unavailable("enough"), dialect=Dialect.JSON)
    await steps_of(priced(0.8), at)
    system, first, *_, last = [message.text for message in at.asked[-1].prompt.messages]
    assert "between 5 % and 95 %" in system
    assert "less than 3 points" in system
    assert "estimate was: 80 %" in first
    assert "percent: 61 %" in last
