"""Runs Python programs that models wrote, each in a child process of its own, in an interpreter without files.

Layers between such a program and this machine, from inside to outside: the interpreter (``pydantic_monty``, its
own implementation of a part of Python: no system calls, limits of time, memory and depth); its worker process; the
child that holds the worker, with limits of the system and, if the system grants it, without any network; an
environment without keys. What remains: an attacker who finds a hole in that interpreter has the rights of the user
that runs Foxcast: to read files and, if the system cannot remove the network, to use it, until the time is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec

from bot.core.child_process import MINIMAL_ENVIRONMENT, child_command
from bot.core.errors import ServiceUnavailableError
from bot.forecasting.services import CalculationResult

_COMMAND = tuple(child_command("bot.forecasting.calculator_process:run_request", is_isolated=True))
_BYTES_PER_CHAR = 6
_MiB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CalculationLimits:
    """``seconds`` limits the program, ``start_s`` everything else that the child does; ``memory_bytes`` is the heap.

    ``space_bytes`` limits the address space of each process; ``chars`` limits the output and the value, each.
    """

    seconds: float = 5.0
    start_s: float = 10.0
    memory_bytes: int = 64 * _MiB
    space_bytes: int = 1024 * _MiB
    chars: int = 4_000
    children: int = 2


DEFAULT_LIMITS = CalculationLimits()


class SubprocessCalculator:
    """Implements ``bot.forecasting.services.PythonCalculator``; no process survives the end of a program.

    ``command`` starts the child: it reads one JSON object and writes one.
    """

    def __init__(self, limits: CalculationLimits = DEFAULT_LIMITS, *, command: Sequence[str] = _COMMAND) -> None:
        self._limits = limits
        self._command = command
        self._slots = asyncio.Semaphore(limits.children)

    async def run(self, code: str, *, now: datetime) -> CalculationResult:
        """Return the result of the program; raises ServiceUnavailableError if its child gave no valid answer."""
        limits = self._limits
        asked = {
            "code": code,
            "now": now.isoformat(),
            "seconds": limits.seconds,
            "memory_bytes": limits.memory_bytes,
            "space_bytes": limits.space_bytes,
            "chars": limits.chars,
        }
        async with self._slots:
            answer = await self._answer(json.dumps(asked).encode())
        try:
            return CalculationResult(**{name: str(text) for name, text in json.loads(answer).items()})
        except (AttributeError, TypeError, ValueError):
            message = "the calculator gave an invalid answer"
            raise ServiceUnavailableError(message) from None

    async def _answer(self, asked: bytes) -> bytes:
        child = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=MINIMAL_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limits.seconds + self._limits.start_s):
                return await _exchange_bytes(child, asked, 3 * self._limits.chars * _BYTES_PER_CHAR + 10_000)
        except (TimeoutError, ConnectionError):
            message = "the calculator did not answer in time"
            raise ServiceUnavailableError(message) from None
        finally:
            # Its worker is in the same group and ends with it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            # Reads the rest of the pipes, since the end of the process waits for that.
            await child.communicate()


def find_calculator() -> SubprocessCalculator | None:
    """Return a calculator if its interpreter is installed (the extra ``calculate``)."""
    return SubprocessCalculator() if find_spec("pydantic_monty") is not None else None


async def _exchange_bytes(child: asyncio.subprocess.Process, asked: bytes, most_bytes: int) -> bytes:
    if child.stdin is None or child.stdout is None:
        raise ConnectionError
    child.stdin.write(asked)
    child.stdin.write_eof()
    answer = bytearray()
    # The rest of an answer that is too long is never read.
    while len(answer) <= most_bytes and (piece := await child.stdout.read(65_536)):
        answer += piece
    return bytes(answer)
