import errno
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.store.database import is_halting_error, open_reader, open_writer, translate_errors
from bot.store.private_files import create_private_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "ledger.db"
    with closing(open_writer(path)) as database:
        database.execute("create table note (id integer primary key, text text) strict")
        database.execute("insert into note (text) values ('first')")
    return path


def test_a_writing_connection_has_every_setting_that_durability_rests_on(ledger: Path) -> None:
    names = (
        "journal_mode",
        "synchronous",
        "busy_timeout",
        "foreign_keys",
        "journal_size_limit",
        "wal_autocheckpoint",
        "temp_store",
        "trusted_schema",
    )
    with closing(open_writer(ledger)) as database:
        found = {name: database.execute(f"pragma {name}").fetchone()[0] for name in names}
        mapped = database.execute("pragma mmap_size").fetchall()
    # The numbers of SQLite's pragma documentation: synchronous 2 is FULL, temp_store 2 is MEMORY.
    assert found == dict(zip(names, ("wal", 2, 5000, 1, 67108864, 4000, 2, 0), strict=True))
    assert mapped in ([(0,)], [])


def test_the_database_its_log_and_its_folder_are_for_their_owner_alone(ledger: Path) -> None:
    with closing(open_writer(ledger)) as database:
        database.execute("insert into note (text) values ('second')")
        side_files = [ledger.with_name(f"{ledger.name}{side}") for side in ("-wal", "-shm")]
        assert [mode(path) for path in (ledger, *side_files)] == [0o600] * 3
    assert mode(ledger.parent) == 0o700


def test_a_database_that_others_could_read_is_narrowed(ledger: Path) -> None:
    ledger.chmod(0o644)
    open_writer(ledger).close()
    assert mode(ledger) == 0o600


def test_a_reader_can_neither_write_nor_make_tables(ledger: Path) -> None:
    with closing(open_reader(ledger)) as database:
        for statement in (
            "insert into note (text) values ('x')",
            "create table other (id integer)",
            "delete from note",
        ):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                database.execute(statement)


def test_a_reader_leaves_the_log_for_the_writer(ledger: Path) -> None:
    writer = open_writer(ledger)
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.execute("insert into note (text) values ('second')")
    log = ledger.with_name(f"{ledger.name}-wal")
    before = log.stat().st_size
    with closing(open_reader(ledger)) as reader:
        assert reader.execute("select count(*) from note").fetchone() == (2,)
    assert log.stat().st_size == before > 0
    writer.close()


def test_a_place_without_a_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # SQLite's name for memory: the simplest place that has no write-ahead log.
    with pytest.raises(StoreError, match="no write-ahead log"):
        open_writer(Path(":memory:"))


def test_a_missing_file_is_not_made_by_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with pytest.raises(StoreError, match="no database here yet"):
        open_reader(path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["with space.db", "50%.db", "q?x=1.db", "a#b.db", "ünï.db"])
def test_any_file_name_works_for_readers_and_writers(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with closing(open_writer(path)) as database:
        database.execute("create table note (id integer)")
    with closing(open_reader(path)) as database:
        assert database.table_names() == ["note"]
    assert path.is_file()


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"these are not the pages you are looking for" * 100)
    for opened in (open_writer, open_reader):
        with pytest.raises(StoreError, match=r"not a database.*restore a backup"):
            opened(path)


def test_a_second_writer_hears_that_the_database_is_in_use(ledger: Path) -> None:
    with closing(open_writer(ledger)) as first, closing(open_writer(ledger)) as second:
        first.conn.execute("begin immediate")
        second.conn.execute("pragma busy_timeout = 1")
        with pytest.raises(StoreError, match="another program is writing"), translate_errors(ledger):
            second.conn.execute("begin immediate")


def test_a_full_database_halts_and_a_busy_one_does_not(ledger: Path) -> None:
    with closing(open_writer(ledger)) as database:
        database.execute("pragma max_page_count = 3")
        with pytest.raises(sqlite3.OperationalError) as full:
            database.execute("insert into note (text) values (zeroblob(1) || hex(zeroblob(50000)))")
        with pytest.raises(sqlite3.IntegrityError) as broken:
            database.execute("insert into note (id) values (1)")
    assert is_halting_error(full.value)
    assert not is_halting_error(broken.value)
    with pytest.raises(StoreError, match="the disk is full; free some space"), translate_errors(ledger):
        raise full.value


def test_a_mistake_in_the_program_is_not_blamed_on_the_disk(ledger: Path) -> None:
    with closing(open_writer(ledger)) as database:
        with pytest.raises(sqlite3.OperationalError, match="syntax"), translate_errors(ledger):
            database.execute("selekt 1")
        with pytest.raises(sqlite3.IntegrityError), translate_errors(ledger):
            database.execute("insert into note (id) values (1)")


def test_an_error_of_the_file_system_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"file/ledger\.db: Not a directory|file/ledger\.db: File exists"):
        open_writer(tmp_path / "file" / "ledger.db")


def test_making_a_file_private_keeps_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text("kept")
    create_private_file(path)
    assert path.read_text() == "kept"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_that_finds_no_room_asks_for_room(tmp_path: Path, number: int) -> None:
    with pytest.raises(StoreError, match="the disk is full; free some space"), translate_errors(tmp_path):
        raise OSError(number, os.strerror(number))
