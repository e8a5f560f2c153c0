"""Keeps the audit honest: verifies the chain against the head that was exported last, then exports the new one."""

from dataclasses import dataclass
from pathlib import Path

from bot.errors import ContractError, NotFound
from bot.jobs.losses import stop_for
from bot.ports import Clock
from bot.store import audit
from bot.store.audit import EMPTY, HEAD_FILE, Head, Verdict, read_head, write_head
from bot.store.ledger import Ledger
from bot.store.stops import EVERYWHERE, Stop

REMEDY = f"compare it with a backup and with the venues; only where that shows why, restore it or delete {HEAD_FILE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditing:
    """Whose audit; ``folder`` is that of the ledger. Copy the head from there to where this program may not write."""

    ledger: Ledger
    folder: Path
    clock: Clock


async def verified(ledger: Ledger, folder: Path, *, since: Head | None = None) -> Verdict:
    """Verify the audit, with ``since`` what is newer alone, also against the head that was exported last."""
    try:
        known: Head | None = read_head(folder / HEAD_FILE)
    except NotFound:
        known = None
    except ContractError as error:
        return Verdict(rows=EMPTY, head=Head(), why=str(error))
    return await ledger.leave.read(lambda database: audit.verify(database, known, since=since))


async def export_head(parts: Auditing) -> str:
    """Verify, then write the head down. A chain that is broken stops everything, and the old head is kept.

    A ledger restored from a backup is shorter than its head: a person compares the two, and deletes the head. Raises
    ContractError where the chain is broken, so that the job counts as failed.
    """
    now, verdict = parts.clock.now(), await verified(parts.ledger, parts.folder)
    if not verdict.sound:
        why = f"the audit is broken: {verdict.why}"
        await stop_for(parts.ledger, Stop(venue=EVERYWHERE, at=now, why=why))
        message = f"everything stopped: {why}; {REMEDY}"
        raise ContractError(message)
    if verdict.head.seq != EMPTY:
        write_head(parts.folder / HEAD_FILE, verdict.head, at=now)
    return f"{verdict.rows} rows verified"
