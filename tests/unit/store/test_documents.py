import hashlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.errors import NotFoundError, StoreError
from bot.store.compression import decompress_bytes
from bot.store.ledger import open_ledger
from tests.unit.store.conftest import NOON, LedgerFixture

# RFC 8878, section 3.1.1.
ZSTANDARD_MAGIC = (0xFD2FB528).to_bytes(4, "little")


async def test_a_document_is_found_by_the_sha256_of_its_content(ledger_fixture: LedgerFixture) -> None:
    digest = await ledger_fixture.ledger.documents.put(b"abc", "text/plain")
    # FIPS 180-2, appendix B.1.
    assert digest == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    document = await ledger_fixture.ledger.documents.get(digest)
    assert (document.content, document.media_type) == (b"abc", "text/plain")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(content=st.binary(max_size=2000))
async def test_any_content_comes_back_as_it_was(ledger_fixture: LedgerFixture, content: bytes) -> None:
    digest = await ledger_fixture.ledger.documents.put(content, "application/octet-stream")
    assert (await ledger_fixture.ledger.documents.get(digest)).content == content


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 8191, 8192, 32_768, 131_072, 131_073])
@pytest.mark.parametrize("period", [1, 97, 251 * 241])
async def test_content_of_any_size_comes_back_as_it_was(ledger_fixture: LedgerFixture, size: int, period: int) -> None:
    content = (bytes(n * n % 251 for n in range(period)) * (size // period + 1))[:size]
    digest = await ledger_fixture.ledger.documents.put(content, "application/octet-stream")
    assert (await ledger_fixture.ledger.documents.get(digest)).content == content
    ((packed,),) = ledger_fixture.rows("select packed from bundle")
    assert decompress_bytes(packed) == content
    if size >= 8191:
        # Shorter content may be stored as it is.
        assert packed.startswith(ZSTANDARD_MAGIC)


async def test_the_same_content_is_kept_once_and_compressed(ledger_fixture: LedgerFixture) -> None:
    for _ in range(2):
        await ledger_fixture.ledger.documents.put(b"rain " * 10_000, "text/plain")
    ((documents, packed),) = ledger_fixture.rows("select documents, length(packed) from bundle")
    assert json.loads(documents) == [[hashlib.sha256(b"rain " * 10_000).hexdigest(), "text/plain"]]
    assert packed < 1_000


async def test_an_unknown_digest_is_not_found(ledger_fixture: LedgerFixture) -> None:
    with pytest.raises(NotFoundError, match="no document 00"):
        await ledger_fixture.ledger.documents.get("00")


@pytest.mark.parametrize("packed", [b"no zlib", bytes.fromhex("789c030000000001"), bytes.fromhex("28b52ffd04000900")])
async def test_damage_is_noticed_when_a_document_is_read(ledger_fixture: LedgerFixture, packed: bytes) -> None:
    digest = await ledger_fixture.ledger.documents.put(b"abc", "text/plain")
    ledger_fixture.damage_documents(packed)
    with pytest.raises(StoreError, match="damaged"):
        await ledger_fixture.ledger.documents.get(digest)


async def test_documents_outlive_the_ledger_object(ledger_fixture: LedgerFixture) -> None:
    digest = await ledger_fixture.ledger.documents.put(b"abc", "text/plain")
    async with open_ledger(ledger_fixture.path.parent / "other.sqlite", now=NOON) as other:
        with pytest.raises(NotFoundError):
            await other.documents.get(digest)
