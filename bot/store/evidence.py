"""The evidence: exchanges, pages, prompts and steps of trials, in a database of their own next to the ledger.

The ledger holds what decides, spends and scores, and is small. The evidence explains it, is large, and can be pruned.
A document is found by the digest of its content. While its forecast runs it is stored alone, compressed if it is long;
afterwards all documents of a forecast are compressed together, as one bundle, because they repeat each other.

Both databases are written in one transaction, with the evidence as main database of the connection: SQLite commits the
main database before attached ones, so what the ledger names is on the disk before the ledger names it. A kill in
between leaves evidence that nothing names.
"""

import asyncio
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from bot.core.errors import NotFoundError, StoreError
from bot.core.ids import sha256_hex
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_known_secret_bytes
from bot.store.compression import THOROUGH_LEVEL, compress_bytes, decompress_bytes
from bot.store.connections import TransactionRunner
from bot.store.documents import (
    MAX_INLINE_BYTES,
    PackedDocument,
    StoredDocument,
    get_document,
    pack_evidence,
)

EVIDENCE_MIGRATIONS = Migrations("foxcast evidence")
# Documents without a forecast, and what several forecasts use, are in no bundle and are never pruned.
NO_SCOPE = ""
# Whether a bundle holds one document or many. The names are those of the first forms: the first bytes of a bundle say
# whether and how it is compressed.
ALONE, TOGETHER = "zlib", "lzma"
EVIDENCE_TABLES = (
    """create table bundle (
  id integer primary key autoincrement,
  scope text not null,
  codec text not null check (codec in ('zlib', 'lzma')),
  packed blob not null
) strict
""",
    "create index bundle_by_scope on bundle (scope)",
    "create index bundle_alone on bundle (scope, id) where codec = 'zlib'",
    """create table evidence_document (
  digest text primary key check (length(digest) = 64),
  media_type text not null,
  size integer not null check (size >= 0),
  bundle integer not null,
  place integer not null check (place >= 0),
  shared integer not null default 0 check (shared in (0, 1))
) strict, without rowid
""",
    """create table recording (
  scope text not null,
  trial integer not null check (trial >= 0),
  kind text not null,
  key text not null,
  nth integer not null check (nth >= 0),
  at text not null,
  answer text not null,
  primary key (scope, trial, kind, key, nth)
) strict, without rowid
""",
    """create table step (
  forecast text not null,
  trial integer not null,
  number integer not null check (number >= 1),
  at text not null,
  action text not null,
  cost_usd real not null check (cost_usd >= 0),
  body text not null,
  primary key (forecast, trial, number)
) strict, without rowid
""",
    "create index step_lesson on step (forecast) where action = 'keep_lesson'",
)


@EVIDENCE_MIGRATIONS(name="0001_evidence")
def create_evidence(database: Database) -> None:
    """Create the tables."""
    for statement in EVIDENCE_TABLES:
        database.execute(statement)


# What is compressed alone enters its index at the end, as ids grow: an index by scope has one page for each document.
# The codec is in both, so that they alone answer what is counted and listed.
IS_ALONE = "codec = 'zlib' and scope <> ''"
IS_PLACED = "(codec = 'lzma' or scope = '')"
EVIDENCE_INDEXES = (
    "drop index bundle_by_scope",
    "drop index bundle_alone",
    f"create index bundle_by_scope on bundle (scope, codec) where {IS_PLACED}",
    f"create index bundle_alone on bundle (id, scope, codec) where {IS_ALONE}",
)


@EVIDENCE_MIGRATIONS(name="0002_bundle_indexes")
def index_bundles(database: Database) -> None:
    """Replace the indexes of the bundles; the rows stay as they are."""
    for statement in EVIDENCE_INDEXES:
        database.execute(statement)


# They also work, slower, on an archive of before the second migration.
BUNDLES_OF_SCOPE = f"""
select id, scope, codec, packed from bundle where scope = :scope and {IS_PLACED}
union all
select id, scope, codec, packed from bundle where id in (select id from bundle where {IS_ALONE} and scope = :scope)
order by id
"""  # noqa: S608 - made of constants
SCOPES = f"""
select scope from bundle where scope <> '' and {IS_PLACED} union select scope from bundle where {IS_ALONE}
order by scope
"""  # noqa: S608 - made of constants


def evidence_path(ledger: Path) -> Path:
    """Return the path of the evidence of a ledger."""
    return ledger.with_name(f"{ledger.stem}-evidence{ledger.suffix}")


_KNOWN = """
select d.shared, b.scope from evidence_document d left join bundle b on b.id = d.bundle where d.digest = ?
"""
_INSERT_BUNDLE = "insert into bundle (scope, codec, packed) values (?, ?, ?)"
_INSERT_DOCUMENT = "insert into evidence_document (digest, media_type, size, bundle, place) values (?, ?, ?, ?, 0)"
_MARK_SHARED = "update evidence_document set shared = 1 where digest = ?"
_FIND_DOCUMENT = "select media_type, size, bundle, place from evidence_document where digest = ?"
_SELECT_BUNDLE = "select packed from bundle where id = ?"
MISSING_EVIDENCE = "select value from json_each(?) where value not in (select digest from evidence_document)"


def put_evidence(database: Database, document: PackedDocument, scope: str) -> None:
    """Write a compressed document of a forecast (its id, or ``NO_SCOPE``) within the caller's transaction."""
    execute = database.conn.execute
    known = execute(_KNOWN, (document.digest,)).fetchone()
    if known is None:
        bundle = execute(_INSERT_BUNDLE, (scope, ALONE, document.packed)).lastrowid
        execute(_INSERT_DOCUMENT, (document.digest, document.media_type, document.size, bundle))
    elif not known[0] and known[1] != scope:
        execute(_MARK_SHARED, (document.digest,))


def get_evidence(database: Database, digest: str) -> StoredDocument:
    """Read a document within the caller's snapshot; raises NotFoundError and StoreError."""
    return EvidenceReader(database).read(digest)


class EvidenceReader:
    """Reads documents within one snapshot; each bundle is decompressed once."""

    def __init__(self, database: Database | sqlite3.Connection) -> None:
        """Read from this connection."""
        self._database = database
        self._bundle: tuple[int, bytes] | None = None

    def read(self, digest: str) -> StoredDocument:
        """Return a document; raises NotFoundError, and StoreError for a damaged one."""
        row = self._database.execute(_FIND_DOCUMENT, [digest]).fetchone()
        if row is None:
            message = f"no document {digest} in the ledger"
            raise NotFoundError(message)
        media_type, size, bundle, place = row
        try:
            content = self._payload(bundle)[place : place + size]
        except (ValueError, TypeError) as error:
            message = f"document {digest} is damaged ({error}); restore a backup"
            raise StoreError(message) from error
        if sha256_hex(content) != digest:
            message = f"document {digest} is damaged (its content has another digest); restore a backup"
            raise StoreError(message)
        return StoredDocument(digest=digest, media_type=media_type, content=content)

    def text(self, digest: str) -> str:
        """Return the text of a document; raises as ``read``."""
        return self.read(digest).content.decode()

    def _payload(self, bundle: int) -> bytes:
        if self._bundle is None or self._bundle[0] != bundle:
            (packed,) = self._database.execute(_SELECT_BUNDLE, [bundle]).fetchone()
            self._bundle = bundle, decompress_bytes(packed)
        return self._bundle[1]


def pack_bundle(contents: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """Compress contents together; return the bundle, and the place of each content in its payload.

    The payload begins with a line of the sizes, as JSON. Takes about 0.01 s per MB.
    """
    head = f"{json.dumps([len(content) for content in contents])}\n".encode()
    places, place = [], len(head)
    for content in contents:
        places.append(place)
        place += len(content)
    return compress_bytes(b"".join([head, *contents]), level=THOROUGH_LEVEL), places


def bundle_contents(codec: str, packed: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the place and the content of each document in a bundle; raises ValueError for a damaged one."""
    payload = decompress_bytes(packed)
    if codec == ALONE:
        yield 0, payload
        return
    head, _, _ = payload.partition(b"\n")
    place = len(head) + 1
    for size in json.loads(head):
        yield place, payload[place : place + size]
        place += size


# A document that so many forecasts have stored is marked as shared, also if the evidence of the first was removed
# before the second came: it is never removed.
SHARED_AFTER = 3
_MAX_COUNTED = 256


@dataclass(frozen=True, slots=True)
class DocumentStore:
    """The content-addressed store: writes evidence, and reads documents of both databases.

    ``scope`` is the id of the forecast that a document belongs to.
    """

    writer: TransactionRunner
    readers: TransactionRunner
    # By digest, which forecast stored a document last, and how many have: the prompts of all are the same.
    _stored: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    async def put(self, content: bytes, media_type: str, *, scope: str = NO_SCOPE) -> str:
        """Store the content and return its SHA-256 in hex; storing the same content again changes nothing."""
        digest = sha256_hex(content)
        if self._stored.get(digest, (None, 0))[1] >= SHARED_AFTER:
            return digest
        content = redact_known_secret_bytes(content)
        quick = len(content) <= MAX_INLINE_BYTES
        document = (
            pack_evidence(content, media_type) if quick else await asyncio.to_thread(pack_evidence, content, media_type)
        )
        await self.put_packed([document], scope=scope)
        last, count = self._stored.pop(document.digest, (None, 0))
        self._stored[document.digest] = scope, count + (scope != last)
        if len(self._stored) > _MAX_COUNTED:
            del self._stored[next(iter(self._stored))]
        return document.digest

    async def put_packed(self, documents: Sequence[PackedDocument], *, scope: str = NO_SCOPE) -> None:
        """Store compressed documents, all in one write."""
        await self.writer.run(lambda database: _put_all(database, documents, scope))

    async def get(self, digest: str) -> StoredDocument:
        """Return a document; raises NotFoundError, and StoreError for a damaged one."""
        return await self.readers.run(lambda database: _read_document(EvidenceReader(database), database, digest))

    async def read_known(self, digests: Collection[str]) -> Mapping[str, StoredDocument]:
        """Return the known documents among these digests; raises StoreError for a damaged one."""
        return await self.readers.run(lambda database: _read_known(database, digests))


def _put_all(database: Database, documents: Sequence[PackedDocument], scope: str) -> None:
    for document in documents:
        put_evidence(database, document, scope)


def _read_document(reader: EvidenceReader, database: Database, digest: str) -> StoredDocument:
    try:
        return reader.read(digest)
    except NotFoundError:
        return get_document(database, digest)


def _read_known(database: Database, digests: Collection[str]) -> dict[str, StoredDocument]:
    reader, found = EvidenceReader(database), {}
    for digest in digests:
        try:
            found[digest] = _read_document(reader, database, digest)
        except NotFoundError:
            continue
    return found
