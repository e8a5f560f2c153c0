"""A ledger that is missing or empty in a folder that had one, and a folder that is really new."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.core.errors import NotFoundError, StoreError
from bot.store.backups import BACKUP_FOLDER, create_backup
from bot.store.folder_identity import IDENTITY_FILE
from bot.store.ledger import open_ledger, require_ledger
from bot.store.private_files import create_private_file
from bot.store.restore import lost_ledger_reason

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


async def make_ledger(folder: Path) -> Path:
    path = folder / "ledger.sqlite"
    async with open_ledger(path, now=NOW):
        pass
    return path


async def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as refused:
        async with open_ledger(path, now=NOW):
            pass
    return str(refused.value)


def lose(path: Path) -> None:
    for side in path.parent.glob(f"{path.name}*"):
        side.unlink()


async def test_a_new_folder_has_lost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    assert lost_ledger_reason(path) == ""
    with pytest.raises(NotFoundError, match="make one with"):
        require_ledger(path)
    # A kill may end the first start before the first table.
    create_private_file(path)
    assert lost_ledger_reason(path) == ""
    await make_ledger(tmp_path)
    require_ledger(path)


async def test_a_lost_ledger_is_refused_with_its_newest_backups(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path)
    made = [create_backup(path, tmp_path / BACKUP_FOLDER, at=NOW + timedelta(hours=hours)) for hours in range(7)]
    lose(path)
    words = await refusal(path)
    assert words.index(made[6].path.stem) < words.index(made[2].path.stem)
    assert made[1].path.stem not in words
    assert "2 more (foxcast db list)" in words
    assert not path.exists()
    with pytest.raises(StoreError, match="is missing, but this folder had a ledger"):
        require_ledger(path)


@pytest.mark.parametrize(
    "kept", [IDENTITY_FILE, "audit.head", "ledger.sqlite-wal", "backups/ledger-20261121T093000Z.db"]
)
async def test_each_trace_of_a_ledger_is_enough(tmp_path: Path, kept: str) -> None:
    (tmp_path / kept).parent.mkdir(exist_ok=True)
    (tmp_path / kept).write_bytes(b"{}")
    assert "had a ledger" in await refusal(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize("is_database", [True, False])
async def test_an_empty_ledger_counts_as_lost(tmp_path: Path, *, is_database: bool) -> None:
    path = await make_ledger(tmp_path)
    lose(path)
    path.touch()
    if is_database:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table note (text)")
            connection.execute("drop table note")
        assert path.stat().st_size > 0
    assert "is empty, but this folder had a ledger and there is no backup of it" in await refusal(path)
