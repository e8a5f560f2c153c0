"""After a restore: ask the venues what stands, then release the brake, or leave that to a person."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from bot.domain.submission import Mode
from bot.errors import FoxcastError, StoreError
from bot.gate.gate import Lane
from bot.outbox.outbox import Outbox, Stock
from bot.ports import Clock
from bot.store.ledger import Ledger
from bot.store.restore import acknowledge, mark_of, restored

log = structlog.get_logger()

RESTORED = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What settling a restored ledger needs; ``path`` is the ledger file."""

    path: Path
    ledger: Ledger
    lanes: Mapping[str, Lane]
    outbox: Outbox
    clock: Clock


async def settle_restored(parts: Settling) -> None:
    """Bring a restored ledger in line with what stands, and note how that went; nothing to do for any other ledger.

    Paper books hold nothing that the ledger did not write, so once every doubt is settled the brake is released.
    Where a venue is used for more than paper it may hold what the backup never knew; a person must look there first.
    """
    mark = restored(parts.path)
    if mark is None:
        return
    try:
        stock = await parts.outbox.take_stock()
    except StoreError:
        raise
    except FoxcastError as error:
        remains: str | None = f"a venue does not answer ({error}); start again to ask again"
        said = "what stands is not known"
    else:
        remains = _remains(parts, stock)
        said = f"{stock.settled} doubts settled, {stock.revoked} acknowledged before and not there any more"
    if remains is None:
        acknowledge(parts.path)
    text = f"{mark.backup.name}: {said}; " + (f"nothing leaves: {remains}" if remains else "submissions go on")
    log.warning("ledger was restored", detail=text)
    await parts.ledger.journal.note(RESTORED, text, at=parts.clock.now())


def _remains(parts: Settling, stock: Stock) -> str | None:
    """Return what keeps the brake on, or nothing."""
    if stock.doubtful:
        return f"{stock.doubtful} submissions are still in doubt; start again to ask again"
    beyond = [lane.venue for lane in parts.lanes.values() if lane.mode is not Mode.PAPER]
    if beyond:
        return f"look at {', '.join(beyond)} for what was sent since that backup, then delete {mark_of(parts.path)}"
    return None
