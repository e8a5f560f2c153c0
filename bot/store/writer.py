"""The one thread that writes: closures in, group commits out.

A commit costs a wait for the disk, whatever is in it; so writes that arrive during one commit share the next. No other
code may open a writing connection while a ``Writer`` is open.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

from sqlite_utils import Database

from bot.errors import StoreError
from bot.store.ballast import Ballast
from bot.store.database import explained, is_halting, open_writer

T = TypeVar("T")

GROUP = 256


def _new_future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(frozen=True, slots=True, eq=False)
class _Write(Generic[T]):
    work: Callable[[Database], T]
    despite_halt: bool = False
    done: asyncio.Future[T] = field(default_factory=_new_future)


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


_open: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Writer]] = WeakKeyDictionary()


def under_way(loop: asyncio.AbstractEventLoop) -> int:
    """Return how many writes of this loop are asked for and not answered: a simulated clock stands still meanwhile.

    What is answered may not have reached its caller yet, which takes the loop another turn.
    """
    # Asked at each turn of a simulated loop, hence without a generator.
    waiting = 0
    for writer in _open.get(loop, ()):
        waiting += writer.asked - writer.answered
    return waiting


class Writer:
    """Runs closures on the only writing connection, in its own thread, many to a transaction.

    Open it with ``async with``; it belongs to the event loop it was opened in. ``capacity`` bounds how many callers
    wait for the disk at once: the next one waits for room first. ``ballast`` is given up when the disk is full.
    """

    def __init__(self, path: Path, *, ballast: Ballast | None = None, capacity: int = 1024) -> None:
        self._path = path
        self._ballast = ballast
        self._capacity = capacity
        self._room = asyncio.Semaphore(capacity)
        self._queue: SimpleQueue[_Write[Any] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._halted: str | None = None
        # The one is counted by the loop, the other by the thread.
        self.asked = self.answered = 0

    @property
    def halted(self) -> str | None:
        """Why nothing is written any more, or nothing while all is well; only a new start ends it."""
        return self._halted

    async def __aenter__(self) -> Self:
        """Open the connection in its thread. Raises StoreError."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        _open.setdefault(loop, []).append(self)
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
        """Close, once what was asked for is written."""
        await self.close()

    async def run(self, work: Callable[[Database], T]) -> T:
        """Run ``work`` in a transaction and return its result once that is durable.

        What ``work`` raises is raised here and undoes this write alone. ``work`` must neither commit nor roll back, and
        must do nothing but use the database: it runs again if its first transaction had to be undone. A caller that is
        cancelled does not take its write back. Raises StoreError for a disk that does not take the write; ``halted``
        then tells why, and whether an I/O error spared the write shows only after a new start.
        """
        if self._halted is not None:
            raise StoreError(self._halted)
        return await self._submit(_Write(work))

    async def run_halted(self, work: Callable[[Database], T]) -> T:
        """Write although halted, into the room the ballast left: the note that says why, nothing else."""
        return await self._submit(_Write(work, despite_halt=True))

    async def close(self) -> None:
        """Write what is still asked for, then close the connection; closing twice is closing once."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        for _ in range(self._capacity):
            await self._room.acquire()
        self._queue.put(None)
        await asyncio.to_thread(thread.join)
        _open[asyncio.get_running_loop()].remove(self)

    async def _submit(self, write: _Write[T]) -> T:
        if self._thread is None:
            message = f"{self._path}: the ledger is closed"
            raise StoreError(message)
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            self._put(write)
            raise
        try:
            self._put(write)
            return await write.done
        finally:
            self._room.release()

    def _put(self, write: _Write[Any]) -> None:
        self.asked += 1
        self._queue.put(write)

    def _answer(
        self, loop: asyncio.AbstractEventLoop, asking: Sequence[asyncio.Future[Any]], outcomes: Sequence[_Outcome]
    ) -> None:
        loop.call_soon_threadsafe(_settle, asking, outcomes)
        self.answered += len(asking)

    def _serve(self, loop: asyncio.AbstractEventLoop, opened: asyncio.Future[None]) -> None:
        try:
            database = open_writer(self._path)
        except BaseException as error:  # noqa: BLE001 - the opener waits and must hear of everything
            self._answer(loop, [opened], [_Outcome(error=error)])
            return
        self._answer(loop, [opened], [_Outcome()])
        with database:
            while group := _next_group(self._queue):
                outcomes = self._outcomes(database, group)
                self._answer(loop, [write.done for write in group], outcomes)

    def _outcomes(self, database: Database, group: Sequence[_Write[Any]]) -> list[_Outcome]:
        if self._halted is not None and not all(write.despite_halt for write in group):
            return [self._alone(database, write) for write in group]
        try:
            return _committed(database, group)
        except sqlite3.IntegrityError as error:
            if len(group) == 1:
                return [_Outcome(error=error)]
        except BaseException as error:  # noqa: BLE001 - every caller in the group waits and must hear of everything
            self._halt_if(error)
            return [_Outcome(error=explained(error, self._path) or error) for _ in group]
        # A deferred foreign key is checked at the commit, which does not say whose it was.
        return [self._alone(database, write) for write in group]

    def _alone(self, database: Database, write: _Write[Any]) -> _Outcome:
        if self._halted is None or write.despite_halt:
            return self._outcomes(database, [write])[0]
        return _Outcome(error=StoreError(self._halted))

    def _halt_if(self, error: BaseException) -> None:
        known = explained(error, self._path)
        if self._halted is not None or known is None or not is_halting(error):
            return
        self._halted = str(known)
        if self._ballast is not None:
            with suppress(StoreError):  # to have halted matters more than the note about it
                self._ballast.release()


def _next_group(queue: SimpleQueue[_Write[Any] | None]) -> list[_Write[Any]]:
    write = queue.get()
    group: list[_Write[Any]] = []
    while write is not None:
        group.append(write)
        if len(group) == GROUP or queue.empty():
            return group
        write = queue.get()
    if group:
        # The end waits until this group is written.
        queue.put(None)
    return group


def _committed(database: Database, group: Sequence[_Write[Any]]) -> list[_Outcome]:
    outcomes = _together(database, group)
    # One of them fails, so each is kept apart from the others.
    return _one_by_one(database, group) if outcomes is None else outcomes


def _together(database: Database, group: Sequence[_Write[Any]]) -> list[_Outcome] | None:
    """Commit the writes, or return None and undo them all where one raises an error that is its own."""
    with _transaction(database) as execute:
        try:
            outcomes = [_done(database, write.work) for write in group]
        except Exception as error:
            if is_halting(error):
                raise
            _require_transaction(database)
            execute("rollback")
            return None
        execute("commit")
    return outcomes


def _done(database: Database, work: Callable[[Database], Any]) -> _Outcome:
    outcome = _Outcome(value=work(database))
    _require_transaction(database)
    return outcome


def _one_by_one(database: Database, group: Sequence[_Write[Any]]) -> list[_Outcome]:
    with _transaction(database) as execute:
        outcomes = [_attempted(database, write.work) for write in group]
        execute("commit")
    return outcomes


@contextmanager
def _transaction(database: Database) -> Iterator[Callable[[str], object]]:
    # The connection's own execute: sqlite-utils adds bookkeeping for each statement.
    database.conn.execute("begin immediate")
    try:
        yield database.conn.execute
    except BaseException:
        database.rollback()
        raise


def _attempted(database: Database, work: Callable[[Database], Any]) -> _Outcome:
    execute = database.conn.execute
    execute("savepoint work")
    try:
        outcome = _Outcome(value=work(database))
    except Exception as error:
        if is_halting(error):
            raise
        _require_transaction(database)
        execute("rollback to work")
        outcome = _Outcome(error=error)
    _require_transaction(database)
    execute("release work")
    return outcome


def _require_transaction(database: Database) -> None:
    if not database.conn.in_transaction:
        message = "a write ended the transaction that it shares with others"
        raise RuntimeError(message)


def _settle(futures: Sequence[asyncio.Future[Any]], outcomes: Sequence[_Outcome]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():
            continue  # its caller was cancelled
        if outcome.error is None:
            future.set_result(outcome.value)
        elif isinstance(outcome.error, StopIteration):
            future.set_exception(RuntimeError("a write raised StopIteration"))  # which no future can carry
        else:
            future.set_exception(outcome.error)
