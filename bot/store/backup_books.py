"""The books beside a ledger: the databases in the folders of its venues, which are backed up and restored with it.

Books are copied before the ledger. An order is in the ledger before it is in a book, so the copy of the ledger knows
each order that the copies of the books have; what it thinks they have and they have not is found when it is restored.
The copy of the ledger names the copies of the books, with their digests: whoever has it knows whether it is all there.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from bot.errors import StoreError
from bot.store.database import open_reader, sync

TABLE = "_backup_book"
_MAKE = f"create table {TABLE} (file text primary key, sha256 text not null) strict"
_ADD = f"insert into {TABLE} (file, sha256) values (?, ?)"  # noqa: S608 - made of constants
_LISTED = f"select file, sha256 from {TABLE} order by file"  # noqa: S608 - made of constants
_DROP = f"drop table if exists {TABLE}"
_ASIDE = re.compile(r".+-replaced-(?P<stamp>\d{8}T\d{6}Z)")


def books_beside(ledger: Path) -> dict[str, Path]:
    """Return the books of a ledger in use, by their place below its folder; what a restore put aside is none."""
    found = [path for path in ledger.parent.glob("*/*.sqlite") if not _ASIDE.fullmatch(path.stem)]
    return {str(path.relative_to(ledger.parent)): path for path in sorted(found)}


def folder_for(backup: Path) -> Path:
    """Return where the books are that were copied with a ledger, if there were any."""
    return backup.with_suffix(".books")


def aside_of(path: Path, stamp: str) -> Path:
    """Return where a restore at that moment puts what was there before."""
    return path.with_name(f"{path.stem}-replaced-{stamp}{path.suffix}")


def name_books(copy: Path, books: Mapping[str, Path]) -> None:
    """Write into the copy of a ledger which books were copied with it."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        connection.execute(_MAKE)
        connection.executemany(_ADD, [(name, digest_of(path)) for name, path in books.items()])
        connection.execute("commit")
    sync(copy)


def forget_books(ledger: Path) -> None:
    """Take the names out of a copy that becomes a ledger again."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute(_DROP)
    sync(ledger)


def books_of(backup: Path, ledger: Path) -> dict[str, Path]:
    """Return the copies of books that belong to a backup of the ledger, by their places, checked to be all there.

    Raises StoreError for a backup of which a part is missing or is not what was copied, and for one that was made
    without books where the ledger in use has some.
    """
    named = _named(backup)
    if named is not None:
        return _all_there(backup, named)
    if aside := _ASIDE.fullmatch(backup.stem):
        kept = backup.parent.glob(f"*/*-replaced-{aside['stamp']}.sqlite")
        return {_place_of(path, backup.parent): path for path in sorted(kept)}
    if beside := books_beside(ledger):
        message = (
            f"{backup} was made without the paper books; to restore it, put these away first, they begin anew: "
            f"{', '.join(str(path) for path in beside.values())}"
        )
        raise StoreError(message)
    return {}


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copies_beside(backup: Path) -> tuple[Path, ...]:
    """Return the copies of books that are there with a backup."""
    return tuple(sorted(folder_for(backup).glob("*/*.sqlite")))


def remove_books(backup: Path) -> None:
    """Delete the copies of books that belong to a backup."""
    shutil.rmtree(folder_for(backup), ignore_errors=True)


def _named(backup: Path) -> dict[str, str] | None:
    with closing(open_reader(backup)) as database:
        return dict(database.execute(_LISTED).fetchall()) if database[TABLE].exists() else None


def _all_there(backup: Path, named: Mapping[str, str]) -> dict[str, Path]:
    copies = {name: folder_for(backup) / name for name in named}
    if absent := [name for name, path in copies.items() if not path.is_file()]:
        message = (
            f"{backup} is half a backup: {', '.join(absent)} should be in {folder_for(backup)}; copy that folder as "
            "well, or choose another backup"
        )
        raise StoreError(message)
    if changed := [str(path) for name, path in copies.items() if digest_of(path) != named[name]]:
        message = f"{', '.join(changed)} is not what was copied for {backup.name}; choose another backup"
        raise StoreError(message)
    return copies


def _place_of(aside: Path, folder: Path) -> str:
    stem, _, _ = aside.stem.rpartition("-replaced-")
    return str(aside.relative_to(folder).with_name(f"{stem}{aside.suffix}"))
