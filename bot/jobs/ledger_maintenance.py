"""Maintain the ledger: verify the audit and export its head, make checked backups and prune old ones."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
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
from bot.store.backup_retention import BackupRetention, make_room_for_backup, prune_backups
from bot.store.backups import LedgerBackup
from bot.store.evidence_copies import copy_new_evidence, evidence_copy_path
from bot.store.evidence_packing import (
    pack_finished_forecasts,
    removable_forecasts,
    remove_copied_evidence,
    remove_evidence,
    return_free_pages,
)
from bot.store.ledger import Ledger
from bot.store.permissions import ALL_VENUES, SubmissionHalt

# Between two looks at what is left, a daemon may be stopped.
FORECASTS_PER_STEP = 50
BROKEN_AUDIT_REMEDY = (
    "compare it with a backup and with the venues; only where that explains the difference, restore it or delete "
    f"{AUDIT_HEAD_FILE}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditExportContext:
    """The audit to verify; its head is exported to ``folder``, the folder of the ledger.

    The head should be copied from there to a place where this program cannot write.
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


async def verify_and_export_audit(job: AuditExportContext) -> str:
    """Verify the audit, then export its head. If the chain is broken, halt everything and keep the old head.

    A ledger restored from a backup is shorter than its head: a person compares the two and deletes the head. Raises
    MalformedDataError where the chain is broken, so that the job counts as failed.
    """
    now, verification = job.clock.now(), await verify_audit(job.ledger, job.folder)
    if not verification.sound:
        why = f"the audit is broken: {verification.why}"
        await record_halt(job.ledger, SubmissionHalt(venue=ALL_VENUES, at=now, why=why))
        message = f"everything is halted: {why}; {BROKEN_AUDIT_REMEDY}"
        raise MalformedDataError(message)
    if verification.head.seq != EMPTY_SEQ:
        export_audit_head(job.folder / AUDIT_HEAD_FILE, verification.head, at=now)
    return f"{verification.rows} rows verified"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupContext:
    """Which ledger is copied, into which folder, and how many bytes the copies may take there."""

    path: Path
    folder: Path
    clock: Clock
    max_bytes: int | None = None


async def back_up_ledger(job: BackupContext) -> str:
    """Copy, check and prune, outside the event loop; raises StoreError for a copy that does not pass its checks."""
    backup, count = await asyncio.to_thread(_back_up_and_prune, job)
    removed = f", {count} old ones removed" if count else ""
    return f"{backup.path.name}, {backup.size_bytes / 1e6:.1f} MB{removed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceContext:
    """The ledger at ``path`` whose evidence is compressed and copied; ``keep``: for how long after a question resolved.

    None keeps it for ever.
    """

    path: Path
    ledger: Ledger
    clock: Clock
    keep: timedelta | None = None


async def maintain_evidence(job: EvidenceContext) -> str:
    """Compress what is finished, remove what is too old, and add what is new to the copy.

    Raises StoreError for damaged evidence.
    """
    documents = job.ledger.documents
    packed = await pack_finished_forecasts(documents.writer, documents.readers)
    removed = 0 if job.keep is None else await remove_old_evidence(job, before=job.clock.now() - job.keep)
    days = await job.ledger.calls.sum_finished_days(now=job.clock.now())
    pages = await return_free_pages(documents.writer)
    copied = await asyncio.to_thread(copy_new_evidence, job.path, at=job.clock.now())
    parts = {
        "forecasts compressed": packed,
        "forecasts without evidence now": removed,
        "days of costs summed": days,
        "pages returned to the disk": pages,
        "bundles copied": copied,
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count) or "nothing to do"


async def remove_old_evidence(job: EvidenceContext, *, before: datetime) -> int:
    """Remove the evidence of forecasts whose questions were resolved before that time; return how many."""
    documents, removed = job.ledger.documents, 0
    while scopes := await removable_forecasts(documents.readers, before=before, limit=FORECASTS_PER_STEP):
        await remove_evidence(documents.writer, documents.readers, scopes, at=job.clock.now())
        await asyncio.to_thread(remove_copied_evidence, evidence_copy_path(job.path), scopes)
        removed += len(scopes)
    return removed


def _back_up_and_prune(job: BackupContext) -> tuple[LedgerBackup, int]:
    retention, now = BackupRetention(bytes=job.max_bytes), job.clock.now()
    removed = make_room_for_backup(job.path, job.folder, retention, now=now)
    backup = store_backup.create_backup(job.path, job.folder, at=now)
    return backup, len(removed) + len(prune_backups(job.folder, job.path.stem, retention, now=now))
