"""``foxcast principal``: who may do what, and the tokens by which they are known."""

import re
from datetime import datetime
from typing import Annotated

import typer

from bot.cli.leaving import TokenFile, submit_request
from bot.cli.output.console import Column, emit, stdout, table
from bot.cli.output.figures import moment
from bot.cli.records import read
from bot.cli.session import configured, equipped
from bot.domain.permission import Role
from bot.domain.request import AddPrincipal, RevokePrincipal
from bot.gate.tokens import hashed, new_token
from bot.store.codec import stamp

app = typer.Typer(add_completion=False, help="Say who may do what, and give them tokens.")

COLUMNS = (Column("name"), Column("role"), Column("since"))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def name(text: str) -> str:
    """Read the name of a principal; raises a usage error for one that could be mistaken in a list or a log."""
    if not _NAME.fullmatch(text):
        message = f"{text!r} is no name of letters, digits, dots, dashes and underscores"
        raise typer.BadParameter(message)
    return text


@app.command()
def add(
    ctx: typer.Context,
    who: Annotated[str, typer.Argument(metavar="NAME", parser=name, help="Whom to give a token.")],
    *,
    role: Annotated[Role, typer.Option(help="viewer looks, operator also resumes and disarms, approver does all.")],
    token_file: TokenFile = None,
) -> None:
    """Give somebody a token; it is shown now and never again."""
    token = new_token()
    kept = hashed(token)

    def make(by: str, at: datetime) -> AddPrincipal:
        return AddPrincipal(by=by, asked_at=at, name=who, role=role, salt=kept.salt, hash=kept.hash)

    said = submit_request(*equipped(ctx), make, token_file=token_file)
    typer.echo(
        f"foxcast: {said}; their token, shown this once, goes into FOXCAST_TOKEN or a file of mode 600:", err=True
    )
    typer.echo(token)


@app.command()
def revoke(
    ctx: typer.Context,
    who: Annotated[str, typer.Argument(metavar="NAME", parser=name, help="Whose token holds no more.")],
    *,
    token_file: TokenFile = None,
) -> None:
    """Take somebody's token away."""

    def make(by: str, at: datetime) -> RevokePrincipal:
        return RevokePrincipal(by=by, asked_at=at, name=who)

    stdout().print(submit_request(*equipped(ctx), make, token_file=token_file))


@app.command("list")
def listed(ctx: typer.Context, *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List who has a token, and their roles."""
    found = read(configured(ctx), lambda records: records.ledger.leave.principals())
    if as_json:
        emit([{"name": one.name, "role": one.role.value, "made_at": stamp(one.made_at)} for one in found])
        return
    rows = [(one.name, one.role.value, moment(one.made_at)) for one in found]
    stdout().print(
        table(COLUMNS, rows) if rows else "nobody has a token, so whoever can use this state folder is an approver"
    )
