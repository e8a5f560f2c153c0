"""Decide over every new forecast, then let the outbox carry what may leave."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.forecast import Forecast
from bot.domain.submission import Decision, Hold, Mode, Send
from bot.gate.gate import Case, Gate, Lane
from bot.jobs.together import together
from bot.outbox.outbox import Outbox
from bot.ports import Clock
from bot.store.dockets import Asked, Docket
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
        pairs = await _with_dockets(parts, forecasts)
        decisions = await together(lambda pair: _decide(parts, *pair), pairs, places=PLACES)
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


async def _with_dockets(parts: Submitting, forecasts: Sequence[Forecast]) -> list[tuple[Forecast, Docket]]:
    """Return each forecast with what stands around it, all read at one moment."""
    asked = [
        Asked(
            ref=forecast.ref,
            forecaster=forecast.forecaster,
            revision=forecast.revision,
            account=_lane(parts, forecast.ref.venue).account,
        )
        for forecast in forecasts
    ]
    dockets = await parts.ledger.dockets.of(asked, now=parts.clock.now())
    return list(zip(forecasts, dockets, strict=True))


def _lane(parts: Submitting, venue: str) -> Lane:
    """Return the way out of a venue; one that config no longer uses, or whose plugin is broken, has none."""
    return parts.lanes.get(venue) or Lane(venue=venue, mode=Mode.OFF, primary="", account="")


async def _decide(parts: Submitting, forecast: Forecast, docket: Docket) -> Decision:
    now = parts.clock.now()
    decision = _decision(parts, forecast, docket, now)
    return await parts.ledger.submissions.decide(forecast_id=forecast.id, decision=decision, at=now)


def _decision(parts: Submitting, forecast: Forecast, docket: Docket, now: datetime) -> Decision:
    if docket.successor is not None:
        return Hold(why=f"superseded by revision {docket.successor}")
    case = Case(
        lane=_lane(parts, forecast.ref.venue),
        forecast=forecast,
        question=docket.question,
        standing=docket.standing,
        locked=docket.locked,
        now=now,
    )
    return parts.gate.decide(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWait:
    """A batch waits for the first forecast of each of its questions.

    From the last hour of its window on it goes without those that are locked or were put off, but still waits for
    those whose turn has come: a venue may take whole batches only. Of a venue that is not in ``surveyed``, no batch
    goes: what is on record of it may be a part. A question without a batch waits for nothing.
    """

    ledger: Ledger
    lanes: Mapping[str, Lane]
    surveyed: Collection[str]

    async def __call__(self, row: BatchRow, now: datetime) -> bool:
        """Say whether the batch may go now."""
        load = await self.ledger.schedule.load(row.venue, row.batch, self.lanes[row.venue].primary, now=now)
        if load.questions == 0:
            return True
        if row.venue not in self.surveyed:
            return False
        if row.closes_at is not None and now >= row.closes_at - LAST_CALL:
            return load.busy == 0 and load.waiting == 0
        return load.unforecast == 0
