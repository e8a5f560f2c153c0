"""One backup is one set: the ledger and the paper books beside it, together or not at all."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from bot.core.errors import StoreError
from bot.store.backup_retention import prune_backups
from bot.store.backups import create_backup, list_backups
from bot.store.database import open_writer
from bot.store.migrations import apply_migrations
from bot.store.restore import finish_restore, read_restore_mark, restore_backup

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)
ROOT = Path(__file__).resolve().parents[3]
MIGRATIONS = Migrations("ledger")
BOOKS = ("harbour/standing.sqlite", "lantern/book.sqlite")


@MIGRATIONS(name="0001")
def _note(database: Database) -> None:
    database.execute("create table note (id integer primary key, text text) strict")


def add(path: Path, text: str) -> None:
    with closing(open_writer(path)) as database:
        database.execute("create table if not exists note (id integer primary key, text text) strict")
        database.execute("insert into note (text) values (?)", [text])


def texts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute("select text from note order by id")]


def write_all(path: Path, text: str) -> None:
    for one in (path, *(path.parent / book for book in BOOKS)):
        add(one, text)


def all_texts(path: Path) -> list[list[str]]:
    return [texts(path), *(texts(path.parent / book) for book in BOOKS)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "ledger.sqlite"
    apply_migrations(path, MIGRATIONS, backups=path.parent / "backups", at=NOW)
    write_all(path, "old")
    return path


@pytest.fixture
def folder(path: Path) -> Path:
    return path.parent / "backups"


def bring_back(source: Path, path: Path, at: datetime = LATER) -> None:
    restore_backup(source, path, migrations=MIGRATIONS, at=at)


def test_a_backup_has_the_books_too_and_counts_them(path: Path, folder: Path) -> None:
    made = create_backup(path, folder, at=NOW)
    books = [made.path.with_suffix(".books") / book for book in BOOKS]
    assert [texts(book) for book in books] == [["old"], ["old"]]
    assert made.size_bytes == made.path.stat().st_size + sum(book.stat().st_size for book in books)
    assert {book.stat().st_mode & 0o777 for book in books} == {0o600}
    assert list_backups(folder, "ledger") == (made,)


def test_ledger_and_books_come_back_together_and_what_was_there_is_kept(path: Path, folder: Path) -> None:
    made = create_backup(path, folder, at=NOW)
    write_all(path, "new")
    bring_back(made.path, path)
    assert all_texts(path) == [["old"]] * 3
    aside = [one.with_name(f"{one.stem}-replaced-20261121T113000Z.sqlite") for one in _places(path)]
    assert [texts(one) for one in aside] == [["old", "new"]] * 3
    mark = read_restore_mark(path)
    assert mark is not None
    assert mark.books == BOOKS
    assert texts(made.path) == ["old"]


def test_what_a_restore_put_aside_is_a_set_again(path: Path, folder: Path) -> None:
    made = create_backup(path, folder, at=NOW)
    write_all(path, "new")
    bring_back(made.path, path)
    bring_back(path.with_name("ledger-replaced-20261121T113000Z.sqlite"), path, LATER + timedelta(minutes=1))
    assert all_texts(path) == [["old", "new"]] * 3


def test_what_was_put_aside_is_no_book_of_the_next_backup(path: Path, folder: Path) -> None:
    bring_back(create_backup(path, folder, at=NOW).path, path)
    again = create_backup(path, folder, at=LATER + timedelta(hours=1))
    assert sorted(one.name for one in again.path.with_suffix(".books").glob("*/*")) == [
        "book.sqlite",
        "standing.sqlite",
    ]


def test_a_book_that_was_begun_later_is_put_aside(path: Path, folder: Path) -> None:
    made = create_backup(path, folder, at=NOW)
    add(path.parent / "orchard" / "book.sqlite", "later")
    bring_back(made.path, path)
    assert not (path.parent / "orchard" / "book.sqlite").exists()
    assert texts(path.parent / "orchard" / "book-replaced-20261121T113000Z.sqlite") == ["later"]


def test_lost_books_come_back(path: Path, folder: Path) -> None:
    made = create_backup(path, folder, at=NOW)
    for book in BOOKS:
        shutil.rmtree((path.parent / book).parent)
    bring_back(made.path, path)
    assert all_texts(path) == [["old"]] * 3


def test_half_a_set_is_refused_and_nothing_changes(path: Path, folder: Path) -> None:
    made = create_backup(path, folder, at=NOW)
    write_all(path, "new")
    (made.path.with_suffix(".books") / BOOKS[1]).unlink()
    with pytest.raises(StoreError, match=r"is incomplete: lantern/book\.sqlite"):
        bring_back(made.path, path)
    _unchanged(path)


def test_a_ledger_copied_away_without_its_books_is_refused(path: Path, folder: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(create_backup(path, folder, at=NOW).path, tmp_path))
    write_all(path, "new")
    with pytest.raises(StoreError, match="is incomplete"):
        bring_back(alone, path)
    _unchanged(path)


def test_a_set_of_parts_of_two_backups_is_refused(path: Path, folder: Path) -> None:
    first = create_backup(path, folder, at=NOW)
    write_all(path, "new")
    second = create_backup(path, folder, at=LATER)
    shutil.copy(second.path.with_suffix(".books") / BOOKS[0], first.path.with_suffix(".books") / BOOKS[0])
    with pytest.raises(StoreError, match="differs from the copy"):
        bring_back(first.path, path)
    _unchanged(path)


def test_a_ledger_of_before_there_were_sets_does_not_go_with_todays_books(path: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("vacuum into ?", [str(older)])
    write_all(path, "new")
    with pytest.raises(StoreError, match="made without the paper books"):
        bring_back(older, path)
    _unchanged(path)


def test_a_damaged_book_gives_no_backup(path: Path, folder: Path) -> None:
    book = path.parent / BOOKS[1]
    content = bytearray(book.read_bytes())
    content[4096:4200] = bytes(104)
    book.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        create_backup(path, folder, at=NOW)
    assert [*folder.iterdir()] == []


def test_books_go_with_their_ledger_when_it_is_pruned(path: Path, folder: Path) -> None:
    first = create_backup(path, folder, at=NOW)
    kept = [create_backup(path, folder, at=NOW + timedelta(minutes=minutes)) for minutes in (5, 10)]
    assert [one.path for one in prune_backups(folder, "ledger", now=LATER)] == [first.path]
    names = [name for one in kept for name in (one.path.name, one.path.with_suffix(".books").name)]
    assert sorted(one.name for one in folder.iterdir()) == sorted(names)


def test_copies_of_books_that_never_got_a_ledger_are_swept_up(path: Path, folder: Path) -> None:
    left = [folder / "ledger-20261121T080000Z.books", folder / ".ledger-20261121T080000Z.db.7.partial-books"]
    for one in left:
        one.mkdir(parents=True)
        os.utime(one, (NOW.timestamp() - 7200, NOW.timestamp() - 7200))
    create_backup(path, folder, at=NOW)
    assert not any(one.exists() for one in left)


RESTORE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from bot.store import restore
from tests.unit.store.test_backups_books import MIGRATIONS

first, second, path = map(Path, sys.argv[1:])
start = datetime(2027, 1, 1, tzinfo=UTC)
count = 0
print("ready", flush=True)
while True:
    count += 1
    source = (first, second)[count % 2]
    at = datetime.fromtimestamp(start.timestamp() + count, UTC)
    restore.restore_backup(source, path, migrations=MIGRATIONS, at=at)
"""


def test_a_kill_at_any_moment_leaves_one_set_once_the_ledger_is_opened(path: Path, folder: Path) -> None:
    first = create_backup(path, folder, at=NOW)
    write_all(path, "new")
    second = create_backup(path, folder, at=LATER)
    for attempt in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", RESTORE, str(first.path), str(second.path), str(path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.017 * (attempt + 1))
        os.kill(process.pid, signal.SIGKILL)
        assert process.communicate()[1] == b""
        finish_restore(path)
        assert all_texts(path) in ([["old"]] * 3, [["old", "new"]] * 3)
        for aside in path.parent.glob("**/*-replaced-*"):
            aside.unlink()


def test_a_restore_that_was_cut_off_is_finished(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_backup(path, folder, at=NOW)
    write_all(path, "new")
    replace = Path.replace

    def stopping(self: Path, target: Path) -> Path:
        if target.name == "book.sqlite":
            message = "the power is gone"
            raise KeyboardInterrupt(message)
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            bring_back(made.path, path)
    assert texts(path) == ["old", "new"]
    assert texts(path.parent / BOOKS[0]) == ["old"]
    finish_restore(path)
    assert all_texts(path) == [["old"]] * 3
    assert [one.name for one in path.parent.glob("**/*restoring*")] == []
    finish_restore(path)
    assert all_texts(path) == [["old"]] * 3


def _places(path: Path) -> list[Path]:
    return [path, *(path.parent / book for book in BOOKS)]


def _unchanged(path: Path) -> None:
    assert all_texts(path) == [["old", "new"]] * 3
    assert read_restore_mark(path) is None
    assert [one.name for one in path.parent.glob("**/*restoring*")] == []
