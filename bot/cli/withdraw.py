"""`foxcast withdraw`: withdraw the submitted forecast of a question from its venue or paper account."""

from datetime import datetime
from typing import Annotated

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.lock import QUESTION_HELP
from bot.cli.output.console import stdout_console
from bot.cli.signed_requests import TokenFileOption, submit_request
from bot.core.operator_requests import WithdrawForecast
from bot.evaluation.lookup import find_question, query_ledger

app = typer.Typer(add_completion=False)


@app.command()
def withdraw(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=QUESTION_HELP)],
    *,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason, recorded in the audit and with the submission.")
    ] = "",
    token_file: TokenFileOption = None,
) -> None:
    """Withdraw a submitted forecast from its venue."""
    config, registry = load_config_and_plugins(ctx)
    ref = query_ledger(config, lambda records: find_question(records, name))

    def make(by: str, at: datetime) -> WithdrawForecast:
        return WithdrawForecast(by=by, asked_at=at, ref=ref, reason=reason)

    stdout_console().print(submit_request(config, registry, make, token_file=token_file))
