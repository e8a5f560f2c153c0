"""Reconcile the ledger with the venues: unknown writes, a restored ledger, and the accounts.

Unknown writes are read back; after a restore a halt stays until they are known. Paper books are advanced and settled,
every account is read, paper and live, and the payout of each decided question is recorded.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import structlog

from bot.core.errors import FoxcastError, StoreError
from bot.core.interfaces import Clock, PaperTradingSubmitter, TradingSubmitter, VenueSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.orders import Account, ContractSide, UnpaidOutcome
from bot.core.outcomes import Resolution
from bot.core.submissions import ExecutionMode
from bot.execution.gate.gate import ExecutionPolicy
from bot.execution.outbox.outbox import Outbox, RestoreReconciliation
from bot.store import submission_queries
from bot.store.accounts import AccountKey, UnpaidShare
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


async def reconcile_restored_ledger(job: RestoredLedgerContext) -> None:
    """Bring a restored ledger in line with the venues, and record the result; nothing to do for any other ledger.

    Paper books hold nothing that the ledger did not write, so once every unknown write is settled the halt ends. A
    venue that is used for more than paper may hold what the backup never knew; a person must look there first.
    """
    mark = read_restore_mark(job.path)
    if mark is None:
        return
    try:
        found = await job.outbox.reconcile_after_restore()
    except StoreError:
        raise
    except FoxcastError as error:
        blocking_reason: str | None = f"a venue does not answer ({error}); restart to ask again"
        summary = "the state of the venue is unknown"
    else:
        blocking_reason = _blocking_reason(job, found)
        summary = (
            f"{found.settled} unknown writes settled, {found.revoked} acknowledged writes not at the venue any more"
        )
    if blocking_reason is None:
        acknowledge_restore(job.path)
    text = f"{mark.backup.name}: {summary}; " + (
        f"nothing is submitted: {blocking_reason}" if blocking_reason else "submissions continue"
    )
    restore_log.warning("ledger was restored", detail=text)
    await job.ledger.events.add_event(RESTORED_EVENT, text, at=job.clock.now())


def _blocking_reason(job: RestoredLedgerContext, found: RestoreReconciliation) -> str | None:
    """Return what keeps the halt in force, or nothing."""
    if found.doubtful:
        return f"{found.doubtful} writes are still unknown; restart to ask again"
    real_venues = [policy.venue for policy in job.execution_policies.values() if policy.mode is not ExecutionMode.PAPER]
    if real_venues:
        mark = restore_mark_path(job.path)
        return f"check {', '.join(real_venues)} for what was sent since that backup, then delete {mark}"
    return None


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettlementContext:
    """The accounts that are updated and read: open submitters and account names by venue, and the paper venues."""

    ledger: Ledger
    submitters: Mapping[str, VenueSubmitter]
    names: Mapping[str, str]
    clock: Clock
    paper: Collection[str] = ()


async def settle_accounts(job: AccountSettlementContext) -> str:
    """Settle, advance and read one account after the other; one that fails does not stop the others."""
    settled = advanced = read = 0
    for venue, submitter in job.submitters.items():
        if isinstance(submitter, PaperTradingSubmitter):
            settled += await _run_logged(venue, "settled", partial(_settle_positions, job, venue, submitter))
            advanced += await _run_logged(venue, "advanced", submitter.advance)
        if isinstance(submitter, TradingSubmitter):
            read += await _run_logged(venue, "read", partial(_read_account, job, venue, submitter))
    return f"{settled} positions settled, {advanced} orders advanced, {read} accounts read"


async def _settle_positions(job: AccountSettlementContext, venue: str, book: PaperTradingSubmitter) -> int:
    known: Sequence[Resolution] = await job.ledger.submissions.readers.run(
        lambda database: submission_queries.read_paper_outcomes(database, venue)
    )
    return await book.settle(known) if known else 0


async def _read_account(job: AccountSettlementContext, venue: str, submitter: TradingSubmitter) -> int:
    account = await submitter.account()
    policy = AccountKey(venue=venue, account=job.names[venue], paper=venue in job.paper)
    await job.ledger.readings.add(venue, policy.account, account, paper=policy.paper)
    await _record_payouts(job, policy, submitter, account)
    await job.ledger.profits.close_markets(policy, now=job.clock.now(), redeems=account.redeems)
    return 1


async def _record_payouts(
    job: AccountSettlementContext, policy: AccountKey, submitter: TradingSubmitter, account: Account
) -> None:
    """Record what a share pays of each question decided since the last run.

    A paper book pays some time after the outcome.
    """
    held = _held_contracts(account) if policy.paper else set[tuple[str, ContractSide]]()
    found: list[tuple[UnpaidShare, float | UnpaidOutcome]] = [
        (one, submitter.payout_per_share(one.position, one.outcome, one.state))
        for one in await job.ledger.profits.decided(policy)
        if (one.position.contract, one.position.leg) not in held
    ]
    if found:
        await job.ledger.profits.pay(policy, found)


def _held_contracts(account: Account) -> set[tuple[str, ContractSide]]:
    return {(one.contract, one.leg) for one in account.positions}


async def _run_logged(venue: str, what: str, work: Callable[[], Awaitable[int]]) -> int:
    """Return the count from the work, or 0 where the venue or its plugin failed."""
    try:
        return await work()
    except StoreError:
        raise
    except FoxcastError as error:
        log.warning("account cannot be updated", venue=venue, not_done=what, error=str(error))
    except Exception:
        log.exception("account cannot be updated", venue=venue, not_done=what)
    return 0
