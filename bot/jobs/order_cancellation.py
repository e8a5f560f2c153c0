"""Cancel the orders that people asked to cancel."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from bot.core.errors import (
    AuthenticationError,
    RequestRejectedError,
    ServiceUnavailableError,
    StoreError,
    describe_error,
)
from bot.core.interfaces import Clock, TradingSubmitter, VenueSubmitter
from bot.core.operator_requests import CancelOrder
from bot.core.submissions import ExecutionMode, IntentState
from bot.store.audit_log import AuditRow
from bot.store.intents import IntentRow
from bot.store.ledger import Ledger
from bot.store.requests import pending_cancellations

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
