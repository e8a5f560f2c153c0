import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.errors import NotFound, StoreError
from bot.store.backup import backups
from bot.store.checks import full_check
from bot.store.invariants import INVARIANTS
from bot.store.ledger import BACKUP_FOLDER, open_ledger, read_ledger
from tests.unit.store.conftest import NOON, Scribe


async def test_a_ledger_remembers_what_was_written_before_it_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    async with open_ledger(path, now=NOON) as ledger:
        scribe = Scribe(ledger, path)
        forecast = await scribe.forecast(await scribe.ask())
    async with open_ledger(path, now=NOON) as ledger:
        assert await ledger.forecasts.get(forecast.id) == forecast
    assert full_check(path, INVARIANTS).sound


async def test_a_new_ledger_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    async with open_ledger(path, now=NOON):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_second_look_reads_what_is_written_and_writes_nothing(scribe: Scribe) -> None:
    async with read_ledger(scribe.path) as records:
        question = await scribe.ask()
        assert await records.questions.get(question.ref) == question
        with pytest.raises(StoreError, match="reading only"):
            await records.questions.record([question], seen_at=NOON)


async def test_a_ledger_from_before_the_series_is_refused_for_reading_and_brought_up_for_writing(
    scribe: Scribe, tmp_path: Path
) -> None:
    old = tmp_path / "old" / "ledger.sqlite"
    await scribe.ask("rain", series="almanac rain")
    await scribe.ask("snow")
    old.parent.mkdir()
    with closing(sqlite3.connect(scribe.path)) as connection:
        connection.execute("vacuum into ?", [str(old)])
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("alter table question drop column series")
        for table in ("_sqlite_migrations", "_migration_checksum"):
            connection.execute(f"delete from {table} where name = '0002_series'")  # noqa: S608 - a name of ours
    with pytest.raises(StoreError, match=r"older than this Foxcast \(it lacks 0002_series\); start foxcast run --once"):
        async with read_ledger(old):
            pass
    async with open_ledger(old, now=NOON):
        found = Scribe(scribe.ledger, old).rows("select key, series from question order by key")
    assert found == [("rain", "almanac rain"), ("snow", "")]
    assert [copy.label for copy in backups(old.parent / BACKUP_FOLDER, "ledger")] == ["before-0002_series"]
    assert full_check(old, INVARIANTS).sound


async def test_a_ledger_from_before_the_models_keeps_what_it_has_and_gets_their_tables(
    scribe: Scribe, tmp_path: Path
) -> None:
    old = tmp_path / "old" / "ledger.sqlite"
    forecast = await scribe.forecast(await scribe.ask())
    old.parent.mkdir()
    with closing(sqlite3.connect(scribe.path)) as connection:
        connection.execute("vacuum into ?", [str(old)])
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("drop view cost")
        for table in ("exchange", "model_call", "conduct", "demotion"):
            connection.execute(f"drop table {table}")
        for table in ("_sqlite_migrations", "_migration_checksum"):
            connection.execute(f"delete from {table} where name = '0003_models'")  # noqa: S608 - a name of ours
    async with open_ledger(old, now=NOON) as ledger:
        assert await ledger.forecasts.get(forecast.id) == forecast
        await ledger.calls.reserve(scribe.reservation(scope=forecast.id))
        assert await ledger.calls.spent_on(forecast.id) == 0.05
    assert [copy.label for copy in backups(old.parent / BACKUP_FOLDER, "ledger")] == ["before-0003_models"]
    assert full_check(old, INVARIANTS).sound


async def test_there_is_nothing_to_read_before_there_is_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no database here yet"):
        async with read_ledger(tmp_path / "ledger.sqlite"):
            pass


async def test_a_file_without_our_tables_is_not_taken_for_a_ledger_to_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    sqlite3.connect(path).execute("pragma user_version = 1").connection.close()
    with pytest.raises(StoreError, match="start foxcast run --once"):
        async with read_ledger(path):
            pass


@pytest.mark.parametrize("pages", [slice(4096, None), slice(16 * 4096, 17 * 4096)])
async def test_a_damaged_ledger_is_not_opened(tmp_path: Path, pages: slice) -> None:
    path = tmp_path / "ledger.sqlite"
    async with open_ledger(path, now=NOON) as ledger:
        await Scribe(ledger, path).ask()
    content = bytearray(path.read_bytes())
    content[pages] = b"\xff" * len(content[pages])
    path.write_bytes(content)
    with pytest.raises(StoreError, match="restore a backup"):
        async with open_ledger(path, now=NOON):
            pass


async def test_many_writers_at_once_lose_nothing(scribe: Scribe) -> None:
    async def story(number: int) -> None:
        await scribe.forecast(await scribe.ask(f"q{number}"), number / 100)

    await asyncio.gather(*(story(number) for number in range(100)))
    assert await scribe.ledger.forecasts.count() == 100
    assert len(await scribe.ledger.forecasts.undecided(1000)) == 100


async def test_one_bad_write_does_not_spoil_those_beside_it(scribe: Scribe) -> None:
    question = await scribe.ask()
    results = await asyncio.gather(
        scribe.begin(scribe.question("unknown")),
        scribe.begin(question),
        return_exceptions=True,
    )
    assert isinstance(results[0], NotFound)
    assert scribe.rows("select ref, state from forecast") == [("lantern:rain", "running")]
