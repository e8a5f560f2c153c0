"""Sends planned intents to the venue, or to its paper book, and determines their outcome.

An intent is committed as ``sending`` before the first byte. The outcome is acknowledged, refused with proof, or
unknown; unknown counts as sent until reading back proves otherwise. Nothing is retried, and each account has one
write under way at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.core.errors import FoxcastError, StoreError, describe_error_with_type
from bot.core.interfaces import Clock, VenueSubmitter
from bot.core.submissions import ExecutionMode, Intent, IntentState
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.readiness import MAX_UNSETTLED_WRITES
from bot.execution.outbox import batch_submission, reconciliation, safety_halts
from bot.execution.outbox.account_session import (
    UNSETTLED_STATES,
    WAITING_STATES,
    AccountSession,
    ClockFault,
    IntentCheck,
    VenueAlert,
    batch_intents,
    log,
    unknown_receipt,
)
from bot.store.ledger import Ledger
from bot.store.submissions import BatchRow, OutcomeAdoption

AccountKey = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReconciliation:
    """Counts of intents after a restore: settled, acknowledgement revoked, still unknown."""

    settled: int
    revoked: int
    doubtful: int


async def _accept_intent(_: Intent) -> str | None:
    return None


def _no_clock_fault() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """``is_batch_ready`` says whether a batch may go now or still waits for forecasts that belong to it.

    Nothing is written while the kill switch is engaged, or while too many writes of the venue are unknown.
    ``pre_send_check`` runs for each intent just before it is written; an intent with an objection goes back to the
    gate. ``modes`` are those in which the submitters were opened: paper intents reach no venue, and real ones no paper
    book. ``accounts`` are those that they write for: intents of another account are not read back through them and stay
    unknown. ``clock_fault`` returns what is wrong with this clock: with a wrong clock no fence counts as passed.
    ``alert`` gets what needs a person; without it an event is recorded. ``max_unsettled`` is by venue. Once
    ``is_stopping`` returns true, the current write ends, and nothing more is begun.
    """

    ledger: Ledger
    submitters: Mapping[str, VenueSubmitter]
    clock: Clock
    kill_switch: KillSwitch
    is_batch_ready: Callable[[BatchRow, datetime], Awaitable[bool]]
    pre_send_check: IntentCheck = _accept_intent
    modes: Mapping[str, ExecutionMode] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    alert: VenueAlert | None = None
    clock_fault: ClockFault = _no_clock_fault
    max_unsettled: Mapping[str, int] = field(default_factory=dict)
    is_stopping: Callable[[], bool] = lambda: False
    _account_locks: dict[AccountKey, asyncio.Lock] = field(default_factory=dict, repr=False)
    # Accounts that are not in use now, whose unknown writes were reported to people.
    _reported_accounts: set[AccountKey] = field(default_factory=set, repr=False)

    async def recover(self) -> int:
        """At start, before anything is sent: mark intents unknown that were being sent when the process died."""
        found = await self._mark_interrupted("the process ended before an answer")
        for venue in self.submitters if found else ():
            await safety_halts.halt_if_too_many_unsettled(self._open_session(venue), venue)
        return found

    async def flush(self) -> int:
        """Send every batch that has waiting intents and is ready; return how many intents were acknowledged.

        Accounts are sent in parallel, the batches of one account one after the other.
        """
        rows: dict[AccountKey, list[BatchRow]] = {}
        for row in await self.ledger.submissions.batches(states=[*WAITING_STATES]):
            if row.venue in self.submitters and (row.comments or UNSETTLED_STATES.isdisjoint(row.counts)):
                rows.setdefault((row.venue, row.account), []).append(row)
        done = await asyncio.gather(*map(self._send_account_batches, rows.values()), return_exceptions=True)
        if errors := [one for one in done if isinstance(one, BaseException)]:
            raise errors[0]
        return sum(one for one in done if isinstance(one, int))

    async def reconcile(self) -> int:
        """Read back unknown writes, and orders that may have been filled; return how many unknown writes were settled.

        Doing it twice changes nothing more. A venue that does not answer only keeps its own intents unknown. A venue
        that was halted for unknown writes resumes once all of them are settled.
        """
        await self._mark_interrupted("the write was broken off before an answer")
        settled = 0
        for row in await self.ledger.submissions.batches(states=[IntentState.UNKNOWN]):
            settled += 0 if self.is_stopping() else await self._read_back(row)
        for item in await self.ledger.submissions.resting():
            venue, account = item.intent.ref.venue, item.intent.account
            if (
                self.is_stopping()
                or venue not in self.submitters
                or not await self._can_read_back(venue, account, item.mode)
            ):
                continue
            async with self._account_lock(venue, account):
                await self._settle_safely(
                    venue, item.intent.batch, reconciliation.reconcile_open_order(self._open_session(venue), item)
                )
        for venue in self.submitters:
            await safety_halts.resume_if_settled(self._open_session(venue), venue)
        return settled

    async def reconcile_after_restore(self) -> RestoreReconciliation:
        """Read back all intents that a restored ledger holds as acknowledged or waiting.

        Waiting intents may have been sent after the backup was made, so they count as sent until they are read back.
        Acknowledged forecasts that the venue no longer has wait again. Raises the error of a venue that cannot answer.
        """
        for row in await self.ledger.submissions.batches(states=[*WAITING_STATES]):
            await self._mark_unknown(row)
        revoked = 0
        for row in await self.ledger.submissions.batches(states=[IntentState.ACKED]):
            if row.comments or row.venue not in self.submitters:
                continue
            if await self._can_read_back(row.venue, row.account, row.mode):
                revoked += await reconciliation.revoke_missing_forecasts(self._open_session(row.venue), row)
        settled = await self.reconcile()
        remaining = await self.ledger.submissions.batches(states=[IntentState.UNKNOWN])
        doubtful = sum(row.counts[IntentState.UNKNOWN] for row in remaining if row.venue in self.submitters)
        return RestoreReconciliation(settled=settled, revoked=revoked, doubtful=doubtful)

    async def adopt(self, adoption: OutcomeAdoption) -> None:
        """Record what a person found for an unknown intent: it exists at the venue (acked), or it does not (absent).

        Raises NotFoundError, and StoreError for an intent that is not unknown, for another state, and for absence while
        the request may still take effect.
        """
        row = await self.ledger.submissions.get(adoption.intent)
        async with self._account_lock(row.intent.ref.venue, row.intent.account):
            await self.ledger.submissions.adopt(adoption, at=self.clock.now())

    async def _mark_unknown(self, row: BatchRow) -> None:
        items = await batch_intents(self.ledger, row)
        waiting = [item.intent for item in items if item.state in WAITING_STATES]
        await self.ledger.submissions.begin_attempt([intent.id for intent in waiting], at=self.clock.now())
        receipts = [unknown_receipt(intent, "it may have been sent since the backup was made") for intent in waiting]
        await self.ledger.submissions.settle(receipts, at=self.clock.now())

    async def _send_account_batches(self, rows: Sequence[BatchRow]) -> int:
        acknowledged = 0
        for row in rows:
            async with self._account_lock(row.venue, row.account):
                session = self._open_session(row.venue)
                if (
                    self.is_stopping()
                    or self.kill_switch.halt_reason()
                    or await safety_halts.halt_if_too_many_unsettled(session, row.venue)
                ):
                    break
                if row.comments:
                    acknowledged += await batch_submission.submit_comments(session, row)
                elif await self.is_batch_ready(row, self.clock.now()):
                    acknowledged += await batch_submission.submit_batch(session, row)
        for venue in dict.fromkeys(row.venue for row in rows):
            await safety_halts.halt_if_too_many_unsettled(self._open_session(venue), venue)
        return acknowledged

    async def _read_back(self, row: BatchRow) -> int:
        if row.venue not in self.submitters or not await self._can_read_back(row.venue, row.account, row.mode):
            return 0
        async with self._account_lock(row.venue, row.account):
            return await self._settle_safely(
                row.venue, row.batch, reconciliation.reconcile_batch(self._open_session(row.venue), row)
            )

    async def _can_read_back(self, venue: str, account: str, mode: ExecutionMode) -> bool:
        """Return whether the submitter in use can read back intents of that account and mode."""
        session = self._open_session(venue)
        if session.handles(mode, account):
            return True
        if session.account not in {None, account} and (venue, account) not in self._reported_accounts:
            self._reported_accounts.add((venue, account))
            await session.alert(
                venue,
                f"there are submissions under the account {account}, but {session.account} is in use "
                f"now: their outcome cannot be read back, and their possible cost stays reserved",
            )
        return False

    async def _settle_safely(self, venue: str, batch: str, read: Awaitable[int]) -> int:
        """Await a reading; a venue that cannot be read settles nothing."""
        try:
            return await read
        except StoreError:
            raise
        except FoxcastError as error:
            log.warning("cannot be read back", venue=venue, batch=batch, error=str(error))
        except Exception as error:  # noqa: BLE001 - an error of one plugin must not stop reading other venues
            log.error("cannot be read back", venue=venue, batch=batch, error=describe_error_with_type(error))
        return 0

    async def _mark_interrupted(self, detail: str) -> int:
        """Mark intents unknown that are recorded as being sent while no write of their account is under way."""
        rows = await self.ledger.submissions.sending()
        accounts = dict.fromkeys((row.intent.ref.venue, row.intent.account) for row in rows)
        return sum([await self._mark_account_interrupted(account, detail) for account in accounts])

    async def _mark_account_interrupted(self, account: AccountKey, detail: str) -> int:
        async with self._account_lock(*account):
            rows = await self.ledger.submissions.sending()
            interrupted = [row.intent for row in rows if (row.intent.ref.venue, row.intent.account) == account]
            for intent in interrupted:
                at = self.clock.now()
                await self.ledger.submissions.move_intent(intent.id, IntentState.UNKNOWN, detail=detail, at=at)
            return len(interrupted)

    def _account_lock(self, venue: str, account: str) -> asyncio.Lock:
        return self._account_locks.setdefault((venue, account), asyncio.Lock())

    def _open_session(self, venue: str) -> AccountSession:
        return AccountSession(
            ledger=self.ledger,
            submitter=self.submitters[venue],
            clock=self.clock,
            kill_switch=self.kill_switch,
            pre_send_check=self.pre_send_check,
            alert=self.alert or self._record_alert,
            clock_fault=self.clock_fault,
            mode=self.modes.get(venue),
            account=self.accounts.get(venue),
            max_unsettled=self.max_unsettled.get(venue, MAX_UNSETTLED_WRITES),
            is_stopping=self.is_stopping,
        )

    async def _record_alert(self, venue: str, text: str) -> None:
        await self.ledger.events.add_event("alert", f"{venue}: {text}", at=self.clock.now())
