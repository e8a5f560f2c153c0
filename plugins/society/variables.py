"""The variable store of a trial, and the placeholders by which messages read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from bot.api import quoted

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
# What every trial knows by itself: ``points_for`` and ``points_against`` are all that were made with their sources,
# ``reasons`` is what the other jurors said, for the juror who reads it, ``profile`` who that is.
BUILT_IN = frozenset(
    (
        *("title", "cutoff", "high_side", "low_side", "jurors", "turn", "turns", "step"),
        *("votes", "reasons", "profile", "points_for", "points_against"),
    )
)
UNSET = "(nothing yet)"


def placeholders(text: str) -> Iterator[str]:
    """Yield the names of the placeholders in a text."""
    return (found.group(1) for found in _PLACEHOLDER.finditer(text))


def cycle(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of values that stand in one another for ever, in order; empty where there are none."""

    def walk(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if name in path:
            return (*path[path.index(name) :], name)
        inner = (part for part in placeholders(values[name]) if part in values)
        return next((found for part in inner if (found := walk(part, (*path, name)))), ())

    return next((found for name in values if (found := walk(name, ()))), ())


@dataclass(frozen=True, slots=True)
class Value:
    """What a variable holds; ``own`` is what code or the scenario's author wrote, everything else is fenced."""

    text: str
    own: bool = False


@dataclass(slots=True)
class Variables:
    """The store. ``pinned`` variables keep their value whatever a step would store: an intervention."""

    values: dict[str, Value] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()

    def store(self, name: str | None, text: str, *, own: bool = False) -> None:
        """Keep what came of a step, unless the variable is pinned."""
        if name is not None and name not in self.pinned:
            self.values[name] = Value(text, own=own)

    def fill(self, text: str, more: Mapping[str, Value], unset: Callable[[str], None], *, fenced: bool = True) -> str:
        """Return a text with its placeholders filled in, in one pass: what is filled in is never read again.

        ``unset`` is told each name that nothing was stored under yet. Without ``fenced`` foreign words come bare, for
        what no model reads.
        """

        def put(found: re.Match[str]) -> str:
            name = found.group(1)
            value = (None if name in self.pinned else more.get(name)) or self.values.get(name)
            if value is None:
                unset(name)
                return UNSET if fenced else ""
            return value.text if value.own or not fenced else quoted(value.text, name)

        return _PLACEHOLDER.sub(put, text)


def resolved(values: Mapping[str, str]) -> dict[str, str]:
    """Return values with those placeholders filled in that name other values; there must be no cycle."""

    def whole(name: str) -> str:
        return _PLACEHOLDER.sub(
            lambda found: whole(found.group(1)) if found.group(1) in values else found.group(), values[name]
        )

    return {name: whole(name) for name in values}
