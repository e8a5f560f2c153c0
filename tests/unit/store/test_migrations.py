import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from bot.core.errors import StoreError
from bot.store.migrations import MigrationResult, apply_migrations, migration_checksums

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def program(*statements: str) -> Migrations:
    """A version of the program whose migrations run one statement each."""
    migrations = Migrations("ledger")
    for number, statement in enumerate(statements, 1):
        migrations(name=f"{number:04}")(running(statement))
    return migrations


def running(statement: str) -> Callable[[Database], None]:
    def migration(database: Database) -> None:
        database.execute(statement)

    return migration


NOTE = "create table note (text text) strict"
AUTHOR = "alter table note add column author text"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def bring_up(path: Path, *statements: str) -> MigrationResult:
    return apply_migrations(path, program(*statements), backups=path.parent / "backups", at=NOW)


def columns(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for _, name, *_ in connection.execute("pragma table_info(note)")]


def test_a_new_ledger_gets_every_table_and_needs_no_backup(path: Path) -> None:
    assert bring_up(path, NOTE, AUTHOR) == MigrationResult(applied=("0001", "0002"), backup=None)
    assert columns(path) == ["text", "author"]


def test_a_current_ledger_is_left_alone(path: Path) -> None:
    bring_up(path, NOTE)
    assert bring_up(path, NOTE) == MigrationResult(applied=(), backup=None)
    assert not (path.parent / "backups").exists()


def test_an_older_ledger_is_copied_before_it_is_changed(path: Path) -> None:
    bring_up(path, NOTE)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("insert into note values ('kept')")
    done = bring_up(path, NOTE, AUTHOR)
    assert done.applied == ("0002",)
    assert columns(path) == ["text", "author"]
    assert done.backup is not None
    assert done.backup.path.name == "ledger-20261121T093000Z-before-0002.db"
    assert columns(done.backup.path) == ["text"]
    with closing(sqlite3.connect(done.backup.path)) as copy:
        assert copy.execute("select * from note").fetchall() == [("kept",)]


def test_a_ledger_of_a_newer_program_is_refused_and_unchanged(path: Path) -> None:
    bring_up(path, NOTE, AUTHOR)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer Foxcast.*0002.*update Foxcast"):
        bring_up(path, NOTE)
    assert path.read_bytes() == before


def test_a_ledger_of_a_development_version_is_refused_and_unchanged(path: Path) -> None:
    older = Migrations("ledger")
    for name, statement in {"0001_tables": NOTE, "0002_authors": AUTHOR}.items():
        older(name=name)(running(statement))
    apply_migrations(path, older, backups=path.parent / "backups", at=NOW)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"version is 0002_authors.*start a new state folder, or use the older"):
        bring_up(path, NOTE)
    assert path.read_bytes() == before
    assert not (path.parent / "backups").exists()


def test_an_edited_migration_is_noticed(path: Path) -> None:
    bring_up(path, NOTE)
    with pytest.raises(StoreError, match="0001 changed after this database was made"):
        bring_up(path, NOTE.replace("text text", "text text not null"))


def test_a_migration_laid_out_anew_is_the_same_migration(path: Path) -> None:
    bring_up(path, NOTE)
    assert bring_up(path, NOTE.replace(" strict", "\n    strict")).applied == ()


def test_a_failing_migration_leaves_the_ledger_as_it_was(path: Path) -> None:
    bring_up(path, NOTE)
    half = "insert into note select 'half' union all select json('not json')"
    with pytest.raises(StoreError, match="a migration failed and was undone"):
        apply_migrations(path, half_done(half), backups=path.parent / "backups", at=NOW)
    assert columns(path) == ["text"]
    assert bring_up(path, NOTE, AUTHOR).applied == ("0002",)


def half_done(statement: str) -> Migrations:
    migrations = program(NOTE)

    @migrations(name="0002")
    def half(database: Database) -> None:
        database.execute(AUTHOR)
        # On the empty database of the checksum there is nothing to fail on.
        if database.conn.execute("pragma database_list").fetchone()[2]:
            database.execute(statement)

    return migrations


def test_a_kill_before_the_checksums_were_kept_is_made_good_at_the_next_start(path: Path) -> None:
    bring_up(path, NOTE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("drop table _migration_checksum")
    bring_up(path, NOTE)
    with pytest.raises(StoreError, match="changed after"):
        bring_up(path, NOTE.replace("text text", "text blob"))


def test_the_database_of_another_program_is_not_touched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table customers (name text)")
    with pytest.raises(StoreError, match=r"another program.*customers"):
        bring_up(path, NOTE)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select name from sqlite_schema").fetchall() == [("customers",)]


def test_checksums_are_of_the_sql_alone() -> None:
    first, second = program(NOTE, AUTHOR), program(NOTE, AUTHOR)
    assert list(migration_checksums(first)) == ["0001", "0002"]
    assert migration_checksums(first) == migration_checksums(second)
    assert migration_checksums(program(NOTE, AUTHOR + " default 'x'"))["0002"] != migration_checksums(first)["0002"]
