"""Ask the venues for the results of submissions that got no answer.

Also after a restore, when a halt stays until they are known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from bot.core.errors import FoxcastError, StoreError
from bot.core.interfaces import Clock
from bot.core.submissions import ExecutionMode
from bot.execution.gate.gate import ExecutionPolicy
from bot.execution.outbox.outbox import Outbox, RestoreReconciliation
from bot.store.ledger import Ledger
from bot.store.restore import acknowledge_restore, read_restore_mark, restore_mark_path


async def reconcile_submissions(outbox: Outbox) -> str:
    """Read back every batch with an unknown intent; doing it again changes nothing more."""
    settled = await outbox.reconcile()
    return f"{settled} unknown writes settled"


restore_log = structlog.get_logger()


RESTORED_EVENT = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredLedgerContext:
    """What is needed to reconcile a restored ledger; ``path`` is the ledger file."""

    path: Path
    ledger: Ledger
    execution_policies: Mapping[str, ExecutionPolicy]
    outbox: Outbox
    clock: Clock


async def reconcile_restored_ledger(parts: RestoredLedgerContext) -> None:
    """Bring a restored ledger in line with the venues, and record the result; nothing to do for any other ledger.

    Paper books hold nothing that the ledger did not write, so once every unknown write is settled the halt ends. A
    venue that is used for more than paper may hold what the backup never knew; a person must look there first.
    """
    mark = read_restore_mark(parts.path)
    if mark is None:
        return
    try:
        stock = await parts.outbox.reconcile_after_restore()
    except StoreError:
        raise
    except FoxcastError as error:
        remains: str | None = f"a venue does not answer ({error}); restart to ask again"
        said = "the state of the venue is unknown"
    else:
        remains = _blocking_reason(parts, stock)
        said = f"{stock.settled} unknown writes settled, {stock.revoked} acknowledged writes not at the venue any more"
    if remains is None:
        acknowledge_restore(parts.path)
    text = f"{mark.backup.name}: {said}; " + (f"nothing is submitted: {remains}" if remains else "submissions continue")
    restore_log.warning("ledger was restored", detail=text)
    await parts.ledger.events.add_event(RESTORED_EVENT, text, at=parts.clock.now())


def _blocking_reason(parts: RestoredLedgerContext, stock: RestoreReconciliation) -> str | None:
    """Return what keeps the halt in force, or nothing."""
    if stock.doubtful:
        return f"{stock.doubtful} writes are still unknown; restart to ask again"
    beyond = [lane.venue for lane in parts.execution_policies.values() if lane.mode is not ExecutionMode.PAPER]
    if beyond:
        mark = restore_mark_path(parts.path)
        return f"check {', '.join(beyond)} for what was sent since that backup, then delete {mark}"
    return None
