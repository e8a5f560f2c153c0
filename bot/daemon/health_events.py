"""Health events of the daemon: finished job runs, heartbeats and steps of the wall clock."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.core.values import require_timezone


class JobOutcome(StrEnum):
    """How one run of a job ended."""

    DONE = "done"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One finished run of a job; ``detail`` is its own line about what it did, or the error."""

    job: str
    started_at: datetime
    took_s: float
    outcome: JobOutcome
    detail: str

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone("started_at", self.started_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRecord:
    """A sign of life: wall and monotonic time, and the recent lag of the event loop, in seconds."""

    at: datetime
    monotonic_s: float
    lag_p99_s: float
    lag_max_s: float

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone("beat at", self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """The wall clock was set forward by ``seconds``, or back where negative: leases and locks must be adjusted."""

    at: datetime
    seconds: float

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_timezone("clock step at", self.at)


HealthEvent = JobRun | HeartbeatRecord | ClockStep
