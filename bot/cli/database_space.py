"""`foxcast db size`, `db prune`, `db archive`, `db unarchive`: what the databases take, and how to make room."""

import asyncio
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.cli.command_setup import load_command_config
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, StateFolderLockedError
from bot.evaluation.value_text import format_bytes
from bot.jobs.ledger_maintenance import EvidenceContext, remove_old_evidence
from bot.store.database import instance_lock
from bot.store.database_sizes import StateSize, measure_state
from bot.store.evidence_copies import archive_evidence, find_databases, put_back_evidence
from bot.store.evidence_packing import return_free_pages
from bot.store.ledger import (
    LEDGER_FILE,
    open_ledger,
    open_read_only,
    require_current_ledger,
    require_ledger,
    state_folder,
)

# Registered in bot.cli.db, with the other commands of foxcast db.

SIZE_COLUMNS = (
    TableColumn("database"),
    TableColumn("table"),
    TableColumn("size", ColumnKind.NUMBER),
    TableColumn("a forecast", ColumnKind.NUMBER),
)
_PERIOD = re.compile(r"(?P<count>\d{1,5})\s*(?P<unit>[dwy])")
_DAYS = {"d": 1, "w": 7, "y": 365}
MIN_AGE = timedelta(days=7)
# Smaller tables are only in the JSON.
MIN_SHARE = 0.01


def parse_age(text: str) -> timedelta:
    """Parse the age given to an option, such as 90d, 12w or 2y; raises a usage error."""
    found = _PERIOD.fullmatch(text.strip())
    if found is None:
        message = f"{text!r} is not an age such as 90d, 12w or 2y"
        raise typer.BadParameter(message)
    return timedelta(days=int(found["count"]) * _DAYS[found["unit"]])


OlderOption = Annotated[
    timedelta,
    typer.Option(parser=parse_age, metavar="AGE", help="Of questions that resolved longer ago: 90d, 12w or 2y."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def size(ctx: typer.Context, *, as_json: JsonOption = False) -> None:
    """Show the size of each database by table, its growth a day, and when the disk will be full."""
    path = state_folder(load_command_config(ctx)) / LEDGER_FILE
    require_ledger(path)
    found = measure_state(path, now=SystemClock().now())
    if as_json:
        print_json(_size_to_json(found))
        return
    console = stdout_console()
    rows = []
    for database in found.databases:
        rows.append((database.path.name, "all tables", format_bytes(database.total_bytes), ""))
        large = [table for table in database.tables if table[1] >= MIN_SHARE * database.total_bytes]
        for name, count in large:
            share = f"{count / found.forecasts:,.0f} bytes" if found.forecasts else ""
            rows.append(("", name, format_bytes(count), share))
    console.print(make_table(SIZE_COLUMNS, rows))
    console.print(f"{found.forecasts} forecasts; in the last week {format_bytes(round(found.bytes_per_day))} a day")
    free = format_bytes(found.disk_free_bytes)
    if found.days_until_full is None:
        console.print(f"{free} are free on the disk; nothing was forecast in the last week")
    else:
        console.print(f"{free} are free on the disk; at this rate it is full in {found.days_until_full:,.0f} days")


def prune(ctx: typer.Context, *, older: OlderOption, as_json: JsonOption = False) -> None:
    """Delete pages, exchanges and steps of long-resolved questions; predictions, decisions and scores stay.

    While a daemon runs, set daemon.evidence_days instead: it then does this by itself.
    """
    config, now = load_command_config(ctx), SystemClock().now()
    _require_old_enough(older)
    path = state_folder(config) / LEDGER_FILE
    require_ledger(path)
    before = _count_bytes(path)
    try:
        with instance_lock(path.parent, started_at=now):
            removed = asyncio.run(_prune(path, now - older, now))
    except StateFolderLockedError as error:
        message = f"{error}; or set daemon.evidence_days = {older.days}, and the daemon does it while it works"
        raise StateFolderLockedError(message) from error
    freed = before - _count_bytes(path)
    if as_json:
        print_json({"forecasts": removed, "freed_bytes": freed})
    else:
        stdout_console().print(
            f"the evidence of {removed} forecasts is deleted, {format_bytes(max(0, freed))} went back to the disk"
        )


def archive(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    *,
    older: OlderOption,
    as_json: JsonOption = False,
) -> None:
    """Copy what db prune would delete to a database of its own, and check it; nothing is deleted."""
    config, now = load_command_config(ctx), SystemClock().now()
    _require_old_enough(older)
    if file.exists():
        message = f"{file} exists already; name a new file"
        raise ConfigError(message)

    async def copy() -> int:
        async with open_read_only(config) as records:
            path = records.folder / LEDGER_FILE
            return await archive_evidence(records.ledger.documents.readers, path, file, before=now - older, at=now)

    count = asyncio.run(copy())
    if as_json:
        print_json({"file": str(file), "forecasts": count, "size_bytes": file.stat().st_size})
    else:
        told = f"{file}: the evidence of {count} forecasts, {format_bytes(file.stat().st_size)}, checked"
        stdout_console().print(f"{told}; delete it here with: foxcast db prune --older {older.days}d")


def unarchive(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that db archive wrote.", exists=True)],
    *,
    as_json: JsonOption = False,
) -> None:
    """Put the evidence of an archive back where it was deleted, so that its forecasts can be replayed and explained."""
    config, now = load_command_config(ctx), SystemClock().now()
    path = state_folder(config) / LEDGER_FILE
    require_ledger(path)
    with instance_lock(path.parent, started_at=now):
        require_current_ledger(path)
        count = put_back_evidence(path, file, at=now)
    if as_json:
        print_json({"file": str(file), "forecasts": count})
    else:
        stdout_console().print(f"the evidence of {count} forecasts is back; delete it again with: foxcast db prune")


def _require_old_enough(older: timedelta) -> None:
    if older < MIN_AGE:
        message = f"--older {older.days}d is too short: outcomes are corrected later; give {MIN_AGE.days}d or more"
        raise ConfigError(message)


async def _prune(path: Path, before: datetime, now: datetime) -> int:
    async with open_ledger(path, now=now) as ledger:
        removed = await remove_old_evidence(
            EvidenceContext(path=path, ledger=ledger, clock=SystemClock()), before=before
        )
        await return_free_pages(ledger.documents.writer)
    return removed


def _count_bytes(ledger: Path) -> int:
    return sum(path.stat().st_size for path in find_databases(ledger))


def _size_to_json(found: StateSize) -> dict[str, Any]:
    return {
        "databases": [
            {"path": str(one.path), "bytes": one.total_bytes, "free_bytes": one.free_bytes, "tables": dict(one.tables)}
            for one in found.databases
        ],
        "forecasts": found.forecasts,
        "bytes_per_day": found.bytes_per_day,
        "disk_free_bytes": found.disk_free_bytes,
        "days_until_full": found.days_until_full,
    }
