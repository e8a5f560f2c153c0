"""Queries for metrics: counts and sums that use an index, whatever the size of the ledger."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlite_utils import Database

from bot.core.light_dataclass import dataclass
from bot.store.serialization import format_timestamp
from bot.store.submission_queries import count_intents_by_state

_COUNT_DONE = "select coalesce(sum(count), 0) from tally where name = 'forecasts'"
# Each uses a partial index of the table, which has few of all forecasts.
_FORECASTS = {
    "failed": "select count(*) from forecast where state = 'failed'",
    "running": "select count(*) from forecast where state = 'running'",
}
_CALLS = """
select provider, model, state, count(*), sum(tokens_in), sum(tokens_cached), sum(tokens_out),
       sum(coalesce(cost_usd, worst_usd)), coalesce(sum(latency_s), 0), count(latency_s)
from model_call where at >= ? group by provider, model, state order by provider, model, state
"""
# Of each held forecast the newest hold that still lasts.
_HOLDS = "select why, count(distinct forecast) from decision where until > ? and verdict = 'hold' group by why"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMetrics:
    """The calls of one model in one state; ``latency_s`` is the sum over ``timed`` calls."""

    provider: str
    model: str
    state: str
    calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost_usd: float
    latency_s: float
    timed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMetrics:
    """Counts of the ledger; ``calls`` are those since a time, ``holds`` count held forecasts by reason."""

    forecasts: Mapping[str, int]
    calls: Sequence[CallMetrics]
    intents: Mapping[str, int]
    holds: Mapping[str, int]


def read_ledger_metrics(database: Database, *, since: datetime, now: datetime) -> LedgerMetrics:
    """Return the counts, with the model calls since a time."""
    return LedgerMetrics(
        forecasts={
            "done": database.execute(_COUNT_DONE).fetchone()[0],
            **{state: database.execute(sql).fetchone()[0] for state, sql in _FORECASTS.items()},
        },
        calls=read_call_metrics(database, since),
        intents=count_intents_by_state(database),
        holds=dict(database.execute(_HOLDS, [format_timestamp(now)]).fetchall()),
    )


def read_call_metrics(database: Database, since: datetime) -> list[CallMetrics]:
    """Return the model calls since a time by provider, model and state."""
    names = (
        *("provider", "model", "state", "calls", "tokens_in", "tokens_cached", "tokens_out"),
        *("cost_usd", "latency_s", "timed"),
    )
    return [
        CallMetrics(**dict(zip(names, row, strict=True))) for row in database.execute(_CALLS, [format_timestamp(since)])
    ]
