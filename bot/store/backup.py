"""Whole copies of a ledger and its books while they are in use, checked before they get their names.

Backups are named ``<ledger>-<UTC time>.db``; one made for a reason carries it, ``<ledger>-<UTC time>-<label>.db``, and
is never pruned. Where there are books, ``<the same>.books`` is the folder of their copies.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.errors import StoreError
from bot.store.backup_books import books_beside, copies_beside, folder_for, name_books, remove_books
from bot.store.checks import full_check
from bot.store.database import make_private, open_reader, sync, translated

# Whatever they take, the newest copies stay, and one more in case the newest is of a ledger that was spoilt.
LEAST_KEPT = 2
# Of the room that the disk has without them, copies take no more: the ledger grows, and copies do in its pace.
MOST_OF_ROOM = 0.5
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
    """Return the backups of the ledger with that file stem, newest first; none where there is no such folder."""
    with translated(folder):
        found = [(_NAME.fullmatch(path.name), path) for path in folder.glob("*.db")]
        copies = [
            _backup(path, datetime.strptime(name["stamp"], _STAMP).replace(tzinfo=UTC), name["label"] or "")
            for name, path in found
            if name is not None and name["stem"] == stem
        ]
    return tuple(sorted(copies, key=lambda backup: backup.made_at, reverse=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Which regular backups are kept: one of each of so many hours and days, that take no more than ``bytes``."""

    hourly: int = 24
    daily: int = 30
    bytes: int | None = None


def prune(folder: Path, stem: str, keep: Keep | None = None) -> tuple[Path, ...]:
    """Delete regular backups but the newest of each of the last hours and days that have any; return what went.

    Hours and days are those with a backup, not those before now: nothing goes because the program was off for a month.
    What is kept takes at most ``keep.bytes`` and half of the room that the disk would have without it: the oldest go
    first, and the newest two never.
    """
    wanted = keep or Keep()
    regular = [backup for backup in backups(folder, stem) if not backup.label]
    kept = {
        *_newest_of_each(regular, lambda backup: backup.made_at.strftime("%Y%m%d%H"), wanted.hourly),
        *_newest_of_each(regular, lambda backup: backup.made_at.strftime("%Y%m%d"), wanted.daily),
    }
    kept &= {*_newest_within([backup for backup in regular if backup.path in kept], _most(folder, regular, wanted))}
    gone = tuple(backup.path for backup in regular if backup.path not in kept)
    with translated(folder):
        for path in gone:
            path.unlink(missing_ok=True)
            remove_books(path)
    return gone


def _most(folder: Path, regular: Sequence[Backup], keep: Keep) -> float:
    if not regular:
        return 0.0
    room = shutil.disk_usage(folder).free + sum(backup.size_bytes for backup in regular)
    return min(MOST_OF_ROOM * room, math.inf if keep.bytes is None else keep.bytes)


def _newest_within(newest_first: Sequence[Backup], most: float) -> Iterator[Path]:
    taken = 0
    for number, backup in enumerate(newest_first):
        taken += backup.size_bytes
        if taken > most and number >= LEAST_KEPT:
            return
        yield backup.path


def _newest_of_each(newest_first: Iterable[Backup], period: Callable[[Backup], str], count: int) -> tuple[Path, ...]:
    newest: dict[str, Path] = {}
    for backup in newest_first:
        newest.setdefault(period(backup), backup.path)
    return tuple(newest.values())[:count]


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


def _require_room(path: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    wal = path.with_name(f"{path.name}-wal")
    size = path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    free = shutil.disk_usage(folder).free
    if free < size + RESERVE_BYTES:
        message = (
            f"{folder}: a copy of {path.name} needs {size / 1e6:.0f} MB, {free / 1e6:.0f} MB are free; free some space"
        )
        raise StoreError(message)
