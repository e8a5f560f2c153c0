"""Reconcile the ledger with the venues: unknown writes, a restored ledger, and the accounts.

Unknown writes are read back; after a restore a halt stays until they are known. Paper books are advanced and settled,
every account is read, paper and live, and the payout of each decided question is recorded.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from bot.core.errors import FoxcastError, StoreError
from bot.core.interfaces import Clock, PaperTradingSubmitter, TradingSubmitter, VenueSubmitter
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


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettlementContext:
    """Whose accounts are updated and read: open submitters by venue, the name of each account, and which are paper."""

    ledger: Ledger
    submitters: Mapping[str, VenueSubmitter]
    names: Mapping[str, str]
    clock: Clock
    paper: Collection[str] = ()


async def settle_accounts(parts: AccountSettlementContext) -> str:
    """Settle, advance and read one account after the other; one that fails does not stop the others."""
    settled = advanced = read = 0
    for venue, submitter in parts.submitters.items():
        if isinstance(submitter, PaperTradingSubmitter):
            settled += await _run_logged(venue, "settled", partial(_settle_positions, parts, venue, submitter))
            advanced += await _run_logged(venue, "advanced", submitter.advance)
        if isinstance(submitter, TradingSubmitter):
            read += await _run_logged(venue, "read", partial(_read_account, parts, venue, submitter))
    return f"{settled} positions settled, {advanced} orders advanced, {read} accounts read"


async def _settle_positions(parts: AccountSettlementContext, venue: str, book: PaperTradingSubmitter) -> int:
    known: Sequence[Resolution] = await parts.ledger.submissions.readers.run(
        lambda database: submission_queries.read_paper_outcomes(database, venue)
    )
    return await book.settle(known) if known else 0


async def _read_account(parts: AccountSettlementContext, venue: str, trader: TradingSubmitter) -> int:
    account = await trader.account()
    lane = AccountKey(venue=venue, account=parts.names[venue], paper=venue in parts.paper)
    await parts.ledger.readings.add(venue, lane.account, account, paper=lane.paper)
    await _record_payouts(parts, lane, trader, account)
    return 1


async def _record_payouts(
    parts: AccountSettlementContext, lane: AccountKey, trader: TradingSubmitter, account: Account
) -> None:
    """Record what a share pays of each question decided since the last run.

    A paper book pays some time after the outcome.
    """
    waiting = _held_contracts(account) if lane.paper else set[tuple[str, ContractSide]]()
    found: list[tuple[UnpaidShare, float | UnpaidOutcome]] = [
        (one, trader.payout_per_share(one.position, one.outcome, one.state))
        for one in await parts.ledger.profits.decided(lane)
        if (one.position.contract, one.position.leg) not in waiting
    ]
    if found:
        await parts.ledger.profits.pay(lane, found)


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
