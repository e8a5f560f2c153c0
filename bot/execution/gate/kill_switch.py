"""The kill switch: a STOP file, or the mark of a restored ledger, holds back every submission.

It is checked again before each write.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_known_secrets
from bot.store.database import translate_errors
from bot.store.permissions import ALL_VENUES, SubmissionHalt
from bot.store.private_files import open_private_file, read_private_file
from bot.store.restore import read_restore_mark

STOP_FILE = "STOP"
# At most this much of the reason in the file is shown.
MAX_REASON_CHARS = 200
MAX_REASON_BYTES = 4 * MAX_REASON_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSwitch:
    """Two files hold back every submission while they exist: the STOP file, and the mark of a restored ledger."""

    stop_file: Path
    ledger_file: Path

    def halt_reason(self) -> str | None:
        """Return why nothing may be submitted, or None. Raises StoreError if that is not known."""
        if os.path.lexists(self.stop_file):
            why = read_halt_reason(self.stop_file)
            return f"halted by {self.stop_file.name}" + (f": {why}" if why else "")
        if read_restore_mark(self.ledger_file) is not None:
            return "the ledger was restored from a backup, and is not reconciled with the venues yet"
        return None


def engage_kill_switch(stop_file: Path, why: str) -> None:
    """Halt everything: make the file, with the reason in it, or add the reason to it; raises StoreError."""
    with translate_errors(stop_file):
        stop_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = open_private_file(stop_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(handle, "a", encoding="utf-8", errors="replace") as file:
            file.write(redact_known_secrets(" ".join(why.split())) + "\n")


def release_kill_switch(stop_file: Path) -> bool:
    """Remove the file; return whether it existed. Raises StoreError."""
    if not os.path.lexists(stop_file):
        return False
    with translate_errors(stop_file):
        stop_file.unlink(missing_ok=True)
    return True


def was_engaged_between(stop_file: Path, after: datetime, until: datetime) -> bool:
    """Return whether the file was last changed between two moments, by the clock of the disk."""
    try:
        changed_at = datetime.fromtimestamp(stop_file.stat().st_mtime, UTC)
    except OSError:
        return False
    return after < changed_at <= until


def halts_besides_file(stop_file: Path, halts: Sequence[SubmissionHalt]) -> list[SubmissionHalt]:
    """Return the halts without the one that the file records."""
    why = read_halt_reason(stop_file)
    return [one for one in halts if one.venue != ALL_VENUES or signed_reason(one.why, one.by) != why]


def signed_reason(why: str, by: str) -> str:
    """Return the line that a person's halt writes into the file."""
    return f"{why} ({by})"


def read_halt_reason(stop_file: Path) -> str:
    """Return the first line of the file; "" if it is empty or cannot be read, since its existence is enough."""
    with suppress(OSError, StoreError):
        text = read_private_file(stop_file, MAX_REASON_BYTES).decode(errors="replace")
        return " ".join(text.partition("\n")[0][:MAX_REASON_CHARS].split())
    return ""
