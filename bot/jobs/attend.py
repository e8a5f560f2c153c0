"""Do what people asked of the daemon."""

from dataclasses import dataclass
from pathlib import Path

import structlog

from bot.domain.request import LockQuestion, Request, UnlockQuestion
from bot.errors import ContractError, NotFound
from bot.ports import Clock
from bot.store.ledger import Ledger
from bot.store.requests import waiting

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attending:
    """Whose requests are read, and the ledger they change."""

    folder: Path
    ledger: Ledger
    clock: Clock


async def attend(parts: Attending) -> str:
    """Do each waiting request, note it, and take it away; put aside one that cannot be read or makes no sense."""
    done = refused = 0
    for request in waiting(parts.folder):
        try:
            note = await _do(parts, request.read())
        except (ContractError, NotFound) as error:
            refused += 1
            note = f"request refused, kept in {request.refuse()}: {error}"
            log.warning("request refused", request=request.path.name, why=str(error))
        else:
            done += 1
            request.done()
        await parts.ledger.journal.note("request", note, at=parts.clock.now())
    return f"{done} requests done" + (f", {refused} refused" if refused else "")


async def _do(parts: Attending, request: Request) -> str:
    await parts.ledger.questions.current_version(request.ref)
    whose = request.forecaster or "every forecaster"
    match request:
        case LockQuestion():
            await parts.ledger.schedule.lock(
                request.ref,
                forecaster=request.forecaster,
                reason=request.reason,
                until=request.until,
                now=parts.clock.now(),
            )
            until = "until it is unlocked" if request.until is None else f"until {request.until.isoformat()}"
            return f"{request.ref} locked for {whose} {until}: {request.reason}"
        case UnlockQuestion():
            there = await parts.ledger.schedule.unlock(request.ref, forecaster=request.forecaster)
            return f"{request.ref} unlocked for {whose}" if there else f"{request.ref} was not locked for {whose}"
