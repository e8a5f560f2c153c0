"""What stops everything at once, whatever is decided over one forecast; asked again before each write."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bot.errors import StoreError
from bot.redact import hide
from bot.store.database import make_private, translated
from bot.store.restore import restored
from bot.store.stops import EVERYWHERE, Stop

STOP_FILE = "STOP"
# Of what a person wrote into the file, so much is told.
REASON_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """Two files hold everything back while they exist: one that anybody may make, and the mark of a restored ledger."""

    stop_file: Path
    ledger: Path

    def holds(self) -> str | None:
        """Return why nothing may leave, or nothing. Raises StoreError where that cannot be found out."""
        if self.stop_file.exists():
            why = reason_of(self.stop_file)
            return f"halted by {self.stop_file.name}" + (f": {why}" if why else "")
        if restored(self.ledger) is not None:
            return "the ledger was restored from a backup, and it is not settled yet what stands at the venues"
        return None


def pull(stop_file: Path, why: str) -> None:
    """Halt everything: make the file, with the reason in it, or add the reason to it; raises StoreError."""
    with translated(stop_file):
        if not stop_file.exists():
            make_private(stop_file)
        with stop_file.open("a", encoding="utf-8", errors="replace") as file:
            file.write(hide(" ".join(why.split())) + "\n")


def release(stop_file: Path) -> bool:
    """Take the file away; return whether it was there. Raises StoreError."""
    if not stop_file.exists():
        return False
    with translated(stop_file):
        stop_file.unlink(missing_ok=True)
    return True


def made_between(stop_file: Path, after: datetime, until: datetime) -> bool:
    """Say whether the file was made or added to after one moment, and not after the other, by the clock of the disk."""
    try:
        changed_at = datetime.fromtimestamp(stop_file.stat().st_mtime, UTC)
    except OSError:
        return False
    return after < changed_at <= until


def besides(stop_file: Path, standing: Sequence[Stop]) -> list[Stop]:
    """Return the stops but the one that the file tells of, where it is there."""
    why = reason_of(stop_file)
    return [one for one in standing if one.venue != EVERYWHERE or signed(one.why, one.by) != why]


def signed(why: str, by: str) -> str:
    """Return what a person's halt leaves in the file."""
    return f"{why} ({by})"


def reason_of(stop_file: Path) -> str:
    """Return the first line of the file, "" where it has none or cannot be read: that it is there is enough."""
    with suppress(OSError, StoreError), stop_file.open(encoding="utf-8", errors="replace") as file:
        return " ".join(file.readline(REASON_CHARS).split())
    return ""
