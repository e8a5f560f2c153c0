"""Alerts to a program: as JSON on its standard input, and as variables of its environment.

No shell is involved, so nothing in a message is a command. The program gets none of the keys in the environment of
Foxcast: only PATH, LC_ALL, and the variables ALERT_ID, _AT, _LEVEL, _SUBJECT and _TEXT.
"""

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from bot.api import (
    NotificationChannel,
    NotificationMessage,
    NotifierSpec,
    PluginContext,
    PluginSettings,
    ServiceUnavailableError,
    hookimpl,
)

MAX_REASON_BYTES = 500
READ_BYTES = 65_536


class CommandSettings(PluginSettings):
    """Which program is run, with which arguments."""

    programs: ClassVar[Sequence[str]] = ("run",)

    run: tuple[str, ...] = Field(min_length=1)
    """The program and its arguments, such as `["/usr/local/bin/page-me", "--urgent"]`; without a `/` it is searched in
    `/bin` and `/usr/bin`."""

    timeout_s: float = Field(default=30.0, gt=0, le=600)
    """Seconds after which the program is ended, and the alert counts as not delivered."""


@dataclass(frozen=True, slots=True)
class CommandChannel:
    """Implements ``NotificationChannel``."""

    settings: CommandSettings

    async def notify(self, message: NotificationMessage) -> None:
        """Run the program; raises ServiceUnavailableError unless it ends in time with exit code 0."""
        program = self.settings.run[0]
        fields = {
            "id": message.id,
            "at": message.at.isoformat(),
            "level": message.level.value,
            "subject": message.subject,
            "text": message.text,
        }
        variables = {f"ALERT_{name.upper()}": value for name, value in fields.items()}
        environment = {"LC_ALL": "C.UTF-8", "PATH": os.defpath, **variables}
        try:
            process = await asyncio.create_subprocess_exec(
                *self.settings.run, stdin=PIPE, stdout=DEVNULL, stderr=PIPE, env=environment, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "an argument contains a zero byte"
            message_text = f"{program} cannot be run: {reason}"
            raise ServiceUnavailableError(message_text) from error
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                reason_bytes = await _exchange(process, json.dumps(fields).encode())
        except TimeoutError as error:
            text = f"{program} did not end within {self.settings.timeout_s:g} s"
            raise ServiceUnavailableError(text) from error
        finally:
            await _end_process(process)
        if process.returncode:
            said = " ".join(reason_bytes.decode(errors="replace").split())
            text = f"{program} ended with exit code {process.returncode}" + (f": {said}" if said else "")
            raise ServiceUnavailableError(text)


async def _exchange(process: Process, content: bytes) -> bytes:
    """Give the program its input, wait for its end, and return the last that it wrote to its standard error."""
    tail = asyncio.create_task(_read_tail(process))
    try:
        if process.stdin is not None:
            # A program that reads nothing may end before it was given everything.
            with suppress(ConnectionError):
                process.stdin.write(content)
                await process.stdin.drain()
            process.stdin.close()
        await process.wait()
        return await tail
    finally:
        tail.cancel()


async def _read_tail(process: Process) -> bytes:
    tail = b""
    while process.stderr is not None and (chunk := await process.stderr.read(READ_BYTES)):
        tail = (tail + chunk)[-MAX_REASON_BYTES:]
    return tail


async def _end_process(process: Process) -> None:
    """End the program, and what it started and left running, where it has not ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def open_command(settings: CommandSettings, _: PluginContext) -> AsyncIterator[NotificationChannel]:
    """Open the channel; the program is run for each message."""
    yield CommandChannel(settings)


@hookimpl
def foxcast_notifiers() -> list[NotifierSpec[CommandSettings]]:
    """Describe the notifier."""
    summary = "Alerts to a program, on its standard input and in its environment"
    return [NotifierSpec(name="command", summary=summary, settings=CommandSettings, open=open_command)]
