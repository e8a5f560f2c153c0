"""Read-only queries about the present: what is being forecast, what is due next, and what the gate held last."""

from collections.abc import Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.store.serialization import parse_timestamp

ROWS_SHOWN = 10
# The newest decisions that are looked at for holds.
_DECISIONS_READ = 1_000
_RUNNING = """
select f.id, f.ref, q.title, f.forecaster, f.started_at, f.why,
       (select count(*) from trial t where t.forecast = f.id),
       (select coalesce(sum(steps), 0) from trial t where t.forecast = f.id)
from forecast f indexed by forecast_running join question q on q.ref = f.ref
where f.state = 'running' order by f.started_at, f.id limit :limit
"""
_PLANNED = """
select s.ref, q.title, s.forecaster, s.due_at, s.why, s.closes_at
from schedule s indexed by schedule_by_due join question q on q.ref = s.ref
where s.owner is null and s.due_at is not null order by s.due_at limit :limit
"""
# A forecast that is only recorded, such as that of a second forecaster, is held for good, which surprises nobody.
_HELD = """
select d.forecast, f.ref, q.title, f.forecaster, d.at, d.why, d.until
from (select * from decision order by id desc limit :read) d
join forecast f on f.id = d.forecast join question q on q.ref = f.ref
where d.verdict = 'hold' and d.why not like 'recorded only:%'
  and not exists (select 1 from decision later where later.forecast = d.forecast and later.id > d.id)
limit :limit
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningForecastRow:
    """A forecast that is being made: its trials so far, and their steps together."""

    id: str
    ref: str
    title: str
    forecaster: str
    started_at: datetime
    why: str
    trials: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedForecastRow:
    """A forecast that is due at a moment, and why."""

    ref: str
    title: str
    forecaster: str
    due_at: datetime
    why: str
    closes_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldForecastRow:
    """A forecast whose newest decision is a hold; ``until`` is when it is decided again, None for never."""

    forecast: str
    ref: str
    title: str
    forecaster: str
    at: datetime
    why: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOverview:
    """What runs, what is due next, and what was held last."""

    running: Sequence[RunningForecastRow]
    planned: Sequence[PlannedForecastRow]
    held: Sequence[HeldForecastRow]


def read_work_overview(database: Database, *, limit: int = ROWS_SHOWN) -> WorkOverview:
    """Return at most so many of each."""
    values = {"limit": limit, "read": _DECISIONS_READ}
    return WorkOverview(
        running=[
            RunningForecastRow(
                id=forecast,
                ref=ref,
                title=title,
                forecaster=forecaster,
                started_at=parse_timestamp(started_at),
                why=why,
                trials=trials,
                steps=steps,
            )
            for forecast, ref, title, forecaster, started_at, why, trials, steps in database.execute(_RUNNING, values)
        ],
        planned=[
            PlannedForecastRow(
                ref=ref,
                title=title,
                forecaster=forecaster,
                due_at=parse_timestamp(due_at),
                why=why,
                closes_at=parse_timestamp(closes_at),
            )
            for ref, title, forecaster, due_at, why, closes_at in database.execute(_PLANNED, values)
        ],
        held=[
            HeldForecastRow(
                forecast=forecast,
                ref=ref,
                title=title,
                forecaster=forecaster,
                at=parse_timestamp(at),
                why=why,
                until=parse_timestamp(until),
            )
            for forecast, ref, title, forecaster, at, why, until in database.execute(_HELD, values)
        ],
    )
