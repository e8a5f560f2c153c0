"""Keeps the audit honest: verifies the chain against the head that was exported last, then exports the new one."""

from dataclasses import dataclass
from pathlib import Path

from bot.errors import ContractError, NotFound
from bot.jobs.losses import stop_for
from bot.ports import Clock
from bot.store.audit import EMPTY, HEAD_FILE, Head, read_head, write_head
from bot.store.ledger import Ledger
from bot.store.stops import EVERYWHERE, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditing:
    """Whose audit; ``folder`` is that of the ledger. Copy the head from there to where this program may not write."""

    ledger: Ledger
    folder: Path
    clock: Clock


async def export_head(parts: Auditing) -> str:
    """Verify, then write the head down. A chain that is broken stops everything, and the old head is kept.

    A ledger restored from a backup is shorter than its head: a person compares the two, and deletes the head.
    """
    path, now = parts.folder / HEAD_FILE, parts.clock.now()
    try:
        known: Head | None = read_head(path)
    except NotFound:
        known = None
    except ContractError as error:
        await stop_for(parts.ledger, Stop(venue=EVERYWHERE, at=now, why=str(error)))
        return f"everything stopped: {error}"
    verdict = await parts.ledger.leave.verify(known)
    if not verdict.sound:
        why = f"the audit is broken: {verdict.why}"
        await stop_for(parts.ledger, Stop(venue=EVERYWHERE, at=now, why=why))
        return f"everything stopped: {why}"
    if verdict.head.seq != EMPTY:
        write_head(path, verdict.head, at=now)
    return f"{verdict.rows} rows verified"
