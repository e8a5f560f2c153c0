"""How much each layer caught, for the log and in words for the model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """What was left out: by its date, by what it tells, by clamping data at the cutoff, by its address, or unchecked.

    ``unchecked`` counts what the model that judges texts passed over.
    """

    dates: int = 0
    content: int = 0
    clamped: int = 0
    blocked: int = 0
    unchecked: int = 0

    def __add__(self, other: "Caught") -> "Caught":
        return Caught(
            dates=self.dates + other.dates,
            content=self.content + other.content,
            clamped=self.clamped + other.clamped,
            blocked=self.blocked + other.blocked,
            unchecked=self.unchecked + other.unchecked,
        )

    def says(self, what: str = "results") -> str:
        """Return one line for the model, empty if nothing was caught; ``what`` is left out in the plural."""
        reasons = {
            "dated after the cutoff": self.dates,
            "telling of what came after the cutoff": self.content,
            "on or after the cutoff": self.clamped,
            "from an address that is not read for this question": self.blocked,
            "not checked for what came after the cutoff": self.unchecked,
        }
        told = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
        return f"{what} left out: {told}" if told else ""
