"""Records the daemon's reports: job runs and clock steps in the ledger, the heartbeat in a file next to it.

A heartbeat every ten seconds would be three million rows a year, and only the last one matters.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from bot.core.errors import StoreError
from bot.daemon.runner import ClockStep, HealthEvent, HeartbeatRecord, JobOutcome, JobRun, VitalsRecorder
from bot.store.database import translate_errors
from bot.store.ledger import Ledger
from bot.store.private_files import read_private_file, replace_private_file

HEARTBEAT_FILE = "heartbeat.json"


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

    async def _record_event(self, event: HealthEvent) -> None:
        match event:
            case JobRun():
                await self._record_run(event)
            case HeartbeatRecord():
                await asyncio.to_thread(_write_heartbeat, self.folder / HEARTBEAT_FILE, event)
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


def read_last_heartbeat(folder: Path) -> datetime | None:
    """Return when a daemon last gave a sign of life in the folder; None if there is none that can be read."""
    try:
        return datetime.fromisoformat(json.loads(read_private_file(folder / HEARTBEAT_FILE))["at"])
    except (OSError, StoreError, ValueError, KeyError, TypeError):
        return None


def _write_heartbeat(path: Path, heartbeat: HeartbeatRecord) -> None:
    text = json.dumps(
        {"at": heartbeat.at.isoformat(), "lag_p99_s": heartbeat.lag_p99_s, "lag_max_s": heartbeat.lag_max_s}
    )
    with translate_errors(path):
        replace_private_file(path, text.encode(), durable=False)
