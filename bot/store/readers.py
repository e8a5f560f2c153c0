"""A few connections that read, each query in one short snapshot and off the event loop.

A snapshot held open keeps the write-ahead log from being emptied: a reader that stayed while 20,000 rows were written
grew it to 125 MB. So every read ends, if need be by force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlite_utils import Database

from bot.errors import StoreError
from bot.store.database import open_reader, translated

T = TypeVar("T")


class Readers:
    """``count`` read-only connections for queries of at most ``limit_s`` seconds each.

    Open it with ``async with``, after the ``Writer`` of the same file; it belongs to the event loop it was opened in.
    """

    def __init__(self, path: Path, *, count: int = 4, limit_s: float = 30.0) -> None:
        self._path = path
        self._count = count
        self._limit_s = limit_s
        self._threads: ThreadPoolExecutor | None = None
        self._idle: asyncio.LifoQueue[Database] = asyncio.LifoQueue()
        self._opened = 0

    async def __aenter__(self) -> Self:
        """Open the connections. Raises StoreError."""
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="ledger-reader")
        loop = asyncio.get_running_loop()
        try:
            for _ in range(self._count):
                self._idle.put_nowait(await loop.run_in_executor(self._threads, open_reader, self._path))
                self._opened += 1
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close, once the running queries have ended."""
        await self.close()

    async def run(self, query: Callable[[Database], T]) -> T:
        """Return what ``query`` makes of one consistent snapshot; it must return values, not cursors or generators.

        Raises what ``query`` raises, and StoreError for a disk that cannot be read or a query over the time limit. The
        query of a cancelled caller is interrupted.
        """
        threads = self._threads
        if threads is None:
            message = f"{self._path}: the ledger is closed"
            raise StoreError(message)
        database = await self._idle.get()
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(threads, _read, database, query, self._path)
        limit = loop.call_later(self._limit_s, database.conn.interrupt)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            database.conn.interrupt()
            raise
        finally:
            limit.cancel()
            # A cancelled caller leaves before its thread does: only then is the connection at rest.
            reading.add_done_callback(partial(self._give_back, database))

    async def close(self) -> None:
        """Wait for running queries and close the connections; closing twice is closing once."""
        threads, self._threads = self._threads, None
        if threads is None:
            return
        # Who waits for a connection is served first.
        for _ in range(self._opened):
            (await self._idle.get()).close()
        threads.shutdown()

    def _give_back(self, database: Database, reading: asyncio.Future[Any]) -> None:
        self._idle.put_nowait(database)
        reading.exception()  # after the caller was cancelled an error is nobody's concern


def _read(database: Database, query: Callable[[Database], T], path: Path) -> T:
    with translated(path):
        database.conn.execute("begin")
        try:
            return query(database)
        finally:
            database.rollback()
