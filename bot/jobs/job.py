"""What a job is. The daemon knows nothing else about what it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from bot.core.light_dataclass import dataclass

JOB_TIME_LIMIT = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonJob:
    """Work that is repeated at an interval; ``run`` returns one line about what it did, for the log and the ledger.

    A run that takes longer than ``time_limit`` hangs, and is stopped. When ``run_requested`` is set the daemon does not
    wait for the next slot: it clears the event and runs the job, after a run that may be under way.
    """

    name: str
    summary: str
    interval: timedelta
    run: Callable[[], Awaitable[str]]
    time_limit: timedelta = JOB_TIME_LIMIT
    run_requested: asyncio.Event | None = None
