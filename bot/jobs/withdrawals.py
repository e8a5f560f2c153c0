"""Take back what was submitted: withdraw forecasts, and cancel the orders that people asked to cancel.

A forecast is withdrawn at a person's request, or because it is stale and could not be renewed. A withdrawal is an
intent like any other.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from bot.core.errors import (
    AuthenticationError,
    RequestRejectedError,
    ServiceUnavailableError,
    StoreError,
    describe_error,
)
from bot.core.ids import derive_id
from bot.core.interfaces import Clock, TradingSubmitter, VenueSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import CancelOrder
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState, SendDecision
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.store import submission_queries
from bot.store.audit_log import AuditRow
from bot.store.intents import IntentRow
from bot.store.ledger import Ledger
from bot.store.requests import pending_cancellations

log = structlog.get_logger(__name__)

# At most this many are planned in one pass.
MAX_WITHDRAWALS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleWithdrawalContext:
    """The policies of the venues at which stale forecasts are withdrawn.

    A forecast is stale ``stale_after`` it was made. It should be renewed then; if it is not renewed ``grace_period``
    later, it is withdrawn.
    """

    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    clock: Clock
    stale_after: timedelta
    grace_period: timedelta


def withdrawal_decision(standing: Intent | None, policy: ExecutionPolicy, *, asked_as: str, why: str) -> SendDecision:
    """Return the decision that withdraws the published forecast; ``asked_as`` tells one request for it from another.

    Raises RequestRejectedError where no forecast is published that could be withdrawn.
    """
    if standing is None or standing.action is IntentAction.WITHDRAW:
        message = f"no forecast of it is published at {policy.venue} or waits to be sent; see: foxcast orders"
        raise RequestRejectedError(message)
    if standing.action is not IntentAction.FORECAST:
        message = f"{standing.ref} has an order, no published forecast; see: foxcast orders cancel {standing.id}"
        raise RequestRejectedError(message)
    order_id = derive_id(
        "intent", standing.ref.venue, standing.account, str(standing.ref), asked_as, IntentAction.WITHDRAW
    )
    intent = Intent(
        id=order_id,
        account=standing.account,
        ref=standing.ref,
        forecast=standing.forecast,
        action=IntentAction.WITHDRAW,
        predictions={},
        batch=order_id,
        exposure=standing.exposure,
    )
    return SendDecision(intent=intent, mode=policy.mode, why=why)


async def withdraw_stale_forecasts(job: StaleWithdrawalContext) -> int:
    """Plan a withdrawal for each published forecast that is stale and was not renewed; return how many."""
    now, planned = job.clock.now(), 0
    for policy in job.execution_policies.values():
        rows = await _stale_intents(job, policy, now)
        for row in rows:
            why = f"the forecast went stale after {job.stale_after} and was not renewed (withdraw_stale = true)"
            send = withdrawal_decision(row.intent, policy, asked_as=row.intent.id, why=why)
            stored = await job.ledger.submissions.decide(forecast_id=row.intent.forecast, decision=send, at=now)
            if isinstance(stored, SendDecision):
                planned += 1
                log.warning("withdrawal planned, since the forecast could not be renewed", question=str(row.intent.ref))
    return planned


async def _stale_intents(job: StaleWithdrawalContext, policy: ExecutionPolicy, now: datetime) -> list[IntentRow]:
    before = now - job.stale_after - job.grace_period
    return await job.ledger.permissions.read(
        lambda database: submission_queries.find_stale_forecasts(
            database,
            policy.venue,
            policy.account,
            made_before=before,
            now=now,
            paper=not policy.is_live,
            limit=MAX_WITHDRAWALS,
        )
    )


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationContext:
    """The folder of the requests, the ledger, and the submitters that can cancel orders."""

    folder: Path
    ledger: Ledger
    submitters: Mapping[str, VenueSubmitter]
    modes: Mapping[str, ExecutionMode]
    clock: Clock


async def cancel_requested_orders(job: CancellationContext) -> str:
    """Handle each waiting request, record it, and remove it; one that cannot be done is put aside.

    A venue that does not answer is asked again the next time.
    """
    done = refused = 0
    for request in pending_cancellations(job.folder):
        try:
            note = await _cancel_order(job, request.read())
        except StoreError:
            raise
        except (ServiceUnavailableError, AuthenticationError) as error:
            log.warning("an order could not be cancelled yet", request=request.path.name, error=str(error))
            continue
        except Exception as error:  # noqa: BLE001 - one faulty request must not stop the ones behind it
            refused += 1
            note = f"request refused, kept in {request.refuse()}: {describe_error(error)}"
            log.warning("request refused", request=request.path.name, why=describe_error(error))
        else:
            done += 1
            request.done()
        await job.ledger.events.add_event("request", note, at=job.clock.now())
    return f"{done} orders cancelled" + (f", {refused} requests refused" if refused else "")


async def _cancel_order(job: CancellationContext, request: CancelOrder) -> str:
    row = await job.ledger.submissions.get(request.intent)
    venue = row.intent.ref.venue
    submitter = job.submitters.get(venue)
    if row.intent.order is None or row.state is not IntentState.ACKED:
        message = f"intent {request.intent} is no open order ({row.state})"
        raise RequestRejectedError(message)
    paper = row.mode is ExecutionMode.PAPER
    if not isinstance(submitter, TradingSubmitter) or paper != (job.modes.get(venue) is ExecutionMode.PAPER):
        message = f"the account of {venue} in which the order {request.intent} was placed is not in use ({row.mode})"
        raise RequestRejectedError(message)
    attempts = await job.ledger.submissions.attempts([request.intent])
    # A paper book knows orders by their intents, a venue by the name that it gave.
    order_id = request.intent if paper else next((one.reference for one in attempts if one.reference), "")
    await _audit_cancellation(job, row, "cancel", request)
    try:
        cancelled = await submitter.cancel([order_id])
    except Exception:
        await _audit_cancellation(job, row, "cancel failed", request)
        raise
    if order_id not in cancelled:
        await _audit_cancellation(job, row, "cancel failed", request)
        message = f"{venue} did not cancel the order {order_id or request.intent}; check whether it is open there"
        raise RequestRejectedError(message)
    await _audit_cancellation(job, row, "cancelled", request)
    return f"order {request.intent} at {venue} cancelled for {request.by}"


async def _audit_cancellation(job: CancellationContext, intent_row: IntentRow, kind: str, request: CancelOrder) -> None:
    """Add an audit row, except for paper."""
    if intent_row.mode is ExecutionMode.PAPER:
        return
    body = {"orders": request.intent, "count": "1"}
    row = AuditRow(at=job.clock.now(), kind=kind, venue=intent_row.intent.ref.venue, actor=request.by, body=body)
    await job.ledger.permissions.write_with_audit(lambda _: None, row)
