"""The ledger: every table family behind one name, opened once and closed once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlite_utils import Database

from bot.errors import StoreError
from bot.store import audit
from bot.store.ballast import Ballast
from bot.store.calls import Calls
from bot.store.checks import quick_check
from bot.store.conducts import Conducts
from bot.store.dockets import Dockets
from bot.store.documents import Documents
from bot.store.exchanges import Exchanges
from bot.store.forecasts import Forecasts
from bot.store.journal import Journal
from bot.store.learning import Learning
from bot.store.leave import Leave
from bot.store.migrations import checksums, migrate, require_known
from bot.store.profits import Profits
from bot.store.questions import Questions
from bot.store.rates import RateStates
from bot.store.readers import Readers
from bot.store.readings import Readings
from bot.store.related import Related
from bot.store.resolutions import Resolutions
from bot.store.restore import finish
from bot.store.runs import Runs, Sealed, Writes
from bot.store.schedule import Schedule
from bot.store.schema import MIGRATIONS
from bot.store.scores import Scores
from bot.store.submissions import Submissions
from bot.store.venue_scores import VenueScores
from bot.store.writer import Writer

BACKUP_FOLDER = "backups"
BALLAST_FILE = "ballast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Everything that Foxcast knows and did, by table family."""

    documents: Documents
    questions: Questions
    schedule: Schedule
    forecasts: Forecasts
    submissions: Submissions
    dockets: Dockets
    resolutions: Resolutions
    scores: Scores
    venue_scores: VenueScores
    learning: Learning
    journal: Journal
    exchanges: Exchanges
    calls: Calls
    conducts: Conducts
    rates: RateStates
    leave: Leave
    readings: Readings
    profits: Profits
    related: Related


@asynccontextmanager
async def open_ledger(path: Path, *, now: datetime) -> AsyncIterator[Ledger]:
    """Open the ledger for writing, new or brought up to date after a backup; the instance lock must be held.

    Raises StoreError for a damaged file, for one of a newer program, and for a disk that does not do its work.
    """
    await asyncio.to_thread(_prepare, path, now)
    async with Writer(path, ballast=Ballast(path.parent / BALLAST_FILE)) as writer, Readers(path) as readers:
        yield _compose(writer, readers)


@asynccontextmanager
async def read_ledger(path: Path) -> AsyncIterator[Ledger]:
    """Open the ledger for reading, beside a daemon that may be writing; each write raises StoreError.

    Raises StoreError where there is no ledger, or one of an older or newer program.
    """
    async with Readers(path) as readers:
        await readers.run(_require_current)
        yield _compose(Sealed(), readers)


def _prepare(path: Path, now: datetime) -> None:
    finish(path)
    if path.exists() and path.stat().st_size:
        health = quick_check(path)
        if not health.sound:
            message = f"{path} is damaged ({health.problems[0].examples[0]}); restore a backup: foxcast db restore"
            raise StoreError(message)
    migrate(path, MIGRATIONS, backups=path.parent / BACKUP_FOLDER, at=now)
    Ballast(path.parent / BALLAST_FILE).hold()


def _require_current(database: Database) -> None:
    expected = checksums(MIGRATIONS)
    applied = require_known(database, expected, MIGRATIONS)
    if missing := [name for name in expected if name not in applied]:
        message = f"the ledger is older than this Foxcast (it lacks {', '.join(missing)}); start foxcast run --once"
        raise StoreError(message)


def _compose(writer: Writes, readers: Runs) -> Ledger:
    return Ledger(
        documents=Documents(writer, readers),
        questions=Questions(writer, readers),
        schedule=Schedule(writer, readers),
        forecasts=Forecasts(writer, readers),
        submissions=Submissions(writer, readers, audit.append),
        dockets=Dockets(readers),
        resolutions=Resolutions(writer, readers),
        scores=Scores(writer, readers),
        venue_scores=VenueScores(writer, readers),
        learning=Learning(writer, readers),
        journal=Journal(writer, readers),
        exchanges=Exchanges(writer, readers),
        calls=Calls(writer, readers),
        conducts=Conducts(writer, readers),
        rates=RateStates(writer, readers),
        leave=Leave(writer, readers),
        readings=Readings(writer, readers),
        profits=Profits(writer, readers),
        related=Related(readers),
    )
