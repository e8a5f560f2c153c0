"""What the exit codes mean: the one table, printed by ``foxcast --help`` and held by every command."""

import signal
from enum import IntEnum

from bot.errors import (
    ConfigError,
    ContractError,
    FoxcastError,
    InstanceLocked,
    LeakError,
    LimitReached,
    NotFound,
    Rejected,
    StoreError,
    Unauthorized,
    Unavailable,
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


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "a job or a check failed, or an unexpected error",
    ExitCode.USAGE: "wrong usage or configuration",
    ExitCode.UNAVAILABLE: "the other side does not answer now, or to a submission; or trials failed, so that questions"
    " have no forecast",
    ExitCode.UNAUTHORIZED: "credentials missing or refused",
    ExitCode.STORE: "database or disk",
    ExitCode.RUNNING: "another Foxcast uses the state folder",
    ExitCode.LEAK: "data from after the cutoff",
    ExitCode.NOT_FOUND: "no such question, round or file",
    ExitCode.REFUSED: "a submission was refused, or a file or an answer is not in its documented form",
    ExitCode.TRIALS_FAILED: "done, but some trials of the forecasts failed",
    ExitCode.INTERRUPTED: "interrupted by the keyboard",
    ExitCode.PIPE: "nobody read the output any more",
    ExitCode.TERMINATED: "ended by SIGTERM",
}
# As a shell tells of a signal.
SIGNALS: dict[signal.Signals, ExitCode] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}

# The first class that fits decides, so a subclass stands before its parent.
CODES: tuple[tuple[type[FoxcastError], ExitCode], ...] = (
    (InstanceLocked, ExitCode.RUNNING),
    (StoreError, ExitCode.STORE),
    (ConfigError, ExitCode.USAGE),
    (Unavailable, ExitCode.UNAVAILABLE),
    (Unauthorized, ExitCode.UNAUTHORIZED),
    (LeakError, ExitCode.LEAK),
    (NotFound, ExitCode.NOT_FOUND),
    (ContractError, ExitCode.REFUSED),
    (Rejected, ExitCode.REFUSED),
    (LimitReached, ExitCode.FAILED),
)


def exit_code(error: FoxcastError) -> ExitCode:
    """Return the code that an error of the house ends a command with."""
    return next((code for kind, code in CODES if isinstance(error, kind)), ExitCode.FAILED)


def explained() -> str:
    """Return the whole table in one paragraph."""
    return "Exit codes: " + ", ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items()) + "."
