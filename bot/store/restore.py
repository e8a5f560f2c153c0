"""Restore a backup of the ledger and its books; a kill at any moment leaves complete databases.

A mark file next to the restored ledger blocks submissions until the venues have been asked for their state.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Migrations

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.audit_log import AUDIT_HEAD_FILE
from bot.store.backups import (
    BACKUP_FOLDER,
    copy_database,
    drop_backup_records,
    find_books,
    list_backups,
    replaced_path,
    require_intact,
    require_recorded_content,
    verified_book_copies,
)
from bot.store.database import instance_lock, open_reader, open_writer, translate_errors
from bot.store.folder_identity import IDENTITY_FILE
from bot.store.migrations import migration_checksums, require_known_migrations
from bot.store.private_files import read_private_json, replace_private_file, sync_to_disk

# This many backups are named where a ledger was lost.
MAX_LISTED_BACKUPS = 5
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRecord:
    """Which backup was restored and when, and the new path of the replaced database, if there was one.

    ``books`` are the paths of the books that were restored with it.
    """

    backup: Path
    replaced: Path | None
    at: datetime
    books: tuple[str, ...] = ()


def restore_backup(backup: Path, path: Path, *, migrations: Migrations, at: datetime) -> RestoreRecord:
    """Replace the ledger at ``path`` and its books by a copy of ``backup``, and mark the ledger as restored.

    Replaced files are renamed, also books that the backup does not have. Takes the instance lock of the ledger's
    folder. The next start migrates an older backup. Raises StateFolderLockedError, and StoreError for a backup that is
    damaged, incomplete, empty or of a newer program; it then changes nothing.
    """
    with instance_lock(path.parent, started_at=at), translate_errors(path):
        finish_restore(path)
        try:
            restored = _prepare_restore(backup, path, migrations, at)
        except BaseException:
            _discard_incoming(path)
            raise
        finish_restore(path)
        return restored


def finish_restore(path: Path) -> None:
    """Finish a restore that was interrupted; does nothing without one. Hold the instance lock.

    Raises StoreError.
    """
    listed = _todo_path(path)
    with translate_errors(path):
        if not os.path.lexists(listed):
            return
        todo = _read_json(listed, "books", "stamp")
        # A listed book without an incoming copy was already installed before the interruption.
        replaced = [
            book
            for name, book in find_books(path).items()
            if name not in todo["books"] or _incoming_path(book).exists()
        ]
        for book in replaced:
            _replace_book(book, todo["stamp"])
        for place in [*(path.parent / name for name in todo["books"]), path]:
            _install_incoming(place)
        listed.unlink()
        sync_to_disk(path.parent)


def lost_ledger_reason(path: Path) -> str:
    """Return why a folder that had a ledger has none now, with the backups to restore; "" for any other folder.

    Raises StoreError.
    """
    with translate_errors(path):
        if not _is_empty(path) or not _had_ledger(path):
            return ""
        backups = list_backups(path.parent / BACKUP_FOLDER, path.stem)
    what = f"{path} is {'empty' if path.exists() else 'missing'}, but this folder had a ledger"
    anew = f"to begin anew, move {path.parent} away"
    if not backups:
        return f"{what} and there is no backup of it; put the ledger back, or, {anew}"
    named = [f"{one.path.stem} ({one.size_bytes / 1e6:.1f} MB)" for one in backups[:MAX_LISTED_BACKUPS]]
    more = f" and {len(backups) - len(named)} more (foxcast db list)" if len(backups) > len(named) else ""
    return f"{what}; restore a backup: foxcast db restore NAME, newest first: {', '.join(named)}{more}; {anew}"


def _is_empty(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return True
    try:
        with closing(open_reader(path)) as database:
            return not database.table_names()
    except (StoreError, sqlite3.Error):
        return False  # damaged: reported by the check of its pages


def _had_ledger(path: Path) -> bool:
    marks = (path.parent / IDENTITY_FILE, path.parent / AUDIT_HEAD_FILE)
    log = _sibling_path(path, "-wal")
    has_log_alone = not path.exists() and log.exists() and log.stat().st_size > 0
    return (
        has_log_alone or any(map(os.path.lexists, marks)) or bool(list_backups(path.parent / BACKUP_FOLDER, path.stem))
    )


def restore_mark_path(path: Path) -> Path:
    """Return the path of the mark of a restored ledger."""
    return _sibling_path(path, ".restored")


def read_restore_mark(path: Path) -> RestoreRecord | None:
    """Return how the ledger was restored; None without an unacknowledged restore."""
    mark = restore_mark_path(path)
    with translate_errors(mark):
        if not os.path.lexists(mark):
            return None
        raw = _read_json(mark, "backup", "replaced", "at", "books")
    return RestoreRecord(
        backup=Path(raw["backup"]),
        replaced=None if raw["replaced"] is None else Path(raw["replaced"]),
        at=datetime.fromisoformat(raw["at"]),
        books=tuple(raw["books"]),
    )


def acknowledge_restore(path: Path) -> None:
    """Remove the mark, after the state of the venues was read into the ledger."""
    with translate_errors(path):
        restore_mark_path(path).unlink(missing_ok=True)
        sync_to_disk(path.parent)


def _require_usable_backup(backup: Path, migrations: Migrations) -> None:
    require_intact(backup)
    require_recorded_content(backup)
    with closing(open_reader(backup)) as database:
        if not require_known_migrations(database, migration_checksums(migrations), migrations):
            message = f"{backup} is not a backup of a ledger; choose a file that foxcast db backup wrote"
            raise StoreError(message)


def _prepare_restore(backup: Path, path: Path, migrations: Migrations, at: datetime) -> RestoreRecord:
    """Make all copies, link the current ledger under its new name, and write the list of steps to do."""
    _require_usable_backup(backup, migrations)
    books, stamp = verified_book_copies(backup, path), f"{at.astimezone(UTC):{_TIME_FORMAT}}"
    for name, book in books.items():
        _copy_checked(book, _incoming_path(path.parent / name))
    _copy_checked(backup, _incoming_path(path))
    drop_backup_records(_incoming_path(path))
    replaced = _link_replaced(path, stamp) if path.exists() else None
    restored = RestoreRecord(backup=backup, replaced=replaced, at=at, books=tuple(books))
    _write_restore_mark(path, restored)
    _write_json(_todo_path(path), {"stamp": stamp, "books": [*books]})
    return restored


def _discard_incoming(path: Path) -> None:
    if not _todo_path(path).exists():
        for incoming in (_incoming_path(path), *path.parent.glob("*/.*.sqlite.restoring")):
            incoming.unlink(missing_ok=True)


def _copy_checked(source: Path, incoming: Path) -> None:
    incoming.unlink(missing_ok=True)
    copy_database(source, incoming)
    require_intact(incoming)


def _replace_book(book: Path, stamp: str) -> None:
    if not replaced_path(book, stamp).exists():
        _link_replaced(book, stamp)
    _remove_side_files(book)
    book.unlink()


def _install_incoming(path: Path) -> None:
    incoming = _incoming_path(path)
    if incoming.exists():
        _remove_side_files(path)
        incoming.replace(path)
        sync_to_disk(path.parent)


def _link_replaced(path: Path, stamp: str) -> Path:
    # Links, not moves: the ledger keeps its name until the new one replaces it in one step.
    replaced = replaced_path(path, stamp)
    log, log_link = _sibling_path(path, "-wal"), _sibling_path(replaced, "-wal")
    os.link(path, replaced)
    if log.exists():
        os.link(log, log_link)
    with suppress(StoreError), translate_errors(path):
        # Closing a sound ledger merges its log; a damaged ledger keeps its log under the matching name.
        open_writer(path).close()
        if not log.exists():
            log_link.unlink(missing_ok=True)
    return replaced


def _remove_side_files(path: Path) -> None:
    # SQLite would replay a log of the old database into the new one.
    for side in ("-wal", "-shm"):
        _sibling_path(path, side).unlink(missing_ok=True)


def _sibling_path(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _incoming_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.restoring")


def _todo_path(path: Path) -> Path:
    return _sibling_path(path, ".restoring")


def _write_restore_mark(path: Path, done: RestoreRecord) -> None:
    replaced = None if done.replaced is None else str(done.replaced)
    content = {"backup": str(done.backup), "replaced": replaced, "at": done.at.isoformat(), "books": [*done.books]}
    _write_json(restore_mark_path(path), content)


def _read_json(path: Path, *keys: str) -> dict[str, Any]:
    try:
        found = read_private_json(path)
    except ValueError as error:
        message = f"{path} cannot be read ({error}); restore the backup again: foxcast db restore NAME"
        raise StoreError(message) from error
    if missing := [key for key in keys if key not in found]:
        message = f"{path} lacks {', '.join(missing)}; restore the backup again: foxcast db restore NAME"
        raise StoreError(message)
    return found


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    replace_private_file(path, json.dumps(content).encode())
