"""Runs one job at a time to its recorded end, whatever it raises.

Also the health events that the daemon reports, the limits by which it watches itself, and the reasons for which it can
end.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import structlog

from bot.core.concurrency import reject_unrequested_cancellation
from bot.core.errors import ServiceUnavailableError, StoreError, describe_error
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.values import require_timezone
from bot.jobs.job import DaemonJob


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


# How long running jobs may take to finish after a request to stop.
DRAIN_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLimits:
    """How the daemon watches itself; all durations in seconds.

    ``seed`` spreads the slots of this installation apart from those of others; ``notify_socket`` is where the
    supervisor listens (systemd's NOTIFY_SOCKET), if there is one. The defaults are those of
    docs/facts/reliability.md#daemon-settings. Raises ValueError unless heartbeat < wake < abort.
    """

    seed: int = 0
    notify_socket: str | None = None
    heartbeat_s: float = 10.0
    check_every_s: float = 5.0
    wake_after_s: float = 30.0
    abort_after_s: float = 120.0
    clock_step_s: float = 5.0
    lag_every_s: float = 0.1
    lag_warn_s: float = 0.25
    drain_s: float = DRAIN_TIMEOUT_S

    def __post_init__(self) -> None:
        """Refuse limits under which a healthy daemon would count as dead."""
        if not 0.0 < self.heartbeat_s < self.wake_after_s < self.abort_after_s:
            limits = f"{self.heartbeat_s}, {self.wake_after_s}, {self.abort_after_s} s"
            message = f"the watchdog needs heartbeat < wake < abort, got {limits}"
            raise ValueError(message)
        intervals = (self.check_every_s, self.clock_step_s, self.lag_every_s, self.lag_warn_s, self.drain_s)
        if not all(interval > 0.0 for interval in intervals):
            message = f"the intervals of the watchdog must be positive: {self}"
            raise ValueError(message)


class VitalsRecorder(Protocol):
    """Where the daemon's reports go, usually the ledger."""

    async def __call__(self, event: HealthEvent, /) -> None:
        """Record one report; a StoreError ends the daemon, since its work could no longer be recorded."""
        ...


class ExitReason(StrEnum):
    """Why the daemon, or one pass of it, ended."""

    DONE = "every job did its work"
    FAILED = "a job failed"
    UNAUTHORIZED = "a job's credentials were refused"
    UNAVAILABLE = "what a job needs is not available now"
    ASKED = "asked to stop"
    CUT = "asked to stop, and a job was cut off"
    STORE = "the store needs attention"
    STALLED = "the scheduler stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonExit:
    """The end of a run; ``detail`` names the jobs concerned, or the error with its remedy."""

    reason: ExitReason
    detail: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed and nothing was cut off."""
        return self.reason in {ExitReason.DONE, ExitReason.ASKED}


log = structlog.get_logger(__name__)


# A cancelled job gets this long to unwind; its ``finally`` blocks are short, its network calls are already cancelled.
UNWIND_TIMEOUT_S = 1.0


class JobRunner:
    """Runs jobs, reports how they ended, and knows why everything has to stop.

    ``exit`` stays None until something worse than a failing job happens; ``stop`` is set with it, and is the event that
    the jobs see too. ``started`` are the jobs that ran at all, ``failing`` those whose last run failed, each with its
    error in ``errors``.
    """

    def __init__(self, *, clock: Clock, record: VitalsRecorder, stop: asyncio.Event) -> None:
        self.clock = clock
        self.stop = stop
        self.exit: DaemonExit | None = None
        self.failing: dict[str, JobOutcome] = {}
        self.errors: dict[str, Exception] = {}
        self.started: set[str] = set()
        self._last_details: dict[str, str] = {}
        self._job_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._record = record
        self._running: dict[asyncio.Task[object], str] = {}

    async def run(self, job: DaemonJob) -> None:
        """Run the job once, or not at all when asked to stop; only cancellation leaves this method as an error.

        It waits for a run of the same job that is under way.
        """
        async with self._job_locks[job.name]:
            if not self.stop.is_set():
                await self._run(job)

    async def run_if_free(self, job: DaemonJob) -> None:
        """Do the same as ``run``, or nothing while the same job runs."""
        if not self._job_locks[job.name].locked():
            await self.run(job)

    async def _run(self, job: DaemonJob) -> None:
        started_at, start = self.clock.now(), self.clock.monotonic()
        self.started.add(job.name)
        with self.track(job.name):
            outcome, detail, error = await self._attempt(job)
            took_s = self.clock.monotonic() - start
            self._log_outcome(job.name, outcome, error)
            self._log_detail(job.name, detail)
            await self.record_vital(
                JobRun(job=job.name, started_at=started_at, took_s=took_s, outcome=outcome, detail=detail)
            )

    @contextmanager
    def track(self, name: str) -> Iterator[None]:
        """Count the work of the present task as running, so that ``drain`` waits for it."""
        if (task := asyncio.current_task()) is None:
            message = f"{name} runs outside any task"
            raise RuntimeError(message)
        self._running[task] = name
        try:
            yield
        finally:
            self._running.pop(task, None)

    async def record_vital(self, event: HealthEvent) -> None:
        """Record the report; give up where the store cannot hold it.

        This is how a full disk ends the daemon. A job's own StoreError (a backup that failed, a read that took too
        long) is only one failed run: what matters is whether anything can still be recorded.
        """
        try:
            await self._record(event)
        except StoreError as error:
            self.give_up(ExitReason.STORE, str(error))

    def give_up(self, reason: ExitReason, detail: str) -> None:
        """Stop everything for this reason; only the first reason counts."""
        if self.exit is None:
            log.error("daemon gives up", reason=reason.value, detail=detail)
            self.exit = DaemonExit(reason=reason, detail=detail)
        self.stop.set()

    async def drain(self, limit_s: float) -> list[str]:
        """Let running jobs finish for that long, cancel the others, and return their names."""
        if self._running:
            await asyncio.wait([*self._running], timeout=limit_s)
        cancelled, names = [*self._running], sorted(self._running.values())
        for task in cancelled:
            task.cancel()
        if cancelled:
            log.warning("jobs cut off", jobs=names, after_s=limit_s)
            await asyncio.wait(cancelled, timeout=UNWIND_TIMEOUT_S)
        # A job that ignores its cancellation is not waited for again.
        self._running.clear()
        return names

    async def _attempt(self, job: DaemonJob) -> tuple[JobOutcome, str, Exception | None]:
        limit = asyncio.timeout(job.time_limit.total_seconds())
        try:
            async with limit:
                with reject_unrequested_cancellation("the job"):
                    return JobOutcome.DONE, await job.run(), None
        except ServiceUnavailableError as error:
            return JobOutcome.UNAVAILABLE, str(error), error
        except Exception as error:  # noqa: BLE001 - a bug in one job must not cost the work of all others
            why = f"stopped after {job.time_limit}" if limit.expired() else describe_error(error)
            return JobOutcome.FAILED, why, error

    def _log_outcome(self, name: str, outcome: JobOutcome, error: Exception | None) -> None:
        """Log a job when it starts to fail and when it recovers, not at every run between."""
        if error is None:
            self.errors.pop(name, None)
        else:
            self.errors[name] = error
        if outcome is self.failing.get(name, JobOutcome.DONE):
            return
        if outcome is JobOutcome.DONE:
            del self.failing[name]
            log.info("job works again", job=name)
            return
        self.failing[name] = outcome
        if outcome is JobOutcome.UNAVAILABLE:
            log.warning("job must wait", job=name, why=str(error))
        else:
            log.error("job failed", job=name, exc_info=error)

    def _log_detail(self, name: str, detail: str) -> None:
        """Log what a job did when that differs from the last time; the ledger has every run."""
        if name in self.failing or detail == self._last_details.get(name):
            return
        self._last_details[name] = detail
        log.info("job done", job=name, what=detail)


def require_unique_names(jobs: Sequence[str]) -> None:
    """Raise ValueError for a name that two jobs share: reports could not tell them apart."""
    duplicates = sorted(name for name, count in Counter(jobs).items() if count > 1)
    if duplicates:
        message = f"every job needs a unique name; used twice: {duplicates}"
        raise ValueError(message)
