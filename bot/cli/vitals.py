"""Where the daemon's reports go: runs of jobs and clock steps into the ledger, the heartbeat into a file beside it.

A heartbeat every ten seconds would be three million rows a year, and only the last one says anything.
"""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from bot.domain.vitals import Beat, ClockStep, JobRun, Outcome, Vital
from bot.errors import StoreError
from bot.store.ledger import Ledger

HEARTBEAT_FILE = "heartbeat.json"


@dataclass(slots=True)
class Recorder:
    """Keeps each report; ``runs`` are the job runs of this process, in order."""

    ledger: Ledger
    folder: Path
    runs: list[JobRun] = field(default_factory=list)

    async def __call__(self, vital: Vital, /) -> None:
        """Keep one report; raises StoreError where that fails."""
        match vital:
            case JobRun():
                self.runs.append(vital)
                await self._keep_run(vital)
            case Beat():
                await asyncio.to_thread(_write_beat, self.folder / HEARTBEAT_FILE, vital)
            case ClockStep(at=at, seconds=seconds):
                await self.ledger.journal.note("clock", f"the wall clock was set by {seconds:+.1f} s", at=at)

    async def _keep_run(self, run: JobRun) -> None:
        await self.ledger.journal.job_run(
            run.job,
            started_at=run.started_at,
            ended_at=run.started_at + timedelta(seconds=run.took_s),
            ok=run.outcome is Outcome.DONE,
            detail=run.detail,
        )


def last_beat(folder: Path) -> datetime | None:
    """Return when a daemon last gave a sign of life in the folder; None if none readable did."""
    try:
        return datetime.fromisoformat(json.loads((folder / HEARTBEAT_FILE).read_bytes())["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_beat(path: Path, beat: Beat) -> None:
    text = json.dumps({"at": beat.at.isoformat(), "lag_p99_s": beat.lag_p99_s, "lag_max_s": beat.lag_max_s})
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="ascii")
        partial.replace(path)
    except OSError as error:
        message = f"{path}: {error.strerror}; look at the disk and the rights of the folder"
        raise StoreError(message) from error
