"""Plans what is said beside forecasts that stand at a venue: intents of their own, after those were acknowledged."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import structlog

from bot.domain.order import Order
from bot.domain.submission import Intent, IntentAction, Send
from bot.gate.caps import room
from bot.gate.case import Case, Lane
from bot.gate.remark import remark
from bot.ids import derive_id
from bot.jobs.cases import counted
from bot.outbox.door import Recheck
from bot.ports import Clock
from bot.store import leaders
from bot.store.intents import IntentRow
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# What was acknowledged longer ago is not commented any more, and a question gets no more than one comment in that time.
WITHIN = timedelta(hours=24)
# So many are planned in one pass.
MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Commenting:
    """Whose forecasts are commented: the lanes of the venues that can take comments, and what one costs.

    ``recheck`` is that of the outbox: what it would take back is not planned. At the venues in ``by_event`` all
    questions of one event get one comment, once and for all.
    """

    ledger: Ledger
    lanes: Mapping[str, Lane]
    clock: Clock
    recheck: Recheck
    fees: Mapping[str, float] = field(default_factory=dict)
    by_event: Collection[str] = ()


async def plan_comments(parts: Commenting) -> int:
    """Plan a comment for each forecast that was acknowledged and has none; return how many were planned.

    Nothing is said in paper mode: nobody would read it.
    """
    planned = 0
    for lane in parts.lanes.values():
        if lane.live and lane.comment:
            planned += await _plan_for(parts, lane)
    return planned


async def _plan_for(parts: Commenting, lane: Lane) -> int:
    now, planned = parts.clock.now(), 0
    by_event = lane.venue in parts.by_event
    rows = await parts.ledger.leave.read(
        lambda database: leaders.uncommented(
            database, lane.venue, lane.account, since=now - WITHIN, limit=MOST, by_event=by_event
        )
    )
    said: set[str] = set()
    for row in rows:
        event = row.intent.exposure.event
        if by_event and event and event in said:
            continue
        intent = replace(await _comment(parts, row), fee=parts.fees.get(lane.venue, 0.0))
        if not intent.text:
            continue
        if why := await parts.recheck(intent) or await _unaffordable(parts, lane, intent):
            log.info("not commented now", question=str(intent.ref), why=why)
            continue
        decision = Send(intent=intent, mode=lane.mode, why="the forecast stands, and comment = true")
        stored = await parts.ledger.submissions.decide(forecast_id=intent.forecast, decision=decision, at=now)
        planned += isinstance(stored, Send)
        said.add(event)
    return planned


async def _unaffordable(parts: Commenting, lane: Lane, intent: Intent) -> str | None:
    """Say which cap the fee would pass, or nothing: what is said is paid from the same purse as orders."""
    if not intent.fee:
        return None
    leave, now = parts.ledger.leave, parts.clock.now()
    trace = await parts.ledger.forecasts.trace(intent.forecast)
    if trace.forecast is None:
        return "its forecast is gone"
    arms = (await leave.standing({lane.venue: lane.account}, now=now)).arms
    case = Case(
        lane=lane,
        forecast=trace.forecast,
        question=trace.question,
        standing=None,
        locked=None,
        now=now,
        arm=arms.get(lane.venue),
    )
    tightest = room(replace(case, usage=await leave.usage(counted(case), now=now)))
    if tightest is None or intent.fee <= tightest.left:
        return None
    return f"a comment costs {intent.fee:g}, and {tightest}"


async def text_of(parts: Commenting, forecast_id: str, order: Order | None = None) -> str:
    """Return what would be said beside a forecast and the order that came of it."""
    trace = await parts.ledger.forecasts.trace(forecast_id)
    if trace.forecast is None:
        return ""
    trials = [record.trial for record in trace.trials if record.trial is not None]
    template = parts.lanes[trace.question.ref.venue].template
    return remark(trace.question, trace.forecast, trials, order=order, template=template)


async def _comment(parts: Commenting, row: IntentRow) -> Intent:
    stands = row.intent
    name = derive_id("intent", stands.ref.venue, stands.account, str(stands.ref), stands.forecast, IntentAction.COMMENT)
    return Intent(
        id=name,
        account=stands.account,
        ref=stands.ref,
        forecast=stands.forecast,
        action=IntentAction.COMMENT,
        predictions={},
        batch=name,
        text=await text_of(parts, stands.forecast, stands.order),
        exposure=stands.exposure,
    )
