"""Decide over every new forecast, then let the outbox carry what may leave."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.forecast import Forecast
from bot.domain.submission import Decision, Hold, Mode, Send
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
    """Store a decision for each undecided forecast, ask again about held ones, send what is ready."""
    sent = held = 0
    async for forecasts in _to_decide(parts):
        cases = await _cases(parts, forecasts)
        decisions = await together(lambda case: _decide(parts, case), cases, places=PLACES)
        sent += sum(isinstance(decision, Send) for decision in decisions)
        held += sum(isinstance(decision, Hold) for decision in decisions)
    acknowledged = await parts.outbox.flush()
    return f"{sent} planned, {held} held, {acknowledged} acknowledged"


async def _to_decide(parts: Submitting) -> AsyncIterator[list[Forecast]]:
    """Yield all new forecasts, then one chunk of those whose hold has run out."""
    while forecasts := await parts.ledger.forecasts.undecided(CHUNK):
        yield forecasts
    if again := await parts.ledger.forecasts.held(CHUNK, now=parts.clock.now()):
        yield again


async def _cases(parts: Submitting, forecasts: Sequence[Forecast]) -> list[Case]:
    """Put each forecast before the gate with what stands around it, all read at one moment."""
    now = parts.clock.now()
    lanes = [_lane(parts, forecast.ref.venue) for forecast in forecasts]
    asked = [(forecast.ref, lane.account) for forecast, lane in zip(forecasts, lanes, strict=True)]
    dockets = await parts.ledger.dockets.of(asked, now=now)
    return [
        Case(
            lane=lane,
            forecast=forecast,
            question=docket.question,
            standing=docket.standing,
            locked=docket.locked,
            now=now,
        )
        for lane, forecast, docket in zip(lanes, forecasts, dockets, strict=True)
    ]


def _lane(parts: Submitting, venue: str) -> Lane:
    """Return the way out of a venue; one that config no longer uses, or whose plugin is broken, has none."""
    return parts.lanes.get(venue) or Lane(venue=venue, mode=Mode.OFF, primary="", account="")


async def _decide(parts: Submitting, case: Case) -> Decision:
    decision = parts.gate.decide(case)
    return await parts.ledger.submissions.decide(forecast_id=case.forecast.id, decision=decision, at=case.now)


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
