"""Learn what happened: read the outcomes of everything forecast and not yet resolved."""

from dataclasses import dataclass
from datetime import timedelta

from bot.domain.resolution import Resolution
from bot.ports import Clock, Venue
from bot.store.ledger import Ledger

CHUNK = 500
# Published outcomes are revised for about three months (25 of 8,990 in one benchmark).
CORRECTABLE = timedelta(days=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolving:
    """What resolving one venue's questions needs."""

    name: str
    venue: Venue
    ledger: Ledger
    clock: Clock


async def resolve(parts: Resolving) -> str:
    """Record the outcomes that are known now; a corrected one is kept beside the one it replaces."""
    pending = await parts.ledger.questions.watched(parts.name, since=parts.clock.now() - CORRECTABLE)
    if not pending:
        return f"{parts.name}: nothing to resolve"
    new = changed = 0
    chunk: list[Resolution] = []
    async for resolution in parts.venue.resolutions(pending):
        chunk.append(resolution)
        if len(chunk) == CHUNK:
            added, corrected = await _record(parts, chunk)
            new, changed, chunk = new + added, changed + corrected, []
    added, corrected = await _record(parts, chunk)
    corrections = f", {changed + corrected} corrected" if changed + corrected else ""
    return f"{parts.name}: {new + added} new outcomes of {len(pending)} questions{corrections}"


async def _record(parts: Resolving, chunk: list[Resolution]) -> tuple[int, int]:
    recorded = await parts.ledger.resolutions.record(chunk, seen_at=parts.clock.now())
    return recorded.new, recorded.changed
