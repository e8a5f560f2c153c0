"""Read-only queries about forecasts and backtests.

The status of a question for a forecaster, recent failures of trials, and the calls and trials of a scope (the id of a
forecast or a backtest).
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from sqlite_utils import Database

from bot.core.beliefs import ModelUsage
from bot.core.forecasts import Trial, TrialEnd
from bot.core.light_dataclass import dataclass
from bot.core.questions import QuestionRef
from bot.store.connections import TransactionRunner
from bot.store.ledger import Ledger
from bot.store.model_calls import CallState
from bot.store.serialization import TRIAL, format_timestamp, parse_timestamp, to_json_list

_NEWEST_ATTEMPT = """
select id, revision, state, detail, forecast_only from forecast where ref = ? and forecaster = ?
order by revision desc limit 1
"""
_SCHEDULE_PLACE = "select due_at, why, owner is not null from schedule where ref = ? and forecaster = ?"
_QUESTIONS_BY_URL = "select ref, url from question where url is not null and url like ? escape '\\'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAttempt:
    """A forecast; ``state`` is running, done, failed or abandoned, ``detail`` is the reason.

    ``forecast_only``: it is not submitted.
    """

    id: str
    revision: int
    state: str
    detail: str
    forecast_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePlace:
    """When a question is due and why; ``held``: it is being forecast now."""

    due_at: datetime | None
    why: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastStatus:
    """The newest attempt and the schedule entry of a question for a forecaster, read at one moment."""

    attempt: ForecastAttempt | None
    place: SchedulePlace | None


async def read_forecast_status(readers: TransactionRunner, ref: QuestionRef, forecaster: str) -> ForecastStatus:
    """Return the status of a question for a forecaster."""
    return await readers.run(lambda database: _forecast_status(database, str(ref), forecaster))


async def find_questions_by_url(readers: TransactionRunner, part: str) -> list[tuple[QuestionRef, str]]:
    """Return the questions whose URL contains the text, each with its URL."""
    escaped = "".join(f"\\{character}" if character in "\\%_" else character for character in part)
    return await readers.run(lambda database: _questions_by_url(database, f"%{escaped}%"))


def _forecast_status(database: Database, ref: str, forecaster: str) -> ForecastStatus:
    newest: Any = database.execute(_NEWEST_ATTEMPT, [ref, forecaster]).fetchone()
    place: Any = database.execute(_SCHEDULE_PLACE, [ref, forecaster]).fetchone()
    return ForecastStatus(
        attempt=None
        if newest is None
        else ForecastAttempt(
            id=newest[0], revision=newest[1], state=newest[2], detail=newest[3], forecast_only=bool(newest[4])
        ),
        place=None
        if place is None
        else SchedulePlace(due_at=parse_timestamp(place[0]), why=place[1], held=bool(place[2])),
    )


def _questions_by_url(database: Database, pattern: str) -> list[tuple[QuestionRef, str]]:
    return [(QuestionRef.parse(ref), url) for ref, url in database.execute(_QUESTIONS_BY_URL, [pattern])]


# A trial that met a limit may still have an answer: its decoded belief shows it.
_FAILED_TRIALS = """
select f.id, f.state, t.body from trial t join forecast f on f.id = t.forecast
where t.ended_at >= ? and t.ending <> 'finished' order by t.ended_at, f.id, t.number
"""
_COUNT_POSTPONED = """
select count(distinct ref) from forecast failed where state = 'failed' and ended_at >= ?
  and not exists (select 1 from forecast later where later.ref = failed.ref and later.state = 'done'
                  and later.forecaster = failed.forecaster and later.revision > failed.revision)
"""
_COUNT_TRIAL_ENDS = """
select f.forecaster, t.ending, count(*) from trial t join forecast f on f.id = t.forecast
where t.ended_at >= ? group by f.forecaster, t.ending
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentFailures:
    """The failures of trials since some time.

    ``trials`` are the failed ones. ``postponed_questions`` counts the questions whose last forecast failed,
    ``incomplete_forecasts`` the forecasts that were made although some of their trials failed. ``ends`` counts all
    trials by forecaster and end.
    """

    trials: tuple[Trial, ...]
    postponed_questions: int
    incomplete_forecasts: int
    ends: Mapping[str, Mapping[TrialEnd, int]]


async def read_recent_failures(readers: TransactionRunner, since: datetime) -> RecentFailures:
    """Return the failures among the trials that ended since then."""
    return await readers.run(lambda database: _recent_failures(database, format_timestamp(since)))


def _recent_failures(database: Database, since: str) -> RecentFailures:
    rows = [
        (forecast, state, TRIAL.decode(body)) for forecast, state, body in database.execute(_FAILED_TRIALS, [since])
    ]
    failed = [(forecast, state, trial) for forecast, state, trial in rows if not trial.is_answer]
    ((postponed,),) = database.execute(_COUNT_POSTPONED, [since]).fetchall()
    ends: defaultdict[str, dict[TrialEnd, int]] = defaultdict(dict)
    for forecaster, ending, count in database.execute(_COUNT_TRIAL_ENDS, [since]):
        ends[forecaster][TrialEnd(ending)] = count
    return RecentFailures(
        trials=tuple(trial for _, _, trial in failed),
        postponed_questions=postponed,
        incomplete_forecasts=len({forecast for forecast, state, _ in failed if state == "done"}),
        ends=dict(ends),
    )


_TOTAL_CALLS = """
select state, count(*), sum(calls), sum(tokens_in), sum(tokens_cached), sum(tokens_out),
       sum(coalesce(cost_usd, worst_usd))
from model_call
where scope in (select value from json_each(:scopes)) and at >= :since
group by state order by state
"""
_TRIALS_WITH_CALLS = """
select distinct scope, trial from model_call
where state = 'done' and scope in (select value from json_each(:scopes))
"""
# A response that was reused from another scope has a recording here, but no call.
_TRIALS_WITH_RECORDINGS = """
select distinct scope, trial from recording
where kind = 'model' and scope in (select value from json_each(:scopes))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The number and usage of calls; ``usage.cost_usd`` counts lost and running calls at their maximum cost."""

    calls: int = 0
    usage: ModelUsage = field(default_factory=ModelUsage)

    def __add__(self, other: "CallTotals") -> "CallTotals":
        """Return the sum of both."""
        return CallTotals(calls=self.calls + other.calls, usage=self.usage + other.usage)


async def total_calls_by_state(
    ledger: Ledger, scopes: Iterable[str], *, since: datetime | None = None
) -> Mapping[CallState, CallTotals]:
    """Return the totals of the calls of these scopes by state; only calls since then, if given."""
    wanted = {"scopes": to_json_list(scopes), "since": "" if since is None else format_timestamp(since)}
    return await ledger.calls.readers.run(lambda database: _call_totals(database, wanted))


async def find_answered_trials(ledger: Ledger, scopes: Iterable[str]) -> frozenset[tuple[str, int]]:
    """Return scope and number of the trials that have a recorded answer of a model."""
    wanted = {"scopes": to_json_list(scopes)}
    paid = await ledger.calls.readers.run(lambda database: _trial_keys(database, _TRIALS_WITH_CALLS, wanted))
    recorded = await ledger.calls.readers.run(lambda database: _trial_keys(database, _TRIALS_WITH_RECORDINGS, wanted))
    # A recording may also be of a failure.
    free = [trial for trial in sorted(recorded - paid) if await _has_answer(ledger, *trial)]
    return paid | frozenset(free)


async def _has_answer(ledger: Ledger, scope: str, trial: int) -> bool:
    recordings = await ledger.recordings.read_trial(scope, trial)
    return any(key.kind == "model" and "value" in json.loads(response.body) for key, response in recordings.items())


def _call_totals(database: Database, wanted: Mapping[str, str]) -> dict[CallState, CallTotals]:
    return {
        CallState(state): CallTotals(
            calls=count,
            usage=ModelUsage(
                calls=asked, tokens_in=tokens_in, tokens_cached=cached, tokens_out=tokens_out, cost_usd=cost_usd
            ),
        )
        for state, count, asked, tokens_in, cached, tokens_out, cost_usd in database.execute(_TOTAL_CALLS, dict(wanted))
    }


def _trial_keys(database: Database, statement: str, wanted: Mapping[str, str]) -> frozenset[tuple[str, int]]:
    return frozenset((scope, trial) for scope, trial in database.execute(statement, dict(wanted)))


_SELECT_SCOPES = "select distinct scope from recording where kind = :kind and at >= :since order by scope"
_SELECT_SCOPE_TRIALS = "select distinct trial from recording where scope = ? order by trial"
_SELECT_SCOPE_QUESTION = "select min(ref) from model_call where scope = ?"


async def list_scopes(ledger: Ledger, kind: str, *, since: datetime | None = None) -> Sequence[str]:
    """Return the scopes with recordings of a kind; only recordings since then, if given."""
    wanted = {"kind": kind, "since": "" if since is None else format_timestamp(since)}
    return await ledger.recordings.readers.run(
        lambda database: [scope for (scope,) in database.execute(_SELECT_SCOPES, dict(wanted))]
    )


async def list_scope_trials(ledger: Ledger, scope: str) -> Sequence[int]:
    """Return the numbers of the trials of a scope that have a recording, in order."""
    return await ledger.recordings.readers.run(
        lambda database: [trial for (trial,) in database.execute(_SELECT_SCOPE_TRIALS, [scope])]
    )


async def find_scope_question(ledger: Ledger, scope: str) -> str | None:
    """Return the question that the model calls of a scope were charged to; None without calls."""
    rows = await ledger.calls.readers.run(lambda database: database.execute(_SELECT_SCOPE_QUESTION, [scope]).fetchall())
    return next((ref for (ref,) in rows), None)
