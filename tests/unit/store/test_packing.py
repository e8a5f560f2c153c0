import hashlib
import sqlite3

import pytest

from bot.errors import StoreError
from bot.store.packing import unpacked
from tests.unit.store.conftest import Scribe


async def test_several_documents_come_back_at_once_without_those_that_there_are_not(scribe: Scribe) -> None:
    contents = (b"one", b"", b"x" * 100_000)
    for content in contents:
        await scribe.ledger.documents.put(content, "text/plain")
    names = [hashlib.sha256(content).hexdigest() for content in contents]
    found = await unpacked(scribe.ledger.documents, [*names, "0" * 64, names[0]])
    assert {name: document.content for name, document in found.items()} == dict(zip(names, contents, strict=True))
    assert await unpacked(scribe.ledger.documents, []) == {}


async def test_a_damaged_document_among_several_is_told(scribe: Scribe) -> None:
    names = [await scribe.ledger.documents.put(content, "text/plain") for content in (b"one", b"two")]
    connection = sqlite3.connect(scribe.path)
    with connection:
        connection.execute("update document set packed = x'00' where digest = ?", [names[1]])
    connection.close()
    assert (await unpacked(scribe.ledger.documents, names[:1]))[names[0]].content == b"one"
    with pytest.raises(StoreError, match="damaged"):
        await unpacked(scribe.ledger.documents, names)
