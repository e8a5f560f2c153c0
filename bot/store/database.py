"""Connections to a ledger file with the settings that keep it safe, and SQLite's errors in an operator's words.

Exactly one connection may write or checkpoint a file at a time: SQLite up to 3.51.2 can corrupt a write-ahead log that
two connections checkpoint at once. ``open_writer`` is for the holder of the instance lock; everybody else reads.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlite_utils import Database

from bot.errors import StoreError

WAL_LIMIT_BYTES = 64 * 1024 * 1024

_BOTH = (
    "busy_timeout = 5000",
    "foreign_keys = on",
    "temp_store = memory",
    "trusted_schema = off",
    "mmap_size = 0",
)
_WRITER = (
    *_BOTH,
    "journal_mode = wal",
    "synchronous = full",
    f"journal_size_limit = {WAL_LIMIT_BYTES}",
    "wal_autocheckpoint = 1000",
)
_READER = (*_BOTH, "query_only = on")

_FULL = "the disk is full; free some space, then start again"
_REMEDIES = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "the disk did not read or write as asked; look at the system's log, then check the database",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore a backup",
    sqlite3.SQLITE_NOTADB: "this is not a database, or it is damaged; restore a backup",
    sqlite3.SQLITE_READONLY: "the database cannot be written; look at the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; look at the path and the rights of its folder",
    sqlite3.SQLITE_PERM: "the database cannot be opened; look at the rights of the file and its folder",
    sqlite3.SQLITE_BUSY: "another program is writing to the database; end it, then try again",
    sqlite3.SQLITE_LOCKED: "another program holds a table of the database; end it, then try again",
    sqlite3.SQLITE_INTERRUPT: "the read took too long and was ended; ask for less at once",
}

# After these nothing may leave any more: what is done could not be written down.
_HALTING = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
    }
)


def open_writer(path: Path) -> Database:
    """Open the one connection that may write, making the file (mode 0600) and its folder (mode 0700) if need be.

    It is bound to the calling thread, in autocommit: open transactions with ``begin immediate``. Raises StoreError.
    """
    with translated(path):
        make_private(path)
        return _connected(sqlite3.connect(path, isolation_level=None), _WRITER)


def open_reader(path: Path) -> Database:
    """Open a connection that can neither write nor checkpoint; it may move between threads, one at a time.

    Raises StoreError, also where there is no such file.
    """
    with translated(path):
        if not path.exists():
            message = f"{path}: there is no database here yet"
            raise StoreError(message)
        address = f"{path.absolute().as_uri()}?mode=ro"
        return _connected(sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False), _READER)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the file system about ``path`` into StoreError that says what to do.

    Errors that only a programmer can act on (syntax, broken constraints) pass unchanged.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        known = explained(error, path)
        if known is None:
            raise
        raise known from error


def explained(error: BaseException, path: Path) -> StoreError | None:
    """Return the error in words an operator can act on, itself as the cause; nothing where only a programmer can."""
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        known = StoreError(f"{path}: {_FULL}")
    elif isinstance(error, OSError):
        known = StoreError(f"{path}: {error.strerror or error}; look at the disk and the rights of the folder")
    elif (remedy := _REMEDIES.get(_code(error))) is not None:
        known = StoreError(f"{path}: {remedy} ({error})")
    else:
        return None
    known.__cause__ = error
    return known


def is_halting(error: BaseException) -> bool:
    """Say whether nothing more can be written to the file until a person has acted."""
    return _code(error) in _HALTING


def make_private(path: Path) -> None:
    """Make the file and its folder if absent, readable by their owner alone; a wider file is narrowed.

    SQLite gives a database's side files the mode of the database, so the umask, which all threads share, stays alone.
    Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _connected(connection: sqlite3.Connection, settings: Sequence[str]) -> Database:
    try:
        # Plugins of sqlite-utils that happen to be installed have no business in the ledger.
        database = Database(connection, recursive_triggers=False, execute_plugins=False)
        for setting in settings:
            connection.execute(f"pragma {setting}")
        _require_wal(connection)
    except BaseException:
        connection.close()
        raise
    return database


def _require_wal(connection: sqlite3.Connection) -> None:
    # A reader of a file that was never written to sees "delete", which is harmless.
    (mode,) = connection.execute("pragma journal_mode").fetchone()
    (reads_only,) = connection.execute("pragma query_only").fetchone()
    if mode != "wal" and not reads_only:
        message = f"this file system has no write-ahead log (journal mode {mode!r}); move the state to a local disk"
        raise StoreError(message)


def _code(error: BaseException) -> int:
    # The low byte is the primary code; errors of the Python module itself carry none.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
