"""One Foxcast for each state folder, held by the operating system: no kill leaves a lock behind."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bot.errors import InstanceLocked
from bot.store.database import make_private, translated

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who took the lock last; ``boot`` is empty where the system does not name its boots."""

    pid: int
    boot: str
    started_at: datetime


@contextmanager
def instance_lock(folder: Path, *, started_at: datetime) -> Iterator[Holder]:
    """Hold the state folder for as long as the block runs, and keep it to its owner (mode 0700).

    Raises InstanceLocked, naming the process that holds it, and StoreError where the folder cannot be used.
    """
    path = folder / "lock"
    with translated(path):
        make_private(path)
        _narrow(folder)
        # Opened for update, not anew: the holder's name must survive a refused attempt.
        file = path.open("r+", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InstanceLocked(_refusal(path)) from error
        holder = Holder(pid=os.getpid(), boot=_boot(), started_at=started_at)
        with translated(path):
            _write(file.fileno(), holder)
        # The file stays when the lock goes: deleting it would let two processes lock two files of one name.
        yield holder


def last_holder(folder: Path) -> Holder | None:
    """Return who took the lock last, whether or not it still holds it, or nothing if nobody readable did."""
    try:
        raw = json.loads((folder / "lock").read_bytes())
        return Holder(pid=int(raw["pid"]), boot=str(raw["boot"]), started_at=datetime.fromisoformat(raw["started_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_running(holder: Holder) -> bool:
    """Say whether the process still runs; a reused process number of the same boot is taken for it."""
    if holder.boot != _boot():
        return False
    try:
        os.kill(holder.pid, 0)
    except OSError as error:
        # A process of somebody else may not be signalled, but runs.
        return error.errno == errno.EPERM
    return True


def _refusal(path: Path) -> str:
    holder = last_holder(path.parent)
    who = (
        "another Foxcast" if holder is None else f"Foxcast process {holder.pid}, started {holder.started_at:%F %T} UTC,"
    )
    stop = "stop it" if holder is None else f"stop it (kill {holder.pid})"
    return f"{who} uses {path.parent}; {stop}, or give this one a state folder of its own"


def _write(handle: int, holder: Holder) -> None:
    text = json.dumps({"pid": holder.pid, "boot": holder.boot, "started_at": holder.started_at.isoformat()})
    os.ftruncate(handle, 0)
    os.pwrite(handle, text.encode(), 0)
    os.fsync(handle)


def _narrow(folder: Path) -> None:
    # A folder of somebody else, such as a mounted volume, keeps the rights it was given.
    if folder.stat().st_uid == os.getuid():
        folder.chmod(0o700)


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else ""
