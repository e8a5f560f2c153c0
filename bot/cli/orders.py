"""``foxcast orders``: what was to leave and what became of it; taking back what rests, settling what is in doubt."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from bot.app import Records, folder_of
from bot.cli.leaving import TokenFile, submit_request, terminal_user
from bot.cli.options import spread
from bot.cli.output.console import emit, stdout
from bot.cli.output.orders import as_plain, print_order, print_orders, state_of
from bot.cli.records import read
from bot.cli.session import configured, equipped
from bot.clock import SystemClock
from bot.config.model import Config
from bot.domain.request import AdoptIntent, CancelOrder
from bot.domain.submission import Mode
from bot.errors import ConfigError, NotFound, Rejected
from bot.paper.book import book_path
from bot.paper.report import TicketReport, read_tickets
from bot.store.cancels import ask
from bot.store.orders import Asked, OrderRow, listed_of

app = typer.Typer(add_completion=False, invoke_without_command=True)

ID_HELP = "An order, as foxcast orders names it; the beginning of its name is enough where it is the only one."
# Names are looked for among so many of the newest.
KNOWN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which orders."""

    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only at this venue.")] = None
    is_open: Annotated[
        bool, typer.Option("--open", help="Only what may still leave, may have left, or may still be filled.")
    ] = False
    on_paper: Annotated[
        bool | None, typer.Option("--paper/--live", help="Only what is on paper, or only what is real.")
    ] = None
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many at most, the newest.")] = 50
    show_all: Annotated[bool, typer.Option("--all", help="All of them, whatever --limit says.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@app.callback()
@spread(Options)
def orders(ctx: typer.Context, options: Options) -> None:
    """List what was to leave, what became of it, and what was filled."""
    if ctx.invoked_subcommand is not None:
        return
    now = SystemClock().now()
    limit = None if options.show_all else options.limit
    asked = Asked(now=now, venue=options.venue, open=options.is_open, limit=limit, paper=options.on_paper)
    found, count = _counted(configured(ctx), asked)
    if left_out := count - len(found):
        # Beside the answer, so that a program sees it too.
        sys.stderr.write(f"{left_out} of {count} orders are not shown, the oldest; see: foxcast orders --all\n")
    if options.as_json:
        tickets = _tickets(configured(ctx), found)
        emit([as_plain(one, now, tickets.get(one.row.intent.id)) for one in found])
        return
    console = stdout()
    if not found:
        console.print("nothing is under way" if options.is_open else "nothing was to leave yet")
        return
    print_orders(console, found, now)


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one order: why it was let go, each attempt, each fill, and what its paper book reports."""
    config, now = configured(ctx), SystemClock().now()
    one = _named(config, name)
    ticket = _tickets(config, [one]).get(one.row.intent.id)
    if not as_json:
        print_order(stdout(), one, now, ticket)
        return
    told = as_plain(one, now, ticket)
    if ticket is not None:
        # Of one order also the market that it met, which may be long.
        told["paper"]["market"] = ticket.market
    emit(told)


@app.command()
def cancel(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)]) -> None:
    """Take an order back that rests at its venue or in the paper book. Open to all."""
    config, now = configured(ctx), SystemClock().now()
    one = _named(config, name)
    if not one.rests(now):
        message = f"order {one.row.intent.id} does not rest anywhere: it is {state_of(one, now)}"
        raise Rejected(message)
    ask(folder_of(config), CancelOrder(intent=one.row.intent.id, by=terminal_user(), asked_at=now))
    stdout().print(f"cancel of {one.row.intent.id} asked for; the daemon does it within seconds, else the next run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a person says of one that is in doubt."""

    name: Annotated[str, typer.Argument(metavar="ID", help=ID_HELP)]
    reference: Annotated[str, typer.Option("--ref", metavar="NAME", help="It is there, under this name.")] = ""
    absent: Annotated[bool, typer.Option("--absent", help="It is not there, and will not be.")] = False
    reason: Annotated[str, typer.Option(metavar="TEXT", help="How you know; kept in the audit.")] = ""
    token_file: TokenFile = None


@app.command()
@spread(Word)
def adopt(ctx: typer.Context, word: Word) -> None:
    """Say what became of a submission that is in doubt, after a look at the venue."""
    config, registry = equipped(ctx)
    if word.absent == bool(word.reference.strip()):
        message = "say one of two: --ref NAME where it is at the venue, --absent where it is not"
        raise ConfigError(message)
    intent = _named(config, word.name).row.intent.id

    def make(by: str, at: datetime) -> AdoptIntent:
        return AdoptIntent(
            by=by, asked_at=at, intent=intent, reference=word.reference, absent=word.absent, reason=word.reason
        )

    stdout().print(submit_request(config, registry, make, token_file=word.token_file))


def _named(config: Config, name: str) -> OrderRow:
    """Return the one order of that name; raises NotFound with the candidates where there are several."""
    found = [
        one
        for one in _rows(config, Asked(now=SystemClock().now(), prefix=name, limit=KNOWN))
        if one.row.intent.id.startswith(name)
    ]
    match [one for one in found if one.row.intent.id == name] or found:
        case [one]:
            return one
        case []:
            message = f"no order is called {name}; list what there is with: foxcast orders"
            raise NotFound(message)
        case several:
            named = ", ".join(one.row.intent.id for one in several[:5])
            message = f"{name} is not one order; name one of {named}"
            raise NotFound(message)


def _tickets(config: Config, rows: Sequence[OrderRow]) -> Mapping[str, TicketReport]:
    """Return what the paper books say of those of the orders that are theirs."""
    wanted: dict[str, list[str]] = {}
    for one in rows:
        if one.row.mode is Mode.PAPER and one.row.intent.order is not None:
            wanted.setdefault(one.row.intent.ref.venue, []).append(one.row.intent.id)

    async def tickets() -> Mapping[str, TicketReport]:
        found: dict[str, TicketReport] = {}
        for venue, intents in wanted.items():
            path = book_path(folder_of(config), venue)
            found |= await read_tickets(path, intents) if path.exists() else {}
        return found

    return asyncio.run(tickets()) if wanted else {}


def _rows(config: Config, asked: Asked) -> Sequence[OrderRow]:
    return _counted(config, asked)[0]


def _counted(config: Config, asked: Asked) -> tuple[Sequence[OrderRow], int]:
    async def rows(records: Records) -> tuple[Sequence[OrderRow], int]:
        return await records.ledger.submissions.readers.run(lambda database: listed_of(database, asked))

    return read(config, rows)
