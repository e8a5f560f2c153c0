"""Apply the pending migrations to a database file, after a backup; a migration cannot be undone.

The migrations of the ledger are ``bot.store.schema.MIGRATIONS``. The caller holds the instance lock.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from sqlite_utils import Database, Migrations

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.backups import LedgerBackup, create_backup
from bot.store.database import explain_error, open_writer, translate_errors

_CREATE_CHECKSUMS = """
create table if not exists _migration_checksum (
    migration_set text not null,
    name text not null,
    sha256 text not null,
    primary key (migration_set, name)
) strict
"""
_SELECT_CHECKSUMS = "select name, sha256 from _migration_checksum where migration_set = ?"
_INSERT_CHECKSUM = (
    "insert into _migration_checksum (migration_set, name, sha256) values (?, ?, ?) on conflict do nothing"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationResult:
    """The migrations applied now, in order, and the backup made before them, if the file had data."""

    applied: tuple[str, ...]
    backup: LedgerBackup | None


def apply_migrations(path: Path, migrations: Migrations, *, backups: Path | None, at: datetime) -> MigrationResult:
    """Apply what is pending, each migration in its own transaction, after a backup into the folder ``backups``, if any.

    Raises StoreError as ``require_known_migrations``, and for a migration that fails; the file is then as before that
    migration.
    """
    with translate_errors(path), closing(open_writer(path)) as database:
        expected = migration_checksums(migrations)
        applied = require_known_migrations(database, expected, migrations)
        pending = tuple(name for name in expected if name not in applied)
        backup = None
        if applied and pending and backups is not None:
            backup = create_backup(path, backups, at=at, label=f"before-{pending[0]}")
        if pending:
            _apply_pending(database, migrations, path)
        database.execute(_CREATE_CHECKSUMS)
        with database.atomic():
            database.conn.executemany(_INSERT_CHECKSUM, [(migrations.name, *item) for item in expected.items()])
    return MigrationResult(applied=pending, backup=backup)


@cache
def migration_checksums(migrations: Migrations) -> Mapping[str, str]:
    """Return the SHA-256 of the SQL that each migration runs on an empty database, by name, in order.

    Hashing the SQL rather than the Python keeps a checksum the same across versions of Python and reformatting.
    """
    with Database(memory=True, recursive_triggers=False, execute_plugins=False) as database:
        return {
            migration.name: _migration_checksum(database, migration.fn) for migration in migrations.pending(database)
        }


def require_known_migrations(database: Database, known: Mapping[str, str], migrations: Migrations) -> tuple[str, ...]:
    """Return the names applied to the database, in order; ``known`` has the name and checksum of each migration.

    Raises StoreError for a database of a newer program, of a development version before the first release, or of
    another program, and for an applied migration that was edited since.
    """
    applied = tuple(migration.name for migration in migrations.applied(database))
    if applied and next(iter(known)) not in applied:
        message = (
            f"a development version of Foxcast made this database (its version is {applied[-1]}), and this Foxcast"
            " cannot read it; start a new state folder, or use the older program"
        )
        raise StoreError(message)
    if unknown := [name for name in applied if name not in known]:
        message = f"a newer Foxcast wrote this database (it has {', '.join(unknown)}); update Foxcast"
        raise StoreError(message)
    foreign = [name for name in database.table_names() if not name.startswith("_")]
    if foreign and not applied:
        message = f"another program made this database (it has {', '.join(foreign[:3])}); name another file"
        raise StoreError(message)
    _require_unchanged_migrations(database, known, migrations)
    return applied


def _require_unchanged_migrations(database: Database, known: Mapping[str, str], migrations: Migrations) -> None:
    if not database["_migration_checksum"].exists():
        return
    recorded = database.execute(_SELECT_CHECKSUMS, [migrations.name]).fetchall()
    if edited := [name for name, checksum in recorded if known[name] != checksum]:
        message = (
            f"{', '.join(edited)} changed after this database was made; start a new state folder, or use the"
            " Foxcast that made it"
        )
        raise StoreError(message)


def _apply_pending(database: Database, migrations: Migrations, path: Path) -> None:
    try:
        migrations.apply(database)
    except sqlite3.Error as error:
        message = (
            f"{path}: a migration failed and was undone ({error}); go back to the previous Foxcast, and report this"
        )
        raise explain_error(error, path) or StoreError(message) from error


def _migration_checksum(database: Database, migrate: Callable[[Database], None]) -> str:
    digest = hashlib.sha256()

    def add_statement(sql: str, parameters: Sequence[Any] | dict[str, Any] | None) -> None:
        digest.update(f"{' '.join(sql.split())}\x1f{parameters!r}\x1e".encode())

    with database.tracer(add_statement):
        migrate(database)
    return digest.hexdigest()
