"""JSON schemas in the part of the language that each family accepts.

Only what is refused goes: a keyword that a family ignores may stay. What a schema loses here is checked by whoever
reads the answer. Sources: OpenAI, "Structured outputs"; Anthropic, "Structured outputs"; Google, reference of
``FunctionDeclaration`` and ``Schema``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bot.api import Json

_NAMED = frozenset({"properties", "$defs", "definitions"})
_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
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

    ``closed`` says that every object must refuse further properties, ``complete`` that every property is required, one
    that may be missing as one that may be null. ``constants`` says that ``const`` is known.
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


def reduced(schema: Mapping[str, Json], subset: SchemaSubset) -> dict[str, Json]:
    """Return the schema without what the family refuses; the same meaning as far as it can say it."""
    result: dict[str, Json] = {}
    for key, value in schema.items():
        name, part = _renamed(key, value, subset)
        if name in subset.dropped or (subset.kept is not None and name not in subset.kept):
            continue
        # One element at least is the only bound of lists that some families know.
        if name == "minItems" and "maxItems" in subset.dropped and part not in {0, 1}:
            continue
        result[name] = _inside(name, part, lambda inner: reduced(inner, subset))
    if "properties" in result or result.get("type") == "object":
        _tighten(result, subset)
    return result


def is_object(schema: Mapping[str, Json]) -> bool:
    """Say whether the root is an object, as strict forms demand."""
    return schema.get("type") == "object"


def _renamed(key: str, value: Json, subset: SchemaSubset) -> tuple[str, Json]:
    if key == "oneOf":
        return "anyOf", value
    # Lists of allowed values are known where single ones are not, though of texts alone.
    if key == "const" and not subset.constants and isinstance(value, str):
        return "enum", [value]
    return key, value


def _inside(key: str, value: Json, change: Callable[[Mapping[str, Json]], Json]) -> Json:
    match value:
        case dict() if key in _NAMED:
            return {name: change(part) if isinstance(part, dict) else part for name, part in value.items()}
        case dict() if key not in {"enum", "const", "default", "example"}:
            return change(value)
        case list() if key in _LISTS:
            return [change(part) if isinstance(part, dict) else part for part in value]
        case _:
            return value


def _tighten(schema: dict[str, Json], subset: SchemaSubset) -> None:
    properties = schema.get("properties")
    if subset.closed:
        schema["additionalProperties"] = False
    if not subset.complete or not isinstance(properties, dict):
        return
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set()
    schema["properties"] = {name: part if name in needed else _nullable(part) for name, part in properties.items()}
    schema["required"] = [*properties]


def _nullable(part: Json) -> Json:
    return {"anyOf": [part, {"type": "null"}]}
