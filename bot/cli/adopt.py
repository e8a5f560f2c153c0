"""`foxcast adopt`: make a state folder that was copied or moved submit live again."""

import sys
from datetime import datetime
from typing import Annotated

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.daemon_requests import TokenFileOption, submit_request
from bot.cli.output.console import stdout_console
from bot.core.errors import ConfigError
from bot.core.operator_requests import AdoptFolder
from bot.store.folder_identity import check_identity
from bot.store.ledger import LEDGER_FILE, require_ledger, state_folder

app = typer.Typer(add_completion=False)


@app.command()
def adopt(
    ctx: typer.Context,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Adopt without asking.")] = False,
    token_file: TokenFileOption = None,
) -> None:
    """Make a copied or moved state folder live again; stop the other copy first. Ends all arm records."""
    config, registry = load_config_and_plugins(ctx)
    folder = state_folder(config)
    require_ledger(folder / LEDGER_FILE)
    found = check_identity(folder / LEDGER_FILE)
    if found.fault and not yes:
        _ask_to_adopt(
            f"{folder} {found.fault}. Two copies that run would trade on one account, so stop the other one first. "
            "All arm records end."
        )

    def make_request(by: str, at: datetime) -> AdoptFolder:
        return AdoptFolder(by=by, asked_at=at)

    stdout_console().print(submit_request(config, registry, make_request, token_file=token_file))


def _ask_to_adopt(text: str) -> None:
    if sys.stdin.isatty() and typer.confirm(f"{text} Adopt this folder?", err=True):
        return
    message = f"{text} Confirm with: foxcast adopt --yes"
    raise ConfigError(message)
