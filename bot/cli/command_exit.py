"""How a command ends: the table of exit codes, and SIGTERM, which ends a command as cleanly as Ctrl-C."""

import asyncio
import signal
from collections.abc import Coroutine
from enum import IntEnum
from typing import Any, TypeVar

from bot.core.errors import (
    AuthenticationError,
    ConfigError,
    FoxcastError,
    LeakError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
    StateFolderLockedError,
    StoreError,
    TrialLimitReachedError,
)


class ExitCode(IntEnum):
    """How a command ended, for scripts."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    UNAUTHORIZED = 4
    STORE = 5
    RUNNING = 6
    LEAK = 7
    NOT_FOUND = 8
    REFUSED = 9
    TRIALS_FAILED = 10
    INTERRUPTED = 130
    PIPE = 141
    TERMINATED = 143


EXIT_CODE_MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "a job or a check failed, or an unexpected error",
    ExitCode.USAGE: "wrong usage or configuration",
    ExitCode.UNAVAILABLE: "venue or provider unavailable, or failed trials left questions without a forecast",
    ExitCode.UNAUTHORIZED: "credentials missing or refused",
    ExitCode.STORE: "database or disk",
    ExitCode.RUNNING: "another Foxcast uses the state folder",
    ExitCode.LEAK: "data from after the cutoff",
    ExitCode.NOT_FOUND: "no such question, round or file",
    ExitCode.REFUSED: "submission refused, or invalid file or answer",
    ExitCode.TRIALS_FAILED: "done, but some trials of the forecasts failed",
    ExitCode.INTERRUPTED: "interrupted by the keyboard",
    ExitCode.PIPE: "the reader of the output closed it",
    ExitCode.TERMINATED: "ended by SIGTERM",
}


# The codes that a shell uses for signals.
SIGNAL_EXIT_CODES: dict[signal.Signals, ExitCode] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


# The first matching class decides, so a subclass comes before its parent.
ERROR_EXIT_CODES: tuple[tuple[type[FoxcastError], ExitCode], ...] = (
    (StateFolderLockedError, ExitCode.RUNNING),
    (StoreError, ExitCode.STORE),
    (ConfigError, ExitCode.USAGE),
    (ServiceUnavailableError, ExitCode.UNAVAILABLE),
    (AuthenticationError, ExitCode.UNAUTHORIZED),
    (LeakError, ExitCode.LEAK),
    (NotFoundError, ExitCode.NOT_FOUND),
    (MalformedDataError, ExitCode.REFUSED),
    (RequestRejectedError, ExitCode.REFUSED),
    (TrialLimitReachedError, ExitCode.FAILED),
)


def exit_code(error: FoxcastError) -> ExitCode:
    """Return the exit code for an error."""
    return next((code for kind, code in ERROR_EXIT_CODES if isinstance(error, kind)), ExitCode.FAILED)


def exit_code_help() -> str:
    """Return the table of exit codes as one paragraph."""
    return "Exit codes: " + ", ".join(f"{code.value} {meaning}" for code, meaning in EXIT_CODE_MEANINGS.items()) + "."


T = TypeVar("T")


class TerminatedBySignal(Exception):
    """The process received SIGTERM, and the work was cancelled cleanly."""


def run_until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """Run as ``asyncio.run`` does; SIGTERM cancels the work as Ctrl-C does, so that resources are closed.

    Raises TerminatedBySignal then; a second SIGTERM ends the process at once. Must be called in the main thread.
    """
    return asyncio.run(_await_until_sigterm(work))


async def _await_until_sigterm(work: Coroutine[Any, Any, T]) -> T:
    loop, task, terminated = asyncio.get_running_loop(), asyncio.ensure_future(work), asyncio.Event()

    def cancel_task() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        terminated.set()
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, cancel_task)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated.is_set():
            raise TerminatedBySignal from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
