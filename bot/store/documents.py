"""Documents by the digest of their content, stored once, compressed, never changed.

Those of the ledger are small and decide something: setups, fitted parameters, market states, sealed requests. Those of
``bot.store.evidence`` are large.
"""

import asyncio

from sqlite_utils import Database

from bot.core.errors import NotFoundError, StoreError
from bot.core.ids import sha256_hex as digest_of
from bot.core.light_dataclass import dataclass
from bot.store.compression import FAST_LEVEL, PLAIN_MARK, compress_bytes, decompress_bytes
from bot.store.serialization import sanitize_text

_INSERT_DOCUMENT = "insert into document (digest, media_type, size, packed) values (?, ?, ?, ?) on conflict do nothing"
_SELECT_DOCUMENT = "select media_type, packed from document where digest = ?"
MISSING_DOCUMENTS = "select value from json_each(?) where value not in (select digest from document)"
# Switching threads takes 0.1 ms, like compressing 12 kB. Larger content blocks the event loop, at this size for 0.3 ms.
MAX_INLINE_BYTES = 128 * 1024
# Up to here compressing takes longer than writing the bytes that it saves.
_MAX_PLAIN_BYTES = 2 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """Content with its digest and the media type under which it was first stored."""

    digest: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class PackedDocument:
    """A document ready to be written; long content was compressed outside the writer thread."""

    digest: str
    media_type: str
    size: int
    packed: bytes


def compress_document(content: bytes, media_type: str) -> PackedDocument:
    """Compress the content; takes about 5 ms per MB."""
    return PackedDocument(digest_of(content), media_type, len(content), compress_bytes(content, level=FAST_LEVEL))


def pack_evidence(content: bytes, media_type: str, digest: str | None = None) -> PackedDocument:
    """Return a document of the evidence, compressed if it is long: all of a forecast is compressed together later.

    ``digest`` is that of the content, if the caller knows it.
    """
    size = len(content)
    packed = PLAIN_MARK + content if size <= _MAX_PLAIN_BYTES else compress_bytes(content, level=FAST_LEVEL)
    return PackedDocument(digest or digest_of(content), media_type, size, packed)


def put_document(database: Database, document: PackedDocument) -> None:
    """Write a compressed document to the ledger within the caller's transaction."""
    database.execute(_INSERT_DOCUMENT, [document.digest, document.media_type, document.size, document.packed])


def get_document(database: Database, digest: str) -> StoredDocument:
    """Read a document of the ledger within the caller's snapshot; raises NotFoundError and StoreError."""
    row = database.execute(_SELECT_DOCUMENT, [digest]).fetchone()
    if row is None:
        message = f"no document {digest} in the ledger"
        raise NotFoundError(message)
    media_type, packed = row
    try:
        content = decompress_bytes(packed)
    except ValueError as error:
        message = f"document {digest} is damaged ({error}); restore a backup"
        raise StoreError(message) from error
    if digest_of(content) != digest:
        message = f"document {digest} is damaged (its content has another digest); restore a backup"
        raise StoreError(message)
    return StoredDocument(digest=digest, media_type=media_type, content=content)


JSON_MEDIA_TYPE = "application/json"


def is_packed_inline(text: str) -> bool:
    """Return whether ``pack_json`` packs the text at once, without waiting for a thread."""
    return len(text) * (1 if text.isascii() else 4) <= MAX_INLINE_BYTES


async def pack_json(text: str) -> PackedDocument:
    """Return JSON text as a document of the evidence; lone surrogates become U+FFFD."""
    return await pack_written_json(sanitize_text(text))


async def pack_written_json(text: str, digest: str | None = None) -> PackedDocument:
    """Return what ``JsonSerializer`` wrote as a document of the evidence; ``digest`` as for ``pack_evidence``."""
    if is_packed_inline(text):
        return pack_evidence(text.encode(), JSON_MEDIA_TYPE, digest)
    return await asyncio.to_thread(pack_evidence, text.encode(), JSON_MEDIA_TYPE, digest)
