"""Reads scenario files and reports their mistakes: file, line, key, and what to write instead."""

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

from bot.api import (
    MAX_KEY_PARTS,
    ConfigError,
    KeyPath,
    NotFoundError,
    find_deep_key_line,
    find_line,
    map_json_lines,
    map_toml_lines,
    read_text_file,
    suggest_names,
)
from plugins.society.published_scenarios import TranslatedScenario, translate_scenario
from plugins.society.scenario import CourtScenario
from plugins.society.scenario_checks import find_doubts, find_faults

# So much an error shows at most: faults, and characters of one.
MAX_FAULTS_SHOWN, MAX_FAULT_CHARS = 30, 300
# The published trial of ten steps, and the one of the paper with all 28.
SHIPPED_SCENARIOS = ("ten", "full")
_FAULT_TEXTS = {
    "missing": "is missing",
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "string_type": "should be text",
}


@cache
def load_shipped_scenario(name: str) -> CourtScenario:
    """Return a scenario that comes with the package; raises NotFoundError for another name."""
    return parse_scenario(read_shipped_text(name), f"{name}.toml")


def read_shipped_text(name: str) -> str:
    """Return the file of a scenario that comes with the package; raises NotFoundError for another name."""
    if name not in SHIPPED_SCENARIOS:
        suggestion = suggest_names(name, SHIPPED_SCENARIOS)
        message = f"no scenario {name} comes with the package; {suggestion}, or name a .toml or .json file"
        raise NotFoundError(message)
    folder = files("plugins.society") / "scenarios"
    # Both have the same agents.
    return "\n".join((folder / f"{part}.toml").read_text(encoding="utf-8") for part in (name, "agents"))


def read_scenario_file(path: Path) -> str:
    """Return the text of a scenario file; raises ConfigError if it cannot be read."""
    return read_text_file(path, "a scenario")


def parse_scenario(text: str, name: str) -> CourtScenario:
    """Return the scenario in a text, as JSON if the name ends so, else as TOML.

    Raises ConfigError with one line for each of the first faults, naming file, line and key.
    """
    table, lines = _parse_table(text, name)
    translated = translate_scenario(table)
    try:
        scenario = CourtScenario.model_validate(translated.table)
    except ValidationError as error:
        complaints = [
            (_fault_key(fault["loc"], table, translated), _fault_text(fault))
            for fault in error.errors(include_url=False)[:MAX_FAULTS_SHOWN]
        ]
        raise ConfigError(_format_faults(name, lines, complaints)) from None
    faults = islice(find_faults(scenario), MAX_FAULTS_SHOWN)
    if found := [(_key_as_written(key, table, translated), why) for key, why in faults]:
        raise ConfigError(_format_faults(name, lines, found))
    return scenario


def find_warnings(text: str, name: str) -> tuple[str, ...]:
    """Return a line for each of the first likely mistakes, after one for each part that was translated.

    Raises ConfigError as ``parse_scenario`` does.
    """
    scenario = parse_scenario(text, name)
    table, lines = _parse_table(text, name)
    translated = translate_scenario(table)
    found = [
        (_key_as_written(key, table, translated), f"warning: {why}")
        for key, why in islice(find_doubts(scenario), MAX_FAULTS_SHOWN)
    ]
    notes = (f"{name}: translated: {note}" for note in translated.notes)
    return (*notes, *_format_faults(name, lines, found).splitlines())


def _parse_table(text: str, name: str) -> tuple[dict[str, Any], Mapping[KeyPath, int]]:
    """Return the table in a text, and the line of each key; raises ConfigError."""
    is_json = name.lower().endswith(".json")
    if not is_json and (line := find_deep_key_line(text)) is not None:
        message = f"{name}:{line}: a key has more than {MAX_KEY_PARTS} parts"
        raise ConfigError(message)
    try:
        table = json.loads(text) if is_json else tomllib.loads(text)
        lines = (map_json_lines if is_json else map_toml_lines)(text)
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


def _format_faults(name: str, lines: Mapping[KeyPath, int], found: Iterable[tuple[KeyPath, str]]) -> str:
    return "\n".join(
        f"{name}:{find_line(key, lines) or 1}: " + f"{format_key(key)}: {why}"[:MAX_FAULT_CHARS] for key, why in found
    )


def format_key(key: KeyPath) -> str:
    """Return a key as one writes it: steps[3].message."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".") or "scenario"


def _fault_key(loc: tuple[str | int, ...], table: Mapping[str, Any], translated: TranslatedScenario) -> KeyPath:
    return _key_as_written(tuple(part for part in loc if part != "[key]"), table, translated)


def _key_as_written(key: KeyPath, table: Mapping[str, Any], translated: TranslatedScenario) -> KeyPath:
    """Return the key of a scenario as the file has it: under its name there, without steps that were added."""
    if key[:1] != ("steps",) or "scenario" not in table:
        return key
    index = tuple(part - translated.inserted if isinstance(part, int) else part for part in key[1:2])
    return ("scenario", *index, *key[2:])


def _fault_text(fault: Any) -> str:  # noqa: ANN401 - an error as pydantic tells it
    kind, key = fault["type"], str(fault["loc"][-1])
    if kind == "extra_forbidden":
        return f"there is no such key; {suggest_names(key, _all_keys())}"
    if kind == "string_pattern_mismatch":
        return "should be lower-case letters, digits and single underscores"
    return _FAULT_TEXTS.get(kind) or str(fault["msg"]).replace("Input should", "should").removeprefix("Value error, ")


@cache
def _all_keys() -> tuple[str, ...]:
    """Return all keys that any part of a scenario has."""
    schema = CourtScenario.model_json_schema()
    parts = (schema, *schema["$defs"].values())
    return tuple(sorted({name for part in parts for name in part.get("properties", {})}))
