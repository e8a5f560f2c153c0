"""Orders of a paper book as rows: taken once, filled at the market, over for one reason.

Each function works within the transaction of its caller.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlite_utils import Database

from bot.domain.order import Fill, OpenOrder, Order, Side
from bot.domain.question import QuestionRef
from bot.errors import ContractError
from bot.paper import accounts
from bot.paper.accounts import Change, Holding
from bot.paper.amounts import at_most, micros, units
from bot.paper.market import Fate, Met, PaperFill, Past
from bot.store.codec import Form, clean, listed, moment, stamp
from bot.store.intents import ORDER

# What rounding to millionths may add up to over the fills of one order.
SLACK = 20
# Other orders of a contract that a market is told of.
PAST = 50

_COLUMNS = """
seq, intent, account, ref, target, event, body, sealed_at, expires_at, state, why, reserved, held, looked_at, memory
"""
_BY_INTENT = f"select {_COLUMNS} from ticket where intent = ?"  # noqa: S608 - constants
_BY_SEQ = f"select {_COLUMNS} from ticket where seq = ?"  # noqa: S608 - constants
_OPEN = f"select {_COLUMNS} from ticket where state in ('sent', 'resting') order by seq"  # noqa: S608 - constants
_ADD = """
insert into ticket (intent, tag, account, ref, target, event, contract, body, state, reserved, held, sealed_at,
                    expires_at, looked_at)
values (:intent, :tag, :account, :ref, :target, :event, :contract, :body, 'sent', :reserved, :held, :sealed_at,
        :expires_at, :sealed_at)
"""
_LOOK = """
update ticket set state = 'resting', why = :why, memory = :memory, looked_at = :at,
  market = iif(market = '', :market, market)
where seq = :seq
"""
_MET = "update ticket set market = iif(market = '', :market, market) where seq = :seq"
_TAKE = "update ticket set reserved = reserved - :reserved, held = held - :held where seq = :seq"
_CLOSE = "update ticket set state = :state, why = :why, reserved = 0, held = 0, ended_at = :at where seq = :seq"
_NAMED = """
select seq from ticket where state = 'resting' and (:names is null or intent in (select value from json_each(:names)))
"""
_ON = "select seq from ticket where state in ('sent', 'resting') and ref = ? and target = ?"
_FILL = """
insert into fill (ticket, number, at, shares, price, fee, cash, detail)
values (:ticket, (select count(*) + 1 from fill where ticket = :ticket), :at, :shares, :price, :fee, :cash, :detail)
"""
_FILLS = "select number, at, shares, price, fee, cash, detail from fill where ticket = ? order by number"
_PAST = """
select seq, body, looked_at, market from ticket
where contract = ? and seq <> ? and exists (select 1 from fill where ticket = seq) order by seq desc limit ?
"""


class TicketState(StrEnum):
    """Where an order stands; those after resting are over."""

    SENT = "sent"
    RESTING = "resting"
    FILLED = "filled"
    DROPPED = "dropped"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """An order as it is sealed: for whom, about what, and until when it rests (None: never)."""

    intent: str
    account: str
    ref: QuestionRef
    target: str
    order: Order
    sealed_at: datetime
    expires_at: datetime | None = None
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """An order in the book; ``reserved`` and ``held`` are the millionths of cash and shares that it holds back."""

    seq: int
    slip: Slip
    state: TicketState
    why: str
    reserved: int
    held: int
    looked_at: datetime
    memory: str
    fills: tuple[Fill, ...]
    details: tuple[str, ...]

    @property
    def got(self) -> tuple[PaperFill, ...]:
        """The fills as the market told them, to the millionth."""
        return tuple(
            PaperFill(shares=one.shares, price=one.price, fee=one.fee, detail=detail)
            for one, detail in zip(self.fills, self.details, strict=True)
        )

    @property
    def left(self) -> float:
        """Shares that were not filled."""
        return max(self.slip.order.shares - sum(one.shares for one in self.fills), 0.0)


SLIP: Form[Slip] = Form("paper order", Slip)


def accept(database: Database, slip: Slip, tag: str, at: datetime) -> Ticket:
    """Take an order and hold back what it may cost, or refuse it; the same order again is returned as it stands.

    What its terms say is to be cancelled first, is.
    """
    if (known := get(database, slip.intent)) is not None:
        return known
    order = slip.order
    _cancel_first(database, order, at)
    reserved = at_most(order.cost) if order.side is Side.BUY else 0
    held = micros(order.shares) if order.side is Side.SELL else 0
    why = _lacking(database, order, reserved, held)
    values = {
        "intent": slip.intent,
        "tag": tag,
        "account": clean(slip.account),
        "ref": str(slip.ref),
        "target": slip.target,
        "event": clean(slip.event),
        "contract": clean(order.contract),
        "body": ORDER.encode(order),
        "reserved": 0 if why else reserved,
        "held": 0 if why else held,
        "sealed_at": stamp(slip.sealed_at),
        "expires_at": stamp(slip.expires_at),
    }
    database.execute(_ADD, values)
    ticket = _known(database, slip.intent)
    if why:
        close(database, ticket.seq, TicketState.REFUSED, why, at)
    return _known(database, slip.intent)


def meet(database: Database, seq: int, met: Met, *, at: datetime, redeems: bool) -> Ticket:
    """Book what an open order got, and what becomes of the rest; one that is over already gets nothing.

    Raises ContractError for fills beyond the order, which books nothing of them.
    """
    ticket = by_seq(database, seq)
    if ticket.state not in {TicketState.SENT, TicketState.RESTING}:
        return ticket
    for fill in met.fills:
        _book(database, by_seq(database, seq), fill, at)
    if redeems and met.fills:
        accounts.redeem(database, ticket.slip.order.contract, at, seq)
    database.execute(_MET, {"seq": seq, "market": clean(met.state)})
    if met.fate is Fate.RESTS:
        _keep(database, ticket, met, at)
    else:
        close(database, seq, _end(by_seq(database, seq), met.fate, at), met.why, at)
    return by_seq(database, seq)


def close(database: Database, seq: int, state: TicketState, why: str, at: datetime) -> None:
    """End an open order and release what it held back."""
    database.execute(_CLOSE, {"seq": seq, "state": state.value, "why": clean(why), "at": stamp(at)})


def cancel(database: Database, intents: Collection[str] | None, at: datetime, why: str = "cancelled") -> list[str]:
    """Cancel resting orders, all of them for None; return those that rest no more, also those that did before."""
    names = None if intents is None else listed(intents)
    seqs = [seq for (seq,) in database.execute(_NAMED, {"names": names}).fetchall()]
    for seq in seqs:
        close(database, seq, TicketState.CANCELLED, why, at)
    if intents is None:
        return [by_seq(database, seq).slip.intent for seq in seqs]
    return [name for name in intents if (one := get(database, name)) is not None and one.state is not TicketState.SENT]


def end_all(database: Database, ref: str, target: str, at: datetime) -> None:
    """End the open orders on a question whose outcome is known."""
    for (seq,) in database.execute(_ON, [ref, target]).fetchall():
        close(database, seq, TicketState.CANCELLED, "its question has resolved", at)


def lose(database: Database, intents: Collection[str] | None, why: str, at: datetime) -> None:
    """End orders that nobody will bring before the market any more, all that are on their way for None."""
    for ticket in open_tickets(database):
        named = intents is None or ticket.slip.intent in intents
        if named and ticket.state is TicketState.SENT:
            close(database, ticket.seq, TicketState.LOST, why, at)


def get(database: Database, intent: str) -> Ticket | None:
    """Read the order of an intent, if there is one."""
    row = database.execute(_BY_INTENT, [intent]).fetchone()
    return None if row is None else _ticket(database, row)


def by_seq(database: Database, seq: int) -> Ticket:
    """Read a known order."""
    return _ticket(database, database.execute(_BY_SEQ, [seq]).fetchone())


def open_tickets(database: Database) -> list[Ticket]:
    """Read the orders that are on their way or rest, oldest first."""
    return [_ticket(database, row) for row in database.execute(_OPEN).fetchall()]


def past_of(database: Database, ticket: Ticket) -> tuple[Past, ...]:
    """Read what other orders took from the same contract, newest first."""
    rows = database.execute(_PAST, [ticket.slip.order.contract, ticket.seq, PAST]).fetchall()
    return tuple(
        Past(order=ORDER.decode(body), at=moment(at), fills=by_seq(database, seq).got, state=market)
        for seq, body, at, market in rows
    )


def open_order(ticket: Ticket) -> OpenOrder:
    """Return a resting order as an account tells of it."""
    order = ticket.slip.order
    return OpenOrder(
        id=ticket.slip.intent,
        contract=order.contract,
        leg=order.leg,
        side=order.side,
        limit=order.limit,
        shares=ticket.left,
        reserves=units(ticket.reserved),
        ref=ticket.slip.ref,
        expires_at=ticket.slip.expires_at,
    )


def _cancel_first(database: Database, order: Order, at: datetime) -> None:
    named = order.terms.get("cancel")
    if isinstance(named, list | tuple) and named:
        cancel(database, [str(name) for name in named], at, "cancelled for an order on the other side")


def _lacking(database: Database, order: Order, reserved: int, held: int) -> str:
    if (currency := accounts.currency_of(database)) != order.currency:
        return f"the book is in {currency}, the order in {order.currency}"
    if (cash := accounts.free(database)) < reserved:
        return f"it may cost {units(reserved):.2f}, and {units(cash):.2f} is free"
    there = accounts.free_shares(database, order.contract, order.leg.value)
    if held and there < held:
        return f"{units(held):.2f} shares are to be sold, and {units(there):.2f} are free to be"
    return ""


def _book(database: Database, ticket: Ticket, fill: PaperFill, at: datetime) -> None:
    buying = ticket.slip.order.side is Side.BUY
    shares, fee = micros(fill.shares), at_most(fill.fee)
    if shares <= 0:
        return
    worth = accounts.worth(shares, fill.price)
    cash = -(worth + fee) if buying else worth - fee
    if buying and ticket.reserved < -cash <= ticket.reserved + SLACK:
        cash = -ticket.reserved
    _require_within(ticket, fill, shares, cash)
    held = 0 if buying else min(shares, ticket.held)
    shares = shares if buying else held
    database.execute(_TAKE, {"seq": ticket.seq, "reserved": -cash if buying else 0, "held": held})
    row: dict[str, Any] = {
        "ticket": ticket.seq,
        "at": stamp(at),
        "shares": shares,
        "price": fill.price,
        "fee": fee,
        "cash": cash,
        "detail": clean(fill.detail),
    }
    database.execute(_FILL, row)
    change = Change(
        holding=_holding(ticket.slip),
        shares=shares if buying else -shares,
        cash=cash,
        price=fill.price,
        at=at,
        ticket=ticket.seq,
    )
    (accounts.buy if buying else accounts.sell)(database, change)


def _require_within(ticket: Ticket, fill: PaperFill, shares: int, cash: int) -> None:
    order = ticket.slip.order
    worse = fill.price - order.limit if order.side is Side.BUY else order.limit - fill.price
    beyond = -cash > ticket.reserved if order.side is Side.BUY else shares > ticket.held + SLACK
    if beyond or worse > 1e-6:
        message = f"a fill of {fill.shares:g} at {fill.price:g} is beyond the order {ticket.slip.intent}"
        raise ContractError(message)


def _holding(slip: Slip) -> Holding:
    order = slip.order
    return Holding(
        contract=clean(order.contract),
        leg=order.leg,
        ref=str(slip.ref),
        target=slip.target,
        option=clean(order.option),
        event=clean(slip.event),
    )


def _keep(database: Database, ticket: Ticket, met: Met, at: datetime) -> None:
    if ticket.slip.expires_at is None:
        message = f"the order {ticket.slip.intent} rests, but was sealed as one that never does"
        raise ContractError(message)
    values = {
        "seq": ticket.seq,
        "why": clean(met.why),
        "memory": clean(met.memory),
        "at": stamp(at),
        "market": clean(met.state),
    }
    database.execute(_LOOK, values)


def _end(ticket: Ticket, fate: Fate, at: datetime) -> TicketState:
    if fate is Fate.NONE_LEFT and ticket.fills:
        return TicketState.FILLED
    if ticket.slip.expires_at is not None and ticket.slip.expires_at <= at:
        return TicketState.EXPIRED
    return TicketState.DROPPED if ticket.fills or ticket.state is TicketState.RESTING else TicketState.REFUSED


def _known(database: Database, intent: str) -> Ticket:
    return _ticket(database, database.execute(_BY_INTENT, [intent]).fetchone())


def _ticket(database: Database, row: Sequence[Any]) -> Ticket:
    seq, intent, account, ref, target, event, body, sealed_at, expires_at, state, why, reserved, held, *rest = row
    looked_at, memory = rest
    fills = database.execute(_FILLS, [seq]).fetchall()
    return Ticket(
        seq=seq,
        slip=Slip(
            intent=intent,
            account=account,
            ref=QuestionRef.parse(ref),
            target=target,
            event=event,
            order=ORDER.decode(body),
            sealed_at=moment(sealed_at),
            expires_at=moment(expires_at),
        ),
        state=TicketState(state),
        why=why,
        reserved=reserved,
        held=held,
        looked_at=moment(looked_at),
        memory=memory,
        fills=tuple(
            Fill(
                reference=f"{seq}.{number}",
                at=moment(at),
                shares=units(shares),
                price=price,
                cash=units(cash),
                fee=units(fee),
            )
            for number, at, shares, price, fee, cash, _ in fills
        ),
        details=tuple(detail for *_, detail in fills),
    )
