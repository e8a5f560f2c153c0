"""How things stand: gathered from config, the lock, the heartbeat and the ledger, none of which is changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bot.app import LEDGER_FILE, folder_of, open_records
from bot.cli.failed_trials import RECENTLY
from bot.cli.vitals import last_beat
from bot.config.model import Config
from bot.domain.submission import IntentState, Mode
from bot.gate.brake import STOP_FILE, besides
from bot.store import stops
from bot.store.backup import Backup, backups
from bot.store.failures import RecentFailures, failures_since
from bot.store.journal import Event, JobRun
from bot.store.ledger import BACKUP_FOLDER, Ledger
from bot.store.lock import is_running, last_holder
from bot.store.restore import Restored, restored
from bot.store.stops import Stop

UNDECIDED_COUNTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How one Foxcast stands: ``counts`` is None without a ledger, ``halted`` is the stop file if it is there.

    ``failures`` is what went wrong with trials in the last day; None without a ledger. ``stops`` are those that nobody
    has resumed, but for the one that made the stop file. ``halt`` is how the disk ended the last run, ``restored`` the
    restore that still holds everything back.
    """

    modes: Mapping[str, Mode]
    running: bool
    heartbeat: datetime | None
    halted: Path | None
    stops: Sequence[Stop]
    halt: Event | None
    restored: Restored | None
    ledger: Path
    counts: Mapping[str, int] | None
    last_backup: Backup | None
    failures: RecentFailures | None
    runs: tuple[JobRun, ...]


async def overview_of(config: Config, now: datetime) -> Overview:
    """Gather how things stand at the moment."""
    folder = folder_of(config)
    path, stop = folder / LEDGER_FILE, config.state / STOP_FILE
    holder = last_holder(folder)
    copies = backups(folder / BACKUP_FOLDER, path.stem)
    counts: dict[str, int] | None = None
    runs: tuple[JobRun, ...] = ()
    halt: Event | None = None
    standing: Sequence[Stop] = ()
    failures: RecentFailures | None = None
    if path.exists():
        async with open_records(config) as records:
            counts, runs = await _counts(records.ledger, now), tuple(await records.ledger.journal.last_runs())
            halt = await records.ledger.journal.standing_halt()
            standing = await records.ledger.leave.read(stops.standing)
            failures = await failures_since(records.ledger.forecasts.readers, now - RECENTLY)
    return Overview(
        modes={name: config.mode_of(name) for name in config.venues},
        running=holder is not None and is_running(holder),
        heartbeat=last_beat(folder),
        halted=stop if stop.exists() else None,
        stops=besides(stop, standing),
        halt=halt,
        restored=restored(path),
        ledger=path,
        counts=counts,
        last_backup=copies[0] if copies else None,
        failures=failures,
        runs=runs,
    )


async def _counts(ledger: Ledger, now: datetime) -> dict[str, int]:
    planned = await ledger.schedule.counts(now)
    intents: dict[str, int] = {}
    for row in await ledger.submissions.batches(states=[*IntentState]):
        for state, count in row.counts.items():
            intents[f"intents {state}"] = intents.get(f"intents {state}", 0) + count
    return {
        "questions": await ledger.questions.count(),
        "forecasts": await ledger.forecasts.count(),
        "due": planned.due,
        "leased": planned.leased,
        "locked": planned.locked,
        "waiting": planned.waiting,
        "undecided": len(await ledger.forecasts.undecided(UNDECIDED_COUNTED)),
        **dict(sorted(intents.items())),
    }
