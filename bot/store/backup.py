"""Whole copies of a ledger and its books while they are in use, checked before they get their names.

Backups are named ``<ledger>-<UTC time>.db``; one made for a reason carries it, ``<ledger>-<UTC time>-<label>.db``, and
is never pruned (``bot.store.backup_keep``). Where there are books, ``<the same>.books`` is the folder of their copies.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.errors import StoreError
from bot.store.backup_books import books_beside, copies_beside, folder_for, name_books, remove_books
from bot.store.checks import full_check
from bot.store.database import make_private, open_reader, sync, translated

# What must stay free for the ledger itself when a copy has been made.
RESERVE_BYTES = 64 * 1024 * 1024
# No copy takes as long: what is older was left by a kill in the middle of one.
ABANDONED_AFTER = timedelta(hours=1)

_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(?P<stem>.+)-(?P<stamp>\d{8}T\d{6}Z)(?:-(?P<label>.+))?\.db")
_PARTIAL = re.compile(r"\.(?P<name>.+\.db)\.\d+\.partial(?:-books)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """One copy; ``label`` is empty for a regular one, ``size_bytes`` counts the copied ``books`` too."""

    path: Path
    made_at: datetime
    label: str
    size_bytes: int
    books: tuple[Path, ...] = ()

    @property
    def stem(self) -> str:
        """The name of the ledger's file, without what comes after its dot."""
        name = _NAME.fullmatch(self.path.name)
        return name["stem"] if name else ""


def back_up(path: Path, folder: Path, *, at: datetime, label: str = "") -> Backup:
    """Copy the ledger at ``path`` and its books into the folder, check the copies, and only then give them names.

    The name is taken from ``at``; a regular backup of the same second is replaced. Raises StoreError for a disk without
    room for a copy and for a copy that is damaged (what it is of then is, too).
    """
    name = "-".join(part for part in (path.stem, at.astimezone(UTC).strftime(_STAMP), label) if part) + ".db"
    target = folder / name
    # A person and the daemon may each make a backup at the same time.
    partial = folder / f".{name}.{os.getpid()}.partial"
    partial_books = partial.with_name(f"{partial.name}-books")
    with translated(folder):
        _clear_partials(folder, path.stem, at - ABANDONED_AFTER)
        try:
            books = _copied_books(path, partial_books)
            snapshot(path, partial)
            name_books(partial, books)
            require_sound(partial)
            _give_names({partial_books: folder_for(target)} if books else {}, partial, target)
        finally:
            partial.unlink(missing_ok=True)
            shutil.rmtree(partial_books, ignore_errors=True)
        sync(folder)
        return _backup(target, at, label)


def _copied_books(ledger: Path, folder: Path) -> dict[str, Path]:
    copies = {}
    for name, book in books_beside(ledger).items():
        copies[name] = folder / name
        snapshot(book, copies[name])
        require_sound(copies[name])
    return copies


def _give_names(books: dict[Path, Path], partial: Path, target: Path) -> None:
    # The ledger comes last, so that what has a name is whole.
    if folder_for(target).exists():
        target.unlink(missing_ok=True)
        remove_books(target)
    for copy, named in books.items():
        copy.replace(named)
    partial.replace(target)


def snapshot(path: Path, target: Path) -> None:
    """Write a compact copy of the database, as of one moment, to a new file, and wait until it is on the disk.

    Raises StoreError, also for a disk without room.
    """
    with translated(path):
        _require_room(path, target.parent)
        make_private(target)
        with closing(open_reader(path)) as database:
            # VACUUM INTO writes elsewhere, but only on a connection that may write at all.
            database.conn.execute("pragma query_only = off")
            database.conn.execute("vacuum into ?", [str(target)])
        sync(target)


def require_sound(path: Path) -> None:
    """Raise StoreError for a copy that fails SQLite's own checks of integrity and foreign keys."""
    health = full_check(path, ())
    if not health.sound:
        message = f"{path} is damaged ({health.problems[0].examples[0]}); check the ledger, choose an earlier backup"
        raise StoreError(message)


def backups(folder: Path, stem: str) -> tuple[Backup, ...]:
    """Return the backups of the ledger with that file stem, newest first; none where there is no such folder.

    What has the name of one and is none (a folder, a link that leads nowhere, a moment that never was) is passed over.
    """
    with translated(folder):
        found = [_backup_at(path) for path in folder.glob(f"{stem}-*.db")]
    copies = [one for one in found if one is not None and one.stem == stem]
    return tuple(sorted(copies, key=lambda backup: backup.made_at, reverse=True))


def remove(backup: Backup) -> None:
    """Delete a backup with its books; raises StoreError."""
    with translated(backup.path):
        backup.path.unlink(missing_ok=True)
        remove_books(backup.path)


def missing_bytes(path: Path, folder: Path) -> int:
    """Return how much room there is too little in the folder for a copy of the ledger and of its books."""
    with translated(folder):
        wanted = sum(_size(one) for one in (path, *books_beside(path).values()))
        return max(0, wanted + RESERVE_BYTES - shutil.disk_usage(folder).free) if folder.exists() else 0


def _backup_at(path: Path) -> Backup | None:
    name = _NAME.fullmatch(path.name)
    if name is None or not path.is_file():
        return None
    try:
        at = datetime.strptime(name["stamp"], _STAMP).replace(tzinfo=UTC)
        return _backup(path, at, name["label"] or "")
    except (ValueError, FileNotFoundError):  # no moment, or gone since
        return None


def _backup(path: Path, at: datetime, label: str) -> Backup:
    books = copies_beside(path)
    size_bytes = sum(one.stat().st_size for one in (path, *books))
    return Backup(path=path, made_at=at, label=label, size_bytes=size_bytes, books=books)


def _clear_partials(folder: Path, stem: str, before: datetime) -> None:
    for partial in [*folder.glob(".*.partial"), *folder.glob(".*.partial-books")]:
        named = _PARTIAL.fullmatch(partial.name)
        name = _NAME.fullmatch(named["name"]) if named else None
        if name is not None and name["stem"] == stem and _written_before(partial, before):
            partial.unlink(missing_ok=True) if partial.is_file() else shutil.rmtree(partial, ignore_errors=True)
    for books in folder.glob(f"{stem}-*.books"):
        if not books.with_suffix(".db").exists() and _written_before(books, before):
            shutil.rmtree(books, ignore_errors=True)


def _written_before(path: Path, moment: datetime) -> bool:
    try:
        return path.stat().st_mtime < moment.timestamp()
    except FileNotFoundError:  # its own maker was done with it
        return False


def _size(path: Path) -> int:
    wal = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)


def _require_room(path: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = _size(path)
    free = shutil.disk_usage(folder).free
    if free < size + RESERVE_BYTES:
        message = (
            f"{folder}: a copy of {path.name} needs {size / 1e6:.0f} MB, {free / 1e6:.0f} MB are free; free some space"
        )
        raise StoreError(message)
