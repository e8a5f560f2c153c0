"""`foxcast halt` and `resume`: stop all submissions at once; anyone may halt, a person resumes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from bot.app import Records, folder_of
from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.lookup import query_ledger, require_configured_venue
from bot.cli.output.console import stdout_console
from bot.cli.signed_requests import TokenFileOption, submit_request, terminal_user
from bot.clock import SystemClock
from bot.config.schema import Config
from bot.domain.request import Halt, Resume
from bot.domain.submission import IntentState, Mode
from bot.errors import ConfigError, FoxcastError
from bot.gate.brake import STOP_FILE, pull, signed
from bot.store.lock import is_running, last_holder
from bot.store.orders import Asked, OrderRow, listed

halt_app, resume_app = (typer.Typer(add_completion=False) for _ in range(2))

HALT_VENUE_HELP = "Only this venue; otherwise all."


@halt_app.command()
def halt(
    ctx: typer.Context,
    venue: Annotated[str | None, typer.Argument(metavar="VENUE", help=HALT_VENUE_HELP)] = None,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown wherever it holds something back.")],
    all_orders: Annotated[
        bool, typer.Option("--all-orders", help="Cancel all orders of the account, also those that are not this bot's.")
    ] = False,
    token_file: TokenFileOption = None,
) -> None:
    """Let nothing leave any more, and take back this bot's orders that rest at venues. Open to all."""
    config = load_command_config(ctx)
    if not reason.strip():
        message = "--reason is empty; say in a few words why"
        raise ConfigError(message)
    if venue is not None:
        require_configured_venue(config, venue)
    else:
        # Before anything that could go wrong: from here on nothing is written to any venue.
        pull(config.state / STOP_FILE, signed(reason, terminal_user()))

    def make(by: str, at: datetime) -> Halt:
        return Halt(by=by, asked_at=at, reason=reason, venue=venue or "", all_orders=all_orders)

    try:
        said = submit_request(*load_config_and_plugins(ctx), make, token_file=token_file)
    except FoxcastError as error:
        if venue is not None:
            raise
        # The file holds everything, whether or not the ledger could be told.
        said = f"halted everything by {config.state / STOP_FILE}; the ledger was not told: {error}"
    stdout_console().print(said)
    for line in _resting_order_warnings(config, venue):
        stdout_console().print(line)


def _resting_order_warnings(config: Config, venue: str | None) -> Iterator[str]:
    """Yield what rests at venues and is taken back by nobody, while no daemon runs."""
    folder, now = folder_of(config), SystemClock().now()
    holder = last_holder(folder)
    if holder is not None and is_running(holder):
        return
    try:
        rows = query_ledger(
            config, lambda records: load_open_orders(records, Asked(now=now, venue=venue, open=True, limit=10_000))
        )
    except FoxcastError:
        return
    for name, count in Counter(row.row.intent.ref.venue for row in rows if _may_be_at_venue(row, now)).items():
        yield (
            f"{count} orders may rest at {name}: no daemon runs that would take them back; run: foxcast run --once, "
            "which takes them back while the halt stands, or cancel them at the venue"
        )


def _may_be_at_venue(one: OrderRow, now: datetime) -> bool:
    sent = {IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT}
    return one.row.mode is not Mode.PAPER and (one.rests(now) or one.row.state in sent)


async def load_open_orders(records: Records, asked: Asked) -> Sequence[OrderRow]:
    """Return what may be filled or may have left."""
    return await records.ledger.submissions.readers.run(lambda database: listed(database, asked))


@resume_app.command()
def resume(
    ctx: typer.Context,
    venue: Annotated[str | None, typer.Argument(metavar="VENUE", help=HALT_VENUE_HELP)] = None,
    *,
    token_file: TokenFileOption = None,
) -> None:
    """End what was halted by people or stopped itself; losses are counted anew from here on."""
    config, registry = load_config_and_plugins(ctx)
    if venue is not None:
        require_configured_venue(config, venue)

    def make(by: str, at: datetime) -> Resume:
        return Resume(by=by, asked_at=at, venue=venue)

    stdout_console().print(submit_request(config, registry, make, token_file=token_file))
