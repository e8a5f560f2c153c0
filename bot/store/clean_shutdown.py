"""The record of a clean shutdown: a ledger that nobody touched since it was closed need not be read whole at a start.

The record says which file was closed, by inode, size, time of the last change and the first bytes of the file. A start
deletes it, so that it holds for one start and a program that is killed leaves none. Another file in the place of the
ledger, a copy of it, and any write to it since do not match.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from bot.core.errors import StoreError
from bot.store.private_files import read_private_file, replace_private_file

RECORD_SUFFIX = ".closed"
# The header of a database, in which SQLite counts pages and changes of the schema.
_HEADER_BYTES = 100
_MAX_RECORD_BYTES = 1000


def clean_shutdown_path(ledger: Path) -> Path:
    """Return where the record of a ledger is."""
    return ledger.with_name(f"{ledger.name}{RECORD_SUFFIX}")


def record_clean_shutdown(ledger: Path) -> None:
    """Record how the ledger was left; call it once all its connections are closed. Raises OSError and StoreError."""
    replace_private_file(clean_shutdown_path(ledger), _describe_file(ledger))


def take_clean_shutdown(ledger: Path) -> bool:
    """Delete the record, and return whether the ledger is still the file that was closed."""
    path = clean_shutdown_path(ledger)
    try:
        recorded = read_private_file(path, _MAX_RECORD_BYTES)
        path.unlink()
        return recorded == _describe_file(ledger) and not _has_pending_log(ledger)
    except (OSError, StoreError):
        return False


def _describe_file(ledger: Path) -> bytes:
    found = ledger.stat()
    with ledger.open("rb") as file:
        header = hashlib.sha256(file.read(_HEADER_BYTES)).hexdigest()
    values = {"device": found.st_dev, "inode": found.st_ino, "size": found.st_size, "changed": found.st_mtime_ns}
    return json.dumps({**values, "header": header}).encode()


def _has_pending_log(ledger: Path) -> bool:
    log = ledger.with_name(f"{ledger.name}-wal")
    return log.exists() and log.stat().st_size > 0
