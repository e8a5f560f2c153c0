"""``foxcast withdraw ID``: take back the forecast of a question that stands at its venue, or on paper."""

from datetime import datetime
from typing import Annotated

import typer

from bot.cli.leaving import TokenFile, submit_request
from bot.cli.lock import ID_HELP
from bot.cli.output.console import stdout
from bot.cli.records import question_named, read
from bot.cli.session import equipped
from bot.domain.request import WithdrawForecast

app = typer.Typer(add_completion=False)


@app.command()
def withdraw(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)],
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the audit and beside the intent.")] = "",
    token_file: TokenFile = None,
) -> None:
    """Take back the forecast of a question that stands at its venue."""
    config, registry = equipped(ctx)
    ref = read(config, lambda records: question_named(records, name))

    def make(by: str, at: datetime) -> WithdrawForecast:
        return WithdrawForecast(by=by, asked_at=at, ref=ref, reason=reason)

    stdout().print(submit_request(config, registry, make, token_file=token_file))
