"""Decide over every new forecast, then let the outbox carry what may leave."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.forecast import Forecast
from bot.domain.submission import Decision, Hold, Send
from bot.gate.gate import Case, Gate, Lane
from bot.jobs.together import together
from bot.outbox.outbox import Outbox
from bot.ports import Clock
from bot.store.ledger import Ledger
from bot.store.submissions import BatchRow

CHUNK = 500
PLACES = 64
LAST_CALL = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitting:
    """What the submit job works with."""

    ledger: Ledger
    lanes: Mapping[str, Lane]
    gate: Gate
    outbox: Outbox
    clock: Clock


async def submit_due(parts: Submitting) -> str:
    """Settle doubts, store a decision for each undecided forecast, ask again about held ones, send what is ready."""
    settled = await parts.outbox.reconcile()
    sent = held = 0
    async for forecasts in _to_decide(parts):
        decisions = await together(lambda forecast: _decide(parts, forecast), forecasts, places=PLACES)
        sent += sum(isinstance(decision, Send) for decision in decisions)
        held += sum(isinstance(decision, Hold) for decision in decisions)
    acknowledged = await parts.outbox.flush()
    doubts = f", {settled} doubts settled" if settled else ""
    return f"{sent} planned, {held} held, {acknowledged} acknowledged{doubts}"


async def _to_decide(parts: Submitting) -> AsyncIterator[list[Forecast]]:
    """Yield all new forecasts, then one chunk of those whose hold has run out."""
    while forecasts := await parts.ledger.forecasts.undecided(CHUNK):
        yield forecasts
    if again := await parts.ledger.forecasts.held(CHUNK, now=parts.clock.now()):
        yield again


async def _decide(parts: Submitting, forecast: Forecast) -> Decision:
    lane = parts.lanes[forecast.ref.venue]
    now = parts.clock.now()
    case = Case(
        lane=lane,
        forecast=forecast,
        question=await parts.ledger.questions.get(forecast.ref),
        standing=await parts.ledger.submissions.standing(forecast.ref, lane.account),
        locked=await parts.ledger.schedule.lock_reason(forecast.ref, now=now),
        now=now,
    )
    decision = parts.gate.decide(case)
    return await parts.ledger.submissions.decide(forecast_id=forecast.id, decision=decision, at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWait:
    """A batch waits for the first forecast of each of its questions, but not beyond the last hour of its window."""

    ledger: Ledger
    lanes: Mapping[str, Lane]

    async def __call__(self, row: BatchRow, now: datetime) -> bool:
        """Say whether the batch may go now."""
        load = await self.ledger.schedule.load(row.venue, row.batch, self.lanes[row.venue].primary, now=now)
        if row.closes_at is not None and now >= row.closes_at - LAST_CALL:
            return load.busy == 0
        return load.unforecast == 0
