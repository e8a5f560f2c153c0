"""Maintain the ledger: verify the audit and export its head, make checked backups and prune old ones."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.interfaces import Clock
from bot.jobs.halts import record_halt
from bot.store import audit_log
from bot.store import backups as store_backup
from bot.store.audit_log import (
    AUDIT_HEAD_FILE,
    EMPTY_SEQ,
    AuditHead,
    AuditVerification,
    export_audit_head,
    read_exported_head,
)
from bot.store.backups import BackupRetention, LedgerBackup, make_room_for_backup, prune_backups
from bot.store.ledger import Ledger
from bot.store.permissions import ALL_VENUES, SubmissionHalt

BROKEN_AUDIT_REMEDY = (
    "compare it with a backup and with the venues; only where that explains the difference, restore it or delete "
    f"{AUDIT_HEAD_FILE}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditExportContext:
    """Which audit to verify; ``folder`` is that of the ledger.

    Copy the head from there to where this program cannot write.
    """

    ledger: Ledger
    folder: Path
    clock: Clock


async def verify_audit(ledger: Ledger, folder: Path, *, since: AuditHead | None = None) -> AuditVerification:
    """Verify the audit, with ``since`` only newer rows, and compare it with the head that was exported last."""
    try:
        known: AuditHead | None = read_exported_head(folder / AUDIT_HEAD_FILE)
    except NotFoundError:
        known = None
    except MalformedDataError as error:
        return AuditVerification(rows=EMPTY_SEQ, head=AuditHead(), why=str(error))
    return await ledger.permissions.read(lambda database: audit_log.verify_audit_chain(database, known, since=since))


async def verify_and_export_audit(parts: AuditExportContext) -> str:
    """Verify the audit, then export its head. If the chain is broken, halt everything and keep the old head.

    A ledger restored from a backup is shorter than its head: a person compares the two and deletes the head. Raises
    MalformedDataError where the chain is broken, so that the job counts as failed.
    """
    now, verdict = parts.clock.now(), await verify_audit(parts.ledger, parts.folder)
    if not verdict.sound:
        why = f"the audit is broken: {verdict.why}"
        await record_halt(parts.ledger, SubmissionHalt(venue=ALL_VENUES, at=now, why=why))
        message = f"everything stopped: {why}; {BROKEN_AUDIT_REMEDY}"
        raise MalformedDataError(message)
    if verdict.head.seq != EMPTY_SEQ:
        export_audit_head(parts.folder / AUDIT_HEAD_FILE, verdict.head, at=now)
    return f"{verdict.rows} rows verified"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupContext:
    """Which ledger is copied, into which folder, and how many bytes the copies may take there."""

    path: Path
    folder: Path
    clock: Clock
    max_bytes: int | None = None


async def back_up_ledger(parts: BackupContext) -> str:
    """Copy, check and prune, outside the event loop; raises StoreError for a copy that does not pass its checks."""
    made, gone = await asyncio.to_thread(_back_up_and_prune, parts)
    removed = f", {gone} old ones removed" if gone else ""
    return f"{made.path.name}, {made.size_bytes / 1e6:.1f} MB{removed}"


def _back_up_and_prune(parts: BackupContext) -> tuple[LedgerBackup, int]:
    keep, now = BackupRetention(bytes=parts.max_bytes), parts.clock.now()
    gone = make_room_for_backup(parts.path, parts.folder, keep, now=now)
    made = store_backup.create_backup(parts.path, parts.folder, at=now)
    return made, len(gone) + len(prune_backups(parts.folder, parts.path.stem, keep, now=now))
