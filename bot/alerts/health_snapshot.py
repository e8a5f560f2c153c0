"""The facts from which all conditions are derived, read at one moment from the ledger and the state folder."""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, time
from pathlib import Path

from bot.config.schema import Config
from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.core.submissions import ExecutionMode
from bot.execution.gate.kill_switch import STOP_FILE, halts_besides_file, read_halt_reason
from bot.execution.gate.readiness import MAX_CLOCK_SKEW_S, READINESS_JOB, readiness_faults
from bot.execution.gate.readiness import clock_fault as skew_fault
from bot.store.backups import BACKUP_FOLDER, list_backups
from bot.store.health_queries import DayBudget, LedgerFacts, VenueAccount, read_ledger_facts
from bot.store.heartbeat import DaemonState, read_daemon_state
from bot.store.ledger import LEDGER_FILE, Ledger, open_ledger_read_only, state_folder
from bot.store.response_shapes import ShapeChange, read_shape_changes
from bot.store.restore import lost_ledger_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSnapshot:
    """All facts at one moment; ``stop_file`` is why the stop file halts everything, None without one.

    ``clock_fault`` is what is wrong with the clock, "" for nothing. ``watches_itself``: the daemon made the snapshot,
    so that it says nothing about whether a daemon runs.
    """

    now: datetime
    config: Config
    daemon: DaemonState
    free_bytes: int
    last_backup: datetime | None = None
    stop_file: str | None = None
    clock_fault: str = ""
    watches_itself: bool = False
    has_ledger: bool = True
    ledger: LedgerFacts = field(default_factory=LedgerFacts)
    shape_changes: Sequence[ShapeChange] = ()

    @property
    def running_since(self) -> datetime | None:
        """When the running daemon started; None without one."""
        return None if self.daemon.holder is None else self.daemon.holder.started_at


async def read_health(config: Config, now: datetime) -> HealthSnapshot:
    """Read the snapshot from outside of the daemon; raises StoreError for a ledger that was lost or cannot be read."""
    path = state_folder(config) / LEDGER_FILE
    if reason := lost_ledger_reason(path):
        raise StoreError(reason)
    if not path.exists():
        return await _build_snapshot(config, now, LedgerFacts(), has_ledger=False)
    async with open_ledger_read_only(path) as ledger:
        return await _build_snapshot(config, now, await _read_facts(config, ledger, now))


async def read_own_health(
    config: Config, ledger: Ledger, now: datetime, *, clock_skew_s: float | None, watches_itself: bool = True
) -> HealthSnapshot:
    """Read the snapshot within the daemon, which also knows how far its clock is from those of servers.

    Without ``watches_itself`` the heartbeat counts too, as for others.
    """
    facts = await _read_facts(config, ledger, now)
    return await _build_snapshot(config, now, facts, clock_skew_s=clock_skew_s, watches_itself=watches_itself)


async def _build_snapshot(
    config: Config,
    now: datetime,
    facts: LedgerFacts,
    *,
    clock_skew_s: float | None = None,
    watches_itself: bool = False,
    has_ledger: bool = True,
) -> HealthSnapshot:
    folder, stop_file = state_folder(config), config.state / STOP_FILE
    backups = await asyncio.to_thread(list_backups, folder / BACKUP_FOLDER, Path(LEDGER_FILE).stem)
    return HealthSnapshot(
        now=now,
        config=config,
        daemon=read_daemon_state(folder, now),
        free_bytes=shutil.disk_usage(_existing_folder(folder)).free,
        last_backup=backups[0].made_at if backups else None,
        stop_file=(read_halt_reason(stop_file) or "no reason given") if stop_file.exists() else None,
        clock_fault=_clock_fault(config, facts, clock_skew_s),
        watches_itself=watches_itself,
        has_ledger=has_ledger,
        ledger=facts,
        shape_changes=await asyncio.to_thread(read_shape_changes, folder),
    )


def _existing_folder(folder: Path) -> Path:
    absolute = folder.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.exists())


def _clock_fault(config: Config, facts: LedgerFacts, clock_skew_s: float | None) -> str:
    if clock_skew_s is not None and abs(clock_skew_s) > MAX_CLOCK_SKEW_S:
        return skew_fault(clock_skew_s)
    job = facts.jobs.get(READINESS_JOB)
    faults = readiness_faults(None if job is None else job.last, [*config.venues])
    found = (parts.get("clock", "") for parts in faults.values())
    # Before any venue has answered nothing is known to be wrong.
    return next((fault for fault in found if fault.startswith("is off")), "")


async def _read_facts(config: Config, ledger: Ledger, now: datetime) -> LedgerFacts:
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    spent = await ledger.calls.spent(since=today)
    budgets = [("all models", config.llm.budget.day_usd, sum(one.cost_usd for one in spent))]
    for name, section in sorted(config.llm.providers.items()):
        budgets.append((name, section.day_usd, sum(one.cost_usd for one in spent if one.provider == name)))
    used = [name for name in config.venues if config.mode_of(name) is not ExecutionMode.OFF]
    accounts = {
        name: VenueAccount(name=config.venues[name].account, paper=config.mode_of(name) is ExecutionMode.PAPER)
        for name in used
    }
    facts = await ledger.events.readers.run(lambda database: read_ledger_facts(database, accounts, now))
    return replace(
        facts,
        halts=halts_besides_file(config.state / STOP_FILE, facts.halts),
        demotions=await ledger.model_performance.demotions(now=now),
        budgets=[DayBudget(name=name, limit_usd=limit, spent_usd=usd) for name, limit, usd in budgets if limit],
    )
