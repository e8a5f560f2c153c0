import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.core.errors import StateFolderLockedError, StoreError
from bot.store.database import LockHolder, find_running_holder, instance_lock, is_holder_running, last_holder

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]

HOLD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from bot.store.database import instance_lock

with instance_lock(Path(sys.argv[1]), started_at=datetime(2026, 11, 20, 8, 0, tzinfo=UTC)):
    print("held", flush=True)
    sys.stdin.read()
"""


def other_process(folder: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_second_process_is_refused_with_the_name_of_the_first_until_that_is_killed(tmp_path: Path) -> None:
    first = other_process(tmp_path)
    try:
        with pytest.raises(StateFolderLockedError) as refused, instance_lock(tmp_path, started_at=NOW):
            pass
        assert f"process {first.pid}, started 2026-11-20 08:00:00 UTC" in str(refused.value)
        assert f"kill {first.pid}" in str(refused.value)
        holder = last_holder(tmp_path)
        assert holder is not None
        assert (holder.pid, is_holder_running(holder)) == (first.pid, True)
        assert find_running_holder(tmp_path) == holder
    finally:
        end(first)
    assert not is_holder_running(holder)
    assert find_running_holder(tmp_path) is None
    with instance_lock(tmp_path, started_at=NOW) as mine:
        assert last_holder(tmp_path) == mine == LockHolder(pid=os.getpid(), boot=mine.boot, started_at=NOW)


def test_the_lock_is_free_after_the_block_and_after_an_error(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(LookupError), instance_lock(tmp_path, started_at=NOW):
            raise LookupError


def test_two_folders_do_not_exclude_each_other(tmp_path: Path) -> None:
    with instance_lock(tmp_path / "paper", started_at=NOW), instance_lock(tmp_path / "live", started_at=NOW):
        pass


def test_the_folder_and_the_lock_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    with instance_lock(folder, started_at=NOW):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_keeps_its_rights(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o755)
    os.chown(folder, 65534, 65534)
    with instance_lock(folder, started_at=NOW):
        assert folder.stat().st_mode & 0o777 == 0o755


def test_a_shorter_holder_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"pid": 1, "boot": "' + "x" * 500)
    with instance_lock(tmp_path, started_at=NOW) as holder:
        assert last_holder(tmp_path) == holder


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}', "\udcff"])
def test_an_unreadable_lock_file_names_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_bytes(content.encode(errors="surrogateescape"))
    assert last_holder(tmp_path) is None
    assert find_running_holder(tmp_path) is None


def test_without_a_lock_file_nobody_runs(tmp_path: Path) -> None:
    assert find_running_holder(tmp_path) is None


def test_a_holder_of_an_earlier_boot_does_not_run(tmp_path: Path) -> None:
    with instance_lock(tmp_path, started_at=NOW) as holder:
        assert is_holder_running(holder)
    assert not is_holder_running(LockHolder(pid=holder.pid, boot="another boot", started_at=NOW))


def test_a_state_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(StoreError, match="state"), instance_lock(tmp_path / "state", started_at=NOW):
        pass


@pytest.mark.parametrize("name", ["lock", "ledger.sqlite", "requests/one.json", "lantern/book.sqlite"])
@pytest.mark.parametrize("kind", ["symbolic link", "FIFO"])
@pytest.mark.timeout(5)
def test_a_folder_with_a_link_or_a_fifo_in_it_is_not_used(tmp_path: Path, name: str, kind: str) -> None:
    folder, other = tmp_path / "state", tmp_path / "other"
    path = folder / name
    path.parent.mkdir(parents=True)
    other.write_text("of somebody else")
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(other)
    with pytest.raises(StoreError, match=f"{path} is a {kind}"), instance_lock(folder, started_at=NOW):
        pass
    assert other.read_text() == "of somebody else"
