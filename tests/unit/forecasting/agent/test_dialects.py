"""Both dialects end in the same move, whatever surrounds it, and nothing that is no number gets through."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.language_models import FinishReason, ModelCompletion
from bot.forecasting.agent.dialects import JsonDialect, NativeDialect, limit_schema
from bot.forecasting.agent.parsing import ModelAction, ParseFailure, parse_object
from tests.plugins.blf.cases import believing, call_of

BELIEF: dict[str, Any] = {"type": "object", "properties": {}}
BELIEVED = believing(61, field="percent")
SAID = {"action": "web_search", "arguments": {"query": "ship"}, "updated_belief": {"percent": 60}}


def read(text: str, finish: FinishReason = FinishReason.STOP) -> ModelAction | ParseFailure:
    return JsonDialect(BELIEF).read_action(ModelCompletion(text=text, finish=finish))


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
    assert isinstance(move, ModelAction)
    assert (move.name, dict(move.arguments), move.belief) == ("web_search", {"query": "ship"}, {"percent": 60})


def test_both_dialects_end_in_the_same_move() -> None:
    native = NativeDialect(BELIEF).read_action(
        call_of("web_search", {"query": "ship", "updated_belief": {"percent": 60}})
    )
    spoken = read(json.dumps(SAID))
    assert isinstance(native, ModelAction)
    assert isinstance(spoken, ModelAction)
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
    assert isinstance(read(text), ParseFailure)


def test_a_number_that_was_cut_off_is_not_mended() -> None:
    text = '{"action": "submit", "arguments": {"reasoning": "x", "percent": 7'
    assert isinstance(read(text), ParseFailure)
    assert isinstance(read(text + "}}", FinishReason.LENGTH), ModelAction)
    assert isinstance(read(text + ",}", FinishReason.LENGTH), ParseFailure)


def test_two_objects_in_a_row_count_as_the_first_and_that_is_noted() -> None:
    move = read(json.dumps(SAID) * 2)
    assert isinstance(move, ModelAction)
    assert any("first counts" in note for note in move.notes)


def test_mended_json_is_noted() -> None:
    move = read(json.dumps(SAID).replace('"', "'"))
    assert isinstance(move, ModelAction)
    assert any("mended" in note for note in move.notes)


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "submit", "arguments": {"percent": [1, 1e400]},}',
        "{'a': 1e999,}",
        "{'a': [" + "9" * 400 + "],}",
        '{"a":' * 20_000 + "1,}",
        "{,}",
    ],
)
def test_a_repair_without_a_usable_result_is_a_parse_failure(text: str) -> None:
    assert isinstance(parse_object(text, complete=True), ParseFailure)


def test_of_several_objects_that_are_not_quite_json_the_first_counts() -> None:
    found = parse_object("{'a': 1} {'b': 2}", complete=True)
    assert not isinstance(found, ParseFailure)
    assert found.value == {"a": 1}


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "web.search"])
def test_a_call_of_a_name_that_no_provider_accepts_is_a_parse_failure(name: str) -> None:
    assert isinstance(NativeDialect(BELIEF).read_action(call_of(name, {})), ParseFailure)


def test_mended_json_may_hold_lists_and_nothing() -> None:
    found = parse_object("{'a': [1, null, 'x', 0.5],}", complete=True)
    assert not isinstance(found, ParseFailure)
    assert found.value == {"a": [1, None, "x", 0.5]}


@given(st.text() | st.text(alphabet='{}[]":,0123456789.eE+-aNnul\\ '), st.booleans())
def test_any_text_is_parsed_to_finite_writable_json_or_a_parse_failure(text: str, complete: bool) -> None:  # noqa: FBT001 - a case
    found = parse_object(text, complete=complete)
    if not isinstance(found, ParseFailure):
        json.dumps(found.value, allow_nan=False, ensure_ascii=False).encode()


def test_every_text_and_list_of_a_json_schema_is_bounded() -> None:
    schema: Any = limit_schema(
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


def test_a_schema_that_is_none_stays_what_it_is() -> None:
    assert limit_schema({"anyOf": [True, {"type": "array"}]}) == {"anyOf": [True, {"type": "array", "maxItems": 20}]}
