"""What a live venue needs before anything is sent.

Credentials, settled writes, a correct clock, an intact database and audit.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog

from bot.core.errors import FoxcastError, StoreError
from bot.core.interfaces import Clock
from bot.core.submissions import ExecutionMode, IntentState
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.readiness import LiveReadiness, clock_fault, unsettled_fault
from bot.jobs.ledger_maintenance import BROKEN_AUDIT_REMEDY, verify_audit
from bot.store.audit_log import AuditHead
from bot.store.integrity_checks import run_quick_check
from bot.store.ledger import Ledger

log = structlog.get_logger(__name__)

# Proves the credentials of a venue, and returns what a person should know.
CredentialCheck = Callable[[], Awaitable[Sequence[str]]]
# Returns by how many seconds this clock is ahead of the venues' clocks; None where none has answered yet.
ClockSkewReader = Callable[[], float | None]

_LOST_STATES = (IntentState.SENDING, IntentState.UNKNOWN)
_UNSETTLED_STATES = (*_LOST_STATES, IntentState.IN_DOUBT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessContext:
    """What is checked; ``path`` is the ledger file, ``started_at`` when this run began.

    ``credential_refusal`` returns why a venue refused the credentials, if it did; they are not tested again then.
    """

    readiness: LiveReadiness
    ledger: Ledger
    path: Path
    execution_policies: Mapping[str, ExecutionPolicy]
    clock: Clock
    clock_skew: ClockSkewReader
    started_at: datetime
    credentials: Mapping[str, CredentialCheck] = field(default_factory=dict)
    credential_refusal: Callable[[str], str] = lambda _: ""


async def check_readiness(parts: ReadinessContext) -> str:
    """Check everything again, except credentials and a database that were found good in this run.

    The whole audit is verified first, and again after each fault; otherwise only its new rows.
    """
    live = [venue for venue, lane in parts.execution_policies.items() if lane.is_live]
    parts.readiness.is_outdated = False
    if not live:
        return "nothing is live"
    for venue in live:
        await _check_credentials(parts, venue)
    await count_unsettled_writes(parts)
    parts.readiness.clock = _clock_problem(parts, live)
    if parts.readiness.database:
        parts.readiness.database = await _database_problem(parts.path)
    parts.readiness.audit = await _audit_problem(parts)
    lacking = {venue: parts.readiness.missing_requirements(venue) for venue in live}
    return "; ".join(f"{venue}: {', '.join(what) or 'ready'}" for venue, what in lacking.items())


async def refresh_readiness(parts: ReadinessContext) -> None:
    """Count the unknown writes, which change with each write; check everything where a person changed something."""
    if parts.readiness.is_outdated:
        await check_readiness(parts)
    else:
        await count_unsettled_writes(parts)


async def _check_credentials(parts: ReadinessContext, venue: str) -> None:
    if refused := parts.credential_refusal(venue):
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
        log.exception("credentials cannot be verified", venue=venue)
        parts.readiness.credentials[venue] = f"cannot be verified ({type(error).__name__})"
        return
    parts.readiness.credentials[venue] = ""
    for line in told:
        log.info("credentials", venue=venue, found=line)


def _clock_problem(parts: ReadinessContext, live: Sequence[str]) -> str:
    """Compare the clock, where a live venue is reached over the network; others take files, which carry dates."""
    offset_s = parts.clock_skew()
    if offset_s is None and not any(venue in parts.credentials for venue in live):
        return ""
    return clock_fault(offset_s)


async def count_unsettled_writes(parts: ReadinessContext) -> None:
    """Count the unknown writes at each live venue; those of paper books involve no money."""
    live = {venue: lane for venue, lane in parts.execution_policies.items() if lane.is_live}
    unsettled, strange = dict.fromkeys(live, 0), {venue: Counter[str]() for venue in live}
    submissions = parts.ledger.submissions
    for row in await submissions.batches(states=[*_UNSETTLED_STATES]):
        if row.venue not in live or row.mode is ExecutionMode.PAPER:
            continue
        if row.account != live[row.venue].account:
            strange[row.venue][row.account] += sum(row.counts.get(state, 0) for state in _UNSETTLED_STATES)
            continue
        read = submissions.comments if row.comments else submissions.intents
        for item in await read(row.venue, row.account, row.batch):
            unsettled[row.venue] += item.state in _LOST_STATES and item.planned_at < parts.started_at
    for venue, lane in live.items():
        found = await submissions.count_unsettled(venue, now=parts.clock.now())
        parts.readiness.reconciliation[venue] = unsettled_fault(
            unsettled[venue], found.blocking, strange[venue], most=lane.caps.unknown_writes
        )


async def _audit_problem(parts: ReadinessContext) -> str:
    found = await verify_audit(parts.ledger, parts.path.parent, since=parts.readiness.verified_audit_head)
    parts.readiness.verified_audit_head = found.head if found.sound else AuditHead()
    return "" if found.sound else f"is broken: {found.why}; {BROKEN_AUDIT_REMEDY}"


async def _database_problem(path: Path) -> str:
    try:
        health = await asyncio.to_thread(run_quick_check, path)
    except StoreError as error:
        return str(error)
    return "" if health.sound else f"{path.name} is damaged; restore a backup: foxcast db restore"
