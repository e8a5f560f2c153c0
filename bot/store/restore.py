"""Put a backup in the place of the ledger, such that a kill at any moment leaves a whole database there.

What was sent since the backup was made is not in it. So a mark stays beside the restored ledger, and while it is there
nothing may be submitted: the venues must be asked first what stands.
"""

from __future__ import annotations

import json
import os
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlite_utils import Migrations

from bot.errors import StoreError
from bot.store.backup import require_sound, snapshot
from bot.store.database import make_private, open_reader, open_writer, sync, translated
from bot.store.lock import instance_lock
from bot.store.migrations import checksums, require_known


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Which backup was put in place when, and where the database it replaced is now, if there was one."""

    backup: Path
    replaced: Path | None
    at: datetime


def restore(backup: Path, path: Path, *, migrations: Migrations, at: datetime) -> Restored:
    """Put a copy of ``backup`` in the place of the ledger at ``path`` and mark it as restored.

    Takes the instance lock of the ledger's folder itself. An older backup is brought up to date at the next start.
    Raises InstanceLocked, and StoreError for a backup that is damaged, empty or made by a newer program; nothing is
    changed then.
    """
    with instance_lock(path.parent, started_at=at), translated(path):
        incoming = path.with_name(f".{path.name}.restoring")
        try:
            _require_usable(backup, migrations)
            incoming.unlink(missing_ok=True)
            snapshot(backup, incoming)
            require_sound(incoming)
            replaced = _kept_aside(path, at) if path.exists() else None
            restored = Restored(backup=backup, replaced=replaced, at=at)
            _mark(path, restored)
            _remove_side_files(path)
            incoming.replace(path)
        finally:
            incoming.unlink(missing_ok=True)
        sync(path.parent)
        return restored


def mark_of(path: Path) -> Path:
    """Return where the mark of a restored ledger stands while it is not acknowledged."""
    return _beside(path, ".restored")


def restored(path: Path) -> Restored | None:
    """Return how the ledger was restored, while that has not been acknowledged."""
    mark = mark_of(path)
    with translated(mark):
        if not mark.exists():
            return None
        raw = json.loads(mark.read_bytes())
    return Restored(
        backup=Path(raw["backup"]),
        replaced=None if raw["replaced"] is None else Path(raw["replaced"]),
        at=datetime.fromisoformat(raw["at"]),
    )


def acknowledge(path: Path) -> None:
    """Remove the mark: the venues were asked what stands, and the ledger knows it."""
    with translated(path):
        mark_of(path).unlink(missing_ok=True)
        sync(path.parent)


def _require_usable(backup: Path, migrations: Migrations) -> None:
    require_sound(backup)
    with closing(open_reader(backup)) as database:
        if not require_known(database, checksums(migrations), migrations):
            message = f"{backup} holds no ledger; choose a file that foxcast db backup wrote"
            raise StoreError(message)


def _kept_aside(path: Path, at: datetime) -> Path:
    # Links, not moves: the ledger keeps its place until the new one takes it in a single step.
    aside = path.with_name(f"{path.stem}-replaced-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}{path.suffix}")
    log, log_aside = _beside(path, "-wal"), _beside(aside, "-wal")
    os.link(path, aside)
    if log.exists():
        os.link(log, log_aside)
    with suppress(StoreError), translated(path):
        # A sound ledger takes its log in when it is closed; a damaged one keeps it, under the name that belongs to it.
        open_writer(path).close()
        if not log.exists():
            log_aside.unlink(missing_ok=True)
    return aside


def _remove_side_files(path: Path) -> None:
    # A log of the old database would be replayed into the new one.
    for side in ("-wal", "-shm"):
        _beside(path, side).unlink(missing_ok=True)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _mark(path: Path, done: Restored) -> None:
    mark, partial = mark_of(path), _beside(path, ".restored.partial")
    replaced = None if done.replaced is None else str(done.replaced)
    make_private(partial)
    partial.write_text(json.dumps({"backup": str(done.backup), "replaced": replaced, "at": done.at.isoformat()}))
    sync(partial)
    partial.replace(mark)
    sync(path.parent)
