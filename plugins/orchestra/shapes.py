"""The shapes of arguments: tools as JSON schemas, and how words out of a list are read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from bot.api import Json, Misread, Tool, reading

W = TypeVar("W", bound=StrEnum)

# How long a name is kept, and what is read of one before it is brought into form.
NAME_CHARS, NAME_TEXT = 40, 200
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def described(name: str, description: str, properties: Mapping[str, Json], *, required: Sequence[str] = ()) -> Tool:
    """Return a tool whose arguments are the given properties and nothing else."""
    schema: dict[str, Json] = {
        "type": "object",
        "properties": dict(properties),
        "required": [*required],
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=schema)


def text_of(limit: int, description: str = "") -> dict[str, Json]:
    """Return the schema of a text."""
    return {"type": "string", "maxLength": limit, **({"description": description} if description else {})}


def words_of(words: type[StrEnum] | Sequence[str], description: str = "") -> dict[str, Json]:
    """Return the schema of one word out of a list."""
    return {"type": "string", "enum": [*map(str, words)], **({"description": description} if description else {})}


def one_of(words: type[W], raw: Json, name: str) -> W:
    """Return the word that was sent; raises Misread for one that is not in the list."""
    try:
        return words(reading.text(raw, 40).lower())
    except ValueError:
        message = f"{name} should be one of {', '.join(words)}, not {reading.short(raw)}"
        raise Misread(message) from None


def wanted(arguments: Mapping[str, Json], name: str, limit: int) -> str:
    """Return a text that must be there; raises Misread without one."""
    if found := reading.text(arguments.get(name), limit):
        return found
    message = f"{name} is missing"
    raise Misread(message)


def plain_name(raw: str) -> str:
    """Return a name as it is kept, in small letters, digits and _: however a model writes it, it means the same."""
    bare = "".join(one for one in unicodedata.normalize("NFKD", raw.lower()) if not unicodedata.combining(one))
    return _NOT_IN_NAMES.sub("_", bare).strip("_")[:NAME_CHARS].rstrip("_")


def whole(arguments: Mapping[str, Json], name: str, most: int) -> int:
    """Return a whole number from 1 to ``most``, which it is where none was sent; raises Misread for any other."""
    if arguments.get(name) is None:
        return most
    given = reading.number(arguments[name], name)
    if not given.is_integer() or not 1 <= given <= most:
        message = f"{name} should be a whole number from 1 to {most}, not {reading.short(arguments[name])}"
        raise Misread(message)
    return int(given)
