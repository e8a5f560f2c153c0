"""`foxcast status`: venues, daemon, halts, today's budgets, failed trials, counts and last job runs.

It also works while a daemon runs.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.cli.command_setup import load_command_config
from bot.cli.costs import today_lines, today_to_json
from bot.cli.health_report import HealthReport, check_lines, load_health_report, problem_lines, report_to_json
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, print_json, stdout_console
from bot.cli.output.trial_text import RECENT_PERIOD, failures_exit_code, failures_summary, step_limit_warnings
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible
from bot.core.submissions import ExecutionMode, IntentState
from bot.evaluation.cost_report import TodayCosts, load_today_costs
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import format_age
from bot.execution.gate.kill_switch import STOP_FILE, halts_besides_file, read_halt_reason
from bot.store import permissions
from bot.store.backups import BACKUP_FOLDER, LedgerBackup, list_backups
from bot.store.database import find_running_holder
from bot.store.event_log import JobRunRow, LedgerEvent
from bot.store.folder_identity import ADOPT_REMEDY, check_identity
from bot.store.forecast_queries import RecentFailures, read_recent_failures
from bot.store.heartbeat import read_heartbeat
from bot.store.integrity_checks import low_disk_reason
from bot.store.ledger import LEDGER_FILE, Ledger, open_read_only, state_folder
from bot.store.model_concurrency import ModelConcurrency
from bot.store.permissions import SubmissionHalt
from bot.store.restore import RestoreRecord, lost_ledger_reason, read_restore_mark
from bot.store.serialization import format_timestamp
from bot.store.submission_queries import count_intents_by_state

MAX_UNDECIDED_COUNTED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOverview:
    """The status of one Foxcast; ``counts`` and ``failures`` (of the last day) are None without a ledger.

    ``stop_file`` is the stop file if it exists. ``stops`` are active halts without the one that made the stop file.
    ``displaced`` says how the state folder was copied or moved, "" if it was not;
    ``low_disk`` why nothing new begins on this disk, "" if enough is free.
    ``halt`` is the disk error that ended the last run, ``restored`` the restore that still holds submissions.
    ``models`` are those that were asked, with the requests that they get at the same time.
    """

    modes: Mapping[str, ExecutionMode]
    running: bool
    heartbeat: datetime | None
    stop_file: Path | None
    stops: Sequence[SubmissionHalt]
    halt: LedgerEvent | None
    restored: RestoreRecord | None
    displaced: str
    low_disk: str
    ledger: Path
    counts: Mapping[str, int] | None
    last_backup: LedgerBackup | None
    failures: RecentFailures | None
    models: Sequence[ModelConcurrency]
    runs: tuple[JobRunRow, ...]


async def load_status_overview(config: Config, now: datetime) -> StatusOverview:
    """Load the current status; raises StoreError for a ledger that was lost or cannot be read."""
    folder = state_folder(config)
    path, stop = folder / LEDGER_FILE, config.state / STOP_FILE
    copies = list_backups(folder / BACKUP_FOLDER, path.stem)
    counts: dict[str, int] | None = None
    runs: tuple[JobRunRow, ...] = ()
    halt: LedgerEvent | None = None
    halts: Sequence[SubmissionHalt] = ()
    failures: RecentFailures | None = None
    models: Sequence[ModelConcurrency] = ()
    if reason := lost_ledger_reason(path):
        raise StoreError(reason)
    if path.exists():
        async with open_read_only(config) as records:
            counts, runs = await _load_counts(records.ledger, now), tuple(await records.ledger.events.last_runs())
            halt = await records.ledger.events.unresolved_halt()
            halts = await records.ledger.permissions.read(permissions.list_active_halts)
            models = await records.ledger.model_concurrency.load()
            failures = await read_recent_failures(records.ledger.forecasts.readers, now - RECENT_PERIOD)
    return StatusOverview(
        modes={name: config.mode_of(name) for name in config.venues},
        running=find_running_holder(folder) is not None,
        heartbeat=None if (beat := read_heartbeat(folder)) is None else beat.at,
        stop_file=stop if stop.exists() else None,
        stops=halts_besides_file(stop, halts),
        halt=halt,
        restored=read_restore_mark(path),
        displaced=check_identity(path).fault,
        low_disk=low_disk_reason(folder, config.daemon.min_free_mb * 1e6),
        ledger=path,
        counts=counts,
        last_backup=copies[0] if copies else None,
        failures=failures,
        models=models,
        runs=runs,
    )


async def _load_counts(ledger: Ledger, now: datetime) -> dict[str, int]:
    planned = await ledger.schedule.counts(now)
    intents = await ledger.submissions.readers.run(count_intents_by_state)
    return {
        "questions": await ledger.questions.count(),
        "forecasts": await ledger.forecasts.count(),
        "due": planned.due,
        "leased": planned.leased,
        "locked": planned.locked,
        "waiting": planned.waiting,
        "undecided": len(await ledger.forecasts.undecided(MAX_UNDECIDED_COUNTED)),
        **{f"intents {state}": count for state, count in intents.items()},
    }


app = typer.Typer(add_completion=False)


JOB_RUN_COLUMNS = (
    TableColumn("job"),
    TableColumn("ended"),
    TableColumn("took", ColumnKind.NUMBER),
    TableColumn("result", ColumnKind.TEXT),
)


@app.command()
def status(
    ctx: typer.Context,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether all is well: exit 0 healthy, 1 degraded, 3 not running.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show status: venue modes, heartbeat, failed trials, counts, last job runs."""
    config, now = load_command_config(ctx), SystemClock().now()
    health = load_health_report(config, now)
    if check:
        _print_check(health, as_json=as_json)
        raise typer.Exit(health.exit_code)
    found = asyncio.run(load_status_overview(config, now))
    today = None if found.counts is None else query_ledger(config, lambda records: load_today_costs(records, now))
    if as_json:
        models = None if today is None else today_to_json(today)
        print_json(_status_to_json(found) | {"models": models, "health": report_to_json(health)})
    else:
        _print_status(stdout_console(), found, today, now, models=bool(config.llm.roles))
        for line in problem_lines(health):
            stdout_console().print(line)
    if found.failures is not None and (code := failures_exit_code(found.failures)):
        raise typer.Exit(code)


def _print_check(health: HealthReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report_to_json(health))
        return
    for line in check_lines(health):
        typer.echo(replace_invisible(line))


def _print_status(
    console: Console, found: StatusOverview, today: TodayCosts | None, now: datetime, *, models: bool
) -> None:
    console.print("venues: " + (", ".join(f"{name} ({mode})" for name, mode in found.modes.items()) or "none"))
    console.print(f"daemon: {_daemon_text(found, now)}")
    if found.stop_file:
        why = read_halt_reason(found.stop_file)
        console.print(
            f"halted: nothing is submitted while {found.stop_file} exists ({why or 'no reason given'}); "
            "resume with: foxcast resume"
        )
    for stop in found.stops:
        console.print(_stop_text(stop))
    for line in _hold_lines(found, now):
        console.print(line)
    if found.counts is None:
        console.print(f"there is no ledger at {found.ledger} yet; make one with: foxcast run --once")
        return
    # Costs of models do not matter to a user without models.
    if today is not None and (models or today.budgets[0].spent_usd):
        for line in today_lines(today):
            console.print(f"today, {line}")
    if found.failures is not None:
        for line in filter(None, (failures_summary(found.failures), *step_limit_warnings(found.failures))):
            console.print(f"in the last 24 hours: {line}")
    for line in concurrency_lines(found.models, running=found.running):
        console.print(line)
    _print_counts(console, found, now)


def concurrency_lines(models: Sequence[ModelConcurrency], *, running: bool) -> Iterator[str]:
    """Yield a line for each model that was asked: its requests in flight, how many there may be, and why not more."""
    for one in models:
        in_flight = f"{one.in_flight} requests in flight, " if running else ""
        limit = f"at most {int(one.concurrency)} at a time, bounded by {one.reason} (setting: {one.ceiling})"
        yield f"model {one.model}: {in_flight}{limit}"


def _hold_lines(found: StatusOverview, now: datetime) -> Iterator[str]:
    """Yield a line for each state of the folder that holds submissions back."""
    if found.halt:
        yield f"halted: the last run ended {format_age(now - found.halt.at)}, {found.halt.text}"
    if found.restored:
        yield f"restored: nothing is submitted until submissions since {found.restored.backup.name} are settled"
    if found.low_disk:
        yield f"disk: {found.low_disk}; free some space"
    if found.displaced:
        yield f"displaced: {found.ledger.parent} {found.displaced}; nothing is submitted live; {ADOPT_REMEDY}"


def _stop_text(stop: SubmissionHalt) -> str:
    halt = f"{stop.venue or 'everything'}, by {stop.by or 'foxcast'}, {stop.at:%Y-%m-%d %H:%M} UTC: {stop.why}"
    return f"stopped: {halt}; {stop.remedy}"


def _daemon_text(found: StatusOverview, now: datetime) -> str:
    beat = f", last heartbeat {format_age(now - found.heartbeat)}" if found.heartbeat else ""
    return f"{'running' if found.running else 'not running'}{beat}"


def _print_counts(console: Console, found: StatusOverview, now: datetime) -> None:
    for what, count in (found.counts or {}).items():
        console.print(f"{what}: {count}")
    if (found.counts or {}).get(f"intents {IntentState.IN_DOUBT}"):
        console.print("in doubt: foxcast orders --open lists them; check the venue, then run: foxcast orders adopt")
    backup = found.last_backup
    console.print(f"last backup: {format_age(now - backup.made_at)}, {backup.path}" if backup else "last backup: none")
    if found.runs:
        print_heading(console, "Last runs")
        rows = [
            (
                run.name,
                format_age(now - run.ended_at),
                f"{(run.ended_at - run.started_at).total_seconds():.1f} s",
                run.detail if run.ok else f"failed: {run.detail}",
            )
            for run in found.runs
        ]
        console.print(make_table(JOB_RUN_COLUMNS, rows))


def _failures_to_json(found: RecentFailures) -> dict[str, Any]:
    return {
        "trials": len(found.trials),
        "questions_without_forecast": found.postponed_questions,
        "forecasts_of_fewer_trials": found.incomplete_forecasts,
        "told": failures_summary(found),
        "out_of_steps": [*step_limit_warnings(found)],
    }


def _status_to_json(found: StatusOverview) -> dict[str, Any]:
    return {
        "modes": {name: str(mode) for name, mode in found.modes.items()},
        "running": found.running,
        "heartbeat": format_timestamp(found.heartbeat),
        "halted": str(found.stop_file) if found.stop_file else None,
        "stops": [
            {"venue": stop.venue or None, "at": format_timestamp(stop.at), "by": stop.by or None, "why": stop.why}
            for stop in found.stops
        ],
        "halt": {"at": format_timestamp(found.halt.at), "why": found.halt.text} if found.halt else None,
        "restored": str(found.restored.backup) if found.restored else None,
        "displaced": found.displaced or None,
        "low_disk": found.low_disk or None,
        "ledger": str(found.ledger) if found.counts is not None else None,
        "counts": found.counts,
        "failures": None if found.failures is None else _failures_to_json(found.failures),
        "concurrency": [
            {
                "model": one.model,
                "in_flight": one.in_flight if found.running else 0,
                "limit": int(one.concurrency),
                "setting": one.ceiling,
                "bounded_by": one.reason,
                "at": format_timestamp(one.at),
            }
            for one in found.models
        ],
        "last_backup": {"path": str(found.last_backup.path), "made_at": format_timestamp(found.last_backup.made_at)}
        if found.last_backup
        else None,
        "runs": [
            {
                "job": run.name,
                "started_at": format_timestamp(run.started_at),
                "ended_at": format_timestamp(run.ended_at),
                "ok": run.ok,
                "detail": run.detail,
            }
            for run in found.runs
        ],
    }
