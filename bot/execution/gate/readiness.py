"""What a live venue needs besides an arm record: credentials, settled and own writes, clock, database and audit.

Nothing counts as present before it was checked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from bot.config.venue_schema import CapsSection
from bot.core.light_dataclass import dataclass
from bot.store.audit_log import AuditHead
from bot.store.event_log import JobRunRow

NOT_CHECKED = "was not checked yet"
# Orders and signatures carry times; venues refuse them if the clock is off by more, or worse, accept them.
MAX_CLOCK_SKEW_S = 5.0
# So many writes at a venue may be without a known outcome at one time, unless its caps say otherwise.
MAX_UNSETTLED_WRITES = CapsSection().unknown_writes
READINESS_JOB = "ready"
# The format of the line that the job returns.
_FAULT_PATTERN = re.compile(r"(?:^|, )(credentials|reconciliation|account|clock|database|audit): ")
_NO_ACCOUNTS: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True, kw_only=True)
class LiveReadiness:
    """The findings of the readiness job.

    ``credentials``, ``reconciliation`` and ``own_writes`` are by venue; "" is passed, a text is what is wrong.
    ``refused_credentials`` are the venues that refused them, or to which none could be sent. ``verified_audit_head`` is
    the head up to which the audit was verified, empty if none of it was. ``is_outdated``: everything is checked again
    before the next decision.
    """

    credentials: dict[str, str] = field(default_factory=dict)
    refused_credentials: set[str] = field(default_factory=set)
    reconciliation: dict[str, str] = field(default_factory=dict)
    own_writes: dict[str, str] = field(default_factory=dict)
    clock: str = NOT_CHECKED
    database: str = NOT_CHECKED
    audit: str = NOT_CHECKED
    verified_audit_head: AuditHead = field(default_factory=AuditHead)
    is_outdated: bool = False

    def mark_outdated(self) -> None:
        """Require a new check of everything before the next decision, because a person reported a change."""
        self.is_outdated = True
        self.credentials = {venue: why for venue, why in self.credentials.items() if not why}

    def missing_requirements(self, venue: str) -> tuple[str, ...]:
        """Return a line for each requirement that is missing."""
        found = {
            "credentials": self.credentials.get(venue, NOT_CHECKED),
            "reconciliation": self.reconciliation.get(venue, NOT_CHECKED),
            "account": self.own_writes.get(venue, NOT_CHECKED),
            "clock": self.clock,
            "database": self.database,
            "audit": self.audit,
        }
        return tuple(f"{what}: {why}" for what, why in found.items() if why)


def clock_fault(offset_s: float | None) -> str:
    """Return what is wrong with the clock, given its difference from other clocks; "" if nothing."""
    if offset_s is None:
        return "has not been compared with that of a venue yet, since none has answered"
    if abs(offset_s) > MAX_CLOCK_SKEW_S:
        return f"is off by {offset_s:+.1f} s, more than {MAX_CLOCK_SKEW_S:g} s; set it (chronyd, systemd-timesyncd)"
    return ""


def unsettled_fault(
    unsettled: int, unknown: int, foreign: Mapping[str, int] = _NO_ACCOUNTS, *, limit: int = MAX_UNSETTLED_WRITES
) -> str:
    """Return why a venue is not reconciled: writes of an earlier run, or too many unknown ones; "" if it is.

    ``foreign`` counts unknown writes under accounts that are not in use now and cannot be read back.
    """
    if foreign:
        names = ", ".join(f"{count} of the account {name}" for name, count in foreign.items())
        return (
            f"submissions have an unknown outcome and cannot be read back: {names}; check the venue, then: "
            "foxcast orders adopt"
        )
    if unsettled:
        return f"{unsettled} submissions of an earlier run are not settled yet; they are read back, see foxcast orders"
    if unknown > limit:
        return f"{unknown} submissions are without a known outcome; they are read back, see foxcast orders"
    return ""


def readiness_faults(run: JobRunRow | None, venues: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the faults that the job found at each venue, by requirement; {} for a venue without faults."""
    if run is None or not run.ok:
        return {}
    names = "|".join(map(re.escape, venues))
    _, *text = re.split(rf"(?:^|; )({names}): ", run.detail)
    return {name: dict(_split_faults(report)) for name, report in zip(text[::2], text[1::2], strict=True)}


def _split_faults(report: str) -> Iterator[tuple[str, str]]:
    _, *found = _FAULT_PATTERN.split(report)
    yield from zip(found[::2], found[1::2], strict=True)
