"""The variable store of a trial, and the placeholders by which messages read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from bot.api import fence_text

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
# What every trial knows by itself: ``points_for`` and ``points_against`` are all points with their sources,
# ``reasons`` are the statements of the other jurors, for the juror who reads them, ``profile`` is its profile.
BUILT_IN = frozenset(
    (
        *("title", "cutoff", "high_side", "low_side", "jurors", "turn", "turns", "step"),
        *("votes", "reasons", "profile", "points_for", "points_against"),
    )
)
UNSET_TEXT = "(nothing yet)"
# With all values filled in; an author's text of this length leaves room for the statements of the trial.
MAX_FILLED_CHARS = 40_000
# The words of a jury of 25 are longer than the usual limit of a fence, and none is left out.
MAX_VALUE_CHARS = 2**20


def find_placeholders(text: str) -> Iterator[str]:
    """Yield the names of the placeholders in a text."""
    return (found.group(1) for found in _PLACEHOLDER.finditer(text))


def find_cycle(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of values that contain one another in a cycle, in order; empty if there are none."""
    try:
        _dependency_order(values).prepare()
    except CycleError as error:
        # Listed from the inner value to the outer one, its first name again at the end.
        names = [*reversed(error.args[1][1:])]
        places = {name: place for place, name in enumerate(values)}
        first = names.index(min(names, key=places.__getitem__))
        return (*names[first:], *names[:first], names[first])
    return ()


def filled_lengths(values: Mapping[str, str]) -> dict[str, int]:
    """Return the length of each value with the others filled in, at most one above the limit; no cycle allowed."""
    lengths: dict[str, int] = {}
    for name in _dependency_order(values).static_order():
        lengths[name] = filled_length(values[name], lengths)
    return lengths


def filled_length(text: str, lengths: Mapping[str, int]) -> int:
    """Return the length of a text with its values filled in, at most one above the limit."""
    counted = Counter(find_placeholders(text))
    grown = sum(count * (lengths[name] - len(name) - 2) for name, count in counted.items() if name in lengths)
    return min(len(text) + grown, MAX_FILLED_CHARS + 1)


def _dependency_order(values: Mapping[str, str]) -> TopologicalSorter[str]:
    inner = {name: dict.fromkeys(find_placeholders(text)) for name, text in values.items()}
    return TopologicalSorter({name: [part for part in parts if part in values] for name, parts in inner.items()})


@dataclass(frozen=True, slots=True)
class VariableValue:
    """The value of a variable; ``is_trusted`` if code or the scenario's author wrote it, everything else is fenced."""

    text: str
    is_trusted: bool = False


@dataclass(slots=True)
class VariableStore:
    """The store. ``pinned`` variables keep their value whatever a step would store: an intervention."""

    values: dict[str, VariableValue] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()

    def store(self, name: str | None, text: str, *, own: bool = False) -> None:
        """Store the result of a step, unless the variable is pinned."""
        if name is not None and name not in self.pinned:
            self.values[name] = VariableValue(text, is_trusted=own)

    def pinned_value(self, name: str | None) -> VariableValue | None:
        """Return the value of a pinned variable, None for any other."""
        return self.values.get(name) if name is not None and name in self.pinned else None

    def fill(
        self, text: str, more: Mapping[str, VariableValue], unset: Callable[[str], None], *, fenced: bool = True
    ) -> str:
        """Return a text with its placeholders filled in, in one pass: inserted text is never parsed again.

        ``unset`` gets each name without a stored value. Without ``fenced`` untrusted words are not fenced, for
        texts that no model reads.
        """

        def put(found: re.Match[str]) -> str:
            name = found.group(1)
            value = (None if name in self.pinned else more.get(name)) or self.values.get(name)
            if value is None:
                unset(name)
                return UNSET_TEXT if fenced else ""
            return value.text if value.is_trusted or not fenced else fence_text(value.text, name, MAX_VALUE_CHARS)

        return _PLACEHOLDER.sub(put, text)


def resolve_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return values with their placeholders for other values filled in; there must be no cycle."""
    whole: dict[str, str] = {}
    for name in _dependency_order(values).static_order():
        # All values that it contains came before it.
        whole[name] = _PLACEHOLDER.sub(lambda found: whole.get(found.group(1), found.group()), values[name])
    return {name: whole[name] for name in values}
