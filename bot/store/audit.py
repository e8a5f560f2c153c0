"""The audit: rows that are never changed, each holding the hash of the one before it.

A row that was edited is found where it stands. A tail that was cut off is not: what is left is a sound, shorter chain.
So the head is written to a file of its own, and a chain that does not hold it was shortened.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from sqlite_utils import Database

from bot.errors import ContractError, NotFound
from bot.store.codec import Form, clean, moment, stamp
from bot.store.database import make_private, sync, translated

HEAD_FILE = "audit.head"
GENESIS = "0" * 64
# Of a row without neighbours: where the ledger holds no audit yet.
EMPTY = 0

_COLUMNS = "seq, at, kind, venue, actor, body, previous, hash"
_NEWEST = "select seq, hash from audit order by seq desc limit 1"
_ADD = f"insert into audit ({_COLUMNS}) values (:seq, :at, :kind, :venue, :actor, :body, :previous, :hash)"  # noqa: S608 - constants
_AFTER = f"select {_COLUMNS} from audit where seq > ? order by seq"  # noqa: S608 - as above
_ROW = f"select {_COLUMNS} from audit where seq = ?"  # noqa: S608 - as above
_RECENT = f"""
select {_COLUMNS} from audit where (:kind is null or kind = :kind) and (:venue is null or venue = :venue)
order by seq desc limit :limit
"""  # noqa: S608 - as above

_BODY: Form[Mapping[str, str]] = Form("audit row", Mapping[str, str])


class Told(Protocol):
    """What a row says: when, what kind of thing, at which venue ("" for none), who did it ("" the program), and what.

    Bodies hold names, figures and digests, never a secret.
    """

    @property
    def at(self) -> datetime: ...
    @property
    def kind(self) -> str: ...
    @property
    def venue(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def body(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """A row to be added, or one that was read; of the latter ``seq`` is its number, from 1."""

    at: datetime
    kind: str
    venue: str
    actor: str
    body: Mapping[str, str]
    seq: int = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest row of a chain: its number and hash; ``EMPTY`` and ``GENESIS`` where there is none."""

    seq: int = EMPTY
    hash: str = GENESIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What verifying found: how many rows hold, the head they end in, and what is wrong, "" for nothing.

    ``bad`` is the number of the first row that cannot be trusted.
    """

    rows: int
    head: Head
    bad: int | None = None
    why: str = ""

    @property
    def sound(self) -> bool:
        """Whether the chain is whole."""
        return not self.why


def append(database: Database, told: Told) -> None:
    """Add a row within the caller's transaction."""
    head = head_of(database)
    row: dict[str, Any] = {
        "seq": head.seq + 1,
        "at": stamp(told.at),
        "kind": clean(told.kind),
        "venue": clean(told.venue),
        "actor": clean(told.actor),
        "body": _BODY.encode(dict(told.body)),
        "previous": head.hash,
    }
    database.execute(_ADD, {**row, "hash": hash_of(row)})


def head_of(database: Database) -> Head:
    """Read the newest row's number and hash."""
    row = database.execute(_NEWEST).fetchone()
    return Head() if row is None else Head(seq=row[0], hash=row[1])


def recent(database: Database, *, limit: int, kind: str | None = None, venue: str | None = None) -> list[AuditRow]:
    """Read the newest rows, newest first."""
    rows = database.execute(_RECENT, {"limit": limit, "kind": kind, "venue": venue})
    return [
        AuditRow(seq=seq, at=moment(at), kind=kind_, venue=venue_, actor=actor, body=_BODY.decode(body))
        for seq, at, kind_, venue_, actor, body, _, _ in rows
    ]


def verify(database: Database, known: Head | None = None, *, since: Head | None = None) -> Verdict:
    """Recompute the whole chain; with a head that was exported, also find whether the chain still holds it.

    ``since`` is a head up to which the chain was verified before: then it alone is looked at, and what follows it.
    """
    head = since or Head()
    if why := _moved(database, head):
        return Verdict(rows=head.seq - 1, head=head, bad=head.seq, why=why)
    held = known is None or known.seq <= head.seq
    for values in database.execute(_AFTER, [head.seq]):
        row = _named(values)
        if why := _fault(row, head):
            return Verdict(rows=head.seq, head=head, bad=head.seq + 1, why=why)
        head = Head(seq=row["seq"], hash=row["hash"])
        if known is not None and head.seq == known.seq:
            if head.hash != known.hash:
                why = f"row {head.seq} is not the one that was exported as head: the chain was written anew"
                return Verdict(rows=head.seq, head=head, bad=head.seq, why=why)
            held = True
    if not held and known is not None:
        why = f"the exported head is row {known.seq}, and the chain ends with row {head.seq}: its tail was cut off"
        return Verdict(rows=head.seq, head=head, bad=head.seq + 1, why=why)
    return Verdict(rows=head.seq, head=head)


def hash_of(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a row's canonical JSON, its own hash left out."""
    plain = {name: row[name] for name in _COLUMNS.split(", ") if name != "hash"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_head(path: Path, head: Head, *, at: datetime) -> None:
    """Put the head in the place of the file, whole or not at all; raises StoreError."""
    partial = path.with_name(f".{path.name}.partial")
    with translated(path):
        make_private(partial)
        with partial.open("w", encoding="ascii") as file:
            file.write(json.dumps({"seq": head.seq, "hash": head.hash, "at": stamp(at)}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync(path.parent)


def read_head(path: Path) -> Head:
    """Read an exported head; raises NotFound, and ContractError for a file that holds none."""
    try:
        plain = json.loads(path.read_bytes())
        head = Head(seq=int(plain["seq"]), hash=str(plain["hash"]))
    except FileNotFoundError as error:
        message = f"there is no exported head at {path}"
        raise NotFound(message) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{path} holds no head of an audit"
        raise ContractError(message) from error
    return head


def _named(values: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(_COLUMNS.split(", "), values, strict=True))


def _moved(database: Database, head: Head) -> str:
    """Say that a row up to which all was verified before is not what it was, or nothing."""
    if head.seq == EMPTY:
        return ""
    values = database.execute(_ROW, [head.seq]).fetchone()
    if values is None:
        return f"row {head.seq} is missing, which was there before"
    row = _named(values)
    same = row["hash"] == head.hash == hash_of(row)
    return "" if same else f"row {head.seq} was changed after it was written"


def _fault(row: Mapping[str, Any], before: Head) -> str:
    expected = before.seq + 1
    if row["seq"] != expected:
        return f"row {expected} is missing: row {row['seq']} follows row {before.seq}"
    if row["previous"] != before.hash:
        return f"row {expected} does not follow from the row before it"
    if row["hash"] != hash_of(row):
        return f"row {expected} was changed after it was written"
    return ""
