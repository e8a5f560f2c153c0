"""`foxcast halt` and `resume`: stop all submissions at once, and allow them again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.daemon_requests import TokenFileOption, submit_request, terminal_user
from bot.cli.lookup import require_configured_venue
from bot.cli.output.console import stdout_console
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, FoxcastError
from bot.core.operator_requests import HaltSubmissions, ResumeSubmissions
from bot.core.submissions import ExecutionMode, IntentState
from bot.evaluation.lookup import query_ledger
from bot.execution.gate.kill_switch import STOP_FILE, engage_kill_switch, signed_reason
from bot.store.database import find_running_holder
from bot.store.ledger import ReadOnlyState, state_folder
from bot.store.submission_queries import OrderFilter, OrderRow, list_orders

halt_app, resume_app = (typer.Typer(add_completion=False) for _ in range(2))

HALT_VENUE_HELP = "Only this venue; default: all."


@halt_app.command()
def halt(
    ctx: typer.Context,
    venue: Annotated[str | None, typer.Argument(metavar="VENUE", help=HALT_VENUE_HELP)] = None,
    *,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason, shown wherever something is held because of it.")
    ],
    all_orders: Annotated[
        bool, typer.Option("--all-orders", help="Cancel all orders of the account, also those that are not this bot's.")
    ] = False,
    token_file: TokenFileOption = None,
) -> None:
    """Halt all submissions and cancel this bot's resting orders. Needs no token."""
    config = load_command_config(ctx)
    if not reason.strip():
        message = "--reason is empty; give a reason in a few words"
        raise ConfigError(message)
    if venue is not None:
        require_configured_venue(config, venue)
    else:
        # Before anything that could fail: from here on nothing is written to any venue.
        engage_kill_switch(config.state / STOP_FILE, signed_reason(reason, terminal_user()))

    def make_request(by: str, at: datetime) -> HaltSubmissions:
        return HaltSubmissions(by=by, asked_at=at, reason=reason, venue=venue or "", all_orders=all_orders)

    try:
        result = submit_request(*load_config_and_plugins(ctx, runs_files=False), make_request, token_file=token_file)
    except FoxcastError as error:
        if venue is not None:
            raise
        # The file halts everything, whether or not the halt could be recorded.
        result = f"everything is halted by {config.state / STOP_FILE}; the ledger could not record the halt: {error}"
    stdout_console().print(result)
    for line in _resting_order_warnings(config, venue):
        stdout_console().print(line)


def _resting_order_warnings(config: Config, venue: str | None) -> Iterator[str]:
    """Yield a warning for each venue with resting orders that no daemon will cancel."""
    folder, now = state_folder(config), SystemClock().now()
    if find_running_holder(folder) is not None:
        return
    try:
        rows = query_ledger(
            config,
            lambda records: load_open_orders(records, OrderFilter(now=now, venue=venue, open=True, limit=10_000)),
        )
    except FoxcastError:
        return
    for name, count in Counter(row.row.intent.ref.venue for row in rows if _may_be_at_venue(row, now)).items():
        yield (
            f"{count} orders may rest at {name}, and no daemon runs that would cancel them; run: foxcast run --once, "
            "which cancels them while the halt is active, or cancel them at the venue"
        )


def _may_be_at_venue(order: OrderRow, now: datetime) -> bool:
    sent = {IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT}
    return order.row.mode is not ExecutionMode.PAPER and (order.is_resting(now) or order.row.state in sent)


async def load_open_orders(records: ReadOnlyState, asked: OrderFilter) -> Sequence[OrderRow]:
    """Return the orders that may be filled, or whose submission has no answer yet."""
    return await records.ledger.submissions.readers.run(lambda database: list_orders(database, asked))


@resume_app.command()
def resume(
    ctx: typer.Context,
    venue: Annotated[str | None, typer.Argument(metavar="VENUE", help=HALT_VENUE_HELP)] = None,
    *,
    token_file: TokenFileOption = None,
) -> None:
    """Resume after a halt or an automatic stop; loss limits start again from zero."""
    config, registry = load_config_and_plugins(ctx)
    if venue is not None:
        require_configured_venue(config, venue)

    def make_request(by: str, at: datetime) -> ResumeSubmissions:
        return ResumeSubmissions(by=by, asked_at=at, venue=venue)

    stdout_console().print(submit_request(config, registry, make_request, token_file=token_file))
