"""Decisions about forecasts: send or hold, each with its reason, and when a hold ends.

Also the snapshot of question, intents and locks on which a decision is based.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from sqlite_utils import Database

from bot.core.errors import NotFoundError
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question, QuestionRef
from bot.core.submissions import (
    ExecutionMode,
    GateDecision,
    HoldDecision,
    Intent,
    IntentAction,
    IntentState,
    SendDecision,
)
from bot.store import documents, intents
from bot.store.connections import TransactionRunner
from bot.store.intents import INTENT_COLUMNS, read_standing_intent
from bot.store.question_history import read_question_version
from bot.store.questions import read_current_question
from bot.store.schedule import read_lock_reason
from bot.store.serialization import format_timestamp, parse_timestamp, sanitize_text
from bot.store.trials import clairvoyant_setups

MARKET_MEDIA_TYPE = "application/json"
_INSERT_DECISION = """
insert into decision (forecast, at, verdict, why, until, mode, intent, market)
values (:forecast, :at, :verdict, :why, :until, :mode, :intent, :market)
"""
# A repeated hold is not a new decision: only its time and the numbers in its reason change.
_LAST_DECISION = "select id, verdict, why from decision where forecast = ? order by id desc limit 1"
_UPDATE_HOLD = "update decision set until = :until, why = :why where id = :id"
_NUMBERS = re.compile(r"\d[\d.,:]*")
_SET_DECIDED_AT = "update forecast set decided_at = :at where id = :forecast"
_SELECT_DECISIONS = f"""
select d.at, d.why, d.until, d.mode, d.market, {INTENT_COLUMNS}
from decision d left join intent i on i.id = d.intent where d.forecast = ? order by d.id
"""  # noqa: S608 - made of constants
_PARENT_INTENT_STATE = """
select i.state from intent i join intent c on c.id = ?
where i.forecast = c.forecast and i.account = c.account and i.action in ('forecast', 'order')
order by i.state = 'acked' desc, i.seq desc limit 1
"""
# Decides within the transaction that stores the decision, so that its inputs (such as cap usage) cannot change.
# It may run twice and must only read.
DecisionRule = Callable[[Database], GateDecision]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision and its time."""

    at: datetime
    decision: GateDecision


def store_decision(database: Database, forecast_id: str, decision: GateDecision, at: datetime) -> GateDecision:
    """Store a decision and plan its intent; return the decision as stored."""
    if isinstance(decision, SendDecision) and (
        reason := intents.unsettled_intent_reason(database, decision.intent)
        or _replaced_reason(database, forecast_id, decision.intent)
    ):
        decision = HoldDecision(why=reason, until=at)
    if isinstance(decision, HoldDecision):
        store_hold(database, forecast_id, decision, at)
        return decision
    decision = replace(decision, intent=intents.plan_intent(database, decision, format_timestamp(at)))
    values = {
        "verdict": "send",
        "until": None,
        "mode": decision.mode.value,
        "intent": decision.intent.id,
        "market": _store_market_state(database, decision.market_state),
    }
    _insert_decision(
        database, {**values, "forecast": forecast_id, "at": format_timestamp(at), "why": sanitize_text(decision.why)}
    )
    return decision


def _replaced_reason(database: Database, forecast_id: str, intent: Intent) -> str | None:
    """Return that a newer forecast was made while this one was decided on, None if not.

    What is withdrawn, and a position that is closed, need no new forecast.
    """
    is_closing = intent.order is not None and intent.order.closing
    if is_closing or intent.action not in {IntentAction.FORECAST, IntentAction.ORDER}:
        return None
    (newer,) = database.execute(_NEWER_FORECAST, [forecast_id]).fetchone()
    return None if newer is None else describe_successor(newer)


def describe_successor(revision: int) -> str:
    """Return why a forecast is held that a later revision has replaced."""
    return f"superseded by revision {revision}"


def store_hold(database: Database, forecast_id: str, decision: HoldDecision, at: datetime) -> None:
    """Store that a forecast is held; the same reason again only changes its time."""
    values = {
        "forecast": forecast_id,
        "at": format_timestamp(at),
        "why": sanitize_text(decision.why),
        "verdict": "hold",
        "until": format_timestamp(decision.until),
        "mode": None,
        "intent": None,
        "market": None,
    }
    last = database.execute(_LAST_DECISION, [forecast_id]).fetchone()
    if (
        last is not None
        and last[1] == "hold"
        and _reason_without_numbers(last[2]) == _reason_without_numbers(decision.why)
    ):
        database.execute(_UPDATE_HOLD, {"id": last[0], "until": values["until"], "why": values["why"]})
        database.execute(_SET_DECIDED_AT, {"forecast": forecast_id, "at": values["at"]})
    else:
        _insert_decision(database, values)


def _reason_without_numbers(why: str) -> str:
    """Return a reason with each number replaced by #."""
    return _NUMBERS.sub("#", sanitize_text(why))


def abandon_intent(
    database: Database, intent_id: str, why: str, at: datetime, *, until: datetime | None = None
) -> None:
    """Supersede a waiting intent; the gate decides about its forecast again, at once or at ``until``.

    Abandoning a comment does not reopen the decision. Raises StoreError for an intent that does not wait.
    """
    row = intents.read_intent(database, intent_id)
    intents.supersede_intent(database, intent_id, row.state, detail=why, at=format_timestamp(at))
    if row.intent.action in {"forecast", "order"}:
        store_hold(database, row.intent.forecast, HoldDecision(why=f"back to the gate: {why}", until=until or at), at)


def read_decisions(database: Database, forecast_id: str) -> list[DecisionRow]:
    """Return all decisions about a forecast, oldest first."""
    rows = database.execute(_SELECT_DECISIONS, [forecast_id]).fetchall()
    return [
        DecisionRow(
            at=parse_timestamp(at),
            decision=HoldDecision(why=why, until=parse_timestamp(until))
            if mode is None
            else SendDecision(
                intent=intents.intent_from_columns(*intent),
                mode=ExecutionMode(mode),
                why=why,
                market_state=_read_market_state(database, market),
            ),
        )
        for at, why, until, mode, market, *intent in rows
    ]


def read_parent_intent_state(database: Database, comment_id: str) -> IntentState | None:
    """Return the state of the newest intent that a comment belongs to, None if there is none."""
    row = database.execute(_PARENT_INTENT_STATE, [comment_id]).fetchone()
    return None if row is None else IntentState(row[0])


def _insert_decision(database: Database, values: dict[str, str | None]) -> None:
    database.execute(_INSERT_DECISION, values)
    database.execute(_SET_DECIDED_AT, {"forecast": values["forecast"], "at": values["at"]})


def _store_market_state(database: Database, state: str) -> str | None:
    if not state:
        return None
    document = documents.compress_document(sanitize_text(state).encode(), MARKET_MEDIA_TYPE)
    documents.put_document(database, document)
    return document.digest


def _read_market_state(database: Database, market: str | None) -> str:
    try:
        return "" if market is None else documents.get_document(database, market).content.decode()
    except NotFoundError:
        return ""


ResultT = TypeVar("ResultT")
_RELEASE_HOLDS = """
update decision set until = :at
where verdict = 'hold' and until > :at and (:by is null or until <= :by)
  and id = (select max(d.id) from decision d where d.forecast = decision.forecast)
  and (:venue is null
       or forecast in (select f.id from forecast f join question q on q.ref = f.ref where q.venue = :venue))
"""


def release_holds(database: Database, *, at: datetime, venue: str | None = None, by: datetime | None = None) -> int:
    """End temporary holds now, so that the gate decides again; return how many forecasts that affects.

    ``venue`` limits this to one venue, ``by`` to holds that end by then. Permanent holds stay.
    """
    values = {"at": format_timestamp(at), "venue": venue, "by": format_timestamp(by)}
    return database.execute(_RELEASE_HOLDS, values).rowcount


def releasing_holds(
    work: Callable[[Database], ResultT], *, at: datetime, by: datetime, venue: str | None = None
) -> Callable[[Database], ResultT]:
    """Return ``work`` followed by ``release_holds`` in the same transaction."""

    def work_and_release(database: Database) -> ResultT:
        result = work(database)
        release_holds(database, at=at, venue=venue, by=by)
        return result

    return work_and_release


_NEWER_FORECAST = """
select max(g.revision) from forecast f
join latest_forecast g on g.ref = f.ref and g.forecaster = f.forecaster and g.revision > f.revision where f.id = ?
"""
_NEWER_REVISION = "select max(revision) from latest_forecast where ref = ? and forecaster = ? and revision > ?"
# Any sale counts, filled or not: a position that should be closed must not be opened again.
_LAST_CLOSING = """
select max(planned_at) from intent
where ref = ? and account = ? and (? is null or (mode = 'paper') = ?) and order_body is not null
  and coalesce(json_extract(order_body, '$.closing'), '') <> ''
"""
_FORECAST_ORIGIN = """
select f.setup, f.version, q.version, f.forecast_only from forecast f join question q on q.ref = f.ref
where f.ref = ? and f.forecaster = ? and f.revision = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """The forecast to decide about, and its account; ``paper`` None means paper and real."""

    ref: QuestionRef
    forecaster: str
    revision: int
    account: str
    paper: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSnapshot:
    """The data around one forecast on which a decision is based.

    ``question`` is the current question, ``forecast_on`` the question at the time of the forecast.
    ``standing_intent`` is the newest intent of the question that is neither refused nor superseded. ``locked`` is the
    reason of a lock for the forecaster. ``successor`` is the newest completed later revision. ``clairvoyant``: the
    forecast was made without leak guards, regardless of the present config. ``closed_at`` is the last
    time at which a position in the question was to be closed. ``forecast_only``: the forecast is never submitted.
    """

    question: Question
    standing_intent: Intent | None
    locked: str | None
    successor: int | None
    forecast_on: Question | None = None
    clairvoyant: bool = False
    closed_at: datetime | None = None
    forecast_only: bool = False


@dataclass(frozen=True, slots=True)
class DecisionSnapshotReader:
    """Reads the snapshots on which the gate decides."""

    readers: TransactionRunner

    async def read_snapshots(self, requests: Sequence[SnapshotRequest], *, now: datetime) -> list[DecisionSnapshot]:
        """Return the snapshots in the order of the requests, all read at one moment; raises NotFoundError."""
        return await self.readers.run(lambda database: _read_snapshots(database, requests, now))


def _read_snapshots(database: Database, requests: Sequence[SnapshotRequest], now: datetime) -> list[DecisionSnapshot]:
    origins = [database.execute(_FORECAST_ORIGIN, _revision_key(one)).fetchone() for one in requests]
    clairvoyant = clairvoyant_setups(database, (row[0] for row in origins if row))
    snapshots = [_read_snapshot(database, one, now) for one in requests]
    return [
        snapshot
        if row is None
        else replace(
            snapshot,
            clairvoyant=row[0] in clairvoyant,
            forecast_on=snapshot.question if row[1] == row[2] else read_question_version(database, row[1], price=None),
            forecast_only=bool(row[3]),
        )
        for snapshot, row in zip(snapshots, origins, strict=True)
    ]


def _revision_key(request: SnapshotRequest) -> list[object]:
    return [str(request.ref), request.forecaster, request.revision]


def _read_snapshot(database: Database, request: SnapshotRequest, now: datetime) -> DecisionSnapshot:
    (successor,) = database.execute(_NEWER_REVISION, _revision_key(request)).fetchone()
    return DecisionSnapshot(
        question=read_current_question(database, request.ref),
        standing_intent=read_standing_intent(database, request.ref, request.account, paper=request.paper),
        locked=read_lock_reason(database, request.ref, request.forecaster, now=now),
        successor=successor,
        closed_at=_read_closed_at(database, request),
    )


def _read_closed_at(database: Database, request: SnapshotRequest) -> datetime | None:
    values = [str(request.ref), request.account, request.paper, request.paper]
    at: str | None = database.execute(_LAST_CLOSING, values).fetchone()[0]
    return parse_timestamp(at)
