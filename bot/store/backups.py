"""Backups of a ledger and its paper books, and which of them are kept.

A backup is a complete, checked copy made while the ledger is in use. Its file is named ``<ledger>-<UTC time>.db``, and
the copies of the books are in ``<ledger>-<UTC time>.books``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.database import open_reader, translate_errors
from bot.store.integrity_checks import run_full_check
from bot.store.private_files import create_private_file, sync_to_disk

if TYPE_CHECKING:
    from pathlib import Path

BACKUP_BOOK_TABLE = "_backup_book"
_CREATE_BOOK_TABLE = f"create table {BACKUP_BOOK_TABLE} (file text primary key, sha256 text not null) strict"
_INSERT_BOOK = f"insert into {BACKUP_BOOK_TABLE} (file, sha256) values (?, ?)"  # noqa: S608 - made of constants
_SELECT_BOOKS = f"select file, sha256 from {BACKUP_BOOK_TABLE} order by file"  # noqa: S608 - made of constants
CONTENT_TABLE = "_backup_content"
_CREATE_CONTENT_TABLE = f"create table {CONTENT_TABLE} (name text primary key, value text not null) strict"
_INSERT_CONTENT = f"insert into {CONTENT_TABLE} (name, value) values (?, ?)"  # noqa: S608 - as above
_SELECT_CONTENT = f"select name, value from {CONTENT_TABLE}"  # noqa: S608 - as above
BACKUP_FOLDER = "backups"
_REPLACED_NAME = re.compile(r".+-replaced-(?P<stamp>\d{8}T\d{6}Z)")


# The tables whose rows say what a ledger decided, spent and scored; they only grow.
COUNTED_TABLES = ("question", "forecast", "intent", "fill", "resolution", "audit")
# Table -> its column of times; the last record is the latest of them.
_TIMED_TABLES = {"event": "at", "forecast": "made_at", "audit": "at"}
_LAST_RECORD = "last record"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerContent:
    """How much a ledger holds: rows by counted table, and the time of its last record."""

    rows: Mapping[str, int]
    last_record_at: datetime | None = None

    def lacks_part_of(self, other: LedgerContent) -> bool:
        """Return whether it has fewer rows of a table than the other one, or an earlier last record."""
        if any(self.rows.get(name, 0) < count for name, count in other.rows.items()):
            return True
        if other.last_record_at is None:
            return False
        return self.last_record_at is None or self.last_record_at < other.last_record_at


def count_content(ledger: Path) -> LedgerContent:
    """Count what a ledger or a backup holds; raises StoreError."""
    with translate_errors(ledger), closing(open_reader(ledger)) as database:
        known = {*database.table_names()}
        rows = {
            name: int(database.conn.execute(f"select count(*) from {name}").fetchone()[0])  # noqa: S608 - constants
            for name in COUNTED_TABLES
            if name in known
        }
        times = [
            database.conn.execute(f"select max({column}) from {name}").fetchone()[0]  # noqa: S608 - constants
            for name, column in _TIMED_TABLES.items()
            if name in known
        ]
    last_record_at = max((time for time in times if time is not None), default=None)
    return LedgerContent(
        rows=rows, last_record_at=None if last_record_at is None else datetime.fromisoformat(last_record_at)
    )


def read_backup_content(backup: Path) -> LedgerContent | None:
    """Return what a backup holds, as recorded in it, or counted in a backup without the record; None if unreadable."""
    try:
        with translate_errors(backup), closing(open_reader(backup)) as database:
            recorded = database[CONTENT_TABLE].exists()
            values = dict(database.execute(_SELECT_CONTENT).fetchall()) if recorded else {}
        if not recorded:
            return count_content(backup)
        last_record_at = values.pop(_LAST_RECORD, None)
        return LedgerContent(
            rows={name: int(count) for name, count in values.items()},
            last_record_at=None if last_record_at is None else datetime.fromisoformat(last_record_at),
        )
    except (StoreError, ValueError):
        return None


def find_books(ledger: Path) -> dict[str, Path]:
    """Return the books of a ledger by their path below its folder, without those that a restore replaced."""
    found = [path for path in ledger.parent.glob("*/*.sqlite") if not _REPLACED_NAME.fullmatch(path.stem)]
    return {str(path.relative_to(ledger.parent)): path for path in sorted(found)}


def backup_books_folder(backup: Path) -> Path:
    """Return the folder with the copies of the books of a backup."""
    return backup.with_suffix(".books")


def replaced_path(path: Path, stamp: str) -> Path:
    """Return the path to which a restore at that time moves the replaced file."""
    return path.with_name(f"{path.stem}-replaced-{stamp}{path.suffix}")


def record_backup(copy: Path, books: Mapping[str, Path], content: LedgerContent) -> None:
    """Record in the copy of a ledger what it holds, and which books were copied with it."""
    values = {name: str(count) for name, count in content.rows.items()}
    if content.last_record_at is not None:
        values[_LAST_RECORD] = content.last_record_at.isoformat()
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        connection.execute(_CREATE_BOOK_TABLE)
        connection.executemany(_INSERT_BOOK, [(name, file_sha256(path)) for name, path in books.items()])
        connection.execute(_CREATE_CONTENT_TABLE)
        connection.executemany(_INSERT_CONTENT, [*values.items()])
        connection.execute("commit")
    sync_to_disk(copy)


def drop_backup_records(ledger: Path) -> None:
    """Delete the record of a backup from a copy that becomes a ledger again."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        for table in (BACKUP_BOOK_TABLE, CONTENT_TABLE):
            connection.execute(f"drop table if exists {table}")
    sync_to_disk(ledger)


def verified_book_copies(backup: Path, ledger: Path) -> dict[str, Path]:
    """Return the checked copies of the books of a backup, by their path below the folder of the ledger.

    Raises StoreError for a backup with a missing or changed part, and for one without books if the ledger in use has
    books.
    """
    named = _recorded_books(backup)
    if named is not None:
        return _verify_book_copies(backup, named)
    if replaced := _REPLACED_NAME.fullmatch(backup.stem):
        books = backup.parent.glob(f"*/*-replaced-{replaced['stamp']}.sqlite")
        return {_original_place(path, backup.parent): path for path in sorted(books)}
    if current := find_books(ledger):
        message = (
            f"{backup} was made without the paper books; to restore it, move these away first, new ones will be made: "
            f"{', '.join(str(path) for path in current.values())}"
        )
        raise StoreError(message)
    return {}


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_book_copies(backup: Path) -> tuple[Path, ...]:
    """Return the existing copies of the books of a backup."""
    return tuple(sorted(backup_books_folder(backup).glob("*/*.sqlite")))


def remove_book_copies(backup: Path) -> None:
    """Delete the copies of the books of a backup."""
    shutil.rmtree(backup_books_folder(backup), ignore_errors=True)


def _recorded_books(backup: Path) -> dict[str, str] | None:
    with closing(open_reader(backup)) as database:
        return dict(database.execute(_SELECT_BOOKS).fetchall()) if database[BACKUP_BOOK_TABLE].exists() else None


def _verify_book_copies(backup: Path, named: Mapping[str, str]) -> dict[str, Path]:
    copies = {name: backup_books_folder(backup) / name for name in named}
    if absent := [name for name, path in copies.items() if not path.is_file()]:
        message = (
            f"{backup} is incomplete: {', '.join(absent)} should be in {backup_books_folder(backup)}; "
            "copy that folder as well, or choose another backup"
        )
        raise StoreError(message)
    if changed := [str(path) for name, path in copies.items() if file_sha256(path) != named[name]]:
        message = f"{', '.join(changed)} differs from the copy made for {backup.name}; choose another backup"
        raise StoreError(message)
    return copies


def _original_place(aside: Path, folder: Path) -> str:
    stem, _, _ = aside.stem.rpartition("-replaced-")
    return str(aside.relative_to(folder).with_name(f"{stem}{aside.suffix}"))


# Bytes that must stay free for the ledger itself after a copy.
RESERVE_BYTES = 64 * 1024 * 1024
# No copy takes this long, so an older partial copy is from a killed process.
ABANDONED_AFTER = timedelta(hours=1)
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"
_BACKUP_NAME = re.compile(r"(?P<stem>.+)-(?P<stamp>\d{8}T\d{6}Z)(?:-(?P<label>.+))?\.db")
_PARTIAL_NAME = re.compile(r"\.(?P<name>.+\.db)\.\d+\.partial(?:-books)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBackup:
    """One backup; ``label`` is empty for a regular one, ``size_bytes`` includes the copied ``books``."""

    path: Path
    made_at: datetime
    label: str
    size_bytes: int
    books: tuple[Path, ...] = ()

    @property
    def stem(self) -> str:
        """The name of the ledger's file without its suffix."""
        name = _BACKUP_NAME.fullmatch(self.path.name)
        return name["stem"] if name else ""


def create_backup(path: Path, folder: Path, *, at: datetime, label: str = "") -> LedgerBackup:
    """Copy the ledger at ``path`` and its books into the folder, check the copies, and only then name them.

    A check opens the copy, verifies every page and counts its rows. The name contains ``at``; a regular backup of the
    same second is replaced. Raises StoreError for a disk without room, for a damaged copy (its original is then damaged
    too), and for one that holds less than the ledger did.
    """
    name = "-".join(part for part in (path.stem, at.astimezone(UTC).strftime(_TIME_FORMAT), label) if part) + ".db"
    target = folder / name
    # A person and the daemon may each make a backup at the same time.
    partial = folder / f".{name}.{os.getpid()}.partial"
    partial_books = partial.with_name(f"{partial.name}-books")
    with translate_errors(folder):
        _remove_partial_copies(folder, path.stem, at - ABANDONED_AFTER)
        try:
            before = count_content(path)
            books = _copy_books(path, partial_books)
            copy_database(path, partial)
            record_backup(partial, books, count_content(partial))
            require_intact(partial)
            _require_content(partial, before)
            _publish_copies({partial_books: backup_books_folder(target)} if books else {}, partial, target)
        finally:
            partial.unlink(missing_ok=True)
            shutil.rmtree(partial_books, ignore_errors=True)
        sync_to_disk(folder)
        return _describe_backup(target, at, label)


def require_recorded_content(backup: Path) -> None:
    """Raise StoreError for a backup that holds less than is recorded in it."""
    recorded = read_backup_content(backup)
    if recorded is not None:
        _require_content(backup, recorded)


def _require_content(copy: Path, expected: LedgerContent) -> None:
    if count_content(copy).lacks_part_of(expected):
        message = f"{copy} holds less than it should; check the disk, choose another backup"
        raise StoreError(message)


def _copy_books(ledger: Path, folder: Path) -> dict[str, Path]:
    copies = {}
    for name, book in find_books(ledger).items():
        copies[name] = folder / name
        copy_database(book, copies[name])
        require_intact(copies[name])
    return copies


def _publish_copies(books: dict[Path, Path], partial: Path, target: Path) -> None:
    # The ledger comes last, so that a backup with its final name is complete.
    if backup_books_folder(target).exists():
        target.unlink(missing_ok=True)
        remove_book_copies(target)
    for copy, named in books.items():
        copy.replace(named)
    partial.replace(target)


def copy_database(path: Path, target: Path) -> None:
    """Write a copy of one snapshot of the database, page by page, to a new file and sync it to the disk.

    Raises StoreError, also for a disk without room.
    """
    with translate_errors(path):
        _require_disk_space(path, target.parent)
        create_private_file(target)
        with closing(open_reader(path)) as database, closing(sqlite3.connect(target, isolation_level=None)) as copy:
            # All pages in one step: others may write meanwhile. VACUUM INTO would take six times as much CPU.
            database.conn.backup(copy, pages=-1)
            # A copy is one file, without the log that its original has next to it.
            copy.execute("pragma journal_mode = delete")
        sync_to_disk(target)


def require_intact(path: Path) -> None:
    """Raise StoreError for a copy that fails SQLite's checks of integrity and foreign keys."""
    health = run_full_check(path, ())
    if not health.sound:
        message = f"{path} is damaged ({health.problems[0].examples[0]}); check the ledger, choose an earlier backup"
        raise StoreError(message)


def list_backups(folder: Path, stem: str) -> tuple[LedgerBackup, ...]:
    """Return the backups of the ledger with that file stem, newest first; empty if the folder does not exist.

    Skips entries that only look like a backup (a folder, a broken link, an impossible time).
    """
    with translate_errors(folder):
        found = [_parse_backup(path) for path in folder.glob(f"{stem}-*.db")]
    copies = [one for one in found if one is not None and one.stem == stem]
    return tuple(sorted(copies, key=lambda backup: backup.made_at, reverse=True))


def remove_backup(backup: LedgerBackup) -> None:
    """Delete a backup with its books; raises StoreError."""
    with translate_errors(backup.path):
        backup.path.unlink(missing_ok=True)
        remove_book_copies(backup.path)


def missing_bytes(path: Path, folder: Path) -> int:
    """Return how many bytes the disk of the folder lacks for a copy of the ledger and its books."""
    with translate_errors(folder):
        wanted = sum(_database_size(one) for one in (path, *find_books(path).values()))
        return max(0, wanted + RESERVE_BYTES - shutil.disk_usage(folder).free) if folder.exists() else 0


def _parse_backup(path: Path) -> LedgerBackup | None:
    name = _BACKUP_NAME.fullmatch(path.name)
    if name is None or not path.is_file():
        return None
    try:
        at = datetime.strptime(name["stamp"], _TIME_FORMAT).replace(tzinfo=UTC)
        return _describe_backup(path, at, name["label"] or "")
    except (ValueError, FileNotFoundError):  # not a time, or deleted meanwhile
        return None


def _describe_backup(path: Path, at: datetime, label: str) -> LedgerBackup:
    books = find_book_copies(path)
    size_bytes = sum(one.stat().st_size for one in (path, *books))
    return LedgerBackup(path=path, made_at=at, label=label, size_bytes=size_bytes, books=books)


def _remove_partial_copies(folder: Path, stem: str, before: datetime) -> None:
    for partial in [*folder.glob(".*.partial"), *folder.glob(".*.partial-books")]:
        named = _PARTIAL_NAME.fullmatch(partial.name)
        name = _BACKUP_NAME.fullmatch(named["name"]) if named else None
        if name is not None and name["stem"] == stem and _was_written_before(partial, before):
            partial.unlink(missing_ok=True) if partial.is_file() else shutil.rmtree(partial, ignore_errors=True)
    for books in folder.glob(f"{stem}-*.books"):
        if not books.with_suffix(".db").exists() and _was_written_before(books, before):
            shutil.rmtree(books, ignore_errors=True)


def _was_written_before(path: Path, moment: datetime) -> bool:
    try:
        return path.stat().st_mtime < moment.timestamp()
    except FileNotFoundError:  # its maker finished and removed it
        return False


def _database_size(path: Path) -> int:
    wal = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)


def _require_disk_space(path: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = _database_size(path)
    free = shutil.disk_usage(folder).free
    if free < size + RESERVE_BYTES:
        message = (
            f"{folder}: a copy of {path.name} needs {size / 1e6:.0f} MB, {free / 1e6:.0f} MB are free; free some space"
        )
        raise StoreError(message)
