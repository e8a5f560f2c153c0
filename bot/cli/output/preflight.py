"""What would leave, on paper: each thing that would with its request, and the others by why they would not."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.console import Console

from bot.cli.output.beliefs import in_order
from bot.cli.output.beliefs import shown as in_words
from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.figures import in_short
from bot.domain.order import Order
from bot.domain.prediction import Shape
from bot.domain.submission import Hold, Intent, Mode, Send
from bot.ids import digest
from bot.jobs.preflight import Look
from bot.jobs.rehearse import Rehearsal
from bot.store.codec import PREDICTIONS, stamp
from bot.store.intents import ORDER

ORDERS = (
    Column("question", Kind.TEXT),
    Column("order", Kind.TEXT),
    Column("shares", Kind.NUMBER),
    Column("limit", Kind.NUMBER),
    Column("price", Kind.NUMBER),
    Column("cost", Kind.NUMBER),
    Column("fees", Kind.NUMBER),
    Column("edge", Kind.NUMBER),
    Column("content"),
)
FORECASTS = (Column("question", Kind.TEXT), Column("forecast", Kind.TEXT), Column("why", Kind.TEXT), Column("content"))
HELD = (Column("question", Kind.TEXT), Column("asked again"), Column("held because", Kind.TEXT))
REASONS = (Column("forecasts", Kind.NUMBER), Column("held because", Kind.TEXT))
# Beyond so many, those that are held are counted by reason.
LISTED = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What was found: ``armed`` says whether a live venue is, ``account`` how the account is known.

    ``is_supposed``: it is not, and all is shown as if it were.
    ``lacking`` is what a live venue needs besides; ``rehearsals`` are the requests, by intent, of the first that leave.
    """

    venue: str
    mode: Mode
    armed: str
    account: str
    looks: tuple[Look, ...]
    lacking: tuple[str, ...] = ()
    is_supposed: bool = False
    rehearsals: Mapping[str, Rehearsal] = field(default_factory=dict)

    @property
    def sends(self) -> tuple[tuple[Look, Send], ...]:
        """What would leave."""
        return tuple((look, look.decision) for look in self.looks if isinstance(look.decision, Send))

    @property
    def holds(self) -> tuple[tuple[Look, Hold], ...]:
        """What would not."""
        return tuple((look, look.decision) for look in self.looks if isinstance(look.decision, Hold))

    @property
    def cost(self) -> float:
        """What all orders together would cost at most."""
        return sum(send.intent.order.cost for _, send in self.sends if send.intent.order is not None)


def print_shown(console: Console, shown: Shown) -> None:
    """Print it for a person."""
    console.print(f"{shown.venue}: mode {shown.mode}" + (f", {shown.armed}" if shown.armed else ""))
    for what in shown.lacking:
        console.print(f"not ready, {what}")
    if shown.account:
        console.print(f"account: {shown.account}")
    if shown.is_supposed:
        console.print("shown as if it were armed, without bounds of an arm record")
    elif shown.armed not in {"", "armed"}:
        console.print(f"to see what would leave once it is armed: foxcast preflight {shown.venue} --as-if-armed")
    where = "into the paper book" if shown.mode is Mode.PAPER else "to the venue"
    console.print(f"{len(shown.sends)} would leave {where}, {len(shown.holds)} are held; nothing was sent")
    orders = [send.intent for _, send in shown.sends if send.intent.order is not None]
    if orders:
        heading(console, f"Orders, {shown.cost:.2f} {_currency(orders)} at most".rstrip())
        console.print(table(ORDERS, [_order(intent, intent.order) for intent in orders if intent.order is not None]))
    forecasts = [(look, send.intent, send.why) for look, send in shown.sends if send.intent.order is None]
    if forecasts:
        heading(console, "Forecasts")
        rows = [
            (str(intent.ref), _in_short(intent, look.case.question.shape), why, content_of(intent))
            for look, intent, why in forecasts
        ]
        console.print(table(FORECASTS, rows))
    if shown.rehearsals and shown.mode is not Mode.PAPER:
        _print_requests(console, shown)
    _print_held(console, shown)


def as_plain(shown: Shown) -> dict[str, Any]:
    """Return it as JSON values."""
    return {
        "venue": shown.venue,
        "mode": shown.mode.value,
        "armed": shown.armed or None,
        "account": shown.account or None,
        "cost": shown.cost,
        "as_if_armed": shown.is_supposed,
        "lacking": list(shown.lacking),
        "sends": [
            in_order(_plain_send(send, shown.rehearsals.get(send.intent.id)), look.case.question.shape)
            for look, send in shown.sends
        ],
        "holds": [
            {
                "question": str(look.case.forecast.ref),
                "forecast": look.case.forecast.id,
                "why": hold.why,
                "until": stamp(hold.until),
            }
            for look, hold in shown.holds
        ],
    }


def _in_short(intent: Intent, shape: Shape) -> str:
    return in_short(intent.predictions, partial(in_words, shape=shape))


def content_of(intent: Intent) -> str:
    """Return the size of what its request would be made of, and the beginning of its digest."""
    return _size(_content(intent))


def _size(text: str) -> str:
    body = text.encode()
    return f"{len(body)} bytes, {digest(body)[:12]}"


def _content(intent: Intent) -> str:
    return PREDICTIONS.encode(intent.predictions) if intent.order is None else ORDER.encode(intent.order)


def _print_requests(console: Console, shown: Shown) -> None:
    """Print each request as it would be sent, without secrets."""
    heading(console, f"Requests ({len(shown.rehearsals)} of {len(shown.sends)}), as they would be sent now")
    for look, send in shown.sends:
        if (one := shown.rehearsals.get(send.intent.id)) is None:
            continue
        console.print(f"{send.intent.ref}  {look.case.question.title}")
        if one.why:
            indented(console, f"it would be refused before sending: {one.why}")
        elif one.sealed is None:
            indented(console, f"no request is made beforehand; {content_of(send.intent)}")
        else:
            until = one.sealed.fence
            bound = "read back at once" if until is None else f"may take effect until {until:%Y-%m-%d %H:%M:%S} UTC"
            indented(console, f"{_size(one.sealed.body)}, {bound}, found again by {one.sealed.tag}")
            indented(console, one.sealed.body)
        if one.comment:
            indented(console, "then, once it stands, the comment:")
            indented(console, one.comment, by=6)


def _print_held(console: Console, shown: Shown) -> None:
    if not shown.holds:
        return
    heading(console, "Held")
    if len(shown.holds) <= LISTED:
        rows = [
            (str(look.case.forecast.ref), f"{hold.until:%Y-%m-%d %H:%M}" if hold.until else "not by itself", hold.why)
            for look, hold in shown.holds
        ]
        console.print(table(HELD, rows))
        return
    counted = Counter(hold.why for _, hold in shown.holds)
    console.print(table(REASONS, [(str(count), why) for why, count in counted.most_common()]))


def _order(intent: Intent, order: Order) -> tuple[str, ...]:
    what = f"{order.side} {order.leg}" + (f" {order.option}" if order.option else "")
    return (
        str(intent.ref),
        what,
        f"{order.shares:.2f}",
        f"{order.limit:.4f}",
        f"{order.expected:.4f}",
        f"{order.cost:.2f}",
        f"{order.fees:.2f}",
        f"{order.edge:.4f}",
        content_of(intent),
    )


def _plain_send(send: Send, rehearsal: Rehearsal | None) -> dict[str, Any]:
    body = _content(send.intent).encode()
    order = send.intent.order
    return {
        "question": str(send.intent.ref),
        "forecast": send.intent.forecast,
        "intent": send.intent.id,
        "why": send.why,
        "predictions": PREDICTIONS.plain(send.intent.predictions),
        "order": None if order is None else ORDER.plain(order),
        "bytes": len(body),
        "sha256": digest(body),
        "request": None if rehearsal is None else _plain_request(rehearsal),
    }


def _plain_request(rehearsal: Rehearsal) -> dict[str, Any]:
    sealed = rehearsal.sealed
    return {
        "body": None if sealed is None else sealed.body,
        "tag": None if sealed is None else sealed.tag,
        "fence": None if sealed is None else stamp(sealed.fence),
        "why_not": rehearsal.why or None,
        "comment": rehearsal.comment or None,
    }


def _currency(intents: list[Intent]) -> str:
    return next((intent.order.currency for intent in intents if intent.order is not None), "")
