"""The form of a job: the daemon knows nothing else about what it runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

JOB_LIMIT = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work to be done every so often; ``run`` returns one line about what it did, for the log and the ledger.

    A run that takes longer than ``limit`` hangs, and is stopped.
    """

    name: str
    summary: str
    every: timedelta
    run: Callable[[], Awaitable[str]]
    limit: timedelta = JOB_LIMIT
