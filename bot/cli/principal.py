"""`foxcast principal`: people, their roles, and the tokens that identify them."""

import re
from datetime import datetime
from typing import Annotated

import typer

from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.daemon_requests import TokenFileOption, submit_request
from bot.cli.output.console import TableColumn, make_table, print_json, stdout_console
from bot.core.operator_requests import AddPrincipal, RevokePrincipal
from bot.core.permissions import UserRole
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import format_minute
from bot.execution.gate.access_control import create_token, hash_token
from bot.store.serialization import format_timestamp

app = typer.Typer(add_completion=False, help="Manage people, their roles and tokens.")

COLUMNS = (TableColumn("name"), TableColumn("role"), TableColumn("since"))
_PRINCIPAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def parse_principal_name(text: str) -> str:
    """Parse the name of a principal; raises a usage error for one that could be misread in a list or a log."""
    if not _PRINCIPAL_NAME.fullmatch(text):
        message = f"{text!r} is not a name of letters, digits, dots, dashes and underscores"
        raise typer.BadParameter(message)
    return text


@app.command()
def add(
    ctx: typer.Context,
    who: Annotated[str, typer.Argument(metavar="NAME", parser=parse_principal_name, help="Name of the person.")],
    *,
    role: Annotated[
        UserRole, typer.Option(help="viewer: read only; operator: also resume and disarm; approver: everything.")
    ],
    token_file: TokenFileOption = None,
) -> None:
    """Create a token for a person; it is shown once."""
    token = create_token()
    kept = hash_token(token)

    def make_request(by: str, at: datetime) -> AddPrincipal:
        return AddPrincipal(by=by, asked_at=at, name=who, role=role, salt=kept.salt, hash=kept.hash)

    result = submit_request(*load_config_and_plugins(ctx), make_request, token_file=token_file)
    typer.echo(
        f"foxcast: {result}; the token, shown only once, goes into FOXCAST_TOKEN or a file of mode 600:", err=True
    )
    typer.echo(token)


@app.command()
def revoke(
    ctx: typer.Context,
    who: Annotated[str, typer.Argument(metavar="NAME", parser=parse_principal_name, help="Name of the person.")],
    *,
    token_file: TokenFileOption = None,
) -> None:
    """Revoke a person's token."""

    def make_request(by: str, at: datetime) -> RevokePrincipal:
        return RevokePrincipal(by=by, asked_at=at, name=who)

    stdout_console().print(submit_request(*load_config_and_plugins(ctx), make_request, token_file=token_file))


@app.command("list")
def list_principals(
    ctx: typer.Context, *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """List people with a token, and their roles."""
    found = query_ledger(load_command_config(ctx), lambda records: records.ledger.permissions.principals())
    if as_json:
        print_json(
            [{"name": one.name, "role": one.role.value, "made_at": format_timestamp(one.made_at)} for one in found]
        )
        return
    rows = [(one.name, one.role.value, format_minute(one.made_at)) for one in found]
    stdout_console().print(
        make_table(COLUMNS, rows) if rows else "nobody has a token, so every user of this state folder is an approver"
    )
