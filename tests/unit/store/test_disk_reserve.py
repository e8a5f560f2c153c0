import zlib
from pathlib import Path

import pytest

from bot.core.errors import StoreError
from bot.store.database import DISK_RESERVE_BYTES, DiskReserve
from tests.unit.store.faulty_disks import largest_file


def test_ballast_takes_real_room_and_gives_it_back(tmp_path: Path) -> None:
    path = tmp_path / "ballast"
    ballast = DiskReserve(path)
    ballast.hold()
    status = path.stat()
    assert (status.st_size, status.st_mode & 0o777) == (DISK_RESERVE_BYTES, 0o600)
    # st_blocks counts 512 bytes, whatever the file system's own blocks are.
    assert status.st_blocks * 512 >= DISK_RESERVE_BYTES
    ballast.release()
    assert not path.exists()


def test_ballast_cannot_be_compressed_away(tmp_path: Path) -> None:
    path = tmp_path / "ballast"
    DiskReserve(path, size=2_500_000).hold()
    kept = path.read_bytes()
    assert len(zlib.compress(kept[:100_000], 9)) >= 100_000
    # Nothing comes twice within a megabyte, which is more than a file system compresses at a time.
    assert len({kept[start : start + 1024] for start in range(0, 1024 * 1024, 1024)}) == 1024


def test_ballast_cut_short_by_a_kill_is_made_whole(tmp_path: Path) -> None:
    path = tmp_path / "ballast"
    path.write_bytes(b"x" * 10)
    ballast = DiskReserve(path, size=1000)
    assert not ballast.held
    ballast.hold()
    assert ballast.held


def test_holding_or_releasing_twice_is_doing_it_once(tmp_path: Path) -> None:
    path = tmp_path / "ballast"
    ballast = DiskReserve(path, size=1000)
    ballast.hold()
    made = path.stat().st_mtime_ns
    ballast.hold()
    assert path.stat().st_mtime_ns == made
    ballast.release()
    ballast.release()
    assert not ballast.held


def test_ballast_that_does_not_fit_on_the_disk_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ballast"
    with largest_file(500), pytest.raises(StoreError, match="ballast: File too large"):
        DiskReserve(path, size=1000).hold()
    assert not path.exists()
