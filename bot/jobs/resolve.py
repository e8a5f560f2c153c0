"""Learn what happened: read the outcomes of everything forecast and not yet resolved."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.domain.question import QuestionRef
from bot.domain.resolution import Resolution, Void
from bot.errors import FoxcastError
from bot.ports import Clock, ContestReader, Venue
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

CHUNK = 500
# Published outcomes are revised for about three months (25 of 8,990 in one benchmark).
CORRECTABLE = timedelta(days=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolving:
    """What resolving one venue's questions needs; ``account`` is whose scores the venue tells."""

    name: str
    venue: Venue
    ledger: Ledger
    clock: Clock
    account: str = "default"


@dataclass(slots=True)
class _Count:
    """Outcomes that are new, and those that replace others."""

    new: int = 0
    changed: int = 0


async def resolve(parts: Resolving) -> str:
    """Record the outcomes that are known now; a corrected one is kept beside the one it replaces.

    Of two outcomes for one target the first counts. An outcome that its batch no longer has was withdrawn: it becomes
    void, and its score goes.
    """
    pending = await parts.ledger.questions.watched(parts.name, since=parts.clock.now() - CORRECTABLE)
    if not pending:
        return f"{parts.name}: nothing to resolve"
    found = await _resolve(parts, pending)
    return f"{found}{await _standings(parts)}"


async def _resolve(parts: Resolving, pending: Collection[QuestionRef]) -> str:
    said: set[tuple[QuestionRef, str]] = set()
    chunk: list[Resolution] = []
    count = _Count()
    try:
        async for resolution in parts.venue.resolutions(pending):
            if (resolution.ref, resolution.target) in said:
                log.warning("a second outcome is left out", question=str(resolution.ref), target=resolution.target)
                continue
            said.add((resolution.ref, resolution.target))
            chunk.append(resolution)
            if len(chunk) == CHUNK:
                await _record(parts, chunk, count)
    except FoxcastError:
        # One question that cannot be read takes no outcome away that was. What is missing now says nothing.
        await _record(parts, chunk, count)
        raise
    chunk += await _withdrawn(parts, said, set(pending))
    await _record(parts, chunk, count)
    corrections = f", {count.changed} corrected" if count.changed else ""
    return f"{parts.name}: {count.new} new outcomes of {len(pending)} questions{corrections}"


async def _standings(parts: Resolving) -> str:
    """Keep how the account stands in the venue's contests; that they cannot be read takes no outcome away."""
    if not isinstance(parts.venue, ContestReader):
        return ""
    try:
        told = await parts.venue.contest_standings()
    except FoxcastError as error:
        log.warning("standings cannot be read", venue=parts.name, error=str(error))
        return f"; its standings cannot be read: {error}"
    await parts.ledger.venue_scores.keep_standings(parts.name, parts.account, told, at=parts.clock.now())
    return ""


async def _withdrawn(
    parts: Resolving, said: set[tuple[QuestionRef, str]], pending: set[QuestionRef]
) -> list[Resolution]:
    """Return void outcomes for what was known and is not said any more, in the batches of which something was said.

    A batch of which nothing was said may just not have been read.
    """
    known = await parts.ledger.resolutions.beside(parts.name, {ref for ref, _ in said})
    now = parts.clock.now()
    return [
        Resolution(ref=ref, target=target, outcome=Void("withdrawn"), resolved_at=now)
        for ref, target in sorted(known - said)
        if ref in pending
    ]


async def _record(parts: Resolving, chunk: list[Resolution], count: _Count) -> None:
    """Record what was read, count it, and empty the chunk."""
    recorded = await parts.ledger.resolutions.record(chunk, seen_at=parts.clock.now())
    await parts.ledger.venue_scores.record(chunk, account=parts.account, at=parts.clock.now())
    chunk.clear()
    count.new += recorded.new
    count.changed += recorded.changed
