"""A file whose only use is to be deleted: room for the last words of a program on a full disk.

With a write-ahead log nothing at all can be written to a full disk, not even a deletion. Giving up 8 MB lets the ledger
record that it halted, and why.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from bot.store.database import make_private, sync, translated

BALLAST_BYTES = 8 * 1024 * 1024


class Ballast:
    """A file of ``size`` bytes that takes up real room until it is released."""

    def __init__(self, path: Path, *, size: int = BALLAST_BYTES) -> None:
        self._path = path
        self._size = size

    @property
    def held(self) -> bool:
        """Whether the file is there in full."""
        return self._path.exists() and self._path.stat().st_size == self._size

    def hold(self) -> None:
        """Take the room, if it is not taken. Raises StoreError, and takes none, where the disk has not enough."""
        if self.held:
            return
        with translated(self._path):
            try:
                make_private(self._path)
                self._path.write_bytes(_incompressible(self._size))
                sync(self._path)
            except OSError:
                self._path.unlink(missing_ok=True)
                raise

    def release(self) -> None:
        """Give the room back; releasing twice is releasing once. Raises StoreError."""
        with translated(self._path):
            self._path.unlink(missing_ok=True)


def _incompressible(size: int) -> bytes:
    # A compressing file system would store zeros in no room at all.
    return hashlib.shake_128(b"ballast").digest(size)
