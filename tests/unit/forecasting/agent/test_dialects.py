"""Both dialects end in the same move, whatever surrounds it, and nothing that is no number gets through."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.language_models import FinishReason, ModelCompletion, ToolDefinition
from bot.core.questions import Question
from bot.forecasting.agent.answer_schema import AnswerSettings, create_answer_format
from bot.forecasting.agent.belief_state import belief_schema
from bot.forecasting.agent.dialects import JsonDialect, NativeDialect, limit_schema
from bot.forecasting.agent.parsing import ModelAction, ParseFailure, parse_object
from tests.plugins.blf.cases import CHOICE, CURVE, DATES, believing, call_of, question

jsonschema: Any = pytest.importorskip("jsonschema")

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


TOOLS = tuple(
    ToolDefinition(
        name=name,
        description="",
        parameters={
            "type": "object",
            "properties": {"description": {"type": "string", "description": "what"}},
            "required": ["description"],
        },
    )
    for name in ("web_search", "lookup_url", "submit")
)


def offered_beliefs(belief: dict[str, Any]) -> list[Any]:
    prompt = NativeDialect(belief).build_prompt((), TOOLS)
    for tool in prompt.tools:
        assert tool.parameters["required"] == ["description", "updated_belief"]
    return [cast("Any", tool.parameters["properties"])["updated_belief"] for tool in prompt.tools]


@pytest.mark.parametrize("asked", [question(), question(CHOICE), question(CURVE), question(targets=DATES)])
def test_the_fields_of_a_belief_are_explained_in_the_first_tool_only(asked: Question) -> None:
    full = belief_schema(create_answer_format(asked, AnswerSettings(), percent=False), 0.02)
    offered: list[Any] = offered_beliefs(full)
    first, others = offered[0], offered[1:]
    assert first == full
    for outline in others:
        assert outline["description"] == "As in web_search."
        assert list(outline["properties"]) == list(cast("Any", full["properties"]))
        assert outline["required"] == full["required"]
        assert json.dumps(outline).count("description") == 1
        assert len(json.dumps(outline)) < 0.6 * len(json.dumps(full))


@pytest.mark.parametrize(
    ("change", "is_valid"),
    [
        ({}, True),
        ({"evidence_for": [{"text": "it sailed", "source": "search_1_result_1"}]}, True),
        ({"evidence_for": [{"text": "it sailed"}]}, False),
        ({"evidence_for": "it sailed"}, False),
        ({"confidence": "certain"}, False),
        ({"probability": 1.5}, False),
        ({"surprise": 1}, False),
        ({"searches_tried": [1]}, False),
    ],
)
def test_each_tool_accepts_the_same_beliefs(*, change: dict[str, Any], is_valid: bool) -> None:
    full = belief_schema(create_answer_format(question(), AnswerSettings(), percent=False), 0.02)
    belief = {**believing(0.4), **change}
    assert {jsonschema.Draft202012Validator(one).is_valid(belief) for one in offered_beliefs(full)} == {is_valid}


def test_a_field_of_a_belief_may_be_called_as_a_word_of_json_schema() -> None:
    options: dict[str, Any] = {"type": "object", "properties": {"description": {"type": "number", "description": "x"}}}
    assert offered_beliefs(options)[1]["properties"] == {"description": {"type": "number"}}
