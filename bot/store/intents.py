"""Intents as rows: the machine of their states, and how one is written and read.

``cost`` is what an order may take, and once that is known for good, what it took. It counts while the state is one of
``AT_STAKE``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlite_utils import Database

from bot.domain.order import Order
from bot.domain.permission import Exposure
from bot.domain.question import QuestionRef
from bot.domain.submission import Intent, IntentAction, IntentState, Mode, Send
from bot.errors import NotFound, StoreError
from bot.ids import derive_id
from bot.store.codec import PREDICTIONS, Form, clean, moment

ORDER: Form[Order] = Form("order", Order)

NEXT_STATES: Mapping[IntentState, frozenset[IntentState]] = MappingProxyType(
    {
        IntentState.PLANNED: frozenset({IntentState.READY, IntentState.SUPERSEDED}),
        IntentState.READY: frozenset({IntentState.SENDING, IntentState.SUPERSEDED}),
        IntentState.SENDING: frozenset(
            {IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT}
        ),
        IntentState.UNKNOWN: frozenset({IntentState.ACKED, IntentState.ABSENT, IntentState.IN_DOUBT}),
        IntentState.ABSENT: frozenset({IntentState.PLANNED}),
        IntentState.IN_DOUBT: frozenset(),
        IntentState.ACKED: frozenset(),
        IntentState.REFUSED: frozenset(),
        IntentState.SUPERSEDED: frozenset(),
    }
)
# The way to the wire from wherever an intent may wait; each move on it is one of the machine's.
TO_WIRE: Mapping[IntentState, tuple[IntentState, ...]] = MappingProxyType(
    {
        IntentState.PLANNED: (IntentState.READY, IntentState.SENDING),
        IntentState.READY: (IntentState.SENDING,),
        IntentState.ABSENT: (IntentState.PLANNED, IntentState.READY, IntentState.SENDING),
    }
)
_TO_REST: Mapping[IntentState, tuple[IntentState, ...]] = MappingProxyType(
    {
        IntentState.PLANNED: (IntentState.SUPERSEDED,),
        IntentState.READY: (IntentState.SUPERSEDED,),
        IntentState.ABSENT: (IntentState.PLANNED, IntentState.SUPERSEDED),
    }
)
AT_STAKE = frozenset(IntentState) - {IntentState.REFUSED, IntentState.SUPERSEDED}

_COLUMNS = """
i.id, i.account, i.ref, i.forecast, i.action, i.predictions, i.batch, i.order_body, i.said, i.event, i.creator,
i.category, iif(i.action = 'comment', i.cost, 0.0)
"""
# The columns of an intent alone come first, as ``intent_of`` takes them.
INTENT = f"select {_COLUMNS}, i.state, i.mode, i.detail, i.planned_at, i.changed_at from intent i"  # noqa: S608 - constants
INTENT_COLUMNS = _COLUMNS
_ONE = f"{INTENT} where i.id = ?"
# Of each question, the newest intent that stands at the venue, may stand there, or is still to go; what stands on paper
# stands nowhere else.
STANDING = f"""
{INTENT}
where i.action <> 'comment' and i.state not in ('refused', 'superseded') and not exists (
  select 1 from intent later where later.ref = i.ref and later.account = i.account and later.seq > i.seq
    and (later.mode = 'paper') = (i.mode = 'paper') and later.action <> 'comment'
    and later.state not in ('refused', 'superseded'))
"""  # noqa: S608 - made of constants
_OF_QUESTION = f"""
{STANDING} and i.ref = ?1 and i.account = ?2 and (?3 is null or (i.mode = 'paper') = ?3)
order by i.seq desc
"""
_OPEN = """
select id, state from intent
where ref = ? and account = ? and id <> ? and (action = 'comment') = ?
  and state not in ('acked', 'refused', 'superseded')
"""
_STATE = "select state from intent where id = ?"

_MOVE = "update intent set state = :state, detail = :detail, changed_at = :at where id = :id"
_PLAN = """
insert into intent (id, forecast, ref, venue, account, batch, action, mode, predictions, state, planned_at, changed_at,
                    order_body, said, currency, cost, event, creator, category)
values (:id, :forecast, :ref, :venue, :account, :batch, :action, :mode, :predictions, 'planned', :at, :at,
        :order_body, :said, :currency, :cost, :event, :creator, :category)
on conflict (id) do nothing
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRow:
    """An intent and where it stands."""

    intent: Intent
    state: IntentState
    mode: Mode
    detail: str
    planned_at: datetime
    changed_at: datetime


def plan(database: Database, send: Send, at: str) -> Intent:
    """Write an intent as planned and supersede what waits for the same question; the same again changes nothing.

    One that was superseded before is planned anew under a name of its own, which is returned with it.
    """
    intent = _anew(database, send.intent)
    for other, state in _open(database, intent):
        rest(database, other, state, detail=f"superseded by {intent.id}", at=at)
    order = intent.order
    values = {
        "id": intent.id,
        "forecast": intent.forecast,
        "ref": str(intent.ref),
        "venue": intent.ref.venue,
        "account": clean(intent.account),
        "batch": clean(intent.batch),
        "action": intent.action,
        "mode": send.mode.value,
        "predictions": PREDICTIONS.encode(intent.predictions),
        "at": at,
        "order_body": None if order is None else ORDER.encode(order),
        "said": clean(intent.text),
        "currency": "" if order is None else clean(order.currency),
        "cost": intent.fee if order is None else order.cost,
        "event": clean(intent.exposure.event),
        "creator": clean(intent.exposure.creator),
        "category": clean(intent.exposure.category),
    }
    database.execute(_PLAN, values)
    return intent


def doubt(database: Database, intent: Intent) -> str | None:
    """Return why nothing may be planned beside what is under way for the question, or nothing."""
    for other, state in _open(database, intent):
        if state not in _TO_REST:
            return f"intent {other} of the same question is {state}; it must be settled first"
    return None


def move(database: Database, intent_id: str, state: IntentState, *, detail: str = "", at: str) -> None:
    """Move an intent along the machine; raises StoreError for any other move."""
    known = state_of(database, intent_id)
    if state not in NEXT_STATES[known]:
        message = f"intent {intent_id} cannot go from {known} to {state}"
        raise StoreError(message)
    force(database, intent_id, state, detail=detail, at=at)


def force(database: Database, intent_id: str, state: IntentState, *, detail: str, at: str) -> None:
    """Set a state that the machine does not lead to: for a restored ledger, and where a person says so."""
    database.execute(_MOVE, {"id": intent_id, "state": state.value, "detail": clean(detail), "at": at})


def rest(database: Database, intent_id: str, state: IntentState, *, detail: str, at: str) -> None:
    """Supersede an intent that waits in that state; raises StoreError for one that does not wait."""
    if state not in _TO_REST:
        message = f"intent {intent_id} is {state} and cannot be taken back"
        raise StoreError(message)
    for step in _TO_REST[state]:
        move(database, intent_id, step, detail=detail, at=at)


def state_of(database: Database, intent_id: str) -> IntentState:
    """Return where an intent stands; raises NotFound."""
    row = database.execute(_STATE, [intent_id]).fetchone()
    if row is None:
        message = f"no intent {intent_id} in the ledger"
        raise NotFound(message)
    return IntentState(row[0])


def get(database: Database, intent_id: str) -> IntentRow:
    """Read one intent; raises NotFound."""
    state_of(database, intent_id)
    return rows_of(database, _ONE, intent_id)[0]


def standing(database: Database, ref: QuestionRef, account: str, *, paper: bool | None = None) -> Intent | None:
    """Read the newest intent of the question that is neither refused nor superseded, comments aside.

    ``paper`` says on which side: on paper, or at the venue; None: on either.
    """
    rows = rows_of(database, _OF_QUESTION, str(ref), account, paper)
    return rows[0].intent if rows else None


def rows_of(database: Database, sql: str, *values: object, **named: object) -> list[IntentRow]:
    """Read the rows of a query that begins with ``INTENT``; its values go by place, or by name."""
    return [_row(*row) for row in database.execute(sql, named or values)]


def intent_of(*columns: Any) -> Intent:  # noqa: ANN401 - the columns of INTENT_COLUMNS
    """Make an intent of its columns."""
    intent_id, account, ref, forecast, action, predictions, batch, order, said, *exposure, fee = columns
    return Intent(
        id=intent_id,
        account=account,
        ref=QuestionRef.parse(ref),
        forecast=forecast,
        action=IntentAction(action),
        predictions=PREDICTIONS.decode(predictions),
        batch=batch,
        order=None if order is None else ORDER.decode(order),
        text=said,
        fee=fee,
        exposure=Exposure(**dict(zip(("event", "creator", "category"), exposure, strict=True))),
    )


def _row(*columns: Any) -> IntentRow:  # noqa: ANN401 - a row of INTENT
    *intent, state, mode, detail, planned_at, changed_at = columns
    return IntentRow(
        intent=intent_of(*intent),
        state=IntentState(state),
        mode=Mode(mode),
        detail=detail,
        planned_at=moment(planned_at),
        changed_at=moment(changed_at),
    )


def _open(database: Database, intent: Intent) -> list[tuple[str, IntentState]]:
    values = [str(intent.ref), intent.account, intent.id, intent.action is IntentAction.COMMENT]
    return [(other, IntentState(state)) for other, state in database.execute(_OPEN, values)]


def _anew(database: Database, intent: Intent) -> Intent:
    """Return the intent under the first of its names that was not superseded."""
    number, name = 1, intent.id
    while database.execute(_STATE, [name]).fetchone() == (IntentState.SUPERSEDED.value,):
        number += 1
        name = derive_id("intent", intent.id, str(number))
    if name == intent.id:
        return intent
    return replace(intent, id=name, batch=name if intent.batch == intent.id else intent.batch)
