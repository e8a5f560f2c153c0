import hashlib

import pytest

from bot.core.errors import StoreError
from tests.unit.store.conftest import LedgerFixture


async def test_several_documents_come_back_at_once_without_those_that_there_are_not(
    ledger_fixture: LedgerFixture,
) -> None:
    contents = (b"one", b"", b"x" * 100_000)
    for content in contents:
        await ledger_fixture.ledger.documents.put(content, "text/plain")
    names = [hashlib.sha256(content).hexdigest() for content in contents]
    found = await ledger_fixture.ledger.documents.read_known([*names, "0" * 64, names[0]])
    assert {name: document.content for name, document in found.items()} == dict(zip(names, contents, strict=True))
    assert await ledger_fixture.ledger.documents.read_known([]) == {}


async def test_a_damaged_document_among_several_is_told(ledger_fixture: LedgerFixture) -> None:
    names = [await ledger_fixture.ledger.documents.put(content, "text/plain") for content in (b"one", b"two")]
    ledger_fixture.damage_documents(b"\0", names[1])
    assert (await ledger_fixture.ledger.documents.read_known(names[:1]))[names[0]].content == b"one"
    with pytest.raises(StoreError, match="damaged"):
        await ledger_fixture.ledger.documents.read_known(names)
