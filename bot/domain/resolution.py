"""What happened: outcomes of targets, and examples to learn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from bot.domain.question import Question, QuestionRef, require_aware

# The reasons of void outcomes that say that there is none for now: the venue took back the one it gave.
UNDONE = "the resolution was undone"
TAKEN_BACK = ("withdrawn", UNDONE, "the resolution has just been changed")


@dataclass(frozen=True, slots=True)
class Happened:
    """A binary outcome: 1 yes, 0 no, or a share between them where the venue resolves to one."""

    value: float
    kind: Literal["happened"] = "happened"

    def __post_init__(self) -> None:
        """Check the range."""
        if not 0.0 <= self.value <= 1.0:
            message = f"outcome {self.value} is outside [0, 1]"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The option that came true.

    A forecast that did not have it yet, or had it under another name, is judged by the first of ``otherwise`` that it
    has: former names, then the option that stands for all that were not named. They are no part of what happened.
    ``early`` are options that were named, but not in force yet at the moment that counts: what a forecast gives them
    counts for the last of ``otherwise``.
    """

    option: str
    otherwise: tuple[str, ...] = field(default=(), compare=False)
    early: tuple[str, ...] = field(default=(), compare=False)
    kind: Literal["chosen"] = "chosen"


@dataclass(frozen=True, slots=True)
class Landed:
    """The number that came true; minus or plus infinity means beyond an open bound."""

    value: float
    kind: Literal["landed"] = "landed"

    def __post_init__(self) -> None:
        """Refuse NaN."""
        if self.value != self.value:
            message = "an outcome is a number"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Void:
    """Annulled, ambiguous or withdrawn, or more than one option came true: never scored.

    Of the last ``shares`` tells what a share of each option paid, those that paid nothing left out.
    """

    reason: str
    shares: Mapping[str, float] = field(default_factory=dict, hash=False)
    kind: Literal["void"] = "void"

    def __post_init__(self) -> None:
        """Check the range, and freeze."""
        for option, share in self.shares.items():
            if not 0.0 < share <= 1.0:
                message = f"a share of {option!r} cannot pay {share}"
                raise ValueError(message)
        object.__setattr__(self, "shares", MappingProxyType(dict(self.shares)))


Outcome = Happened | Chosen | Landed | Void


def is_taken_back(outcome: Outcome) -> bool:
    """Say whether there is no outcome for now, so that its question is open again."""
    return isinstance(outcome, Void) and outcome.reason in TAKEN_BACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The outcome of one target and the moment from which it was knowable.

    ``scores`` are those that the venue itself gives the account's forecast, by the name of their rule, where it tells
    any.
    """

    ref: QuestionRef
    target: str
    outcome: Outcome
    resolved_at: datetime
    scores: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check the time zone, and freeze."""
        require_aware("resolved_at", self.resolved_at)
        object.__setattr__(self, "scores", MappingProxyType(dict(self.scores)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A resolved target to learn from; the question may be bare (no text) where only its outcome was published."""

    question: Question
    resolution: Resolution
