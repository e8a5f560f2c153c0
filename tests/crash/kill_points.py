"""A shared fast clock, and commits and requests at which a process kills itself."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Database

from bot.core.interfaces import WriteClient
from bot.core.venue_http import HttpRequest, HttpResponse
from bot.store.connections import TransactionRunner

T = TypeVar("T")
# In which a life says who it is, in every write.
LIFE_HEADER = "x-life"
# So long a request is under way before the moment at which only the venue knows how far it came.
UNDER_WAY_S = 0.004


class FastClock:
    """Wall time that runs faster than it does, the same in all processes that begin from the same moment."""

    def __init__(self, *, began: float, factor: float, start: float) -> None:
        self.began = began
        self._factor, self._start = factor, start

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._start + self.monotonic(), tz=UTC)

    def monotonic(self) -> float:
        return (time.time() - self.began) * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)


class KillCountdown:
    """Ends this process at the n-th moment, after a note of where that was."""

    def __init__(self, kill_at: int | None, notes: str) -> None:
        self._left = kill_at
        self._notes = notes

    def moment(self, where: str) -> None:
        if self._left is None:
            return
        if self._left == 0:
            with Path(self._notes).open("a", encoding="ascii") as file:
                file.write(where + "\n")
                file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


class KillableRuns:
    """The writer of a file, with three moments to die at around each commit."""

    def __init__(self, runs: TransactionRunner, fuse: KillCountdown, what: str = "") -> None:
        self._runs, self._fuse, self._what = runs, fuse, what

    async def run(self, work: Callable[[Database], T]) -> T:
        def mortal(database: Database) -> T:
            value = work(database)
            self._fuse.moment(f"inside a transaction{self._what}")
            return value

        self._fuse.moment(f"before a commit{self._what}")
        value = await self._runs.run(mortal)
        self._fuse.moment(f"after a commit{self._what}")
        return value


class KillableWriteClient:
    """A wire with a moment to die at before, during and after each request."""

    def __init__(self, wire: WriteClient, fuse: KillCountdown, number: int) -> None:
        self._wire, self._fuse, self._number = wire, fuse, number

    async def send(self, request: HttpRequest, *, max_bytes: int, deadline_s: float) -> HttpResponse:
        named = replace(request, headers={**request.headers, LIFE_HEADER: str(self._number)})
        self._fuse.moment("before the wire")
        task = asyncio.ensure_future(self._wire.send(named, max_bytes=max_bytes, deadline_s=deadline_s))
        await asyncio.wait({task}, timeout=UNDER_WAY_S)
        self._fuse.moment("on the wire")
        reply = await task
        self._fuse.moment("after the wire")
        return reply
