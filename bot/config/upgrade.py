"""Rewrites config.toml with the new names of renamed settings; comments, order and layout stay.

A scanner finds every part of every key, in headers, dotted keys and inline tables. The result is verified: the new text
must parse to the old values under the new names.
"""

import re
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from bot.config.key_lines import KeyPath
from bot.config.validation import current_key, dotted_key
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass

SettingsModels = Mapping[KeyPath, type[BaseModel]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedKey:
    """A key that was rewritten: the line (from 1), the old key and the new one."""

    line: int
    old: str
    new: str


def rename_keys(value: Any, models: SettingsModels, key: KeyPath = ()) -> Any:  # noqa: ANN401 - any value of a table
    """Return a value with the new names of its keys; raises ConfigError if a key is there under both names."""
    if isinstance(value, list):
        return [rename_keys(part, models, (*key, index)) for index, part in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    renamed: dict[str, Any] = {}
    for name, part in value.items():
        current = current_key((*key, name), models)
        if current[-1] != name and current[-1] in value:
            message = f"{dotted_key((*key, name))} is now {current[-1]}, which is set too; remove one of them"
            raise ConfigError(message)
        renamed[str(current[-1])] = rename_keys(part, models, (*key, name))
    return renamed


def upgrade_text(text: str, models: SettingsModels) -> tuple[str, Sequence[RenamedKey]]:
    """Return the TOML text with the new names, and the renamed keys.

    ``models`` are the settings of plugins by their key, such as ``("venues", "lantern", "settings")``. Raises
    ConfigError for a key that is there under both names, and for a text whose keys the scanner cannot find.
    """
    expected = rename_keys(tomllib.loads(text), models)
    pieces, end, changes = [], 0, []
    for place in _KeyScanner(text).places():
        current = current_key(place.key, models)
        if current[-1] != place.key[-1]:
            pieces += [text[end : place.start], str(current[-1])]
            end = place.end
            line = text.count("\n", 0, place.start) + 1
            changes.append(RenamedKey(line=line, old=dotted_key(place.key), new=dotted_key(current)))
    upgraded = "".join((*pieces, text[end:]))
    if not _is_same(upgraded, expected):
        names = ", ".join(f"{change.old} to {change.new}" for change in changes)
        message = f"cannot be rewritten safely; rename by hand: {names}"
        raise ConfigError(message)
    return upgraded, changes


def _is_same(text: str, expected: object) -> bool:
    try:
        # As text, since a value that is not a number does not equal itself.
        return repr(tomllib.loads(text)) == repr(expected)
    except tomllib.TOMLDecodeError:
        return False


@dataclass(frozen=True, slots=True)
class _KeyPlace:
    key: KeyPath
    start: int
    end: int


_SPACE = re.compile(r"[ \t]*")
# Between statements, and between the entries of a list or an inline table.
_GAP = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|(?!""").)*"""(?:"{0,2})' + r"|'''(?:(?!''').)*'''(?:'{0,2})" + r'|"(?:\\.|[^"\\])*"' + r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]+")


class _KeyScanner:
    """Yields every part of every key of valid TOML, with the key up to this part, without indexes of lists."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def places(self) -> Iterator[_KeyPlace]:
        """Yield the places in the order of the text."""
        header: KeyPath = ()
        self._skip(_GAP)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                self._at += 1 + self._text.startswith("[[", self._at)
                header = yield from self._key(())
                self._at += 1 + self._text.startswith("]]", self._at)
            else:
                yield from self._pair(header)
            self._skip(_GAP)

    def _pair(self, under: KeyPath) -> Iterator[_KeyPlace]:
        key = yield from self._key(under)
        self._at += 1
        self._skip(_SPACE)
        yield from self._value(key)

    def _key(self, under: KeyPath) -> Generator[_KeyPlace, None, KeyPath]:
        """Yield the parts of a dotted key, and return the key."""
        while True:
            self._skip(_SPACE)
            start = self._at
            quoted = self._text[start] in "\"'"
            self._skip(_STRING if quoted else _BARE_KEY)
            part = self._text[start : self._at]
            under = (*under, next(iter(tomllib.loads(f"{part} = 0"))) if quoted else part)
            yield _KeyPlace(under, start, self._at)
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return under
            self._at += 1

    def _value(self, key: KeyPath) -> Iterator[_KeyPlace]:
        opening = self._text[self._at]
        if opening not in "[{":
            self._skip(_STRING if opening in "\"'" else _BARE_VALUE)
            return
        self._at += 1
        self._skip(_GAP)
        while self._text[self._at] not in "]}":
            yield from self._value(key) if opening == "[" else self._pair(key)
            self._skip(_GAP)
        self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        self._at = self._at if found is None else found.end()
