"""``foxcast approvals``, ``approve`` and ``reject``: what waits for a person before it leaves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from bot.cli.leaving import TokenFile, submit_request
from bot.cli.output.console import Column, Kind, emit, stdout, table
from bot.cli.output.figures import moment
from bot.cli.records import read
from bot.cli.session import configured, equipped
from bot.domain.permission import Approval
from bot.domain.request import AnswerApproval
from bot.store.approvals import named
from bot.store.codec import stamp

listing, approving, rejecting = (typer.Typer(add_completion=False) for _ in range(3))

COLUMNS = (
    Column("id"),
    Column("state"),
    Column("question", Kind.TEXT),
    Column("order", Kind.TEXT),
    Column("cost", Kind.NUMBER),
    Column("until"),
    Column("why", Kind.TEXT),
)
ID_HELP = "An approval: its id, or a beginning of it that no other has."


@listing.command()
def approvals(
    ctx: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also what was answered.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what waits for a person's approval, and why."""
    found = read(configured(ctx), lambda records: records.ledger.leave.approvals(everything=everything))
    if as_json:
        emit([_plain(one) for one in found])
        return
    stdout().print(table(COLUMNS, map(_cells, found)) if found else "nothing waits for approval")


@approving.command()
def approve(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)],
    *,
    token_file: TokenFile = None,
) -> None:
    """Let a forecast leave that waits for it, up to the cost and price that were shown."""
    _answer(ctx, name, token_file, approved=True)


@rejecting.command()
def reject(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)],
    *,
    token_file: TokenFile = None,
) -> None:
    """Keep a forecast from leaving that waits for approval."""
    _answer(ctx, name, token_file, approved=False)


def _answer(ctx: typer.Context, name: str, token_file: TokenFile, *, approved: bool) -> None:
    config, registry = equipped(ctx)
    # By now: a beginning of an id may name another one by the time the daemon reads it.
    whole = read(config, lambda records: records.ledger.leave.read(lambda database: named(database, name))).id

    def make(by: str, at: datetime) -> AnswerApproval:
        return AnswerApproval(by=by, asked_at=at, approval=whole, approved=approved)

    stdout().print(submit_request(config, registry, make, token_file=token_file))


def _cells(one: Approval) -> Sequence[str]:
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
        moment(one.expires_at),
        shown.get("why", ""),
    )


def _plain(one: Approval) -> dict[str, Any]:
    return {
        "id": one.id,
        "forecast": one.forecast,
        "venue": one.venue,
        "cost": one.cost,
        "state": one.state.value,
        "asked_at": stamp(one.asked_at),
        "expires_at": stamp(one.expires_at),
        "by": one.by or None,
        "shown": dict(one.shown),
    }
