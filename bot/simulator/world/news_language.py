"""How the simulated press words log-odds and figures, and how a simulated reader parses them."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from bot.core.light_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np

# Phrases about "a win for Ada", by strength in log-odds; no phrase is part of another.
GRADES: Mapping[float, Sequence[str]] = {
    3.5: (
        "is all but certain",
        "is now little more than a formality",
        "could hardly be stopped by anything",
        "is treated as settled on all sides",
    ),
    2.2: (
        "is very likely by all accounts",
        "looks well within reach",
        "is what most observers have come to expect",
        "would surprise nobody any more",
    ),
    1.2: (
        "has become the likelier outcome",
        "is favoured, though not by a wide margin",
        "has more going for it than against it",
        "appears more probable than not",
    ),
    0.4: (
        "has edged ahead in what remains a close call",
        "is a shade more likely than its opposite",
        "is given slightly better than even chances",
        "keeps a thin advantage",
    ),
    -0.4: (
        "has slipped just behind in what remains a close call",
        "is a shade less likely than its opposite",
        "is given slightly worse than even chances",
        "faces a thin disadvantage",
    ),
    -1.2: (
        "has become the less likely outcome",
        "has more going against it than for it",
        "appears improbable, though far from excluded",
        "would now come as a mild surprise",
    ),
    -2.2: (
        "looks out of reach for the time being",
        "is what hardly any observer expects",
        "would surprise nearly everybody",
        "is very unlikely by all accounts",
    ),
    -3.5: (
        "is as good as ruled out",
        "would take a small miracle",
        "could hardly be brought about by anything",
        "is treated as lost on all sides",
    ),
}
STRENGTHS = tuple(sorted(GRADES))

# How a measured number is reported; the number follows the words.
MEASURE_PHRASES = ("stood at", "was measured at", "came in at", "was last reported at")
_NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PressClaim:
    """The content of a sentence: a strength in log-odds."""

    strength: float
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PressFigure:
    """The content of a sentence: a number that was measured."""

    value: float
    sentence: str


def word_strength(strength: float, stream: "np.random.Generator") -> str:
    """Return words for a strength in log-odds, which may be infinite; raises ValueError for NaN."""
    if math.isnan(strength):
        message = "there are no words for NaN"
        raise ValueError(message)
    grade = min(STRENGTHS, key=lambda one: abs(one - max(-10.0, min(10.0, strength))))
    phrases = GRADES[grade]
    return phrases[int(stream.integers(len(phrases)))]


def word_figure(value: float, stream: "np.random.Generator", *, digits: int = 1) -> str:
    """Return words for a measured number, rounded to so many digits."""
    return f"{MEASURE_PHRASES[int(stream.integers(len(MEASURE_PHRASES)))]} {value:,.{digits}f}"


def find_claims(text: str) -> list[PressClaim]:
    """Return the claims of a text in their order, each with its sentence."""
    return [
        PressClaim(strength=_strength_of_phrase()[phrase.lower()], sentence=sentence)
        for sentence in _SENTENCE.split(text)
        for phrase in _phrase_pattern().findall(sentence)
    ]


def find_figures(text: str) -> list[PressFigure]:
    """Return the measured numbers of a text in their order, each with its sentence."""
    return [
        PressFigure(value=float(digits.replace(",", "")), sentence=sentence)
        for sentence in _SENTENCE.split(text)
        for digits in _measure_pattern().findall(sentence)
    ]


@cache
def _strength_of_phrase() -> Mapping[str, float]:
    return {phrase.lower(): strength for strength, phrases in GRADES.items() for phrase in phrases}


@cache
def _phrase_pattern() -> re.Pattern[str]:
    return re.compile("|".join(re.escape(phrase) for phrase in _strength_of_phrase()), re.IGNORECASE)


@cache
def _measure_pattern() -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(MEASURE_PHRASES)}) {_NUMBER}", re.IGNORECASE)
