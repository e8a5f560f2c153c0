"""A paper book's file: opened, brought up to date, and closed once; the same safety as the ledger's."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlite_utils import Migrations

from bot.store.migrations import checksums, migrate, require_known
from bot.store.readers import Readers
from bot.store.runs import Runs, Sealed
from bot.store.writer import Writer

BACKUP_FOLDER = "backups"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookFile:
    """The two ways into a book: the one that writes, and the one that reads."""

    writer: Runs
    readers: Runs


@asynccontextmanager
async def open_file(path: Path, migrations: Migrations, *, now: datetime) -> AsyncIterator[BookFile]:
    """Open a book for writing, new or brought up to date after a backup; one process at a time.

    Raises StoreError for a damaged file and for one of a newer program.
    """
    migrate(path, migrations, backups=path.parent / BACKUP_FOLDER, at=now)
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(Writer(path))
        readers = await stack.enter_async_context(Readers(path, count=1))
        yield BookFile(writer=writer, readers=readers)


@asynccontextmanager
async def read_file(path: Path, migrations: Migrations) -> AsyncIterator[BookFile]:
    """Open a book for reading, beside a daemon that may be writing it.

    Raises StoreError where there is none, or one of a newer program.
    """
    async with Readers(path, count=1) as readers:
        known = checksums(migrations)
        await readers.run(lambda database: require_known(database, known, migrations))
        yield BookFile(writer=Sealed(), readers=readers)
