"""Tools as JSON schemas, and how their arguments are read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from bot.api import Json, ToolDefinition, UnreadableAnswer, parsing

WordEnum = TypeVar("WordEnum", bound=StrEnum)

# The maximum length of a name, and how much of one is read before it is normalised.
NAME_CHARS, NAME_TEXT = 40, 200
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def define_tool(
    name: str, description: str, properties: Mapping[str, Json], *, required: Sequence[str] = ()
) -> ToolDefinition:
    """Return a tool whose arguments are the given properties and nothing else."""
    schema: dict[str, Json] = {
        "type": "object",
        "properties": dict(properties),
        "required": [*required],
        "additionalProperties": False,
    }
    return ToolDefinition(name=name, description=description, parameters=schema)


def text_schema(limit: int, description: str = "") -> dict[str, Json]:
    """Return the schema of a text."""
    return {"type": "string", "maxLength": limit, **({"description": description} if description else {})}


def enum_schema(words: type[StrEnum] | Sequence[str], description: str = "") -> dict[str, Json]:
    """Return the schema of one word out of a list."""
    return {"type": "string", "enum": [*map(str, words)], **({"description": description} if description else {})}


def read_enum(words: type[WordEnum], raw: Json, name: str) -> WordEnum:
    """Return the word that was sent; raises UnreadableAnswer for one that is not in the list."""
    try:
        return words(parsing.read_text(raw, 40).lower())
    except ValueError:
        message = f"{name} should be one of {', '.join(words)}, not {parsing.abbreviate_json(raw)}"
        raise UnreadableAnswer(message) from None


def require_text(arguments: Mapping[str, Json], name: str, limit: int) -> str:
    """Return a required text; raises UnreadableAnswer without one."""
    if found := parsing.read_text(arguments.get(name), limit):
        return found
    message = f"{name} is missing"
    raise UnreadableAnswer(message)


def normalize_name(raw: str) -> str:
    """Return a name normalised to small letters, digits and _, so that all spellings of a model mean the same."""
    bare = "".join(one for one in unicodedata.normalize("NFKD", raw.lower()) if not unicodedata.combining(one))
    return _NOT_IN_NAMES.sub("_", bare).strip("_")[:NAME_CHARS].rstrip("_")


def read_whole_number(arguments: Mapping[str, Json], name: str, most: int) -> int:
    """Return a whole number from 1 to ``most``, the default; raises UnreadableAnswer for any other value."""
    if arguments.get(name) is None:
        return most
    given = parsing.read_number(arguments[name], name)
    if not given.is_integer() or not 1 <= given <= most:
        message = f"{name} should be a whole number from 1 to {most}, not {parsing.abbreviate_json(arguments[name])}"
        raise UnreadableAnswer(message)
    return int(given)
