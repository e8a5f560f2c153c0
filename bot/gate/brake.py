"""What stops everything at once, whatever is decided over one forecast; asked again before each write."""

from dataclasses import dataclass
from pathlib import Path

from bot.store.restore import restored

STOP_FILE = "STOP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """Two files hold everything back while they exist: one that anybody may make, and the mark of a restored ledger."""

    stop_file: Path
    ledger: Path

    def holds(self) -> str | None:
        """Return why nothing may leave, or nothing. Raises StoreError where that cannot be found out."""
        if self.stop_file.exists():
            return f"halted by {self.stop_file.name}"
        if restored(self.ledger) is not None:
            return "the ledger was restored from a backup, and it is not settled yet what stands at the venues"
        return None
