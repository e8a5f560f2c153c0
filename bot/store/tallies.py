"""What the calls of some scopes came to: counted by how they ended, and which trials have an answer on record."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlite_utils import Database

from bot.domain.step import Usage
from bot.store.calls import CallState
from bot.store.codec import listed, stamp
from bot.store.ledger import Ledger

TALLIES = """
select state, count(*), sum(calls), sum(tokens_in), sum(tokens_cached), sum(tokens_out),
       sum(coalesce(cost_usd, worst_usd))
from model_call
where scope in (select value from json_each(:scopes)) and at >= :since
group by state order by state
"""
PAID = """
select distinct scope, trial from model_call
where state = 'done' and scope in (select value from json_each(:scopes))
"""
# What another scope was told word for word is on record here without a call of its own.
TOLD = """
select distinct scope, trial from exchange
where kind = 'model' and scope in (select value from json_each(:scopes))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Some calls; ``usage.cost_usd`` counts those that were lost or are under way at their worst case."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)

    def __add__(self, other: "Tally") -> "Tally":
        """Return both together."""
        return Tally(calls=self.calls + other.calls, usage=self.usage + other.usage)


async def tallies(ledger: Ledger, scopes: Iterable[str], *, since: datetime | None = None) -> Mapping[CallState, Tally]:
    """Return what the calls of these scopes came to by how they ended; with a moment, those begun from then on."""
    wanted = {"scopes": listed(scopes), "since": "" if since is None else stamp(since)}
    return await ledger.calls.readers.run(lambda database: _tallies(database, wanted))


async def answered(ledger: Ledger, scopes: Iterable[str]) -> frozenset[tuple[str, int]]:
    """Return the trials, each by scope and number, that have an answer of a model on record."""
    wanted = {"scopes": listed(scopes)}
    paid = await ledger.calls.readers.run(lambda database: _trials(database, PAID, wanted))
    told = await ledger.calls.readers.run(lambda database: _trials(database, TOLD, wanted))
    # An exchange may also be that nobody answered.
    free = [trial for trial in sorted(told - paid) if await _has_answer(ledger, *trial)]
    return paid | frozenset(free)


async def _has_answer(ledger: Ledger, scope: str, trial: int) -> bool:
    exchanges = await ledger.exchanges.of(scope, trial)
    return any(key.kind == "model" and "told" in json.loads(exchange.body) for key, exchange in exchanges.items())


def _tallies(database: Database, wanted: Mapping[str, str]) -> dict[CallState, Tally]:
    return {
        CallState(state): Tally(
            calls=count,
            usage=Usage(
                calls=asked, tokens_in=tokens_in, tokens_cached=cached, tokens_out=tokens_out, cost_usd=cost_usd
            ),
        )
        for state, count, asked, tokens_in, cached, tokens_out, cost_usd in database.execute(TALLIES, dict(wanted))
    }


def _trials(database: Database, statement: str, wanted: Mapping[str, str]) -> frozenset[tuple[str, int]]:
    return frozenset((scope, trial) for scope, trial in database.execute(statement, dict(wanted)))
