"""Is this ledger sound? Quick at each start, in full on a copy every night and whenever somebody asks."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sqlite_utils import Database

from bot.store.database import WAL_LIMIT_BYTES, open_reader, translated

FREE_LIMIT_BYTES = 500 * 1024 * 1024
_EXAMPLES = 5


class Query(Protocol):
    """A rule of the ledger as SQL that returns the rows that break it: ``bot.store.invariants.Invariant``."""

    @property
    def name(self) -> str:
        """One word or two, in code form."""
        ...

    @property
    def sql(self) -> str:
        """A select without parameters; no row is the good answer."""
        ...

    @property
    def meaning(self) -> str:
        """What a row tells an operator."""
        ...


@dataclass(frozen=True, slots=True)
class _Builtin:
    name: str
    sql: str
    meaning: str


_QUICK = _Builtin("quick_check", f"pragma quick_check({_EXAMPLES})", "pages are damaged; restore a backup")
_FULL = _Builtin("integrity_check", f"pragma integrity_check({_EXAMPLES})", "the file is damaged; restore a backup")
_FOREIGN_KEYS = _Builtin("foreign_key_check", "pragma foreign_key_check", "rows refer to rows that are not there")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One check that failed, with some of the rows that show it."""

    check: str
    meaning: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the checks found. ``warnings`` need attention soon, ``problems`` now."""

    path: Path
    checks: tuple[str, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...] = ()
    database_bytes: int
    wal_bytes: int
    free_bytes: int

    @property
    def sound(self) -> bool:
        """Whether no check failed."""
        return not self.problems


def quick_check(path: Path) -> Health:
    """Look for damaged pages without reading every index: a second for some hundred MB.

    Damage is a problem in the answer; raises StoreError for a file that cannot be opened at all.
    """
    return _health(path, (_QUICK,))


def full_check(path: Path, queries: Sequence[Query]) -> Health:
    """Check every page, index and foreign key, then every given rule of the ledger.

    Reads for as long as it takes, so give it a copy while the ledger is in heavy use. Raises StoreError for a file that
    cannot be opened at all.
    """
    return _health(path, (_FULL, _FOREIGN_KEYS, *queries))


def wal_bytes(path: Path) -> int:
    """Return the size of the write-ahead log of the ledger; above 64 MB a reader keeps it from being emptied."""
    wal = path.with_name(f"{path.name}-wal")
    return wal.stat().st_size if wal.exists() else 0


def version_warning(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> str | None:
    """Return what is wrong with that SQLite, or nothing.

    Up to 3.51.2 two connections that checkpoint at once can corrupt the write-ahead log; 3.44.6 and 3.50.7 have the
    correction too. Foxcast opens one writing connection, so the old version is a warning and not a refusal.
    """
    if version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45):
        return None
    number = ".".join(str(part) for part in version)
    return f"SQLite {number} can corrupt a database that two programs write to; update it, or write with nothing else"


def _health(path: Path, queries: Sequence[Query]) -> Health:
    with translated(path), closing(open_reader(path)) as database:
        problems = tuple(problem for query in queries if (problem := _broken(database, query)) is not None)
        found = Health(
            path=path,
            checks=tuple(query.name for query in queries),
            problems=problems,
            database_bytes=path.stat().st_size,
            wal_bytes=wal_bytes(path),
            free_bytes=shutil.disk_usage(path.parent).free,
        )
    return replace(found, warnings=_warnings(found))


def _broken(database: Database, query: Query) -> Problem | None:
    try:
        # Each query is a snapshot of its own: together they would keep the write-ahead log from being emptied.
        rows = database.conn.execute(query.sql).fetchmany(_EXAMPLES)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        rows = [(str(error),)]
    examples = tuple(", ".join(str(value) for value in row) for row in rows if row != ("ok",))
    return Problem(check=query.name, meaning=query.meaning, examples=examples) if examples else None


def _warnings(health: Health) -> tuple[str, ...]:
    low, long = health.free_bytes < FREE_LIMIT_BYTES, health.wal_bytes > WAL_LIMIT_BYTES
    free, log = f"{health.free_bytes / 1e6:.0f} MB", f"{health.wal_bytes / 1e6:.0f} MB"
    found = (
        f"{free} are free on the disk; nothing new is begun below 500 MB" if low else None,
        f"the write-ahead log has {log}; end programs that keep the ledger open" if long else None,
        version_warning(),
    )
    return tuple(warning for warning in found if warning is not None)
