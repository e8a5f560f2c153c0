"""Bring a ledger file up to the tables this program knows: backup first, never backwards.

The migrations themselves are ``bot.store.schema.MIGRATIONS``, a ``sqlite_utils.Migrations`` set: each a function of a
``Database`` that runs SQL text, numbered in its name, append-only, additive. Hold the instance lock: two processes that
migrate one file fail each other.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from bot.errors import StoreError
from bot.store.backup import Backup, back_up
from bot.store.database import explained, open_writer, translated

_CHECKSUMS = """
create table if not exists _migration_checksum (
    migration_set text not null,
    name text not null,
    sha256 text not null,
    primary key (migration_set, name)
) strict
"""
_KEPT_CHECKSUMS = "select name, sha256 from _migration_checksum where migration_set = ?"
_KEEP_CHECKSUM = "insert into _migration_checksum (migration_set, name, sha256) values (?, ?, ?) on conflict do nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What was done: the migrations applied now, in order, and the backup made before them, if there was data."""

    applied: tuple[str, ...]
    backup: Backup | None


def migrate(path: Path, migrations: Migrations, *, backups: Path, at: datetime) -> Migrated:
    """Apply what is pending, each migration in its own transaction, after a backup into the folder ``backups``.

    Raises StoreError for a file made by a newer program or by another one, for an applied migration that was edited
    since, and for a migration that fails; the file is then as it was before that migration.
    """
    with translated(path), closing(open_writer(path)) as database:
        expected = checksums(migrations)
        applied = require_known(database, expected, migrations)
        _require_unedited(database, expected, migrations)
        pending = tuple(name for name in expected if name not in applied)
        backup = back_up(path, backups, at=at, label=f"before-{pending[0]}") if applied and pending else None
        if pending:
            _apply(database, migrations, path)
        database.execute(_CHECKSUMS)
        with database.atomic():
            database.conn.executemany(_KEEP_CHECKSUM, [(migrations.name, *item) for item in expected.items()])
    return Migrated(applied=pending, backup=backup)


def checksums(migrations: Migrations) -> Mapping[str, str]:
    """Return the SHA-256 of the SQL that each migration runs on an empty database, by name, in order.

    Hashing the SQL rather than the Python keeps a checksum the same across versions of Python and reformatting.
    """
    with Database(memory=True, recursive_triggers=False, execute_plugins=False) as database:
        return {migration.name: _checksum(database, migration.fn) for migration in migrations.pending(database)}


def require_known(database: Database, known: Collection[str], migrations: Migrations) -> tuple[str, ...]:
    """Return the names applied to the database, in order; ``known`` are the names of this program.

    Raises StoreError for a name it does not know, and for tables without any migration.
    """
    applied = tuple(migration.name for migration in migrations.applied(database))
    unknown = [name for name in applied if name not in known]
    if unknown:
        message = f"a newer Foxcast wrote this database (it has {', '.join(unknown)}); update Foxcast"
        raise StoreError(message)
    foreign = [name for name in database.table_names() if not name.startswith("_")]
    if foreign and not applied:
        message = f"another program made this database (it has {', '.join(foreign[:3])}); name another file"
        raise StoreError(message)
    return applied


def _require_unedited(database: Database, expected: Mapping[str, str], migrations: Migrations) -> None:
    if not database["_migration_checksum"].exists():
        return
    kept = database.execute(_KEPT_CHECKSUMS, [migrations.name]).fetchall()
    edited = [name for name, checksum in kept if expected[name] != checksum]
    if edited:
        message = f"{', '.join(edited)} changed after this database was made; install an unchanged Foxcast"
        raise StoreError(message)


def _apply(database: Database, migrations: Migrations, path: Path) -> None:
    try:
        migrations.apply(database)
    except sqlite3.Error as error:
        message = f"{path}: a migration failed and was undone ({error}); go back to the Foxcast before, and report this"
        raise explained(error, path) or StoreError(message) from error


def _checksum(database: Database, work: Callable[[Database], None]) -> str:
    seen = hashlib.sha256()

    def note(sql: str, parameters: Sequence[Any] | dict[str, Any] | None) -> None:
        seen.update(f"{' '.join(sql.split())}\x1f{parameters!r}\x1e".encode())

    with database.tracer(note):
        work(database)
    return seen.hexdigest()
