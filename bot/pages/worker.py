"""One child process that reads pages: started by the first page, kept for the next ones, ended after a fault.

It gets no environment, so no key, and only the bytes of the page.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.domain.research import Fetched
from bot.errors import ContractError, Unavailable

# The child runs the code of this very tree, whatever else is installed.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from bot.pages.child import main; main()"
_ROOT = Path(__file__).resolve().parents[2]
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
# A character is at most six bytes of JSON, as an escape.
_BYTES_PER_CHAR = 6
_MiB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """``page_s`` bounds one page by the clock, ``cpu_s`` by computing; ``waiting`` is how many may stand in line.

    Neither counts the time in line. ``children`` is how many processes read at a time, each started when there is a
    page for it. ``chars`` is the longest text that is returned. After ``pages`` pages a child is replaced, since
    libraries keep caches. The limit of memory counts address space, of which a fresh child takes about 90 MB.
    ``remembered`` is how many pages that broke a child are known again, and not read a second time.
    """

    page_s: float = 5.0
    start_s: float = 20.0
    cpu_s: int = 4
    memory_bytes: int = 512 * _MiB
    chars: int = 100_000
    waiting: int = 32
    pages: int = 500
    children: int = 2
    remembered: int = 500


class Broken(ContractError):
    """The page took too long, or ended the process that read it; so it would the next time."""


class Worker:
    """Reads one page at a time; whoever uses it sees to that."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._served = 0
        self._child: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int | None:
        """The child's number in the system while there is one."""
        return self._child.pid if self._child is not None else None

    def kill(self) -> None:
        """Break off what is being read: it ends with the child."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()

    async def end(self) -> None:
        """End the child; the next page would start a new one."""
        child, self._child, self._served = self._child, None, 0
        if child is None:
            return
        if child.returncode is None:
            child.kill()
        # Takes what is left in the pipes, which the end of the process waits for.
        await child.communicate()

    async def ask(self, fetched: Fetched, shown: str) -> Mapping[str, Any]:
        """Return the child's answer to a page; raises Broken, or Unavailable where no child starts."""
        child = await self._living(shown)
        whole = False
        try:
            async with asyncio.timeout(self._limits.page_s):
                answer = await self._exchange(child, fetched)
            whole = True
        except TimeoutError:
            message = f"{shown}: the page could not be read within {self._limits.page_s:g} s"
            raise Broken(message) from None
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            message = f"{shown}: the page could not be read: it ended its reader (memory or time)"
            raise Broken(message) from None
        finally:
            self._served += 1
            # Out of step after a timeout or a cancelled wait, a child would answer the next page with this one.
            if not whole or self._served >= self._limits.pages:
                await self.end()
        return answer

    async def _exchange(self, child: asyncio.subprocess.Process, fetched: Fetched) -> Mapping[str, Any]:
        await _send(child, json.dumps({"media_type": fetched.media_type}).encode())
        await _send(child, fetched.content)
        return await _answer(child, self._limits.chars * _BYTES_PER_CHAR + 10_000)

    async def _living(self, shown: str) -> asyncio.subprocess.Process:
        """Return the child, started and warm."""
        if self._child is not None and self._child.returncode is None:
            return self._child
        await self.end()
        self._child = child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            _START,
            str(_ROOT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )
        limits = {"memory_bytes": self._limits.memory_bytes, "cpu_s": self._limits.cpu_s, "chars": self._limits.chars}
        ready = False
        try:
            async with asyncio.timeout(self._limits.start_s):
                await _send(child, json.dumps(limits).encode())
                await _answer(child, 1000)
            ready = True
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError, ValueError):
            message = f"{shown}: the reader of pages did not start"
            raise Unavailable(message) from None
        finally:
            if not ready:
                await self.end()
        return child


async def _send(child: asyncio.subprocess.Process, frame: bytes) -> None:
    if child.stdin is None:
        raise ConnectionError
    child.stdin.write(len(frame).to_bytes(4, "big") + frame)
    await child.stdin.drain()


async def _answer(child: asyncio.subprocess.Process, most_bytes: int) -> Mapping[str, Any]:
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
