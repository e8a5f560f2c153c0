"""Take back what was submitted: withdraw forecasts, and cancel the orders that people asked to cancel.

A forecast is withdrawn at a person's request, or because it is stale and could not be renewed. A withdrawal is an
intent like any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationContext:
    """Whose requests are read, the record of the orders, and who can cancel them."""

    folder: Path
    ledger: Ledger
    submitters: Mapping[str, VenueSubmitter]
    modes: Mapping[str, ExecutionMode]
    clock: Clock


async def cancel_requested_orders(parts: CancellationContext) -> str:
    """Handle each waiting request, record it, and remove it; one that cannot be done is put aside.

    A venue that does not answer is asked again the next time.
    """
    done = refused = 0
    for request in pending_cancellations(parts.folder):
        try:
            note = await _cancel_order(parts, request.read())
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
        await parts.ledger.events.add_event("request", note, at=parts.clock.now())
    return f"{done} orders cancelled" + (f", {refused} requests refused" if refused else "")


async def _cancel_order(parts: CancellationContext, request: CancelOrder) -> str:
    row = await parts.ledger.submissions.get(request.intent)
    venue = row.intent.ref.venue
    trader = parts.submitters.get(venue)
    if row.intent.order is None or row.state is not IntentState.ACKED:
        message = f"intent {request.intent} is no open order ({row.state})"
        raise RequestRejectedError(message)
    paper = row.mode is ExecutionMode.PAPER
    if not isinstance(trader, TradingSubmitter) or paper != (parts.modes.get(venue) is ExecutionMode.PAPER):
        message = f"the account of {venue} in which the order {request.intent} was placed is not in use ({row.mode})"
        raise RequestRejectedError(message)
    attempts = await parts.ledger.submissions.attempts([request.intent])
    # A paper book knows orders by their intents, a venue by the name that it gave.
    name = request.intent if paper else next((one.reference for one in attempts if one.reference), "")
    await _audit_cancellation(parts, row, "cancel", request)
    try:
        gone = await trader.cancel([name])
    except Exception:
        await _audit_cancellation(parts, row, "cancel failed", request)
        raise
    if name not in gone:
        await _audit_cancellation(parts, row, "cancel failed", request)
        message = f"{venue} did not cancel the order {name or request.intent}; check whether it is open there"
        raise RequestRejectedError(message)
    await _audit_cancellation(parts, row, "cancelled", request)
    return f"order {request.intent} at {venue} cancelled for {request.by}"


async def _audit_cancellation(parts: CancellationContext, of: IntentRow, kind: str, request: CancelOrder) -> None:
    """Add an audit row, except for paper."""
    if of.mode is ExecutionMode.PAPER:
        return
    body = {"orders": request.intent, "count": "1"}
    row = AuditRow(at=parts.clock.now(), kind=kind, venue=of.intent.ref.venue, actor=request.by, body=body)
    await parts.ledger.permissions.write_with_audit(lambda _: None, row)
