"""Put a backup in the place of the ledger and its books, such that a kill at any moment leaves whole databases there.

All copies are made and checked first. A list of what takes which place is then written down; a restore that was cut off
after that is finished by whoever opens the ledger next.

What was sent since the backup was made is not in it. So a mark stays beside the restored ledger, and while it is there
nothing may be submitted: the venues must be asked first what stands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Migrations

from bot.errors import StoreError
from bot.store.backup import require_sound, snapshot
from bot.store.backup_books import aside_of, books_beside, books_of, forget_books
from bot.store.database import make_private, open_reader, open_writer, sync, translated
from bot.store.lock import instance_lock
from bot.store.migrations import checksums, require_known

_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Which backup was put in place when, and where the database it replaced is now, if there was one.

    ``books`` are the places of the books that were put in place with it.
    """

    backup: Path
    replaced: Path | None
    at: datetime
    books: tuple[str, ...] = ()


def restore(backup: Path, path: Path, *, migrations: Migrations, at: datetime) -> Restored:
    """Put a copy of ``backup`` in the place of the ledger at ``path``, and of its books, and mark it as restored.

    Books that the backup does not know are put aside, as all that is replaced. Takes the instance lock of the ledger's
    folder itself. An older backup is brought up to date at the next start. Raises InstanceLocked, and StoreError for a
    backup that is damaged, not all there, empty or made by a newer program; nothing is changed then.
    """
    with instance_lock(path.parent, started_at=at), translated(path):
        finish(path)
        try:
            restored = _prepared(backup, path, migrations, at)
        except BaseException:
            _withdraw(path)
            raise
        finish(path)
        return restored


def finish(path: Path) -> None:
    """Put in place what a restore wrote down; nothing to do where none was cut off. The instance lock must be held.

    Raises StoreError.
    """
    listed = _list_of(path)
    with translated(path):
        if not listed.exists():
            return
        todo = json.loads(listed.read_bytes())
        # Those that were to come and have come are what a restore that was cut off did already.
        replaced = [
            book for name, book in books_beside(path).items() if name not in todo["books"] or _incoming(book).exists()
        ]
        for book in replaced:
            _put_aside(book, todo["stamp"])
        for place in [*(path.parent / name for name in todo["books"]), path]:
            _put_in_place(place)
        listed.unlink()
        sync(path.parent)


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
        books=tuple(raw.get("books", ())),
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


def _prepared(backup: Path, path: Path, migrations: Migrations, at: datetime) -> Restored:
    """Make all copies, keep the ledger that is there, and write down what is to be done."""
    _require_usable(backup, migrations)
    books, stamp = books_of(backup, path), f"{at.astimezone(UTC):{_STAMP}}"
    for name, book in books.items():
        _copied(book, _incoming(path.parent / name))
    _copied(backup, _incoming(path))
    forget_books(_incoming(path))
    replaced = _kept_aside(path, stamp) if path.exists() else None
    restored = Restored(backup=backup, replaced=replaced, at=at, books=tuple(books))
    _mark(path, restored)
    _write(_list_of(path), {"stamp": stamp, "books": [*books]})
    return restored


def _withdraw(path: Path) -> None:
    if not _list_of(path).exists():
        for left in (_incoming(path), *path.parent.glob("*/.*.sqlite.restoring")):
            left.unlink(missing_ok=True)


def _copied(source: Path, incoming: Path) -> None:
    incoming.unlink(missing_ok=True)
    snapshot(source, incoming)
    require_sound(incoming)


def _put_aside(book: Path, stamp: str) -> None:
    if not aside_of(book, stamp).exists():
        _kept_aside(book, stamp)
    _remove_side_files(book)
    book.unlink()


def _put_in_place(path: Path) -> None:
    incoming = _incoming(path)
    if incoming.exists():
        _remove_side_files(path)
        incoming.replace(path)
        sync(path.parent)


def _kept_aside(path: Path, stamp: str) -> Path:
    # Links, not moves: the ledger keeps its place until the new one takes it in a single step.
    aside = aside_of(path, stamp)
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


def _incoming(path: Path) -> Path:
    return path.with_name(f".{path.name}.restoring")


def _list_of(path: Path) -> Path:
    return _beside(path, ".restoring")


def _mark(path: Path, done: Restored) -> None:
    replaced = None if done.replaced is None else str(done.replaced)
    told = {"backup": str(done.backup), "replaced": replaced, "at": done.at.isoformat(), "books": [*done.books]}
    _write(mark_of(path), told)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    partial = _beside(path, ".partial")
    make_private(partial)
    partial.write_text(json.dumps(content))
    sync(partial)
    partial.replace(path)
    sync(path.parent)
