"""The ledger: one store for each family of tables, opened and closed together."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from datetime import datetime
from pathlib import Path

import structlog
from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from bot.config.schema import Config
from bot.core.errors import NotFoundError, StoreError
from bot.core.light_dataclass import dataclass
from bot.core.submissions import ExecutionMode
from bot.store import audit_log
from bot.store.account_readings import AccountReadingStore
from bot.store.accounts import ProfitStore
from bot.store.alerts import AlertStore
from bot.store.backups import BACKUP_FOLDER
from bot.store.clean_shutdown import record_clean_shutdown, take_clean_shutdown
from bot.store.connections import LedgerReaders, LedgerWriter, ReadOnlyWriter, WriterThread
from bot.store.database import DiskReserve, open_reader, translate_errors
from bot.store.decisions import DecisionSnapshotReader
from bot.store.event_log import EventLog
from bot.store.evidence import EVIDENCE_MIGRATIONS, DocumentStore, evidence_path
from bot.store.evidence_copies import recover_evidence
from bot.store.folder_identity import ensure_identity
from bot.store.forecasts import ForecastStore
from bot.store.integrity_checks import run_quick_check
from bot.store.learning import LearningStore
from bot.store.migrations import apply_migrations, migration_checksums, require_known_migrations
from bot.store.model_calls import ModelCallStore, ModelPerformanceStore
from bot.store.model_concurrency import ModelConcurrencyStore
from bot.store.permissions import PermissionStore
from bot.store.private_files import sync_to_disk
from bot.store.question_history import QuestionHistoryReader
from bot.store.question_pairs import QuestionPairStore
from bot.store.questions import QuestionStore, ResolutionStore
from bot.store.rate_usage import LedgerRateUsageStore
from bot.store.reader_pool import ReaderPool
from bot.store.restore import finish_restore, lost_ledger_reason, read_restore_mark
from bot.store.schedule import ScheduleStore
from bot.store.schema import MIGRATIONS
from bot.store.scores import ScoreStore
from bot.store.submissions import SubmissionStore
from bot.store.trials import RecordingStore
from bot.store.venue_scores import VenueScoreStore

LAB_FOLDER = "lab"
LEDGER_FILE = "ledger.sqlite"
BALLAST_FILE = "ballast"
# After an unclean end the pages are read before anything else, but a start waits no longer for it.
MAX_START_CHECK_S = 10.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All stores of the ledger, by family of tables."""

    documents: DocumentStore
    questions: QuestionStore
    schedule: ScheduleStore
    forecasts: ForecastStore
    submissions: SubmissionStore
    decision_snapshots: DecisionSnapshotReader
    resolutions: ResolutionStore
    scores: ScoreStore
    venue_scores: VenueScoreStore
    learning: LearningStore
    events: EventLog
    alerts: AlertStore
    recordings: RecordingStore
    calls: ModelCallStore
    model_performance: ModelPerformanceStore
    model_concurrency: ModelConcurrencyStore
    rates: LedgerRateUsageStore
    permissions: PermissionStore
    readings: AccountReadingStore
    profits: ProfitStore
    question_history: QuestionHistoryReader
    question_pairs: QuestionPairStore


@asynccontextmanager
async def open_ledger(path: Path, *, now: datetime) -> AsyncIterator[Ledger]:
    """Open the ledger for writing, creating it or migrating it after a backup; hold the instance lock.

    After a clean shutdown its pages are not read again; otherwise for some seconds at most. Raises StoreError for a
    ledger that was lost, a damaged file, one of a newer program or of a development version, and a failing disk.
    """
    await asyncio.to_thread(_prepare_file, path, now)
    async with (
        WriterThread(path, first=evidence_path(path), ballast=DiskReserve(path.parent / BALLAST_FILE)) as writer,
        ReaderPool(path, attached=evidence_path(path)) as readers,
    ):
        yield _build_ledger(writer, readers)
    if writer.halted is None:
        await asyncio.to_thread(_record_clean_shutdown, path)


@asynccontextmanager
async def open_ledger_read_only(path: Path) -> AsyncIterator[Ledger]:
    """Open the ledger for reading, also while a daemon writes; each write raises StoreError.

    Raises StoreError for a missing ledger, and for one of an older or newer program.
    """
    evidence = evidence_path(path)
    async with ReaderPool(path, attached=evidence if evidence.exists() else None) as readers:
        await readers.run(lambda database: _require_current_schema(database, MIGRATIONS))
        if not evidence.exists():
            message = (
                f"{evidence} is missing; put it back, or have it made of its copy, if there is one: foxcast run --once"
            )
            raise StoreError(message)
        await asyncio.to_thread(_require_current_file, evidence, EVIDENCE_MIGRATIONS)
        yield _build_ledger(ReadOnlyWriter(), readers)


def state_folder(config: Config) -> Path:
    """Return the folder of all data of this run; paper and live have different folders."""
    live = any(config.mode_of(venue) in {ExecutionMode.APPROVE, ExecutionMode.LIVE} for venue in config.venues)
    return config.state / ("live" if live else "paper")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyState:
    """The ledger and folder of a run, opened for reading while a daemon may be writing."""

    config: Config
    folder: Path
    ledger: Ledger


@asynccontextmanager
async def open_read_only(config: Config) -> AsyncIterator[ReadOnlyState]:
    """Open the ledger for reading; raises NotFoundError if there is none yet."""
    folder = state_folder(config)
    path = folder / LEDGER_FILE
    require_ledger(path)
    async with open_ledger_read_only(path) as ledger:
        yield ReadOnlyState(config=config, folder=folder, ledger=ledger)


def require_ledger(path: Path) -> None:
    """Raise StoreError where a ledger was lost, with its backups, and NotFoundError where there is none yet."""
    if reason := lost_ledger_reason(path):
        raise StoreError(reason)
    if not path.exists():
        message = f"there is no ledger at {path} yet; make one with: foxcast run --once"
        raise NotFoundError(message)


def _prepare_file(path: Path, now: datetime) -> None:
    finish_restore(path)
    if reason := lost_ledger_reason(path):
        raise StoreError(reason)
    if path.exists() and path.stat().st_size and not take_clean_shutdown(path):
        _require_sound(path)
    if not os.path.lexists(path):
        _create_ledger(path, now)
    apply_migrations(path, MIGRATIONS, backups=path.parent / BACKUP_FOLDER, at=now)
    if evidence_path(path).exists() and read_restore_mark(path) is None:
        apply_migrations(evidence_path(path), EVIDENCE_MIGRATIONS, backups=path.parent / BACKUP_FOLDER, at=now)
    else:
        recover_evidence(path, at=now)
    ensure_identity(path, at=now)
    DiskReserve(path.parent / BALLAST_FILE).hold()


def _create_ledger(path: Path, now: datetime) -> None:
    """Make a new ledger under another name: a program that reads it again and again would lock it half made."""
    partial = path.with_name(f".{path.name}.partial")
    with translate_errors(path):
        for suffix in ("", "-wal", "-shm"):
            # Of a process that was killed.
            partial.with_name(f"{partial.name}{suffix}").unlink(missing_ok=True)
        apply_migrations(partial, MIGRATIONS, backups=None, at=now)
        partial.replace(path)
        sync_to_disk(path.parent)


def _require_sound(path: Path) -> None:
    health = run_quick_check(path, limit_s=MAX_START_CHECK_S)
    if not health.sound:
        message = f"{path} is damaged ({health.problems[0].examples[0]}); restore a backup: foxcast db restore"
        raise StoreError(message)
    if not health.is_complete:
        log.warning(
            "not all pages of the ledger were read at this start; each backup and, where a venue is live, the check "
            "before the first write read all of them",
            file=path.name,
            read_for_s=MAX_START_CHECK_S,
        )


def _record_clean_shutdown(path: Path) -> None:
    # Without the record the next start reads the pages, which is no harm.
    with suppress(OSError, StoreError):
        record_clean_shutdown(path)


def require_current_ledger(path: Path) -> None:
    """Raise StoreError for a ledger, or its evidence, without all migrations; damage is for the checks to find."""
    for file, migrations in ((path, MIGRATIONS), (evidence_path(path), EVIDENCE_MIGRATIONS)):
        if file.exists():
            _require_current_file(file, migrations)


def _require_current_file(path: Path, migrations: Migrations) -> None:
    with suppress(sqlite3.DatabaseError), closing(open_reader(path)) as database:
        _require_current_schema(database, migrations)


def _require_current_schema(database: Database, migrations: Migrations) -> None:
    expected = migration_checksums(migrations)
    applied = require_known_migrations(database, expected, migrations)
    if missing := [name for name in expected if name not in applied]:
        message = f"the ledger is older than this Foxcast (it lacks {', '.join(missing)}); start foxcast run --once"
        raise StoreError(message)


def _build_ledger(writer: LedgerWriter, readers: LedgerReaders) -> Ledger:
    return Ledger(
        documents=DocumentStore(writer, readers),
        questions=QuestionStore(writer, readers),
        schedule=ScheduleStore(writer, readers),
        forecasts=ForecastStore(writer, readers),
        submissions=SubmissionStore(writer, readers, audit_log.append_audit_row),
        decision_snapshots=DecisionSnapshotReader(readers),
        resolutions=ResolutionStore(writer, readers),
        scores=ScoreStore(writer, readers),
        venue_scores=VenueScoreStore(writer, readers),
        learning=LearningStore(writer, readers),
        events=EventLog(writer, readers),
        alerts=AlertStore(writer, readers),
        recordings=RecordingStore(writer, readers),
        calls=ModelCallStore(writer, readers),
        model_performance=ModelPerformanceStore(writer, readers),
        model_concurrency=ModelConcurrencyStore(writer, readers),
        rates=LedgerRateUsageStore(writer, readers),
        permissions=PermissionStore(writer, readers),
        readings=AccountReadingStore(writer, readers),
        profits=ProfitStore(writer, readers),
        question_history=QuestionHistoryReader(readers),
        question_pairs=QuestionPairStore(writer, readers),
    )
