"""Records the daemon's reports: job runs and clock steps in the ledger, the heartbeat in a file next to it."""

import asyncio
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import Path

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.core.redaction import redact_message
from bot.daemon.runner import (
    ClockStep,
    DaemonExit,
    ExitReason,
    HealthEvent,
    HeartbeatRecord,
    JobOutcome,
    JobRun,
    VitalsRecorder,
)
from bot.store.event_log import CRASH_EVENT
from bot.store.heartbeat import DaemonHeartbeat, read_heartbeat, write_heartbeat
from bot.store.ledger import Ledger

# A job that was cut off at the end is no crash: the daemon was asked to stop.
_ASKED_REASONS = frozenset({ExitReason.DONE, ExitReason.ASKED, ExitReason.CUT})


@dataclass(slots=True)
class DaemonRecorder:
    """Records each report; ``halted`` is set when none can be recorded."""

    ledger: Ledger
    folder: Path
    halted: bool = False

    async def __call__(self, event: HealthEvent, /) -> None:
        """Record one report; raises StoreError where that fails."""
        try:
            await self._record_event(event)
        except StoreError as error:
            await self._halt(str(error), event)
            raise

    async def record_start(self, now: datetime) -> None:
        """Record the end of the last daemon if it was killed or gave up, then write the first heartbeat of this one."""
        last = read_heartbeat(self.folder)
        if last is not None and (last.ended is None or last.failed):
            how = "ended without being asked to" if last.ended is None else f"gave up ({last.ended})"
            text = f"the last daemon {how}; its last heartbeat was at {last.at:%Y-%m-%d %H:%M:%S} UTC"
            await self.ledger.events.add_event(CRASH_EVENT, text, at=now)
        await asyncio.to_thread(write_heartbeat, self.folder, DaemonHeartbeat(at=now))

    async def record_end(self, end: DaemonExit, now: datetime) -> None:
        """Record why the daemon ended, so that its silence is not taken for a crash; a full disk keeps that back."""
        ended = ": ".join(filter(None, (end.reason.value, end.detail)))
        heartbeat = DaemonHeartbeat(at=now, ended=redact_message(ended), failed=end.reason not in _ASKED_REASONS)
        with suppress(StoreError):
            await asyncio.to_thread(write_heartbeat, self.folder, heartbeat)

    async def _record_event(self, event: HealthEvent) -> None:
        match event:
            case JobRun():
                await self._record_run(event)
            case HeartbeatRecord():
                heartbeat = DaemonHeartbeat(at=event.at, lag_p99_s=event.lag_p99_s, lag_max_s=event.lag_max_s)
                await asyncio.to_thread(write_heartbeat, self.folder, heartbeat)
            case _:
                await self._record_clock_step(event)

    async def _halt(self, why: str, event: HealthEvent) -> None:
        """Log once why nothing is recorded any more.

        If the disk cannot hold that either, only the exit code shows it.
        """
        if not self.halted:
            self.halted = True
            with suppress(StoreError):
                await self.ledger.events.halt(why, at=event.started_at if isinstance(event, JobRun) else event.at)

    async def _record_clock_step(self, step: ClockStep) -> None:
        # A lease is a length of time, so its end moves with the clock.
        moved = await self.ledger.schedule.move_leases(timedelta(seconds=step.seconds))
        text = f"the wall clock was set by {step.seconds:+.1f} s, {moved} leases were moved by the same time"
        await self.ledger.events.add_event("clock", text, at=step.at)

    async def _record_run(self, run: JobRun) -> None:
        await self.ledger.events.job_run(
            run.job,
            started_at=run.started_at,
            ended_at=run.started_at + timedelta(seconds=run.took_s),
            ok=run.outcome is JobOutcome.DONE,
            detail=run.detail,
        )


@dataclass(slots=True)
class JobRunCollector:
    """Passes each report on and remembers the job runs, in order: for one pass, since a daemon has no last run."""

    record: VitalsRecorder
    runs: list[JobRun] = field(default_factory=list)

    async def __call__(self, event: HealthEvent, /) -> None:
        """Pass the report on; raises StoreError where it cannot be recorded."""
        if isinstance(event, JobRun):
            self.runs.append(event)
        await self.record(event)
