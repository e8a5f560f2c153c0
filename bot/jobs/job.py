"""The form of a job: the daemon knows nothing else about what it runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work to be done every so often; ``run`` returns one line about what it did, for the log and the ledger."""

    name: str
    summary: str
    every: timedelta
    run: Callable[[], Awaitable[str]]
