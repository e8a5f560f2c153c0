import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from bot.core.errors import StateFolderLockedError, StoreError
from bot.store.backups import LedgerBackup, create_backup
from bot.store.database import instance_lock, open_reader, open_writer
from bot.store.migrations import apply_migrations
from bot.store.restore import (
    RestoreRecord,
    acknowledge_restore,
    finish_restore,
    read_restore_mark,
    restore_backup,
)

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]
MIGRATIONS = Migrations("ledger")


@MIGRATIONS(name="0001")
def _note(database: Database) -> None:
    database.execute("create table note (id integer primary key, text text) strict")


def add(path: Path, text: str) -> None:
    with closing(open_writer(path)) as database:
        database.execute("insert into note (text) values (?)", [text])


def texts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute("select text from note order by id")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "ledger.db"
    apply_migrations(path, MIGRATIONS, backups=path.parent / "backups", at=NOW)
    add(path, "old")
    return path


@pytest.fixture
def backup(path: Path) -> LedgerBackup:
    backup = create_backup(path, path.parent / "backups", at=NOW)
    add(path, "new")
    return backup


def bring_back(source: Path, path: Path, at: datetime = NOW) -> RestoreRecord:
    return restore_backup(source, path, migrations=MIGRATIONS, at=at)


def test_a_backup_takes_the_place_of_the_ledger_which_is_kept(path: Path, backup: LedgerBackup) -> None:
    done = bring_back(backup.path, path)
    assert texts(path) == ["old"]
    assert done.replaced == path.with_name("ledger-replaced-20261121T093000Z.db")
    assert texts(done.replaced) == ["old", "new"]
    assert texts(backup.path) == ["old"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_restored_ledger_says_so_until_that_is_acknowledged(path: Path, backup: LedgerBackup) -> None:
    assert read_restore_mark(path) is None
    done = bring_back(backup.path, path)
    assert read_restore_mark(path) == done == RestoreRecord(backup=backup.path, replaced=done.replaced, at=NOW)
    acknowledge_restore(path)
    acknowledge_restore(path)
    assert read_restore_mark(path) is None


def test_a_lost_ledger_can_be_restored(path: Path, backup: LedgerBackup) -> None:
    path.unlink()
    assert bring_back(backup.path, path).replaced is None
    assert texts(path) == ["old"]


def test_a_damaged_ledger_is_replaced_and_kept_with_its_log(path: Path, backup: LedgerBackup) -> None:
    log = path.with_name(f"{path.name}-wal")
    path.write_bytes(b"no database any more" * 500)
    log.write_bytes(b"the rest")
    done = bring_back(backup.path, path)
    assert not log.exists()
    assert texts(path) == ["old"]
    assert done.replaced is not None
    assert done.replaced.read_bytes() == b"no database any more" * 500
    assert done.replaced.with_name(f"{done.replaced.name}-wal").read_bytes() == b"the rest"


def test_the_log_of_the_replaced_ledger_is_not_replayed_into_the_new_one(path: Path, backup: LedgerBackup) -> None:
    # A reader in another program keeps the log alive over the restore.
    with closing(open_reader(path)) as reader:
        reader.conn.execute("begin")
        reader.execute("select * from note").fetchall()
        add(path, "in the log")
        done = bring_back(backup.path, path)
        assert not list(path.parent.glob("ledger.db-*"))
    assert texts(path) == ["old"]
    assert done.replaced is not None
    assert texts(done.replaced) == ["old", "new", "in the log"]


def test_a_restore_of_a_restore_loses_nothing(path: Path, backup: LedgerBackup) -> None:
    first = bring_back(backup.path, path)
    assert first.replaced is not None
    bring_back(first.replaced, path, NOW + timedelta(minutes=1))
    assert texts(path) == ["old", "new"]


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_what_is_no_ledger_is_refused(path: Path, tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "download.db"
    source.write_bytes(content)
    with pytest.raises(StoreError, match=r"is not a backup of a ledger|not a database"):
        bring_back(source, path)
    assert texts(path) == ["old"]
    assert read_restore_mark(path) is None


def test_a_missing_backup_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no database here"):
        bring_back(tmp_path / "absent.db", path)
    assert texts(path) == ["old"]


def test_a_damaged_backup_is_refused(path: Path, backup: LedgerBackup) -> None:
    content = bytearray(backup.path.read_bytes())
    # Every page after the first, so that the damage is in a table whatever the order of pages.
    for page in range(4096, len(content), 4096):
        content[page : page + 12] = bytes(12)
    backup.path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        bring_back(backup.path, path)
    assert texts(path) == ["old", "new"]
    assert read_restore_mark(path) is None


def test_a_backup_of_a_newer_program_is_refused(path: Path, backup: LedgerBackup) -> None:
    with closing(sqlite3.connect(backup.path)) as connection, connection:
        connection.execute("insert into _sqlite_migrations (migration_set, name) values ('ledger', '0002')")
    with pytest.raises(StoreError, match="newer Foxcast"):
        bring_back(backup.path, path)
    assert texts(path) == ["old", "new"]


def test_nothing_is_restored_under_a_running_program(path: Path, backup: LedgerBackup) -> None:
    with instance_lock(path.parent, started_at=NOW), pytest.raises(StateFolderLockedError):
        bring_back(backup.path, path)
    assert texts(path) == ["old", "new"]


RESTORE = """
import sys
from datetime import UTC, datetime, timedelta
from itertools import count, cycle
from pathlib import Path
from bot.store.restore import restore_backup
from tests.unit.store.test_restore import MIGRATIONS

path, *backups = map(Path, sys.argv[1:])
for number, backup in zip(count(), cycle(backups)):
    at = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    restore_backup(backup, path, migrations=MIGRATIONS, at=at)
    print("restored", flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_ledger_in_place(path: Path, backup: LedgerBackup) -> None:
    other = create_backup(path, path.parent / "backups", at=NOW + timedelta(hours=1))
    command = [sys.executable, "-c", RESTORE, str(path), str(backup.path), str(other.path)]
    for attempt in range(4):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            # It restores one backup after the other without a pause, so the kill comes in the midst of a restore.
            assert process.stdout.readline() == b"restored\n"
            time.sleep(0.013 * (attempt + 1))
            assert process.poll() is None
            process.kill()
        assert texts(path) in (["old"], ["old", "new"])
        assert read_restore_mark(path) is not None
        with instance_lock(path.parent, started_at=NOW):
            finish_restore(path)
        assert texts(path) in (["old"], ["old", "new"])
        for aside in path.parent.glob("ledger-replaced-*.db"):
            aside.unlink()


def test_a_backup_that_lost_rows_since_it_was_made_is_refused(path: Path) -> None:
    with closing(open_writer(path)) as database:
        database.execute("create table forecast (made_at text) strict")
        database.execute("insert into forecast values ('2026-11-20T00:00:00.000000Z')")
    backup = create_backup(path, path.parent / "backups", at=NOW)
    with closing(sqlite3.connect(backup.path)) as connection, connection:
        connection.execute("delete from forecast")
    with pytest.raises(StoreError, match="holds less than it should"):
        bring_back(backup.path, path)
