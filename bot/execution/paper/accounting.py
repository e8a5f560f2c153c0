"""Double-entry accounting of a paper book: cash, positions, and every movement between them.

Amounts are whole millionths, so that sums are exact. Each function works within the transaction of its caller.
``find_faults`` checks that every balance is the sum of what was booked.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.orders import ContractSide, Position
from bot.core.questions import QuestionRef
from bot.execution.paper.book_database import SUM_TOTALS
from bot.store.serialization import format_timestamp

MILLIONTHS_PER_UNIT = 1_000_000


def to_millionths(amount: float) -> int:
    """Return an amount in millionths, to the nearest; raises ValueError for one that is not finite."""
    return round(amount * MILLIONTHS_PER_UNIT)


def to_millionths_rounded_up(amount: float) -> int:
    """Return an amount in millionths, rounded up; excess below float precision is ignored."""
    millionths = to_millionths(amount)
    return (
        millionths if abs(amount * MILLIONTHS_PER_UNIT - millionths) < 1e-3 else math.ceil(amount * MILLIONTHS_PER_UNIT)
    )


def from_millionths(millionths: int) -> float:
    """Return millionths as an amount."""
    return millionths / MILLIONTHS_PER_UNIT


_INSERT_BOOK = "insert into book (id, currency, cash, begun_at) values (1, ?, 0, ?)"


_SELECT_BOOK = "select currency, cash from book"


_SUM_RESERVED_CASH = "select coalesce(sum(reserved), 0) from ticket where state in ('sent', 'resting')"


_SUM_HELD_SHARES = """
select coalesce(sum(held), 0) from ticket
where contract = ? and state in ('sent', 'resting') and json_extract(body, '$.leg') = ?
"""


_INSERT_MOVEMENT = "insert into movement (at, kind, ticket, settlement) values (?, ?, ?, ?) returning id"


_INSERT_POSTING = "insert into posting (movement, place, contract, leg, amount, shares) values (?, ?, ?, ?, ?, ?)"


_ADD_CASH = "update book set cash = cash + ?"


_ADD_STOCK = "update position set shares = shares + ?, paid = paid + ? where contract = ? and leg = ?"


_SELECT_POSITION = "select shares, paid from position where contract = ? and leg = ?"


_UPSERT_POSITION = """
insert into position (contract, leg, ref, target, option, event, shares, paid, mark, marked_at)
values (:contract, :leg, :ref, :target, :option, :event, 0, 0, :mark, :at)
on conflict (contract, leg) do update set
  ref = excluded.ref, target = excluded.target, option = excluded.option, event = excluded.event,
  mark = iif(shares = 0, excluded.mark, mark), marked_at = iif(shares = 0, excluded.marked_at, marked_at)
"""


_SELECT_POSITIONS = """
select contract, leg, shares, paid, ref, option, mark from position where shares > 0 order by contract, leg
"""


_UPDATE_MARK = "update position set mark = ?, marked_at = ? where contract = ? and leg = ?"


class MovementKind(StrEnum):
    """Why cash moves."""

    BEGIN = "begin"
    FILL = "fill"
    PAIRS = "pairs"
    PAYOUT = "payout"
    REFUND = "refund"
    UNDO = "undo"


class PostingAccount(StrEnum):
    """Where an amount is."""

    CASH = "cash"
    STOCK = "stock"
    GAIN = "gain"
    CAPITAL = "capital"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPosting:
    """One posting: ``amount`` goes to an account, and for stock also ``shares``."""

    account: PostingAccount
    amount: int
    contract: str = ""
    leg: str = ""
    shares: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMovement:
    """Postings that sum to zero."""

    kind: MovementKind
    at: datetime
    postings: Sequence[LedgerPosting]
    ticket: int | None = None
    settlement: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperHolding:
    """The contract and question of a position."""

    contract: str
    leg: ContractSide
    ref: str
    target: str
    option: str = ""
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionChange:
    """Shares bought (above 0) or sold, and the cash paid or received for them, fees included."""

    holding: PaperHolding
    shares: int
    cash: int
    price: float
    at: datetime
    ticket: int | None = None


def begin_book(database: Database, currency: str, cash: int, at: datetime) -> None:
    """Begin the book with its cash, once; later calls change nothing."""
    if database.execute(_SELECT_BOOK).fetchone() is not None:
        return
    database.execute(_INSERT_BOOK, [currency, format_timestamp(at)])
    lines = (
        LedgerPosting(account=PostingAccount.CASH, amount=cash),
        LedgerPosting(account=PostingAccount.CAPITAL, amount=-cash),
    )
    book_movement(database, LedgerMovement(kind=MovementKind.BEGIN, at=at, postings=lines))


def book_currency(database: Database) -> str:
    """Return the currency of the book."""
    return str(database.execute(_SELECT_BOOK).fetchone()[0])


def free_cash(database: Database) -> int:
    """Return the cash that no open order reserves."""
    _, cash = database.execute(_SELECT_BOOK).fetchone()
    (reserved,) = database.execute(_SUM_RESERVED_CASH).fetchone()
    return int(cash) - int(reserved)


def free_shares(database: Database, contract: str, leg: str) -> int:
    """Return the shares that no open sale reserves."""
    (held,) = database.execute(_SUM_HELD_SHARES, [contract, leg]).fetchone()
    return _position_stock(database, contract, leg)[0] - int(held)


def book_movement(database: Database, movement: LedgerMovement) -> None:
    """Book a movement; raises ValueError for lines that do not sum to zero."""
    if sum(line.amount for line in movement.postings):
        message = f"the postings of a {movement.kind} do not sum to zero: {movement.postings}"
        raise ValueError(message)
    values = [format_timestamp(movement.at), movement.kind.value, movement.ticket, movement.settlement]
    (name,) = database.execute(_INSERT_MOVEMENT, values).fetchone()
    for line in movement.postings:
        row = (name, line.account.value, line.contract, line.leg, line.amount, line.shares)
        database.execute(_INSERT_POSTING, row)
        if line.account is PostingAccount.CASH:
            database.execute(_ADD_CASH, [line.amount])
        if line.account is PostingAccount.STOCK:
            database.execute(_ADD_STOCK, [line.shares, line.amount, line.contract, line.leg])


def book_purchase(database: Database, change: PositionChange) -> None:
    """Book a purchase of shares."""
    holding = change.holding
    position_key = {"contract": holding.contract, "leg": holding.leg.value}
    values: dict[str, Any] = {
        **position_key,
        "ref": holding.ref,
        "target": holding.target,
        "option": holding.option,
        "event": holding.event,
        "mark": change.price,
        "at": format_timestamp(change.at),
    }
    database.execute(_UPSERT_POSITION, values)
    lines = (
        LedgerPosting(account=PostingAccount.CASH, amount=change.cash, contract=holding.contract),
        LedgerPosting(account=PostingAccount.STOCK, amount=-change.cash, shares=change.shares, **position_key),
    )
    book_movement(database, LedgerMovement(kind=MovementKind.FILL, at=change.at, postings=lines, ticket=change.ticket))


def book_sale(database: Database, change: PositionChange) -> None:
    """Book a sale of shares at cost; the rest of the proceeds is gain."""
    holding = change.holding
    stock = _sold_stock_posting(database, holding.contract, holding.leg.value, -change.shares)
    lines = (
        LedgerPosting(account=PostingAccount.CASH, amount=change.cash, contract=holding.contract),
        stock,
        LedgerPosting(account=PostingAccount.GAIN, amount=-change.cash - stock.amount, contract=holding.contract),
    )
    book_movement(database, LedgerMovement(kind=MovementKind.FILL, at=change.at, postings=lines, ticket=change.ticket))


def redeem_pairs(database: Database, contract: str, at: datetime, ticket: int | None) -> None:
    """Redeem pairs of both legs that no open sale reserves, 1 per pair."""
    pairs = min(free_shares(database, contract, leg.value) for leg in ContractSide)
    if pairs <= 0:
        return
    stock = [_sold_stock_posting(database, contract, leg.value, pairs) for leg in ContractSide]
    gain = -pairs - sum(line.amount for line in stock)
    lines = (
        LedgerPosting(account=PostingAccount.CASH, amount=pairs, contract=contract),
        *stock,
        LedgerPosting(account=PostingAccount.GAIN, amount=gain, contract=contract),
    )
    book_movement(database, LedgerMovement(kind=MovementKind.PAIRS, at=at, postings=lines, ticket=ticket))


def read_positions(database: Database) -> tuple[Position, ...]:
    """Read the positions, with their last marks."""
    return tuple(
        Position(
            contract=contract,
            leg=ContractSide(leg),
            shares=from_millionths(shares),
            paid=from_millionths(paid),
            ref=QuestionRef.parse(ref),
            option=option,
            mark=mark,
        )
        for contract, leg, shares, paid, ref, option, mark in database.execute(_SELECT_POSITIONS)
    )


def set_mark_price(database: Database, contract: str, leg: ContractSide, price: float | None, at: datetime) -> None:
    """Store the price at which a position could be sold."""
    database.execute(_UPDATE_MARK, [price, format_timestamp(at), contract, leg.value])


def value_at_price(shares: int, price: float) -> int:
    """Return the value of millionths of shares at a price, in millionths, to the nearest."""
    return round(shares * price)


def _position_stock(database: Database, contract: str, leg: str) -> tuple[int, int]:
    row = database.execute(_SELECT_POSITION, [contract, leg]).fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def _sold_stock_posting(database: Database, contract: str, leg: str, shares: int) -> LedgerPosting:
    """Return the posting of sold shares, at their part of the cost of all."""
    held, paid = _position_stock(database, contract, leg)
    cost = paid if shares >= held else paid * shares // held
    return LedgerPosting(account=PostingAccount.STOCK, amount=-cost, contract=contract, leg=leg, shares=-shares)


_SELECT_TOTALS = "select name, amount from total"


def read_totals(database: Database) -> dict[str, int]:
    """Return the sums of all postings by place, and of the "fees"; a book of an older program is added up."""
    return dict(database.execute(_SELECT_TOTALS if database["total"].exists() else SUM_TOTALS).fetchall())


# Each query finds what must not be, as one text a row. These read what is open.
_BALANCE_QUERIES = (
    """
select 'the position ' || p.contract || ' ' || p.leg || ' is ' || p.shares || ' for ' || p.paid || ', its postings '
  || coalesce(sum(b.shares), 0) || ' for ' || coalesce(sum(b.amount), 0)
from position p left join posting b on b.contract = p.contract and b.place = 'stock' and b.leg = p.leg
where p.shares > 0
group by p.contract, p.leg having p.shares <> coalesce(sum(b.shares), 0) or p.paid <> coalesce(sum(b.amount), 0)
""",
    # A correction may take back cash that was spent since; nothing else makes cash negative.
    """
select 'open orders may cost ' || reserved || ', and there is ' || cash from book, (
  select coalesce(sum(reserved), 0) as reserved from ticket where state in ('sent', 'resting'))
where cash < reserved and not exists (select 1 from movement where kind = 'undo')
""",
    """
select 'open sales of ' || t.contract || ' hold ' || sum(t.held) || ' shares, and there are ' || p.shares
from ticket t indexed by ticket_open
cross join position p on p.contract = t.contract and p.leg = json_extract(t.body, '$.leg')
where t.state in ('sent', 'resting') and t.held > 0
group by t.contract, p.leg, p.shares having sum(t.held) > p.shares
""",
)
# These read the whole book.
_FAULT_QUERIES = (
    """
select 'the postings of movement ' || movement || ' sum to ' || sum(amount) from posting
group by movement having sum(amount) <> 0
""",
    """
select 'the position ' || p.contract || ' ' || p.leg || ' is ' || p.shares || ' for ' || p.paid || ', its postings '
  || coalesce(b.shares, 0) || ' for ' || coalesce(b.amount, 0)
from position p left join (
  select contract, leg, sum(shares) as shares, sum(amount) as amount from posting where place = 'stock'
  group by contract, leg) b on b.contract = p.contract and b.leg = p.leg
where p.shares <> coalesce(b.shares, 0) or p.paid <> coalesce(b.amount, 0)
""",
    """
select 'a movement has stock of ' || contract || ' ' || leg || ', of which there is no position' from posting s
where place = 'stock' and not exists (select 1 from position p where p.contract = s.contract and p.leg = s.leg)
""",
    """
select 'the fills of order ' || t.seq || ' moved ' || coalesce(f.cash, 0) || ', its movements '
  || coalesce(m.amount, 0)
from ticket t
left join (select ticket, sum(cash) as cash from fill group by ticket) f on f.ticket = t.seq
left join (
  select m.ticket, sum(p.amount) as amount from movement m join posting p on p.movement = m.id
  where m.kind = 'fill' and p.place = 'cash' group by m.ticket) m on m.ticket = t.seq
where coalesce(f.cash, 0) <> coalesce(m.amount, 0)
""",
    """
select 'settlement ' || s.id || ' was undone, and its postings sum to ' || sum(p.amount) || ' of cash'
from settlement s join movement m on m.settlement = s.id join posting p on p.movement = m.id
where s.undone_at is not null and p.place = 'cash' group by s.id having sum(p.amount) <> 0
""",
)


def find_faults(database: Database) -> list[str]:
    """Return what does not agree in the whole book, a line each; nothing for a sound book."""
    totals, sums = read_totals(database), dict(database.execute(SUM_TOTALS).fetchall())
    wrong = [f"the total of {name} is {totals.get(name, 0)}, its rows sum to {sums[name]}" for name in sums]
    faults = [text for name, text in zip(sums, wrong, strict=True) if totals.get(name, 0) != sums[name]]
    faults += _run_queries(database, _FAULT_QUERIES)
    return list(dict.fromkeys([*find_balance_faults(database), *faults]))


def find_balance_faults(database: Database) -> list[str]:
    """Return what does not agree in cash, positions and open orders: what it reads does not grow with what is over."""
    totals, faults = read_totals(database), list[str]()
    for _, cash in database.execute(_SELECT_BOOK):
        if cash != totals.get("cash", 0):
            faults.append(f"cash is {cash}, its postings sum to {totals.get('cash', 0)}")
    if rest := sum(amount for name, amount in totals.items() if name != "fees"):
        faults.append(f"all postings sum to {rest}")
    return [*faults, *_run_queries(database, _BALANCE_QUERIES)]


def _run_queries(database: Database, queries: Sequence[str]) -> list[str]:
    return [text for query in queries for (text,) in database.execute(query).fetchall()]
