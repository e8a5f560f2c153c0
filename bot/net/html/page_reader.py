"""Reads pages in child processes without environment or keys, so a hostile page can crash only such a process.

A page that crashed a process is not read again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from bot.core.child_process import MINIMAL_ENVIRONMENT, child_command
from bot.core.errors import MalformedDataError, ServiceUnavailableError
from bot.core.light_dataclass import dataclass
from bot.core.research import FetchedPage, PageText

if TYPE_CHECKING:
    from types import TracebackType

# A character is at most six bytes of JSON, as an escape.
_BYTES_PER_CHAR = 6
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReadLimits:
    """Limits of reading: ``page_s`` bounds the time of one page, ``cpu_s`` its CPU time, both without waiting.

    ``waiting`` bounds the queue of pages. ``children`` is how many processes read at a time; each is started when there
    is a page for it. ``chars`` bounds the text that is returned. A child is replaced after ``pages`` pages, because
    libraries keep caches. The memory limit counts address space, of which a new child takes about 90 MB.
    ``remembered`` is how many pages that crashed a child are remembered and not read again.
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
    """The page took too long, or crashed the process that read it, and would do so again."""


class PageReaderProcess:
    """A child process that reads one page at a time; callers must not read two pages at once."""

    def __init__(self, limits: PageReadLimits) -> None:
        self._limits = limits
        self._served = 0
        self._child: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int | None:
        """The process id of the child while it runs."""
        return self._child.pid if self._child is not None else None

    def kill_child(self) -> None:
        """Kill the child, which ends the reading of a page."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()

    async def close(self) -> None:
        """End the child; the next page starts a new one."""
        child, self._child, self._served = self._child, None, 0
        if child is None:
            return
        if child.returncode is None:
            child.kill()
        # Reads what is left in the pipes, because the process does not end before that.
        await child.communicate()

    async def read_page(self, fetched: FetchedPage, shown: str) -> Mapping[str, Any]:
        """Return the answer of the child to a page.

        Raises PageReaderCrash, or ServiceUnavailableError if no child starts.
        """
        child = await self._start_child(shown)
        is_complete = False
        try:
            async with asyncio.timeout(self._limits.page_s):
                answer = await self._exchange(child, fetched)
            is_complete = True
        except TimeoutError:
            message = f"{shown}: the page could not be read within {self._limits.page_s:g} s"
            raise PageReaderCrash(message) from None
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            message = f"{shown}: the page could not be read: it crashed its reader (memory or time)"
            raise PageReaderCrash(message) from None
        finally:
            self._served += 1
            # After a timeout or a cancelled wait, a child would answer the next page with this one.
            if not is_complete or self._served >= self._limits.pages:
                await self.close()
        return answer

    async def _exchange(self, child: asyncio.subprocess.Process, fetched: FetchedPage) -> Mapping[str, Any]:
        await _send_frame(child, json.dumps({"media_type": fetched.media_type}).encode())
        await _send_frame(child, fetched.content)
        return await _read_answer(child, self._limits.chars * _BYTES_PER_CHAR + 10_000)

    async def _start_child(self, shown: str) -> asyncio.subprocess.Process:
        """Return the running child; start one if there is none."""
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
        is_ready = False
        try:
            async with asyncio.timeout(self._limits.start_s):
                await _send_frame(child, json.dumps(limits).encode())
                await _read_answer(child, 1000)
            is_ready = True
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, ValueError):
            message = f"{shown}: the process that reads pages did not start"
            raise ServiceUnavailableError(message) from None
        finally:
            if not is_ready:
                await self.close()
        return child


async def _send_frame(child: asyncio.subprocess.Process, frame: bytes) -> None:
    if child.stdin is None:
        raise ConnectionError
    child.stdin.write(len(frame).to_bytes(4, "big") + frame)
    await child.stdin.drain()


async def _read_answer(child: asyncio.subprocess.Process, max_bytes: int) -> Mapping[str, Any]:
    """Return the next frame of a child that may be hostile; raises ValueError unless it is a small object."""
    if child.stdout is None:
        raise ConnectionError
    length = int.from_bytes(await child.stdout.readexactly(4), "big")
    if length > max_bytes:
        message = f"an answer of {length} bytes"
        raise ValueError(message)
    answer = json.loads(await child.stdout.readexactly(length))
    if not isinstance(answer, dict):
        message = "an answer that is not an object"
        raise ValueError(message)  # noqa: TRY004 - the caller treats all invalid answers alike
    return answer


__all__ = ["DEFAULT_READ_LIMITS", "PageReadLimits", "SubprocessPageReader"]
DEFAULT_READ_LIMITS = PageReadLimits()


class SubprocessPageReader:
    """Returns the visible text of fetched pages; an async context manager."""

    def __init__(self, limits: PageReadLimits = DEFAULT_READ_LIMITS) -> None:
        self._limits = limits
        self._read_slots = asyncio.Semaphore(limits.children)
        # The reader that was used last is used next, so that a second child starts only for a second concurrent page.
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
        """End the children; the next page starts a new one."""
        for worker in self._all:
            # Ends the reading of a page, which then releases its slot.
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
        """The process id of one child while there is any, for measurements."""
        return next(iter(self.process_ids), None)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The process ids of all running children."""
        return tuple(number for worker in self._all if (number := worker.process_id) is not None)

    async def read(self, fetched: FetchedPage) -> PageText:
        """Return the visible text of a page.

        Raises MalformedDataError for one that cannot be read, and ServiceUnavailableError if too many pages wait.
        """
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
            # Checked after waiting, because the same page may have been before this one in the queue.
            if (why := self._crashed_pages.get(name)) is not None:
                message = f"{shown}: the page could not be read before and is not tried again ({why})"
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
        message = f"{url.partition('?')[0]}: the page could not be read: the answer of its reader is malformed"
        raise MalformedDataError(message) from None
