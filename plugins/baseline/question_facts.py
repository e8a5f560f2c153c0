"""What the numerical models may know about a question, and what they learn from. No model is defined here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFacts:
    """One question as it was when it was asked.

    ``source`` names where the question comes from (``fred``, ``acled``, a market, ...), ``key`` is its id there and
    ``due`` the day of the forecast. ``text`` is the question, empty where only outcomes were published. ``value`` is
    the price of a market question, or the last value of the series (for armed-conflict counts the 30-day average) at
    the freeze; None where it is not a finite number or is known to be blank. Source:
    docs/facts/forecastbench.md#question-set.
    """

    source: str
    key: str
    due: date
    text: str = ""
    value: float | None = None

    def __post_init__(self) -> None:
        """Refuse a value that would spoil a fit."""
        if self.value is not None and not math.isfinite(self.value):
            message = (
                f"{self.source} {self.key}: value {self.value} is not a finite number; pass None for a missing one"
            )
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class ScoredEvent:
    """One scored event: a question on the day it asks about, ``target``; None for a single outcome (a market).

    Raises ValueError for a target that is not after the day of the forecast.
    """

    facts: QuestionFacts
    target: date | None = None

    def __post_init__(self) -> None:
        """Check the order of the days."""
        if self.target is not None and self.target <= self.facts.due:
            message = f"{self.facts.source} {self.facts.key}: target {self.target} is not after {self.facts.due}"
            raise ValueError(message)

    @property
    def day(self) -> date:
        """The target of a dated event; raises ValueError where there is none."""
        if self.target is None:
            message = f"{self.facts.source} {self.facts.key} needs a target day"
            raise ValueError(message)
        return self.target

    @property
    def days(self) -> int:
        """Days from the forecast to the target of a dated event; raises ValueError where there is none."""
        return (self.day - self.facts.due).days


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOutcome:
    """An outcome to learn from: 1 for yes, 0 for no, and the day it became known. Raises ValueError outside [0, 1]."""

    event: ScoredEvent
    outcome: float
    resolved_on: date

    def __post_init__(self) -> None:
        """Check the range of the outcome."""
        if not 0.0 <= self.outcome <= 1.0:
            message = f"{self.event.facts.source} {self.event.facts.key}: outcome {self.outcome} is outside [0, 1]"
            raise ValueError(message)
