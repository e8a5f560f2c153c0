"""An empty ledger to copy: making one takes three times the CPU of opening a copy, and more than most tests."""

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from bot.store.database import DISK_RESERVE_BYTES
from bot.store.evidence import evidence_path
from bot.store.ledger import BALLAST_FILE, LEDGER_FILE, Ledger, open_ledger
from bot.store.private_files import create_private_file


@asynccontextmanager
async def open_blank_ledger(path: Path, *, now: datetime) -> AsyncIterator[Ledger]:
    """Open a ledger as ``open_ledger`` does; where there is none yet, it is a copy of an empty one."""
    put_blank_ledger(path)
    async with open_ledger(path, now=now) as ledger:
        yield ledger


def put_blank_ledger(path: Path) -> None:
    """Put an empty ledger where a test will open it, unless there is one; its folder may be missing yet."""
    if path.exists():
        return
    for part, content in zip((path, evidence_path(path)), _blank(), strict=True):
        create_private_file(part)
        part.write_bytes(content)
    # Writing megabytes to the disk takes as long as all else: a file of that size without content takes their place.
    ballast = path.parent / BALLAST_FILE
    ballast.touch(mode=0o600)
    os.truncate(ballast, DISK_RESERVE_BYTES)


@cache
def _blank() -> tuple[bytes, bytes]:
    """The files of the ledger and of its evidence, made once in each process."""
    # In a thread of its own, since a caller may have a running event loop.
    with TemporaryDirectory(prefix="foxcast-blank-") as folder, ThreadPoolExecutor(1) as thread:
        path = Path(folder) / LEDGER_FILE
        thread.submit(asyncio.run, _make(path)).result()
        return path.read_bytes(), evidence_path(path).read_bytes()


async def _make(path: Path) -> None:
    async with open_ledger(path, now=datetime(2026, 1, 1, tzinfo=UTC)):
        pass
