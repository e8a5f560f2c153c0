"""How much each layer of the leak guard filtered out, for the log and in words for the model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterCounts:
    """How many items were left out: by date, by content, by clamping data at the cutoff, by address, or unchecked.

    ``unchecked`` counts what the judging model did not mention.
    """

    dates: int = 0
    content: int = 0
    clamped: int = 0
    blocked: int = 0
    unchecked: int = 0

    def __add__(self, other: "FilterCounts") -> "FilterCounts":
        return FilterCounts(
            dates=self.dates + other.dates,
            content=self.content + other.content,
            clamped=self.clamped + other.clamped,
            blocked=self.blocked + other.blocked,
            unchecked=self.unchecked + other.unchecked,
        )

    def describe(self, what: str = "results") -> str:
        """Return one line for the model, empty if nothing was left out; ``what`` names the items in the plural."""
        reasons = {
            "dated after the cutoff": self.dates,
            "telling of what came after the cutoff": self.content,
            "on or after the cutoff": self.clamped,
            "from an address that is not read for this question": self.blocked,
            "not checked for what came after the cutoff": self.unchecked,
        }
        counts = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
        return f"{what} left out: {counts}" if counts else ""
