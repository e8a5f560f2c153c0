"""Payouts: what outcomes make of positions, and their exact reversal where an outcome is corrected or undone.

Each function works within the transaction of its caller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.domain.order import Instead, Leg, Position
from bot.domain.question import QuestionRef
from bot.domain.resolution import Outcome, Resolution
from bot.paper import accounts, tickets
from bot.paper.accounts import Kind, Line, Movement, Place
from bot.paper.amounts import units
from bot.store.codec import OUTCOME, stamp

_HELD = """
select contract, leg, shares, paid, option, mark,
  coalesce((select market from ticket t where t.contract = p.contract and market <> '' order by seq desc limit 1), '')
from position p where ref = ? and target = ? order by contract, leg
"""
_IN_FORCE = "select id, outcome from settlement where ref = ? and target = ? and undone_at is null order by id"
_ADD = "insert into settlement (ref, target, outcome, at) values (?, ?, ?, ?) returning id"
_UNDO = "update settlement set undone_at = ? where id = ?"
_LINES = """
select p.place, p.contract, p.leg, p.amount, p.shares from posting p join movement m on m.id = p.movement
where m.settlement = ? and m.kind <> 'undo'
"""
_INVESTED = "select coalesce(-sum(amount), 0) from posting where contract = ? and place = 'cash'"

Pays = Callable[[Position, Outcome, str], float | Instead]


@dataclass(frozen=True, slots=True)
class _Held:
    contract: str
    leg: str
    shares: int
    paid: int
    option: str
    mark: float | None
    state: str

    def position(self, ref: QuestionRef) -> Position:
        return Position(
            contract=self.contract,
            leg=Leg(self.leg),
            shares=units(self.shares),
            paid=units(self.paid),
            ref=ref,
            option=self.option,
            mark=self.mark,
        )


def settle(database: Database, resolution: Resolution, pays: Pays, at: datetime) -> int:
    """Make the book agree with an outcome; return how many positions were settled, or taken back, for that."""
    ref, target = str(resolution.ref), resolution.target
    outcome = OUTCOME.encode(resolution.outcome)
    rows = [_Held(*row) for row in database.execute(_HELD, [ref, target]).fetchall()]
    if not rows:
        return 0
    verdicts = [(row, pays(row.position(resolution.ref), resolution.outcome, row.state)) for row in rows]
    final: list[tuple[_Held, float | Instead]] = [one for one in verdicts if one[1] is not Instead.OPEN]
    in_force = database.execute(_IN_FORCE, [ref, target]).fetchall()
    changed = 0
    if any(known != outcome for _, known in in_force) or not final:
        changed = sum(_take_back(database, name, at) for name, _ in in_force)
        final = [(_again(database, row, ref, target), verdict) for row, verdict in final]
    if not final:
        return changed
    tickets.end_all(database, ref, target, at)
    return max(changed, _pay(database, final, (ref, target, outcome), at))


def _again(database: Database, row: _Held, ref: str, target: str) -> _Held:
    rows = (_Held(*found) for found in database.execute(_HELD, [ref, target]).fetchall())
    return next(found for found in rows if (found.contract, found.leg) == (row.contract, row.leg))


def _pay(
    database: Database,
    verdicts: Sequence[tuple[_Held, float | Instead]],
    about: tuple[str, str, str],
    at: datetime,
) -> int:
    movements = [(Kind.PAYOUT, _paid(row, verdict)) for row, verdict in verdicts if not isinstance(verdict, Instead)]
    back = [row for row, verdict in verdicts if isinstance(verdict, Instead)]
    for contract in dict.fromkeys(row.contract for row in back):
        lines = _refunded(database, contract, [row for row in back if row.contract == contract])
        movements.append((Kind.REFUND, lines))
    due = [(kind, lines) for kind, lines in movements if lines]
    if not due:
        return 0
    (name,) = database.execute(_ADD, [*about, stamp(at)]).fetchone()
    for kind, lines in due:
        accounts.post(database, Movement(kind=kind, at=at, lines=lines, settlement=name))
    return sum(line.place is Place.STOCK for _, lines in due for line in lines)


def _paid(row: _Held, price: float) -> list[Line]:
    if row.shares == 0:
        return []
    amount = accounts.worth(row.shares, price)
    return [
        Line(place=Place.CASH, amount=amount, contract=row.contract),
        _all(row),
        Line(place=Place.GAIN, amount=row.paid - amount, contract=row.contract),
    ]


def _refunded(database: Database, contract: str, rows: Sequence[_Held]) -> list[Line]:
    """Return what was put into a contract, less what came out of it before; never less than nothing."""
    (invested,) = database.execute(_INVESTED, [contract]).fetchone()
    amount = max(int(invested), 0)
    held = [row for row in rows if row.shares > 0]
    if not held and amount == 0:
        return []
    return [
        Line(place=Place.CASH, amount=amount, contract=contract),
        *map(_all, held),
        Line(place=Place.GAIN, amount=sum(row.paid for row in held) - amount, contract=contract),
    ]


def _all(row: _Held) -> Line:
    return Line(place=Place.STOCK, amount=-row.paid, contract=row.contract, leg=row.leg, shares=-row.shares)


def _take_back(database: Database, name: int, at: datetime) -> int:
    """Book the opposite of all that a settlement booked; return how many positions that brought back."""
    lines = [
        Line(place=Place(place), contract=contract, leg=leg, amount=-amount, shares=-shares)
        for place, contract, leg, amount, shares in database.execute(_LINES, [name]).fetchall()
    ]
    accounts.post(database, Movement(kind=Kind.UNDO, at=at, lines=lines, settlement=name))
    database.execute(_UNDO, [stamp(at), name])
    return sum(line.place is Place.STOCK for line in lines)
