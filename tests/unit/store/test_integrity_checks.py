import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.store.database import open_reader, open_writer
from bot.store.integrity_checks import run_full_check, run_quick_check, sqlite_version_warning, wal_size
from tests.unit.store.faulty_disks import small_disk


@dataclass(frozen=True)
class Rule:
    name: str
    sql: str
    meaning: str


EMPTY = Rule("empty_note", "select id, text from note where text = '' order by id", "a note says nothing")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with closing(open_writer(path)) as database:
        database.execute("create table note (id integer primary key, text text) strict")
        database.execute("create table reply (note integer references note (id)) strict")
        database.execute("create index note_by_text on note (text)")
        database.execute("insert into note (text) values ('first'), ('second')")
    return path


def root_page(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("select rootpage from sqlite_schema where name = ?", [name]).fetchone()
    return int(page)


def overwrite(path: Path, page: int, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096 + start)
        file.write(content)


def test_what_a_check_sorts_is_sorted_in_a_file_as_it_may_be_larger_than_memory(path: Path) -> None:
    in_memory = Rule("sorts_in_memory", "select temp_store from pragma_temp_store where temp_store <> 1", "it does")
    assert run_full_check(path, [in_memory]).sound


def test_a_sound_ledger_passes_every_check(path: Path) -> None:
    quick, full = run_quick_check(path), run_full_check(path, [EMPTY])
    assert quick.sound
    assert full.sound
    assert quick.checks == ("quick_check",)
    assert full.checks == ("integrity_check", "foreign_key_check", "empty_note")
    assert full.database_bytes == path.stat().st_size
    assert 0 < full.free_bytes <= shutil.disk_usage(path.parent).total


def test_damaged_pages_are_a_problem_of_both_checks(path: Path) -> None:
    overwrite(path, root_page(path, "note"), 0, bytes(100))
    for health in (run_quick_check(path), run_full_check(path, ())):
        assert not health.sound
        assert "restore a backup" in health.problems[0].meaning
        assert health.problems[0].examples


def test_an_index_that_does_not_fit_its_table_is_found_by_the_full_check(path: Path) -> None:
    content = path.read_bytes()
    start = (root_page(path, "note_by_text") - 1) * 4096
    position = content.index(b"second", start, start + 4096) - start
    overwrite(path, root_page(path, "note_by_text"), position, b"zzzzzz")
    problem = run_full_check(path, ()).problems[0]
    assert problem.check == "integrity_check"
    assert "note_by_text" in problem.examples[0]


def test_a_reference_to_nothing_is_found_by_the_full_check(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("insert into reply values (99)")
    (problem,) = run_full_check(path, ()).problems
    assert problem.check == "foreign_key_check"
    assert problem.examples == ("reply, 1, note, 0",)


def test_rows_that_break_a_rule_of_the_ledger_are_shown_with_its_meaning(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("insert into note (text) values (?)", [("",)] * 20)
    (problem,) = run_full_check(path, [EMPTY]).problems
    assert (problem.check, problem.meaning) == ("empty_note", "a note says nothing")
    assert problem.examples == ("3, ", "4, ", "5, ", "6, ", "7, ")


def test_a_rule_that_is_no_sql_is_an_error_and_not_damage(path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        run_full_check(path, [Rule("wrong", "select * from absent", "")])


def test_a_file_that_is_no_database_cannot_be_checked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        run_quick_check(path)


def test_a_disk_that_is_nearly_full_is_a_warning(path: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk"):
        health = run_quick_check(Path(shutil.copy(path, tmp_path / "disk")))
    assert 0 < health.free_bytes < 2 * 1024 * 1024
    assert any("no forecast and no submission begins" in warning for warning in health.warnings)


def test_a_log_that_a_reader_keeps_from_being_emptied_is_a_warning(path: Path) -> None:
    with closing(open_writer(path)) as writer, closing(open_reader(path)) as reader:
        reader.conn.execute("begin")
        reader.execute("select * from note").fetchall()
        # 40 commits of 2 MB: above the limit of 64 MB, which no checkpoint can take in while the reader looks.
        for _ in range(40):
            writer.execute("insert into note (text) values (?)", ["x" * 2_000_000])
        health = run_quick_check(path)
    assert health.wal_bytes > 64 * 1024 * 1024
    assert any("write-ahead log" in warning for warning in health.warnings)
    assert wal_size(path) == 0


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_versions_of_sqlite_with_the_fault_in_the_log_are_named(version: tuple[int, int, int], warned: bool) -> None:  # noqa: FBT001
    # The corrected releases: 3.51.3, and 3.44.6 and 3.50.7 of the older series.
    warning = sqlite_version_warning(version)
    assert (warning is not None) == warned
    assert not warned or ".".join(map(str, version)) in str(warning)
