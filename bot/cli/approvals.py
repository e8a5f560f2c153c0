"""`foxcast approvals`, `approve` and `reject`: submissions that wait for a person's approval."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.daemon_requests import TokenFileOption, submit_request
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.core.operator_requests import AnswerApproval
from bot.core.permissions import SubmissionApproval
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import format_minute
from bot.store.permissions import find_approval
from bot.store.serialization import format_timestamp

approvals_app, approve_app, reject_app = (typer.Typer(add_completion=False) for _ in range(3))

COLUMNS = (
    TableColumn("id"),
    TableColumn("state"),
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("order", ColumnKind.TEXT),
    TableColumn("cost", ColumnKind.NUMBER),
    TableColumn("until"),
    TableColumn("why", ColumnKind.TEXT),
)
APPROVAL_HELP = "Approval id, or a unique prefix of it."


@approvals_app.command()
def approvals(
    ctx: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Include approvals already answered.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List submissions waiting for approval, with reasons."""
    found = query_ledger(
        load_command_config(ctx), lambda records: records.ledger.permissions.approvals(everything=everything)
    )
    if as_json:
        print_json([_approval_to_json(one) for one in found])
        return
    stdout_console().print(make_table(COLUMNS, map(_approval_cells, found)) if found else "nothing waits for approval")


@approve_app.command()
def approve(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=APPROVAL_HELP)],
    *,
    token_file: TokenFileOption = None,
) -> None:
    """Approve a waiting submission, up to the cost and price shown."""
    _answer_approval(ctx, name, token_file, approved=True)


@reject_app.command()
def reject(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=APPROVAL_HELP)],
    *,
    token_file: TokenFileOption = None,
) -> None:
    """Reject a waiting submission."""
    _answer_approval(ctx, name, token_file, approved=False)


def _answer_approval(ctx: typer.Context, name: str, token_file: TokenFileOption, *, approved: bool) -> None:
    config, registry = load_config_and_plugins(ctx)
    # Resolved here: the prefix may fit another approval by the time the daemon reads the request.
    approval = query_ledger(
        config, lambda records: records.ledger.permissions.read(lambda database: find_approval(database, name))
    ).id

    def make_request(by: str, at: datetime) -> AnswerApproval:
        return AnswerApproval(by=by, asked_at=at, approval=approval, approved=approved)

    stdout_console().print(submit_request(config, registry, make_request, token_file=token_file))


def _approval_cells(one: SubmissionApproval) -> Sequence[str]:
    shown = one.shown
    order = f"{shown['order']} at {shown.get('limit', '?')}" if "order" in shown else "forecast"
    if shown.get("comment"):
        order += f", and the comment: {shown['comment']}"
    title = shown.get("title", "")
    return (
        one.id,
        one.state.value,
        f"{shown.get('question', '')} {title}".strip(),
        order,
        shown.get("cost", "-"),
        format_minute(one.expires_at),
        shown.get("why", ""),
    )


def _approval_to_json(one: SubmissionApproval) -> dict[str, Any]:
    return {
        "id": one.id,
        "forecast": one.forecast,
        "venue": one.venue,
        "cost": one.cost,
        "state": one.state.value,
        "asked_at": format_timestamp(one.asked_at),
        "expires_at": format_timestamp(one.expires_at),
        "by": one.by or None,
        "shown": dict(one.shown),
    }
