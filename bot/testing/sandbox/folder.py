"""The folder of the demo: made anew each time, and never one that holds anything else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING

from bot.app import LAB_FOLDER
from bot.domain.submission import Mode
from bot.errors import ConfigError, InstanceLocked, StoreError
from bot.gate.brake import STOP_FILE
from bot.store.lock import instance_lock
from bot.testing.sandbox.plan import CONFIG, LOG, REAL, REAL_STATE
from bot.testing.venues.stand import BUCKET, ROUNDS, SECRETS

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

MARK = "SIMULATION"
_MARKED = "This folder belongs to foxcast demo, which empties it when it runs again. Nothing in it is real.\n"
_LOCK = "lock"
# What a demo, and commands that read what it left, put there.
_LEFT = frozenset(
    {_LOCK, MARK, CONFIG, REAL, LOG, ROUNDS, BUCKET, STOP_FILE, LAB_FOLDER, *SECRETS, *(mode.value for mode in Mode)}
)


@contextmanager
def own_folder(folder: Path, *, keep: bool, at: datetime) -> Iterator[None]:
    """Hold an empty folder; what an earlier demo left there is removed, or, to ``keep`` it, put beside it.

    Raises ConfigError for a folder that holds anything else or cannot be written, InstanceLocked where a demo runs.
    """
    _require_ours(folder)
    with ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if keep and (folder / MARK).exists():
                # Held to the end: another demo may have opened this lock before the folder had its new name.
                stack.enter_context(instance_lock(folder, started_at=at))
                folder.rename(_beside(folder))
                folder.mkdir(mode=0o700, exist_ok=True)
            stack.enter_context(instance_lock(folder, started_at=at))
            _emptied(folder)
            (folder / MARK).write_text(_MARKED, encoding="utf-8")
        except InstanceLocked:
            raise
        except (OSError, StoreError) as error:
            message = f"{folder} cannot be written to: {error}; name another folder with --folder"
            raise ConfigError(message) from error
        yield


def require_outside(folder: Path, place: Path | None, option: str) -> None:
    """Raise ConfigError where the file that this option names would lie in the folder, which is the demo's alone."""
    if place is not None and (place.parent.resolve() / place.name).is_relative_to(folder.resolve()):
        message = (
            f"{option} {place} is in the folder of the demo, which the next one empties; name a place outside {folder}"
        )
        raise ConfigError(message)


def _require_ours(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        message = f"{folder} is no folder; name another one with --folder"
        raise ConfigError(message)
    try:
        found = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
        ours = MARK in found and (folder / MARK).read_text(encoding="utf-8") == _MARKED
    except (OSError, UnicodeDecodeError) as error:
        message = f"{folder} cannot be read: {error}; name another folder with --folder"
        raise ConfigError(message) from error
    others = [name for name in found if name not in _LEFT] if ours else found
    if ours and REAL_STATE in others:
        message = (
            f"{folder} holds something else ({REAL_STATE}), made by {REAL} where it lay; move both out of it, "
            "or name another folder with --folder"
        )
        raise ConfigError(message)
    if others:
        message = f"{folder} holds something else ({others[0]}); name an empty or a new folder with --folder"
        raise ConfigError(message)


def _beside(folder: Path) -> Path:
    return next(path for number in count(1) if not (path := folder.with_name(f"{folder.name}-{number}")).exists())


def _emptied(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name in {_LOCK, MARK}:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
