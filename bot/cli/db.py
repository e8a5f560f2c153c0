"""`foxcast db`: check, back up, list, restore or export the ledger and the paper books."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_command_config
from bot.cli.database_space import JsonOption, archive, prune, size, unarchive
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import NotFoundError
from bot.evaluation.value_text import NO_VALUE, format_age, format_bytes
from bot.execution.paper.accounting import find_faults
from bot.execution.paper.paper_book import PAPER_BOOK_FILE
from bot.store import backups
from bot.store.backup_retention import backup_generations
from bot.store.backups import (
    BACKUP_FOLDER,
    LedgerBackup,
    LedgerContent,
    backup_books_folder,
    find_books,
    list_backups,
    read_backup_content,
)
from bot.store.database import open_reader
from bot.store.evidence import evidence_path
from bot.store.evidence_checks import check_evidence
from bot.store.evidence_copies import copy_back_evidence, count_copied_forecasts, find_evidence_copies
from bot.store.integrity_checks import INVARIANTS, IntegrityProblem, IntegrityReport, run_full_check
from bot.store.ledger import LEDGER_FILE, require_current_ledger, require_ledger, state_folder
from bot.store.ledger_export import export_ledger
from bot.store.restore import restore_backup
from bot.store.schema import MIGRATIONS

app = typer.Typer(add_completion=False)
SPACE_COMMANDS = [app.command()(command) for command in (size, prune, archive, unarchive)]


@app.callback()
def db() -> None:
    """Check, back up, list, restore or export the ledger."""


@app.command()
def check(ctx: typer.Context, *, as_json: JsonOption = False) -> None:
    """Check the integrity of the ledger, its evidence and the paper books; exit code 1 on a fault."""
    path = _existing_ledger_path(load_command_config(ctx))
    require_current_ledger(path)
    report, evidence = run_full_check(path, INVARIANTS), check_evidence(path)
    books = [_check_book(book) for book in find_books(path).values()]
    if as_json:
        others = {"evidence": _health_to_json(evidence), "books": [_health_to_json(book) for book in books]}
        print_json(_health_to_json(report) | others)
    else:
        for one in (report, evidence, *books):
            _print_health(one)
    if not all(one.sound for one in (report, evidence, *books)):
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def backup(ctx: typer.Context, *, as_json: JsonOption = False) -> None:
    """Back up the ledger and the paper books, and check the copies; a daemon may run meanwhile.

    The daemon removes only its own old backups, not these.
    """
    path = _existing_ledger_path(load_command_config(ctx))
    made = backups.create_backup(path, path.parent / BACKUP_FOLDER, at=SystemClock().now(), label="asked")
    if as_json:
        plain = {"path": str(made.path), "made_at": made.made_at.isoformat(), "size_bytes": made.size_bytes}
        print_json(plain | {"books": [str(book) for book in made.books]})
        return
    stdout_console().print(f"{made.path}, {format_bytes(made.size_bytes)}, checked")
    if made.books:
        names = ", ".join(str(book.relative_to(backup_books_folder(made.path))) for book in made.books)
        stdout_console().print(
            f"with the paper books {names} in {backup_books_folder(made.path)}; a restore needs both"
        )


BACKUP_COLUMNS = (
    TableColumn("name"),
    TableColumn("made"),
    TableColumn("size", ColumnKind.NUMBER),
    TableColumn("kept as"),
    TableColumn("questions", ColumnKind.NUMBER),
    TableColumn("forecasts", ColumnKind.NUMBER),
    TableColumn("submissions", ColumnKind.NUMBER),
    TableColumn("last record"),
)


@app.command("list")
def list_all(ctx: typer.Context, *, as_json: JsonOption = False) -> None:
    """List the backups, newest first: age, size, what keeps them, and how much they hold."""
    path, now = _ledger_path(load_command_config(ctx)), SystemClock().now()
    found = backup_generations(path.parent / BACKUP_FOLDER, path.stem, now=now)
    contents = {one: read_backup_content(one.path) for one in found}
    if as_json:
        print_json([_backup_to_json(one, generations, contents[one]) for one, generations in found.items()])
    elif found:
        rows = [_backup_cells(one, generations, contents[one], now) for one, generations in found.items()]
        stdout_console().print(make_table(BACKUP_COLUMNS, rows))
        for copy in find_evidence_copies(path):
            held = f"{count_copied_forecasts(copy)} forecasts, {format_bytes(copy.stat().st_size)}"
            stdout_console().print(f"evidence of {held}: {copy.name}")
    else:
        stdout_console().print(f"there is no backup in {path.parent / BACKUP_FOLDER}; make one with: foxcast db backup")


@app.command()
def restore(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A backup that foxcast db list names, or the path of its file.")
    ],
) -> None:
    """Restore the ledger and paper books from a backup; the replaced files are kept."""
    path = _ledger_path(load_command_config(ctx))
    file = _find_backup(path, name)
    had_evidence = evidence_path(path).exists()
    done = restore_backup(file, path, migrations=MIGRATIONS, at=SystemClock().now())
    console = stdout_console()
    console.print(f"{done.backup} is the ledger now")
    if done.books:
        console.print(f"restored paper books: {', '.join(done.books)}; the replaced ones are kept next to them")
    if done.replaced is not None:
        console.print(f"the replaced ledger is kept as {done.replaced}")
    if had_evidence:
        console.print("its evidence is what was there; forecasts that it lacks can no longer be replayed")
    elif copy_back_evidence(path):
        console.print("its evidence was missing, and is that of the copy; forecasts that it lacks cannot be replayed")
    else:
        console.print("its evidence is missing, and there is no copy: no forecast can be replayed")
    console.print("nothing is submitted until the next start has compared the ledger with the venues")


@app.command()
def export(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Export every table and view as JSON lines, with a manifest."""
    path = _existing_ledger_path(load_command_config(ctx))
    require_current_ledger(path)
    manifest = export_ledger(path, folder, at=SystemClock().now())
    if as_json:
        print_json({"folder": str(folder), "files": {file.name: file.rows for file in manifest.files}})
    else:
        rows = sum(file.rows for file in manifest.files)
        stdout_console().print(f"{folder}: {rows} rows in {len(manifest.files)} files, described in manifest.json")


def _ledger_path(config: Config) -> Path:
    return state_folder(config) / LEDGER_FILE


def _existing_ledger_path(config: Config) -> Path:
    path = _ledger_path(config)
    require_ledger(path)
    return path


def _find_backup(ledger: Path, name: str) -> Path:
    """Return the file of a backup: a path, or a name in the folder of backups; raises NotFoundError."""
    folder = ledger.parent / BACKUP_FOLDER
    named = next(
        (one.path for one in list_backups(folder, ledger.stem) if name in {one.path.name, one.path.stem}), None
    )
    if named is None and not Path(name).is_file():
        message = f"there is no backup {name} in {folder}, and no such file; list the backups with: foxcast db list"
        raise NotFoundError(message)
    return named or Path(name)


def _backup_cells(
    backup: LedgerBackup, generations: Sequence[str], content: LedgerContent | None, now: datetime
) -> tuple[str, ...]:
    kept = ", ".join(generations) or "to be deleted"
    row = (backup.path.stem, format_age(now - backup.made_at), format_bytes(backup.size_bytes))
    if content is None:
        return (*row, "damaged", *(NO_VALUE,) * 4)
    counts = [f"{content.rows.get(table, 0):,}" for table in ("question", "forecast", "intent")]
    last = NO_VALUE if content.last_record_at is None else f"{content.last_record_at:%Y-%m-%d %H:%M} UTC"
    return (*row, kept, *counts, last)


def _backup_to_json(backup: LedgerBackup, generations: Sequence[str], content: LedgerContent | None) -> dict[str, Any]:
    return {
        "name": backup.path.stem,
        "path": str(backup.path),
        "made_at": backup.made_at.isoformat(),
        "size_bytes": backup.size_bytes,
        "kept_as": [*generations],
        "rows": None if content is None else dict(content.rows),
        "last_record_at": content.last_record_at.isoformat() if content and content.last_record_at else None,
    }


def _check_book(path: Path) -> IntegrityReport:
    report = run_full_check(path, ())
    if path.name != PAPER_BOOK_FILE or not report.sound:
        return report
    with closing(open_reader(path)) as database:
        found = find_faults(database) if database["book"].exists() else []
    meaning = "the book is inconsistent"
    problems = (IntegrityProblem(check="balances", meaning=meaning, examples=tuple(found)),) if found else ()
    return replace(report, checks=(*report.checks, "balances"), problems=problems)


def _print_health(report: IntegrityReport) -> None:
    console = stdout_console()
    for problem in report.problems:
        console.print(f"failed {problem.check}: {problem.meaning}; {'; '.join(problem.examples)}")
    for warning in report.warnings:
        console.print(f"warning: {warning}")
    verdict = "is sound" if report.sound else "needs attention: restore a backup, or report the failed checks"
    console.print(f"{report.path} {verdict}: {len(report.checks)} checks, {format_bytes(report.database_bytes)}")


def _health_to_json(report: IntegrityReport) -> dict[str, Any]:
    return {
        "path": str(report.path),
        "sound": report.sound,
        "checks": list(report.checks),
        "problems": [
            {"check": problem.check, "meaning": problem.meaning, "examples": list(problem.examples)}
            for problem in report.problems
        ],
        "warnings": list(report.warnings),
        "database_bytes": report.database_bytes,
        "wal_bytes": report.wal_bytes,
        "free_bytes": report.free_bytes,
    }
