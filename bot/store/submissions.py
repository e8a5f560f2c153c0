"""Decisions, intents and attempts: what was to leave, whether it left, and what the other side said.

An intent is written before the wire is touched, and its state moves only along the machine below; whatever is not
proved to be refused or absent counts as sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlite_utils import Database

from bot.domain.question import QuestionRef
from bot.domain.submission import FINAL_STATES, Decision, Hold, Intent, IntentAction, IntentState, Mode, Receipt, Send
from bot.errors import NotFound, StoreError
from bot.ids import derive_id
from bot.store.codec import PREDICTIONS, clean, listed, moment, stamp
from bot.store.runs import Runs

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
_TO_WIRE: Mapping[IntentState, tuple[IntentState, ...]] = MappingProxyType(
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
_ANSWERS = frozenset(
    {IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT, IntentState.IN_DOUBT}
)

_OPEN = """
select id, state from intent
where ref = ? and account = ? and id <> ? and state not in ('acked', 'refused', 'superseded')
"""
_PLAN = """
insert into intent (id, forecast, ref, venue, account, batch, action, mode, predictions, state, planned_at, changed_at)
values (:id, :forecast, :ref, :venue, :account, :batch, :action, :mode, :predictions, 'planned', :at, :at)
on conflict (id) do nothing
"""
_DECIDE = """
insert into decision (forecast, at, verdict, why, until, mode, intent)
values (:forecast, :at, :verdict, :why, :until, :mode, :intent)
"""
# Asking again and hearing the same is no new decision: only the time until which it holds moves.
_REPEAT = """
update decision set until = :until
where verdict = 'hold' and why = :why and id = (select max(id) from decision where forecast = :forecast)
"""
_DECIDED = "update forecast set decided_at = :at where id = :forecast"
_STATE = "select state from intent where id = ?"
_MOVE = "update intent set state = :state, detail = :detail, changed_at = :at where id = :id"
_ATTEMPTS = "select count(*) from attempt where intent = ?"
_BEGIN_ATTEMPT = "insert into attempt (id, intent, number, started_at, state) values (?, ?, ?, ?, 'sending')"
_SETTLE_ATTEMPT = """
update attempt set state = :state, settled_at = :at, reference = coalesce(nullif(:reference, ''), reference),
                   detail = :detail
where intent = :id and number = (select max(number) from attempt where intent = :id)
"""
_INTENT = """
select i.id, i.account, i.ref, i.forecast, i.action, i.predictions, i.batch, i.state, i.mode, i.detail, i.planned_at,
       i.changed_at from intent i
"""
# Of each question, the newest intent that stands at the venue, may stand there, or is still to go.
_STANDING = f"""
{_INTENT}
where i.state not in ('refused', 'superseded') and not exists (
  select 1 from intent later where later.ref = i.ref and later.account = i.account and later.seq > i.seq
    and later.state not in ('refused', 'superseded'))
"""  # noqa: S608 - made of constants
_IN_BATCH = f"{_STANDING} and i.venue = ? and i.account = ? and i.batch = ? order by i.ref"
_OF_QUESTION = f"{_STANDING} and i.ref = ? and i.account = ?"
_SENDING = f"{_INTENT} where i.state = 'sending' order by i.seq"
_BATCHES = """
select i.venue, i.account, i.batch, i.mode, i.state, count(*),
       (select min(q.closes_at) from question q where q.ref in (
          select ref from question where venue = i.venue and batch = i.batch
          union all select ref from intent where venue = i.venue and account = i.account and batch = i.batch))
from intent i
where (i.venue, i.account, i.batch) in (
  select venue, account, batch from intent where state in (select value from json_each(?)))
group by i.venue, i.account, i.batch, i.mode, i.state order by 7 is null, 7, i.venue, i.batch, i.account, i.mode
"""
_DECISIONS = """
select d.at, d.why, d.until, d.mode, i.id, i.account, i.ref, i.forecast, i.action, i.predictions, i.batch
from decision d left join intent i on i.id = d.intent where d.forecast = ? order by d.id
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch of one account and mode; ``counts`` holds its intents by state, ``closes_at`` the first close in it."""

    venue: str
    account: str
    batch: str
    mode: Mode
    closes_at: datetime | None
    counts: Mapping[IntentState, int]

    @property
    def planned(self) -> int:
        """How many intents wait to be sent."""
        return self.counts.get(IntentState.PLANNED, 0)

    @property
    def acked(self) -> int:
        """How many intents the venue has acknowledged."""
        return self.counts.get(IntentState.ACKED, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision and when it was taken."""

    at: datetime
    decision: Decision


@dataclass(frozen=True, slots=True)
class Submissions:
    """The outbox on disk."""

    writer: Runs
    readers: Runs

    async def decide(self, *, forecast_id: str, decision: Decision, at: datetime) -> Decision:
        """Store a decision; for Send also plan the intent, and supersede what still waited for the question.

        While an earlier intent of the question may be on its way, a Send is stored as a Hold that says so. Returns the
        decision as stored.
        """
        return await self.writer.run(lambda database: _decide(database, forecast_id, decision, at))

    async def decisions(self, forecast_id: str) -> list[DecisionRow]:
        """Return all decisions over a forecast, oldest first."""
        return await self.readers.run(lambda database: _decisions(database, forecast_id))

    async def batches(self, *, states: Sequence[IntentState]) -> list[BatchRow]:
        """Return the batches with an intent in one of the states, soonest close first."""
        return await self.readers.run(lambda database: _batches(database, states))

    async def intents(self, venue: str, account: str, batch: str) -> list[IntentRow]:
        """Return, by question, the newest intent that is neither refused nor superseded."""
        return await self.readers.run(lambda database: _intents(database, _IN_BATCH, venue, account, batch))

    async def standing(self, ref: QuestionRef, account: str) -> Intent | None:
        """Return the newest intent of the question that is neither refused nor superseded."""
        return await self.readers.run(lambda database: standing(database, ref, account))

    async def sending(self) -> list[IntentRow]:
        """Return the intents on the wire; found at start, each of them is unknown."""
        return await self.readers.run(lambda database: _intents(database, _SENDING))

    async def begin_attempt(self, intent_ids: Sequence[str], *, at: datetime) -> list[str]:
        """Mark waiting intents (planned, ready or proved absent) as on the wire; return the ids of the attempts.

        All or none: raises StoreError if one of them does not wait. On return this is durable, and the wire is free.
        """
        return await self.writer.run(lambda database: [_attempt(database, one, stamp(at)) for one in intent_ids])

    async def settle(self, receipts: Sequence[Receipt], *, at: datetime) -> None:
        """Record what became of intents; a final state is proof and stays. Raises StoreError for an illegal move."""
        await self.writer.run(lambda database: _settle(database, receipts, stamp(at)))

    async def mark(self, intent_id: str, state: IntentState, detail: str, at: datetime) -> None:
        """Move one intent; the state it has already changes nothing. Raises StoreError for an illegal move."""
        receipt = Receipt(intent=intent_id, state=state, detail=detail)
        await self.writer.run(lambda database: _mark(database, receipt, stamp(at)))

    async def revoke(self, intent_ids: Sequence[str], *, detail: str, at: datetime) -> None:
        """Take back that intents were acknowledged: in a restored ledger only, of what was read back and is not there.

        They are then proved absent and wait to be sent again. Raises StoreError for one that was not acknowledged.
        """
        await self.writer.run(lambda database: _revoke(database, intent_ids, detail, stamp(at)))


def standing(database: Database, ref: QuestionRef, account: str) -> Intent | None:
    """Read the newest intent of the question that is neither refused nor superseded."""
    rows = _intents(database, _OF_QUESTION, str(ref), account)
    return rows[0].intent if rows else None


def _decide(database: Database, forecast_id: str, decision: Decision, at: datetime) -> Decision:
    if isinstance(decision, Send) and (doubt := _doubt(database, decision.intent)):
        decision = Hold(why=doubt, until=at)
    moment_ = stamp(at)
    if isinstance(decision, Send):
        _plan(database, decision, moment_)
        verdict = {"verdict": "send", "until": None, "mode": decision.mode.value, "intent": decision.intent.id}
    else:
        verdict = {"verdict": "hold", "until": stamp(decision.until), "mode": None, "intent": None}
    values = {"forecast": forecast_id, "at": moment_, "why": clean(decision.why), **verdict}
    if verdict["verdict"] == "send" or not database.execute(_REPEAT, values).rowcount:
        database.execute(_DECIDE, values)
    database.execute(_DECIDED, {"forecast": forecast_id, "at": moment_})
    return decision


def _open(database: Database, intent: Intent) -> list[tuple[str, IntentState]]:
    rows = database.execute(_OPEN, [str(intent.ref), intent.account, intent.id])
    return [(other, IntentState(state)) for other, state in rows]


def _doubt(database: Database, intent: Intent) -> str | None:
    for other, state in _open(database, intent):
        if state not in _TO_REST:
            return f"intent {other} of the same question is {state}; it must be settled first"
    return None


def _plan(database: Database, send: Send, at: str) -> None:
    intent = send.intent
    for other, state in _open(database, intent):
        for step in _TO_REST[state]:
            _move(database, Receipt(intent=other, state=step, detail=f"superseded by {intent.id}"), at)
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
    }
    database.execute(_PLAN, values)


def _attempt(database: Database, intent_id: str, at: str) -> str:
    state = _state(database, intent_id)
    if state not in _TO_WIRE:
        message = f"intent {intent_id} is {state} and cannot be sent"
        raise StoreError(message)
    for step in _TO_WIRE[state]:
        _move(database, Receipt(intent=intent_id, state=step), at)
    number = database.execute(_ATTEMPTS, [intent_id]).fetchone()[0] + 1
    attempt = derive_id("attempt", intent_id, str(number))
    database.execute(_BEGIN_ATTEMPT, [attempt, intent_id, number, at])
    return attempt


def _settle(database: Database, receipts: Sequence[Receipt], at: str) -> None:
    for receipt in receipts:
        if _state(database, receipt.intent) not in FINAL_STATES:
            _mark(database, receipt, at)


def _mark(database: Database, receipt: Receipt, at: str) -> None:
    if _state(database, receipt.intent) is receipt.state:
        return
    if receipt.state is IntentState.SENDING:
        message = f"intent {receipt.intent} cannot go to {receipt.state} but by an attempt"
        raise StoreError(message)
    _move(database, receipt, at)
    if receipt.state in _ANSWERS:
        values = {
            "id": receipt.intent,
            "state": receipt.state.value,
            "reference": clean(receipt.reference),
            "detail": clean(receipt.detail),
            "at": at,
        }
        database.execute(_SETTLE_ATTEMPT, values)


def _revoke(database: Database, intent_ids: Sequence[str], detail: str, at: str) -> None:
    fixed = {"state": IntentState.ABSENT.value, "reference": "", "detail": clean(detail), "at": at}
    for intent_id in intent_ids:
        if (state := _state(database, intent_id)) is not IntentState.ACKED:
            message = f"intent {intent_id} is {state}, so there is no acknowledgement to take back"
            raise StoreError(message)
        values = {"id": intent_id, **fixed}
        database.execute(_MOVE, values)
        database.execute(_SETTLE_ATTEMPT, values)


def _move(database: Database, receipt: Receipt, at: str) -> None:
    state = _state(database, receipt.intent)
    if receipt.state not in NEXT_STATES[state]:
        message = f"intent {receipt.intent} cannot go from {state} to {receipt.state}"
        raise StoreError(message)
    values = {"id": receipt.intent, "state": receipt.state.value, "detail": clean(receipt.detail), "at": at}
    database.execute(_MOVE, values)


def _state(database: Database, intent_id: str) -> IntentState:
    row = database.execute(_STATE, [intent_id]).fetchone()
    if row is None:
        message = f"no intent {intent_id} in the ledger"
        raise NotFound(message)
    return IntentState(row[0])


def _batches(database: Database, states: Sequence[IntentState]) -> list[BatchRow]:
    counts: dict[tuple[str, ...], dict[IntentState, int]] = {}
    closes: dict[tuple[str, ...], datetime | None] = {}
    for *key, state, count, closes_at in database.execute(_BATCHES, [listed(states)]):
        counts.setdefault(tuple(key), {})[IntentState(state)] = count
        closes[tuple(key)] = moment(closes_at)
    return [
        BatchRow(
            venue=venue,
            account=account,
            batch=batch,
            mode=Mode(mode),
            closes_at=closes[venue, account, batch, mode],
            counts=MappingProxyType(by_state),
        )
        for (venue, account, batch, mode), by_state in counts.items()
    ]


def _intents(database: Database, sql: str, *values: str) -> list[IntentRow]:
    return [_intent_row(*row) for row in database.execute(sql, values)]


def _intent_row(*columns: Any) -> IntentRow:  # noqa: ANN401 - a row of _INTENT
    *intent, state, mode, detail, planned_at, changed_at = columns
    return IntentRow(
        intent=_intent(*intent),
        state=IntentState(state),
        mode=Mode(mode),
        detail=detail,
        planned_at=moment(planned_at),
        changed_at=moment(changed_at),
    )


def _intent(*columns: str) -> Intent:
    intent_id, account, ref, forecast, action, predictions, batch = columns
    return Intent(
        id=intent_id,
        account=account,
        ref=QuestionRef.parse(ref),
        forecast=forecast,
        action=IntentAction(action),
        predictions=PREDICTIONS.decode(predictions),
        batch=batch,
    )


def _decisions(database: Database, forecast_id: str) -> list[DecisionRow]:
    return [
        DecisionRow(
            at=moment(at),
            decision=Hold(why=why, until=moment(until))
            if mode is None
            else Send(intent=_intent(*intent), mode=Mode(mode), why=why),
        )
        for at, why, until, mode, *intent in database.execute(_DECISIONS, [forecast_id])
    ]
