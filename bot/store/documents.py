"""Documents by the digest of their content: whatever a forecast rests on, kept once, compressed, never changed."""

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlite_utils import Database

from bot.errors import NotFound, StoreError
from bot.ids import digest as digest_of
from bot.redact import hide_bytes
from bot.store.runs import Runs

PUT = "insert into document (digest, media_type, size, packed) values (?, ?, ?, ?) on conflict do nothing"
GET = "select media_type, size, packed from document where digest = ?"
MISSING = "select value from json_each(?) where value not in (select digest from document)"

# To change threads and back takes 0.1 ms, as compressing 8 to 16 kB does; above that the loop would stand still.
PACKED_AT_ONCE = 16 * 1024
# As powers of two; 8 does not work in all versions of the library.
_LEAST_WINDOW = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Content with its address and its media type, as first put."""

    digest: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Packed:
    """A document ready to be written: compressed away from the writing thread."""

    digest: str
    media_type: str
    size: int
    packed: bytes


@dataclass(frozen=True, slots=True)
class Documents:
    """The content-addressed store."""

    writer: Runs
    readers: Runs

    async def put(self, content: bytes, media_type: str) -> str:
        """Keep the content and return its SHA-256 in hex; the same content again costs nothing and changes nothing."""
        content = hide_bytes(content)
        quick = len(content) <= PACKED_AT_ONCE
        document = pack(content, media_type) if quick else await asyncio.to_thread(pack, content, media_type)
        await self.writer.run(lambda database: put(database, document))
        return document.digest

    async def put_packed(self, documents: Sequence[Packed]) -> None:
        """Keep documents that are packed already, all in one write."""
        await self.writer.run(lambda database: _put_all(database, documents))

    async def get(self, digest: str) -> Document:
        """Return a document; raises NotFound, and StoreError if what is stored is not what was put."""
        return await self.readers.run(lambda database: get(database, digest))


def pack(content: bytes, media_type: str) -> Packed:
    """Compress the content; takes about 20 ms per MB. A tenth smaller would take twice as long."""
    # A window as large as the content: to clear the largest one takes longer than to compress a few kilobytes.
    window = min(zlib.MAX_WBITS, max(_LEAST_WINDOW, len(content).bit_length()))
    packer = zlib.compressobj(level=1, wbits=window, memLevel=min(zlib.DEF_MEM_LEVEL, window - 6))
    return Packed(digest_of(content), media_type, len(content), packer.compress(content) + packer.flush())


def put(database: Database, document: Packed) -> None:
    """Write a packed document within the caller's transaction."""
    database.execute(PUT, [document.digest, document.media_type, document.size, document.packed])


def _put_all(database: Database, documents: Sequence[Packed]) -> None:
    for document in documents:
        put(database, document)


def get(database: Database, digest: str) -> Document:
    """Read a document within the caller's snapshot; raises NotFound and StoreError."""
    row = database.execute(GET, [digest]).fetchone()
    if row is None:
        message = f"no document {digest} in the ledger"
        raise NotFound(message)
    media_type, size, packed = row
    try:
        content = zlib.decompress(packed, bufsize=max(size, 1))
    except zlib.error as error:
        message = f"document {digest} is damaged ({error}); restore a backup"
        raise StoreError(message) from error
    if digest_of(content) != digest:
        message = f"document {digest} is damaged (its content has another digest); restore a backup"
        raise StoreError(message)
    return Document(digest=digest, media_type=media_type, content=content)
