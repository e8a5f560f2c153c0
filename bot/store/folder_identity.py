"""The identity of a state folder: a random id with its machine and place, next to the ledger and inside it.

A folder that was copied or moved is in another place than its identity says; live submission is bound to both.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from bot.core.errors import MalformedDataError, StoreError
from bot.core.light_dataclass import dataclass
from bot.store.database import open_reader, open_writer, translate_errors
from bot.store.private_files import read_private_file, replace_private_file

IDENTITY_FILE = "identity.json"
ADOPT_REMEDY = "if no other copy of it runs, make it live again with: foxcast adopt"
# Not a table of the schema: it describes the file, not what the file records.
IDENTITY_TABLE = "_folder_identity"
_MAX_IDENTITY_BYTES = 10_000
_CREATE_TABLE = f"create table {{schema}}.{IDENTITY_TABLE} (only integer primary key check (only = 1), body text)"
_REPLACE = f"insert or replace into {IDENTITY_TABLE} (only, body) values (1, ?)"  # noqa: S608 - made of constants
_SELECT = f"select body from {IDENTITY_TABLE}"  # noqa: S608 - made of constants
_IN_SCHEMA = "select 1 from pragma_table_info('intent', ?)"
# Source: machine-id(5) of systemd: the id is not to be shown, so it is hashed together with a name of ours.
_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_MACHINE_HASH_NAME = b"foxcast state folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPlace:
    """Where a folder is: a digest of the machine's id, the name of the machine, the path, and the inode."""

    machine: str
    host: str
    path: str
    inode: int

    def difference_from(self, recorded: FolderPlace) -> str:
        """Return how this place differs from the recorded one, as words about the folder; "" for the same place."""
        if self.machine != recorded.machine:
            return f"comes from another machine ({recorded.host}, {recorded.path})"
        if self.path != recorded.path:
            return f"was copied or moved here from {recorded.path}"
        return "" if self.inode == recorded.inode else "was replaced by a copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderIdentity:
    """The identity of a folder: a random id, where the folder belongs, and since when."""

    id: str
    place: FolderPlace
    made_at: datetime

    @property
    def binding(self) -> str:
        """What a permission to submit is bound to."""
        return f"{self.id}@{self.place.machine}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityCheck:
    """The result of comparing a folder with its identity: ``fault`` says why it is not at home, "" if it is.

    ``identity`` is None for a folder without a ledger.
    """

    identity: FolderIdentity | None
    fault: str = ""


def locate_folder(folder: Path, *, machine_files: Sequence[Path] = _MACHINE_ID_FILES) -> FolderPlace:
    """Return where the folder is now; without an id of the machine its name takes that place. Raises OSError."""
    host = os.uname().nodename
    raw = next((text for path in machine_files if (text := _read_machine_id(path))), host.encode())
    return FolderPlace(
        machine=hashlib.sha256(_MACHINE_HASH_NAME + raw).hexdigest()[:32],
        host=host,
        path=os.path.realpath(folder),
        inode=folder.stat().st_ino,
    )


def check_identity(ledger: Path) -> IdentityCheck:
    """Compare the folder of a ledger with the identity next to the ledger and inside it.

    Changes nothing. Raises StoreError.
    """
    outside = _read_outside(ledger.parent)
    if not ledger.exists():
        return IdentityCheck(identity=outside)
    with translate_errors(ledger), closing(open_reader(ledger)) as database:
        inside = _read_inside(database)
    return _compare(ledger.parent, outside, inside)


def ensure_identity(ledger: Path, *, at: datetime) -> IdentityCheck:
    """Give the folder of a new ledger its identity, complete one that a crash left half written, and check it.

    The caller holds the instance lock. Raises StoreError.
    """
    with translate_errors(ledger), closing(open_writer(ledger)) as database:
        outside, inside = _read_outside(ledger.parent), _read_inside(database)
        if outside is None and inside is None:
            inside = make_identity(ledger.parent, at=at)
            write_identity(database, inside)
        if inside is None and outside is not None and not _displacement(ledger.parent, outside):
            # A backup from before the identity was restored.
            inside = outside
            write_identity(database, inside)
    if outside is None and inside is not None and not _displacement(ledger.parent, inside):
        outside = inside
        export_identity(ledger.parent, outside)
    return _compare(ledger.parent, outside, inside)


def write_identity(database: Database, identity: FolderIdentity) -> None:
    """Write the identity into the ledger, within the caller's transaction if there is one."""
    if not _has_table(database, IDENTITY_TABLE):
        database.execute(_CREATE_TABLE.format(schema=_ledger_schema(database)))
    database.execute(_REPLACE, [_to_text(identity)])


def export_identity(folder: Path, identity: FolderIdentity) -> None:
    """Write the identity next to the ledger; raises StoreError."""
    path = folder / IDENTITY_FILE
    with translate_errors(path):
        replace_private_file(path, f"{_to_text(identity)}\n".encode())


def make_identity(folder: Path, *, at: datetime) -> FolderIdentity:
    """Return a new identity for a folder in its present place; raises StoreError."""
    with translate_errors(folder):
        return FolderIdentity(id=secrets.token_hex(16), place=locate_folder(folder), made_at=at)


def read_binding(database: Database) -> str:
    """Return what a permission to submit must be bound to, by the identity inside the ledger; "" without one."""
    identity = _read_inside(database)
    return "" if identity is None else identity.binding


def _compare(folder: Path, outside: FolderIdentity | None, inside: FolderIdentity | None) -> IdentityCheck:
    known = inside or outside
    if known is None:
        return IdentityCheck(identity=None)
    if outside is None or inside is None or outside.id != inside.id:
        return IdentityCheck(identity=known, fault="has a ledger that was made for another folder")
    fault = next((text for one in (inside, outside) if (text := _displacement(folder, one))), "")
    return IdentityCheck(identity=known, fault=fault)


def _displacement(folder: Path, identity: FolderIdentity) -> str:
    return locate_folder(folder).difference_from(identity.place)


def _read_machine_id(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError:
        return b""


def _read_outside(folder: Path) -> FolderIdentity | None:
    path = folder / IDENTITY_FILE
    with translate_errors(path):
        try:
            text = read_private_file(path, _MAX_IDENTITY_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return None
    try:
        return _from_text(text)
    except MalformedDataError:
        message = f"{path} cannot be read; restore it from a copy of the folder, or delete it and run: foxcast adopt"
        raise StoreError(message) from None


def _has_table(database: Database, name: str) -> bool:
    """Return whether a table is in this database or in an attached one."""
    return database.execute("select 1 from pragma_table_info(?)", [name]).fetchone() is not None


def _ledger_schema(database: Database) -> str:
    """Return under which name the ledger is open: the writer of a ledger has it attached to that of its evidence."""
    attached = {name for _, name, _ in database.execute("pragma database_list")} - {"main", "temp"}
    return next((name for name in attached if database.execute(_IN_SCHEMA, [name]).fetchone()), "main")


def _read_inside(database: Database) -> FolderIdentity | None:
    if not _has_table(database, IDENTITY_TABLE):
        return None
    row = database.execute(_SELECT).fetchone()
    return None if row is None else _from_text(row[0])


def _to_text(identity: FolderIdentity) -> str:
    return json.dumps(asdict(identity) | {"made_at": identity.made_at.isoformat()}, sort_keys=True)


def _from_text(text: str) -> FolderIdentity:
    try:
        raw: dict[str, Any] = json.loads(text)
        place = {name: str(raw["place"][name]) for name in ("machine", "host", "path")}
        return FolderIdentity(
            id=str(raw["id"]),
            place=FolderPlace(**place, inode=int(raw["place"]["inode"])),
            made_at=datetime.fromisoformat(raw["made_at"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        message = "this is no identity of a state folder"
        raise MalformedDataError(message) from error
