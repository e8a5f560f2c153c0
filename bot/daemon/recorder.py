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

HEARTBEAT_FILE = "heartbeat.json"


@dataclass(slots=True)
class DaemonRecorder:
    """Records each report; ``halted`` is set when none can be recorded."""

    ledger: Ledger
    folder: Path
    halted: bool = False

    async def __call__(self, vital: HealthEvent, /) -> None:
        """Record one report; raises StoreError where that fails."""
        try:
            await self._keep(vital)
        except StoreError as error:
            await self._halt(str(error), vital)
            raise

    async def _keep(self, vital: HealthEvent) -> None:
        match vital:
            case JobRun():
                await self._keep_run(vital)
            case HeartbeatRecord():
                await asyncio.to_thread(_write_heartbeat, self.folder / HEARTBEAT_FILE, vital)
            case _:
                await self._keep_step(vital)

    async def _halt(self, why: str, vital: HealthEvent) -> None:
        """Log once why nothing is recorded any more.

        If the disk cannot hold that either, only the exit code shows it.
        """
        if not self.halted:
            self.halted = True
            with suppress(StoreError):
                await self.ledger.events.halt(why, at=vital.started_at if isinstance(vital, JobRun) else vital.at)

    async def _keep_step(self, step: ClockStep) -> None:
        # A lease is a length of time, so its end moves with the clock.
        moved = await self.ledger.schedule.move_leases(timedelta(seconds=step.seconds))
        text = f"the wall clock was set by {step.seconds:+.1f} s, {moved} leases were moved by the same time"
        await self.ledger.events.add_event("clock", text, at=step.at)

    async def _keep_run(self, run: JobRun) -> None:
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

    async def __call__(self, vital: HealthEvent, /) -> None:
        """Pass the report on; raises StoreError where it cannot be recorded."""
        if isinstance(vital, JobRun):
            self.runs.append(vital)
        await self.record(vital)


def read_last_heartbeat(folder: Path) -> datetime | None:
    """Return when a daemon last gave a sign of life in the folder; None if there is none that can be read."""
    try:
        return datetime.fromisoformat(json.loads((folder / HEARTBEAT_FILE).read_bytes())["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_heartbeat(path: Path, beat: HeartbeatRecord) -> None:
    text = json.dumps({"at": beat.at.isoformat(), "lag_p99_s": beat.lag_p99_s, "lag_max_s": beat.lag_max_s})
    partial = path.with_name(f".{path.name}.partial")
    with translate_errors(path):
        partial.write_text(text, encoding="ascii")
        partial.replace(path)
