"""What was to leave, on paper: a line for each, or all that is known of one."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.figures import NOTHING, ago, in_short, moment, number
from bot.domain.order import Order, Side
from bot.domain.submission import IntentState
from bot.paper.report import TicketReport
from bot.store.codec import PREDICTIONS, stamp
from bot.store.intents import ORDER
from bot.store.orders import OrderRow

COLUMNS = (
    Column("order", Kind.TEXT),
    Column("question", Kind.TEXT),
    Column("what", Kind.TEXT),
    Column("limit", Kind.NUMBER),
    Column("filled", Kind.NUMBER),
    Column("cash", Kind.NUMBER),
    Column("state"),
    Column("mode"),
    Column("age"),
    Column("why", Kind.TEXT),
)
FILLS = (
    Column("fill"),
    Column("at"),
    Column("shares", Kind.NUMBER),
    Column("price", Kind.NUMBER),
    Column("fee", Kind.NUMBER),
    Column("cash", Kind.NUMBER),
)
# Narrower than this a table of so many columns says nothing.
ROOM = 110


def print_orders(console: Console, rows: Sequence[OrderRow], now: datetime) -> None:
    """Print a line for each, or where there is little room a few short ones."""
    if console.width >= ROOM:
        console.print(table(COLUMNS, [_cells(one, now) for one in rows]))
    else:
        for one in rows:
            _print_short(console, one, now)
    for line in in_doubt(rows, now):
        console.print(line)


def in_doubt(rows: Sequence[OrderRow], now: datetime) -> Iterator[str]:
    """Yield what a person can do about what is in doubt, and what becomes of the rest by itself."""
    for one in rows:
        if one.row.state is IntentState.IN_DOUBT:
            name, venue = one.row.intent.id, one.row.intent.ref.venue
            yield (
                f"{name} is in doubt and counts as spent: look at {venue}, then run: foxcast orders adopt {name} "
                "--ref NAME if it is there, --absent if not"
            )
    if unknown := sum(one.row.state is IntentState.UNKNOWN for one in rows):
        fences = [until for one in rows if (until := _may_take_effect_until(one)) is not None and until > now]
        sure = f" from {moment(max(fences))} UTC on" if fences else ""
        yield f"{unknown} without an answer: read back by the daemon or the next run, which knows for sure{sure}"


def _may_take_effect_until(one: OrderRow) -> datetime | None:
    if one.row.state is not IntentState.UNKNOWN:
        return None
    return next((attempt.sealed.fence for attempt in one.attempts if attempt.sealed is not None), None)


def _print_short(console: Console, one: OrderRow, now: datetime) -> None:
    name, question, what, limit, filled, cash, state, mode, age, why = _cells(one, now)
    console.print(f"{name}  {state}, {mode}, {age}")
    indented(console, question)
    indented(console, f"{what}, limit {limit}, filled {filled}, cash {cash}" if limit != NOTHING else what)
    if why:
        indented(console, why)


def print_order(console: Console, one: OrderRow, now: datetime, ticket: TicketReport | None = None) -> None:
    """Print all that is known of one; ``ticket`` is what its paper book says of it."""
    row, order = one.row, one.row.intent.order
    console.print(f"{row.intent.id}: {row.intent.action} on {row.intent.ref}, {state_of(one, now)}, {row.mode}")
    if one.title:
        indented(console, one.title)
    console.print(f"forecast {in_short(row.intent.predictions)}" if row.intent.predictions else "no forecast")
    if order is not None:
        console.print(
            f"{what_of(order)} of {order.contract} at {order.limit:.4f} or better, "
            f"for {order.cost:.2f} {order.currency} at most (fees {order.fees:.2f}, edge {order.edge:.4f})"
        )
    if one.decided:
        console.print(f"let go because: {one.decided}")
    _print_attempts(console, one, now)
    _print_fills(console, one)
    if ticket is not None:
        _print_ticket(console, ticket)
    for line in in_doubt([one], now):
        console.print(line)


def _print_attempts(console: Console, one: OrderRow, now: datetime) -> None:
    heading(console, f"Attempts ({len(one.attempts)})")
    for attempt in reversed(one.attempts):
        ended = f", settled {moment(attempt.settled_at)}" if attempt.settled_at else ""
        named = f", {attempt.reference}" if attempt.reference else ""
        fence = attempt.sealed.fence if attempt.sealed else None
        until = f", may take effect until {moment(fence)}" if fence is not None and fence > now else ""
        console.print(f"{attempt.number}. {moment(attempt.started_at)}: {attempt.state}{named}{ended}{until}")
        if attempt.detail:
            indented(console, attempt.detail)


def _print_fills(console: Console, one: OrderRow) -> None:
    if not one.fills:
        return
    heading(console, f"Fills ({len(one.fills)})")
    rows = [
        (
            fill.reference,
            moment(fill.at),
            number(fill.shares),
            number(fill.price, 4),
            number(fill.fee, 4),
            number(fill.cash),
        )
        for fill in one.fills
    ]
    console.print(table(FILLS, rows))


def _print_ticket(console: Console, ticket: TicketReport) -> None:
    heading(console, "In the paper book")
    console.print(f"{ticket.state}: {ticket.why}" if ticket.why else ticket.state)
    for name, value in ticket.report.items():
        if value not in (None, "", ticket.why):
            indented(console, f"{name.replace('_', ' ')} {value}")


def as_plain(one: OrderRow, now: datetime, ticket: TicketReport | None = None) -> dict[str, Any]:
    """Return all that is known of one as JSON values; ``ticket`` is what its paper book says of it."""
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
        "rests": one.rests(now),
        "planned_at": stamp(row.planned_at),
        "changed_at": stamp(row.changed_at),
        "decided": one.decided,
        "why": one.why,
        "forecast": row.intent.forecast,
        "predictions": PREDICTIONS.plain(row.intent.predictions),
        "order": None if order is None else ORDER.plain(order),
        "filled": one.filled,
        "fees": one.fees,
        "cash": one.cash,
        "paper": None if ticket is None else _plain_ticket(ticket),
        "attempts": [
            {
                "number": attempt.number,
                "state": attempt.state.value,
                "started_at": stamp(attempt.started_at),
                "settled_at": stamp(attempt.settled_at),
                "reference": attempt.reference,
                "detail": attempt.detail,
                "tag": attempt.sealed.tag if attempt.sealed else None,
                "fence": stamp(attempt.sealed.fence) if attempt.sealed else None,
            }
            for attempt in one.attempts
        ],
        "fills": [
            {
                "reference": fill.reference,
                "at": stamp(fill.at),
                "shares": fill.shares,
                "price": fill.price,
                "fee": fill.fee,
                "cash": fill.cash,
            }
            for fill in one.fills
        ],
    }


def _plain_ticket(ticket: TicketReport) -> dict[str, Any]:
    return {"state": ticket.state, "why": ticket.why, "report": dict(ticket.report) or None}


def state_of(one: OrderRow, now: datetime) -> str:
    """Return where it stands in a word or two."""
    if one.row.intent.order is None or one.row.state is not IntentState.ACKED:
        return one.row.state.value
    if one.whole:
        return "filled"
    if one.rests(now):
        return "resting"
    return "partly filled" if one.fills else "not filled"


def what_of(order: Order) -> str:
    """Return what an order is for in a few words."""
    what = f"{order.side} {order.shares:.2f} {order.leg}"
    return f"{what} ({order.option})" if order.option else what


def _cells(one: OrderRow, now: datetime) -> tuple[str, ...]:
    row, order = one.row, one.row.intent.order
    what = row.intent.action.value if order is None else what_of(order)
    if order is None and row.intent.predictions:
        what = f"{what} {in_short(row.intent.predictions)}"
    return (
        row.intent.id,
        str(row.intent.ref),
        what,
        NOTHING if order is None else f"{'at least ' if order.side is Side.SELL else ''}{order.limit:.3f}",
        NOTHING if order is None else f"{one.filled:.2f}",
        NOTHING if order is None else f"{one.cash:+.2f}",
        state_of(one, now),
        row.mode.value,
        ago(now - row.planned_at),
        one.why,
    )
