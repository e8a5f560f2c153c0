import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.store.backups import create_backup, list_backups, require_intact
from bot.store.database import open_writer

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with closing(open_writer(path)) as database:
        database.execute("create table note (id integer primary key, text text) strict")
        database.execute("insert into note (text) values ('first')")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def texts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute("select text from note order by id")]


def test_a_backup_of_a_ledger_in_use_has_what_was_committed(path: Path, folder: Path) -> None:
    with closing(open_writer(path)) as writer:
        writer.execute("insert into note (text) values ('in the log')")
        writer.conn.execute("begin immediate")
        writer.conn.execute("insert into note (text) values ('not yet')")
        backup = create_backup(path, folder, at=NOW)
        writer.conn.execute("commit")
    assert texts(backup.path) == ["first", "in the log"]
    assert texts(path) == ["first", "in the log", "not yet"]


def test_a_backup_is_named_by_its_moment_in_utc_and_is_for_its_owner_alone(path: Path, folder: Path) -> None:
    backup = create_backup(path, folder, at=datetime(2026, 11, 21, 10, 30, tzinfo=timezone(timedelta(hours=1))))
    assert backup.path == folder / "ledger-20261121T093000Z.db"
    assert backup.size_bytes == backup.path.stat().st_size
    assert (backup.path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [file.name for file in folder.iterdir()] == [backup.path.name]


def test_backups_are_found_newest_first_for_their_own_ledger_only(path: Path, folder: Path) -> None:
    other = path.with_name("ledger-live.db")
    shutil.copy(path, other)
    first = create_backup(path, folder, at=NOW)
    second = create_backup(path, folder, at=NOW + timedelta(hours=1), label="before-0002")
    third = create_backup(other, folder, at=NOW)
    (folder / "notes.db").write_bytes(b"")
    assert list_backups(folder, "ledger") == (second, first)
    assert list_backups(folder, "ledger-live") == (third,)
    assert list_backups(folder / "absent", "ledger") == ()


def test_a_copy_cut_short_by_a_kill_is_swept_up_by_the_next_one(path: Path, folder: Path) -> None:
    folder.mkdir()
    left, others = folder / ".ledger-20261121T080000Z.db.7.partial", folder / ".live-20261121T080000Z.db.7.partial"
    for file in (left, others):
        written(file, NOW - timedelta(minutes=61))
    create_backup(path, folder, at=NOW)
    assert [*folder.glob(".*")] == [others]


def test_a_copy_that_another_process_makes_just_now_is_left_alone(path: Path, folder: Path) -> None:
    folder.mkdir()
    # Of the same second, too.
    for name in (".ledger-20261121T092900Z.db.7.partial", ".ledger-20261121T093000Z.db.7.partial"):
        written(folder / name, NOW - timedelta(minutes=1))
    create_backup(path, folder, at=NOW)
    assert len([*folder.glob(".*.partial")]) == 2


def written(partial: Path, at: datetime) -> None:
    partial.write_bytes(b"half")
    os.utime(partial, (at.timestamp(), at.timestamp()))


def test_a_damaged_ledger_gives_no_backup(path: Path, folder: Path) -> None:
    damage(path)
    with pytest.raises(StoreError, match="damaged"):
        create_backup(path, folder, at=NOW)
    assert list(folder.iterdir()) == []


def test_a_copy_is_one_file_without_a_log(path: Path, folder: Path) -> None:
    backup = create_backup(path, folder, at=NOW).path
    # The versions for writing and reading: 1 without a log. Source: https://www.sqlite.org/fileformat2.html, 1.3.3.
    assert path.read_bytes()[18:20] == b"\2\2"
    assert backup.read_bytes()[18:20] == b"\1\1"
    require_intact(backup)
    assert [one.name for one in folder.iterdir() if one.name.startswith(backup.name)] == [backup.name]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # Page 2 is the first table: its header says what kind of page it is, and 0 is none.
    content[4096:4200] = bytes(104)
    path.write_bytes(content)


def test_a_copy_that_fails_a_check_gets_no_name(path: Path, folder: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table reply (note integer references note (id))")
        connection.execute("insert into reply values (99)")
    with pytest.raises(StoreError, match="damaged"):
        create_backup(path, folder, at=NOW)
    assert list(folder.iterdir()) == []


def test_a_reference_to_nothing_makes_a_copy_unsound(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table question (id integer primary key)")
        connection.execute("create table answer (question integer references question (id))")
        connection.execute("insert into answer values (7)")
    with pytest.raises(StoreError, match="damaged"):
        require_intact(path)


def test_a_disk_without_room_for_the_copy_is_not_filled(path: Path, folder: Path) -> None:
    with path.open("r+b") as file:
        # A file of holes: larger than the disk, and no room taken.
        file.truncate(shutil.disk_usage(path.parent).free + 10**9)
    with pytest.raises(StoreError, match=r"needs \d+ MB, \d+ MB are free"):
        create_backup(path, folder, at=NOW)
