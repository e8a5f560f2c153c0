"""Intents as rows: their states and moves, writing and reading them, and their batches."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlite_utils import Database

from bot.core.errors import NotFoundError, StoreError
from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.core.orders import Order
from bot.core.permissions import ExposureGroups
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState, SendDecision
from bot.store.score_totals import kept_submitted_totals
from bot.store.serialization import PREDICTIONS, JsonSerializer, parse_timestamp, sanitize_text, to_json_list

ORDER_SERIALIZER: JsonSerializer[Order] = JsonSerializer("order", Order)
NEXT_INTENT_STATES: Mapping[IntentState, frozenset[IntentState]] = MappingProxyType(
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
# The moves from each waiting state to sending.
STEPS_TO_SENDING: Mapping[IntentState, tuple[IntentState, ...]] = MappingProxyType(
    {
        IntentState.PLANNED: (IntentState.READY, IntentState.SENDING),
        IntentState.READY: (IntentState.SENDING,),
        IntentState.ABSENT: (IntentState.PLANNED, IntentState.READY, IntentState.SENDING),
    }
)
_STEPS_TO_SUPERSEDED: Mapping[IntentState, tuple[IntentState, ...]] = MappingProxyType(
    {
        IntentState.PLANNED: (IntentState.SUPERSEDED,),
        IntentState.READY: (IntentState.SUPERSEDED,),
        IntentState.ABSENT: (IntentState.PLANNED, IntentState.SUPERSEDED),
    }
)
AT_STAKE_STATES = frozenset(IntentState) - {IntentState.REFUSED, IntentState.SUPERSEDED}
_INTENT_COLUMNS = """
i.id, i.account, i.ref, i.forecast, i.action, i.predictions, i.batch, i.order_body, i.text, i.event, i.creator,
i.category, iif(i.action = 'comment', i.cost, 0.0)
"""
# The columns of an intent alone come first, as ``intent_from_columns`` takes them.
SELECT_INTENT = f"select {_INTENT_COLUMNS}, i.state, i.mode, i.detail, i.planned_at, i.changed_at from intent i"  # noqa: S608 - constants
INTENT_COLUMNS = _INTENT_COLUMNS
_INTENT_BY_ID = f"{SELECT_INTENT} where i.id = ?"
# The newest intent of each question that is neither refused nor superseded; paper and real ones are separate.
SELECT_STANDING = f"""
{SELECT_INTENT}
where i.action <> 'comment' and i.state not in ('refused', 'superseded') and not exists (
  select 1 from intent later where later.ref = i.ref and later.account = i.account and later.seq > i.seq
    and (later.mode = 'paper') = (i.mode = 'paper') and later.action <> 'comment'
    and later.state not in ('refused', 'superseded'))
"""  # noqa: S608 - made of constants
_STANDING_OF_QUESTION = f"""
{SELECT_STANDING} and i.ref = ?1 and i.account = ?2 and (?3 is null or (i.mode = 'paper') = ?3)
order by i.seq desc
"""
_OPEN_INTENTS = """
select id, state, action from intent
where ref = ? and account = ? and id <> ? and (action = 'comment') = ?
  and state not in ('acked', 'refused', 'superseded')
"""
_INTENT_STATE = "select state from intent where id = ?"
_UPDATE_STATE = "update intent set state = :state, detail = :detail, changed_at = :at where id = :id"
# The question whose sums of scores change when an intent begins to count, or no longer does: few are scored by then.
_SCORED_OF_FORECAST = "select distinct ref from prediction where forecast = ? and scored_against is not null"
_SCORED_OF_INTENT = """
select distinct p.ref from intent i cross join prediction p on p.forecast = i.forecast
where i.id = ? and p.scored_against is not null
"""
_INSERT_INTENT = """
insert into intent (id, forecast, ref, venue, account, batch, action, mode, predictions, state, planned_at, changed_at,
                    order_body, text, currency, cost, event, creator, category)
values (:id, :forecast, :ref, :venue, :account, :batch, :action, :mode, :predictions, 'planned', :at, :at,
        :order_body, :text, :currency, :cost, :event, :creator, :category)
on conflict (id) do nothing
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRow:
    """An intent with its state."""

    intent: Intent
    state: IntentState
    mode: ExecutionMode
    detail: str
    planned_at: datetime
    changed_at: datetime


def plan_intent(database: Database, send: SendDecision, at: str) -> Intent:
    """Write an intent as planned and supersede the waiting intents of its question; repeating it changes nothing.

    An intent that was superseded before is planned again under a new id. Returns the intent as stored.
    """
    intent = _with_unused_id(database, send.intent)
    for other, state, _ in _open_intents(database, intent):
        supersede_intent(database, other, state, detail=f"superseded by {intent.id}", at=at)
    order = intent.order
    values = {
        "id": intent.id,
        "forecast": intent.forecast,
        "ref": str(intent.ref),
        "venue": intent.ref.venue,
        "account": sanitize_text(intent.account),
        "batch": sanitize_text(intent.batch),
        "action": intent.action,
        "mode": send.mode.value,
        "predictions": PREDICTIONS.encode(intent.predictions),
        "at": at,
        "order_body": None if order is None else ORDER_SERIALIZER.encode(order),
        "text": sanitize_text(intent.text),
        "currency": "" if order is None else sanitize_text(order.currency),
        "cost": intent.fee if order is None else order.cost,
        "event": sanitize_text(intent.exposure.event),
        "creator": sanitize_text(intent.exposure.creator),
        "category": sanitize_text(intent.exposure.category),
    }
    with kept_submitted_totals(database, [ref for (ref,) in database.execute(_SCORED_OF_FORECAST, [intent.forecast])]):
        database.execute(_INSERT_INTENT, values)
    return intent


def unsettled_intent_reason(database: Database, intent: Intent) -> str | None:
    """Return why the open intents of the question allow no new one, None if they do."""
    for other, state, action in _open_intents(database, intent):
        # A newer forecast may never leave, and what a person asked to take back must go all the same.
        if action is IntentAction.WITHDRAW and intent.action is not IntentAction.WITHDRAW:
            return f"the withdrawal {other} of the same question waits; it must be sent first"
        if state not in _STEPS_TO_SUPERSEDED:
            return f"intent {other} of the same question is {state}; it must be settled first"
    return None


def move_intent(database: Database, intent_id: str, state: IntentState, *, detail: str = "", at: str) -> None:
    """Move an intent to its next state; raises StoreError for an illegal move."""
    known = read_intent_state(database, intent_id)
    if state not in NEXT_INTENT_STATES[known]:
        message = f"intent {intent_id} cannot go from {known} to {state}"
        raise StoreError(message)
    write_intent_state(database, intent_id, (known, state), detail=detail, at=at)


def force_intent_state(database: Database, intent_id: str, state: IntentState, *, detail: str, at: str) -> None:
    """Set any state: for a restored ledger, and where a person reports the outcome."""
    write_intent_state(database, intent_id, (read_intent_state(database, intent_id), state), detail=detail, at=at)


def write_intent_state(
    database: Database, intent_id: str, states: tuple[IntentState, IntentState], *, detail: str, at: str
) -> None:
    """Write the second state over the first one, and keep the sums of scores of submitted forecasts right."""
    values = {"id": intent_id, "state": states[1].value, "detail": sanitize_text(detail), "at": at}
    was_at_stake, is_at_stake = (state in AT_STAKE_STATES for state in states)
    scored = [] if was_at_stake is is_at_stake else database.execute(_SCORED_OF_INTENT, [intent_id]).fetchall()
    with kept_submitted_totals(database, [ref for (ref,) in scored]):
        database.execute(_UPDATE_STATE, values)


def supersede_intent(database: Database, intent_id: str, state: IntentState, *, detail: str, at: str) -> None:
    """Supersede an intent that is in this waiting state; raises StoreError for another state."""
    if state not in _STEPS_TO_SUPERSEDED:
        message = f"intent {intent_id} is {state} and cannot be superseded"
        raise StoreError(message)
    for step in _STEPS_TO_SUPERSEDED[state]:
        move_intent(database, intent_id, step, detail=detail, at=at)


def read_intent_state(database: Database, intent_id: str) -> IntentState:
    """Return the state of an intent; raises NotFoundError."""
    row = database.execute(_INTENT_STATE, [intent_id]).fetchone()
    if row is None:
        message = f"no intent {intent_id} in the ledger"
        raise NotFoundError(message)
    return IntentState(row[0])


def read_intent(database: Database, intent_id: str) -> IntentRow:
    """Read one intent; raises NotFoundError."""
    read_intent_state(database, intent_id)
    return read_intent_rows(database, _INTENT_BY_ID, intent_id)[0]


def read_standing_intent(
    database: Database, ref: QuestionRef, account: str, *, paper: bool | None = None
) -> Intent | None:
    """Read the newest intent of the question that is neither refused nor superseded, except comments.

    ``paper`` chooses paper or real intents; None means both.
    """
    rows = read_intent_rows(database, _STANDING_OF_QUESTION, str(ref), account, paper)
    return rows[0].intent if rows else None


def read_intent_rows(database: Database, sql: str, *values: object, **named: object) -> list[IntentRow]:
    """Read the rows of a query that begins with ``SELECT_INTENT``, with positional or named values."""
    return [_intent_row(*row) for row in database.execute(sql, named or values)]


def intent_from_columns(*columns: Any) -> Intent:  # noqa: ANN401 - the columns of INTENT_COLUMNS
    """Build an intent from its columns."""
    intent_id, account, ref, forecast, action, predictions, batch, order, text, *exposure, fee = columns
    return Intent(
        id=intent_id,
        account=account,
        ref=QuestionRef.parse(ref),
        forecast=forecast,
        action=IntentAction(action),
        predictions=PREDICTIONS.decode(predictions),
        batch=batch,
        order=None if order is None else ORDER_SERIALIZER.decode(order),
        text=text,
        fee=fee,
        exposure=ExposureGroups(**dict(zip(("event", "creator", "category"), exposure, strict=True))),
    )


def _intent_row(*columns: Any) -> IntentRow:  # noqa: ANN401 - a database row
    *intent, state, mode, detail, planned_at, changed_at = columns
    return IntentRow(
        intent=intent_from_columns(*intent),
        state=IntentState(state),
        mode=ExecutionMode(mode),
        detail=detail,
        planned_at=parse_timestamp(planned_at),
        changed_at=parse_timestamp(changed_at),
    )


def _open_intents(database: Database, intent: Intent) -> list[tuple[str, IntentState, IntentAction]]:
    values = [str(intent.ref), intent.account, intent.id, intent.action is IntentAction.COMMENT]
    return [
        (other, IntentState(state), IntentAction(action))
        for other, state, action in database.execute(_OPEN_INTENTS, values)
    ]


def _with_unused_id(database: Database, intent: Intent) -> Intent:
    """Return the intent under the first of its ids that was not superseded."""
    others = (derive_id("intent", intent.id, str(number)) for number in itertools.count(2))
    superseded = (IntentState.SUPERSEDED.value,)
    name = next(
        name
        for name in itertools.chain([intent.id], others)
        if database.execute(_INTENT_STATE, [name]).fetchone() != superseded
    )
    if name == intent.id:
        return intent
    return replace(intent, id=name, batch=name if intent.batch == intent.id else intent.batch)


_INTENTS_IN_BATCH = f"""
{SELECT_STANDING} and i.venue = ?1 and i.account = ?2 and i.batch = ?3 and (?4 is null or (i.mode = 'paper') = ?4)
order by i.ref
"""
_COMMENTS_IN_BATCH = f"""
{SELECT_INTENT} where i.action = 'comment' and i.state not in ('refused', 'superseded')
  and i.venue = ? and i.account = ? and i.batch = ? order by i.seq
"""
_SELECT_BATCHES = """
select i.venue, i.account, i.batch, i.mode, i.action = 'comment', i.state, count(*),
       (select min(q.closes_at) from question q where q.ref in (
          select ref from question where venue = i.venue and batch = i.batch
          union all select ref from intent where venue = i.venue and account = i.account and batch = i.batch))
from intent i
where (i.venue, i.account, i.batch, i.action = 'comment') in (
  select venue, account, batch, action = 'comment' from intent where state in (select value from json_each(?)))
group by i.venue, i.account, i.batch, i.mode, i.action = 'comment', i.state
order by 5, 8 is null, 8, i.venue, i.batch, i.account, i.mode
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch of one account and mode, with its number of intents by state and its first closing time.

    Comments have their own row (``comments``): each is sent alone, after its forecast or order.
    """

    venue: str
    account: str
    batch: str
    mode: ExecutionMode
    closes_at: datetime | None
    counts: Mapping[IntentState, int]
    comments: bool = False

    @property
    def planned(self) -> int:
        """The number of intents that wait to be sent."""
        return self.counts.get(IntentState.PLANNED, 0)

    @property
    def acked(self) -> int:
        """The number of intents that the venue acknowledged."""
        return self.counts.get(IntentState.ACKED, 0)


def list_batches(database: Database, states: Sequence[IntentState]) -> list[BatchRow]:
    """Read the batches with an intent in one of the states, soonest close first, comments last."""
    counts: dict[tuple[str, str, str, str, int], dict[IntentState, int]] = {}
    closes: dict[tuple[str, str, str, str, int], datetime | None] = {}
    for venue, account, batch, mode, comments, state, count, closes_at in database.execute(
        _SELECT_BATCHES, [to_json_list(states)]
    ):
        key = (venue, account, batch, mode, comments)
        counts.setdefault(key, {})[IntentState(state)] = count
        closes[key] = parse_timestamp(closes_at)
    return [
        BatchRow(
            venue=venue,
            account=account,
            batch=batch,
            mode=ExecutionMode(mode),
            closes_at=closes[venue, account, batch, mode, comments],
            counts=MappingProxyType(by_state),
            comments=bool(comments),
        )
        for (venue, account, batch, mode, comments), by_state in counts.items()
    ]


def list_batch_intents(
    database: Database, venue: str, account: str, batch: str, *, paper: bool | None = None
) -> list[IntentRow]:
    """Read, by question, the newest intent that is neither refused nor superseded, except comments.

    ``paper`` chooses paper or real intents; None means both.
    """
    return read_intent_rows(database, _INTENTS_IN_BATCH, venue, account, batch, paper)


def list_batch_comments(database: Database, venue: str, account: str, batch: str) -> list[IntentRow]:
    """Read the comments that are neither refused nor superseded, oldest first."""
    return read_intent_rows(database, _COMMENTS_IN_BATCH, venue, account, batch)
