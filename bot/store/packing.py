"""Text on its way into the documents and back: with as few changes of thread as may be, for each takes 0.1 ms."""

import asyncio
from collections.abc import Collection, Mapping

from sqlite_utils import Database

from bot.errors import NotFound
from bot.store.codec import clean
from bot.store.documents import PACKED_AT_ONCE, Document, Documents, Packed, get, pack

MEDIA_TYPE = "application/json"


async def packed(text: str) -> Packed:
    """Return JSON text as a document ready to be written; lone surrogates become U+FFFD."""
    content = clean(text).encode()
    if len(content) <= PACKED_AT_ONCE:
        return pack(content, MEDIA_TYPE)
    return await asyncio.to_thread(pack, content, MEDIA_TYPE)


async def unpacked(documents: Documents, digests: Collection[str]) -> Mapping[str, Document]:
    """Return several documents by digest, without those that there are not; raises StoreError for a damaged one."""
    return await documents.readers.run(lambda database: _unpacked(database, digests))


def _unpacked(database: Database, digests: Collection[str]) -> dict[str, Document]:
    found = {}
    for digest in digests:
        try:
            found[digest] = get(database, digest)
        except NotFound:
            continue
    return found
