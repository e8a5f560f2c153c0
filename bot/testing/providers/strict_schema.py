"""What providers refuse in a strict schema: keywords beyond their subset, open objects, optional properties.

Source: OpenAI's guide to structured outputs and Anthropic's to strict tools.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_LOOK_AROUND = re.compile(r"\(\?<?[=!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictSubset:
    """What a provider takes in a strict schema; ``all_required``: each property must be in ``required``."""

    refused: frozenset[str]
    formats: frozenset[str] | None = None
    all_required: bool = True
    most_depth: int = 10
    most_properties: int = 5000

    def fault_in(self, schema: Mapping[str, Any]) -> str | None:
        """Return what is wrong with a schema, with the place, None where nothing is."""
        if schema.get("type") != "object":
            return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
        count = 0
        for place, one in walk_schema(schema):
            count += len(one.get("properties") or ())
            if len(place) > 2 * self.most_depth or count > self.most_properties:
                return "the schema is too deep or has too many properties."
            if (fault := self._fault(one)) is not None:
                return f"In context=({', '.join(map(repr, place))}), {fault}"
        return None

    def _fault(self, schema: Mapping[str, Any]) -> str | None:
        if odd := sorted(self.refused & schema.keys()):
            return f"'{odd[0]}' is not permitted."
        if schema.get("type") == "object":
            if schema.get("additionalProperties") is not False:
                return "'additionalProperties' is required to be supplied and to be false."
            missing = sorted(set(schema.get("properties") or ()) - set(schema.get("required") or ()))
            if self.all_required and missing:
                told = "'required' is required to be supplied and to be an array including every key in properties."
                return f"{told} Missing '{missing[0]}'."
        if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
            return "array schema missing items."
        if self.formats is not None and schema.get("format", next(iter(self.formats))) not in self.formats:
            return f"'{schema['format']}' is not a valid format."
        return "'pattern' with look-around is not permitted." if self._looks_around(schema) else None

    def _looks_around(self, schema: Mapping[str, Any]) -> bool:
        return _LOOK_AROUND.search(str(schema.get("pattern", ""))) is not None


def walk_schema(
    schema: Mapping[str, Any], place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield a schema and all schemas in it, each with its place."""
    yield place, schema
    for name in _MAPS:
        for key, part in (schema.get(name) or {}).items():
            yield from walk_schema(part, (*place, name, key)) if isinstance(part, dict) else ()
    for name in _LISTS:
        for number, part in enumerate(schema.get(name) or ()):
            yield from walk_schema(part, (*place, name, str(number))) if isinstance(part, dict) else ()
    for name in _SINGLE:
        if isinstance(part := schema.get(name), dict):
            yield from walk_schema(part, (*place, name))
