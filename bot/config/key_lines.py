"""The line of each key in a TOML or JSON text, so that an error can name it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

KeyPath = tuple[str | int, ...]

# No key of ours has more parts; the cost of parsing one, or of keeping its place, is quadratic.
MAX_KEY_PARTS = 30
_JSON_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

# Comments and strings as wholes, also unclosed ones, so that each character is read once.
_TOML_TOKENS = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?(?:\"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?"""
    r"""|[\[\]{}.,=\n]|[^\[\]{}.,=\n#"']+""",
    re.DOTALL,
)


def find_line(key: KeyPath, lines: Mapping[KeyPath, int]) -> int | None:
    """Return the line of a key, or of the nearest table around it that has one."""
    return next((lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in lines), None)


def find_deep_key_line(text: str) -> int | None:
    """Return the line of the first key of TOML, valid or not, that has too many parts; None if there is none."""
    line, parts = 1, 0
    for token in _TOML_TOKENS.finditer(text):
        mark = token.group()
        parts = parts + 1 if mark == "." else 0 if mark in "[]{},=\n" else parts
        if parts >= MAX_KEY_PARTS:
            return line
        line += mark.count("\n")
    return None


def map_toml_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of each key and table of valid TOML, entries of arrays of tables by their number."""
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    prefix: KeyPath = ()
    for line, statement in _split_statements(text):
        table = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            prefix = _header_key(table, counts)
            for end in range(1, len(prefix) + 1):
                found.setdefault(prefix[:end], line)
        else:
            for key in _key_paths(table):
                found.setdefault((*prefix, *key), line)
    return found


def map_json_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of each key and entry of valid JSON."""
    found: dict[KeyPath, int] = {}
    # The open containers: the present key or number of an entry; None awaits a name.
    path: list[str | int | None] = []
    line, seen = 1, 0
    for token in _JSON_TOKENS.finditer(text):
        line, seen = line + text.count("\n", seen, token.start()), token.start()
        mark = token.group()
        if mark in "}]":
            path.pop()
        elif mark == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif mark != ":" and path and path[-1] is None:
            path[-1] = mark[1:-1]
            if len(path) <= MAX_KEY_PARTS:
                found[_known_path(path)] = line
        elif mark != ":" and 0 < len(path) <= MAX_KEY_PARTS and isinstance(path[-1], int):
            found.setdefault(_known_path(path), line)
        if mark in "{[":
            path.append(None if mark == "{" else 0)
    return found


def _known_path(path: list[str | int | None]) -> KeyPath:
    return tuple(part for part in path if part is not None)


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Split valid TOML into its statements, each of whole lines."""
    line, begin, depth = 1, 0, 0
    for token in _TOML_TOKENS.finditer(text):
        mark = token.group()
        depth += (mark in "[{") - (mark in "]}")
        if mark == "\n" and not depth:
            statement = text[begin : token.end()]
            yield line, statement
            line, begin = line + statement.count("\n"), token.end()
    yield line, text[begin:]


def _header_key(header: Mapping[str, Any], counts: dict[KeyPath, int]) -> KeyPath:
    """Return the key of a header parsed alone; [[a]] begins the next entry of a, [a.b] belongs to the last one of a."""
    key: KeyPath = ()
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


def _key_paths(table: Mapping[str, Any], prefix: KeyPath = ()) -> Iterator[KeyPath]:
    for name, value in table.items():
        key = (*prefix, name)
        yield key
        if isinstance(value, dict) and len(key) < MAX_KEY_PARTS:
            yield from _key_paths(value, key)
