"""When each question is due for which forecaster, who leases it now, and which questions are locked.

An expired lease counts as returned, unless its owner still works on it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Protocol

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.core.questions import QuestionRef
from bot.store.connections import TransactionRunner
from bot.store.event_log import add_event
from bot.store.serialization import format_timestamp, parse_timestamp, sanitize_text, to_json_list

_CROWDED_AT = 2_000
# A postponed entry stays postponed: a new reason makes it due at ``not_before`` at the earliest. An entry that was
# planned before the newest forecast is ignored.
_PLAN_ENTRY = """
insert into schedule (ref, forecaster, due_at, why, closes_at, forecast_only)
values (:ref, :forecaster, :due_at, :why, :closes_at, :forecast_only)
on conflict (ref, forecaster) do update set
  due_at = max(excluded.due_at, coalesce(not_before, excluded.due_at)), why = excluded.why,
  forecast_only = excluded.forecast_only
where owner is null
  and (select made_at from latest_forecast f where f.ref = schedule.ref and f.forecaster = schedule.forecaster)
      is :answered_at
  and (due_at is null or max(excluded.due_at, coalesce(not_before, excluded.due_at)) < due_at)
"""
_SUBMIT_LOOKS = (
    "update schedule set forecast_only = 0 where ref = :ref and forecaster = :forecaster and due_at is not null",
    "update forecast set forecast_only = 0 where ref = :ref and forecaster = :forecaster and state = 'running'",
)
_RETURN_EXPIRED = """
update schedule set owner = null, leased_until = null
where leased_until <= :now and owner is not null and (owner <> :owner or not :at_work)
"""
_IS_UNLOCKED = """not exists (select 1 from lock k where k.ref = s.ref and k.forecaster in ('', s.forecaster)
  and (k.until is null or k.until > :now))"""
_IS_DUE = f"s.owner is null and s.due_at is not null and s.due_at <= :now and {_IS_UNLOCKED}"
_IS_NOT_SKIPPED = "s.forecaster not in (select value from json_each(:skipped))"
# A forecaster waits for its members while they are due, or at work, on the same question; :members lists such pairs.
# Where there are none, opening the list for each row would take two thirds of the time of a claim.
_IS_NOT_WAITING = """(:members = '[]' or not exists (select 1 from json_each(:members) pair
  join schedule b on b.ref = s.ref and b.forecaster = json_extract(pair.value, '$[1]')
  where json_extract(pair.value, '$[0]') = s.forecaster and (b.owner is not null or b.due_at <= :now)
    and b.forecaster not in (select value from json_each(:skipped))
    and not exists (select 1 from lock k where k.ref = b.ref and k.forecaster in ('', b.forecaster)
      and (k.until is null or k.until > :now))))"""
_IS_CLAIMABLE = f"{_IS_DUE} and {_IS_NOT_SKIPPED} and {_IS_NOT_WAITING}"
_DUE_BY_FORECASTER = f"select s.forecaster, count(*) from schedule s where {_IS_DUE} group by s.forecaster"  # noqa: S608 - constants
_COUNT_DUE = """
select count(*) from (
  select 1 from schedule where owner is null and due_at is not null and due_at <= :now limit :crowded)
"""
# Few are due: find them by due time and sort. Many are due: walk them in the order of closing and stop early.
_BY_DUE = "schedule s indexed by schedule_by_due"
_BY_CLOSE = "schedule s indexed by schedule_by_close"
_WINDOWS = (
    "s.closes_at > :now order by s.closes_at, s.due_at",
    "s.closes_at is null order by s.due_at",
    "s.closes_at <= :now order by s.closes_at, s.due_at",
)
_CLAIMABLE = tuple(
    {
        rows: f"select s.ref, s.forecaster from {rows} where {_IS_CLAIMABLE} and {window} limit :limit"  # noqa: S608 - constants
        for rows in (_BY_DUE, _BY_CLOSE)
    }
    for window in _WINDOWS
)
# Those of some pairs of a question and a forecaster, found by the primary key.
_CLAIMABLE_AMONG = f"""
select s.ref, s.forecaster from json_each(:among) pair cross join schedule s
  on s.ref = json_extract(pair.value, '$[0]') and s.forecaster = json_extract(pair.value, '$[1]')
where {_IS_CLAIMABLE} order by s.due_at limit :limit
"""  # noqa: S608 - constants
_TAKE_LEASE = """
update schedule set owner = :owner, leased_until = :until, attempt = attempt + 1
where ref = :ref and forecaster = :forecaster
returning why, closes_at, attempt, forecast_only
"""
_POSTPONE = """
update schedule set due_at = :until, not_before = :until, why = :why, owner = null, leased_until = null
where ref = :ref and forecaster = :forecaster and leased_until = :leased_until
"""
_COMPLETE_ENTRY = """
update schedule set due_at = :due_at, not_before = null, why = :why, attempt = 0, owner = null, leased_until = null,
                    answered_at = coalesce(answered_at, :made_at), forecast_only = 0
where ref = :ref and forecaster = :forecaster
"""
_COMPLETE_FORECAST_ONLY_ENTRY = """
update schedule set due_at = :due_at, not_before = null, why = :why, attempt = 0, owner = null, leased_until = null,
                    forecast_only = 0
where ref = :ref and forecaster = :forecaster and forecast_only = 1
"""
# The policy does not move entries that were postponed, requested or changed, and gives a resolved question no due time.
# From what is planned and open, never from the forecasts, which are many.
_IS_MOVABLE = "s.owner is null and s.not_before is null and s.forecast_only = 0"
_IS_WITHOUT_DUE = "s.due_at is null and (q.as_of is not null or q.resolved = 0)"
_SCHEDULED_COLUMNS = "select s.ref, s.forecaster, s.due_at, f.made_at, q.closes_at, q.as_of"
_ITS_FORECAST = "cross join latest_forecast f on f.ref = s.ref and f.forecaster = s.forecaster"
_SELECT_SCHEDULED = f"""
{_SCHEDULED_COLUMNS} from schedule s indexed by schedule_by_due cross join question q on q.ref = s.ref {_ITS_FORECAST}
where {_IS_MOVABLE} and s.due_at > :now and (s.why like :first or s.why like :second)
union all
{_SCHEDULED_COLUMNS} from question q indexed by question_by_close cross join schedule s on s.ref = q.ref {_ITS_FORECAST}
where {_IS_MOVABLE} and {_IS_WITHOUT_DUE} and q.closes_at > :now
union all
{_SCHEDULED_COLUMNS} from question q indexed by question_by_close cross join schedule s on s.ref = q.ref {_ITS_FORECAST}
where {_IS_MOVABLE} and {_IS_WITHOUT_DUE} and q.closes_at is null
"""
_MOVE_DUE = """
update schedule set due_at = :due_at, why = :why
where ref = :ref and forecaster = :forecaster and owner is null and due_at is :before
"""
# An answer that stands is not renewed for a window that has closed, or for a question that has resolved before that:
# nothing would be submitted or scored. What was postponed has the reason of that, whatever it was planned for.
_END_RENEWALS = """
update schedule indexed by schedule_by_due set due_at = null
where owner is null and due_at <= :now and answered_at is not null and forecast_only = 0
  and (not_before is not null or exists (select 1 from json_each(:reasons) r where schedule.why like r.value))
  and exists (select 1 from question q where q.ref = schedule.ref
              and (q.closes_at <= :now or q.as_of is null and q.resolved = 1))
"""
_FREE_LEASES = """
update schedule set owner = null, leased_until = null
where owner is not null and (:owner is null or owner <> :owner or leased_until <= :now)
"""
_SELECT_LEASES = "select leased_until, ref, forecaster from schedule where owner is not null"
_MOVE_LEASE = "update schedule set leased_until = ? where ref = ? and forecaster = ?"
_UPSERT_LOCK = """
insert into lock (ref, forecaster, reason, locked_at, until)
values (:ref, :forecaster, :reason, :now, :until)
on conflict (ref, forecaster) do update set reason = excluded.reason, locked_at = excluded.locked_at,
                                            until = excluded.until
"""
_DELETE_LOCK = "delete from lock where ref = :ref and forecaster = :forecaster"
_SELECT_LOCKS = (
    "select ref, forecaster, reason, until from lock where until is null or until > ? order by ref, forecaster"
)
_SELECT_LOCK_REASON = """
select reason from lock
where ref = :ref and forecaster in ('', :forecaster) and (until is null or until > :now) order by forecaster limit 1
"""
_CLOSE_WINDOWS = """
update schedule set window = case
  when answered_at <= closes_at then 'met'
  when exists (select 1 from question q where q.ref = schedule.ref and q.first_seen_at < schedule.closes_at)
    then 'missed'
  else 'past' end
where window = 'open' and closes_at <= :now
returning ref, forecaster, closes_at, window
"""
_COUNT_ENTRIES = f"""
select (select count(*) from schedule where owner is not null), due.count - due.locked, due.locked,
       (select count(*) from schedule where owner is null and due_at > :now)
from (select count(*) as count, coalesce(sum(not ({_IS_UNLOCKED})), 0) as locked from schedule s
      where s.owner is null and s.due_at <= :now) due
"""  # noqa: S608 - made of constants
# A forecast counts once the gate has decided about it: before that there is no intent to send.
_COUNT_BATCH = """
with wanted as (
  select q.ref, coalesce((select value from json_each(:others) o where o.key = q.ref), :forecaster) as forecaster
  from question q where q.venue = :venue and q.batch = :batch)
select count(*), coalesce(sum(busy), 0), coalesce(sum(unforecast), 0), coalesce(sum(unforecast and due), 0) from (
  select s.owner is not null as busy,
         s.owner is null and s.due_at <= :now or exists (
           select 1 from forecast f where f.ref = w.ref and f.forecaster = w.forecaster and f.state = 'done'
                                       and f.forecast_only = 0) as due,
         not exists (select 1 from forecast f where f.ref = w.ref and f.forecaster = w.forecaster
                                                and f.decided_at is not null and f.forecast_only = 0)
         and not exists (select 1 from lock k where k.ref = w.ref and k.forecaster in ('', w.forecaster)
                                                and (k.until is null or k.until > :now)) as unforecast
  from wanted w left join schedule s on s.ref = w.ref and s.forecaster = w.forecaster)
"""
ALL_FORECASTERS = ""
MISSED_WINDOW_EVENT = "missed window"
NO_OTHER_FORECASTERS: Mapping[str, str] = MappingProxyType({})


class NextDueTime(Protocol):
    """When something is due again, and why."""

    @property
    def at(self) -> datetime:
        """The time, with a time zone."""
        ...

    @property
    def why(self) -> str:
        """The reason, for people."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DueEntry:
    """A question that should be due for a forecaster at ``due_at``.

    ``answered_at`` is the time of the last forecast that the planner knows: the entry is ignored if there is a newer
    one, so that planning and forecasting at the same time never forecast twice. ``forecast_only``: the forecast is not
    submitted.
    """

    ref: QuestionRef
    forecaster: str
    due_at: datetime
    why: str
    closes_at: datetime | None = None
    answered_at: datetime | None = None
    forecast_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastLease:
    """A due question leased until ``leased_until``; ``attempt`` counts from 1 since the last completed forecast.

    ``forecast_only``: the forecast is never submitted.
    """

    ref: QuestionRef
    forecaster: str
    why: str
    closes_at: datetime | None
    attempt: int
    leased_until: datetime
    forecast_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLock:
    """A question that one forecaster, or all (None), must not forecast; ``until`` None means until unlocked."""

    ref: QuestionRef
    forecaster: str | None
    reason: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedWindow:
    """A question whose window closed before it was forecast."""

    ref: QuestionRef
    forecaster: str
    closes_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCounts:
    """How many entries are due, leased, due but locked, and not due yet."""

    due: int
    leased: int
    locked: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoad:
    """What a batch of ``questions`` waits for: ``busy`` ones at work, and ``unforecast`` ones without a lock.

    ``waiting`` counts the unforecast ones that are due, or whose forecast has no decision yet; the others are at work
    or postponed.
    """

    questions: int
    busy: int
    unforecast: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledForecast:
    """A question with a forecast and its next due time; ``due_at`` is None if it is not due again."""

    ref: QuestionRef
    forecaster: str
    due_at: datetime | None
    made_at: datetime
    closes_at: datetime | None
    as_of: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeaseRequest:
    """The values of a claim; ``skipped``, ``members`` and ``among`` are JSON."""

    now: str
    owner: str
    until: datetime
    limit: int
    skipped: str
    members: str
    at_work: bool
    among: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleStore:
    """Due times, leases and locks of questions."""

    writer: TransactionRunner
    readers: TransactionRunner

    async def plan(self, entries: Sequence[DueEntry]) -> int:
        """Add new entries and bring forward those due earlier that are not leased; return how many."""
        rows = [_due_entry_row(entry) for entry in entries]
        return await self.writer.run(lambda database: _plan_entries(database, rows))

    async def submit_looks(self, entries: Sequence[DueEntry]) -> None:
        """Let forecasts that were only wanted to be seen be submitted: those that run, wait or were postponed."""
        rows = [_due_entry_row(entry) for entry in entries]
        await self.writer.run(lambda database: [database.conn.executemany(sql, rows) for sql in _SUBMIT_LOOKS])

    async def claim(
        self,
        *,
        now: datetime,
        owner: str,
        lease: timedelta,
        limit: int,
        skipped: Collection[str] = (),
        members: Collection[tuple[str, str]] = (),
        at_work: bool = False,
        among: Collection[tuple[QuestionRef, str]] | None = None,
    ) -> list[ForecastLease]:
        """Lease up to ``limit`` due and unlocked entries: open windows first, soonest close first.

        ``skipped`` names forecasters to pass over. ``members`` holds pairs of a forecaster and one that it builds on:
        it waits while that one is due, or at work, on the same question, unless that one is locked or skipped.
        ``at_work``: the owner still works on what it leased, so none of that expires, whatever the clock says.
        ``among``: only these questions of these forecasters.
        """
        request = _LeaseRequest(
            now=format_timestamp(now),
            owner=owner,
            until=now + lease,
            limit=limit,
            skipped=to_json_list(skipped),
            members=json.dumps([*map(list, members)]),
            at_work=at_work,
            among=None if among is None else json.dumps([(str(ref), forecaster) for ref, forecaster in among]),
        )
        return await self.writer.run(lambda database: _lease_due(database, request))

    async def count_due(self, now: datetime) -> Mapping[str, int]:
        """Return how many questions are due for each forecaster."""
        return await self.readers.run(
            lambda database: dict(database.execute(_DUE_BY_FORECASTER, {"now": format_timestamp(now)}).fetchall())
        )

    async def postpone(self, claim: ForecastLease, *, until: datetime | None, why: str) -> None:
        """Return a lease; the question is not due before ``until``, None: not at all. Without effect if it was lost.

        What was never to be submitted is tried again as such.
        """
        await self.writer.run(lambda database: postpone_schedule_entry(database, claim, until=until, why=why))

    async def end_renewals(self, *, reasons: Collection[str], now: datetime) -> int:
        """End what was postponed, or is due for one of the reasons (SQL patterns), of what has closed or resolved.

        Return how many.
        """
        values = {"reasons": to_json_list(reasons), "now": format_timestamp(now)}
        return await self.writer.run(lambda database: _execute_count(database, _END_RENEWALS, values))

    async def free_leases(self, *, owner_not: str | None, now: datetime) -> int:
        """End all leases except the current ones of ``owner_not``; return how many."""
        values = {"owner": owner_not, "now": format_timestamp(now)}
        return await self.writer.run(lambda database: _execute_count(database, _FREE_LEASES, values))

    async def scheduled(self, *, reasons: tuple[str, str], now: datetime) -> list[ScheduledForecast]:
        """Return entries due later for one of the reasons (SQL patterns), and open ones without a due time."""
        values = {"now": format_timestamp(now), "first": reasons[0], "second": reasons[1]}
        return await self.readers.run(lambda database: _list_scheduled(database, values))

    async def move(self, moves: Sequence[tuple[ScheduledForecast, NextDueTime]]) -> int:
        """Change the due times of these entries unless they changed meanwhile; return how many."""
        return await self.writer.run(lambda database: _move_due(database, moves))

    async def move_leases(self, by: timedelta) -> int:
        """Shift the end of each lease after the wall clock was set; return how many there are.

        The holder can still complete the forecast, but not return the lease before its end.
        """
        return await self.writer.run(lambda database: _move_leases(database, by))

    async def lock(
        self, ref: QuestionRef, *, forecaster: str | None, reason: str, until: datetime | None, now: datetime
    ) -> None:
        """Lock a question for a forecaster, or for all (None); replaces an earlier lock of both."""
        values = {
            "ref": str(ref),
            "forecaster": forecaster or ALL_FORECASTERS,
            "reason": sanitize_text(reason),
            "until": format_timestamp(until),
            "now": format_timestamp(now),
        }
        await self.writer.run(lambda database: _execute_count(database, _UPSERT_LOCK, values))

    async def unlock(self, ref: QuestionRef, *, forecaster: str | None) -> bool:
        """Remove the lock of this question and forecaster; return whether there was one."""
        values = {"ref": str(ref), "forecaster": forecaster or ALL_FORECASTERS}
        return await self.writer.run(lambda database: _execute_count(database, _DELETE_LOCK, values)) > 0

    async def locks(self, now: datetime) -> list[QuestionLock]:
        """Return the active locks."""
        return await self.readers.run(
            lambda database: [_lock_from_row(*row) for row in database.execute(_SELECT_LOCKS, [format_timestamp(now)])]
        )

    async def missed(self, now: datetime) -> list[MissedWindow]:
        """Return the questions whose window closed without a forecast, each once, and record an event for each.

        Questions that were found after their close do not count.
        """
        return await self.writer.run(lambda database: _record_missed(database, now))

    async def counts(self, now: datetime) -> ScheduleCounts:
        """Return the counts of the schedule."""
        leased, due, locked, waiting = await self.readers.run(
            lambda database: database.execute(_COUNT_ENTRIES, {"now": format_timestamp(now)}).fetchone()
        )
        return ScheduleCounts(due=due, leased=leased, locked=locked, waiting=waiting)

    async def read_batch_load(
        self,
        venue: str,
        batch: str,
        forecaster: str,
        *,
        now: datetime,
        others: Mapping[str, str] = NO_OTHER_FORECASTERS,
    ) -> BatchLoad:
        """Return what a batch still waits for from a forecaster; it does not wait for locked questions.

        ``others`` maps references of questions to their forecaster where it is another one.
        """
        values = {"venue": venue, "batch": batch, "forecaster": forecaster, "now": format_timestamp(now)}
        values["others"] = json.dumps(dict(others))
        questions, busy, unforecast, waiting = await self.readers.run(
            lambda database: database.execute(_COUNT_BATCH, values).fetchone()
        )
        return BatchLoad(questions=questions, busy=busy, unforecast=unforecast, waiting=waiting)


def complete_schedule_entry(
    database: Database, ref: QuestionRef, forecaster: str, made_at: datetime | None, following: NextDueTime | None
) -> None:
    """Mark a question as forecast and set its next due time, within the transaction that completes the forecast.

    ``made_at`` is None for a forecast that is not submitted: it only ends the entry that requested it.
    """
    values = {
        "ref": str(ref),
        "forecaster": forecaster,
        "made_at": format_timestamp(made_at),
        "due_at": None if following is None else format_timestamp(following.at),
        "why": "forecast made" if following is None else sanitize_text(following.why),
    }
    database.execute(_COMPLETE_FORECAST_ONLY_ENTRY if made_at is None else _COMPLETE_ENTRY, values)


def postpone_schedule_entry(database: Database, claim: ForecastLease, *, until: datetime | None, why: str) -> None:
    """Return a lease, within a transaction; without effect if the lease was lost."""
    values = {**_lease_key(claim), "until": format_timestamp(until), "why": sanitize_text(why)}
    _execute_count(database, _POSTPONE, values)


def _execute_count(database: Database, sql: str, values: dict[str, Any]) -> int:
    return database.execute(sql, values).rowcount


def _due_entry_row(entry: DueEntry) -> dict[str, Any]:
    return {
        "ref": str(entry.ref),
        "forecaster": entry.forecaster,
        "due_at": format_timestamp(entry.due_at),
        "why": sanitize_text(entry.why),
        "closes_at": format_timestamp(entry.closes_at),
        "answered_at": format_timestamp(entry.answered_at),
        "forecast_only": entry.forecast_only,
    }


def _plan_entries(database: Database, rows: Sequence[Mapping[str, Any]]) -> int:
    return max(database.conn.executemany(_PLAN_ENTRY, rows).rowcount, 0)


def _lease_due(database: Database, request: _LeaseRequest) -> list[ForecastLease]:
    database.execute(_RETURN_EXPIRED, {"now": request.now, "owner": request.owner, "at_work": request.at_work})
    claims: list[ForecastLease] = []
    for query in (_CLAIMABLE_AMONG,) if request.among is not None else _claim_queries(database, request.now):
        values = {
            "now": request.now,
            "limit": request.limit - len(claims),
            "skipped": request.skipped,
            "members": request.members,
            "among": request.among,
        }
        rows = database.execute(query, values).fetchall()
        claims += [_take_lease(database, ref, forecaster, request) for ref, forecaster in rows]
    return claims


def _claim_queries(database: Database, now: str) -> Sequence[str]:
    (due,) = database.execute(_COUNT_DUE, {"now": now, "crowded": _CROWDED_AT}).fetchone()
    index = _BY_CLOSE if due == _CROWDED_AT else _BY_DUE
    return [window[index] for window in _CLAIMABLE]


def _take_lease(database: Database, ref: str, forecaster: str, request: _LeaseRequest) -> ForecastLease:
    values = {"ref": ref, "forecaster": forecaster, "owner": request.owner, "until": format_timestamp(request.until)}
    ((why, closes_at, attempt, forecast_only),) = database.execute(_TAKE_LEASE, values).fetchall()
    return ForecastLease(
        ref=QuestionRef.parse(ref),
        forecaster=forecaster,
        why=why,
        closes_at=parse_timestamp(closes_at),
        attempt=attempt,
        leased_until=request.until,
        forecast_only=bool(forecast_only),
    )


def _list_scheduled(database: Database, values: Mapping[str, str | None]) -> list[ScheduledForecast]:
    return [
        ScheduledForecast(
            ref=QuestionRef.parse(ref),
            forecaster=forecaster,
            due_at=parse_timestamp(due_at),
            made_at=parse_timestamp(made_at),
            closes_at=parse_timestamp(closes_at),
            as_of=parse_timestamp(as_of),
        )
        for ref, forecaster, due_at, made_at, closes_at, as_of in database.execute(_SELECT_SCHEDULED, dict(values))
    ]


def _move_due(database: Database, moves: Sequence[tuple[ScheduledForecast, NextDueTime]]) -> int:
    rows = [
        {
            "ref": str(one.ref),
            "forecaster": one.forecaster,
            "before": format_timestamp(one.due_at),
            "due_at": format_timestamp(following.at),
            "why": sanitize_text(following.why),
        }
        for one, following in moves
    ]
    return max(database.conn.executemany(_MOVE_DUE, rows).rowcount, 0)


def _lease_key(claim: ForecastLease) -> dict[str, str]:
    return {"ref": str(claim.ref), "forecaster": claim.forecaster, "leased_until": format_timestamp(claim.leased_until)}


def _move_leases(database: Database, by: timedelta) -> int:
    leases = database.execute(_SELECT_LEASES).fetchall()
    moved = [(format_timestamp(parse_timestamp(until) + by), ref, forecaster) for until, ref, forecaster in leases]
    database.conn.executemany(_MOVE_LEASE, moved)
    return len(moved)


def _lock_from_row(ref: str, forecaster: str, reason: str, until: str | None) -> QuestionLock:
    return QuestionLock(
        ref=QuestionRef.parse(ref), forecaster=forecaster or None, reason=reason, until=parse_timestamp(until)
    )


def read_lock_reason(database: Database, ref: QuestionRef, forecaster: str, *, now: datetime) -> str | None:
    """Return why the question is locked now, for all or for this forecaster; None if it is not."""
    values = {"ref": str(ref), "forecaster": forecaster, "now": format_timestamp(now)}
    row = database.execute(_SELECT_LOCK_REASON, values).fetchone()
    return None if row is None else str(row[0])


def _record_missed(database: Database, now: datetime) -> list[MissedWindow]:
    closed = database.execute(_CLOSE_WINDOWS, {"now": format_timestamp(now)}).fetchall()
    missed = [
        MissedWindow(ref=QuestionRef.parse(ref), forecaster=forecaster, closes_at=datetime.fromisoformat(closes_at))
        for ref, forecaster, closes_at, window in closed
        if window == "missed"
    ]
    for miss in missed:
        add_event(
            database, MISSED_WINDOW_EVENT, f"{miss.ref}: no forecast of {miss.forecaster} by {miss.closes_at}", now
        )
    return sorted(missed, key=lambda miss: (miss.closes_at, miss.ref, miss.forecaster))
