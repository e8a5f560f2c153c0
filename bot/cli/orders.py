"""`foxcast orders`: orders and submissions with status and fills.

Subcommands cancel a resting order, or settle a submission of unknown outcome.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.cli.command_setup import load_command_config, load_config_and_plugins
from bot.cli.daemon_requests import TokenFileOption, submit_request, terminal_user
from bot.cli.lookup import require_known_venue
from bot.cli.options import options_from_dataclass
from bot.cli.output.console import (
    ColumnKind,
    TableColumn,
    make_table,
    print_heading,
    print_indented,
    print_json,
    stdout_console,
)
from bot.cli.output.lists import ListOptions, print_csv
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, NotFoundError, RequestRejectedError
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import AdoptIntent, CancelOrder
from bot.core.orders import Order, OrderSide
from bot.core.submissions import ExecutionMode, IntentState
from bot.evaluation.lookup import query_ledger
from bot.evaluation.value_text import NO_VALUE, format_age, format_minute, format_number, format_predictions_short
from bot.execution.paper.paper_book import paper_book_path
from bot.execution.paper.report import PaperOrderReport, read_order_reports
from bot.store.intents import ORDER_SERIALIZER
from bot.store.ledger import ReadOnlyState, state_folder
from bot.store.requests import request_cancellation
from bot.store.serialization import PREDICTIONS, format_timestamp
from bot.store.submission_queries import OrderFilter, OrderRow, list_and_count_orders

ORDER_COLUMNS = (
    TableColumn("order", ColumnKind.TEXT),
    TableColumn("question", ColumnKind.TEXT),
    TableColumn("what", ColumnKind.TEXT),
    TableColumn("limit", ColumnKind.NUMBER),
    TableColumn("filled", ColumnKind.NUMBER),
    TableColumn("cash", ColumnKind.NUMBER),
    TableColumn("state"),
    TableColumn("mode"),
    TableColumn("age"),
    TableColumn("why", ColumnKind.TEXT),
)


FILL_COLUMNS = (
    TableColumn("fill"),
    TableColumn("at"),
    TableColumn("shares", ColumnKind.NUMBER),
    TableColumn("price", ColumnKind.NUMBER),
    TableColumn("fee", ColumnKind.NUMBER),
    TableColumn("cash", ColumnKind.NUMBER),
)


# A table with so many columns is unreadable on a narrower terminal.
MIN_TABLE_WIDTH = 110


def print_orders(console: Console, rows: Sequence[OrderRow], now: datetime) -> None:
    """Print a table, or on a narrow terminal a few short lines for each order."""
    if console.width >= MIN_TABLE_WIDTH:
        console.print(make_table(ORDER_COLUMNS, [_order_cells(one, now) for one in rows]))
    else:
        for one in rows:
            _print_order_lines(console, one, now)
    for line in in_doubt_advice(rows, now):
        console.print(line)


def in_doubt_advice(rows: Sequence[OrderRow], now: datetime) -> Iterator[str]:
    """Yield what a person can do about orders in doubt, and how orders without an answer are settled."""
    for one in rows:
        if one.row.state is IntentState.IN_DOUBT:
            name, venue = one.row.intent.id, one.row.intent.ref.venue
            yield (
                f"{name} is in doubt and counts as spent: check {venue}, then run: foxcast orders adopt {name} "
                "--ref NAME if it is there, --absent if not"
            )
    if unknown := sum(one.row.state is IntentState.UNKNOWN for one in rows):
        fences = [until for one in rows if (until := _effective_until(one)) is not None and until > now]
        known_from = f" from {format_minute(max(fences))} UTC on" if fences else ""
        yield f"{unknown} without an answer: the daemon or the next run reads them back, with certainty{known_from}"


def _effective_until(one: OrderRow) -> datetime | None:
    if one.row.state is not IntentState.UNKNOWN:
        return None
    return next((attempt.sealed.fence for attempt in one.attempts if attempt.sealed is not None), None)


def _print_order_lines(console: Console, one: OrderRow, now: datetime) -> None:
    name, question, what, limit, filled, cash, state, mode, age, why = _order_cells(one, now)
    console.print(f"{name}  {state}, {mode}, {age}")
    print_indented(console, question)
    print_indented(console, f"{what}, limit {limit}, filled {filled}, cash {cash}" if limit != NO_VALUE else what)
    if why:
        print_indented(console, why)


def print_order_details(
    console: Console, one: OrderRow, now: datetime, paper_report: PaperOrderReport | None = None
) -> None:
    """Print everything known about an order; ``paper_report`` is the report of its paper book."""
    row, order = one.row, one.row.intent.order
    console.print(f"{row.intent.id}: {row.intent.action} on {row.intent.ref}, {order_status(one, now)}, {row.mode}")
    if one.title:
        print_indented(console, one.title)
    console.print(
        f"forecast {format_predictions_short(row.intent.predictions)}" if row.intent.predictions else "no forecast"
    )
    if order is not None:
        console.print(
            f"{order_description(order)} of {order.contract} at {order.limit:.4f} or better, "
            f"for {order.cost:.2f} {order.currency} at most (fees {order.fees:.2f}, edge {order.edge:.4f})"
        )
    if one.decision_reason:
        console.print(f"submitted because: {one.decision_reason}")
    _print_attempts(console, one, now)
    _print_fills(console, one)
    if paper_report is not None:
        _print_paper_report(console, paper_report)
    for line in in_doubt_advice([one], now):
        console.print(line)


def _print_attempts(console: Console, one: OrderRow, now: datetime) -> None:
    print_heading(console, f"Attempts ({len(one.attempts)})")
    for attempt in reversed(one.attempts):
        ended = f", settled {format_minute(attempt.settled_at)}" if attempt.settled_at else ""
        named = f", {attempt.reference}" if attempt.reference else ""
        fence = attempt.sealed.fence if attempt.sealed else None
        until = f", may take effect until {format_minute(fence)}" if fence is not None and fence > now else ""
        console.print(f"{attempt.number}. {format_minute(attempt.started_at)}: {attempt.state}{named}{ended}{until}")
        if attempt.detail:
            print_indented(console, attempt.detail)


def _print_fills(console: Console, one: OrderRow) -> None:
    if not one.fills:
        return
    print_heading(console, f"Fills ({len(one.fills)})")
    rows = [
        (
            fill.reference,
            format_minute(fill.at),
            format_number(fill.shares),
            format_number(fill.price, 4),
            format_number(fill.fee, 4),
            format_number(fill.cash),
        )
        for fill in one.fills
    ]
    console.print(make_table(FILL_COLUMNS, rows))


def _print_paper_report(console: Console, paper_report: PaperOrderReport) -> None:
    print_heading(console, "In the paper book")
    console.print(f"{paper_report.state}: {paper_report.why}" if paper_report.why else paper_report.state)
    for name, value in paper_report.report.items():
        if value not in (None, "", paper_report.why):
            print_indented(console, f"{name.replace('_', ' ')} {value}")


def order_to_json(one: OrderRow, now: datetime, paper_report: PaperOrderReport | None = None) -> dict[str, Any]:
    """Return everything known about an order as JSON values; ``paper_report`` is the report of its paper book."""
    row, order = one.row, one.row.intent.order
    return {
        "id": row.intent.id,
        "venue": row.intent.ref.venue,
        "account": row.intent.account,
        "question": str(row.intent.ref),
        "title": one.title,
        "action": row.intent.action.value,
        "mode": row.mode.value,
        "state": row.state.value,
        "rests": one.is_resting(now),
        "planned_at": format_timestamp(row.planned_at),
        "changed_at": format_timestamp(row.changed_at),
        "decided": one.decision_reason,
        "why": one.why,
        "forecast": row.intent.forecast,
        "predictions": PREDICTIONS.plain(row.intent.predictions),
        "order": None if order is None else ORDER_SERIALIZER.plain(order),
        "filled": one.filled,
        "fees": one.fees,
        "cash": one.cash,
        "paper": None if paper_report is None else _paper_report_to_json(paper_report),
        "attempts": [
            {
                "number": attempt.number,
                "state": attempt.state.value,
                "started_at": format_timestamp(attempt.started_at),
                "settled_at": format_timestamp(attempt.settled_at),
                "reference": attempt.reference,
                "detail": attempt.detail,
                "tag": attempt.sealed.tag if attempt.sealed else None,
                "fence": format_timestamp(attempt.sealed.fence) if attempt.sealed else None,
            }
            for attempt in one.attempts
        ],
        "fills": [
            {
                "reference": fill.reference,
                "at": format_timestamp(fill.at),
                "shares": fill.shares,
                "price": fill.price,
                "fee": fill.fee,
                "cash": fill.cash,
            }
            for fill in one.fills
        ],
    }


def _paper_report_to_json(paper_report: PaperOrderReport) -> dict[str, Any]:
    return {"state": paper_report.state, "why": paper_report.why, "report": dict(paper_report.report) or None}


def order_status(one: OrderRow, now: datetime) -> str:
    """Return its state in a word or two."""
    if one.row.intent.order is None or one.row.state is not IntentState.ACKED:
        return one.row.state.value
    if one.is_filled:
        return "filled"
    if one.is_resting(now):
        return "resting"
    return "partly filled" if one.fills else "not filled"


def order_description(order: Order) -> str:
    """Return side, shares and contract side of an order."""
    what = f"{order.side} {order.shares:.2f} {order.leg}"
    return f"{what} ({order.option})" if order.option else what


def _order_cells(one: OrderRow, now: datetime) -> tuple[str, ...]:
    row, order = one.row, one.row.intent.order
    what = row.intent.action.value if order is None else order_description(order)
    if order is None and row.intent.predictions:
        what = f"{what} {format_predictions_short(row.intent.predictions)}"
    return (
        row.intent.id,
        str(row.intent.ref),
        what,
        NO_VALUE if order is None else f"{'at least ' if order.side is OrderSide.SELL else ''}{order.limit:.3f}",
        NO_VALUE if order is None else f"{one.filled:.2f}",
        NO_VALUE if order is None else f"{one.cash:+.2f}",
        order_status(one, now),
        row.mode.value,
        format_age(now - row.planned_at),
        one.why,
    )


app = typer.Typer(add_completion=False, invoke_without_command=True)


ORDER_HELP = "An order as foxcast orders lists it, or a unique prefix of its id."


# Ids are searched, and orders sorted, among this many newest ones.
MAX_ORDERS_SEARCHED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersOptions(ListOptions):
    """Which orders are listed."""

    venue: Annotated[str | None, typer.Option(metavar="NAME", help="Only at this venue.")] = None
    is_open: Annotated[
        bool, typer.Option("--open", help="Only orders that are pending, resting or of unknown outcome.")
    ] = False
    on_paper: Annotated[bool | None, typer.Option("--paper/--live", help="Only paper, or only live.")] = None
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The largest number of orders, newest first.")] = 50
    show_all: Annotated[bool, typer.Option("--all", help="Show all, without a limit.")] = False


@app.callback()
@options_from_dataclass(OrdersOptions)
def orders(ctx: typer.Context, options: OrdersOptions) -> None:
    """List orders and submitted forecasts with status and fills."""
    if ctx.invoked_subcommand is not None:
        return
    now = SystemClock().now()
    limit = None if options.show_all else options.limit
    reads = limit if options.sort is None or options.show_all else MAX_ORDERS_SEARCHED
    asked = OrderFilter(
        now=now, venue=options.venue, open=options.is_open, limit=reads, paper=options.on_paper, text=options.search
    )
    read, count = _load_orders_and_count(load_command_config(ctx), asked)
    found = options.arrange(read, lambda one: order_to_json(one, now))[:limit]
    # On stderr, so that JSON on stdout stays valid.
    if count > len(read) and options.sort is not None:
        sys.stderr.write(f"only the newest {len(read)} orders are sorted; see: foxcast orders --all\n")
    elif count > len(found) and options.search is not None:
        sys.stderr.write("more orders fit; see: foxcast orders --all\n")
    elif count > len(found):
        which = "oldest" if options.sort is None else "last"
        sys.stderr.write(
            f"the {which} {count - len(found)} of {count} orders are not shown; see: foxcast orders --all\n"
        )
    if options.as_json or options.as_csv:
        paper_reports = _load_paper_reports(load_command_config(ctx), found)
        rows = [order_to_json(one, now, paper_reports.get(one.row.intent.id)) for one in found]
        print_csv(rows) if options.as_csv else print_json(rows)
    elif found:
        print_orders(stdout_console(), found, now)
    else:
        nothing = "no order fits" if options.search else "no orders yet"
        stdout_console().print("no open orders" if options.is_open else nothing)


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help=ORDER_HELP)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one order: why it was submitted, every attempt and fill, and its paper-book report."""
    config, now = load_command_config(ctx), SystemClock().now()
    one = _find_order(config, name)
    paper_report = _load_paper_reports(config, [one]).get(one.row.intent.id)
    if not as_json:
        print_order_details(stdout_console(), one, now, paper_report)
        return
    values = order_to_json(one, now, paper_report)
    if paper_report is not None:
        # The order book that the order met, which may be long.
        values["paper"]["market"] = paper_report.market
    print_json(values)


@app.command()
def cancel(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="ID", help=ORDER_HELP)]) -> None:
    """Cancel a resting order at its venue or in the paper book. Needs no token."""
    config, now = load_command_config(ctx), SystemClock().now()
    one = _find_order(config, name)
    if not one.is_resting(now):
        message = f"order {one.row.intent.id} is not resting: it is {order_status(one, now)}"
        raise RequestRejectedError(message)
    request_cancellation(state_folder(config), CancelOrder(intent=one.row.intent.id, by=terminal_user(), asked_at=now))
    stdout_console().print(
        f"cancel of {one.row.intent.id} requested; the daemon does it within seconds, otherwise the next run"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptOptions:
    """What a person found at the venue about a submission in doubt."""

    name: Annotated[str, typer.Argument(metavar="ID", help=ORDER_HELP)]
    reference: Annotated[
        str, typer.Option("--ref", metavar="NAME", help="It reached the venue with this reference.")
    ] = ""
    absent: Annotated[
        bool, typer.Option("--absent", help="It never reached the venue, or was dropped there unfilled.")
    ] = False
    reason: Annotated[str, typer.Option(metavar="TEXT", help="How you checked; recorded in the audit.")] = ""
    token_file: TokenFileOption = None


@app.command()
@options_from_dataclass(AdoptOptions)
def adopt(ctx: typer.Context, options: AdoptOptions) -> None:
    """Settle a submission of unknown outcome after checking the venue."""
    config, registry = load_config_and_plugins(ctx)
    if options.absent == bool(options.reference.strip()):
        message = "give either --ref NAME if it is at the venue, or --absent if it is not"
        raise ConfigError(message)
    intent = _find_order(config, options.name).row.intent.id

    def make_request(by: str, at: datetime) -> AdoptIntent:
        return AdoptIntent(
            by=by, asked_at=at, intent=intent, reference=options.reference, absent=options.absent, reason=options.reason
        )

    stdout_console().print(submit_request(config, registry, make_request, token_file=options.token_file))


def _find_order(config: Config, name: str) -> OrderRow:
    """Return the order with that id or unique prefix; raises NotFoundError, with candidates if there are several."""
    found = [
        one
        for one in _load_orders(config, OrderFilter(now=SystemClock().now(), prefix=name, limit=MAX_ORDERS_SEARCHED))
        if one.row.intent.id.startswith(name)
    ]
    match [one for one in found if one.row.intent.id == name] or found:
        case [one]:
            return one
        case []:
            message = f"no order has the id {name}; list orders with: foxcast orders"
            raise NotFoundError(message)
        case several:
            named = ", ".join(one.row.intent.id for one in several[:5])
            message = f"{name} fits several orders; name one of {named}"
            raise NotFoundError(message)


def _load_paper_reports(config: Config, rows: Sequence[OrderRow]) -> Mapping[str, PaperOrderReport]:
    """Return the reports of the paper books on their orders."""
    intents_by_venue: dict[str, list[str]] = {}
    for one in rows:
        if one.row.mode is ExecutionMode.PAPER and one.row.intent.order is not None:
            intents_by_venue.setdefault(one.row.intent.ref.venue, []).append(one.row.intent.id)

    async def read_reports() -> Mapping[str, PaperOrderReport]:
        found: dict[str, PaperOrderReport] = {}
        for venue, intents in intents_by_venue.items():
            path = paper_book_path(state_folder(config), venue)
            found |= await read_order_reports(path, intents) if path.exists() else {}
        return found

    return asyncio.run(read_reports()) if intents_by_venue else {}


def _load_orders(config: Config, asked: OrderFilter) -> Sequence[OrderRow]:
    return _load_orders_and_count(config, asked)[0]


def _load_orders_and_count(config: Config, asked: OrderFilter) -> tuple[Sequence[OrderRow], int]:
    async def rows(records: ReadOnlyState) -> tuple[Sequence[OrderRow], int]:
        await require_known_venue(records, asked.venue)
        return await records.ledger.submissions.readers.run(lambda database: list_and_count_orders(database, asked))

    return query_ledger(config, rows)
