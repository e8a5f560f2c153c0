"""``foxcast lock``, ``unlock`` and ``locks``: leave a question alone for a time, and why.

The daemon alone writes the ledger, so a request is left for it; a run that begins later finds it too.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from bot.app import folder_of
from bot.cli.leaving import TokenFile, signed
from bot.cli.options import spread
from bot.cli.output.console import Column, Kind, emit, stdout, table
from bot.cli.output.figures import day
from bot.cli.records import question_named, read
from bot.cli.session import configured
from bot.clock import SystemClock
from bot.config.model import Config
from bot.domain.question import QuestionRef
from bot.domain.request import LockQuestion, UnlockQuestion
from bot.errors import ConfigError
from bot.store.requests import ask

COLUMNS = (Column("question", Kind.TEXT), Column("forecaster"), Column("until"), Column("reason", Kind.TEXT))
ID_HELP = "A question: venue:key, a key, or a unique part of it."
WHOSE_HELP = "Only for this forecaster; otherwise for all."

locking, unlocking, listing = (typer.Typer(add_completion=False) for _ in range(3))


def moment(text: str) -> datetime:
    """Read a moment of an option, in UTC unless it says otherwise; raises a usage error that shows the form."""
    try:
        read_as = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a moment like 2026-04-26 or 2026-04-26T18:00"
        raise typer.BadParameter(message) from error
    return read_as if read_as.tzinfo else read_as.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which question is locked, for whom, why and until when."""

    name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)]
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown wherever the lock holds something back.")]
    until: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="MOMENT", help="When it ends (UTC); else with unlock.")
    ] = None
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=WHOSE_HELP)] = None


@locking.command()
@spread(Options)
def lock(ctx: typer.Context, options: Options) -> None:
    """Leave a question alone: no forecast, no submission."""
    config, now = configured(ctx), SystemClock().now()
    if options.until is not None and options.until <= now:
        message = f"--until {options.until.isoformat()} is already over; name a later moment"
        raise ConfigError(message)
    if not options.reason.strip():
        message = "--reason is empty; say in a few words why the question is left alone"
        raise ConfigError(message)
    ref = _named(config, options.name)
    _leave(
        config, LockQuestion(ref=ref, reason=options.reason, forecaster=options.forecaster, until=options.until), now
    )


@unlocking.command()
def unlock(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)],
    *,
    forecaster: Annotated[str | None, typer.Option(metavar="NAME", help=WHOSE_HELP)] = None,
    token_file: TokenFile = None,
) -> None:
    """Take a lock off a question."""
    config = configured(ctx)
    request = UnlockQuestion(ref=_named(config, name), forecaster=forecaster)
    mine = asyncio.run(signed(folder_of(config), request, token_file=token_file))
    _leave(config, mine, SystemClock().now())


@listing.command()
def locks(ctx: typer.Context, *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the locks that hold now, with their reasons."""
    now = SystemClock().now()
    found = read(configured(ctx), lambda records: records.ledger.schedule.locks(now))
    if as_json:
        emit(
            [
                {
                    "ref": str(one.ref),
                    "forecaster": one.forecaster,
                    "until": one.until.isoformat() if one.until else None,
                    "reason": one.reason,
                }
                for one in found
            ]
        )
        return
    rows = [(str(one.ref), one.forecaster or "all", day(one.until), one.reason) for one in found]
    stdout().print(table(COLUMNS, rows) if rows else "nothing is locked")


def _named(config: Config, name: str) -> QuestionRef:
    return read(config, lambda records: question_named(records, name))


def _leave(config: Config, request: LockQuestion | UnlockQuestion, now: datetime) -> None:
    ask(folder_of(config), request, at=now)
    stdout().print(f"{request.kind} of {request.ref} asked for; the daemon does it within seconds, else the next run")
