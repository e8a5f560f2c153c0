"""Halt a venue whose account was written to by someone else: another copy of the state folder, or a person.

The venue's own list of writes is compared with the ledger, from the moment on at which a person last knew what the
account had done: the folder was made or adopted, the venue resumed, the ledger restored.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta

import structlog

from bot.core.errors import FoxcastError, StoreError
from bot.core.interfaces import Clock, VenueSubmitter, WriteListingSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.submissions import ListedWrite
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.jobs.halts import record_halt
from bot.store import permissions
from bot.store.ledger import Ledger
from bot.store.permissions import SubmissionHalt

log = structlog.get_logger(__name__)

FOREIGN_WRITES = "the account has writes that this state folder did not make"
# After a start, lists are read from at most so long ago.
MAX_LOOK_BACK = timedelta(days=7)
# Lists are read again from so long before the last reading: they may lag behind, and a write may have been unsettled.
LIST_OVERLAP = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignWriteCheck:
    """Compares the writes that venues list with the ledger; ``since`` is when the folder was made or adopted."""

    ledger: Ledger
    clock: Clock
    execution_policies: Mapping[str, ExecutionPolicy]
    submitters: Mapping[str, VenueSubmitter]
    since: datetime
    _read_at: dict[str, datetime] = field(default_factory=dict)

    async def check_venue(self, venue: str) -> str:
        """Halt the venue if others wrote to its account; return why that cannot be known now, or "".

        Venues without such a list, and those where a person trades by hand, are not asked.
        """
        submitter = self.submitters.get(venue)
        if self.execution_policies[venue].hand_trading or not isinstance(submitter, WriteListingSubmitter):
            return ""
        if await self._is_halted(venue):
            return ""
        now = self.clock.now()
        since = await self._start(venue, now)
        try:
            listed = [one for one in await submitter.list_writes(since) if one.at >= since]
        except StoreError:
            raise
        except FoxcastError as error:
            return f"what it did cannot be read ({error})"
        except Exception as error:
            log.exception("the writes of the account cannot be listed", venue=venue)
            return f"what it did cannot be read ({type(error).__name__})"
        if foreign := await self.ledger.submissions.foreign_writes(venue, listed):
            await record_halt(self.ledger, SubmissionHalt(venue=venue, at=now, why=_describe_foreign(venue, foreign)))
        else:
            self._read_at[venue] = now
        return ""

    async def _is_halted(self, venue: str) -> bool:
        halts = await self.ledger.permissions.read(permissions.list_active_halts)
        return any(halt.venue == venue and halt.why.startswith(FOREIGN_WRITES) for halt in halts)

    async def _start(self, venue: str, now: datetime) -> datetime:
        """Return from which moment on a write of others counts."""
        read_at = self._read_at.get(venue)
        read_from = now - MAX_LOOK_BACK if read_at is None else read_at - LIST_OVERLAP
        last_look = await self.ledger.submissions.last_look(venue, now=now)
        return max(self.since, read_from, self.since if last_look is None else last_look)


def _describe_foreign(venue: str, foreign: list[ListedWrite]) -> str:
    first = foreign[0]
    count = "" if len(foreign) == 1 else f", and {len(foreign) - 1} more"
    return (
        f"{FOREIGN_WRITES}: {first.text} at {first.at:%Y-%m-%d %H:%M:%S} UTC ({first.reference}){count}. If another "
        "copy of the folder runs, stop it; if a person made them, resume the venue, or set hand_trading = true in "
        f"[venues.{venue}]"
    )
