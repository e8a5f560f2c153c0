"""What a live venue needs besides an arm record; nothing counts as there before it was looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bot.store.audit import Head

UNSEEN = "was not looked at yet"
# Orders and signatures carry times; venues refuse those of a clock that is off by more, or worse, take them.
MAX_OFFSET_S = 5.0
# So many doubts at once are no accident any more.
MOST_DOUBTS = 3
_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True, kw_only=True)
class Readiness:
    """Kept up to date by a job. ``credentials`` and ``doubts`` are by venue; "" is passed, a text is what is wrong.

    ``verified`` is the head up to which the audit was verified, the empty one where all of it is to be.
    """

    credentials: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    clock: str = UNSEEN
    database: str = UNSEEN
    audit: str = UNSEEN
    verified: Head = field(default_factory=Head)

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


def doubt_fault(unsettled: int, doubtful: int, strange: Mapping[str, int] = _NONE) -> str:
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
    if doubtful > MOST_DOUBTS:
        return f"{doubtful} submissions are in doubt; look at the venue, then say so: foxcast orders adopt"
    return ""
