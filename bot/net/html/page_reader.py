"""Reads pages in child processes without environment or keys.

So that a hostile page can end such a process and nothing else. A page that broke one is not read again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from bot.core.child_process import MINIMAL_ENVIRONMENT, child_command
from bot.core.errors import MalformedDataError, ServiceUnavailableError
from bot.core.research import FetchedPage, PageText

if TYPE_CHECKING:
    from types import TracebackType

# A character is at most six bytes of JSON, as an escape.
_BYTES_PER_CHAR = 6


_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReadLimits:
    """``page_s`` bounds one page by the clock, ``cpu_s`` by computing; ``waiting`` is how many may stand in line.

    Neither counts the time in line. ``children`` is how many processes read at a time, each started when there is a
    page for it. ``chars`` is the longest text that is returned. After ``pages`` pages a child is replaced, since
    libraries keep caches. The limit of memory counts address space, of which a fresh child takes about 90 MB.
    ``remembered`` is how many pages that broke a child are known again, and not read a second time.
    """

    page_s: float = 5.0
    start_s: float = 20.0
    cpu_s: int = 4
    memory_bytes: int = 512 * _MEBIBYTE
    chars: int = 100_000
    waiting: int = 32
    pages: int = 500
    children: int = 2
    remembered: int = 500


class PageReaderCrash(MalformedDataError):
    """The page took too long, or ended the process that read it; so it would the next time."""


class PageReaderProcess:
    """Reads one page at a time; whoever uses it sees to that."""

    def __init__(self, limits: PageReadLimits) -> None:
        self._limits = limits
        self._served = 0
        self._child: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int | None:
        """The child's number in the system while there is one."""
        return self._child.pid if self._child is not None else None

    def kill_child(self) -> None:
        """Break off what is being read: it ends with the child."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()

    async def close(self) -> None:
        """End the child; the next page would start a new one."""
        child, self._child, self._served = self._child, None, 0
        if child is None:
            return
        if child.returncode is None:
            child.kill()
        # Takes what is left in the pipes, which the end of the process waits for.
        await child.communicate()

    async def read_page(self, fetched: FetchedPage, shown: str) -> Mapping[str, Any]:
        """Return the child's answer to a page; raises Broken, or Unavailable where no child starts."""
        child = await self._start_child(shown)
        whole = False
        try:
            async with asyncio.timeout(self._limits.page_s):
                answer = await self._exchange(child, fetched)
            whole = True
        except TimeoutError:
            message = f"{shown}: the page could not be read within {self._limits.page_s:g} s"
            raise PageReaderCrash(message) from None
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            message = f"{shown}: the page could not be read: it ended its reader (memory or time)"
            raise PageReaderCrash(message) from None
        finally:
            self._served += 1
            # Out of step after a timeout or a cancelled wait, a child would answer the next page with this one.
            if not whole or self._served >= self._limits.pages:
                await self.close()
        return answer

    async def _exchange(self, child: asyncio.subprocess.Process, fetched: FetchedPage) -> Mapping[str, Any]:
        await _send_frame(child, json.dumps({"media_type": fetched.media_type}).encode())
        await _send_frame(child, fetched.content)
        return await _read_answer(child, self._limits.chars * _BYTES_PER_CHAR + 10_000)

    async def _start_child(self, shown: str) -> asyncio.subprocess.Process:
        """Return the child, started and warm."""
        if self._child is not None and self._child.returncode is None:
            return self._child
        await self.close()
        self._child = child = await asyncio.create_subprocess_exec(
            *child_command("bot.net.html.extraction:serve_pages", is_isolated=True),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=MINIMAL_ENVIRONMENT,
        )
        limits = {"memory_bytes": self._limits.memory_bytes, "cpu_s": self._limits.cpu_s, "chars": self._limits.chars}
        ready = False
        try:
            async with asyncio.timeout(self._limits.start_s):
                await _send_frame(child, json.dumps(limits).encode())
                await _read_answer(child, 1000)
            ready = True
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, ValueError):
            message = f"{shown}: the reader of pages did not start"
            raise ServiceUnavailableError(message) from None
        finally:
            if not ready:
                await self.close()
        return child


async def _send_frame(child: asyncio.subprocess.Process, frame: bytes) -> None:
    if child.stdin is None:
        raise ConnectionError
    child.stdin.write(len(frame).to_bytes(4, "big") + frame)
    await child.stdin.drain()


async def _read_answer(child: asyncio.subprocess.Process, most_bytes: int) -> Mapping[str, Any]:
    """Return the next frame of a child that hostile bytes may have taken over: bounded, and an object or ValueError."""
    if child.stdout is None:
        raise ConnectionError
    length = int.from_bytes(await child.stdout.readexactly(4), "big")
    if length > most_bytes:
        message = f"an answer of {length} bytes"
        raise ValueError(message)
    said = json.loads(await child.stdout.readexactly(length))
    if not isinstance(said, dict):
        message = "an answer that is no object"
        raise ValueError(message)  # noqa: TRY004 - the caller treats all odd answers alike
    return said


__all__ = ["DEFAULT_READ_LIMITS", "PageReadLimits", "SubprocessPageReader"]


DEFAULT_READ_LIMITS = PageReadLimits()


class SubprocessPageReader:
    """Turns what was fetched into what a person would see of it; an async context manager."""

    def __init__(self, limits: PageReadLimits = DEFAULT_READ_LIMITS) -> None:
        self._limits = limits
        self._read_slots = asyncio.Semaphore(limits.children)
        # The one that was used last is used next, so that a second one is started only for a second page at a time.
        self._idle = [PageReaderProcess(limits) for _ in range(limits.children)]
        self._all = tuple(self._idle)
        self._queue_length = 0
        self._crashed_pages: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the children; the next page would start a new one."""
        for worker in self._all:
            # A page that is being read ends with it, and gives up its turn.
            worker.kill_child()
        for _ in self._all:
            await self._read_slots.acquire()
        try:
            for worker in self._all:
                await worker.close()
        finally:
            for _ in self._all:
                self._read_slots.release()

    @property
    def process_id(self) -> int | None:
        """The number in the system of a child while there is one, for measuring it."""
        return next(iter(self.process_ids), None)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The numbers in the system of all children that there are."""
        return tuple(number for worker in self._all if (number := worker.process_id) is not None)

    async def read(self, fetched: FetchedPage) -> PageText:
        """Return the page. Raises ContractError for one that cannot be read, Unavailable where too many wait."""
        shown = fetched.url.partition("?")[0]
        if self._queue_length >= self._limits.waiting:
            message = f"{shown}: {self._queue_length} pages are waiting to be read already"
            raise ServiceUnavailableError(message)
        self._queue_length += 1
        try:
            answer = await self._answer(fetched, shown)
        finally:
            self._queue_length -= 1
        if (why := answer.get("error")) is not None:
            message = f"{shown}: the page could not be read: {why}"
            raise MalformedDataError(message)
        return _page_from_answer(fetched.url, answer)

    async def _answer(self, fetched: FetchedPage, shown: str) -> Mapping[str, Any]:
        name = hashlib.sha256(fetched.media_type.encode() + b"\n" + fetched.content).hexdigest()
        async with self._read_slots:
            # Asked only now: others with the same page may have stood before this one.
            if (why := self._crashed_pages.get(name)) is not None:
                message = f"{shown}: the page could not be read before, and is not tried again ({why})"
                raise MalformedDataError(message)
            worker = self._idle.pop()
            try:
                return await worker.read_page(fetched, shown)
            except PageReaderCrash as error:
                self._remember_crash(name, str(error).removeprefix(f"{shown}: "))
                raise
            finally:
                self._idle.append(worker)

    def _remember_crash(self, name: str, why: str) -> None:
        self._crashed_pages[name] = why
        while len(self._crashed_pages) > self._limits.remembered:
            del self._crashed_pages[next(iter(self._crashed_pages))]


def _page_from_answer(url: str, answer: Mapping[str, Any]) -> PageText:
    try:
        moment = answer["published_at"]
        return PageText(
            url=url,
            title=str(answer["title"]),
            text=str(answer["text"]),
            published_at=datetime.fromisoformat(moment) if moment is not None else None,
        )
    except (KeyError, TypeError, ValueError):
        message = f"{url.partition('?')[0]}: the page could not be read: its reader answered oddly"
        raise MalformedDataError(message) from None
