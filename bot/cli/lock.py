"""`foxcast lock`, `unlock` and `locks`: exclude a question from forecasting and submission for a time."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_setup import load_command_config
from bot.cli.daemon_requests import TokenFileOption, sign_request
from bot.cli.lookup import QUESTION_HELP
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_json, stdout_console
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, MalformedDataError
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import LockQuestion, UnlockQuestion
from bot.core.questions import QuestionRef
from bot.evaluation.lookup import find_question, query_ledger
from bot.evaluation.value_text import format_day
from bot.store.ledger import state_folder
from bot.store.requests import pending_requests, send_request

COLUMNS = (
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("forecaster"),
    TableColumn("until"),
    TableColumn("state"),
    TableColumn("reason", ColumnKind.TEXT),
)
ACTIVE = "active"
FORECASTER_HELP = "Only for this forecaster; default: for all."

lock_app, unlock_app, locks_app = (typer.Typer(add_completion=False) for _ in range(3))


def parse_moment(text: str) -> datetime:
    """Parse the time given to an option, UTC unless it has an offset; raises a usage error that shows the format."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a time such as 2026-04-26 or 2026-04-26T18:00"
        raise typer.BadParameter(message) from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOptions:
    """Which question is locked, for which forecaster, why and until when."""

    name: Annotated[str, typer.Argument(metavar="ID", help=QUESTION_HELP)]
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, shown wherever something is held because of it.")]
    until: Annotated[
        datetime | None,
        typer.Option(parser=parse_moment, metavar="TIME", help="When the lock ends (UTC); default: until unlocked."),
    ] = None
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=FORECASTER_HELP)] = None


@lock_app.command()
@options_from_dataclass(LockOptions)
def lock(ctx: typer.Context, options: LockOptions) -> None:
    """Lock a question: no forecasts, no submissions."""
    config, now = load_command_config(ctx), SystemClock().now()
    if options.until is not None and options.until <= now:
        message = f"--until {options.until.isoformat()} is in the past; give a later time"
        raise ConfigError(message)
    if not options.reason.strip():
        message = "--reason is empty; give a reason in a few words"
        raise ConfigError(message)
    ref = _find_question_ref(config, options.name)
    _send_lock_request(
        config, LockQuestion(ref=ref, reason=options.reason, forecaster=options.forecaster, until=options.until), now
    )


@unlock_app.command()
def unlock(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=QUESTION_HELP)],
    *,
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=FORECASTER_HELP)] = None,
    token_file: TokenFileOption = None,
) -> None:
    """Remove the lock of a question."""
    config = load_command_config(ctx)
    request = UnlockQuestion(ref=_find_question_ref(config, name), forecaster=forecaster)
    signed = asyncio.run(sign_request(state_folder(config), request, token_file=token_file))
    _send_lock_request(config, signed, SystemClock().now())


@locks_app.command()
def locks(ctx: typer.Context, *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List active locks and their reasons, and requests that wait for the daemon."""
    config, now = load_command_config(ctx), SystemClock().now()
    active = query_ledger(config, lambda records: records.ledger.schedule.locks(now))
    listed = [
        *((str(one.ref), one.forecaster, one.until, one.reason, ACTIVE) for one in active),
        *_waiting_requests(state_folder(config)),
    ]
    if as_json:
        names = ("ref", "forecaster", "until", "reason", "state")
        print_json(
            [{**dict(zip(names, row, strict=True)), "until": row[2].isoformat() if row[2] else None} for row in listed]
        )
        return
    rows = [
        (ref, forecaster or "all", format_day(until), state, reason) for ref, forecaster, until, reason, state in listed
    ]
    stdout_console().print(make_table(COLUMNS, rows) if rows else "nothing is locked")


def _waiting_requests(folder: Path) -> Iterator[tuple[str, str | None, datetime | None, str, str]]:
    """Yield question, forecaster, end, reason and state of the locks and unlocks that the daemon has not done yet."""
    for pending in pending_requests(folder):
        try:
            request = pending.read()
        except MalformedDataError:
            continue  # the daemon refuses it, and reports that
        if isinstance(request, LockQuestion):
            yield str(request.ref), request.forecaster, request.until, request.reason, "lock waits"
        elif isinstance(request, UnlockQuestion):
            yield str(request.ref), request.forecaster, None, "", "unlock waits"


def _find_question_ref(config: Config, name: str) -> QuestionRef:
    return query_ledger(config, lambda records: find_question(records, name))


def _send_lock_request(config: Config, request: LockQuestion | UnlockQuestion, now: datetime) -> None:
    send_request(state_folder(config), request, at=now)
    stdout_console().print(
        f"{request.kind} of {request.ref} requested; the daemon does it within seconds, otherwise the next run"
    )
