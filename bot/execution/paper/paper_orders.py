"""Orders of a paper book as rows: accepted once, filled at the market, ended for one reason.

Each function works within the transaction of its caller.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlite_utils import Database

from bot.core.errors import MalformedDataError
from bot.core.light_dataclass import dataclass
from bot.core.orders import Fill, OpenOrder, Order, OrderSide
from bot.core.questions import QuestionRef
from bot.execution.paper import accounting
from bot.execution.paper.accounting import (
    PaperHolding,
    PositionChange,
    from_millionths,
    to_millionths,
    to_millionths_rounded_up,
)
from bot.execution.paper.paper_market import EarlierPaperOrder, FillResult, PaperFill, RemainderState
from bot.store.intents import ORDER_SERIALIZER
from bot.store.serialization import JsonSerializer, format_timestamp, parse_timestamp, sanitize_text, to_json_list

# What rounding to millionths may add up to over the fills of one order.
ROUNDING_SLACK = 20
# At most this many other orders of a contract are given to a market.
MAX_EARLIER_ORDERS = 50

_ORDER_COLUMNS = """
seq, intent, account, ref, target, event, body, sealed_at, expires_at, state, why, reserved, held, looked_at, memory
"""
_SELECT_BY_INTENT = f"select {_ORDER_COLUMNS} from ticket where intent = ?"  # noqa: S608 - constants
_SELECT_BY_SEQ = f"select {_ORDER_COLUMNS} from ticket where seq = ?"  # noqa: S608 - constants
_SELECT_OPEN = f"select {_ORDER_COLUMNS} from ticket where state in ('sent', 'resting') order by seq"  # noqa: S608 - constants
_INSERT_ORDER = """
insert into ticket (intent, tag, account, ref, target, event, contract, body, state, reserved, held, sealed_at,
                    expires_at, looked_at)
values (:intent, :tag, :account, :ref, :target, :event, :contract, :body, 'sent', :reserved, :held, :sealed_at,
        :expires_at, :sealed_at)
"""
_UPDATE_RESTING = """
update ticket set state = 'resting', why = :why, memory = :memory, looked_at = :checked_at,
  market = iif(market = '', :market, market)
where seq = :seq
"""
_UPDATE_MARKET = "update ticket set market = iif(market = '', :market, market) where seq = :seq"
_RELEASE_RESERVED = "update ticket set reserved = reserved - :reserved, held = held - :held where seq = :seq"
_UPDATE_CLOSED = "update ticket set state = :state, why = :why, reserved = 0, held = 0, ended_at = :at where seq = :seq"
_SELECT_RESTING = """
select seq from ticket where state = 'resting' and (:names is null or intent in (select value from json_each(:names)))
"""
_SELECT_ON_QUESTION = "select seq from ticket where state in ('sent', 'resting') and ref = ? and target = ?"
_INSERT_FILL = """
insert into fill (ticket, number, at, shares, price, fee, cash, detail)
values (:ticket, (select count(*) + 1 from fill where ticket = :ticket), :at, :shares, :price, :fee, :cash, :detail)
"""
_SELECT_FILLS = "select number, at, shares, price, fee, cash, detail from fill where ticket = ? order by number"
_SELECT_EARLIER = """
select seq, body, looked_at, market from ticket
where contract = ? and seq <> ? and exists (select 1 from fill where ticket = seq) order by seq desc limit ?
"""


class PaperOrderState(StrEnum):
    """The state of an order; all states after resting are final."""

    SENT = "sent"
    RESTING = "resting"
    FILLED = "filled"
    DROPPED = "dropped"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPaperOrder:
    """An order as it is sealed: its account, question, and until when it rests (None: never)."""

    intent: str
    account: str
    ref: QuestionRef
    target: str
    order: Order
    sealed_at: datetime
    expires_at: datetime | None = None
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOrder:
    """An order in the book.

    ``reserved`` and ``held_shares`` are the millionths of cash and shares that it reserves.
    """

    seq: int
    sealed_order: SealedPaperOrder
    state: PaperOrderState
    why: str
    reserved: int
    held_shares: int
    last_checked_at: datetime
    plugin_state: str
    fills: tuple[Fill, ...]
    details: tuple[str, ...]

    @property
    def plugin_fills(self) -> tuple[PaperFill, ...]:
        """The fills as the market reported them, to the millionth."""
        return tuple(
            PaperFill(shares=one.shares, price=one.price, fee=one.fee, detail=detail)
            for one, detail in zip(self.fills, self.details, strict=True)
        )

    @property
    def remaining_shares(self) -> float:
        """Shares that were not filled."""
        return max(self.sealed_order.order.shares - sum(one.shares for one in self.fills), 0.0)


SEALED_PAPER_ORDER: JsonSerializer[SealedPaperOrder] = JsonSerializer("paper order", SealedPaperOrder)


def accept_order(database: Database, sealed_order: SealedPaperOrder, tag: str, at: datetime) -> PaperOrder:
    """Accept an order and reserve its possible cost, or refuse it; a known order is returned as it is.

    Cancels first the orders that its terms name.
    """
    if (known := find_order(database, sealed_order.intent)) is not None:
        return known
    order = sealed_order.order
    _cancel_named_orders(database, order, at)
    reserved = to_millionths_rounded_up(order.cost) if order.side is OrderSide.BUY else 0
    held = to_millionths(order.shares) if order.side is OrderSide.SELL else 0
    why = _shortfall(database, order, reserved, held)
    values = {
        "intent": sealed_order.intent,
        "tag": tag,
        "account": sanitize_text(sealed_order.account),
        "ref": str(sealed_order.ref),
        "target": sealed_order.target,
        "event": sanitize_text(sealed_order.event),
        "contract": sanitize_text(order.contract),
        "body": ORDER_SERIALIZER.encode(order),
        "reserved": reserved,
        "held": held,
        "sealed_at": format_timestamp(sealed_order.sealed_at),
        "expires_at": format_timestamp(sealed_order.expires_at),
    }
    database.execute(_INSERT_ORDER, values)
    paper_order = _read_known_order(database, sealed_order.intent)
    if why:
        close_order(database, paper_order.seq, PaperOrderState.REFUSED, why, at)
    return _read_known_order(database, sealed_order.intent)


def book_fill_result(
    database: Database, seq: int, result: FillResult, *, at: datetime, checked_at: datetime, redeems: bool
) -> PaperOrder:
    """Book the fills of an open order, and what happens to the rest; a closed order gets nothing.

    A rest that waits has been checked against the market up to ``checked_at``.
    Raises MalformedDataError for fills beyond the order; then nothing is booked.
    """
    paper_order = read_order(database, seq)
    if paper_order.state not in {PaperOrderState.SENT, PaperOrderState.RESTING}:
        return paper_order
    for fill in result.fills:
        _book_fill(database, read_order(database, seq), fill, at)
    if redeems and result.fills:
        accounting.redeem_pairs(database, paper_order.sealed_order.order.contract, at, seq)
    database.execute(_UPDATE_MARKET, {"seq": seq, "market": sanitize_text(result.market_state)})
    if result.remainder is RemainderState.RESTING:
        _keep_resting(database, paper_order, result, checked_at)
    else:
        close_order(database, seq, _end_state(read_order(database, seq), result.remainder, at), result.why, at)
    return read_order(database, seq)


def close_order(database: Database, seq: int, state: PaperOrderState, why: str, at: datetime) -> None:
    """Close an open order and release what it reserved."""
    database.execute(
        _UPDATE_CLOSED, {"seq": seq, "state": state.value, "why": sanitize_text(why), "at": format_timestamp(at)}
    )


def cancel_orders(
    database: Database, intents: Collection[str] | None, at: datetime, why: str = "cancelled"
) -> list[str]:
    """Cancel resting orders (None: all); return those that rest no longer, including those closed before."""
    names = None if intents is None else to_json_list(intents)
    seqs = [seq for (seq,) in database.execute(_SELECT_RESTING, {"names": names}).fetchall()]
    for seq in seqs:
        close_order(database, seq, PaperOrderState.CANCELLED, why, at)
    if intents is None:
        return [read_order(database, seq).sealed_order.intent for seq in seqs]
    return [
        name
        for name in intents
        if (one := find_order(database, name)) is not None and one.state is not PaperOrderState.SENT
    ]


def end_question_orders(database: Database, ref: str, target: str, at: datetime) -> None:
    """End the open orders on a question whose outcome is known."""
    for (seq,) in database.execute(_SELECT_ON_QUESTION, [ref, target]).fetchall():
        close_order(database, seq, PaperOrderState.CANCELLED, "its question has resolved", at)


def mark_orders_lost(database: Database, intents: Collection[str] | None, why: str, at: datetime) -> None:
    """Mark orders lost that were sent but never filled (``intents`` None: all of them)."""
    for paper_order in read_open_orders(database):
        named = intents is None or paper_order.sealed_order.intent in intents
        if named and paper_order.state is PaperOrderState.SENT:
            close_order(database, paper_order.seq, PaperOrderState.LOST, why, at)


def find_order(database: Database, intent: str) -> PaperOrder | None:
    """Read the order of an intent, if there is one."""
    row = database.execute(_SELECT_BY_INTENT, [intent]).fetchone()
    return None if row is None else _order_from_row(database, row)


def read_order(database: Database, seq: int) -> PaperOrder:
    """Read a known order."""
    return _order_from_row(database, database.execute(_SELECT_BY_SEQ, [seq]).fetchone())


def read_open_orders(database: Database) -> list[PaperOrder]:
    """Read the orders that were sent or rest, oldest first."""
    return [_order_from_row(database, row) for row in database.execute(_SELECT_OPEN).fetchall()]


def read_earlier_orders(database: Database, paper_order: PaperOrder) -> tuple[EarlierPaperOrder, ...]:
    """Read other filled orders of the same contract, newest first."""
    rows = database.execute(
        _SELECT_EARLIER, [paper_order.sealed_order.order.contract, paper_order.seq, MAX_EARLIER_ORDERS]
    ).fetchall()
    return tuple(
        EarlierPaperOrder(
            order=ORDER_SERIALIZER.decode(body),
            at=parse_timestamp(at),
            fills=read_order(database, seq).plugin_fills,
            market_state=market,
        )
        for seq, body, at, market in rows
    )


def to_open_order(paper_order: PaperOrder) -> OpenOrder:
    """Return a resting order as an account lists it."""
    order = paper_order.sealed_order.order
    return OpenOrder(
        id=paper_order.sealed_order.intent,
        contract=order.contract,
        leg=order.leg,
        side=order.side,
        limit=order.limit,
        shares=paper_order.remaining_shares,
        reserves=from_millionths(paper_order.reserved),
        ref=paper_order.sealed_order.ref,
        expires_at=paper_order.sealed_order.expires_at,
    )


def _cancel_named_orders(database: Database, order: Order, at: datetime) -> None:
    if order.cancels:
        cancel_orders(database, order.cancels, at, "cancelled for an order on the other side")


def _shortfall(database: Database, order: Order, reserved: int, held: int) -> str:
    if (currency := accounting.book_currency(database)) != order.currency:
        return f"the book is in {currency}, the order in {order.currency}"
    if (cash := accounting.free_cash(database)) < reserved:
        return f"it may cost {from_millionths(reserved):.2f}, and {from_millionths(cash):.2f} is free"
    available = accounting.free_shares(database, order.contract, order.leg.value)
    if held and available < held:
        return f"{from_millionths(held):.2f} shares would be sold, but only {from_millionths(available):.2f} are free"
    return ""


def _book_fill(database: Database, paper_order: PaperOrder, fill: PaperFill, at: datetime) -> None:
    buying = paper_order.sealed_order.order.side is OrderSide.BUY
    shares, fee = to_millionths(fill.shares), to_millionths_rounded_up(fill.fee)
    if shares <= 0:
        return
    worth = accounting.value_at_price(shares, fill.price)
    cash = -(worth + fee) if buying else worth - fee
    if buying and paper_order.reserved < -cash <= paper_order.reserved + ROUNDING_SLACK:
        cash = -paper_order.reserved
    _require_within_order(paper_order, fill, shares, cash)
    held = min(shares, paper_order.held_shares)  # 0 for a purchase
    shares = shares if buying else held
    database.execute(_RELEASE_RESERVED, {"seq": paper_order.seq, "reserved": -cash if buying else 0, "held": held})
    row: dict[str, Any] = {
        "ticket": paper_order.seq,
        "at": format_timestamp(at),
        "shares": shares,
        "price": fill.price,
        "fee": fee,
        "cash": cash,
        "detail": sanitize_text(fill.detail),
    }
    database.execute(_INSERT_FILL, row)
    change = PositionChange(
        holding=_order_holding(paper_order.sealed_order),
        shares=shares if buying else -shares,
        cash=cash,
        price=fill.price,
        at=at,
        ticket=paper_order.seq,
    )
    (accounting.book_purchase if buying else accounting.book_sale)(database, change)


def _require_within_order(paper_order: PaperOrder, fill: PaperFill, shares: int, cash: int) -> None:
    order = paper_order.sealed_order.order
    price_excess = fill.price - order.limit if order.side is OrderSide.BUY else order.limit - fill.price
    exceeds_order = (
        -cash > paper_order.reserved
        if order.side is OrderSide.BUY
        else shares > paper_order.held_shares + ROUNDING_SLACK
    )
    if exceeds_order or price_excess > 1e-6:
        message = f"a fill of {fill.shares:g} at {fill.price:g} is beyond the order {paper_order.sealed_order.intent}"
        raise MalformedDataError(message)


def _order_holding(sealed_order: SealedPaperOrder) -> PaperHolding:
    order = sealed_order.order
    return PaperHolding(
        contract=sanitize_text(order.contract),
        leg=order.leg,
        ref=str(sealed_order.ref),
        target=sealed_order.target,
        option=sanitize_text(order.option),
        event=sanitize_text(sealed_order.event),
    )


def _keep_resting(database: Database, paper_order: PaperOrder, result: FillResult, checked_at: datetime) -> None:
    if paper_order.sealed_order.expires_at is None:
        message = f"the order {paper_order.sealed_order.intent} rests, but was sealed as one that never rests"
        raise MalformedDataError(message)
    values = {
        "seq": paper_order.seq,
        "why": sanitize_text(result.why),
        "memory": sanitize_text(result.plugin_state),
        "checked_at": format_timestamp(checked_at),
        "market": sanitize_text(result.market_state),
    }
    database.execute(_UPDATE_RESTING, values)


def _end_state(paper_order: PaperOrder, remainder: RemainderState, at: datetime) -> PaperOrderState:
    if remainder is RemainderState.FILLED and paper_order.fills:
        return PaperOrderState.FILLED
    if paper_order.sealed_order.expires_at is not None and paper_order.sealed_order.expires_at <= at:
        return PaperOrderState.EXPIRED
    return (
        PaperOrderState.DROPPED
        if paper_order.fills or paper_order.state is PaperOrderState.RESTING
        else PaperOrderState.REFUSED
    )


def _read_known_order(database: Database, intent: str) -> PaperOrder:
    return _order_from_row(database, database.execute(_SELECT_BY_INTENT, [intent]).fetchone())


def _order_from_row(database: Database, row: Sequence[Any]) -> PaperOrder:
    seq, intent, account, ref, target, event, body, sealed_at, expires_at, state, why, reserved, held, *rest = row
    looked_at, memory = rest
    fills = database.execute(_SELECT_FILLS, [seq]).fetchall()
    return PaperOrder(
        seq=seq,
        sealed_order=SealedPaperOrder(
            intent=intent,
            account=account,
            ref=QuestionRef.parse(ref),
            target=target,
            event=event,
            order=ORDER_SERIALIZER.decode(body),
            sealed_at=parse_timestamp(sealed_at),
            expires_at=parse_timestamp(expires_at),
        ),
        state=PaperOrderState(state),
        why=why,
        reserved=reserved,
        held_shares=held,
        last_checked_at=parse_timestamp(looked_at),
        plugin_state=memory,
        fills=tuple(
            Fill(
                reference=f"{seq}.{number}",
                at=parse_timestamp(at),
                shares=from_millionths(shares),
                price=price,
                cash=from_millionths(cash),
                fee=from_millionths(fee),
            )
            for number, at, shares, price, fee, cash, _ in fills
        ),
        details=tuple(detail for *_, detail in fills),
    )
