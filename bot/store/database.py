"""Connections to a ledger file with safe settings, and errors of SQLite with remedies.

Also the disk reserve, and the lock that lets only one Foxcast use a state folder.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from sqlite_utils import Database

from bot.core.errors import StateFolderLockedError, StoreError
from bot.core.light_dataclass import dataclass
from bot.store.private_files import (
    create_private_file,
    find_foreign_entries,
    open_private_file,
    read_private_json,
    require_private_file,
    write_private_file,
)

WAL_LIMIT_BYTES = 64 * 1024 * 1024
# 16 MB of log: with SQLite's 1,000 pages each page of the database is written back twice as often.
CHECKPOINT_PAGES = 4000
_COMMON_PRAGMAS = (
    "busy_timeout = 5000",
    "foreign_keys = on",
    "temp_store = memory",
    "trusted_schema = off",
    "mmap_size = 0",
)
_WRITER_PRAGMAS = (
    *_COMMON_PRAGMAS,
    "journal_mode = wal",
    "synchronous = full",
    f"journal_size_limit = {WAL_LIMIT_BYTES}",
    f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
)
_READER_PRAGMAS = (*_COMMON_PRAGMAS, "query_only = on")
_DISK_FULL_REMEDY = "the disk is full; free some space, then start again"
_REMEDIES = {
    sqlite3.SQLITE_FULL: _DISK_FULL_REMEDY,
    sqlite3.SQLITE_IOERR: "the disk failed to read or write; check the system log, then the database",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore a backup",
    sqlite3.SQLITE_NOTADB: "this is not a database, or it is damaged; restore a backup",
    sqlite3.SQLITE_READONLY: "the database cannot be written; check the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; check the path and the permissions of its folder",
    sqlite3.SQLITE_PERM: "the database cannot be opened; check the permissions of the file and its folder",
    sqlite3.SQLITE_BUSY: "another program is writing to the database; stop it, then try again",
    sqlite3.SQLITE_LOCKED: "another program holds a table of the database; stop it, then try again",
    sqlite3.SQLITE_INTERRUPT: "the query took too long and was stopped; ask for less at once",
}
# After these errors nothing may be sent, because it could not be recorded.
_HALTING_CODES = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
    }
)


def open_writer(path: Path) -> Database:
    """Open the only writing connection; creates a missing file (mode 0600) and folder (mode 0700).

    It belongs to the calling thread, in autocommit mode: start transactions with ``begin immediate``. Raises
    StoreError.
    """
    with translate_errors(path):
        create_private_file(path)
        return _configure_connection(sqlite3.connect(path, isolation_level=None), _WRITER_PRAGMAS)


def open_reader(path: Path) -> Database:
    """Open a connection that can neither write nor checkpoint; threads may use it in turn.

    Raises StoreError, also for a missing file.
    """
    with translate_errors(path):
        if not path.exists():
            message = f"{path}: there is no database here yet"
            raise StoreError(message)
        require_private_file(path)
        address = f"{path.absolute().as_uri()}?mode=ro"
        return _configure_connection(
            sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False), _READER_PRAGMAS
        )


def create_incremental_file(path: Path) -> None:
    """Create a database whose free pages can be returned to the disk in small steps; an existing one is unchanged.

    Raises StoreError.
    """
    with translate_errors(path):
        if path.exists() and path.stat().st_size:
            return
        create_private_file(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # Only before anything else is written.
            connection.execute("pragma auto_vacuum = incremental")
            connection.execute("vacuum")


def open_writer_with(path: Path, attached: Path) -> Database:
    """Open a writing connection as ``open_writer`` does, with a second existing database attached to it.

    A transaction commits the database at ``path`` first: after a kill in between, only that one has it.
    """
    database = open_writer(path)
    try:
        with translate_errors(attached):
            database.conn.execute("attach database ? as attached", [str(attached)])
            for setting in ("synchronous = full", f"journal_size_limit = {WAL_LIMIT_BYTES}"):
                database.conn.execute(f"pragma attached.{setting}")
    except BaseException:
        database.close()
        raise
    return database


def open_reader_with(path: Path, attached: Path) -> Database:
    """Open a connection as ``open_reader`` does, with a second existing database attached to it."""
    database = open_reader(path)
    try:
        with translate_errors(attached):
            database.conn.execute("attach database ? as attached", [f"{attached.absolute().as_uri()}?mode=ro"])
    except BaseException:
        database.close()
        raise
    return database


def escape_like(text: str) -> str:
    r"""Return the text as a pattern of ``like ... escape '\\'`` that matches only itself."""
    return "".join(f"\\{character}" if character in "\\%_" else character for character in text)


def text_condition(database: Database, columns: Sequence[str], text: str) -> str:
    """Return the condition that one of the columns contains the text in any case, whose value is ``text_pattern``."""
    if text.isascii():
        return " or ".join(f"{column} like :text escape '\\'" for column in columns)
    # SQLite knows the case of ASCII alone.
    database.conn.create_function("folded", 1, str.casefold, deterministic=True)
    together = " || char(10) || ".join(f"coalesce({column}, '')" for column in columns)
    return f"folded({together}) like :text escape '\\'"


def text_pattern(text: str) -> str:
    """Return the value of ``text_condition``."""
    return f"%{escape_like(text.casefold())}%"


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the file system about ``path`` into a StoreError that says what to do.

    Errors that only a programmer can fix (syntax, constraints) pass unchanged.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise_explained(error, path)


def raise_explained(error: BaseException, path: Path) -> NoReturn:
    """Raise a StoreError that says what to do about an error, or the error itself if only a programmer can fix it."""
    known = explain_error(error, path)
    if known is None:
        raise error
    raise known from error


def explain_error(error: BaseException, path: Path) -> StoreError | None:
    """Return a StoreError that says what to do, with the error as its cause; None if only a programmer can fix it."""
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        known = StoreError(f"{path}: {_DISK_FULL_REMEDY}")
    elif isinstance(error, OSError):
        known = StoreError(f"{path}: {error.strerror or error}; check the disk and the permissions of the folder")
    elif (remedy := _REMEDIES.get(_primary_error_code(error))) is not None:
        known = StoreError(f"{path}: {remedy} ({error})")
    else:
        return None
    known.__cause__ = error
    return known


def is_halting_error(error: BaseException) -> bool:
    """Return whether a person must act before anything more can be written to the file."""
    return _primary_error_code(error) in _HALTING_CODES


def is_busy_or_interrupted(error: BaseException) -> bool:
    """Return whether a query was stopped, or another program was in its way: it may succeed with more time."""
    return _primary_error_code(error) in {sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY}


def _configure_connection(connection: sqlite3.Connection, settings: Sequence[str]) -> Database:
    try:
        # Installed plugins of sqlite-utils must not run on the ledger.
        database = Database(connection, recursive_triggers=False, execute_plugins=False)
        for setting in settings:
            connection.execute(f"pragma {setting}")
        _require_wal(connection)
    except BaseException:
        connection.close()
        raise
    return database


def _require_wal(connection: sqlite3.Connection) -> None:
    # A reader of a file without any write sees "delete", which is harmless.
    (mode,) = connection.execute("pragma journal_mode").fetchone()
    (reads_only,) = connection.execute("pragma query_only").fetchone()
    if mode != "wal" and not reads_only:
        message = f"this file system has no write-ahead log (journal mode {mode!r}); move the state to a local disk"
        raise StoreError(message)


def _primary_error_code(error: BaseException) -> int:
    # The low byte is the primary code; errors of the Python module itself have none.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


DISK_RESERVE_BYTES = 8 * 1024 * 1024


class DiskReserve:
    """A file that occupies ``size`` bytes of the disk until it is released."""

    def __init__(self, path: Path, *, size: int = DISK_RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    @property
    def held(self) -> bool:
        """Whether the file exists in full size."""
        return self._path.is_file() and self._path.lstat().st_size == self._size

    def hold(self) -> None:
        """Create the file if it is missing. Raises StoreError, and leaves no file, if the disk is full."""
        if self.held:
            return
        with translate_errors(self._path):
            try:
                write_private_file(self._path, _incompressible_blocks(self._size))
            except OSError:
                self._path.unlink(missing_ok=True)
                raise

    def release(self) -> None:
        """Delete the file; a second call does nothing. Raises StoreError."""
        with translate_errors(self._path):
            self._path.unlink(missing_ok=True)


def _incompressible_blocks(size: int) -> Iterator[bytes]:
    # A compressing file system would store zeros in almost no space. It compresses one record at a time: 128 KiB in
    # Btrfs, and in ZFS unless recordsize is set. So the same megabyte again and again takes all the space that it says.
    block = hashlib.shake_128(b"ballast").digest(min(size, 1024 * 1024))
    for start in range(0, size, len(block) or 1):
        yield block[: size - start]


LOCK_FILE = "lock"
MAX_LOCK_BYTES = 10_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """The process that took the lock last; ``boot`` is empty on systems without boot ids."""

    pid: int
    boot: str
    started_at: datetime


@contextmanager
def instance_lock(folder: Path, *, started_at: datetime) -> Iterator[LockHolder]:
    """Lock the state folder while the block runs, and restrict it to its owner (mode 0700).

    Raises StateFolderLockedError that names the process with the lock, and StoreError for an unusable folder and for a
    link, FIFO or device in it.
    """
    path = folder / LOCK_FILE
    with translate_errors(path):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _restrict_folder(folder)
        if fault := next(find_foreign_entries(folder), None):
            raise StoreError(fault)
        # Opened for update: the name of the holder must survive a refused attempt.
        file = os.fdopen(open_private_file(path, os.O_RDWR | os.O_CREAT), "r+", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateFolderLockedError(_locked_message(path)) from error
        holder = LockHolder(pid=os.getpid(), boot=_boot_id(), started_at=started_at)
        with translate_errors(path):
            _write_holder(file.fileno(), holder)
        # The file is not deleted, because then two processes could lock two files of one name.
        yield holder


def last_holder(folder: Path) -> LockHolder | None:
    """Return the process that took the lock last, whether or not it still holds it; None if unknown."""
    try:
        raw = read_private_json(folder / LOCK_FILE, MAX_LOCK_BYTES)
        return LockHolder(
            pid=int(raw["pid"]), boot=str(raw["boot"]), started_at=datetime.fromisoformat(raw["started_at"])
        )
    except (OSError, StoreError, ValueError, KeyError, TypeError):
        return None


def is_holder_running(holder: LockHolder) -> bool:
    """Return whether the process still runs; a reused process id of the same boot counts as running."""
    if holder.boot != _boot_id():
        return False
    try:
        os.kill(holder.pid, 0)
    except OSError as error:
        # A process of another user cannot be signalled, but runs.
        return error.errno == errno.EPERM
    return True


def find_running_holder(folder: Path) -> LockHolder | None:
    """Return the process that uses the state folder; None if none is known to run.

    A missing or unreadable lock file counts as none: the lock itself decides when a program needs the folder.
    """
    holder = last_holder(folder)
    return holder if holder is not None and is_holder_running(holder) else None


def _locked_message(path: Path) -> str:
    holder = last_holder(path.parent)
    who = (
        "another Foxcast" if holder is None else f"Foxcast process {holder.pid}, started {holder.started_at:%F %T} UTC,"
    )
    stop = "stop it" if holder is None else f"stop it (kill {holder.pid})"
    return f"{who} uses {path.parent}; {stop}, or use another state folder for this one"


def _write_holder(handle: int, holder: LockHolder) -> None:
    text = json.dumps({"pid": holder.pid, "boot": holder.boot, "started_at": holder.started_at.isoformat()})
    os.ftruncate(handle, 0)
    os.pwrite(handle, text.encode(), 0)
    os.fsync(handle)


def _restrict_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A folder of another user, such as a mounted volume, keeps its permissions.
        if os.fstat(handle).st_uid == os.geteuid():
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else ""
