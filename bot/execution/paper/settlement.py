"""Payouts of positions when their outcome is known.

And their exact reversal when an outcome is corrected or withdrawn. Each function works within the transaction of its
caller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.core.orders import ContractSide, Position, UnpaidOutcome
from bot.core.outcomes import Outcome, Resolution
from bot.core.questions import QuestionRef
from bot.execution.paper import accounting, paper_orders
from bot.execution.paper.accounting import LedgerMovement, LedgerPosting, MovementKind, PostingAccount, from_millionths
from bot.store.serialization import OUTCOME, format_timestamp

_SELECT_HELD = """
select contract, leg, shares, paid, option, mark,
  coalesce((select market from ticket t where t.contract = p.contract and market <> '' order by seq desc limit 1), '')
from position p where ref = ? and target = ? order by contract, leg
"""
_SELECT_IN_FORCE = "select id, outcome from settlement where ref = ? and target = ? and undone_at is null order by id"
_INSERT_SETTLEMENT = "insert into settlement (ref, target, outcome, at) values (?, ?, ?, ?) returning id"
_UPDATE_UNDONE = "update settlement set undone_at = ? where id = ?"
_SELECT_POSTINGS = """
select p.place, p.contract, p.leg, p.amount, p.shares from posting p join movement m on m.id = p.movement
where m.settlement = ? and m.kind <> 'undo'
"""
_SUM_INVESTED = "select coalesce(-sum(amount), 0) from posting where contract = ? and place = 'cash'"

PayoutFunction = Callable[[Position, Outcome, str], float | UnpaidOutcome]


@dataclass(frozen=True, slots=True)
class _HeldPosition:
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
            leg=ContractSide(self.leg),
            shares=from_millionths(self.shares),
            paid=from_millionths(self.paid),
            ref=ref,
            option=self.option,
            mark=self.mark,
        )


def settle_question(database: Database, resolution: Resolution, pays: PayoutFunction, at: datetime) -> int:
    """Settle the book by an outcome; return how many positions were settled or reversed."""
    ref, target = str(resolution.ref), resolution.target
    outcome = OUTCOME.encode(resolution.outcome)
    rows = [_HeldPosition(*row) for row in database.execute(_SELECT_HELD, [ref, target]).fetchall()]
    if not rows:
        return 0
    verdicts = [(row, pays(row.position(resolution.ref), resolution.outcome, row.state)) for row in rows]
    final: list[tuple[_HeldPosition, float | UnpaidOutcome]] = [
        one for one in verdicts if one[1] is not UnpaidOutcome.OPEN
    ]
    in_force = database.execute(_SELECT_IN_FORCE, [ref, target]).fetchall()
    changed = 0
    if any(known != outcome for _, known in in_force) or not final:
        changed = sum(_reverse_settlement(database, name, at) for name, _ in in_force)
        final = [(_reread_position(database, row, ref, target), verdict) for row, verdict in final]
    if not final:
        return changed
    paper_orders.end_question_orders(database, ref, target, at)
    return max(changed, _book_payouts(database, final, (ref, target, outcome), at))


def _reread_position(database: Database, row: _HeldPosition, ref: str, target: str) -> _HeldPosition:
    rows = (_HeldPosition(*found) for found in database.execute(_SELECT_HELD, [ref, target]).fetchall())
    return next(found for found in rows if (found.contract, found.leg) == (row.contract, row.leg))


def _book_payouts(
    database: Database,
    verdicts: Sequence[tuple[_HeldPosition, float | UnpaidOutcome]],
    key: tuple[str, str, str],
    at: datetime,
) -> int:
    movements = [
        (MovementKind.PAYOUT, _payout_postings(row, verdict))
        for row, verdict in verdicts
        if not isinstance(verdict, UnpaidOutcome)
    ]
    refunded = [row for row, verdict in verdicts if isinstance(verdict, UnpaidOutcome)]
    for contract in dict.fromkeys(row.contract for row in refunded):
        lines = _refund_postings(database, contract, [row for row in refunded if row.contract == contract])
        movements.append((MovementKind.REFUND, lines))
    due = [(kind, lines) for kind, lines in movements if lines]
    if not due:
        return 0
    (name,) = database.execute(_INSERT_SETTLEMENT, [*key, format_timestamp(at)]).fetchone()
    for kind, lines in due:
        accounting.book_movement(database, LedgerMovement(kind=kind, at=at, postings=lines, settlement=name))
    return sum(line.account is PostingAccount.STOCK for _, lines in due for line in lines)


def _payout_postings(row: _HeldPosition, price: float) -> list[LedgerPosting]:
    if row.shares == 0:
        return []
    amount = accounting.value_at_price(row.shares, price)
    return [
        LedgerPosting(account=PostingAccount.CASH, amount=amount, contract=row.contract),
        _whole_stock_posting(row),
        LedgerPosting(account=PostingAccount.GAIN, amount=row.paid - amount, contract=row.contract),
    ]


def _refund_postings(database: Database, contract: str, rows: Sequence[_HeldPosition]) -> list[LedgerPosting]:
    """Return the postings that refund a contract: cash invested less cash received, never below zero."""
    (invested,) = database.execute(_SUM_INVESTED, [contract]).fetchone()
    amount = max(int(invested), 0)
    held = [row for row in rows if row.shares > 0]
    if not held and amount == 0:
        return []
    return [
        LedgerPosting(account=PostingAccount.CASH, amount=amount, contract=contract),
        *map(_whole_stock_posting, held),
        LedgerPosting(account=PostingAccount.GAIN, amount=sum(row.paid for row in held) - amount, contract=contract),
    ]


def _whole_stock_posting(row: _HeldPosition) -> LedgerPosting:
    return LedgerPosting(
        account=PostingAccount.STOCK, amount=-row.paid, contract=row.contract, leg=row.leg, shares=-row.shares
    )


def _reverse_settlement(database: Database, name: int, at: datetime) -> int:
    """Book the reverse of a settlement; return how many positions were restored."""
    lines = [
        LedgerPosting(account=PostingAccount(place), contract=contract, leg=leg, amount=-amount, shares=-shares)
        for place, contract, leg, amount, shares in database.execute(_SELECT_POSTINGS, [name]).fetchall()
    ]
    accounting.book_movement(database, LedgerMovement(kind=MovementKind.UNDO, at=at, postings=lines, settlement=name))
    database.execute(_UPDATE_UNDONE, [format_timestamp(at), name])
    return sum(line.account is PostingAccount.STOCK for line in lines)
