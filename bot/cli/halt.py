"""``foxcast halt`` and ``resume``: let nothing leave, at once and for everybody; a person ends it."""

from datetime import datetime
from typing import Annotated

import typer

from bot.cli.arm import require_venue
from bot.cli.leaving import TokenFile, submit_request, terminal_user
from bot.cli.output.console import stdout
from bot.cli.session import configured, equipped
from bot.domain.request import Halt, Resume
from bot.errors import ConfigError, FoxcastError
from bot.gate.brake import STOP_FILE, pull

halting, resuming = (typer.Typer(add_completion=False) for _ in range(2))

WHICH_HELP = "Only this venue; otherwise all."


@halting.command()
def halt(
    ctx: typer.Context,
    venue: Annotated[str | None, typer.Argument(metavar="VENUE", help=WHICH_HELP)] = None,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown wherever it holds something back.")],
    token_file: TokenFile = None,
) -> None:
    """Let nothing leave any more, and take back the orders that rest at venues. Open to all."""
    config = configured(ctx)
    if not reason.strip():
        message = "--reason is empty; say in a few words why"
        raise ConfigError(message)
    if venue is not None:
        require_venue(config, venue)
    else:
        # Before anything that could go wrong: from here on nothing is written to any venue.
        pull(config.state / STOP_FILE, f"{reason} ({terminal_user()})")

    def make(by: str, at: datetime) -> Halt:
        return Halt(by=by, asked_at=at, reason=reason, venue=venue or "")

    try:
        said = submit_request(*equipped(ctx), make, token_file=token_file)
    except FoxcastError as error:
        if venue is not None:
            raise
        # The file holds everything, whether or not the ledger could be told.
        said = f"halted everything by {config.state / STOP_FILE}; the ledger was not told: {error}"
    stdout().print(said)


@resuming.command()
def resume(
    ctx: typer.Context,
    venue: Annotated[str | None, typer.Argument(metavar="VENUE", help=WHICH_HELP)] = None,
    *,
    token_file: TokenFile = None,
) -> None:
    """End what was halted by people or stopped itself; losses are counted anew from here on."""
    config, registry = equipped(ctx)
    if venue is not None:
        require_venue(config, venue)

    def make(by: str, at: datetime) -> Resume:
        return Resume(by=by, asked_at=at, venue=venue)

    stdout().print(submit_request(config, registry, make, token_file=token_file))
