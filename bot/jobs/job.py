"""The form of a job: the daemon knows nothing else about what it runs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

JOB_LIMIT = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work to be done every so often; ``run`` returns one line about what it did, for the log and the ledger.

    A run that takes longer than ``limit`` hangs, and is stopped. A daemon does not wait for the job's time once
    ``wanted`` is set: it clears that and runs the job, after the run that may be under way.
    """

    name: str
    summary: str
    every: timedelta
    run: Callable[[], Awaitable[str]]
    limit: timedelta = JOB_LIMIT
    wanted: asyncio.Event | None = None
