"""Trials that failed of late, the questions that have no forecast for it, and how trials of each forecaster ended."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlite_utils import Database

from bot.domain.forecast import Trial, TrialEnd
from bot.store.codec import TRIAL, stamp
from bot.store.runs import Runs

# Whether a trial that met a limit counts is in its belief alone.
_UNFINISHED = """
select f.id, f.state, t.body from trial t join forecast f on f.id = t.forecast
where t.ended_at >= ? and t.ending <> 'finished' order by t.ended_at, f.id, t.number
"""
_PUT_OFF = """
select count(distinct ref) from forecast failed where state = 'failed' and ended_at >= ?
  and not exists (select 1 from forecast later where later.ref = failed.ref and later.state = 'done'
                  and later.forecaster = failed.forecaster and later.revision > failed.revision)
"""
_ENDS = """
select f.forecaster, t.ending, count(*) from trial t join forecast f on f.id = t.forecast
where t.ended_at >= ? group by f.forecaster, t.ending
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFailures:
    """What went wrong with trials since some moment.

    ``trials`` are those that failed. ``put_off`` counts the questions whose last forecast failed, and ``short`` the
    forecasts that were made though some of their trials failed. ``ends`` counts all trials by forecaster and end.
    """

    trials: tuple[Trial, ...]
    put_off: int
    short: int
    ends: Mapping[str, Mapping[TrialEnd, int]]


async def failures_since(readers: Runs, since: datetime) -> RecentFailures:
    """Return what went wrong with the trials that ended at the moment or later."""
    return await readers.run(lambda database: _failures(database, stamp(since)))


def _failures(database: Database, since: str) -> RecentFailures:
    rows = [(forecast, state, TRIAL.decode(body)) for forecast, state, body in database.execute(_UNFINISHED, [since])]
    failed = [(forecast, state, trial) for forecast, state, trial in rows if not trial.counts]
    ((put_off,),) = database.execute(_PUT_OFF, [since]).fetchall()
    ends: defaultdict[str, dict[TrialEnd, int]] = defaultdict(dict)
    for forecaster, ending, count in database.execute(_ENDS, [since]):
        ends[forecaster][TrialEnd(ending)] = count
    return RecentFailures(
        trials=tuple(trial for _, _, trial in failed),
        put_off=put_off,
        short=len({forecast for forecast, state, _ in failed if state == "done"}),
        ends=dict(ends),
    )
