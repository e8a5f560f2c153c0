"""What is asked: a question, its shape, and its targets (one per scored event)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, Self

from bot.domain.prediction import Prediction, Shape, mismatch

SINGLE_TARGET = "outcome"


def require_aware(name: str, moment: datetime | None) -> None:
    """Raise ValueError for a datetime without a time zone."""
    if moment is not None and moment.utcoffset() is None:
        message = f"{name} {moment.isoformat()} has no time zone"
        raise ValueError(message)


@dataclass(frozen=True, slots=True, order=True)
class QuestionRef:
    """The name of a question everywhere in Foxcast, written ``venue:key``."""

    venue: str
    key: str

    def __post_init__(self) -> None:
        """Refuse names that could not be read back from their text."""
        if not self.venue or not self.key or ":" in self.venue:
            message = f"question reference {self.venue!r}, {self.key!r} needs a venue without ':' and a key"
            raise ValueError(message)
        str(self).encode()  # a lone surrogate is a ValueError: no file could hold the name

    def __str__(self) -> str:
        return f"{self.venue}:{self.key}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``venue:key``; raises ValueError for anything else."""
        venue, _, key = text.partition(":")
        return cls(venue, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One scored event of a question, for example one resolution date of a series.

    ``key`` is unique within its question; ``resolves_at`` is when the outcome is scheduled to be known;
    ``horizon_days`` is the distance the venue itself reports by, where it does.
    """

    key: str = SINGLE_TARGET
    resolves_at: datetime | None = None
    horizon_days: int | None = None

    def __post_init__(self) -> None:
        """Check the key and the time zone."""
        require_aware("resolves_at", self.resolves_at)
        if not self.key:
            message = "a target needs a key"
            raise ValueError(message)
        self.key.encode()  # a lone surrogate is a ValueError, as above


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """What others believe: a market price or community forecast of one question at one moment."""

    prediction: Prediction
    at: datetime
    explanation: str = ""

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_aware("crowd at", self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as one venue states it at one moment.

    ``family`` groups questions that are scored together (a market and a data series, say), ``source`` says where the
    venue has the question from, ``series`` is the same for questions that ask again what an earlier one asked (the unit
    of resampling), ``batch`` names forecasts that must leave together, ``as_of`` is the moment after
    which nothing may inform the forecast where the venue fixes one, and ``facts`` carries what the venue knows beyond
    the text under names documented by its plugin. ``tags`` and ``tournaments`` are the venue's short names (slugs, ids)
    for what it files the question under; they move without making another question of it. All moments are time-zone
    aware. Raises ValueError for a question without targets, with targets of the same key, or with a crowd that does not
    fit the shape.
    """

    ref: QuestionRef
    title: str
    shape: Shape
    targets: tuple[Target, ...]
    background: str = ""
    criteria: str = ""
    url: str | None = None
    source: str = ""
    family: str = ""
    series: str = ""
    batch: str | None = None
    opens_at: datetime | None = None
    closes_at: datetime | None = None
    as_of: datetime | None = None
    crowd: Crowd | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    tournaments: tuple[str, ...] = ()
    kind: Literal["question"] = "question"

    def __post_init__(self) -> None:
        """Check targets, moments and crowd, and freeze the facts."""
        for name in ("opens_at", "closes_at", "as_of"):
            require_aware(name, getattr(self, name))
        keys = sorted(target.key for target in self.targets)
        if not keys or any(a == b for a, b in pairwise(keys)):
            message = f"{self.ref}: targets must be there and have different keys, got {keys}"
            raise ValueError(message)
        if self.crowd is not None and (why := mismatch(self.crowd.prediction, self.shape)):
            message = f"{self.ref}: the crowd's {why}"
            raise ValueError(message)
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    @property
    def as_stated(self) -> Self:
        """The question with what it says alone: without its crowd and what it is filed under, which both move."""
        return replace(self, crowd=None, tags=(), tournaments=())

    def target(self, key: str) -> Target:
        """Return the target of that key; raises KeyError if the question has none such."""
        for target in self.targets:
            if target.key == key:
                return target
        raise KeyError(key)
