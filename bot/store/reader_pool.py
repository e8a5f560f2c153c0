"""A pool of read-only connections: queries run in threads, or on the event loop if an index finds few rows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlite_utils import Database

from bot.core.clock import yield_to_event_loop
from bot.core.errors import StoreError
from bot.store.connections import StatementValues, release_cursors
from bot.store.database import (
    is_busy_or_interrupted,
    open_reader,
    open_reader_with,
    raise_explained,
)

QueryResultT = TypeVar("QueryResultT")
# What a lookup may take: about 5 ms of SQLite's virtual machine, counted in blocks of its instructions.
_LOOKUP_BLOCK = 1_000
MAX_LOOKUP_BLOCKS = 100
# The other tasks of the loop get a turn after so many lookups in a row.
LOOKUPS_PER_TURN = 32


class ReaderPool:
    """One read-only connection for lookups, and up to ``count`` in threads for queries of at most ``limit_s`` seconds.

    A connection keeps the whole schema in memory, so it is opened when all others are in use. Open the pool with
    ``async with``, after the ``WriterThread`` of the same file; it belongs to the event loop in which it was opened.
    ``attached`` is a second database that the queries read too.
    """

    def __init__(self, path: Path, *, attached: Path | None = None, count: int = 4, limit_s: float = 30.0) -> None:
        self._path = path
        self._attached = attached
        self._count = count
        self._limit_s = limit_s
        self._threads: ThreadPoolExecutor | None = None
        self._idle: asyncio.LifoQueue[Database] = asyncio.LifoQueue()
        self._opened = 0
        self._openings: set[asyncio.Future[Database]] = set()
        self._own: Database | None = None
        self._lookups = self._lookup_blocks = 0

    async def __aenter__(self) -> Self:
        """Open the first connections. Raises StoreError."""
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="ledger-reader")
        try:
            self._own = await asyncio.get_running_loop().run_in_executor(self._threads, self._open_own)
            self._idle.put_nowait(await self._take(self._threads))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close, once the running queries have ended."""
        await self.close()

    async def run(self, query: Callable[[Database], QueryResultT]) -> QueryResultT:
        """Return the result of ``query`` on one consistent snapshot; it must return values, not cursors or generators.

        Raises the errors of ``query``, and StoreError for a disk that cannot be read and for a query over the time
        limit. Cancelling the caller interrupts its query.
        """
        threads = self._threads
        if threads is None:
            message = f"{self._path}: the ledger is closed"
            raise StoreError(message)
        database = await self._take(threads)
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(threads, _run_in_snapshot, database, query, self._path)
        limit = loop.call_later(self._limit_s, database.conn.interrupt)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            database.conn.interrupt()
            raise
        finally:
            limit.cancel()
            # A cancelled caller returns before its thread: the connection is free only when the thread is done.
            reading.add_done_callback(partial(self._give_back, database))

    async def lookup(self, query: Callable[[Database], QueryResultT]) -> QueryResultT:
        """Return the result of a query that finds few rows by an index, on the event loop's own connection.

        A query of 5 microseconds costs 100 in a thread. Snapshot and errors are those of ``run``. The loop stands
        still meanwhile, so one that takes more than MAX_LOOKUP_BLOCKS, or finds the database busy, is stopped and runs
        again in a thread; what Python does with the rows is not bounded, and must be little.
        """
        database, is_turn_over = self._begin_lookup()
        if is_turn_over:
            await yield_to_event_loop()
        self._lookup_blocks = 0
        try:
            return _run_in_snapshot(database, query, self._path)
        except StoreError as error:
            if error.__cause__ is None or not is_busy_or_interrupted(error.__cause__):
                raise
        return await self.run(query)

    async def lookup_rows(self, statement: str, values: StatementValues = ()) -> list[Any]:
        """Return all rows of one query as ``lookup`` does, with a quarter of the statements.

        A single query reads one snapshot in any case, of the main database first.
        """
        database, is_turn_over = self._begin_lookup()
        if is_turn_over:
            await yield_to_event_loop()
        self._lookup_blocks = 0
        try:
            return database.conn.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            if not is_busy_or_interrupted(error):
                raise_explained(error, self._path)
        return await self.run(lambda database: database.conn.execute(statement, values).fetchall())

    def _begin_lookup(self) -> tuple[Database, bool]:
        """Return the connection of the loop, and whether the other tasks get a turn first; raises StoreError."""
        if self._own is None:
            message = f"{self._path}: the ledger is closed"
            raise StoreError(message)
        self._lookups += 1
        return self._own, self._lookups % LOOKUPS_PER_TURN == 0

    async def close(self) -> None:
        """Wait for running queries and close the connections; a second call does nothing."""
        threads, self._threads = self._threads, None
        if threads is None:
            return
        own, self._own = self._own, None
        if own is not None:
            own.close()
        if self._openings:
            await asyncio.wait(self._openings)
        # Callers that wait for a connection get it first.
        for _ in range(self._opened):
            (await self._idle.get()).close()
        threads.shutdown()

    async def _take(self, threads: ThreadPoolExecutor) -> Database:
        """Return a connection that nobody uses: an idle one, another one, or the next that is given back.

        Where no other one can be opened, those that are open are enough. Raises StoreError if none is.
        """
        if not self._idle.empty() or self._opened == self._count:
            return await self._idle.get()
        self._opened += 1
        opening = asyncio.get_running_loop().run_in_executor(threads, self._open)
        self._openings.add(opening)
        opening.add_done_callback(self._end_opening)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._keep_opened)
            raise
        except StoreError:
            if self._opened == 0:
                raise
            return await self._idle.get()

    def _end_opening(self, opening: asyncio.Future[Database]) -> None:
        self._openings.remove(opening)
        if opening.exception() is not None:
            self._opened -= 1

    def _keep_opened(self, opening: asyncio.Future[Database]) -> None:
        if opening.exception() is None:
            self._idle.put_nowait(opening.result())

    def _open(self) -> Database:
        return open_reader(self._path) if self._attached is None else open_reader_with(self._path, self._attached)

    def _open_own(self) -> Database:
        database = self._open()
        # A query that must wait for another program waits in a thread.
        database.conn.execute("pragma busy_timeout = 0")
        database.conn.set_progress_handler(self._count_block, _LOOKUP_BLOCK)
        return database

    def _count_block(self) -> bool:
        # Called after each block of instructions; True interrupts the query.
        self._lookup_blocks += 1
        return self._lookup_blocks > MAX_LOOKUP_BLOCKS

    def _give_back(self, database: Database, reading: asyncio.Future[Any]) -> None:
        self._idle.put_nowait(database)
        reading.exception()  # no caller is left to handle an error after a cancellation


def _run_in_snapshot(database: Database, query: Callable[[Database], QueryResultT], path: Path) -> QueryResultT:
    connection = database.conn
    try:
        connection.execute("begin")
        try:
            # The snapshot of the main database comes first: an attached one, read later, has all that it names.
            connection.execute("select 1 from sqlite_schema limit 1").fetchone()
            return query(database)
        except BaseException as error:
            release_cursors(error)
            raise
        finally:
            _end_snapshot(connection)
    except (sqlite3.Error, OSError) as error:
        raise_explained(error, path)


def _end_snapshot(connection: sqlite3.Connection) -> None:
    # An interrupt that arrives late stops the rollback itself and leaves the transaction open. The time limit and the
    # caller interrupt a query at most once each, so the third attempt succeeds.
    for attempts_left in (2, 1, 0):
        try:
            if connection.in_transaction:
                connection.execute("rollback")
        except sqlite3.OperationalError:
            if not attempts_left:
                raise
        else:
            return
