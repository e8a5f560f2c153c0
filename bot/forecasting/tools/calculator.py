"""The calculate tool: runs a Python program that a model wrote, each in a child process of its own, without files.

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec

from bot.core.child_process import MINIMAL_ENVIRONMENT, child_command
from bot.core.errors import FoxcastError, ServiceUnavailableError
from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.forecasting.services import CalculationResult, PythonCalculator
from bot.forecasting.tools.base import ToolContext, define_tool, describe_failure, text_schema
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.forecasting.untrusted_text import clean_text

_COMMAND = tuple(child_command("bot.forecasting.tools.calculator_process:run_request", is_isolated=True))
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
        request = {
            "code": code,
            "now": now.isoformat(),
            "seconds": limits.seconds,
            "memory_bytes": limits.memory_bytes,
            "space_bytes": limits.space_bytes,
            "chars": limits.chars,
        }
        async with self._slots:
            answer = await self._answer(json.dumps(request).encode())
        try:
            return CalculationResult(**{name: str(text) for name, text in json.loads(answer).items()})
        except (AttributeError, TypeError, ValueError):
            message = "the calculator gave an invalid answer"
            raise ServiceUnavailableError(message) from None

    async def _answer(self, request: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
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
                return await _exchange_bytes(process, request, 3 * self._limits.chars * _BYTES_PER_CHAR + 10_000)
        except (TimeoutError, ConnectionError):
            message = "the calculator did not answer in time"
            raise ServiceUnavailableError(message) from None
        finally:
            # Its worker is in the same group and ends with it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            # Reads the rest of the pipes, since the end of the process waits for that.
            await process.communicate()


def find_calculator() -> SubprocessCalculator | None:
    """Return a calculator if its interpreter is installed (the extra ``calculate``)."""
    return SubprocessCalculator() if find_spec("pydantic_monty") is not None else None


async def _exchange_bytes(process: asyncio.subprocess.Process, request: bytes, max_bytes: int) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise ConnectionError
    process.stdin.write(request)
    process.stdin.write_eof()
    answer = bytearray()
    # The rest of an answer that is too long is never read.
    while len(answer) <= max_bytes and (piece := await process.stdout.read(65_536)):
        answer += piece
    return bytes(answer)


CALCULATE = "calculate"
_CODE_CHARS = 4_000
_SHOWN_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class CalculateTool:
    """Runs code with its clock fixed at the cutoff and its random numbers seeded, so that each run gives the same."""

    context: ToolContext
    calculator: PythonCalculator

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            CALCULATE,
            "Run a short Python program (no files, no network, a few seconds; of the library math, random, itertools, "
            "collections, datetime, decimal, json and re). You see what it prints and the value of its last line.",
            {"code": text_schema("The program.", _CODE_CHARS)},
            required=("code",),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        try:
            found = await self.calculator.run(str(arguments["code"]), now=self.context.data_before)
        except FoxcastError as error:
            self.context.warn("calculation failed", "calculator", error)
            message = f"Nothing was calculated: {describe_failure(error)}."
            raise ToolCallError(message) from error
        return ToolOutcome(
            text=self._describe_result(found), data=found.value or found.printed, failed=bool(found.error)
        )

    def _describe_result(self, found: CalculationResult) -> str:
        """Return its output, fenced: the program may hold words of others, and print text that looks like a source."""
        parts = {"": found.printed, "value: ": found.value, "error: ": found.error}
        lines = [f"{name}{clean_text(text, _SHOWN_CHARS)}" for name, text in parts.items() if text]
        if not lines:
            return "It printed nothing, and its last line has no value."
        return self.context.fence("\n".join(lines), "what the program printed", len(parts) * (_SHOWN_CHARS + 100))
