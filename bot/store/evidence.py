"""The evidence: exchanges, pages, prompts and steps of trials, in a database of their own next to the ledger.

The ledger holds what decides, spends and scores, and is small. The evidence explains it, is large, and can be pruned.
A document is found by its forecast and the digest of its content. While the forecast runs, each document is a bundle
of its own, compressed if it is long; afterwards all documents of a forecast are compressed together, as one bundle,
because they repeat each other. A bundle names its documents in order. Only what several forecasts use has an index:
one of all documents by digest costs a page of the log for each document.

Both databases are written in one transaction, with the evidence as main database of the connection: SQLite commits the
main database before attached ones, so what the ledger names is on the disk before the ledger names it. A kill in
between leaves evidence that nothing names.
"""

import asyncio
import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    pack_evidence,
)
from bot.store.serialization import to_json_list

EVIDENCE_MIGRATIONS = Migrations("foxcast evidence")
# Of documents that several forecasts use: each stays a bundle of its own, and is never removed.
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


_NEW_BUNDLE_TABLE = """create table bundle_with_documents (
  id integer primary key autoincrement,
  scope text not null,
  codec text not null check (codec in ('zlib', 'lzma')),
  documents text not null,
  packed blob not null
) strict
"""
_COPY_BUNDLE = """
insert into bundle_with_documents select id, scope, codec, ?, packed from bundle where id = ?
"""
_MOVE_DOCUMENTS = (
    """create table shared_document (
  digest text primary key check (length(digest) = 64),
  bundle integer not null
) strict, without rowid
""",
    """insert into shared_document (digest, bundle)
  select d.digest, d.bundle from evidence_document d join bundle b on b.id = d.bundle where d.shared = 1 or b.scope = ''
""",
    # Numbers are never used twice: what is new is copied by its number.
    "delete from sqlite_sequence where name = 'bundle_with_documents'",
    """insert into sqlite_sequence (name, seq)
  select 'bundle_with_documents', seq from sqlite_sequence where name = 'bundle'
""",
    "drop table evidence_document",
    "drop table bundle",
    "alter table bundle_with_documents rename to bundle",
    *EVIDENCE_INDEXES[2:],
)


@EVIDENCE_MIGRATIONS(name="0003_bundle_documents")
def name_documents_in_bundles(database: Database) -> None:
    """Let each bundle name its documents, instead of an index of all. Each is read once: 0.3 ms a forecast."""
    database.execute(_NEW_BUNDLE_TABLE)
    for bundle, codec, packed in database.execute("select id, codec, packed from bundle order by id"):
        database.execute(_COPY_BUNDLE, [_indexed_documents(database, codec, packed), bundle])
    for statement in _MOVE_DOCUMENTS:
        database.execute(statement)


def _indexed_documents(database: Database, codec: str, packed: bytes) -> str:
    """Return how a bundle of before names its documents; one that cannot be read has none, and a check reports it."""
    try:
        digests = [sha256_hex(content) for content in bundle_contents(codec, packed)]
    except ValueError:
        return "[]"
    found = database.execute(
        "select digest, media_type from evidence_document where digest in (select value from json_each(?))",
        [to_json_list(digests)],
    )
    media_types = dict(found.fetchall())
    return format_documents((digest, media_types.get(digest, "")) for digest in digests)


_BUNDLES_OF_SCOPE = f"""
select {{columns}} from bundle where scope = :scope and {IS_PLACED}
union all
select {{columns}} from bundle where id in (select id from bundle where {IS_ALONE} and scope = :scope)
order by id
"""  # noqa: S608 - made of constants
BUNDLES_OF_SCOPE = _BUNDLES_OF_SCOPE.format(columns="id, scope, codec, documents, packed")
_DOCUMENTS_OF_SCOPE = _BUNDLES_OF_SCOPE.format(columns="id, documents")
SCOPES = f"""
select scope from bundle where scope <> '' and {IS_PLACED} union select scope from bundle where {IS_ALONE}
order by scope
"""  # noqa: S608 - made of constants


# Begins a query of all documents. SQLite does not trust a view with functions of JSON.
WITH_DOCUMENTS = """
with evidence_document (scope, digest, bundle) as (
  select b.scope, json_extract(d.value, '$[0]'), b.id from bundle b, json_each(b.documents) d)
"""


def evidence_path(ledger: Path) -> Path:
    """Return the path of the evidence of a ledger."""
    return ledger.with_name(f"{ledger.stem}-evidence{ledger.suffix}")


_INSERT_BUNDLE = "insert into bundle (scope, codec, documents, packed) values (?, ?, ?, ?)"
_SHARE_DOCUMENT = """
insert into shared_document (digest, bundle) values (?, ?) on conflict do update set bundle = excluded.bundle
"""
_FIND_SHARED = """
select b.id, b.documents from shared_document s join bundle b on b.id = s.bundle where s.digest = ?
"""
_SELECT_BUNDLE = "select codec, packed from bundle where id = ?"


def format_documents(documents: Iterable[tuple[str, str]]) -> str:
    """Return how a bundle names its documents, in order: digest and media type of each, as JSON."""
    return json.dumps(list(documents), separators=(",", ":"))


def put_evidence(database: Database, document: PackedDocument, scope: str) -> None:
    """Write a compressed document of a forecast (its id) within the caller's transaction.

    A document that is written twice is stored twice until the forecast is packed. ``NO_SCOPE`` is for what is never
    removed: that is stored once, and found in every scope.
    """
    execute, is_shared = database.conn.execute, scope == NO_SCOPE
    if is_shared and execute(_FIND_SHARED, (document.digest,)).fetchone() is not None:
        return
    names = format_documents([(document.digest, document.media_type)])
    bundle = execute(_INSERT_BUNDLE, (scope, ALONE, names, document.packed)).lastrowid
    if is_shared:
        execute(_SHARE_DOCUMENT, (document.digest, bundle))


class EvidenceReader:
    """Reads documents of one scope within one snapshot; each bundle is decompressed once."""

    def __init__(self, database: Database | sqlite3.Connection, scope: str) -> None:
        """Read with this connection what a forecast, the backtest of a question, or several may use."""
        self._database = database
        self._scope = scope
        self._places: dict[str, DocumentPlace] | None = None
        self._contents: tuple[int, list[bytes]] | None = None

    def read(self, digest: str) -> StoredDocument:
        """Return a document; raises NotFoundError, and StoreError for a damaged one."""
        place = self._find(digest)
        if place is None:
            message = f"no document {digest} in the ledger"
            raise NotFoundError(message)
        try:
            content = self._bundle_contents(place.bundle)[place.number]
        except (ValueError, TypeError, IndexError) as error:
            message = f"document {digest} is damaged ({error}); restore a backup"
            raise StoreError(message) from error
        if sha256_hex(content) != digest:
            message = f"document {digest} is damaged (its content has another digest); restore a backup"
            raise StoreError(message)
        return StoredDocument(digest=digest, media_type=place.media_type, content=content)

    def text(self, digest: str) -> str:
        """Return the text of a document; raises as ``read``."""
        return self.read(digest).content.decode()

    def has(self, digest: str) -> bool:
        """Return whether a document is there, without reading it."""
        return self._find(digest) is not None

    def _find(self, digest: str) -> "DocumentPlace | None":
        if self._places is None:
            own = self._scope != NO_SCOPE
            rows = self._database.execute(_DOCUMENTS_OF_SCOPE, {"scope": self._scope}).fetchall() if own else ()
            self._places = _document_places(rows)
        if digest not in self._places:
            self._places |= _document_places(self._database.execute(_FIND_SHARED, (digest,)).fetchall())
        return self._places.get(digest)

    def _bundle_contents(self, bundle: int) -> list[bytes]:
        if self._contents is None or self._contents[0] != bundle:
            codec, packed = self._database.execute(_SELECT_BUNDLE, (bundle,)).fetchone()
            self._contents = bundle, bundle_contents(codec, packed)
        return self._contents[1]


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """Where a document is: its bundle, and its number in that, from 0."""

    bundle: int
    number: int
    media_type: str


def _document_places(bundles: Sequence[tuple[int, str]]) -> dict[str, DocumentPlace]:
    return {
        digest: DocumentPlace(bundle, number, media_type)
        for bundle, documents in bundles
        for number, (digest, media_type) in enumerate(json.loads(documents))
    }


def pack_bundle(contents: Sequence[bytes]) -> bytes:
    """Compress contents together; takes about 0.01 s per MB.

    The payload begins with a line of the sizes, as JSON.
    """
    head = f"{json.dumps([len(content) for content in contents])}\n".encode()
    return compress_bytes(b"".join([head, *contents]), level=THOROUGH_LEVEL)


def bundle_contents(codec: str, packed: bytes) -> list[bytes]:
    """Return the content of each document in a bundle; raises ValueError for a damaged one."""
    payload = decompress_bytes(packed)
    if codec == ALONE:
        return [payload]
    head, _, _ = payload.partition(b"\n")
    contents, place = [], len(head) + 1
    for size in json.loads(head):
        contents.append(payload[place : place + size])
        place += size
    return contents


def unpack_bundle(bundle: int, codec: str, documents: str, packed: bytes) -> list[tuple[str, str, bytes]]:
    """Return digest, media type and content of each document in a bundle; raises StoreError for a damaged one."""
    names = json.loads(documents)
    try:
        contents = bundle_contents(codec, packed)
    except ValueError as error:
        message = f"bundle {bundle} of the evidence is damaged ({error}); look with: foxcast db check"
        raise StoreError(message) from error
    if [digest for digest, _ in names] != [sha256_hex(content) for content in contents]:
        message = f"bundle {bundle} of the evidence holds other documents than it names; look with: foxcast db check"
        raise StoreError(message)
    return [(digest, media_type, content) for (digest, media_type), content in zip(names, contents, strict=True)]


# A document that so many forecasts in turn have stored is stored once for all, and never removed.
SHARED_AFTER = 3


@dataclass(frozen=True, slots=True)
class StoredBy:
    """Who stored a document in this process: the last scope, and how many in turn, up to ``SHARED_AFTER``."""

    scope: str | None = None
    scopes: int = 0

    def has_stored(self, scope: str) -> bool:
        """Return whether it stays stored for a scope."""
        return self.scope == scope or self.scopes >= SHARED_AFTER

    def next_scope(self, scope: str) -> str:
        """Return the scope under which the next one stores it."""
        return NO_SCOPE if self.scopes + 1 >= SHARED_AFTER else scope

    def after(self, scope: str, stored_under: str) -> "StoredBy":
        """Return what is true after a scope has stored it, under its own name or for all."""
        # Scopes that stored it at once may all have used their own names.
        return StoredBy(scope, SHARED_AFTER if stored_under == NO_SCOPE else min(self.scopes + 1, SHARED_AFTER - 1))


NOT_STORED = StoredBy()


@dataclass(frozen=True, slots=True)
class StoredDocuments:
    """Who stored the last ``limit`` documents in this process, by digest."""

    limit: int
    _by_digest: dict[str, StoredBy] = field(default_factory=dict)

    def get(self, digest: str) -> StoredBy:
        """Return who stored a document."""
        return self._by_digest.get(digest, NOT_STORED)

    def add(self, digest: str, scope: str, stored_under: str) -> None:
        """Note that a scope has stored a document, under its own name or for all."""
        self._by_digest[digest] = self._by_digest.pop(digest, NOT_STORED).after(scope, stored_under)
        if len(self._by_digest) > self.limit:
            del self._by_digest[next(iter(self._by_digest))]


@dataclass(frozen=True, slots=True)
class DocumentStore:
    """The content-addressed store of the evidence.

    ``scope`` is the id of the forecast that a document belongs to.
    """

    writer: TransactionRunner
    readers: TransactionRunner
    # The prompts of all forecasts are the same.
    _stored: StoredDocuments = field(default_factory=lambda: StoredDocuments(256))

    async def put(self, content: bytes, media_type: str, *, scope: str = NO_SCOPE) -> str:
        """Store the content and return its SHA-256 in hex; storing the same content again changes nothing."""
        digest = sha256_hex(content)
        if self._stored.get(digest).has_stored(scope):
            return digest
        content = redact_known_secret_bytes(content)
        quick = len(content) <= MAX_INLINE_BYTES
        document = (
            pack_evidence(content, media_type) if quick else await asyncio.to_thread(pack_evidence, content, media_type)
        )
        under = self._stored.get(document.digest).next_scope(scope)
        await self.put_packed(document, scope=under)
        self._stored.add(document.digest, scope, under)
        return document.digest

    async def put_packed(self, document: PackedDocument, *, scope: str) -> None:
        """Store a compressed document."""
        await self.writer.run(lambda database: put_evidence(database, document, scope))

    async def get(self, digest: str, *, scope: str = NO_SCOPE) -> StoredDocument:
        """Return a document of a scope; raises NotFoundError, and StoreError for a damaged one."""
        found = await self.read_known([digest], scope=scope)
        if digest not in found:
            message = f"no document {digest} in the ledger"
            raise NotFoundError(message)
        return found[digest]

    async def read_known(self, digests: Collection[str], *, scope: str = NO_SCOPE) -> Mapping[str, StoredDocument]:
        """Return the known documents of a scope among these digests; raises StoreError for a damaged one."""
        return await self.readers.run(lambda database: _read_known(database, digests, scope))


def _read_known(database: Database, digests: Collection[str], scope: str) -> dict[str, StoredDocument]:
    reader, found = EvidenceReader(database, scope), {}
    for digest in digests:
        if reader.has(digest):
            found[digest] = reader.read(digest)
    return found
