"""Looks at what a live venue needs before anything is sent: credentials, settled doubts, clock, database, audit."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog

from bot.domain.submission import IntentState, Mode
from bot.errors import FoxcastError, StoreError
from bot.gate.case import Lane
from bot.gate.readiness import Readiness, clock_fault, doubt_fault
from bot.jobs.audited import REMEDY, verified
from bot.ports import Clock
from bot.store.audit import Head
from bot.store.checks import quick_check
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# Proves the credentials of a venue, and returns what a person should know.
Credentials = Callable[[], Awaitable[Sequence[str]]]
# By how many seconds this clock is ahead of that of others; None where nobody was asked yet.
Offset = Callable[[], float | None]

_LOST = (IntentState.SENDING, IntentState.UNKNOWN)
_DOUBTFUL = (*_LOST, IntentState.IN_DOUBT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """What is looked at; ``path`` is the ledger file, ``started_at`` when this run began.

    ``refused`` says of a venue that it refused the credentials, which are not proved again then.
    """

    readiness: Readiness
    ledger: Ledger
    path: Path
    lanes: Mapping[str, Lane]
    clock: Clock
    offset: Offset
    started_at: datetime
    credentials: Mapping[str, Credentials] = field(default_factory=dict)
    refused: Callable[[str], str] = lambda _: ""


async def make_ready(parts: Preparing) -> str:
    """Look at everything again, but for credentials and a database that were found good in this run.

    Of the audit all is verified first, and again after each fault; else what is new.
    """
    live = [venue for venue, lane in parts.lanes.items() if lane.live]
    parts.readiness.is_outdated = False
    if not live:
        return "nothing is live"
    for venue in live:
        await _prove(parts, venue)
    await count_doubts(parts)
    parts.readiness.clock = _clock(parts, live)
    if parts.readiness.database:
        parts.readiness.database = await _database(parts.path)
    parts.readiness.audit = await _audit(parts)
    lacking = {venue: parts.readiness.lacking(venue) for venue in live}
    return "; ".join(f"{venue}: {', '.join(what) or 'ready'}" for venue, what in lacking.items())


async def look_before_deciding(parts: Preparing) -> None:
    """Count what is in doubt, which changes with each write; look at everything where a person changed something."""
    if parts.readiness.is_outdated:
        await make_ready(parts)
    else:
        await count_doubts(parts)


async def _prove(parts: Preparing, venue: str) -> None:
    if refused := parts.refused(venue):
        parts.readiness.credentials[venue] = refused
        return
    if parts.readiness.credentials.get(venue) == "":
        return
    prove = parts.credentials.get(venue)
    if prove is None:
        parts.readiness.credentials[venue] = ""
        return
    try:
        told = await prove()
    except StoreError:
        raise
    except FoxcastError as error:
        if parts.readiness.credentials.get(venue) != str(error):
            log.warning("nothing is submitted", venue=venue, why=str(error))
        parts.readiness.credentials[venue] = str(error)
        return
    except Exception as error:
        log.exception("credentials cannot be proved", venue=venue)
        parts.readiness.credentials[venue] = f"cannot be proved ({type(error).__name__})"
        return
    parts.readiness.credentials[venue] = ""
    for line in told:
        log.info("credentials", venue=venue, found=line)


def _clock(parts: Preparing, live: Sequence[str]) -> str:
    """Compare the clock, where a live venue is asked over the network at all; others take files, which carry dates."""
    offset_s = parts.offset()
    if offset_s is None and not any(venue in parts.credentials for venue in live):
        return ""
    return clock_fault(offset_s)


async def count_doubts(parts: Preparing) -> None:
    """Count what is in doubt at each live venue; what paper books do not know yet is no doubt about money."""
    live = {venue: lane for venue, lane in parts.lanes.items() if lane.live}
    unsettled, strange = dict.fromkeys(live, 0), {venue: Counter[str]() for venue in live}
    submissions = parts.ledger.submissions
    for row in await submissions.batches(states=[*_DOUBTFUL]):
        if row.venue not in live or row.mode is Mode.PAPER:
            continue
        if row.account != live[row.venue].account:
            strange[row.venue][row.account] += sum(row.counts.get(state, 0) for state in _DOUBTFUL)
            continue
        read = submissions.comments if row.comments else submissions.intents
        for item in await read(row.venue, row.account, row.batch):
            unsettled[row.venue] += item.state in _LOST and item.planned_at < parts.started_at
    for venue, lane in live.items():
        found = await submissions.doubts(venue, now=parts.clock.now())
        parts.readiness.doubts[venue] = doubt_fault(
            unsettled[venue], found.holding, strange[venue], most=lane.caps.doubts
        )


async def _audit(parts: Preparing) -> str:
    found = await verified(parts.ledger, parts.path.parent, since=parts.readiness.verified)
    parts.readiness.verified = found.head if found.sound else Head()
    return "" if found.sound else f"is broken: {found.why}; {REMEDY}"


async def _database(path: Path) -> str:
    try:
        health = await asyncio.to_thread(quick_check, path)
    except StoreError as error:
        return str(error)
    return "" if health.sound else f"{path.name} is damaged; restore a backup: foxcast db restore"
