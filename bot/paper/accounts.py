"""Cash and positions: double entry, each function within the transaction of its caller."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlite_utils import Database

from bot.domain.order import Leg, Position
from bot.domain.question import QuestionRef
from bot.paper.amounts import units
from bot.store.codec import stamp

_BEGIN = "insert into book (id, currency, cash, begun_at) values (1, ?, 0, ?)"
_BOOK = "select currency, cash from book"
_RESERVED = "select coalesce(sum(reserved), 0) from ticket where state in ('sent', 'resting')"
_HELD = """
select coalesce(sum(held), 0) from ticket
where contract = ? and state in ('sent', 'resting') and json_extract(body, '$.leg') = ?
"""
_MOVE = "insert into movement (at, kind, ticket, settlement) values (?, ?, ?, ?) returning id"
_POST = "insert into posting (movement, place, contract, leg, amount, shares) values (?, ?, ?, ?, ?, ?)"
_CASH = "update book set cash = cash + ?"
_STOCK = "update position set shares = shares + ?, paid = paid + ? where contract = ? and leg = ?"
_POSITION = "select shares, paid from position where contract = ? and leg = ?"
_OPEN = """
insert into position (contract, leg, ref, target, option, event, shares, paid, mark, marked_at)
values (:contract, :leg, :ref, :target, :option, :event, 0, 0, :mark, :at)
on conflict (contract, leg) do update set
  ref = excluded.ref, target = excluded.target, option = excluded.option, event = excluded.event,
  mark = iif(shares = 0, excluded.mark, mark), marked_at = iif(shares = 0, excluded.marked_at, marked_at)
"""
_POSITIONS = """
select contract, leg, shares, paid, ref, option, mark from position where shares > 0 order by contract, leg
"""
_MARK = "update position set mark = ?, marked_at = ? where contract = ? and leg = ?"


class Kind(StrEnum):
    """Why cash moves."""

    BEGIN = "begin"
    FILL = "fill"
    PAIRS = "pairs"
    PAYOUT = "payout"
    REFUND = "refund"
    UNDO = "undo"


class Place(StrEnum):
    """Where an amount is."""

    CASH = "cash"
    STOCK = "stock"
    GAIN = "gain"
    CAPITAL = "capital"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One posting: ``amount`` comes to a place, and with stock also ``shares``."""

    place: Place
    amount: int
    contract: str = ""
    leg: str = ""
    shares: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Lines that sum to zero."""

    kind: Kind
    at: datetime
    lines: Sequence[Line]
    ticket: int | None = None
    settlement: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a position is about."""

    contract: str
    leg: Leg
    ref: str
    target: str
    option: str = ""
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Shares that come (above 0) or go, and what was paid or got for them, fees included."""

    holding: Holding
    shares: int
    cash: int
    price: float
    at: datetime
    ticket: int | None = None


def begin(database: Database, currency: str, cash: int, at: datetime) -> None:
    """Begin the book with its cash, once and for all; later calls change nothing."""
    if database.execute(_BOOK).fetchone() is not None:
        return
    database.execute(_BEGIN, [currency, stamp(at)])
    lines = (Line(place=Place.CASH, amount=cash), Line(place=Place.CAPITAL, amount=-cash))
    post(database, Movement(kind=Kind.BEGIN, at=at, lines=lines))


def currency_of(database: Database) -> str:
    """Return the currency of the book."""
    return str(database.execute(_BOOK).fetchone()[0])


def free(database: Database) -> int:
    """Return the cash that no open order holds back."""
    _, cash = database.execute(_BOOK).fetchone()
    (reserved,) = database.execute(_RESERVED).fetchone()
    return int(cash) - int(reserved)


def free_shares(database: Database, contract: str, leg: str) -> int:
    """Return the shares that no open sale holds back."""
    (held,) = database.execute(_HELD, [contract, leg]).fetchone()
    return _stock(database, contract, leg)[0] - int(held)


def post(database: Database, movement: Movement) -> None:
    """Book a movement; raises ValueError for lines that do not sum to zero."""
    if sum(line.amount for line in movement.lines):
        message = f"the postings of a {movement.kind} do not sum to zero: {movement.lines}"
        raise ValueError(message)
    values = [stamp(movement.at), movement.kind.value, movement.ticket, movement.settlement]
    (name,) = database.execute(_MOVE, values).fetchone()
    for line in movement.lines:
        row = (name, line.place.value, line.contract, line.leg, line.amount, line.shares)
        database.execute(_POST, row)
        if line.place is Place.CASH:
            database.execute(_CASH, [line.amount])
        if line.place is Place.STOCK:
            database.execute(_STOCK, [line.shares, line.amount, line.contract, line.leg])


def buy(database: Database, change: Change) -> None:
    """Book shares that came."""
    of = change.holding
    place = {"contract": of.contract, "leg": of.leg.value}
    values: dict[str, Any] = {
        **place,
        "ref": of.ref,
        "target": of.target,
        "option": of.option,
        "event": of.event,
        "mark": change.price,
        "at": stamp(change.at),
    }
    database.execute(_OPEN, values)
    lines = (
        Line(place=Place.CASH, amount=change.cash, contract=of.contract),
        Line(place=Place.STOCK, amount=-change.cash, shares=change.shares, **place),
    )
    post(database, Movement(kind=Kind.FILL, at=change.at, lines=lines, ticket=change.ticket))


def sell(database: Database, change: Change) -> None:
    """Book shares that went, at what they cost; the rest of what they brought is gain."""
    of = change.holding
    stock = _given(database, of.contract, of.leg.value, -change.shares)
    lines = (
        Line(place=Place.CASH, amount=change.cash, contract=of.contract),
        stock,
        Line(place=Place.GAIN, amount=-change.cash - stock.amount, contract=of.contract),
    )
    post(database, Movement(kind=Kind.FILL, at=change.at, lines=lines, ticket=change.ticket))


def redeem(database: Database, contract: str, at: datetime, ticket: int | None) -> int:
    """Pay out pairs of both legs that no open sale holds back, 1 a pair; return how many millionths of pairs."""
    pairs = min(free_shares(database, contract, leg.value) for leg in Leg)
    if pairs <= 0:
        return 0
    stock = [_given(database, contract, leg.value, pairs) for leg in Leg]
    gain = -pairs - sum(line.amount for line in stock)
    lines = (
        Line(place=Place.CASH, amount=pairs, contract=contract),
        *stock,
        Line(place=Place.GAIN, amount=gain, contract=contract),
    )
    post(database, Movement(kind=Kind.PAIRS, at=at, lines=lines, ticket=ticket))
    return pairs


def positions(database: Database) -> tuple[Position, ...]:
    """Read what is held, with the last marks."""
    return tuple(
        Position(
            contract=contract,
            leg=Leg(leg),
            shares=units(shares),
            paid=units(paid),
            ref=QuestionRef.parse(ref),
            option=option,
            mark=mark,
        )
        for contract, leg, shares, paid, ref, option, mark in database.execute(_POSITIONS)
    )


def mark(database: Database, contract: str, leg: Leg, price: float | None, at: datetime) -> None:
    """Keep at what price a position could be sold."""
    database.execute(_MARK, [price, stamp(at), contract, leg.value])


def worth(shares: int, price: float) -> int:
    """Return what so many millionths of shares are at a price, in millionths, to the nearest."""
    return round(shares * price)


def _stock(database: Database, contract: str, leg: str) -> tuple[int, int]:
    row = database.execute(_POSITION, [contract, leg]).fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def _given(database: Database, contract: str, leg: str, shares: int) -> Line:
    """Return the line of shares that leave the stock, at their part of what all of them cost."""
    there, paid = _stock(database, contract, leg)
    cost = paid if shares >= there else paid * shares // there
    return Line(place=Place.STOCK, amount=-cost, contract=contract, leg=leg, shares=-shares)
