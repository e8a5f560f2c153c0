"""Texts with alternatives: ``[Will|Does] {place} [get|see] rain?`` is written anew each time."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


def pick(stream: "np.random.Generator", things: Sequence[T]) -> T:
    """Return one of the things."""
    return things[int(stream.integers(len(things)))]


def write(pattern: str, stream: "np.random.Generator", words: Mapping[str, str]) -> str:
    """Return the pattern with one of each ``[alternatives|...]``, which may be nested, and each ``{word}`` filled in.

    Raises KeyError for a word that is not given.
    """
    text = pattern
    while (found := _INNERMOST.search(text)) is not None:
        text = text[: found.start()] + pick(stream, found[1].split("|")) + text[found.end() :]
    return " ".join(text.format_map(words).split())


def headed(text: str) -> str:
    """Return the text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]
