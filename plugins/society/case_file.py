"""The case file: what a trial has heard, in order. Everybody reads it after the question and before their own part.

It only grows, so that all requests of a trial begin with the same text, which providers find in their cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.api import clean_unfenced_text, fence_text
from plugins.society.variables import MAX_VALUE_CHARS

CASE_HEADING = "# Case file"
PART_HEADING = "# Your part"
TASK_HEADING = "# Your task"


@dataclass(slots=True)
class CaseFile:
    """The shared results of steps as all agents read them."""

    entries: list[str] = field(default_factory=list)

    def add(self, title: str, text: str, *, fenced: bool) -> None:
        """Add a result; ``fenced`` if others than the court's own code and its judge wrote its words."""
        self.entries.append(f"## {title}\n{fence_text(text, title, MAX_VALUE_CHARS) if fenced else text}")

    def opening(self, question: str, part: str, earlier_answers: list[str]) -> tuple[str, ...]:
        """Return the texts that a conversation begins with: question, case file, and the part of the participant."""
        file = [f"{CASE_HEADING}\n\n{self.entries[0]}", *self.entries[1:]] if self.entries else []
        earlier = [
            "In this trial you said before:",
            *(fence_text(answer, "your own words", MAX_VALUE_CHARS) for answer in earlier_answers),
        ]
        own = "\n\n".join((f"{PART_HEADING}\n{part}", *(earlier if earlier_answers else ())))
        return (question, *file, own)


def instruction_text(text: str) -> str:
    """Return words of an agent that bind the others: clean, and without anything that looks like a fence."""
    return clean_unfenced_text(text, MAX_VALUE_CHARS)
