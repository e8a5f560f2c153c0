"""A member of a team: its voice, its memory, what it believes, and whether it still takes part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.api import Ballot, Confidence, FoxcastError, Message, Predictions, Voice
from plugins.team.memory import Memory


@dataclass(frozen=True, slots=True)
class Stated:
    """What a member said that it believes, and why."""

    predictions: Predictions
    confidence: Confidence
    reason: str


@dataclass(frozen=True, slots=True)
class Marks:
    """How much there was to know at some moment: messages and settled sub-goals of others, facts of one's own."""

    messages: int = 0
    settled: int = 0
    facts: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One member. ``thinks`` says that it thinks aloud before it chooses.

    ``opening`` is how each of its conversations begins: every prompt is made anew from memory, so that none grows.
    ``out`` says why it takes no part any more ("" while it does), ``failure`` is the error where it could not be asked.
    ``search`` is the number of the search whose results it is about to read, 0 for none.
    """

    name: str
    voice: Voice
    ballot: Ballot
    thinks: bool = True
    opening: Sequence[Message] = ()
    memory: Memory = field(default_factory=Memory)
    stated: Stated | None = None
    out: str = ""
    failure: FoxcastError | None = None
    last: str = ""
    search: int = 0
    planned: Marks = field(default_factory=Marks)
    weighed: Marks = field(default_factory=Marks)

    @property
    def active(self) -> bool:
        """Whether it still takes part."""
        return not self.out

    def leave(self, why: str, failure: FoxcastError | None = None) -> None:
        """Take no part any more; what was stated stands."""
        if self.active:
            self.out, self.failure = why, failure
