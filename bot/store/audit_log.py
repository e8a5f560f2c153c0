"""The audit log: append-only rows, each with the hash of the previous row.

Verification finds an edited row and a removed tail.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from sqlite_utils import Database

from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.light_dataclass import dataclass
from bot.store.database import translate_errors
from bot.store.private_files import read_private_json, replace_private_file
from bot.store.serialization import JsonSerializer, format_timestamp, parse_timestamp, sanitize_text

AUDIT_HEAD_FILE = "audit.head"
GENESIS_HASH = "0" * 64
# The number before the first row.
EMPTY_SEQ = 0
_COLUMNS = "seq, at, kind, venue, actor, body, previous, hash"
_NEWEST = "select seq, hash from audit order by seq desc limit 1"
_ADD = f"insert into audit ({_COLUMNS}) values (:seq, :at, :kind, :venue, :actor, :body, :previous, :hash)"  # noqa: S608 - constants
_AFTER = f"select {_COLUMNS} from audit where seq > ? order by seq"  # noqa: S608 - as above
_ROW = f"select {_COLUMNS} from audit where seq = ?"  # noqa: S608 - as above
_RECENT = f"""
select {_COLUMNS} from audit where (:kind is null or kind = :kind) and (:venue is null or venue = :venue)
  and seq < coalesce(:before, seq + 1)
order by seq desc limit :limit
"""  # noqa: S608 - as above
_BODY: JsonSerializer[Mapping[str, str]] = JsonSerializer("audit row", Mapping[str, str])


class AuditEvent(Protocol):
    """The content of a row: time, kind, venue ("" for none), actor ("" for the program) and body.

    Bodies hold names, numbers and digests, never a secret.
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
    """A row to add, or a stored row, whose ``seq`` counts from 1."""

    at: datetime
    kind: str
    venue: str
    actor: str
    body: Mapping[str, str]
    seq: int = EMPTY_SEQ


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHead:
    """Number and hash of the newest row of a chain; ``EMPTY_SEQ`` and ``GENESIS_HASH`` for an empty chain."""

    seq: int = EMPTY_SEQ
    hash: str = GENESIS_HASH


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification:
    """The result of a verification: how many rows are valid, their head, and what is wrong ("" for nothing).

    ``first_bad_row`` is the number of the first invalid row.
    """

    rows: int
    head: AuditHead
    first_bad_row: int | None = None
    why: str = ""

    @property
    def sound(self) -> bool:
        """Whether the chain is valid."""
        return not self.why


def append_audit_row(database: Database, event: AuditEvent) -> None:
    """Add a row within the caller's transaction."""
    head = read_audit_head(database)
    row: dict[str, Any] = {
        "seq": head.seq + 1,
        "at": format_timestamp(event.at),
        "kind": sanitize_text(event.kind),
        "venue": sanitize_text(event.venue),
        "actor": sanitize_text(event.actor),
        "body": _BODY.encode(dict(event.body)),
        "previous": head.hash,
    }
    database.execute(_ADD, {**row, "hash": audit_row_hash(row)})


def read_audit_head(database: Database) -> AuditHead:
    """Read the newest row's number and hash."""
    row = database.execute(_NEWEST).fetchone()
    return AuditHead() if row is None else AuditHead(seq=row[0], hash=row[1])


def recent_audit_rows(
    database: Database, *, limit: int, kind: str | None = None, venue: str | None = None, before: int | None = None
) -> list[AuditRow]:
    """Return the newest rows before a number, newest first."""
    rows = database.execute(_RECENT, {"limit": limit, "kind": kind, "venue": venue, "before": before})
    return [
        AuditRow(seq=seq, at=parse_timestamp(at), kind=kind_, venue=venue_, actor=actor, body=_BODY.decode(body))
        for seq, at, kind_, venue_, actor, body, _, _ in rows
    ]


def verify_audit_chain(
    database: Database, known: AuditHead | None = None, *, since: AuditHead | None = None
) -> AuditVerification:
    """Recompute the chain; with ``known``, an exported head, also check that the chain still contains it.

    ``since`` is a head up to which the chain was verified before: only its row and later rows are read.
    """
    head = since or AuditHead()
    if why := _verified_row_fault(database, head):
        return AuditVerification(rows=head.seq - 1, head=head, first_bad_row=head.seq, why=why)
    is_head_found = known is None or known.seq <= head.seq
    for values in database.execute(_AFTER, [head.seq]):
        row = _row_by_column(values)
        if why := _row_fault(row, head):
            return AuditVerification(rows=head.seq, head=head, first_bad_row=head.seq + 1, why=why)
        head = AuditHead(seq=row["seq"], hash=row["hash"])
        if known is not None and head.seq == known.seq:
            if head.hash != known.hash:
                why = f"row {head.seq} differs from the exported head: the chain was rewritten"
                return AuditVerification(rows=head.seq, head=head, first_bad_row=head.seq, why=why)
            is_head_found = True
    if not is_head_found and known is not None:
        why = f"the exported head is row {known.seq}, and the chain ends with row {head.seq}: its tail was cut off"
        return AuditVerification(rows=head.seq, head=head, first_bad_row=head.seq + 1, why=why)
    return AuditVerification(rows=head.seq, head=head)


def audit_row_hash(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a row's canonical JSON without its own hash."""
    plain = {name: row[name] for name in _COLUMNS.split(", ") if name != "hash"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def export_audit_head(path: Path, head: AuditHead, *, at: datetime) -> None:
    """Replace the file by this head, atomically; raises StoreError."""
    text = json.dumps({"seq": head.seq, "hash": head.hash, "at": format_timestamp(at)}) + "\n"
    with translate_errors(path):
        replace_private_file(path, text.encode())


def read_exported_head(path: Path) -> AuditHead:
    """Read an exported head; raises NotFoundError, and MalformedDataError for an unreadable one."""
    try:
        plain = read_private_json(path)
        head = AuditHead(seq=int(plain["seq"]), hash=str(plain["hash"]))
    except FileNotFoundError as error:
        message = f"there is no exported head at {path}"
        raise NotFoundError(message) from error
    except (OSError, StoreError, ValueError, KeyError, TypeError) as error:
        message = f"{path} is not an exported head of the audit log"
        raise MalformedDataError(message) from error
    return head


def _row_by_column(values: Iterable[Any]) -> dict[str, Any]:
    return dict(zip(_COLUMNS.split(", "), values, strict=True))


def _verified_row_fault(database: Database, head: AuditHead) -> str:
    """Return what is wrong with the row up to which the chain was verified before, "" for nothing."""
    if head.seq == EMPTY_SEQ:
        return ""
    values = database.execute(_ROW, [head.seq]).fetchone()
    if values is None:
        return f"row {head.seq} is missing, but it was there before"
    row = _row_by_column(values)
    same = row["hash"] == head.hash == audit_row_hash(row)
    return "" if same else f"row {head.seq} was changed after it was written"


def _row_fault(row: Mapping[str, Any], before: AuditHead) -> str:
    expected = before.seq + 1
    if row["seq"] != expected:
        return f"row {expected} is missing: row {row['seq']} follows row {before.seq}"
    if row["previous"] != before.hash:
        return f"row {expected} does not follow from the row before it"
    if row["hash"] != audit_row_hash(row):
        return f"row {expected} was changed after it was written"
    return ""
