"""What a live venue needs besides an arm record; nothing counts as there before it was looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bot.config.venue_schema import CapsSection
from bot.store.audit import Head

UNSEEN = "was not looked at yet"
# Orders and signatures carry times; venues refuse those of a clock that is off by more, or worse, take them.
MAX_OFFSET_S = 5.0
# So many writes at a venue may be without a known outcome at one time, unless its caps say otherwise.
MOST_DOUBTS = CapsSection().doubts
_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True, kw_only=True)
class Readiness:
    """Kept up to date by a job. ``credentials`` and ``doubts`` are by venue; "" is passed, a text is what is wrong.

    ``verified`` is the head up to which the audit was verified, the empty one where all of it is to be.
    ``is_outdated``: it is looked at once more before anything is decided by it.
    """

    credentials: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    clock: str = UNSEEN
    database: str = UNSEEN
    audit: str = UNSEEN
    verified: Head = field(default_factory=Head)
    is_outdated: bool = False

    def outdate(self) -> None:
        """Have all of it looked at again before the next decision: a person said that something has changed."""
        self.is_outdated = True
        self.credentials = {venue: why for venue, why in self.credentials.items() if not why}

    def lacking(self, venue: str) -> tuple[str, ...]:
        """Name each thing that is missing."""
        found = {
            "credentials": self.credentials.get(venue, UNSEEN),
            "reconciliation": self.doubts.get(venue, UNSEEN),
            "clock": self.clock,
            "database": self.database,
            "audit": self.audit,
        }
        return tuple(f"{what}: {why}" for what, why in found.items() if why)


def clock_fault(offset_s: float | None) -> str:
    """Say what is wrong with the clock, given by how much it differs from that of others; "" where all is well."""
    if offset_s is None:
        return "has not been compared with that of a venue yet, since none has answered"
    if abs(offset_s) > MAX_OFFSET_S:
        return f"is off by {offset_s:+.1f} s, more than {MAX_OFFSET_S:g} s; set it (chronyd, systemd-timesyncd)"
    return ""


def doubt_fault(unsettled: int, doubtful: int, strange: Mapping[str, int] = _NONE, *, most: int = MOST_DOUBTS) -> str:
    """Say what keeps a venue from being reconciled: writes of an earlier run, or too many in doubt; "" if nothing.

    ``strange`` counts what is in doubt under accounts that are not in use now, which nobody can read back.
    """
    if strange:
        names = ", ".join(f"{count} of the account {name}" for name, count in strange.items())
        return (
            f"submissions are in doubt that nobody here can read back: {names}; look there, then: foxcast orders adopt"
        )
    if unsettled:
        return f"{unsettled} submissions of an earlier run are not settled yet; they are read back, see foxcast orders"
    if doubtful > most:
        return f"{doubtful} submissions are without a known outcome; they are read back, see foxcast orders"
    return ""
