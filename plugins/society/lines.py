"""On which line of a TOML or JSON text each key stands, so that an error can name the place to mend."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Key = tuple[str | int, ...]

# A key of more parts is none that a scenario has; to parse it, or to keep its place, would take the square of them.
MOST_PARTS = 30
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

# Comments and texts as wholes, also those that are never closed, so that each sign is looked at once.
_TOML = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?(?:\"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?"""
    r"""|[\[\]{}.,=\n]|[^\[\]{}.,=\n#"']+""",
    re.DOTALL,
)


def line_of(key: Key, lines: Mapping[Key, int]) -> int:
    """Return the line of a key, of the nearest table around it that has one, or 1."""
    return next((lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in lines), 1)


def deep_line(text: str) -> int | None:
    """Return the line of the first key of TOML, valid or not, that has too many parts; None where there is none."""
    line, parts = 1, 0
    for token in _TOML.finditer(text):
        mark = token.group()
        parts = parts + 1 if mark == "." else 0 if mark in "[]{},=\n" else parts
        if parts >= MOST_PARTS:
            return line
        line += mark.count("\n")
    return None


def toml_lines(text: str) -> dict[Key, int]:
    """Return the line (from 1) of each key and table of valid TOML, entries of arrays of tables by their number."""
    found: dict[Key, int] = {}
    counts: dict[Key, int] = {}
    prefix: Key = ()
    for line, statement in _statements(text):
        table = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            prefix = _place(table, counts)
            for end in range(1, len(prefix) + 1):
                found.setdefault(prefix[:end], line)
        else:
            for key in _paths(table):
                found.setdefault((*prefix, *key), line)
    return found


def json_lines(text: str) -> dict[Key, int]:
    """Return the line (from 1) of each key and entry of valid JSON."""
    found: dict[Key, int] = {}
    # What is open: the key or number of the entry that is under way; a name is awaited where it is None.
    path: list[str | int | None] = []
    line, seen = 1, 0
    for token in _TOKENS.finditer(text):
        line, seen = line + text.count("\n", seen, token.start()), token.start()
        mark = token.group()
        if mark in "}]":
            path.pop()
        elif mark == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif mark != ":" and path and path[-1] is None:
            path[-1] = mark[1:-1]
            if len(path) <= MOST_PARTS:
                found[_known(path)] = line
        elif mark != ":" and 0 < len(path) <= MOST_PARTS and isinstance(path[-1], int):
            found.setdefault(_known(path), line)
        if mark in "{[":
            path.append(None if mark == "{" else 0)
    return found


def _known(path: list[str | int | None]) -> Key:
    return tuple(part for part in path if part is not None)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Split valid TOML into its statements, each of whole lines."""
    line, begin, depth = 1, 0, 0
    for token in _TOML.finditer(text):
        mark = token.group()
        depth += (mark in "[{") - (mark in "]}")
        if mark == "\n" and not depth:
            statement = text[begin : token.end()]
            yield line, statement
            line, begin = line + statement.count("\n"), token.end()
    yield line, text[begin:]


def _place(header: Mapping[str, Any], counts: dict[Key, int]) -> Key:
    """Return the key of a header parsed alone; [[a]] begins the next entry of a, [a.b] stands in the last one of a."""
    key: Key = ()
    table: Any = header
    while table:
        name, inner = next(iter(table.items()))
        key = (*key, name)
        if isinstance(inner, list):
            counts[key] = counts.get(key, -1) + 1
        if key in counts:
            key = (*key, counts[key])
        table = inner[0] if isinstance(inner, list) else inner
    return key


def _paths(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[Key]:
    for name, value in table.items():
        key = (*prefix, name)
        yield key
        if isinstance(value, dict) and len(key) < MOST_PARTS:
            yield from _paths(value, key)
