"""What a live venue needs before anything is sent.

Credentials, settled writes, no writes of others on the account, a correct clock, an intact database and audit.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path

import structlog

from bot.core.errors import AuthenticationError, FoxcastError, StoreError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
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

# Halts a venue whose account was written to by others; returns why that cannot be known, or "".
OwnWritesCheck = Callable[[str], Awaitable[str]]

_LOST_STATES = (IntentState.SENDING, IntentState.UNKNOWN)
_UNSETTLED_STATES = (*_LOST_STATES, IntentState.IN_DOUBT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessContext:
    """What the readiness job works with; ``path`` is the ledger file, ``started_at`` when this run began.

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
    check_own_writes: OwnWritesCheck | None = None


async def check_readiness(job: ReadinessContext) -> str:
    """Check everything again, except credentials and a database that were found good in this run.

    The whole audit is verified first, and again after each fault; otherwise only its new rows.
    """
    live = [venue for venue, policy in job.execution_policies.items() if policy.is_live]
    job.readiness.is_outdated = False
    if not live:
        return "nothing is live"
    for venue in live:
        await _check_credentials(job, venue)
    await count_unsettled_writes(job)
    await check_accounts(job)
    job.readiness.clock = _clock_problem(job, live)
    if job.readiness.database:
        job.readiness.database = await _database_problem(job.path)
    job.readiness.audit = await _audit_problem(job)
    missing = {venue: job.readiness.missing_requirements(venue) for venue in live}
    return "; ".join(f"{venue}: {', '.join(what) or 'ready'}" for venue, what in missing.items())


async def refresh_readiness(job: ReadinessContext) -> None:
    """Check what changes with each write, and the clock; check everything where a person changed something."""
    if job.readiness.is_outdated:
        await check_readiness(job)
        return
    await count_unsettled_writes(job)
    await check_accounts(job)
    if live := [venue for venue, policy in job.execution_policies.items() if policy.is_live]:
        job.readiness.clock = _clock_problem(job, live)


async def check_accounts(job: ReadinessContext) -> None:
    """Compare what each live venue lists with what was sent."""
    for venue, policy in job.execution_policies.items():
        if policy.is_live:
            job.readiness.own_writes[venue] = "" if job.check_own_writes is None else await job.check_own_writes(venue)


async def _check_credentials(job: ReadinessContext, venue: str) -> None:
    if refusal := job.credential_refusal(venue):
        job.readiness.credentials[venue] = refusal
        job.readiness.refused_credentials.add(venue)
        return
    job.readiness.refused_credentials.discard(venue)
    if job.readiness.credentials.get(venue) == "":
        return
    check = job.credentials.get(venue)
    if check is None:
        job.readiness.credentials[venue] = ""
        return
    try:
        findings = await check()
    except StoreError:
        raise
    except FoxcastError as error:
        if job.readiness.credentials.get(venue) != str(error):
            log.warning("nothing is submitted", venue=venue, why=str(error))
        job.readiness.credentials[venue] = str(error)
        if isinstance(error, AuthenticationError):
            job.readiness.refused_credentials.add(venue)
        return
    except Exception as error:
        log.exception("credentials cannot be verified", venue=venue)
        job.readiness.credentials[venue] = f"cannot be verified ({type(error).__name__})"
        return
    job.readiness.credentials[venue] = ""
    for line in findings:
        log.info("credentials", venue=venue, found=line)


def _clock_problem(job: ReadinessContext, live: Sequence[str]) -> str:
    """Compare the clock, where a live venue is reached over the network; others take files, which carry dates."""
    offset_s = job.clock_skew()
    if offset_s is None and not any(venue in job.credentials for venue in live):
        return ""
    return clock_fault(offset_s)


async def count_unsettled_writes(job: ReadinessContext) -> None:
    """Count the unknown writes at each live venue; those of paper books involve no money."""
    live = {venue: policy for venue, policy in job.execution_policies.items() if policy.is_live}
    unsettled, other_accounts = dict.fromkeys(live, 0), {venue: Counter[str]() for venue in live}
    submissions = job.ledger.submissions
    for row in await submissions.batches(states=[*_UNSETTLED_STATES]):
        if row.venue not in live or row.mode is ExecutionMode.PAPER:
            continue
        if row.account != live[row.venue].account:
            other_accounts[row.venue][row.account] += sum(row.counts.get(state, 0) for state in _UNSETTLED_STATES)
            continue
        read = submissions.comments if row.comments else submissions.intents
        for item in await read(row.venue, row.account, row.batch):
            unsettled[row.venue] += item.state in _LOST_STATES and item.planned_at < job.started_at
    for venue, policy in live.items():
        found = await submissions.count_unsettled(venue, now=job.clock.now())
        job.readiness.reconciliation[venue] = unsettled_fault(
            unsettled[venue], found.blocking, other_accounts[venue], limit=policy.caps.unknown_writes
        )


async def _audit_problem(job: ReadinessContext) -> str:
    found = await verify_audit(job.ledger, job.path.parent, since=job.readiness.verified_audit_head)
    job.readiness.verified_audit_head = found.head if found.sound else AuditHead()
    return "" if found.sound else f"is broken: {found.why}; {BROKEN_AUDIT_REMEDY}"


async def _database_problem(path: Path) -> str:
    try:
        health = await asyncio.to_thread(run_quick_check, path)
    except StoreError as error:
        return str(error)
    return "" if health.sound else f"{path.name} is damaged; restore a backup: foxcast db restore"
