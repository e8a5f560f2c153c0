import hashlib
import json
import sqlite3
import tracemalloc
from base64 import b64decode
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.core.permissions import UserRole
from bot.store import permissions
from bot.store.database import open_writer
from bot.store.ledger_export import ExportedFile, export_ledger
from bot.store.permissions import PrincipalRecord
from tests.unit.store.conftest import NOON, LedgerFixture

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)

SCHEMA = """
create table _migrations (name text);
create table note (
    batch text, number integer, text text, weight real, content blob, primary key (batch, number)
) strict;
create table document (digest text primary key, packed blob) strict;
create view heavy as select text, weight from note where weight > 1;
create virtual table words using fts5 (text);
insert into note values ('b', 1, 'third', 2.5, null), ('a', 2, 'second "quoted" ü ' || char(10), null, x'00ff'),
    ('a', 1, 'first', 9007199254740993, null);
insert into document values ('d', x'00');
insert into words values ('some text');
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with closing(open_writer(path)) as database:
        database.executescript(SCHEMA)
    return path


def rows(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


def test_every_table_and_view_becomes_lines_of_json_in_order_of_its_key(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export_ledger(path, folder, at=NOW)
    names = ["document.jsonl", "heavy.jsonl", "manifest.json", "note.jsonl"]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert rows(folder / "note.jsonl") == [
        {"batch": "a", "number": 1, "text": "first", "weight": 9007199254740992.0, "content": None},
        {"batch": "a", "number": 2, "text": 'second "quoted" ü \n', "weight": None, "content": {"base64": "AP8="}},
        {"batch": "b", "number": 1, "text": "third", "weight": 2.5, "content": None},
    ]
    assert b64decode("AP8=") == b"\x00\xff"
    assert [row["text"] for row in rows(folder / "heavy.jsonl")] == ["first", "third"]


def test_the_manifest_counts_and_hashes_every_file(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    manifest = export_ledger(path, folder, at=NOW)
    content = (folder / "note.jsonl").read_bytes()
    note = ExportedFile(name="note", kind="table", rows=3, sha256=hashlib.sha256(content).hexdigest())
    assert note in manifest.files
    written = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert (written["ledger"], written["made_at"]) == ("ledger.db", "2026-11-21T09:30:00+00:00")
    assert [(file["name"], file["kind"], file["rows"]) for file in written["files"]] == [
        ("document", "table", 1),
        ("heavy", "view", 2),
        ("note", "table", 3),
    ]


def test_the_same_ledger_gives_the_same_bytes_whatever_the_order_of_writing(path: Path, tmp_path: Path) -> None:
    first = export_ledger(path, tmp_path / "one", at=NOW)
    with closing(open_writer(path)) as database:
        database.execute("create table copy as select * from note order by text")
        database.execute("delete from note")
        database.execute("insert into note select * from copy")
        database.execute("drop table copy")
    assert export_ledger(path, tmp_path / "two", at=NOW) == first


def test_large_tables_can_be_left_out(path: Path, tmp_path: Path) -> None:
    manifest = export_ledger(path, tmp_path / "out", at=NOW, without={"document"})
    assert [file.name for file in manifest.files] == ["heavy", "note"]
    assert not (tmp_path / "out" / "document.jsonl").exists()


def test_leaving_out_what_is_not_there_is_refused_with_what_is(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no table or view documents; there are document, heavy, note"):
        export_ledger(path, tmp_path / "out", at=NOW, without={"documents"})
    assert not list(tmp_path.glob("*out*"))


def test_an_existing_folder_is_not_written_into(path: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(StoreError, match="exists already"):
        export_ledger(path, tmp_path / "out", at=NOW)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_number_that_json_does_not_have_is_refused_with_its_place(path: Path, tmp_path: Path) -> None:
    with closing(open_writer(path)) as database:
        database.execute("insert into note values ('c', 7, '', 9e999, null)")
    with pytest.raises(StoreError, match="'c'"):
        export_ledger(path, tmp_path / "out", at=NOW, without={"heavy"})
    assert not (tmp_path / "out").exists()


def test_an_export_cut_short_by_a_kill_is_replaced_by_the_next_one(path: Path, tmp_path: Path) -> None:
    partial = tmp_path / ".out.partial"
    partial.mkdir()
    (partial / "note.jsonl").write_text("half")
    export_ledger(path, tmp_path / "out", at=NOW)
    assert not partial.exists()
    assert len(rows(tmp_path / "out" / "note.jsonl")) == 3


def test_memory_does_not_grow_with_the_ledger(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        text = (("z", number, "x" * 1000) for number in range(8_000))
        connection.executemany("insert into note (batch, number, text, weight) values (?, ?, ?, 2)", text)
    tracemalloc.start()
    try:
        export_ledger(path, tmp_path / "out", at=NOW)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The table has 8 MB of text.
    assert peak < 1_000_000


async def test_an_export_holds_nothing_that_proves_who_somebody_is(
    ledger_fixture: LedgerFixture, tmp_path: Path
) -> None:
    await ledger_fixture.ledger.permissions.write(
        lambda database: permissions.add_principal(
            database, PrincipalRecord(name="ann", role=UserRole.APPROVER, salt="5a17", hash="c0ffee" * 10, made_at=NOON)
        )
    )
    folder = tmp_path / "export"
    export_ledger(ledger_fixture.path, folder, at=NOON)
    assert [json.loads(line)["name"] for line in (folder / "principal.jsonl").read_text().splitlines()] == ["ann"]
    said = b"".join(file.read_bytes() for file in folder.iterdir())
    assert b"c0ffee" not in said
    assert b"5a17" not in said
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
