"""How tools are defined for a model: their names, the schemas of their arguments, and the check of those."""

from collections.abc import Mapping
from typing import Any

from bot.core.language_models import ToolDefinition
from bot.core.values import Json

WEB_SEARCH = "web_search"
SUMMARIZE_RESULTS = "summarize_results"
LOOKUP_URL = "lookup_url"


def define_tool(
    name: str,
    description: str,
    properties: Mapping[str, dict[str, Json]] | None = None,
    *,
    required: tuple[str, ...] = (),
) -> ToolDefinition:
    """Return a tool whose arguments are the given properties and nothing else."""
    parameters: dict[str, Json] = {
        "type": "object",
        "properties": dict(properties or {}),
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolDefinition(name=name, description=description, parameters=parameters)


def text_schema(description: str, limit: int) -> dict[str, Json]:
    """Return the schema of a text."""
    return {"type": "string", "description": description, "minLength": 1, "maxLength": limit}


def find_argument_fault(arguments: object, schema: Mapping[str, Any]) -> str | None:
    """Say why arguments do not fit a schema made by ``define_tool``, in words for the model; None if they do."""
    if not isinstance(arguments, Mapping):
        return "the arguments are not a JSON object"
    properties = schema["properties"]
    if missing := [name for name in schema["required"] if name not in arguments]:
        return f"{missing[0]} is missing"
    if any(name not in properties for name in arguments):
        return f"there are arguments besides {', '.join(properties)}" if properties else "there are no arguments"
    faults = ((name, _value_fault(value, properties[name])) for name, value in arguments.items())
    return next((f"{name} {fault}" for name, fault in faults if fault), None)


def _value_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    match schema["type"]:
        case "string":
            return _text_fault(value, schema)
        case "integer":
            return _integer_fault(value, schema)
        case _:
            return _list_fault(value, schema)


def _text_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, str):
        return "is not a text"
    if "enum" in schema and value not in schema["enum"]:
        return f"is none of {', '.join(schema['enum'])}"
    if len(value) < schema.get("minLength", 0):
        return "is empty"
    longest = schema.get("maxLength")
    return f"is longer than {longest} characters" if longest is not None and len(value) > longest else None


def _integer_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        return "is not a whole number"
    least = schema.get("minimum")
    return f"is less than {least}" if least is not None and value < least else None


def _list_fault(value: object, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, list):
        return "is not a list"
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"should have {schema.get('minItems', 0)} to {schema.get('maxItems')} entries"
    return next(
        (f"has an entry that {fault}" for item in value if (fault := _value_fault(item, schema["items"]))), None
    )
