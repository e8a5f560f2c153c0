"""Withdraw submitted forecasts: at a person's request, or because they are stale and could not be renewed.

A withdrawal is an intent like any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from bot.core.errors import RequestRejectedError
from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.core.submissions import Intent, IntentAction, SendDecision
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.store import submission_queries
from bot.store.intents import IntentRow
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# At most this many are planned in one pass.
MAX_WITHDRAWALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleWithdrawalContext:
    """Whose stale forecasts are withdrawn: the policies of venues that can.

    A forecast is stale ``stale_after`` it was made. It should be renewed then; if it is not renewed ``grace_period``
    later, it is withdrawn.
    """

    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    clock: Clock
    stale_after: timedelta
    grace_period: timedelta


def withdrawal_decision(standing: Intent | None, lane: ExecutionPolicy, *, asked_as: str, why: str) -> SendDecision:
    """Return the decision that withdraws the published forecast; ``asked_as`` tells one request for it from another.

    Raises RequestRejectedError where no forecast is published that could be withdrawn.
    """
    if standing is None or standing.action is IntentAction.WITHDRAW:
        message = f"no forecast of it is published at {lane.venue} or waits to be sent; see: foxcast orders"
        raise RequestRejectedError(message)
    if standing.action is not IntentAction.FORECAST:
        message = f"{standing.ref} has an order, no published forecast; see: foxcast orders cancel {standing.id}"
        raise RequestRejectedError(message)
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
    return SendDecision(intent=intent, mode=lane.mode, why=why)


async def withdraw_stale_forecasts(parts: StaleWithdrawalContext) -> int:
    """Plan a withdrawal for each published forecast that is stale and was not renewed; return how many."""
    now, planned = parts.clock.now(), 0
    for lane in parts.execution_policies.values():
        rows = await _stale_intents(parts, lane, now)
        for row in rows:
            why = f"the forecast went stale after {parts.stale_after} and was not renewed (withdraw_stale = true)"
            send = withdrawal_decision(row.intent, lane, asked_as=row.intent.id, why=why)
            stored = await parts.ledger.submissions.decide(forecast_id=row.intent.forecast, decision=send, at=now)
            planned += isinstance(stored, SendDecision)
            log.warning("withdrawn, since it could not be renewed", question=str(row.intent.ref))
    return planned


async def _stale_intents(parts: StaleWithdrawalContext, lane: ExecutionPolicy, now: datetime) -> list[IntentRow]:
    before = now - parts.stale_after - parts.grace_period
    return await parts.ledger.permissions.read(
        lambda database: submission_queries.find_stale_forecasts(
            database,
            lane.venue,
            lane.account,
            made_before=before,
            now=now,
            paper=not lane.is_live,
            limit=MAX_WITHDRAWALS,
        )
    )
