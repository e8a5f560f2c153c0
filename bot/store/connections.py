"""How functions run on the database: the protocols that the store modules depend on, and one thread that writes.

The writer thread commits many writes together.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.database import (
    DiskReserve,
    explain_error,
    is_halting_error,
    open_writer,
    open_writer_with,
)

ResultT = TypeVar("ResultT")
StatementValues = Sequence[Any] | Mapping[str, Any]


class TransactionRunner(Protocol):
    """Runs a function on a connection: the writer in a transaction, a reader on one snapshot."""

    async def run(self, work: Callable[[Database], ResultT], /) -> ResultT:
        """Return the result of the function; raises its errors, and StoreError."""
        ...


class LedgerReaders(TransactionRunner, Protocol):
    """Reads: in threads, or on the event loop where few rows are found by an index."""

    async def lookup(self, query: Callable[[Database], ResultT], /) -> ResultT:
        """Return the result of a short query as ``run`` does; see ``ReaderPool.lookup``."""
        ...

    async def lookup_rows(self, statement: str, values: StatementValues = (), /) -> list[Any]:
        """Return the rows of one short query; see ``ReaderPool.lookup_rows``."""
        ...


class LedgerWriter(TransactionRunner, Protocol):
    """Writes until an error of the disk halts it."""

    async def run_halted(self, work: Callable[[Database], ResultT], /) -> ResultT:
        """Write despite the halt, only to record its reason; raises StoreError."""
        ...


class ReadOnlyWriter:
    """The writer of a ledger that is open for reading only: it refuses every write."""

    async def run(self, work: Callable[[Database], ResultT], /) -> ResultT:
        """Raise StoreError."""
        message = "the ledger is open for reading only; the daemon alone writes to it"
        raise StoreError(message)

    run_halted = run


def release_cursors(error: BaseException) -> None:
    """Forget the local variables of the frames that an error passed: one may be a cursor that was not read to its end.

    A cursor keeps its connection on the snapshot that it reads, also after a rollback, as long as the error exists, and
    every later query would see the database as it was: https://sqlite.org/isolation.html.
    """
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__


WriteResultT = TypeVar("WriteResultT")
# A group that has so many writes gets no more.
MAX_GROUP_WRITES = 256
# A commit costs as much as ten writes. An idle loop takes three turns in a tenth of a millisecond, and a busy one has
# other work meanwhile.
QUIET_TURNS = 3
ENOUGH_WRITES = 32
# With more than so many writes in a period, and so many in a commit, commits are at least so far apart: loop and
# thread wake each other half as often, which saves some of the CPU. A program that waits for its models writes less,
# and one that makes one write after the other has nothing to wait for.
BUSY_WRITES = 100
SHARED_WRITES = 4
BUSY_PERIOD_S = 0.1
COMMIT_SPACING_S = 0.008


# Neither is frozen: there is one for each write.
@dataclass(slots=True, eq=False)
class _PendingWrite(Generic[WriteResultT]):
    work: Callable[[Database], WriteResultT]
    done: asyncio.Future[WriteResultT]
    despite_halt: bool = False


@dataclass(slots=True, eq=False)
class _WriteOutcome:
    value: Any = None
    error: BaseException | None = None


class CommitPacing:
    """How long gathered writes wait for more of them, by how many there were of late. Times are those of the loop."""

    def __init__(self) -> None:
        self._busy = False
        self._since = self._passed_at = -math.inf
        self._writes = self._groups = 0

    def wait_s(self, now: float) -> float:
        """Return how long the first gathered write waits, in seconds; 0 if it need not."""
        if now - self._since >= BUSY_PERIOD_S:
            is_fast = self._writes > BUSY_WRITES * (now - self._since) / BUSY_PERIOD_S
            self._busy = is_fast and self._writes >= SHARED_WRITES * self._groups
            self._since, self._writes, self._groups = now, 0, 0
        return max(self._passed_at + COMMIT_SPACING_S - now, 0.0) if self._busy else 0.0

    def count(self, writes: int, now: float) -> None:
        """Count a group of writes that goes to the thread now."""
        self._passed_at = now
        self._writes += writes
        self._groups += 1


class WriterThread:
    """Runs functions on the only writing connection, in its own thread, many in one transaction.

    Open it with ``async with``; it belongs to the event loop it was opened in. ``ballast`` is released when the disk is
    full. ``first`` is a second database that each transaction commits before the one at ``path``.
    """

    def __init__(self, path: Path, *, first: Path | None = None, ballast: DiskReserve | None = None) -> None:
        self._path = path
        self._first = first
        self._ballast = ballast
        self._queue: SimpleQueue[list[_PendingWrite[Any]] | None] = SimpleQueue()
        # Writes of the last turns of the event loop; the thread gets them together, so that they share a commit.
        self._gathered: list[_PendingWrite[Any]] = []
        self._thread: Thread | None = None
        # Asking for the running loop is a system call.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._halted: str | None = None
        self._pacing = CommitPacing()
        # The event loop counts ``asked``, the thread counts ``answered``.
        self.asked = self.answered = 0

    @property
    def halted(self) -> str | None:
        """Why writing has halted, None if it has not; only a restart ends a halt."""
        return self._halted

    async def __aenter__(self) -> Self:
        """Open the connection in its thread. Raises StoreError."""
        self._loop = loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        _open_writers.setdefault(loop, []).append(self)
        self.asked += 1
        self._thread = Thread(target=self._serve, args=(loop, opened), name="ledger-writer", daemon=True)
        self._thread.start()
        try:
            await opened
        except BaseException:
            self._queue.put(None)
            self._thread = None
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close after all pending writes."""
        await self.close()

    async def run(self, work: Callable[[Database], WriteResultT]) -> WriteResultT:
        """Run ``work`` in a transaction and return its result once that is durable.

        An error of ``work`` is raised here and undoes only this write. ``work`` must neither commit nor roll back, and
        must only use the database: it may run again if its first transaction was undone. Cancelling the caller does not
        cancel the write. Raises StoreError if the disk fails; ``halted`` then gives the reason, and only a restart
        shows whether the write survived an I/O error.
        """
        if self._halted is not None:
            raise StoreError(self._halted)
        return await self._submit(work)

    async def run_halted(self, work: Callable[[Database], WriteResultT]) -> WriteResultT:
        """Write despite the halt, into the room that the ballast freed, only to record the reason of the halt."""
        return await self._submit(work, despite_halt=True)

    async def close(self) -> None:
        """Finish all pending writes, then close the connection; a second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._pass_on()
        self._queue.put(None)
        await asyncio.to_thread(thread.join)
        _open_writers[asyncio.get_running_loop()].remove(self)

    def _submit(
        self, work: Callable[[Database], WriteResultT], *, despite_halt: bool = False
    ) -> asyncio.Future[WriteResultT]:
        loop = self._loop
        if self._thread is None or loop is None:
            message = f"{self._path}: the ledger is closed"
            raise StoreError(message)
        done: asyncio.Future[WriteResultT] = loop.create_future()
        if not self._gathered:
            if wait_s := self._pacing.wait_s(loop.time()):
                loop.call_later(wait_s, self._pass_on)
            else:
                loop.call_soon(self._gather, loop, 0, QUIET_TURNS)
        self._gathered.append(_PendingWrite(work, done, despite_halt))
        return done

    def _gather(self, loop: asyncio.AbstractEventLoop, known: int, quiet: int) -> None:
        """Pass the writes on once they are enough, or after ``quiet`` turns without a new one."""
        count = len(self._gathered)
        quiet = QUIET_TURNS if count > known else quiet - 1
        if quiet and count < ENOUGH_WRITES:
            loop.call_soon(self._gather, loop, count, quiet)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        # Counted only now: until then the loop has this call to make, and must not wait for the thread.
        gathered, self._gathered = self._gathered, []
        self.asked += len(gathered)
        self._pacing.count(len(gathered), asyncio.get_running_loop().time())
        # Not one by one: a thread that the first one wakes would commit that one alone.
        for first in range(0, len(gathered), MAX_GROUP_WRITES):
            self._queue.put(gathered[first : first + MAX_GROUP_WRITES])

    def _answer(
        self, loop: asyncio.AbstractEventLoop, asking: Sequence[asyncio.Future[Any]], outcomes: Sequence[_WriteOutcome]
    ) -> None:
        loop.call_soon_threadsafe(_deliver_outcomes, asking, outcomes)
        self.answered += len(asking)

    def _serve(self, loop: asyncio.AbstractEventLoop, opened: asyncio.Future[None]) -> None:
        try:
            database = open_writer(self._path) if self._first is None else open_writer_with(self._first, self._path)
        except BaseException as error:  # noqa: BLE001 - the opener waits and must get every error
            self._answer(loop, [opened], [_WriteOutcome(error=error)])
            return
        self._answer(loop, [opened], [_WriteOutcome()])
        with database:
            while group := _next_group(self._queue):
                outcomes = self._outcomes(database, group)
                self._answer(loop, [write.done for write in group], outcomes)

    def _outcomes(self, database: Database, group: Sequence[_PendingWrite[Any]]) -> list[_WriteOutcome]:
        if self._halted is not None and not all(write.despite_halt for write in group):
            return [self._alone(database, write) for write in group]
        try:
            return _commit_group(database, group)
        except sqlite3.IntegrityError as error:
            if len(group) == 1:
                return [_WriteOutcome(error=error)]
        except BaseException as error:  # noqa: BLE001 - every caller in the group waits and must get every error
            self._halt_if(error)
            return [_WriteOutcome(error=explain_error(error, self._path) or error) for _ in group]
        # The commit checks deferred foreign keys, but does not say which write broke one.
        return [self._alone(database, write) for write in group]

    def _alone(self, database: Database, write: _PendingWrite[Any]) -> _WriteOutcome:
        if self._halted is None or write.despite_halt:
            return self._outcomes(database, [write])[0]
        return _WriteOutcome(error=StoreError(self._halted))

    def _halt_if(self, error: BaseException) -> None:
        known = explain_error(error, self._path)
        if self._halted is not None or known is None or not is_halting_error(error):
            return
        self._halted = str(known)
        if self._ballast is not None:
            with suppress(StoreError):  # the halt matters more than its record
                self._ballast.release()


_open_writers: WeakKeyDictionary[asyncio.AbstractEventLoop, list[WriterThread]] = WeakKeyDictionary()


def pending_writes(loop: asyncio.AbstractEventLoop) -> int:
    """Return how many writes of this loop are pending: a simulated clock must not advance meanwhile.

    An answered write reaches its caller one turn of the loop later.
    """
    # Called at each turn of a simulated loop, so no generator.
    waiting = 0
    for writer in _open_writers.get(loop, ()):
        waiting += writer.asked - writer.answered
    return waiting


def _next_group(queue: SimpleQueue[list[_PendingWrite[Any]] | None]) -> list[_PendingWrite[Any]]:
    group: list[_PendingWrite[Any]] = []
    while (writes := queue.get()) is not None:
        group += writes
        if len(group) >= MAX_GROUP_WRITES or queue.empty():
            return group
    if group:
        # Put the end marker back: this group is written first.
        queue.put(None)
    return group


def _commit_group(database: Database, group: Sequence[_PendingWrite[Any]]) -> list[_WriteOutcome]:
    outcomes = _run_together(database, group)
    # One of the writes fails, so each gets its own savepoint.
    return _run_separately(database, group) if outcomes is None else outcomes


def _run_together(database: Database, group: Sequence[_PendingWrite[Any]]) -> list[_WriteOutcome] | None:
    """Commit the writes; if one raises an error of its own, undo all of them and return None."""
    # The connection's own execute: sqlite-utils adds bookkeeping for each statement.
    execute = database.conn.execute
    execute("begin immediate")
    try:
        outcomes = _run_writes(database, group)
        execute("rollback" if outcomes is None else "commit")
    except BaseException:
        database.rollback()
        raise
    return outcomes


def _run_writes(database: Database, group: Sequence[_PendingWrite[Any]]) -> list[_WriteOutcome] | None:
    """Run the writes; return None if one raises an error of its own."""
    outcomes = []
    try:
        for write in group:
            outcomes.append(_WriteOutcome(write.work(database)))
            _require_transaction(database)
    except Exception as error:
        if is_halting_error(error):
            raise
        release_cursors(error)
        _require_transaction(database)
        return None
    return outcomes


def _run_separately(database: Database, group: Sequence[_PendingWrite[Any]]) -> list[_WriteOutcome]:
    execute = database.conn.execute
    execute("begin immediate")
    try:
        outcomes = [_run_in_savepoint(database, write.work) for write in group]
        execute("commit")
    except BaseException:
        database.rollback()
        raise
    return outcomes


def _run_in_savepoint(database: Database, work: Callable[[Database], Any]) -> _WriteOutcome:
    execute = database.conn.execute
    execute("savepoint work")
    try:
        outcome = _WriteOutcome(value=work(database))
    except Exception as error:
        if is_halting_error(error):
            raise
        release_cursors(error)
        _require_transaction(database)
        execute("rollback to work")
        outcome = _WriteOutcome(error=error)
    _require_transaction(database)
    execute("release work")
    return outcome


def _require_transaction(database: Database) -> None:
    if not database.conn.in_transaction:
        message = "a write ended the transaction that it shares with others"
        raise RuntimeError(message)


def _deliver_outcomes(futures: Sequence[asyncio.Future[Any]], outcomes: Sequence[_WriteOutcome]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():
            continue  # the caller was cancelled
        if outcome.error is None:
            future.set_result(outcome.value)
        elif isinstance(outcome.error, StopIteration):
            future.set_exception(RuntimeError("a write raised StopIteration"))  # which no future can carry
        else:
            future.set_exception(outcome.error)
