"""The folder of the demo: created anew each time, and never one that holds anything else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING

from bot.core.errors import ConfigError, StateFolderLockedError, StoreError
from bot.core.submissions import ExecutionMode
from bot.execution.gate.kill_switch import STOP_FILE
from bot.simulator.demo.configuration import CONFIG, LOG_FILE, REAL_CONFIG, REAL_STATE
from bot.simulator.environment import BUCKET_FOLDER, ROUNDS_FOLDER, SECRETS
from bot.store.database import instance_lock
from bot.store.ledger import LAB_FOLDER

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

MARKER_FILE = "SIMULATION"
_MARKER_TEXT = "This folder belongs to foxcast demo, which empties it when it runs again. Nothing in it is real.\n"
_LOCK = "lock"
# Files that a demo, and commands that read its results, put there.
_DEMO_FILES = frozenset(
    {
        _LOCK,
        MARKER_FILE,
        CONFIG,
        REAL_CONFIG,
        LOG_FILE,
        ROUNDS_FOLDER,
        BUCKET_FOLDER,
        STOP_FILE,
        LAB_FOLDER,
        *SECRETS,
        *(mode.value for mode in ExecutionMode),
    }
)


@contextmanager
def lock_demo_folder(folder: Path, *, keep: bool, at: datetime) -> Iterator[None]:
    """Hold an empty folder; the results of an earlier demo are removed, or, with ``keep``, moved next to it.

    Raises ConfigError for a folder that holds anything else or cannot be written, StateFolderLockedError where a demo
    runs.
    """
    _require_demo_folder(folder)
    with ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if keep and (folder / MARKER_FILE).exists():
                # Held to the end: another demo may have opened this lock before the folder had its new name.
                stack.enter_context(instance_lock(folder, started_at=at))
                folder.rename(_backup_folder(folder))
                folder.mkdir(mode=0o700, exist_ok=True)
            stack.enter_context(instance_lock(folder, started_at=at))
            _empty_folder(folder)
            (folder / MARKER_FILE).write_text(_MARKER_TEXT, encoding="utf-8")
        except StateFolderLockedError:
            raise
        except (OSError, StoreError) as error:
            message = f"{folder} cannot be written to: {error}; name another folder with --folder"
            raise ConfigError(message) from error
        yield


def require_outside(folder: Path, place: Path | None, option: str) -> None:
    """Raise ConfigError where the file of this option would be in the folder, which belongs to the demo alone."""
    if place is not None and (place.parent.resolve() / place.name).is_relative_to(folder.resolve()):
        message = (
            f"{option} {place} is in the folder of the demo, which the next one empties; name a place outside {folder}"
        )
        raise ConfigError(message)


def _require_demo_folder(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        message = f"{folder} is no folder; name another one with --folder"
        raise ConfigError(message)
    try:
        found = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
        ours = MARKER_FILE in found and (folder / MARKER_FILE).read_text(encoding="utf-8") == _MARKER_TEXT
    except (OSError, UnicodeDecodeError) as error:
        message = f"{folder} cannot be read: {error}; name another folder with --folder"
        raise ConfigError(message) from error
    others = [name for name in found if name not in _DEMO_FILES] if ours else found
    if ours and REAL_STATE in others:
        message = (
            f"{folder} holds something else ({REAL_STATE}), made by {REAL_CONFIG} in this folder; move both out of it, "
            "or name another folder with --folder"
        )
        raise ConfigError(message)
    if others:
        message = f"{folder} holds something else ({others[0]}); name an empty or a new folder with --folder"
        raise ConfigError(message)


def _backup_folder(folder: Path) -> Path:
    return next(path for number in count(1) if not (path := folder.with_name(f"{folder.name}-{number}")).exists())


def _empty_folder(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name in {_LOCK, MARKER_FILE}:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
