"""Reads scenario files and tells what is wrong with them: file, line, key, and what to write instead."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bot.api import ConfigError, NotFound
from plugins.society.checks import doubts, faults
from plugins.society.lines import MOST_PARTS, Key, deep_line, json_lines, line_of, toml_lines
from plugins.society.names import instead
from plugins.society.scenario import Scenario

MAX_BYTES = 64 * 1024
# Who has so many faults to mend asks again.
MOST_TOLD = 50
# The published trial of ten steps, and the one of the paper with all 28.
SHIPPED = ("ten", "full")
_TABLES = {
    "missing": "is missing",
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "string_type": "should be text",
}


@cache
def shipped(name: str) -> Scenario:
    """Return a scenario that comes with the package; raises NotFound for another name."""
    return parsed(shipped_text(name), f"{name}.toml")


def shipped_text(name: str) -> str:
    """Return the file of a scenario that comes with the package; raises NotFound for another name."""
    if name not in SHIPPED:
        message = f"no scenario {name} comes with the package; {instead(name, SHIPPED)}, or name a .toml or .json file"
        raise NotFound(message)
    return (files("plugins.society") / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")


def read_text(path: Path) -> str:
    """Return the text of a scenario file; raises ConfigError where it cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise ConfigError(message) from error
    if len(raw) > MAX_BYTES:
        message = f"{path}: is larger than {MAX_BYTES} bytes, which is too much for a scenario"
        raise ConfigError(message)
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"{path}:{line}: is not UTF-8 text"
        raise ConfigError(message) from error


def parsed(text: str, name: str) -> Scenario:
    """Return the scenario that a text holds, as JSON where the name ends so, else as TOML.

    Raises ConfigError with one line for each of the first faults, naming file, line and key.
    """
    table, lines = _read(text, name)
    try:
        scenario = Scenario.model_validate(table)
    except ValidationError as error:
        told = [(_key(fault["loc"], table), _said(fault)) for fault in error.errors(include_url=False)[:MOST_TOLD]]
        raise ConfigError(_told(name, lines, told)) from None
    if found := [(_written(key, table), why) for key, why in islice(faults(scenario), MOST_TOLD)]:
        raise ConfigError(_told(name, lines, found))
    return scenario


def warnings(text: str, name: str) -> tuple[str, ...]:
    """Return a line for each of the first things that are hardly meant so; raises ConfigError as ``parsed`` does."""
    scenario = parsed(text, name)
    table, lines = _read(text, name)
    found = [(_written(key, table), f"warning: {why}") for key, why in islice(doubts(scenario), MOST_TOLD)]
    return tuple(_told(name, lines, found).splitlines())


def _read(text: str, name: str) -> tuple[dict[str, Any], Mapping[Key, int]]:
    """Return the table that a text holds, and on which line each key stands; raises ConfigError."""
    is_json = name.lower().endswith(".json")
    if not is_json and (line := deep_line(text)) is not None:
        message = f"{name}:{line}: a key has more than {MOST_PARTS} parts"
        raise ConfigError(message)
    try:
        table = json.loads(text) if is_json else tomllib.loads(text)
        lines = (json_lines if is_json else toml_lines)(text)
    except RecursionError as error:
        message = f"{name}: is nested too deeply"
        raise ConfigError(message) from error
    except ValueError as error:
        message = f"{name}: is not valid {'JSON' if is_json else 'TOML'}: {error}"
        raise ConfigError(message) from error
    if not isinstance(table, dict):
        message = f"{name}:1: should be a table (or object)"
        raise ConfigError(message)
    return table, lines


def _told(name: str, lines: Mapping[Key, int], found: Iterable[tuple[Key, str]]) -> str:
    return "\n".join(f"{name}:{line_of(key, lines)}: {dotted(key)}: {why}" for key, why in found)


def dotted(key: Key) -> str:
    """Return a key as one writes it: steps[3].message."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".") or "scenario"


def _key(loc: tuple[str | int, ...], table: Mapping[str, Any]) -> Key:
    return _written(tuple(part for part in loc if part != "[key]"), table)


def _written(key: Key, table: Mapping[str, Any]) -> Key:
    """Return the key under the name that the file uses where there are two."""
    return ("scenario", *key[1:]) if key[:1] == ("steps",) and "scenario" in table else key


def _said(fault: Any) -> str:  # noqa: ANN401 - an error as pydantic tells it
    kind, key = fault["type"], str(fault["loc"][-1])
    if kind == "extra_forbidden":
        return f"there is no such key; {instead(key, _keys())}"
    if kind == "string_pattern_mismatch":
        return "should be lower-case letters, digits and single underscores"
    return _TABLES.get(kind) or str(fault["msg"]).replace("Input should", "should").removeprefix("Value error, ")


@cache
def _keys() -> tuple[str, ...]:
    """Return all keys that any part of a scenario has."""
    schema = Scenario.model_json_schema()
    parts = (schema, *schema["$defs"].values())
    return tuple(sorted({name for part in parts for name in part.get("properties", {})}))
