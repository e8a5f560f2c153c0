from datetime import UTC, datetime
from pathlib import Path

from bot.store.documents import compress_document
from bot.store.ledger import LEDGER_FILE, open_ledger
from tests.ledger_checks import files_with_secrets

SECRET = "a-key-that-nobody-may-see"  # noqa: S105


async def test_a_secret_is_found_in_a_file_and_in_a_packed_document(tmp_path: Path) -> None:
    # Long enough that the compressed bytes do not show it.
    document = compress_document(f"<p>{SECRET} {' '.join(map(str, range(500)))}</p>".encode(), "text/html")
    async with open_ledger(tmp_path / LEDGER_FILE, now=datetime(2026, 3, 1, tzinfo=UTC)) as ledger:
        await ledger.documents.put(b"<p>nothing to see</p>", "text/html")
        assert list(files_with_secrets(tmp_path, [SECRET])) == []
        await ledger.documents.put_packed(document, scope="forecast-1")
        assert list(files_with_secrets(tmp_path, [SECRET])) == [
            f"I8: a secret is in the document {document.digest} of {LEDGER_FILE}"
        ]
    (tmp_path / "log.txt").write_text(f"key={SECRET}", encoding="utf-8")
    assert "I8: a secret is in log.txt" in set(files_with_secrets(tmp_path, [SECRET]))
