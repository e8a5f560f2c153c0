"""What is odd in a published file: the first complaints in words, the rest as a number, for a file may be all odd."""

from dataclasses import dataclass, field

KEPT = 100
LONGEST = 300


@dataclass(slots=True)
class Complaints:
    """Collects complaints without ever holding more than the first of them."""

    _kept: list[str] = field(default_factory=list)
    _more: int = 0

    def add(self, text: str) -> None:
        """Keep one complaint, cut to a bearable length, or count it."""
        if len(self._kept) < KEPT:
            self._kept.append(text if len(text) <= LONGEST else f"{text[:LONGEST]} ...")
        else:
            self._more += 1

    def listed(self) -> tuple[str, ...]:
        """Return those that were kept, and a last one that counts the others."""
        return (*self._kept, f"{self._more} more complaints") if self._more else tuple(self._kept)
