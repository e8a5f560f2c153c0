"""Costs of model calls by day, summed once a day is over: reports read no calls but those of the last days.

A call of a finished day changes no more, so nothing is kept up as calls are made. The days that are summed come one
after the other without a gap; what is newer is read from the calls with the same statements. A call that arrives late,
because the clock was set back, deletes the sums from its day on, and they are made again.
"""

# ruff: noqa: S608 - statements made of the constants below

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Any

from sqlite_utils import Database

from bot.core.beliefs import ModelUsage
from bot.core.light_dataclass import dataclass
from bot.store.connections import TransactionRunner
from bot.store.serialization import format_timestamp

# So long after its end a day gets no more calls: they have the time at which they were asked for.
SETTLED_AFTER = timedelta(hours=1)
# So many days are summed in one write, where a ledger has years of them.
_DAYS_A_WRITE = timedelta(days=31)
_SUMS = (
    *("calls", "answered", "failed", "attempts", "asked", "tokens_in", "tokens_cached", "tokens_out", "unanswered"),
    *("cost_usd", "latency_s", "unanswered_usd"),
)
COST_TOTAL_TABLES = (
    """create table cost_day (
  day text not null,
  venue text not null,
  forecaster text not null,
  role text not null,
  model text not null,
  calls integer not null,
  answered integer not null,
  failed integer not null,
  attempts integer not null,
  asked integer not null,
  tokens_in integer not null,
  tokens_cached integer not null,
  tokens_out integer not null,
  unanswered integer not null,
  cost_usd real not null,
  latency_s real not null,
  unanswered_usd real not null,
  primary key (day, venue, forecaster, role, model)
) strict, without rowid
""",
    # A forecast counts on each of its days, with the day before on which it called something of the same name: without
    # those that did so since the first day of a report, each counts once.
    """create table cost_forecasts (
  day text not null,
  grouping text not null,
  name text not null,
  previous_day text not null,
  forecasts integer not null,
  primary key (day, grouping, name, previous_day)
) strict, without rowid
""",
)
_MODEL = "case when instr(model, provider || ':') = 1 then model else provider || ':' || model end"
_COST = "coalesce(cost_usd, worst_usd)"
# A failed call costs something only if the provider may have worked on it.
_MAY_BE_BILLED = "(state = 'lost' or (state = 'failed' and cost_usd > 0))"
_SUM_CALLS = f"""
select substr(at, 1, 10) as day, venue, forecaster, role, {_MODEL} as model,
       count(*) as calls, sum(state = 'done') as answered, sum(state in ('failed', 'lost')) as failed,
       sum(attempts) as attempts, sum(calls) as asked, sum(tokens_in) as tokens_in,
       sum(tokens_cached) as tokens_cached, sum(tokens_out) as tokens_out, sum({_MAY_BE_BILLED}) as unanswered,
       total({_COST}) as cost_usd, total(latency_s) filter (where state = 'done') as latency_s,
       total({_COST}) filter (where {_MAY_BE_BILLED}) as unanswered_usd
from model_call indexed by model_call_by_time where at >= :begin and at < :end
group by 1, 2, 3, 4, 5
"""
_GROUPINGS = ("venue", "forecaster", "role", "model")
_COUNT_FORECASTS = f"""
with called as materialized (
  select distinct c.scope, substr(c.at, 1, 10) as day, c.venue, c.forecaster, c.role, {_MODEL} as model
  from (select distinct scope from model_call indexed by model_call_by_time where at >= :begin and at < :end) recent
  cross join model_call c indexed by model_call_by_scope on c.scope = recent.scope and c.at < :end),
named as (
  select scope, day, 'all' as grouping, '' as name from called
  {" ".join(f"union select scope, day, '{name}', {name} from called" for name in _GROUPINGS)}),
followed as (
  select day, grouping, name, coalesce(lag(day) over (partition by scope, grouping, name order by day), '')
    as previous_day
  from named)
select day, grouping, name, previous_day, count(*) as forecasts from followed where day >= substr(:begin, 1, 10)
group by 1, 2, 3, 4
"""
_ALL_DAYS = f"""
(select * from cost_day where day >= :since and day < :begin union all select * from ({_SUM_CALLS}))
"""
_ALL_FORECASTS = f"""
(select * from cost_forecasts where day >= :since and day < :begin union all select * from ({_COUNT_FORECASTS}))
"""
_SELECT_SUMS = f"""
select {{name}} as name, {", ".join(f"sum({name}) as {name}" for name in _SUMS)} from {_ALL_DAYS}
group by 1 order by {{order}}
"""
_SELECT_FORECASTS = f"""
select {{name}}, sum(forecasts) from {_ALL_FORECASTS} where grouping = :grouping and {{condition}} group by 1
"""
_SELECT_UNANSWERED = f"select total(unanswered), total(unanswered_usd) from {_ALL_DAYS}"
# The day after the last one that is summed.
_SUMMED_UNTIL = "select coalesce(date(max(day), '+1 day'), '') from cost_day"
_FIRST_CALL = "select min(at) from model_call where at >= ?"
# Named, as SQLite would walk all calls by time to find the first one that is reserved.
_FIRST_RUNNING = "select min(at) from model_call indexed by model_call_reserved where state = 'reserved'"
_INSERT_DAY = f"insert into cost_day values ({', '.join('?' * (5 + len(_SUMS)))})"
_INSERT_FORECASTS = "insert into cost_forecasts values (?, ?, ?, ?, ?)"
_DELETE_FROM_DAY = (
    "delete from cost_day where day >= substr(:at, 1, 10)",
    "delete from cost_forecasts where day >= substr(:at, 1, 10)",
)
# Later than all times.
_END = "a"
# Reads each call: costs by question, and costs since a moment within a day.
_SELECT_FROM_CALLS = f"""
select {{name}} as name, count(*), sum(state = 'done'), sum(state in ('failed', 'lost')), sum(attempts), sum(calls),
       sum(tokens_in), sum(tokens_cached), sum(tokens_out), sum({_MAY_BE_BILLED}), total({_COST}) as cost_usd,
       total(latency_s) filter (where state = 'done'), total({_COST}) filter (where {_MAY_BE_BILLED}),
       count(distinct scope)
from model_call indexed by model_call_by_time
where at >= :since
group by 1 order by {{order}}
"""
# No row in a correct ledger; floating-point sums are equal to rounding.
WRONG_COST_TOTALS = f"""
select 'day', day, venue || ' ' || forecaster || ' ' || role || ' ' || model as name, sum(calls)
from (select * from cost_day union all
      select day, venue, forecaster, role, model, {", ".join(f"-{name}" for name in _SUMS)} from ({_SUM_CALLS}))
group by day, venue, forecaster, role, model
having {" or ".join(f"abs(sum({name})) > 1e-6 * (1 + max(abs({name})))" for name in _SUMS)}
union all
select grouping, day, name, sum(forecasts)
from (select * from cost_forecasts union all
      select day, grouping, name, previous_day, -forecasts from ({_COUNT_FORECASTS}))
group by day, grouping, name, previous_day having sum(forecasts) <> 0
""".replace(":begin", "''").replace(":end", f"({_SUMMED_UNTIL})")


class CostGrouping(StrEnum):
    """How to group costs."""

    QUESTION = "question"
    MODEL = "model"
    DAY = "day"
    VENUE = "venue"
    FORECASTER = "forecaster"
    ROLE = "role"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The calls of one group; ``latency_s`` is the mean of those that were answered, ``forecasts`` counts scopes.

    ``failed`` counts the calls without an answer, including lost ones; ``usage`` counts running and lost calls at
    their maximum cost. Models are named ``provider:name``, days are UTC as ``YYYY-MM-DD``.
    """

    name: str
    forecasts: int
    calls: int
    failed: int
    attempts: int
    usage: ModelUsage
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredCallCosts:
    """Calls without an answer that may have been billed, and their worst case in US dollars."""

    calls: int = 0
    cost_usd: float = 0.0


def read_costs(
    database: Database, by: CostGrouping, since: datetime | None, *, limit: int | None = None
) -> tuple[CostRow, ...]:
    """Return the costs by group, most expensive first (days in order); with ``limit`` the first (days: last) ones."""
    by_day = by is CostGrouping.DAY
    order = f"{'name desc' if by_day else 'cost_usd desc, name'} limit coalesce(:limit, -1)"
    if by is CostGrouping.QUESTION or not _is_start_of_day(since):
        name = {CostGrouping.QUESTION: "ref", CostGrouping.MODEL: _MODEL, CostGrouping.DAY: "substr(at, 1, 10)"}
        statement = _SELECT_FROM_CALLS.format(name=name.get(by, by.value), order=order)
        rows = database.execute(statement, {"since": "" if since is None else format_timestamp(since), "limit": limit})
        found = [_cost_row(name, sums, forecasts) for name, *sums, forecasts in rows]
        return tuple(reversed(found) if by_day else found)
    period = _period(database, since)
    statement = _SELECT_SUMS.format(name=by.value, order=order)
    # By day a forecast counts on each of its days.
    named = _SELECT_FORECASTS.format(
        name="day" if by_day else "name", condition="true" if by_day else "previous_day < :since"
    )
    forecasts = dict(database.execute(named, {**period, "grouping": "all" if by_day else by.value}).fetchall())
    rows = database.execute(statement, {**period, "limit": limit})
    found = [_cost_row(name, sums, forecasts[name]) for name, *sums in rows]
    return tuple(reversed(found) if by_day else found)


def count_paid_forecasts(database: Database, since: datetime | None) -> int:
    """Return how many forecasts called a model, ever or since the beginning of a day."""
    statement = _SELECT_FORECASTS.format(name="name", condition="previous_day < :since")
    row = database.execute(statement, {**_period(database, since), "grouping": "all"}).fetchone()
    return 0 if row is None else int(row[1])


def read_unanswered_costs(database: Database, since: datetime | None) -> UnansweredCallCosts:
    """Return the calls that were cut off or lost, or whose answer could not be read, ever or since that day."""
    calls, cost_usd = database.execute(_SELECT_UNANSWERED, _period(database, since)).fetchone()
    return UnansweredCallCosts(calls=int(calls), cost_usd=float(cost_usd))


async def sum_finished_days(writer: TransactionRunner, readers: TransactionRunner, *, now: datetime) -> int:
    """Sum the days that are over and whose calls have all ended; return how many days with calls."""
    count = 0
    while (rows := await readers.run(lambda database: _sum_next_days(database, now - SETTLED_AFTER))) is not None:
        await writer.run(lambda database, rows=rows: _insert_days(database, *rows))  # type: ignore[misc]
        count += len({day for day, *_ in rows[0]})
    return count


def forget_cost_totals(database: Database, *, at: str) -> None:
    """Delete the sums of the day of a late call and of all later days: they are made again."""
    for statement in _DELETE_FROM_DAY:
        database.execute(statement, {"at": at})


def _is_start_of_day(at: datetime | None) -> bool:
    return at is None or at.astimezone(UTC).time() == time()


def _period(database: Database, since: datetime | None) -> dict[str, str]:
    """Return the first day of a report, and from when to when its calls are read: those that are not summed yet."""
    if not _is_start_of_day(since):
        message = f"{since} is not the beginning of a day"
        raise ValueError(message)
    # Above the empty day, which a forecast without an earlier call has.
    day = "0" if since is None else format_timestamp(since)[:10]
    (summed_until,) = database.execute(_SUMMED_UNTIL).fetchone()
    return {"since": day, "begin": max(day, summed_until), "end": _END}


def _sum_next_days(database: Database, before: datetime) -> tuple[list[Any], list[Any]] | None:
    """Return the rows of the next days, the first of which has calls; None where none is over before that time."""
    (summed_until,) = database.execute(_SUMMED_UNTIL).fetchone()
    (first,) = database.execute(_FIRST_CALL, [summed_until]).fetchone()
    if first is None:
        return None
    (running,) = database.execute(_FIRST_RUNNING).fetchone()
    most = datetime.fromisoformat(first[:10]).replace(tzinfo=UTC) + _DAYS_A_WRITE
    days = {"begin": first[:10], "end": min(format_timestamp(min(most, before)), running or _END)[:10]}
    if days["end"] <= days["begin"]:
        return None
    return database.execute(_SUM_CALLS, days).fetchall(), database.execute(_COUNT_FORECASTS, days).fetchall()


def _insert_days(database: Database, sums: Sequence[Any], forecasts: Sequence[Any]) -> None:
    database.conn.executemany(_INSERT_DAY, sums)
    database.conn.executemany(_INSERT_FORECASTS, forecasts)


def _cost_row(name: str, sums: Sequence[Any], forecasts: int) -> CostRow:
    calls, answered, failed, attempts, asked, tokens_in, tokens_cached, tokens_out, _, cost_usd, latency_s, _ = sums
    return CostRow(
        name=name,
        forecasts=forecasts,
        calls=calls,
        failed=failed,
        attempts=attempts,
        usage=ModelUsage(
            calls=asked, tokens_in=tokens_in, tokens_cached=tokens_cached, tokens_out=tokens_out, cost_usd=cost_usd
        ),
        latency_s=latency_s / answered if answered else 0.0,
    )
