"""Tools that a forecaster offers to its models: JSON schemas of arguments, how these are read, and results in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from bot.core.beliefs import StepObservation, ToolResult
from bot.core.language_models import ToolDefinition
from bot.core.values import Json
from bot.forecasting.agent import parsing

WordEnum = TypeVar("WordEnum", bound=StrEnum)

_WORD_CHARS = 40


def text_result(text: str, *, failed: bool = False) -> ToolResult:
    """Return the result of a forecaster's own tool: words for the model, and nothing to record besides."""
    return ToolResult(observation=StepObservation(text=text), failed=failed)


def object_schema(properties: Mapping[str, Json], *, required: Sequence[str] | None = None) -> dict[str, Json]:
    """Return the schema of an object with these properties and no others; all are required unless some are named."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def answer_tool(
    name: str, description: str, properties: Mapping[str, Json], *, required: Sequence[str] | None = None
) -> ToolDefinition:
    """Return a tool whose arguments are an object of ``object_schema``."""
    return ToolDefinition(name=name, description=description, parameters=object_schema(properties, required=required))


def text_field(limit: int, description: str = "") -> dict[str, Json]:
    """Return the schema of a text."""
    return {"type": "string", "maxLength": limit, **({"description": description} if description else {})}


def word_field(words: type[StrEnum] | Sequence[str], description: str = "") -> dict[str, Json]:
    """Return the schema of one word of a list."""
    return {"type": "string", "enum": [*map(str, words)], **({"description": description} if description else {})}


def read_word(words: type[WordEnum], raw: Json, name: str) -> WordEnum:
    """Return the word that was sent; raises UnreadableAnswer for one that is not in the list."""
    try:
        return words(parsing.read_text(raw, _WORD_CHARS).lower())
    except ValueError:
        message = f"{name} should be one of {', '.join(words)}, not {parsing.abbreviate_json(raw)}"
        raise parsing.UnreadableAnswer(message) from None


def require_text(arguments: Mapping[str, Json], name: str, limit: int) -> str:
    """Return a required text; raises UnreadableAnswer without one."""
    if found := parsing.read_text(arguments.get(name), limit):
        return found
    message = f"{name} is missing"
    raise parsing.UnreadableAnswer(message)
