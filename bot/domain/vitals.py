"""What the daemon reports about its own work and health."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.domain.question import require_aware


class Outcome(StrEnum):
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
    outcome: Outcome
    detail: str

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_aware("started_at", self.started_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign of life: wall and monotonic time, and how late the event loop ran lately, in seconds."""

    at: datetime
    monotonic_s: float
    lag_p99_s: float
    lag_max_s: float

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_aware("beat at", self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """The wall clock was set, by ``seconds`` forward, or back where negative: leases and locks need a new look."""

    at: datetime
    seconds: float

    def __post_init__(self) -> None:
        """Check the time zone."""
        require_aware("clock step at", self.at)


Vital = JobRun | Beat | ClockStep
