"""config.toml as text and table, with the line on which each key stands."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bot.errors import ConfigError

Key = tuple[str | int, ...]
# Finding lines re-reads each statement; a larger file is no configuration.
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Document:
    """A parsed file; the empty one stands for having no file at all."""

    path: Path | None = None
    text: str = ""
    table: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def lines(self) -> Mapping[Key, int]:
        """The line (from 1) of each key and table."""
        found: dict[Key, int] = {}
        for key, line in _keys(self.text):
            found.setdefault(key, line)
        return found

    def line(self, key: Key) -> int | None:
        """Return the line of the key, or of the nearest table around it that has one."""
        return next((self.lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in self.lines), None)


def read_document(path: Path) -> Document:
    """Read and parse a TOML file; raises ConfigError naming file and line where that fails."""
    try:
        raw = _bytes(path)
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        table = tomllib.loads(text)
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise ConfigError(message) from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"{path}:{line}: is not UTF-8 text"
        raise ConfigError(message) from error
    except tomllib.TOMLDecodeError as error:
        message = f"{path}: is not valid TOML: {error}"
        raise ConfigError(message) from error
    except RecursionError as error:
        message = f"{path}: is nested too deeply"
        raise ConfigError(message) from error
    return Document(path=path, text=text, table=table)


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        message = f"{path}: is larger than {MAX_BYTES} bytes, which is too much for a configuration"
        raise ConfigError(message)
    return raw


def _keys(text: str) -> Iterator[tuple[Key, int]]:
    prefix: Key = ()
    for line, statement in _statements(text):
        table = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            prefix = _header(table)
            yield from ((prefix[:end], line) for end in range(1, len(prefix) + 1))
        else:
            yield from (((*prefix, *key), line) for key in _paths(table))


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Split valid TOML into its statements: the shortest runs of whole lines that are valid by themselves."""
    start, statement = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        statement += line + "\n"
        try:
            tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        yield start, statement
        start, statement = number + 1, ""


def _header(table: Mapping[str, Any]) -> Key:
    """Return the key of a table header parsed alone: [a.b] is {a: {b: {}}} and [[a]] is {a: [{}]}."""
    key: Key = ()
    while table:
        name, inner = next(iter(table.items()))
        key = (*key, name)
        table = inner[0] if isinstance(inner, list) else inner
    return key


def _paths(table: Mapping[str, Any]) -> Iterator[Key]:
    for name, value in table.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *key) for key in _paths(value))
