"""Runs pieces of Python that models wrote, each in a child process of its own, in an interpreter that knows no files.

What stands between such a program and this machine, from inside to outside: the interpreter (``pydantic_monty``, its
own implementation of a part of Python: no system calls, limits of time, memory and depth); its worker process; the
child that holds the worker, with limits of the system and, where the system grants it, without any network; an
environment without a key. What this does not stop: who finds a hole in that interpreter has the rights of the user that
runs Foxcast to read files and, where the system grants no network apart, to use the network, until the time is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from bot.desk.parts import Sum
from bot.errors import Unavailable

# The child runs the code of this very tree, whatever else is installed.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from bot.desk.reckoner import main; main()"
_ROOT = Path(__file__).resolve().parents[2]
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
_BYTES_PER_CHAR = 6
_MiB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLimits:
    """``seconds`` bounds the program, ``start_s`` what else the child needs; ``memory_bytes`` is the program's heap.

    ``space_bytes`` bounds the address space of each process, ``chars`` what is printed and the value, each.
    """

    seconds: float = 5.0
    start_s: float = 10.0
    memory_bytes: int = 64 * _MiB
    space_bytes: int = 1024 * _MiB
    chars: int = 4_000
    children: int = 2


DEFAULT_LIMITS = SumLimits()


class ChildCalculator:
    """Implements ``bot.desk.parts.Calculator``; nothing is left of a program when it has ended.

    ``start`` is what the child runs: one JSON object in, one out.
    """

    def __init__(self, limits: SumLimits = DEFAULT_LIMITS, *, start: str = _START) -> None:
        self._limits = limits
        self._start = start
        self._turns = asyncio.Semaphore(limits.children)

    async def run(self, code: str, *, now: datetime) -> Sum:
        """Return what the program came to; raises Unavailable where its child did not answer as it should."""
        limits = self._limits
        asked = {
            "code": code,
            "now": now.isoformat(),
            "seconds": limits.seconds,
            "memory_bytes": limits.memory_bytes,
            "space_bytes": limits.space_bytes,
            "chars": limits.chars,
        }
        async with self._turns:
            said = await self._answer(json.dumps(asked).encode())
        try:
            return Sum(**{name: str(text) for name, text in json.loads(said).items()})
        except (AttributeError, TypeError, ValueError):
            message = "the calculator answered oddly"
            raise Unavailable(message) from None

    async def _answer(self, asked: bytes) -> bytes:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            self._start,
            str(_ROOT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limits.seconds + self._limits.start_s):
                return await _exchange(child, asked, 3 * self._limits.chars * _BYTES_PER_CHAR + 10_000)
        except (TimeoutError, ConnectionError):
            message = "the calculator did not answer in time"
            raise Unavailable(message) from None
        finally:
            # Its worker is in the same group, and ends with it whatever it was doing.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            # Takes what is left in the pipes, which the end of the process waits for.
            await child.communicate()


def calculator() -> ChildCalculator | None:
    """Return a calculator where its interpreter is installed (the extra ``calculate``)."""
    return ChildCalculator() if find_spec("pydantic_monty") is not None else None


async def _exchange(child: asyncio.subprocess.Process, asked: bytes, most_bytes: int) -> bytes:
    if child.stdin is None or child.stdout is None:
        raise ConnectionError
    child.stdin.write(asked)
    child.stdin.write_eof()
    said = bytearray()
    # The rest of an answer that is too long to be one is never read.
    while len(said) <= most_bytes and (piece := await child.stdout.read(65_536)):
        said += piece
    return bytes(said)
