"""``foxcast status``: how things stand, also while a daemon runs."""

import asyncio
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.cli.costs import today_of
from bot.cli.failed_trials import failures_code, failures_line, out_of_steps
from bot.cli.output.console import Column, Kind, emit, heading, stdout, table
from bot.cli.output.costs import Today, today_as_plain, today_in_words
from bot.cli.output.figures import ago
from bot.cli.overview import Overview, overview_of
from bot.cli.records import read
from bot.cli.session import configured
from bot.clock import SystemClock
from bot.domain.submission import IntentState
from bot.gate.brake import reason_of
from bot.store.codec import stamp
from bot.store.failures import RecentFailures
from bot.store.stops import Stop

app = typer.Typer(add_completion=False)

RUNS = (Column("job"), Column("ended"), Column("took", Kind.NUMBER), Column("what it did", Kind.TEXT))


@app.command()
def status(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how things stand: modes, heartbeat, failed trials, counts, last runs."""
    config, now = configured(ctx), SystemClock().now()
    found = asyncio.run(overview_of(config, now))
    today = None if found.counts is None else read(config, lambda records: today_of(records, now))
    if as_json:
        emit(_plain(found) | {"models": None if today is None else today_as_plain(today)})
    else:
        _print(stdout(), found, today, now, models=bool(config.llm.roles))
    if found.failures is not None and (code := failures_code(found.failures)):
        raise typer.Exit(code)


def _print(console: Console, found: Overview, today: Today | None, now: datetime, *, models: bool) -> None:
    console.print("venues: " + (", ".join(f"{name} ({mode})" for name, mode in found.modes.items()) or "none"))
    console.print(f"daemon: {_daemon(found, now)}")
    if found.halted:
        why = reason_of(found.halted)
        said = f"nothing leaves while {found.halted} is there ({why or 'nobody said why'})"
        console.print(f"halted: {said}; to go on: foxcast resume")
    for stop in found.stops:
        console.print(_stopped(stop))
    if found.halt:
        console.print(f"halted: the last run ended {ago(now - found.halt.at)}, {found.halt.text}")
    if found.restored:
        console.print(f"restored: nothing leaves until what was sent since {found.restored.backup.name} is settled")
    if found.counts is None:
        console.print(f"there is no ledger at {found.ledger} yet; make one with: foxcast run --once")
        return
    # Nobody who asks no model wants to read about them.
    if today is not None and (models or today.left[0].spent_usd):
        for line in today_in_words(today):
            console.print(f"today, {line}")
    if found.failures is not None:
        for line in filter(None, (failures_line(found.failures), *out_of_steps(found.failures))):
            console.print(f"in the last 24 hours: {line}")
    _print_counts(console, found, now)


def _stopped(stop: Stop) -> str:
    said = f"{stop.venue or 'everything'}, by {stop.by or 'itself'}, {stop.at:%Y-%m-%d %H:%M} UTC: {stop.why}"
    return f"stopped: {said}; {stop.remedy}"


def _daemon(found: Overview, now: datetime) -> str:
    beat = f", last heartbeat {ago(now - found.heartbeat)}" if found.heartbeat else ""
    return f"{'runs' if found.running else 'does not run'}{beat}"


def _print_counts(console: Console, found: Overview, now: datetime) -> None:
    for what, count in (found.counts or {}).items():
        console.print(f"{what}: {count}")
    if (found.counts or {}).get(f"intents {IntentState.IN_DOUBT}"):
        console.print("in doubt: foxcast orders --open names them; look at the venue, then run: foxcast orders adopt")
    backup = found.last_backup
    console.print(f"last backup: {ago(now - backup.made_at)}, {backup.path}" if backup else "last backup: none")
    if found.runs:
        heading(console, "Last runs")
        rows = [
            (
                run.name,
                ago(now - run.ended_at),
                f"{(run.ended_at - run.started_at).total_seconds():.1f} s",
                run.detail if run.ok else f"failed: {run.detail}",
            )
            for run in found.runs
        ]
        console.print(table(RUNS, rows))


def _failures(found: RecentFailures) -> dict[str, Any]:
    return {
        "trials": len(found.trials),
        "questions_without_forecast": found.put_off,
        "forecasts_of_fewer_trials": found.short,
        "told": failures_line(found),
        "out_of_steps": [*out_of_steps(found)],
    }


def _plain(found: Overview) -> dict[str, Any]:
    return {
        "modes": {name: str(mode) for name, mode in found.modes.items()},
        "running": found.running,
        "heartbeat": stamp(found.heartbeat),
        "halted": str(found.halted) if found.halted else None,
        "stops": [
            {"venue": stop.venue or None, "at": stamp(stop.at), "by": stop.by or None, "why": stop.why}
            for stop in found.stops
        ],
        "halt": {"at": stamp(found.halt.at), "why": found.halt.text} if found.halt else None,
        "restored": str(found.restored.backup) if found.restored else None,
        "ledger": str(found.ledger) if found.counts is not None else None,
        "counts": found.counts,
        "failures": None if found.failures is None else _failures(found.failures),
        "last_backup": {"path": str(found.last_backup.path), "made_at": stamp(found.last_backup.made_at)}
        if found.last_backup
        else None,
        "runs": [
            {
                "job": run.name,
                "started_at": stamp(run.started_at),
                "ended_at": stamp(run.ended_at),
                "ok": run.ok,
                "detail": run.detail,
            }
            for run in found.runs
        ],
    }
