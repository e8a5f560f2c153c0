"""Fills in a JSON schema from what a person types: a letter for an option, a number, or a line of text.

An answer that does not fit is requested again, with the reason.
"""

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from bot.api import Json

OPTION_LETTERS = string.ascii_uppercase


class AnswerDeclinedError(Exception):
    """The person declines to answer; the message says how."""


class LinePrompter(Protocol):
    """Shows texts and reads lines."""

    def show_text(self, text: str) -> None:
        """Show a text."""
        ...

    async def read_line(self, prompt: str) -> str:
        """Return what was typed after the prompt; raises AnswerDeclinedError."""
        ...


async def fill_schema(schema: Mapping[str, Any], asker: LinePrompter, name: str = "answer") -> Json:
    """Return a value that fits the schema. Raises AnswerDeclinedError."""
    if "const" in schema:
        constant: Json = schema["const"]
        return constant
    if "enum" in schema:
        return await _choose_value(schema["enum"], asker, name)
    if several := schema.get("anyOf") or schema.get("oneOf"):
        chosen = await choose_option(name, [_option_title(one, nth) for nth, one in enumerate(several, 1)], asker)
        titles = {_option_title(one, nth): one for nth, one in enumerate(several, 1)}
        return await fill_schema(titles[chosen], asker, name)
    kind = schema.get("type")
    if kind == "object":
        return await _fill_object(schema, asker)
    if kind == "array":
        return await _fill_array(schema, asker, name)
    description = f" ({schema['description']})" if schema.get("description") else ""
    return await _read_value(f"{name}{description}: ", schema, asker)


async def choose_option(name: str, options: Sequence[str], asker: LinePrompter) -> str:
    """Return one of the options; a single option is returned without a question. A letter names it, or its own words.

    Options that are letters themselves refer to what was shown before, and are not listed again.
    """
    if len(options) == 1:
        return options[0]
    are_letters = all(option in {option_letter(place), *OPTION_LETTERS} for place, option in enumerate(options))
    letters = {option if are_letters else option_letter(place): option for place, option in enumerate(options)}
    if not are_letters:
        asker.show_text("".join(f"  {letter}. {option}\n" for letter, option in letters.items()))
    named = {option.casefold(): option for option in options}
    while True:
        typed = await asker.read_line(f"{name} ({', '.join(letters)}): ")
        if found := letters.get(typed.upper().removesuffix(".")) or named.get(typed.casefold()):
            return found
        asker.show_text("That is none of them.\n")


def option_letter(place: int) -> str:
    """Return the letter of an option, counted from 0: A to Z, then AA, AB, ..."""
    return (OPTION_LETTERS[place // 26 - 1] if place >= 26 else "") + OPTION_LETTERS[place % 26]


async def _choose_value(values: Sequence[Json], asker: LinePrompter, name: str) -> Json:
    shown = {str(value): value for value in values}
    return shown[await choose_option(name, list(shown), asker)]


async def _fill_object(schema: Mapping[str, Any], asker: LinePrompter) -> Json:
    required, given = schema.get("required", ()), {}
    for name, part in schema.get("properties", {}).items():
        if name in required or await _is_confirmed(f"{name}? (y, or return to skip it): ", asker):
            given[name] = await fill_schema(part, asker, name)
    return given


async def _fill_array(schema: Mapping[str, Any], asker: LinePrompter, name: str) -> Json:
    items: list[Json] = []
    minimum, maximum = schema.get("minItems", 0), schema.get("maxItems", 100)
    part = schema.get("items", {"type": "string"})
    while len(items) < maximum:
        more = f"another of {name}" if items else name
        if len(items) >= minimum and not await _is_confirmed(f"{more}? (y, or return for no more): ", asker):
            break
        items.append(await fill_schema(part, asker, f"{name} {len(items) + 1}"))
    return items


async def _is_confirmed(prompt: str, asker: LinePrompter) -> bool:
    return (await asker.read_line(prompt)).casefold() in {"y", "yes"}


async def _read_value(prompt: str, schema: Mapping[str, Any], asker: LinePrompter) -> Json:
    read = _PARSERS.get(str(schema.get("type")), _parse_text)
    while True:
        typed = await asker.read_line(prompt)
        try:
            return read(typed, schema)
        except ValueError as error:
            asker.show_text(f"{error}\n")


def _parse_text(typed: str, schema: Mapping[str, Any]) -> Json:
    minimum, maximum = schema.get("minLength", 0), schema.get("maxLength", 10_000)
    if not minimum <= len(typed) <= maximum:
        message = f"That has {len(typed)} characters; it should have {minimum} to {maximum}."
        raise ValueError(message)
    return typed


def _parse_number(typed: str, schema: Mapping[str, Any]) -> Json:
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


def _parse_integer(typed: str, schema: Mapping[str, Any]) -> Json:
    value = _parse_number(typed, schema)
    if not isinstance(value, float) or not value.is_integer():
        message = "That should be a whole number."
        raise ValueError(message)
    return int(value)


def _parse_boolean(typed: str, _schema: Mapping[str, Any]) -> Json:
    if not re.fullmatch("(y|yes|true|n|no|false)", typed, re.IGNORECASE):
        message = "Type y or n."
        raise ValueError(message)
    return typed.casefold() in {"y", "yes", "true"}


_PARSERS: Mapping[str, Callable[[str, Mapping[str, Any]], Json]] = {
    "number": _parse_number,
    "integer": _parse_integer,
    "boolean": _parse_boolean,
}


def _option_title(schema: Mapping[str, Any], nth: int) -> str:
    """Return the name of one of several objects: its first constant, which tells it from the others."""
    constants = (part["const"] for part in schema.get("properties", {}).values() if "const" in part)
    return str(next(constants, schema.get("title", f"form {nth}")))
