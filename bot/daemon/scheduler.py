"""APScheduler as a pure ticker: in memory, in UTC, with slots that no restart, delay or clock can move.

The settings follow docs/facts/reliability.md#daemon-settings. Two things differ, both measured on 3.11.3. Slots come
from our own trigger instead of IntervalTrigger, because IntervalTrigger adds its jitter to the previous, already
jittered run (the slots drift off their anchor) and lists every slot missed while away (a clock set from 1970 to today
costs minutes of a blocked loop and gigabytes). Jobs are spread by a fixed phase per job instead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Self

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobSubmissionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from bot.core.clock import SeededRandom

log = structlog.get_logger(__name__)

# All slots are counted from here, whenever the process was started.
SLOT_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
# The share of its period by which a job may be moved, so that jobs and installations do not all call at once.
MAX_PHASE_SHARE = 0.1
RETRY_S = 1.0


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Moments at EPOCH + phase + k * every: the same ones after every restart.

    Raises ValueError for a period that is not positive.
    """

    def __init__(self, *, every: timedelta, phase: timedelta = timedelta()) -> None:
        if every <= timedelta():
            message = f"a job cannot run every {every}"
            raise ValueError(message)
        self.every = every
        self.origin = SLOT_EPOCH + phase

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the first slot after both moments: slots missed meanwhile are one slot, whatever their number."""
        after = now if previous_fire_time is None else max(previous_fire_time, now)
        return self.origin + ((after - self.origin) // self.every + 1) * self.every


class JobScheduler(AsyncIOScheduler):  # type: ignore[misc]  # APScheduler ships no types
    """An AsyncIOScheduler that survives its own failures.

    In APScheduler 3.11.3 one exception in the wake-up cancels the timer for good while ``running`` stays True. It ticks
    while entered; on exit it cancels the runs that are still under way.
    """

    def __init__(self, *, seed: int) -> None:
        super().__init__(
            timezone=UTC,
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )
        self.failures = 0
        self._random = SeededRandom(seed)
        # Its line per run repeats what is recorded; nobody else reports what it logs as an error.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self.add_listener(_log_overrun, EVENT_JOB_MAX_INSTANCES)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        gone = asyncio.get_running_loop().create_future()
        self.shutdown(wait=False)
        # The library shuts down in the loop's next turn, before this.
        gone.get_loop().call_soon(gone.set_result, None)
        await gone

    def schedule_every(self, period: timedelta, name: str, run: Callable[[], Awaitable[object]]) -> None:
        """Run and await it at every slot of the period; skip a slot while it still runs."""

        # The library would hand any callable but a plain coroutine function to a thread and await nothing.
        async def tick() -> None:
            await run()

        phase = period * float(self._random.stream("slot", name).uniform(0.0, MAX_PHASE_SHARE))
        self.add_job(tick, SlotTrigger(every=period, phase=phase), id=name, name=name)

    def realign(self, now: datetime) -> None:
        """Recompute the slots after the wall clock was set, and look for work at once.

        Otherwise, after a clock was set back by an hour, every job would wait for that hour. A slot that is overdue,
        after a step forward, stays due.
        """
        for job in self.get_jobs():
            job.modify(next_run_time=min(job.next_run_time, job.trigger.get_next_fire_time(None, now)))
        self.wakeup()

    def _process_jobs(self) -> float | None:
        try:
            delay: float | None = super()._process_jobs()
        except Exception:
            # The timer must be set again after any error.
            if not self.failures:
                log.exception("scheduler fails", retry_s=RETRY_S)
            self.failures += 1
            return RETRY_S
        if self.failures:
            log.info("scheduler works again", failures=self.failures)
            self.failures = 0
        return delay


def _log_overrun(event: JobSubmissionEvent) -> None:
    log.debug("job still runs, slot skipped", job=event.job_id)
