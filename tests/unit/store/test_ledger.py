import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from bot.core.errors import NotFoundError, StoreError
from bot.store.backups import BACKUP_FOLDER, list_backups
from bot.store.integrity_checks import INVARIANTS, run_full_check
from bot.store.ledger import open_ledger, open_ledger_read_only
from tests.unit.store.conftest import NOON, LedgerFixture


async def test_a_ledger_remembers_what_was_written_before_it_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    async with open_ledger(path, now=NOON) as ledger:
        ledger_fixture = LedgerFixture(ledger, path)
        forecast = await ledger_fixture.forecast(await ledger_fixture.ask())
    async with open_ledger(path, now=NOON) as ledger:
        assert await ledger.forecasts.get(forecast.id) == forecast
    assert run_full_check(path, INVARIANTS).sound


async def test_a_program_that_reads_a_new_ledger_as_soon_as_it_is_there_finds_all_tables(tmp_path: Path) -> None:
    path, found = tmp_path / "state" / "ledger.sqlite", list[int]()
    # What a process left that was killed while it made the ledger.
    path.parent.mkdir(mode=0o700)
    (path.parent / ".ledger.sqlite.partial").write_bytes(b"half made")

    def watch() -> None:
        while not path.exists():
            time.sleep(0)
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            found.extend(connection.execute("select count(*) from job_run").fetchone())

    watching = asyncio.create_task(asyncio.to_thread(watch))
    async with open_ledger(path, now=NOON):
        await watching
    assert found == [0]
    assert not [*path.parent.glob(".*")]


async def test_a_new_ledger_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    async with open_ledger(path, now=NOON):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_second_look_reads_what_is_written_and_writes_nothing(ledger_fixture: LedgerFixture) -> None:
    async with open_ledger_read_only(ledger_fixture.path) as records:
        question = await ledger_fixture.ask()
        assert await records.questions.get(question.ref) == question
        with pytest.raises(StoreError, match="reading only"):
            await records.questions.record([question], seen_at=NOON)


def change_migration(path: Path, column: str, value: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("_sqlite_migrations", "_migration_checksum"):
            connection.execute(f"delete from {table} where name <> '0001_ledger'")  # noqa: S608 - names of ours
            if connection.execute("select 1 from pragma_table_info(?) where name = ?", [table, column]).fetchone():
                connection.execute(f"update {table} set {column} = ?", [value])  # noqa: S608 - names of ours


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("name", "0015_profit", r"version is 0015_profit\).*start a new state folder, or use the older program"),
        ("sha256", "0" * 64, r"0001_ledger changed after.*start a new state folder"),
    ],
)
async def test_a_ledger_of_a_development_version_is_neither_read_nor_written(
    tmp_path: Path, column: str, value: str, message: str
) -> None:
    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=NOON):
        pass
    change_migration(path, column, value)
    with pytest.raises(StoreError, match=message):
        async with open_ledger_read_only(path):
            pass
    with pytest.raises(StoreError, match=message):
        async with open_ledger(path, now=NOON):
            pass
    assert not list_backups(path.parent / BACKUP_FOLDER, "ledger")


async def test_there_is_nothing_to_read_before_there_is_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no database here yet"):
        async with open_ledger_read_only(tmp_path / "ledger.sqlite"):
            pass


async def test_a_file_without_our_tables_is_not_taken_for_a_ledger_to_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    sqlite3.connect(path).execute("pragma user_version = 1").connection.close()
    with pytest.raises(StoreError, match="start foxcast run --once"):
        async with open_ledger_read_only(path):
            pass


@pytest.mark.parametrize("pages", [slice(4096, None), slice(16 * 4096, 17 * 4096)])
async def test_a_damaged_ledger_is_not_opened(tmp_path: Path, pages: slice) -> None:
    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=NOON) as ledger:
        await LedgerFixture(ledger, path).ask()
    content = bytearray(path.read_bytes())
    content[pages] = b"\xff" * len(content[pages])
    path.write_bytes(content)
    with pytest.raises(StoreError, match="restore a backup"):
        async with open_ledger(path, now=NOON):
            pass


async def test_many_writers_at_once_lose_nothing(ledger_fixture: LedgerFixture) -> None:
    async def story(number: int) -> None:
        await ledger_fixture.forecast(await ledger_fixture.ask(f"q{number}"), number / 100)

    await asyncio.gather(*(story(number) for number in range(100)))
    assert await ledger_fixture.ledger.forecasts.count() == 100
    assert len(await ledger_fixture.ledger.forecasts.undecided(1000)) == 100


async def test_one_bad_write_does_not_spoil_those_beside_it(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    results = await asyncio.gather(
        ledger_fixture.begin(ledger_fixture.question("unknown")),
        ledger_fixture.begin(question),
        return_exceptions=True,
    )
    assert isinstance(results[0], NotFoundError)
    assert ledger_fixture.rows("select ref, state from forecast") == [("lantern:rain", "running")]
