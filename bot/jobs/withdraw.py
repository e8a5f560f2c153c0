"""Takes back forecasts that stand: because a person asks, or since they went stale, where the policy says so.

A withdrawal is an intent like any other: planned here, checked once more by the outbox, sent, and read back. What goes
on paper is withdrawn from the paper book.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from bot.domain.submission import Intent, IntentAction, Send
from bot.errors import Rejected
from bot.gate.case import Lane
from bot.ids import derive_id
from bot.ports import Clock
from bot.store import leaders
from bot.store.intents import IntentRow
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# So many are planned in one pass.
MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleWithdrawing:
    """Whose stale forecasts are withdrawn: the lanes of venues that can.

    A forecast is stale ``stale_after`` it was made. It should be renewed then; where it is not ``patience`` later, it
    cannot be.
    """

    ledger: Ledger
    lanes: Mapping[str, Lane]
    clock: Clock
    stale_after: timedelta
    patience: timedelta


def withdrawal_of(standing: Intent | None, lane: Lane, *, asked_as: str, why: str) -> Send:
    """Return the decision that takes back what stands; ``asked_as`` tells one wish for it from another.

    Raises Rejected where nothing stands that could be taken back.
    """
    if standing is None or standing.action is IntentAction.WITHDRAW:
        message = f"no forecast of it stands at {lane.venue}, or waits to leave; look with: foxcast orders"
        raise Rejected(message)
    if standing.action is not IntentAction.FORECAST:
        message = f"{standing.ref} has an order, no forecast that stands; see: foxcast orders cancel {standing.id}"
        raise Rejected(message)
    name = derive_id("intent", standing.ref.venue, standing.account, str(standing.ref), asked_as, IntentAction.WITHDRAW)
    intent = Intent(
        id=name,
        account=standing.account,
        ref=standing.ref,
        forecast=standing.forecast,
        action=IntentAction.WITHDRAW,
        predictions={},
        batch=name,
        exposure=standing.exposure,
    )
    return Send(intent=intent, mode=lane.mode, why=why)


async def withdraw_stale(parts: StaleWithdrawing) -> int:
    """Plan a withdrawal for each forecast that stands, went stale and was not renewed; return how many."""
    now, planned = parts.clock.now(), 0
    for lane in parts.lanes.values():
        rows = await _stale(parts, lane, now)
        for row in rows:
            why = f"the forecast went stale after {parts.stale_after} and was not renewed (withdraw_stale = true)"
            send = withdrawal_of(row.intent, lane, asked_as=row.intent.id, why=why)
            stored = await parts.ledger.submissions.decide(forecast_id=row.intent.forecast, decision=send, at=now)
            planned += isinstance(stored, Send)
            log.warning("withdrawn, since it could not be renewed", question=str(row.intent.ref))
    return planned


async def _stale(parts: StaleWithdrawing, lane: Lane, now: datetime) -> list[IntentRow]:
    before = now - parts.stale_after - parts.patience
    return await parts.ledger.leave.read(
        lambda database: leaders.stale(
            database, lane.venue, lane.account, made_before=before, now=now, paper=not lane.live, limit=MOST
        )
    )
