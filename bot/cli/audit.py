"""`foxcast audit`: the record of permissions and submissions, and whether its hash chain is intact."""

from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_exit import ExitCode
from bot.cli.command_setup import load_command_config
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.core.clock import SystemClock
from bot.core.errors import NotFoundError
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import format_minute
from bot.store.audit_log import (
    AUDIT_HEAD_FILE,
    AuditHead,
    AuditRow,
    AuditVerification,
    export_audit_head,
    read_exported_head,
)
from bot.store.ledger import ReadOnlyState
from bot.store.serialization import format_timestamp

app = typer.Typer(add_completion=False, help="Show and verify the audit record of permissions and submissions.")

COLUMNS = (
    TableColumn("row", ColumnKind.NUMBER),
    TableColumn("at"),
    TableColumn("what"),
    TableColumn("venue"),
    TableColumn("who"),
    TableColumn("details", ColumnKind.TEXT),
)
HEAD_HELP = "An exported head file; default: the one in the state folder, if present."


@app.command()
def verify(
    ctx: typer.Context,
    *,
    head: Annotated[Path | None, typer.Option(metavar="FILE", help=HEAD_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify the audit hash chain; report the first bad row or missing rows at the end."""

    async def verify_chain(records: ReadOnlyState) -> tuple[AuditVerification, Path | None]:
        place = head or records.folder / AUDIT_HEAD_FILE
        try:
            known: AuditHead | None = read_exported_head(place)
        except NotFoundError:
            if head is not None:
                raise
            known = None
        return await records.ledger.permissions.verify(known), None if known is None else place

    found, place = query_ledger(load_command_config(ctx), verify_chain)
    if as_json:
        plain = {
            "rows": found.rows,
            "head": found.head.hash,
            "sound": found.sound,
            "bad": found.first_bad_row,
            "why": found.why,
        }
        print_json(plain | {"compared_with": None if place is None else str(place)})
    elif found.sound:
        comparison = f", and it contains the head in {place}" if place else "; no exported head to compare with"
        stdout_console().print(f"{found.rows} rows, the chain is intact{comparison}")
    else:
        stdout_console().print(f"the audit cannot be trusted from row {found.first_bad_row} on: {found.why}")
    if not found.sound:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def show(
    ctx: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The largest number of rows.")] = 50,
    kind: Annotated[
        str | None, typer.Option(metavar="WHAT", help="Only rows of this kind, such as arm, halt or write.")
    ] = None,
    venue: Annotated[str | None, typer.Option(metavar="VENUE", help="Only rows of this venue.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List audit rows (requests, approvals, arms, halts, writes and answers), newest first."""

    async def load_rows(records: ReadOnlyState) -> list[AuditRow]:
        return await records.ledger.permissions.recent_audit_rows(limit=limit, kind=kind, venue=venue)

    found = query_ledger(load_command_config(ctx), load_rows)
    if as_json:
        print_json([_audit_row_to_json(row) for row in found])
        return
    stdout_console().print(make_table(COLUMNS, map(_audit_cells, found)) if found else "the audit record is empty")


@app.command("head")
def export_head(
    ctx: typer.Context, file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Where to write it.")] = None
) -> None:
    """Export the head of the audit chain; keep it where the daemon's user cannot write."""

    async def load_head(records: ReadOnlyState) -> AuditHead:
        return await records.ledger.permissions.head()

    found = query_ledger(load_command_config(ctx), load_head)
    if file is None:
        stdout_console().print(f"{found.seq} {found.hash}")
        return
    export_audit_head(file, found, at=SystemClock().now())
    stdout_console().print(f"row {found.seq} written to {file}")


def _audit_cells(row: AuditRow) -> tuple[str, ...]:
    details = ", ".join(f"{name} {value}" for name, value in row.body.items() if value)
    return str(row.seq), format_minute(row.at), row.kind, row.venue or "-", row.actor or "foxcast", details


def _audit_row_to_json(row: AuditRow) -> dict[str, object]:
    return {
        "seq": row.seq,
        "at": format_timestamp(row.at),
        "kind": row.kind,
        "venue": row.venue or None,
        "actor": row.actor or None,
        "body": dict(row.body),
    }
