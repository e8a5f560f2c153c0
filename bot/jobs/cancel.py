"""Take back the orders that people asked to be taken back."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from bot.domain.request import CancelOrder
from bot.domain.submission import IntentState, Mode
from bot.errors import Rejected, StoreError, Unauthorized, Unavailable, told
from bot.ports import Clock, Submitter, Trader
from bot.store.audit import AuditRow
from bot.store.cancels import waiting
from bot.store.intents import IntentRow
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelling:
    """Whose requests are read, the record of the orders, and who can take them back."""

    folder: Path
    ledger: Ledger
    submitters: Mapping[str, Submitter]
    modes: Mapping[str, Mode]
    clock: Clock


async def cancel_asked(parts: Cancelling) -> str:
    """Do each waiting request, note it, and take it away; one that cannot be done is put aside.

    A venue that does not answer is asked again the next time.
    """
    done = refused = 0
    for request in waiting(parts.folder):
        try:
            note = await _cancel(parts, request.read())
        except StoreError:
            raise
        except (Unavailable, Unauthorized) as error:
            log.warning("an order could not be taken back yet", request=request.path.name, error=str(error))
            continue
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one keeps none behind it from being done
            refused += 1
            note = f"request refused, kept in {request.refuse()}: {told(error)}"
            log.warning("request refused", request=request.path.name, why=told(error))
        else:
            done += 1
            request.done()
        await parts.ledger.journal.note("request", note, at=parts.clock.now())
    return f"{done} orders taken back" + (f", {refused} requests refused" if refused else "")


async def _cancel(parts: Cancelling, request: CancelOrder) -> str:
    row = await parts.ledger.submissions.get(request.intent)
    venue = row.intent.ref.venue
    trader = parts.submitters.get(venue)
    if row.intent.order is None or row.state is not IntentState.ACKED:
        message = f"intent {request.intent} is no order that rests ({row.state})"
        raise Rejected(message)
    paper = row.mode is Mode.PAPER
    if not isinstance(trader, Trader) or paper != (parts.modes.get(venue) is Mode.PAPER):
        message = f"no account of {venue} is open in which the order {request.intent} was placed ({row.mode})"
        raise Rejected(message)
    attempts = await parts.ledger.submissions.attempts([request.intent])
    # A paper book knows orders by their intents, a venue by the name that it gave.
    name = request.intent if paper else next((one.reference for one in attempts if one.reference), "")
    await _tell_of(parts, row, "cancel", request)
    try:
        gone = await trader.cancel([name])
    except Exception:
        await _tell_of(parts, row, "cancel failed", request)
        raise
    if name not in gone:
        await _tell_of(parts, row, "cancel failed", request)
        message = f"{venue} did not take the order {name or request.intent} back; look whether it rests there"
        raise Rejected(message)
    await _tell_of(parts, row, "cancelled", request)
    return f"order {request.intent} at {venue} taken back for {request.by}"


async def _tell_of(parts: Cancelling, of: IntentRow, kind: str, request: CancelOrder) -> None:
    """Tell the audit, but for paper."""
    if of.mode is Mode.PAPER:
        return
    body = {"orders": request.intent, "count": "1"}
    row = AuditRow(at=parts.clock.now(), kind=kind, venue=of.intent.ref.venue, actor=request.by, body=body)
    await parts.ledger.leave.act(lambda _: None, row)
