"""Calls to models: reserved at their worst case before they are made, settled after, and found again by request.

A call that was in flight when its run died is lost: it counts as spent at its worst case for ever.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlite_utils import Database

from bot.domain.inquiry import Charge
from bot.domain.step import Usage
from bot.errors import ContractError, NotFound, StoreError
from bot.store.codec import clean, listed, stamp
from bot.store.documents import Packed, get, put
from bot.store.packing import packed
from bot.store.runs import Runs

RECENT_CALLS = 5000

RESERVE = """
insert into model_call (id, at, scope, ref, venue, forecaster, trial, role, provider, model, request, state, worst_usd)
values (:id, :at, :scope, :ref, :venue, :forecaster, :trial, :role, :provider, :model, :request, 'reserved', :worst_usd)
on conflict do nothing
"""
SETTLE = """
update model_call set
  state = :state, cost_usd = :cost_usd, attempts = :attempts, calls = :calls, tokens_in = :tokens_in,
  tokens_cached = :tokens_cached, tokens_out = :tokens_out, latency_s = :latency_s, finish = :finish, detail = :detail,
  answer = :answer
where id = :id and state = 'reserved'
"""
STATE = "select state from model_call where id = ?"
ANSWERED = "select answer from model_call where request = ? and state = 'done' order by at desc, rowid desc limit 1"
LOSE = "update model_call set state = 'lost', lost_at = ? where state = 'reserved'"
SPENT = """
select scope, provider, sum(coalesce(cost_usd, worst_usd)) from model_call
where at >= ? group by scope, provider order by scope, provider
"""
SPENT_ON = "select coalesce(sum(coalesce(cost_usd, worst_usd)), 0.0) from model_call where scope = ?"
# A forecast with a call that was not answered, or not yet, tells nothing about those that go well; one that has calls
# from before those looked at is not seen as a whole.
TYPICAL = """
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
COSTS = """
select {name} as name, count(distinct scope), count(*), sum(state in ('failed', 'lost')), sum(attempts), sum(calls),
       sum(tokens_in), sum(tokens_cached), sum(tokens_out), sum(coalesce(cost_usd, worst_usd)) as cost_usd,
       coalesce(avg(latency_s) filter (where state = 'done'), 0.0)
from model_call
where at >= :since and (:ref is null or ref = :ref)
group by 1 order by {order}
"""


class CallState(StrEnum):
    """Where a call stands."""

    RESERVED = "reserved"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A call about to be made. ``request`` is the digest of all that decides the answer."""

    id: str
    at: datetime
    charge: Charge
    role: str
    provider: str
    model: str
    request: str
    worst_usd: float

    def __post_init__(self) -> None:
        """Refuse a worst case that is negative, NaN or infinite: no budget can be reckoned with it."""
        _require_amount("the worst case of a call", self.worst_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What became of a call. ``usage.cost_usd`` is what was spent, also by one that failed.

    ``attempts`` counts the requests that left; ``answer`` is the record of the call as JSON text, None if it failed.
    """

    usage: Usage
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
class Spent:
    """What was spent or is reserved, in US dollars: of one provider in one scope (a forecast)."""

    scope: str
    provider: str
    cost_usd: float


class CostBy(StrEnum):
    """What costs are added up by."""

    QUESTION = "question"
    MODEL = "model"
    DAY = "day"
    VENUE = "venue"
    FORECASTER = "forecaster"
    ROLE = "role"


_NAMES = {
    CostBy.QUESTION: "ref",
    CostBy.MODEL: "case when instr(model, provider || ':') = 1 then model else provider || ':' || model end",
    CostBy.DAY: "substr(at, 1, 10)",
    CostBy.VENUE: "venue",
    CostBy.FORECASTER: "forecaster",
    CostBy.ROLE: "role",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The calls of one group; ``latency_s`` is the mean of those that were answered, ``forecasts`` counts scopes.

    ``failed`` counts the calls that ended without an answer, lost ones too; calls under way or lost are in ``usage`` at
    their worst case. Models are named ``provider:name``, days are of UTC as ``YYYY-MM-DD``.
    """

    name: str
    forecasts: int
    calls: int
    failed: int
    attempts: int
    usage: Usage
    latency_s: float


@dataclass(frozen=True, slots=True)
class Calls:
    """The call log."""

    writer: Runs
    readers: Runs

    async def reserve(self, reservation: Reservation) -> None:
        """Write down a call before it is made; raises ContractError for an id that is on record already."""
        row = _reserved(reservation)
        await self.writer.run(lambda database: _reserve(database, row))

    async def settle(self, call: str, settlement: Settlement) -> str | None:
        """Write down what became of a reserved call; return the digest of its answer. Raises NotFound, StoreError.

        StoreError is for a call that was settled or lost before: what it cost stands.
        """
        answer = None if settlement.answer is None else await packed(settlement.answer)
        row = _settled(call, settlement, answer)
        await self.writer.run(lambda database: _settle(database, row, answer))
        return None if answer is None else answer.digest

    async def answered(self, request: str) -> tuple[str, str] | None:
        """Return digest and text of the newest answer to the very same request."""
        return await self.readers.run(lambda database: _answered(database, request))

    async def lose(self, *, at: datetime) -> int:
        """Mark every call still reserved as lost, at a start, when nothing of this ledger is in flight.

        Returns how many there were.
        """
        return await self.writer.run(lambda database: database.execute(LOSE, [stamp(at)]).rowcount)

    async def spent(self, *, since: datetime) -> Sequence[Spent]:
        """Return what was spent or reserved by calls begun from a moment on, by scope and provider."""
        return await self.readers.run(lambda database: _spent(database, since))

    async def spent_on(self, scope: str) -> float:
        """Return what was spent or reserved on one forecast, in US dollars."""
        return await self.readers.run(lambda database: float(database.execute(SPENT_ON, [scope]).fetchone()[0]))

    async def typical(
        self, forecaster: str, *, players: Iterable[tuple[str, str]] | None = None, least: int = 5
    ) -> float | None:
        """Return the mean cost of one forecast of a forecaster in US dollars, or None with fewer than ``least``.

        It looks at the forecaster's last 5,000 calls, and there at the forecasts all of whose calls were answered; with
        ``players``, pairs of a role and a model, at those whose calls were made to no others.
        """
        wanted = {
            "forecaster": forecaster,
            "calls": RECENT_CALLS,
            "players": None if players is None else listed(f"{role} {model}" for role, model in players),
        }
        return await self.readers.run(lambda database: _typical(database, wanted, least))

    async def costs(self, by: CostBy, *, since: datetime | None = None, ref: str | None = None) -> Sequence[CostRow]:
        """Return what was spent, group by group, dearest first (days in order)."""
        order = "name" if by is CostBy.DAY else "cost_usd desc, name"
        statement = COSTS.format(name=_NAMES[by], order=order)
        wanted = {"since": "" if since is None else stamp(since), "ref": ref}
        return await self.readers.run(lambda database: _costs(database, statement, wanted))


def _require_amount(what: str, amount: float) -> None:
    if not 0 <= amount < math.inf:
        message = f"{what} must be a number from 0 on, and is {amount}"
        raise ValueError(message)


def _reserved(reservation: Reservation) -> dict[str, Any]:
    charge = reservation.charge
    texts = {
        "scope": charge.scope,
        "ref": charge.ref,
        "venue": charge.venue,
        "forecaster": charge.forecaster,
        "role": reservation.role,
        "provider": reservation.provider,
        "model": reservation.model,
        "request": reservation.request,
    }
    return {name: clean(text) for name, text in texts.items()} | {
        "id": reservation.id,
        "at": stamp(reservation.at),
        "trial": charge.trial,
        "worst_usd": float(reservation.worst_usd),
    }


def _reserve(database: Database, row: dict[str, Any]) -> None:
    if not database.execute(RESERVE, row).rowcount:
        message = f"the call {row['id']} is on record already; each call needs an id of its own"
        raise ContractError(message)


def _settled(call: str, settlement: Settlement, answer: Packed | None) -> dict[str, Any]:
    usage = settlement.usage
    return {
        "id": call,
        "state": (CallState.FAILED if answer is None else CallState.DONE).value,
        "cost_usd": float(usage.cost_usd),
        "attempts": settlement.attempts,
        "calls": usage.calls,
        "tokens_in": usage.tokens_in,
        # They are part of those in, whatever a provider says; its own words are in the answer.
        "tokens_cached": min(usage.tokens_cached, usage.tokens_in),
        "tokens_out": usage.tokens_out,
        "latency_s": float(settlement.latency_s),
        "finish": clean(settlement.finish),
        "detail": clean(settlement.detail),
        "answer": None if answer is None else answer.digest,
    }


def _settle(database: Database, row: dict[str, Any], answer: Packed | None) -> None:
    if answer is not None:
        put(database, answer)
    if database.execute(SETTLE, row).rowcount:
        return
    found = database.execute(STATE, [row["id"]]).fetchone()
    if found is None:
        message = f"no call {row['id']} in the ledger; reserve a call before it is made"
        raise NotFound(message)
    message = f"the call {row['id']} is {found[0]} and cannot be settled again"
    raise StoreError(message)


def _answered(database: Database, request: str) -> tuple[str, str] | None:
    row = database.execute(ANSWERED, [request]).fetchone()
    return None if row is None else (row[0], get(database, row[0]).content.decode())


def _spent(database: Database, since: datetime) -> tuple[Spent, ...]:
    return tuple(
        Spent(scope=scope, provider=provider, cost_usd=cost_usd)
        for scope, provider, cost_usd in database.execute(SPENT, [stamp(since)])
    )


def _typical(database: Database, wanted: dict[str, Any], least: int) -> float | None:
    mean, count = database.execute(TYPICAL, wanted).fetchone()
    return None if mean is None or count < least else float(mean)


def _costs(database: Database, statement: str, wanted: dict[str, Any]) -> tuple[CostRow, ...]:
    return tuple(
        CostRow(
            name=name,
            forecasts=forecasts,
            calls=calls,
            failed=failed,
            attempts=attempts,
            usage=Usage(
                calls=asked, tokens_in=tokens_in, tokens_cached=cached, tokens_out=tokens_out, cost_usd=cost_usd
            ),
            latency_s=latency_s,
        )
        for (
            name,
            forecasts,
            calls,
            failed,
            attempts,
            asked,
            tokens_in,
            cached,
            tokens_out,
            cost_usd,
            latency_s,
        ) in database.execute(statement, wanted)
    )
