"""What an account has: its sums, its positions, what hangs together, and what its orders gained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.console import Console

from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.figures import NOTHING, ago, day, number
from bot.cli.output.profit import plain_profit, print_profit, sums_of
from bot.domain.account_profit import AccountProfit
from bot.domain.equity import EquityPoint
from bot.domain.order import Account, Position
from bot.domain.question import QuestionRef
from bot.domain.submission import Mode
from bot.store.codec import stamp

SUMS = (Column("sum"), Column("amount", Kind.NUMBER))
POSITIONS = (
    Column("question", Kind.TEXT),
    Column("title", Kind.TITLE),
    Column("side", Kind.TEXT),
    Column("shares", Kind.NUMBER),
    Column("cost", Kind.NUMBER),
    Column("mark", Kind.NUMBER),
    Column("value", Kind.NUMBER),
    Column("gain", Kind.NUMBER),
    Column("marked"),
)
EVENTS = (
    Column("event", Kind.TEXT),
    Column("positions", Kind.NUMBER),
    Column("cost", Kind.NUMBER),
    Column("value", Kind.NUMBER),
    Column("gain", Kind.NUMBER),
)
# Narrower than this a table of so many columns says nothing.
ROOM = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A position with its question; ``marked_at`` is when its price was looked at."""

    position: Position
    title: str
    event: str
    marked_at: datetime | None

    @property
    def value(self) -> float:
        """What it would bring now, 0 where nobody buys."""
        return self.position.shares * (self.position.mark or 0.0)

    @property
    def gain(self) -> float:
        """What it would bring beyond what it cost."""
        return self.value - self.position.paid


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What an account of a venue has; without ``account`` nothing is traded there, and forecasts stand.

    ``capital`` is known of paper books alone. ``titles`` are those of all questions that were traded, ``points`` the
    equity over time.
    """

    venue: str
    mode: Mode
    name: str
    standing: int = 0
    account: Account | None = None
    positions: tuple[Held, ...] = ()
    fees: float = 0.0
    profit: AccountProfit = field(default_factory=AccountProfit)
    points: tuple[EquityPoint, ...] = ()
    titles: Mapping[QuestionRef, str] = field(default_factory=dict)
    capital: float | None = None
    begun_at: datetime | None = None
    faults: tuple[str, ...] = ()

    @property
    def reserved(self) -> float:
        """What open orders hold back."""
        return 0.0 if self.account is None else sum(order.reserves for order in self.account.orders)

    @property
    def value(self) -> float:
        """What all positions would bring now."""
        return sum(held.value for held in self.positions)

    @property
    def gain(self) -> float:
        """What all positions would bring beyond what they cost."""
        return sum(held.gain for held in self.positions)

    @property
    def by_event(self) -> Mapping[str, tuple[Held, ...]]:
        """The positions of each event that has several."""
        grouped: dict[str, list[Held]] = {}
        for held in self.positions:
            if held.event:
                grouped.setdefault(held.event, []).append(held)
        return {event: tuple(held) for event, held in grouped.items() if len(held) > 1}


def print_portfolio(console: Console, one: Holdings, now: datetime) -> None:
    """Print it for a person."""
    account = one.account
    heading(console, f"{one.venue}: {one.mode}, account {one.name}")
    if one.standing:
        console.print(f"forecasts stand on {one.standing} open questions")
    if account is None:
        return
    if one.mode is not Mode.PAPER:
        console.print(f"as it was read {ago(now - account.at)}")
    for fault in one.faults:
        console.print(f"the book does not agree with itself: {fault}")
    console.print(table(SUMS, _sums(one, account)))
    if account.orders:
        console.print(f"{len(account.orders)} orders open; look at them with: foxcast orders --open")
    if one.positions:
        _print_positions(console, one, now)
        _print_events(console, one)
    else:
        console.print("no positions")
    print_profit(console, one.profit, one.titles)


def as_plain(one: Holdings) -> dict[str, Any]:
    """Return it as JSON values."""
    account = one.account
    return {
        "venue": one.venue,
        "mode": one.mode.value,
        "account": one.name,
        "standing_forecasts": one.standing,
        "currency": None if account is None else account.currency,
        "at": None if account is None else stamp(account.at),
        "begun_at": stamp(one.begun_at),
        "capital": one.capital,
        "cash": None if account is None else account.cash,
        "reserved": one.reserved,
        "value": one.value,
        "gain": one.gain,
        "realised": None if account is None else one.profit.realised,
        "fees": one.fees,
        **plain_profit(one.profit, one.titles),
        "equity": None if account is None else account.equity,
        "faults": [*one.faults],
        "positions": [_plain_position(held) for held in one.positions],
        "orders": [
            {
                "id": order.id,
                "question": None if order.ref is None else str(order.ref),
                "contract": order.contract,
                "leg": order.leg.value,
                "side": order.side.value,
                "limit": order.limit,
                "shares": order.shares,
                "reserves": order.reserves,
                "expires_at": stamp(order.expires_at),
            }
            for order in (account.orders if account else ())
        ],
        "events": {event: {"gain": sum(h.gain for h in held)} for event, held in one.by_event.items()},
    }


def _plain_position(held: Held) -> dict[str, Any]:
    position = held.position
    return {
        "question": None if position.ref is None else str(position.ref),
        "title": held.title,
        "event": held.event or None,
        "contract": position.contract,
        "option": position.option or None,
        "leg": position.leg.value,
        "shares": position.shares,
        "cost": position.paid,
        "mark": position.mark,
        "marked_at": stamp(held.marked_at),
        "value": held.value,
        "gain": held.gain,
    }


def _sums(one: Holdings, account: Account) -> list[tuple[str, str]]:
    rows = [
        ("cash, free", number(account.cash)),
        ("held back by orders", number(one.reserved)),
        ("positions, if sold now", number(one.value)),
        (f"equity, {account.currency}", number(account.equity)),
        ("gain of positions", f"{one.gain:+z.2f}"),
        *sums_of(one.profit),
        ("fees paid", number(one.fees)),
    ]
    if one.capital is not None:
        rows.append((f"begun {day(one.begun_at)} with", number(one.capital)))
    return rows


def _print_positions(console: Console, one: Holdings, now: datetime) -> None:
    heading(console, f"Positions ({len(one.positions)})")
    rows = [_cells(held, now) for held in sorted(one.positions, key=lambda held: -held.position.paid)]
    if console.width >= ROOM:
        console.print(table(POSITIONS, rows))
        return
    for name, title, side, shares, cost, mark, value, gain, marked in rows:
        console.print(name)
        if title:
            indented(console, title)
        indented(console, f"{shares} {side} for {cost}")
        indented(console, f"mark {mark} ({marked}), value {value}, gain {gain}")


def _print_events(console: Console, one: Holdings) -> None:
    if not one.by_event:
        return
    heading(console, "By event")
    rows = [
        (
            event,
            str(len(held)),
            number(sum(one.position.paid for one in held)),
            number(sum(one.value for one in held)),
            f"{sum(one.gain for one in held):+z.2f}",
        )
        for event, held in one.by_event.items()
    ]
    if console.width >= ROOM:
        console.print(table(EVENTS, rows))
        return
    for event, count, cost, value, gain in rows:
        console.print(event)
        indented(console, f"{count} positions, cost {cost}, value {value}, gain {gain}")


def _cells(held: Held, now: datetime) -> tuple[str, ...]:
    position = held.position
    return (
        position.contract if position.ref is None else str(position.ref),
        held.title,
        f"{position.leg} ({position.option})" if position.option else position.leg.value,
        number(position.shares),
        number(position.paid),
        number(position.mark, 3),
        number(held.value),
        f"{held.gain:+z.2f}",
        NOTHING if held.marked_at is None else ago(now - held.marked_at),
    )
