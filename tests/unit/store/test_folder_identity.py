"""Real folders, copied and moved: what their identity says afterwards, and what that does to arm records."""

import shutil
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.core.permissions import ArmRecord
from bot.store.database import open_writer, open_writer_with
from bot.store.evidence import evidence_path
from bot.store.folder_identity import (
    IDENTITY_FILE,
    IDENTITY_TABLE,
    FolderPlace,
    check_identity,
    ensure_identity,
    export_identity,
    locate_folder,
    make_identity,
    write_identity,
)
from bot.store.ledger import open_ledger
from bot.store.permissions import add_arm_record, newest_arm_record
from tests.unit.store.conftest import NOON

PLACE = FolderPlace(machine="m1", host="larch", path="/srv/state/live", inode=7)
ARM = ArmRecord(
    id="arm", venue="lantern", account="us", config="c", by="alice", armed_at=NOON, until=NOON + timedelta(days=1)
)


async def make_ledger(folder: Path) -> Path:
    path = folder / "ledger.sqlite"
    async with open_ledger(path, now=NOON):
        return path


async def arm(path: Path) -> None:
    async with open_ledger(path, now=NOON) as ledger:
        await ledger.permissions.write(lambda database: add_arm_record(database, ARM))


async def is_armed(path: Path) -> bool:
    async with open_ledger(path, now=NOON) as ledger:
        found = await ledger.permissions.read(lambda database: newest_arm_record(database, ARM.venue, ARM.account))
    assert found is not None
    return not found.is_of_another_folder


async def adopt(path: Path) -> None:
    identity = make_identity(path.parent, at=NOON)
    async with open_ledger(path, now=NOON) as ledger:
        await ledger.permissions.write(lambda database: write_identity(database, identity))
    export_identity(path.parent, identity)


async def test_an_identity_is_written_once(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path / "live")
    first = check_identity(path)
    assert first.identity is not None
    assert first.fault == ""
    assert first.identity.place == locate_folder(path.parent)
    await make_ledger(tmp_path / "live")
    assert check_identity(path) == first
    other = check_identity(await make_ledger(tmp_path / "other")).identity
    assert other is not None
    assert other.id != first.identity.id
    assert (path.parent / IDENTITY_FILE).stat().st_mode & 0o777 == 0o600


async def test_a_copy_is_noticed_and_the_original_is_not(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path / "live")
    copy = Path(shutil.copytree(path.parent, tmp_path / "copy")) / path.name
    assert check_identity(copy).fault == f"was copied or moved here from {path.parent}"
    assert check_identity(path).fault == ""
    # Another start does not make it at home.
    await make_ledger(copy.parent)
    assert check_identity(copy).fault


async def test_a_folder_that_was_moved_and_one_that_was_replaced_are_noticed(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path / "live")
    shutil.copytree(path.parent, tmp_path / "copy")
    path.parent.rename(tmp_path / "old")
    assert check_identity(tmp_path / "old" / path.name).fault.startswith("was copied or moved here")
    (tmp_path / "copy").rename(path.parent)
    assert check_identity(path).fault == "was replaced by a copy"
    shutil.rmtree(path.parent)
    (tmp_path / "old").rename(path.parent)
    assert check_identity(path).fault == ""


async def test_a_ledger_in_the_folder_of_another_one_is_noticed(tmp_path: Path) -> None:
    path, other = await make_ledger(tmp_path / "live"), await make_ledger(tmp_path / "other")
    shutil.copy(other, path)
    assert check_identity(path).fault == "has a ledger that was made for another folder"
    alone = tmp_path / "alone" / path.name
    alone.parent.mkdir()
    shutil.copy(other, alone)
    await make_ledger(alone.parent)
    assert check_identity(alone).fault == "has a ledger that was made for another folder"


def test_another_machine_is_noticed_even_at_the_same_path() -> None:
    assert PLACE.difference_from(PLACE) == ""
    assert replace(PLACE, inode=8).difference_from(PLACE) == "was replaced by a copy"
    moved = replace(PLACE, machine="m2", host="birch")
    assert moved.difference_from(PLACE) == "comes from another machine (larch, /srv/state/live)"


def test_the_machine_is_known_by_its_id_else_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "machine-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    known = locate_folder(tmp_path, machine_files=[tmp_path / "absent", file]).machine
    assert known == locate_folder(tmp_path, machine_files=[file]).machine
    assert "0123456789abcdef" not in known
    file.write_text("another\n")
    assert known != locate_folder(tmp_path, machine_files=[file]).machine
    by_name = locate_folder(tmp_path, machine_files=[]).machine
    file.write_text("\n")
    assert by_name == locate_folder(tmp_path, machine_files=[file]).machine


async def test_a_kill_between_the_two_copies_of_an_identity_is_completed(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path)
    before = check_identity(path)
    (tmp_path / IDENTITY_FILE).unlink()
    await make_ledger(tmp_path)
    assert check_identity(path) == before
    # Adopting writes the one inside first: until both are written the folder is not at home.
    async with open_ledger(path, now=NOON) as ledger:
        identity = make_identity(tmp_path, at=NOON)
        await ledger.permissions.write(lambda database: write_identity(database, identity))
    assert ensure_identity(path, at=NOON).fault


async def test_an_unreadable_identity_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path)
    (tmp_path / IDENTITY_FILE).write_text('{"id": 1}')
    with pytest.raises(StoreError, match="foxcast adopt"):
        await make_ledger(tmp_path)
    (tmp_path / IDENTITY_FILE).unlink()
    assert ensure_identity(path, at=NOON).fault == ""


async def test_an_arm_record_is_bound_to_the_identity_of_its_folder(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path / "live")
    await arm(path)
    assert await is_armed(path)
    copy = Path(shutil.copytree(path.parent, tmp_path / "copy")) / path.name
    await adopt(copy)
    assert check_identity(copy).fault == ""
    assert not await is_armed(copy)
    assert await is_armed(path)


async def test_an_identity_is_written_into_the_ledger_and_not_next_to_it(tmp_path: Path) -> None:
    path = await make_ledger(tmp_path / "live")
    with closing(open_writer(path)) as database:
        database.execute(f"drop table {IDENTITY_TABLE}")
        database.conn.commit()
    identity = make_identity(path.parent, at=NOON)
    with closing(open_writer_with(evidence_path(path), path)) as database:
        write_identity(database, identity)
        database.conn.commit()
    assert check_identity(path).identity == identity
