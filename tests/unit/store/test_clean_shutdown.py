"""A start reads the pages of a ledger, but for one that nobody touched since a clean shutdown."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import StoreError
from bot.store.clean_shutdown import clean_shutdown_path
from bot.store.database import open_reader
from bot.store.integrity_checks import LedgerInvariant, find_problems, run_quick_check
from bot.store.ledger import open_ledger
from tests.unit.store.conftest import NOON

CHECK = "pragma quick_check"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to SQLite from now on."""
    sent: list[str] = []
    connect = sqlite3.connect

    def connect_traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(sent.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_traced)
    return sent


async def start(path: Path, statements: list[str]) -> bool:
    """Open and close a ledger; return whether its pages were read."""
    statements.clear()
    async with open_ledger(path, now=NOON):
        assert not clean_shutdown_path(path).exists()
    return any(sql.startswith(CHECK) for sql in statements)


async def test_after_a_clean_shutdown_no_page_is_read_and_the_record_holds_once(
    tmp_path: Path, statements: list[str]
) -> None:
    path = tmp_path / "ledger.sqlite"
    await start(path, statements)
    assert clean_shutdown_path(path).stat().st_mode & 0o777 == 0o600
    assert not await start(path, statements)
    assert not await start(path, statements)
    with suppress(RuntimeError):
        async with open_ledger(path, now=NOON):
            raise RuntimeError
    assert await start(path, statements)


def touched(path: Path) -> Path:
    os.utime(path, ns=(1, 1))
    return path


def copied(path: Path) -> Path:
    copy = shutil.copytree(path.parent, path.parent.with_name("copy"), copy_function=shutil.copy2)
    return copy / path.name


def written_by_another(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table note (text text)")
    return path


def garbled_record(path: Path) -> Path:
    clean_shutdown_path(path).write_bytes(b"\xff" * 5000)
    return path


def linked_record(path: Path) -> Path:
    record = clean_shutdown_path(path)
    record.rename(path.with_name("elsewhere"))
    record.symlink_to(path.with_name("elsewhere"))
    return path


@pytest.mark.parametrize("change", [touched, copied, written_by_another, garbled_record, linked_record])
async def test_a_ledger_that_is_not_the_one_that_was_closed_is_read(
    tmp_path: Path, statements: list[str], change: Callable[[Path], Path]
) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    await start(path, statements)
    changed = change(path)
    assert await _is_read(changed, statements)


async def _is_read(path: Path, statements: list[str]) -> bool:
    # A link in the place of the record stays there: it is not ours.
    statements.clear()
    with suppress(StoreError):
        async with open_ledger(path, now=NOON):
            pass
    return any(sql.startswith(CHECK) for sql in statements)


def test_a_check_that_takes_too_long_stops_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table note (text text)")
    endless = LedgerInvariant(
        name="endless",
        sql="with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n",
        meaning="",
    )
    with closing(open_reader(path)) as reader:
        assert find_problems(reader, [endless], 0.05) == ((), False)
        assert find_problems(reader, [replace(endless, sql="select 1")], 60.0)[1]
    assert run_quick_check(path, limit_s=60.0).is_complete
