"""Calls to models with their costs, and how the models performed.

A call is reserved at its maximum cost before it is made and settled afterwards. A call that was running when its
process died counts at its maximum cost.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlite_utils import Database

from bot.core.beliefs import ModelUsage
from bot.core.errors import MalformedDataError, NotFoundError, StoreError
from bot.core.language_models import CostAttribution, ModelPerformance
from bot.core.light_dataclass import dataclass
from bot.store.connections import LedgerReaders, TransactionRunner
from bot.store.cost_totals import (
    CostGrouping,
    CostRow,
    UnansweredCallCosts,
    count_paid_forecasts,
    forget_cost_totals,
    read_costs,
    read_unanswered_costs,
    sum_finished_days,
)
from bot.store.documents import PackedDocument, pack_written_json
from bot.store.evidence import EvidenceReader, put_evidence
from bot.store.serialization import format_timestamp, parse_timestamp, sanitize_text, to_json_list

MAX_RECENT_CALLS = 5000
# Later than all times: the first call of a process, and the first after days were summed, may be late.
_END_OF_TIME = "a"
_INSERT_RESERVATION = """
insert into model_call (id, at, scope, ref, venue, forecaster, trial, role, provider, model, request, state, worst_usd)
values (:id, :at, :scope, :ref, :venue, :forecaster, :trial, :role, :provider, :model, :request, 'reserved', :worst_usd)
on conflict do nothing
"""
_SETTLE_CALL = """
update model_call set
  state = :state, cost_usd = :cost_usd, attempts = :attempts, calls = :calls, tokens_in = :tokens_in,
  tokens_cached = :tokens_cached, tokens_out = :tokens_out, latency_s = :latency_s, finish = :finish, detail = :detail,
  answer = :answer
where id = :id and state = 'reserved' returning scope
"""
_CALL_STATE = "select state from model_call where id = ?"
RECORDED_ANSWER = (
    "select scope, answer from model_call where request = ? and state = 'done' order by at desc, rowid desc limit 1"
)
_MARK_LOST = "update model_call set state = 'lost', lost_at = ? where state = 'reserved'"
# The plus keeps SQLite from reading all calls in the order of their scopes: the calls of a day are few.
_SPENDING_SINCE = """
select scope, provider, sum(coalesce(cost_usd, worst_usd)) from model_call indexed by model_call_by_time
where at >= ? group by +scope, provider order by scope, provider
"""
SPENDING_OF_SCOPE = "select coalesce(sum(coalesce(cost_usd, worst_usd)), 0.0) from model_call where scope = ?"
# Only forecasts whose calls were all answered, and are all among the recent ones, are typical.
_TYPICAL_COST = """
with recent as (
  select scope, at, state, cost_usd, :players is null or role || ' ' || model in (
    select value from json_each(:players)) as plays from model_call
  where forecaster = :forecaster order by at desc limit :calls),
whole as (
  select sum(cost_usd) as cost_usd from recent group by scope
  having sum(state <> 'done') = 0 and sum(not plays) = 0 and count(*) = (
    select count(*) from model_call c where c.scope = recent.scope and c.forecaster = :forecaster))
select avg(cost_usd), count(*) from whole
"""
# How many calls there have ever been: none is deleted.
_COUNT_CALLS = "select coalesce(max(rowid), 0) from model_call"
# A mean of so many calls or more is found again once a twentieth of them is new: reading 5,000 calls takes 4 ms.
MIN_CALLS_OF_KEPT_MEAN = 1_000
_NEW_SHARE = 20


class CallState(StrEnum):
    """The state of a call."""

    RESERVED = "reserved"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReservation:
    """A call about to be made. ``request`` is the digest of everything that determines the answer."""

    id: str
    at: datetime
    charge: CostAttribution
    role: str
    provider: str
    model: str
    request: str
    worst_usd: float

    def __post_init__(self) -> None:
        """Refuse a maximum cost that is negative, NaN or infinite."""
        _require_amount("the maximum cost of a call", self.worst_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettlement:
    """The result of a call. ``usage.cost_usd`` is the money spent, also by a failed call.

    ``attempts`` counts the requests sent; ``answer`` is the record of the call as a serializer wrote it, None if it
    failed.
    """

    usage: ModelUsage
    attempts: int
    latency_s: float
    finish: str = ""
    detail: str = ""
    answer: str | None = None

    def __post_init__(self) -> None:
        """Refuse a cost or a latency that is negative, NaN or infinite, and a negative count of requests."""
        _require_amount("the cost of a call", self.usage.cost_usd)
        _require_amount("the latency of a call", self.latency_s)
        _require_amount("the number of requests of a call", self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeSpending:
    """US dollars spent or reserved with one provider in one scope (a forecast)."""

    scope: str
    provider: str
    cost_usd: float


@dataclass(frozen=True, slots=True)
class ModelCallStore:
    """The call log."""

    writer: TransactionRunner
    readers: LedgerReaders
    # The typical costs found last, and how many calls there were.
    _typical_costs: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[int, float | None]] = field(
        default_factory=dict
    )
    # The time of the newest call or sum of this process: a call from before it may be of a day that is summed.
    _newest: list[str] = field(default_factory=lambda: [_END_OF_TIME])

    async def reserve(self, reservation: CallReservation, documents: Sequence[tuple[str, PackedDocument]] = ()) -> None:
        """Record a call before it is made, with documents of its prompt, each with the scope to store it under.

        Raises MalformedDataError for a known id.
        """
        row = _reservation_row(reservation)
        may_be_late = row["at"] < self._newest[0]
        self._newest[0] = row["at"]
        await self.writer.run(lambda database: _insert_reservation(database, row, documents, may_be_late=may_be_late))

    async def settle(self, call: str, settlement: CallSettlement) -> str | None:
        """Record the result of a reserved call; return the digest of its answer.

        Raises NotFoundError for an unknown call, and StoreError for one that is already settled or lost.
        """
        answer = None if settlement.answer is None else await pack_written_json(settlement.answer)
        row = _settlement_row(call, settlement, answer)
        await self.writer.run(lambda database: _settle_call(database, row, answer))
        return None if answer is None else answer.digest

    async def wait_for_writes(self) -> None:
        """Return when all that was to be written before is on the disk. Raises StoreError."""
        await self.writer.run(lambda _: None)

    async def find_recorded_answer(self, request: str) -> tuple[str, str] | None:
        """Return digest and text of the newest answer to the same request."""
        rows = await self.readers.lookup_rows(RECORDED_ANSWER, [request])
        if not rows:
            return None
        ((scope, answer),) = rows
        return await self.readers.run(lambda database: _read_answer(database, scope, answer))

    async def mark_lost(self, *, at: datetime) -> int:
        """Mark every call that is still reserved as lost and return how many; only at start, when no call runs."""
        return await self.writer.run(lambda database: database.execute(_MARK_LOST, [format_timestamp(at)]).rowcount)

    async def spent(self, *, since: datetime) -> Sequence[ScopeSpending]:
        """Return the money spent or reserved by calls since then, by scope and provider."""
        return await self.readers.run(lambda database: _spending_since(database, since))

    async def spent_on(self, scope: str) -> float:
        """Return the US dollars spent or reserved on one forecast."""
        ((cost_usd,),) = await self.readers.lookup_rows(SPENDING_OF_SCOPE, [scope])
        return float(cost_usd)

    async def typical_cost(
        self, forecaster: str, *, players: Iterable[tuple[str, str]] | None = None, min_forecasts: int = 5
    ) -> float | None:
        """Return a forecaster's mean cost of one forecast in US dollars, None with fewer than ``min_forecasts``.

        Counts the forecasts among the forecaster's last 5,000 calls whose calls were all answered; with ``players``,
        pairs of a role and a model, only those that called no others.
        """
        wanted = {
            "forecaster": forecaster,
            "calls": MAX_RECENT_CALLS,
            "players": None if players is None else to_json_list(f"{role} {model}" for role, model in players),
        }
        return await self.readers.run(lambda database: _typical_cost(database, wanted, min_forecasts))

    async def estimate_typical_cost(self, forecaster: str, players: Iterable[tuple[str, str]]) -> float | None:
        """Return the typical cost as of at most a twentieth of the recent calls ago; exactly below 1,000 calls.

        It is asked for before each forecast.
        """
        ((calls,),) = await self.readers.lookup_rows(_COUNT_CALLS)
        playing = tuple(players)
        counted, mean = self._typical_costs.get((forecaster, playing), (0, None))
        is_fresh = 0 <= calls - counted < min(calls, MAX_RECENT_CALLS) / _NEW_SHARE
        if counted < MIN_CALLS_OF_KEPT_MEAN or not is_fresh:
            mean = await self.typical_cost(forecaster, players=playing)
            self._typical_costs[forecaster, playing] = (calls, mean)
        return mean

    async def costs(
        self, by: CostGrouping, *, since: datetime | None = None, limit: int | None = None
    ) -> Sequence[CostRow]:
        """Return the costs by group, most expensive first (days in order); at most ``limit`` of them."""
        return await self.readers.run(lambda database: read_costs(database, by, since, limit=limit))

    async def sum_finished_days(self, *, now: datetime) -> int:
        """Sum the costs of the days that are over and whose calls have all ended; return how many days."""
        count = await sum_finished_days(self.writer, self.readers, now=now)
        self._newest[0] = _END_OF_TIME
        return count

    async def count_forecasts(self, *, since: datetime | None = None) -> int:
        """Return how many forecasts called a model, ever or since the beginning of a day."""
        return await self.readers.run(lambda database: count_paid_forecasts(database, since))

    async def unanswered_costs(self, *, since: datetime | None = None) -> UnansweredCallCosts:
        """Return the costs of calls that were cut off or lost, or whose answer could not be read; all, or since then.

        A time is the beginning of a day.
        """
        return await self.readers.run(lambda database: read_unanswered_costs(database, since))


def _require_amount(what: str, amount: float) -> None:
    if not 0 <= amount < math.inf:
        message = f"{what} must be a finite number that is not negative, not {amount}"
        raise ValueError(message)


def _reservation_row(reservation: CallReservation) -> dict[str, Any]:
    charge = reservation.charge
    return {
        "id": reservation.id,
        "at": format_timestamp(reservation.at),
        "scope": sanitize_text(charge.scope),
        "ref": sanitize_text(charge.ref),
        "venue": sanitize_text(charge.venue),
        "forecaster": sanitize_text(charge.forecaster),
        "trial": charge.trial,
        "role": sanitize_text(reservation.role),
        "provider": sanitize_text(reservation.provider),
        "model": sanitize_text(reservation.model),
        "request": reservation.request,
        "worst_usd": float(reservation.worst_usd),
    }


def _insert_reservation(
    database: Database, row: dict[str, Any], documents: Sequence[tuple[str, PackedDocument]], *, may_be_late: bool
) -> None:
    if may_be_late:
        forget_cost_totals(database, at=row["at"])
    if not database.conn.execute(_INSERT_RESERVATION, row).rowcount:
        message = f"the call {row['id']} is already recorded; each call needs its own id"
        raise MalformedDataError(message)
    for scope, document in documents:
        put_evidence(database, document, scope)


def _settlement_row(call: str, settlement: CallSettlement, answer: PackedDocument | None) -> dict[str, Any]:
    usage = settlement.usage
    return {
        "id": call,
        "state": (CallState.FAILED if answer is None else CallState.DONE).value,
        "cost_usd": float(usage.cost_usd),
        "attempts": settlement.attempts,
        "calls": usage.calls,
        "tokens_in": usage.tokens_in,
        # Cached tokens are part of the input tokens, even if a provider reports more; the answer keeps its report.
        "tokens_cached": min(usage.tokens_cached, usage.tokens_in),
        "tokens_out": usage.tokens_out,
        "latency_s": float(settlement.latency_s),
        "finish": sanitize_text(settlement.finish),
        "detail": sanitize_text(settlement.detail),
        "answer": None if answer is None else answer.digest,
    }


def _settle_call(database: Database, row: dict[str, Any], answer: PackedDocument | None) -> None:
    settled = database.conn.execute(_SETTLE_CALL, row).fetchone()
    if settled is not None:
        if answer is not None:
            put_evidence(database, answer, settled[0])
        return
    found = database.execute(_CALL_STATE, [row["id"]]).fetchone()
    if found is None:
        message = f"no call {row['id']} in the ledger; reserve a call before it is made"
        raise NotFoundError(message)
    message = f"the call {row['id']} is {found[0]} and cannot be settled again"
    raise StoreError(message)


def _read_answer(database: Database, scope: str, answer: str) -> tuple[str, str] | None:
    try:
        return answer, EvidenceReader(database, scope).text(answer)
    except NotFoundError:
        return None  # pruned


def _spending_since(database: Database, since: datetime) -> tuple[ScopeSpending, ...]:
    return tuple(
        ScopeSpending(scope=scope, provider=provider, cost_usd=cost_usd)
        for scope, provider, cost_usd in database.execute(_SPENDING_SINCE, [format_timestamp(since)])
    )


def _typical_cost(database: Database, wanted: dict[str, Any], min_forecasts: int) -> float | None:
    mean, count = database.execute(_TYPICAL_COST, wanted).fetchone()
    return None if mean is None or count < min_forecasts else float(mean)


# In the order of ``_performance_from_row``.
_PERFORMANCE_COLUMNS = (
    "role, model, asked, unparsed, submitted, ended_at_half, submission_gap, beliefs, unread_beliefs, errors"
)
_INSERT_PERFORMANCE = f"""
insert into model_performance (scope, trial, at, {_PERFORMANCE_COLUMNS})
values (:scope, :trial, :at, {", ".join(f":{name}" for name in _PERFORMANCE_COLUMNS.split(", "))})
on conflict do nothing
"""  # noqa: S608 - made of constants
_RECENT_TRIALS = f"""
select {_PERFORMANCE_COLUMNS} from model_performance
where model = :model and (:role is null or role = :role) and at > :after order by at desc, id desc limit :limit
"""  # noqa: S608 - made of constants
# Grouped by forecaster, which the calls of the scope name.
_RECENT_BY_FORECASTER = f"""
with latest as (
  select m.*, coalesce((select c.forecaster from model_call c where c.scope = m.scope limit 1), '') as who
  from model_performance m where at > :after order by id desc limit :rows),
numbered as (
  select *, row_number() over (partition by who, role, model order by at desc, id desc) as nth from latest)
select who, {_PERFORMANCE_COLUMNS} from numbered where nth <= :limit order by who, role, model, nth
"""  # noqa: S608 - made of constants
# Trials are grouped by question, across its forecasts. A scope without a call through the gateway is its own group.
_SHARES_ENDED_AT_HALF = """
with recent as (
  select id, at, ended_at_half,
         coalesce((select ref from model_call c where c.scope = m.scope limit 1), scope) as question
  from model_performance m where model = :model and role = :role and at > :after order by at desc, id desc limit :rows)
select avg(ended_at_half) from recent group by question order by max(at) desc, max(id) desc limit :limit
"""
# Limits on the rows that the queries of recent trials read.
MAX_HALF_ROWS = 2000
MAX_RECENT_ROWS = 10_000
_SELECT_MODELS = "select distinct model from model_performance order by model"
_INSERT_DEMOTION = "insert into demotion (model, role, at, until, why) values (:model, :role, :at, :until, :why)"
_ACTIVE_DEMOTIONS = "select model, role, at, until, why from demotion where until > ? order by at, id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDemotion:
    """A model that its fallback replaces in a role until a time; an empty role means all roles."""

    model: str
    at: datetime
    until: datetime
    why: str
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentModelPerformance:
    """The performance of a model in a role in the last trials of a forecaster, newest first."""

    forecaster: str
    role: str
    model: str
    trials: tuple[ModelPerformance, ...]


@dataclass(frozen=True, slots=True)
class ModelPerformanceStore:
    """The performance of models in trials, and their demotions."""

    writer: TransactionRunner
    readers: LedgerReaders

    async def add(self, performance: ModelPerformance, *, scope: str, trial: int, at: datetime) -> None:
        """Record the performance of a model in a role of a trial; the first record of a trial is kept.

        A trial that resumes after a kill grades its model a second time.
        """
        row = {
            "scope": scope,
            "trial": trial,
            "role": sanitize_text(performance.role),
            "model": sanitize_text(performance.model),
            "at": format_timestamp(at),
            "asked": performance.asked,
            "unparsed": performance.unparsed,
            "submitted": performance.submitted,
            "ended_at_half": performance.ended_at_half,
            "submission_gap": performance.submission_gap,
            "beliefs": performance.beliefs,
            "unread_beliefs": performance.unread_beliefs,
            "errors": performance.errors,
        }
        await self.writer.run(lambda database: _execute_row(database, _INSERT_PERFORMANCE, row))

    async def recent(
        self, model: str, *, limit: int, after: datetime | None = None, role: str | None = None
    ) -> Sequence[ModelPerformance]:
        """Return the last performances of a model, newest first; only those after a time and in a role, if given."""
        since = "" if after is None else format_timestamp(after)
        wanted: dict[str, object] = {"model": model, "role": role, "limit": limit, "after": since}
        return tuple(_performance_from_row(*row) for row in await self.readers.lookup_rows(_RECENT_TRIALS, wanted))

    async def latest(self, *, limit: int, after: datetime) -> Sequence[RecentModelPerformance]:
        """Return for each forecaster, role and model its last trials after a time, at most ``limit`` of each."""
        wanted: dict[str, object] = {"limit": limit, "after": format_timestamp(after), "rows": MAX_RECENT_ROWS}
        return await self.readers.run(lambda database: _recent_by_forecaster(database, wanted))

    async def shares_ended_at_half(
        self, model: str, *, role: str, limit: int, after: datetime | None = None
    ) -> Sequence[float]:
        """Return for each of the last questions of a model in a role, newest first, the share of trials ended at 0.5.

        Counts only trials graded after ``after``, if given.
        """
        since = "" if after is None else format_timestamp(after)
        wanted = {"model": model, "role": role, "limit": limit, "after": since, "rows": MAX_HALF_ROWS}
        return await self.readers.run(
            lambda database: tuple(float(share) for (share,) in database.execute(_SHARES_ENDED_AT_HALF, wanted))
        )

    async def demote(self, demotion: ModelDemotion) -> None:
        """Record that a model is replaced for a while."""
        row = {
            "model": sanitize_text(demotion.model),
            "role": sanitize_text(demotion.role),
            "at": format_timestamp(demotion.at),
            "until": format_timestamp(demotion.until),
            "why": sanitize_text(demotion.why),
        }
        await self.writer.run(lambda database: _execute_row(database, _INSERT_DEMOTION, row))

    async def demotions(self, *, now: datetime) -> Sequence[ModelDemotion]:
        """Return the active demotions, the latest of each model and role."""
        return await self.readers.run(lambda database: _active_demotions(database, now))

    async def models(self) -> Sequence[str]:
        """Return every model with a recorded performance."""
        return await self.readers.run(lambda database: tuple(model for (model,) in database.execute(_SELECT_MODELS)))


def _execute_row(database: Database, statement: str, row: Mapping[str, Any]) -> None:
    database.execute(statement, dict(row))


def _recent_by_forecaster(database: Database, wanted: dict[str, object]) -> tuple[RecentModelPerformance, ...]:
    found: dict[tuple[str, str, str], list[ModelPerformance]] = {}
    for who, *row in database.execute(_RECENT_BY_FORECASTER, wanted):
        performance = _performance_from_row(*row)
        found.setdefault((who, performance.role, performance.model), []).append(performance)
    return tuple(
        RecentModelPerformance(forecaster=who, role=role, model=model, trials=tuple(performances))
        for (who, role, model), performances in found.items()
    )


# The newest trials are read again after each trial.
@lru_cache(maxsize=1024)
def _performance_from_row(role: str, model: str, *columns: Any) -> ModelPerformance:  # noqa: ANN401 - a database row
    asked, unparsed, submitted, ended_at_half, submission_gap, beliefs, unread_beliefs, errors = columns
    return ModelPerformance(
        role=role,
        model=model,
        asked=asked,
        unparsed=unparsed,
        submitted=None if submitted is None else bool(submitted),
        ended_at_half=bool(ended_at_half),
        submission_gap=submission_gap,
        beliefs=beliefs,
        unread_beliefs=unread_beliefs,
        errors=errors,
    )


def _active_demotions(database: Database, now: datetime) -> tuple[ModelDemotion, ...]:
    # Oldest first, so that the latest of each model and role is the one that the mapping keeps.
    found = [_demotion_from_row(*row) for row in database.execute(_ACTIVE_DEMOTIONS, [format_timestamp(now)])]
    latest = {(demotion.model, demotion.role): demotion for demotion in found}
    return tuple(latest[key] for key in sorted(latest))


def _demotion_from_row(model: str, role: str, at: str, until: str, why: str) -> ModelDemotion:
    return ModelDemotion(model=model, role=role, at=parse_timestamp(at), until=parse_timestamp(until), why=why)
