"""JSON schemas in the part of the language that each family accepts.

Only refused keywords are removed: a keyword that a family ignores may stay. The code that reads the answer checks what
a schema loses here. Sources: OpenAI, "Structured outputs"; Anthropic, "Structured outputs"; Google, reference of
``FunctionDeclaration`` and ``Schema``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.api import Json

_SCHEMA_MAPS = frozenset({"properties", "$defs", "definitions"})
_SCHEMA_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_NEVER_STRICT = frozenset(
    {
        *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
        *("unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems", "minLength", "maxLength"),
        *("if", "then", "else", "not", "dependentRequired", "dependentSchemas", "dependencies"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSubset:
    """What a family accepts: ``kept`` keywords where there are few, else all but those ``dropped``.

    ``closed`` says that every object must refuse further properties, ``complete`` that every property is required, an
    optional one as one that may be null. ``constants`` says that ``const`` is known.
    """

    kept: frozenset[str] | None = None
    dropped: frozenset[str] = frozenset()
    closed: bool = False
    complete: bool = False
    constants: bool = True


OPENAI_STRICT = SchemaSubset(dropped=_NEVER_STRICT | {"default", "allOf"}, closed=True, complete=True)
CLAUDE_FORMAT = SchemaSubset(
    dropped=_NEVER_STRICT
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems", "prefixItems"},
    closed=True,
)
GEMINI_JSON = SchemaSubset(
    kept=frozenset(
        {
            *(
                "$defs",
                "$ref",
                "$anchor",
                "$id",
                "type",
                "format",
                "title",
                "description",
                "enum",
                "items",
                "prefixItems",
            ),
            *("minItems", "maxItems", "minimum", "maximum", "anyOf", "properties", "additionalProperties", "required"),
            "propertyOrdering",
        }
    ),
    constants=False,
)


def reduce_schema(schema: Mapping[str, Json], subset: SchemaSubset) -> dict[str, Json]:
    """Return the schema without the keywords that the family refuses; with the same meaning as far as possible."""
    result: dict[str, Json] = {}
    for key, value in schema.items():
        name, part = _rename_keyword(key, value, subset)
        if name in subset.dropped or (subset.kept is not None and name not in subset.kept):
            continue
        # Some families know only one bound of lists: at least one element.
        if name == "minItems" and "maxItems" in subset.dropped and part not in {0, 1}:
            continue
        result[name] = _map_subschemas(name, part, lambda inner: reduce_schema(inner, subset))
    if "properties" in result or result.get("type") == "object":
        _require_properties(result, subset)
    return result


def is_object_schema(schema: Mapping[str, Json]) -> bool:
    """Return whether the root is an object, as strict forms require."""
    return schema.get("type") == "object"


def _rename_keyword(key: str, value: Json, subset: SchemaSubset) -> tuple[str, Json]:
    if key == "oneOf":
        return "anyOf", value
    # Some families know lists of allowed values but not single ones, and only for texts.
    if key == "const" and not subset.constants and isinstance(value, str):
        return "enum", [value]
    return key, value


def _map_subschemas(key: str, value: Json, change: Callable[[Mapping[str, Json]], Json]) -> Json:
    match value:
        case dict() if key in _SCHEMA_MAPS:
            return {name: change(part) if isinstance(part, dict) else part for name, part in value.items()}
        case dict() if key not in {"enum", "const", "default", "example"}:
            return change(value)
        case list() if key in _SCHEMA_LISTS:
            return [change(part) if isinstance(part, dict) else part for part in value]
        case _:
            return value


def _require_properties(schema: dict[str, Json], subset: SchemaSubset) -> None:
    properties = schema.get("properties")
    if subset.closed:
        schema["additionalProperties"] = False
    if not subset.complete or not isinstance(properties, dict):
        return
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set()
    schema["properties"] = {name: part if name in needed else _make_nullable(part) for name, part in properties.items()}
    schema["required"] = [*properties]


def _make_nullable(part: Json) -> Json:
    return {"anyOf": [part, {"type": "null"}]}
