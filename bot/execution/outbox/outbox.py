"""Sends planned intents to the venue, or to its paper book, and determines their outcome.

An intent is committed as ``sending`` before the first byte. The outcome is acknowledged, refused with proof, or
unknown; unknown counts as sent until reading back proves otherwise. Nothing is retried, and each account has one
write under way at a time.

Reading back counts an absence only after the fence: a request that may still take effect, or that a reading may not
show yet, is not absent. What no reading settles long after that needs a person and counts as spent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from bot.core.concurrency import reject_unrequested_cancellation
from bot.core.errors import FoxcastError, StoreError, describe_error_with_type
from bot.core.interfaces import Clock, VenueSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState, SealedRequest, WriteReceipt
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.readiness import MAX_UNSETTLED_WRITES
from bot.execution.outbox import batch_submission, safety_halts
from bot.execution.outbox.account_session import (
    UNSETTLED_STATES,
    WAITING_STATES,
    AccountSession,
    ClockFault,
    IntentCheck,
    VenueAlert,
    batch_intents,
    checked_receipt,
    log,
    receipts_by_intent,
    unknown_receipt,
)
from bot.execution.outbox.safety_halts import halt_on_wrong_fills, halt_venue
from bot.store.event_log import ALERT_EVENT
from bot.store.ledger import Ledger
from bot.store.submissions import AttemptRow, BatchRow, IntentRow, OutcomeAdoption

# An intent that readings cannot settle is marked in doubt this long after its fence, or after it became unknown.
IN_DOUBT_AFTER = timedelta(hours=1)
# Lists may show an accepted order late; this long after its fence it is no longer expected.
LISTING_DELAY = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SealedHistory:
    """The requests of one intent, newest first; ``is_complete``: every open attempt has one."""

    sealed: tuple[SealedRequest, ...]
    is_complete: bool

    @property
    def fence(self) -> datetime | None:
        """The moment after which none of them can take effect, None if any reading is proof."""
        return max((one.fence for one in self.sealed if one.fence is not None), default=None)


async def reconcile_batch(session: AccountSession, row: BatchRow) -> int:
    """Read back the unknown intents of a batch; return how many were settled. Raises the errors of the venue."""
    items = [item for item in await session.read_intents(row) if item.state is IntentState.UNKNOWN]
    groups = [[item] for item in items] if row.comments else [items]
    settled = 0
    for group in groups:
        settled += await _reconcile_intents(session, row, group) if group else 0
    return settled


async def reconcile_open_order(session: AccountSession, item: IntentRow) -> None:
    """Read back an accepted order: its fills so far, and after its fence its final cost; raises the venue's errors."""
    history = (await _read_sealed_histories(session, [item]))[item.intent.id]
    asked_at = session.clock.now()
    found = receipts_by_intent(
        await session.submitter.read_submissions(await session.build_single_batch(item.intent, history.sealed))
    )
    receipt = checked_receipt(item.intent, found.get(item.intent.id))
    if receipt.state is IntentState.ACKED:
        await halt_on_wrong_fills(session, [item.intent], [receipt])
        await session.ledger.submissions.settle([receipt], at=session.clock.now(), as_of=asked_at)
    elif receipt.state is IntentState.ABSENT and await session.ledger.submissions.fills(item.intent.id):
        if _is_past_fence(session, history, asked_at):
            await _keep_contradicted_order(session, item.intent, asked_at)
    elif receipt.state is IntentState.ABSENT and _is_past_fence(session, history, asked_at - LISTING_DELAY):
        await _keep_vanished_order(session, item.intent, asked_at)


async def _keep_contradicted_order(session: AccountSession, intent: Intent, asked_at: datetime) -> None:
    """Halt the venue: it does not know an order that was partly filled. Its whole possible cost stays reserved."""
    why = f"the order {intent.id} on {intent.ref} was filled in part by its own account, but the venue does not know it"
    await halt_venue(session, intent.ref.venue, why)
    await session.ledger.submissions.record_last_read(intent.id, as_of=asked_at)


async def _keep_vanished_order(session: AccountSession, intent: Intent, asked_at: datetime) -> None:
    """Alert: an accepted order is missing. Others may have filled it, so its cost stays reserved; a person looks."""
    message = (
        f"the order {intent.id} on {intent.ref} was accepted, but the venue lists neither it nor a fill; its possible "
        f"cost stays reserved: check the venue; if nothing was filled: foxcast orders adopt {intent.id} --absent"
    )
    log.error("not listed", venue=intent.ref.venue, intent=intent.id)
    await session.alert(intent.ref.venue, message)
    await session.ledger.submissions.record_last_read(intent.id, as_of=asked_at)


async def revoke_missing_forecasts(session: AccountSession, row: BatchRow) -> int:
    """Revoke acknowledgements of forecasts that the venue no longer has, after a restore; return how many.

    An accepted order is never written again, nor is a comment.
    """
    items = [item for item in await session.read_intents(row) if item.state is IntentState.ACKED]
    intents = [item.intent for item in items if item.intent.action is IntentAction.FORECAST]
    if not intents:
        return 0
    histories = await _read_sealed_histories(session, items)
    sealed = [one for intent in intents for one in histories[intent.id].sealed]
    found = receipts_by_intent(
        await session.submitter.read_submissions(await session.build_batch(row, intents, sealed))
    )
    missing = [one.id for one in intents if one.id in found and found[one.id].state is IntentState.ABSENT]
    detail = "read back after a restore: the venue does not have it"
    await session.ledger.submissions.revoke_acknowledgements(missing, detail=detail, at=session.clock.now())
    return len(missing)


async def _reconcile_intents(session: AccountSession, row: BatchRow, items: Sequence[IntentRow]) -> int:
    """Read back intents and settle those that the reading shows; return how many.

    What should be settled by now is read once more before it is marked in doubt, so that one bad reading decides
    nothing, not even the first after a long pause.
    """
    histories = await _read_sealed_histories(session, items)
    settled, unclear = await _settle_by_reading(session, row, items, histories)
    asked_at = session.clock.now()
    overdue = [item for item, _ in unclear if asked_at >= _in_doubt_at(item, histories[item.intent.id])]
    if not overdue:
        return settled
    late, still_unclear = await _settle_by_reading(session, row, overdue, histories)
    for item, receipt in still_unclear:
        await _mark_in_doubt(session, item, receipt)
    return settled + late


async def _settle_by_reading(
    session: AccountSession, row: BatchRow, items: Sequence[IntentRow], histories: Mapping[str, _SealedHistory]
) -> tuple[int, list[tuple[IntentRow, WriteReceipt]]]:
    """Return how many intents one reading settled, and the others with their receipts."""
    sealed = [one for item in items for one in histories[item.intent.id].sealed]
    batch = await session.build_batch(row, [item.intent for item in items], sealed)
    asked_at = session.clock.now()
    found = receipts_by_intent(await session.submitter.read_submissions(batch))
    settled, unclear = [], []
    for item in items:
        receipt = checked_receipt(item.intent, found.get(item.intent.id))
        if receipt.state is IntentState.ACKED or (
            receipt.state is IntentState.ABSENT
            and _is_proven_absent(session, item, histories[item.intent.id], asked_at)
        ):
            settled.append(receipt)
        else:
            unclear.append((item, receipt))
    await halt_on_wrong_fills(session, [item.intent for item in items], settled)
    await session.ledger.submissions.settle(settled, at=session.clock.now(), as_of=asked_at)
    return len(settled), unclear


def _is_proven_absent(session: AccountSession, item: IntentRow, history: _SealedHistory, asked_at: datetime) -> bool:
    """Return whether an absence read at that moment is final.

    If a request is not on record, only a paper book can tell: it knows intents, not tags.
    """
    if session.sealing_submitter is not None and not history.is_complete and item.mode is not ExecutionMode.PAPER:
        return False
    return history.fence is None or _is_past_fence(session, history, asked_at)


def _is_past_fence(session: AccountSession, history: _SealedHistory, moment: datetime) -> bool:
    """Return whether there is a fence and the moment is past it; false while the clock is wrong."""
    return history.fence is not None and moment >= history.fence and not session.clock_fault()


def _in_doubt_at(item: IntentRow, history: _SealedHistory) -> datetime:
    return max(item.changed_at, history.fence or item.changed_at) + IN_DOUBT_AFTER


async def _mark_in_doubt(session: AccountSession, item: IntentRow, receipt: WriteReceipt) -> None:
    detail = receipt.detail or "reading back does not show whether it arrived"
    await session.ledger.submissions.move_intent(
        item.intent.id, IntentState.IN_DOUBT, detail=detail, at=session.clock.now()
    )
    message = (
        f"intent {item.intent.id} on {item.intent.ref} is in doubt and counts as spent ({detail}); "
        "check the venue, then: foxcast orders adopt"
    )
    log.error("intent in doubt", venue=item.intent.ref.venue, intent=item.intent.id, detail=detail)
    await session.alert(item.intent.ref.venue, message)


async def _read_sealed_histories(session: AccountSession, items: Sequence[IntentRow]) -> Mapping[str, _SealedHistory]:
    names = [item.intent.id for item in items]
    attempts = await session.ledger.submissions.attempts(names)
    return {name: _sealed_history([one for one in attempts if one.intent == name]) for name in names}


def _sealed_history(attempts: Sequence[AttemptRow]) -> _SealedHistory:
    open_ = [one for one in attempts if one.state in {IntentState.SENDING, IntentState.UNKNOWN}]
    return _SealedHistory(
        sealed=tuple(one.sealed for one in attempts if one.sealed is not None),
        is_complete=all(one.sealed is not None for one in open_),
    )


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
    """Sends the batches of all venues, one write at a time for each account.

    ``is_batch_ready`` says whether a batch may be sent now or still waits for forecasts that belong to it.

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
        for venue in self.submitters:
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
            if not self.is_stopping() and await self._can_read_back(venue, account, item.mode):
                async with self._account_lock(venue, account):
                    reading = reconcile_open_order(self._open_session(venue), item)
                    await self._settle_safely(venue, item.intent.batch, reading)
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
            if not row.comments and await self._can_read_back(row.venue, row.account, row.mode):
                revoked += await revoke_missing_forecasts(self._open_session(row.venue), row)
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
        if not await self._can_read_back(row.venue, row.account, row.mode):
            return 0
        async with self._account_lock(row.venue, row.account):
            return await self._settle_safely(row.venue, row.batch, reconcile_batch(self._open_session(row.venue), row))

    async def _can_read_back(self, venue: str, account: str, mode: ExecutionMode) -> bool:
        """Return whether a submitter is in use that can read back intents of that account and mode."""
        if venue not in self.submitters:
            return False
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

    async def _settle_safely(self, venue: str, batch: str, read: Awaitable[int | None]) -> int:
        """Await a reading; a venue that cannot be read settles nothing."""
        try:
            with reject_unrequested_cancellation("the writer"):
                return await read or 0
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
                if intent.order is not None and intent.order.closing:
                    # Who sold it would have reported it.
                    text = f"{intent.order.closing}: order {intent.id} was being sent; {detail}; see: foxcast orders"
                    await self._report(intent.ref.venue, text)
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
            alert=self._report,
            clock_fault=self.clock_fault,
            mode=self.modes.get(venue),
            account=self.accounts.get(venue),
            max_unsettled=self.max_unsettled.get(venue, MAX_UNSETTLED_WRITES),
            is_stopping=self.is_stopping,
        )

    async def _report(self, venue: str, text: str) -> None:
        if self.alert is not None:
            await self.alert(venue, text)
            return
        await self.ledger.events.add_event(ALERT_EVENT, f"{venue}: {text}", at=self.clock.now())
