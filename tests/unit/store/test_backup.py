import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import StoreError
from bot.store.backup import Keep, back_up, backups, prune, require_sound
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
        backup = back_up(path, folder, at=NOW)
        writer.conn.execute("commit")
    assert texts(backup.path) == ["first", "in the log"]
    assert texts(path) == ["first", "in the log", "not yet"]


def test_a_backup_is_named_by_its_moment_in_utc_and_is_for_its_owner_alone(path: Path, folder: Path) -> None:
    backup = back_up(path, folder, at=datetime(2026, 11, 21, 10, 30, tzinfo=timezone(timedelta(hours=1))))
    assert backup.path == folder / "ledger-20261121T093000Z.db"
    assert backup.size_bytes == backup.path.stat().st_size
    assert (backup.path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [file.name for file in folder.iterdir()] == [backup.path.name]


def test_backups_are_found_newest_first_for_their_own_ledger_only(path: Path, folder: Path) -> None:
    other = path.with_name("ledger-live.db")
    shutil.copy(path, other)
    first = back_up(path, folder, at=NOW)
    second = back_up(path, folder, at=NOW + timedelta(hours=1), label="before-0002")
    third = back_up(other, folder, at=NOW)
    (folder / "notes.db").write_bytes(b"")
    assert backups(folder, "ledger") == (second, first)
    assert backups(folder, "ledger-live") == (third,)
    assert backups(folder / "absent", "ledger") == ()


def test_a_copy_cut_short_by_a_kill_is_swept_up_by_the_next_one(path: Path, folder: Path) -> None:
    folder.mkdir()
    left, others = folder / ".ledger-20261121T080000Z.db.7.partial", folder / ".live-20261121T080000Z.db.7.partial"
    for file in (left, others):
        written(file, NOW - timedelta(minutes=61))
    back_up(path, folder, at=NOW)
    assert [*folder.glob(".*")] == [others]


def test_a_copy_that_another_process_makes_just_now_is_left_alone(path: Path, folder: Path) -> None:
    folder.mkdir()
    # Of the same second, too.
    for name in (".ledger-20261121T092900Z.db.7.partial", ".ledger-20261121T093000Z.db.7.partial"):
        written(folder / name, NOW - timedelta(minutes=1))
    back_up(path, folder, at=NOW)
    assert len([*folder.glob(".*.partial")]) == 2


def written(partial: Path, at: datetime) -> None:
    partial.write_bytes(b"half")
    os.utime(partial, (at.timestamp(), at.timestamp()))


def test_a_damaged_ledger_gives_no_backup(path: Path, folder: Path) -> None:
    damage(path)
    with pytest.raises(StoreError, match="damaged"):
        back_up(path, folder, at=NOW)
    assert list(folder.iterdir()) == []


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
        back_up(path, folder, at=NOW)
    assert list(folder.iterdir()) == []


def test_a_reference_to_nothing_makes_a_copy_unsound(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table question (id integer primary key)")
        connection.execute("create table answer (question integer references question (id))")
        connection.execute("insert into answer values (7)")
    with pytest.raises(StoreError, match="damaged"):
        require_sound(path)


def test_a_disk_without_room_for_the_copy_is_not_filled(path: Path, folder: Path) -> None:
    with path.open("r+b") as file:
        # A file of holes: larger than the disk, and no room taken.
        file.truncate(shutil.disk_usage(path.parent).free + 10**9)
    with pytest.raises(StoreError, match=r"needs \d+ MB, \d+ MB are free"):
        back_up(path, folder, at=NOW)


def fake(folder: Path, *moments: datetime, size: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for moment in moments:
        with (folder / f"ledger-{moment:%Y%m%dT%H%M%SZ}.db").open("wb") as file:
            # A file of holes takes no room.
            file.truncate(size)


def test_a_day_of_hours_and_a_month_of_days_are_kept(folder: Path) -> None:
    fake(folder, *(NOW - timedelta(hours=hours) for hours in range(24 * 60)))
    prune(folder, "ledger")
    kept = [backup.made_at for backup in backups(folder, "ledger")]
    hourly = [NOW - timedelta(hours=hours) for hours in range(24)]
    # The newest of each earlier day is that of 23:30; today and a part of yesterday are among the hours.
    daily = [datetime(2026, 11, 20, 23, 30, tzinfo=UTC) - timedelta(days=days) for days in range(29)]
    assert kept == sorted({*hourly, *daily}, reverse=True)


def test_nothing_goes_because_the_program_was_off(folder: Path) -> None:
    fake(folder, *(NOW - timedelta(days=400 + days) for days in range(10)))
    assert prune(folder, "ledger") == ()


def test_the_oldest_go_where_copies_would_take_too_much_but_never_the_newest_two(folder: Path) -> None:
    hours = [NOW - timedelta(hours=hours) for hours in range(6)]
    fake(folder, *hours, size=1000)
    assert len(prune(folder, "ledger", Keep(bytes=4500))) == 2
    assert [backup.made_at for backup in backups(folder, "ledger")] == hours[:4]
    prune(folder, "ledger", Keep(bytes=1))
    assert [backup.made_at for backup in backups(folder, "ledger")] == hours[:2]


def test_copies_leave_as_much_room_on_the_disk_as_they_take(folder: Path) -> None:
    free = shutil.disk_usage(folder.parent).free
    hours = [NOW - timedelta(hours=hours) for hours in range(5)]
    fake(folder, *hours, size=2 * free // 3)
    prune(folder, "ledger")
    # Room: 1 + 10/3 of what is free; its half: 2 + 1/6, or 3.25 copies.
    assert [backup.made_at for backup in backups(folder, "ledger")] == hours[:3]


def test_a_backup_made_for_a_reason_is_never_pruned(path: Path, folder: Path) -> None:
    labelled = back_up(path, folder, at=NOW - timedelta(days=1000), label="before-0002")
    fake(folder, *(NOW - timedelta(hours=hours) for hours in range(3)))
    gone = prune(folder, "ledger", Keep(hourly=1, daily=1))
    assert [backup.path for backup in backups(folder, "ledger")] == [
        folder / f"ledger-{NOW:%Y%m%dT%H%M%SZ}.db",
        labelled.path,
    ]
    assert len(gone) == 2


@given(
    hours=st.lists(st.integers(0, 5000), unique=True, max_size=60),
    hourly=st.integers(1, 10),
    daily=st.integers(1, 10),
)
def test_pruning_keeps_the_newest_and_no_more_than_asked_for(
    tmp_path_factory: pytest.TempPathFactory, hours: list[int], hourly: int, daily: int
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    fake(folder, *(NOW - timedelta(hours=hour) for hour in hours))
    gone = prune(folder, "ledger", Keep(hourly=hourly, daily=daily))
    kept = backups(folder, "ledger")
    assert len(kept) + len(gone) == len(hours)
    assert len(kept) <= hourly + daily
    assert [backup.made_at for backup in kept[:hourly]] == [
        NOW - timedelta(hours=hour) for hour in sorted(hours)[:hourly]
    ]
    assert prune(folder, "ledger", Keep(hourly=hourly, daily=daily)) == ()
