"""The messages of a team: who may say something now, and what has been said before.

A budget and that nothing repeats are kept here, in code; that no member says two things in a row, by whoever asks it.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Said:
    """One message; a seed is one that was put there before the work began."""

    who: str
    text: str
    seed: bool = False


@dataclass(slots=True, kw_only=True)
class Talk:
    """The dialogue so far. ``budget`` is how many messages may be sent, seeds not counted."""

    budget: int
    likeness: float
    seeds: tuple[Said, ...] = ()
    sent: list[Said] = field(default_factory=list)

    @property
    def left(self) -> int:
        """How many messages may still be sent."""
        return max(0, self.budget - len(self.sent))

    def last(self, count: int) -> Sequence[Said]:
        """Return the last messages, oldest first, after the seeds, which always stand at the beginning."""
        return (*self.seeds, *self.sent[-count:])

    def repeats(self, text: str) -> bool:
        """Whether a message says again what was said before, by anybody, in the same words or nearly so."""
        new = normal(text)
        return any(new == old or self._alike(new, old) for old in map(_normal_text, (*self.seeds, *self.sent)))

    def send(self, who: str, text: str) -> None:
        """Add a message. Raises ValueError for one that repeats, and for one beyond the budget."""
        if not self.left or self.repeats(text):
            message = "this message may not be sent"
            raise ValueError(message)
        self.sent.append(Said(who, text))

    def _alike(self, new: str, old: str) -> bool:
        matcher = difflib.SequenceMatcher(None, new, old, autojunk=False)
        # The quick bounds are upper ones and save most of the work.
        return (
            matcher.real_quick_ratio() >= self.likeness
            and matcher.quick_ratio() >= self.likeness
            and matcher.ratio() >= self.likeness
        )


def normal(text: str) -> str:
    """Return a text by its words alone: in lower case, without signs."""
    return " ".join(re.sub(r"[^\w\s]", " ", text.casefold()).split())


def _normal_text(said: Said) -> str:
    return normal(said.text)
