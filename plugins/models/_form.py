"""Fills in a JSON schema with what a person types: a letter for one of several, a number, or a line of text.

What does not fit is asked for again, with the reason, so that what comes out fits the schema. Known are the schemas
that dialects make: objects, lists, texts, numbers, constants, enumerations, and one of several objects.
"""

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from bot.api import Json

LETTERS = string.ascii_uppercase


class Decline(Exception):
    """The person will not answer; the message says how that was told."""


class Asker(Protocol):
    """Shows texts and reads lines."""

    def write(self, text: str) -> None:
        """Show a text."""
        ...

    async def read(self, prompt: str) -> str:
        """Return what was typed after the prompt; raises Decline."""
        ...


async def filled(schema: Mapping[str, Any], asker: Asker, name: str = "answer") -> Json:
    """Return a value that fits the schema. Raises Decline."""
    if "const" in schema:
        constant: Json = schema["const"]
        return constant
    if "enum" in schema:
        return await _enumerated(schema["enum"], asker, name)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        chosen = await one_of(name, [_title(one, nth) for nth, one in enumerate(several, 1)], asker)
        titles = {_title(one, nth): one for nth, one in enumerate(several, 1)}
        return await filled(titles[chosen], asker, name)
    kind = schema.get("type")
    if kind == "object":
        return await _object(schema, asker)
    if kind == "array":
        return await _array(schema, asker, name)
    said = f" ({schema['description']})" if schema.get("description") else ""
    return await _one(f"{name}{said}: ", schema, asker)


async def one_of(name: str, options: Sequence[str], asker: Asker) -> str:
    """Return one of the options; where there is only one, nothing is asked. A letter names it, or its own words.

    Options that are letters themselves stand for what was shown before, and are not listed again.
    """
    if len(options) == 1:
        return options[0]
    are_letters = all(option in {letter_of(place), *LETTERS} for place, option in enumerate(options))
    letters = {option if are_letters else letter_of(place): option for place, option in enumerate(options)}
    if not are_letters:
        asker.write("".join(f"  {letter}. {option}\n" for letter, option in letters.items()))
    named = {option.casefold(): option for option in options}
    while True:
        typed = await asker.read(f"{name} ({', '.join(letters)}): ")
        if found := letters.get(typed.upper().removesuffix(".")) or named.get(typed.casefold()):
            return found
        asker.write("That is none of them.\n")


def letter_of(place: int) -> str:
    """Return the letter of an option, counted from 0: A to Z, then AA, AB, ..."""
    return (LETTERS[place // 26 - 1] if place >= 26 else "") + LETTERS[place % 26]


async def _enumerated(values: Sequence[Json], asker: Asker, name: str) -> Json:
    shown = {str(value): value for value in values}
    return shown[await one_of(name, list(shown), asker)]


async def _object(schema: Mapping[str, Any], asker: Asker) -> Json:
    required, given = schema.get("required", ()), {}
    for name, part in schema.get("properties", {}).items():
        if name in required or await _agrees(f"{name}? (y, or return to leave it out): ", asker):
            given[name] = await filled(part, asker, name)
    return given


async def _array(schema: Mapping[str, Any], asker: Asker, name: str) -> Json:
    items: list[Json] = []
    least, most = schema.get("minItems", 0), schema.get("maxItems", 100)
    part = schema.get("items", {"type": "string"})
    while len(items) < most:
        more = f"another of {name}" if items else name
        if len(items) >= least and not await _agrees(f"{more}? (y, or return for no more): ", asker):
            break
        items.append(await filled(part, asker, f"{name} {len(items) + 1}"))
    return items


async def _agrees(prompt: str, asker: Asker) -> bool:
    return (await asker.read(prompt)).casefold() in {"y", "yes"}


async def _one(prompt: str, schema: Mapping[str, Any], asker: Asker) -> Json:
    read = _READERS.get(str(schema.get("type")), _text)
    while True:
        typed = await asker.read(prompt)
        try:
            return read(typed, schema)
        except ValueError as error:
            asker.write(f"{error}\n")


def _text(typed: str, schema: Mapping[str, Any]) -> Json:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 10_000)
    if not least <= len(typed) <= most:
        message = f"That has {len(typed)} characters; it should have {least} to {most}."
        raise ValueError(message)
    return typed


def _number(typed: str, schema: Mapping[str, Any]) -> Json:
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    try:
        value = float(typed.removesuffix("%")) / (100.0 if typed.endswith("%") and high <= 1 else 1.0)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and low <= value <= high):
        between = f" from {low:g} to {high:g}" if math.isfinite(low) and math.isfinite(high) else ""
        message = f"That should be a number{between}."
        raise ValueError(message)
    return value


def _integer(typed: str, schema: Mapping[str, Any]) -> Json:
    value = _number(typed, schema)
    if not isinstance(value, float) or not value.is_integer():
        message = "That should be a whole number."
        raise ValueError(message)
    return int(value)


def _yes(typed: str, _schema: Mapping[str, Any]) -> Json:
    if not re.fullmatch("(y|yes|true|n|no|false)", typed, re.IGNORECASE):
        message = "Type y or n."
        raise ValueError(message)
    return typed.casefold() in {"y", "yes", "true"}


_READERS: Mapping[str, Callable[[str, Mapping[str, Any]], Json]] = {
    "number": _number,
    "integer": _integer,
    "boolean": _yes,
}


def _title(schema: Mapping[str, Any], nth: int) -> str:
    """Return the name of one of several objects: its first constant, which tells it from the others."""
    constants = (part["const"] for part in schema.get("properties", {}).values() if "const" in part)
    return str(next(constants, schema.get("title", f"form {nth}")))
