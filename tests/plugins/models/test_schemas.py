"""Schemas in the part of the language that each family accepts."""

from typing import Any

import pytest

from plugins.models._schemas import CLAUDE_FORMAT, GEMINI_JSON, OPENAI_STRICT, reduce_schema

FULL: dict[str, Any] = {
    "type": "object",
    "properties": {
        # Names of properties may be words of JSON Schema.
        "not": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "a+", "default": "aa"},
        "if": {"type": "integer", "minimum": 1, "maximum": 9, "exclusiveMinimum": 0, "multipleOf": 2},
        "list": {"type": "array", "minItems": 2, "maxItems": 5, "uniqueItems": True, "items": {"maxLength": 3}},
        "one": {"oneOf": [{"const": "a"}, {"type": "object", "properties": {"x": {"const": 1}}}]},
        "kind": {"enum": ["minLength", "not"]},
    },
    "required": ["not", "if", "list", "one"],
    "patternProperties": {},
    "additionalProperties": False,
}


def test_openai_strict() -> None:
    assert reduce_schema(FULL, OPENAI_STRICT) == {
        "type": "object",
        "properties": {
            "not": {"type": "string", "pattern": "a+"},
            "if": {"type": "integer", "minimum": 1, "maximum": 9, "exclusiveMinimum": 0, "multipleOf": 2},
            "list": {"type": "array", "minItems": 2, "maxItems": 5, "items": {}},
            "one": {
                "anyOf": [
                    {"const": "a"},
                    {
                        "type": "object",
                        "properties": {"x": {"anyOf": [{"const": 1}, {"type": "null"}]}},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                ]
            },
            "kind": {"anyOf": [{"enum": ["minLength", "not"]}, {"type": "null"}]},
        },
        "required": ["not", "if", "list", "one", "kind"],
        "additionalProperties": False,
    }


def test_claude_format() -> None:
    found: Any = reduce_schema(FULL, CLAUDE_FORMAT)
    assert found["properties"]["not"] == {"type": "string", "pattern": "a+", "default": "aa"}
    assert found["properties"]["if"] == {"type": "integer"}
    assert found["properties"]["list"] == {"type": "array", "items": {}}
    assert found["properties"]["one"]["anyOf"][1]["additionalProperties"] is False
    assert found["required"] == FULL["required"]


@pytest.mark.parametrize(("least", "kept"), [(0, True), (1, True), (2, False)])
def test_claude_knows_lists_of_at_least_one(least: int, kept: bool) -> None:  # noqa: FBT001 - a parameter of a table
    assert ("minItems" in reduce_schema({"type": "array", "minItems": least}, CLAUDE_FORMAT)) is kept


def test_gemini() -> None:
    found: Any = reduce_schema(FULL, GEMINI_JSON)
    assert found["properties"]["not"] == {"type": "string"}
    assert found["properties"]["if"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert found["properties"]["list"] == {"type": "array", "minItems": 2, "maxItems": 5, "items": {}}
    assert found["properties"]["one"]["anyOf"] == [
        {"enum": ["a"]},
        {"type": "object", "properties": {"x": {}}},
    ]
    assert found["properties"]["kind"] == {"enum": ["minLength", "not"]}
    assert "patternProperties" not in found


def test_what_is_reduced_stays_as_it_was_itself() -> None:
    before = str(FULL)
    for subset in (OPENAI_STRICT, CLAUDE_FORMAT, GEMINI_JSON):
        reduce_schema(FULL, subset)
    assert str(FULL) == before
