"""The variable store of a trial, and the placeholders by which messages read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

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
# With all values filled in; an author's text of this length leaves room for what is said in the trial.
MOST_CHARS = 40_000


def placeholders(text: str) -> Iterator[str]:
    """Yield the names of the placeholders in a text."""
    return (found.group(1) for found in _PLACEHOLDER.finditer(text))


def cycle(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of values that stand in one another for ever, in order; empty where there are none."""
    try:
        _sorted(values).prepare()
    except CycleError as error:
        # Told from what stands inside to what it stands in, its first name again at the end.
        names = [*reversed(error.args[1][1:])]
        places = {name: place for place, name in enumerate(values)}
        first = names.index(min(names, key=places.__getitem__))
        return (*names[first:], *names[:first], names[first])
    return ()


def whole_lengths(values: Mapping[str, str]) -> dict[str, int]:
    """Return how long each value is with the others filled in, at most one more than may be; there must be no cycle."""
    lengths: dict[str, int] = {}
    for name in _sorted(values).static_order():
        lengths[name] = whole_length(values[name], lengths)
    return lengths


def whole_length(text: str, lengths: Mapping[str, int]) -> int:
    """Return how long a text is once what has a length is filled in, at most one more than may be."""
    counted = Counter(placeholders(text))
    grown = sum(count * (lengths[name] - len(name) - 2) for name, count in counted.items() if name in lengths)
    return min(len(text) + grown, MOST_CHARS + 1)


def _sorted(values: Mapping[str, str]) -> TopologicalSorter[str]:
    inner = {name: dict.fromkeys(placeholders(text)) for name, text in values.items()}
    return TopologicalSorter({name: [part for part in parts if part in values] for name, parts in inner.items()})


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
    whole: dict[str, str] = {}
    for name in _sorted(values).static_order():
        # All that stands in it came before it.
        whole[name] = _PLACEHOLDER.sub(lambda found: whole.get(found.group(1), found.group()), values[name])
    return {name: whole[name] for name in values}
