from datetime import UTC, datetime
from pathlib import Path

from bot.app import LEDGER_FILE
from bot.store.documents import pack
from bot.store.ledger import open_ledger
from tests.ledgers import telltales

SECRET = "a-key-that-nobody-may-see"  # noqa: S105


async def test_a_secret_is_found_in_a_file_and_in_a_packed_document(tmp_path: Path) -> None:
    document = pack(f"<p>{SECRET}</p>".encode(), "text/html")
    async with open_ledger(tmp_path / LEDGER_FILE, now=datetime(2026, 3, 1, tzinfo=UTC)) as ledger:
        await ledger.documents.put(b"<p>nothing to see</p>", "text/html")
        assert list(telltales(tmp_path, [SECRET])) == []
        await ledger.documents.put_packed([document])
        assert list(telltales(tmp_path, [SECRET])) == [
            f"I8: a secret is in the document {document.digest} of {LEDGER_FILE}"
        ]
    (tmp_path / "log.txt").write_text(f"key={SECRET}", encoding="utf-8")
    assert "I8: a secret is in log.txt" in set(telltales(tmp_path, [SECRET]))
