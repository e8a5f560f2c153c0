"""Determines the outcome of unknown writes by reading back from the venue.

An absence counts only after the fence: a request that may still take effect, or that a reading may not show yet, is not
absent. What no reading settles long after that needs a person and counts as spent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState, SealedRequest, WriteReceipt
from bot.execution.outbox.account_session import AccountSession, checked_receipt, log, receipts_by_intent
from bot.execution.outbox.safety_halts import halt_on_wrong_fills, halt_venue
from bot.store.submissions import AttemptRow, BatchRow, IntentRow

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


async def reconcile_open_order(session: AccountSession, item: IntentRow) -> bool:
    """Read back an accepted order: its fills so far, and after its fence its final cost.

    Returns whether it is closed. Raises the errors of the venue.
    """
    history = (await _read_sealed_histories(session, [item]))[item.intent.id]
    asked_at = session.clock.now()
    found = receipts_by_intent(
        await session.submitter.read_submissions(await session.build_single_batch(item.intent, history.sealed))
    )
    receipt = checked_receipt(item.intent, found.get(item.intent.id))
    if receipt.state not in {IntentState.ACKED, IntentState.ABSENT}:
        return False
    is_over = _is_past_fence(session, history, asked_at)
    if receipt.state is IntentState.ABSENT and await session.ledger.submissions.fills(item.intent.id):
        return is_over and await _keep_contradicted_order(session, item.intent, asked_at)
    if receipt.state is IntentState.ABSENT:
        late = _is_past_fence(session, history, asked_at - LISTING_DELAY)
        return late and await _keep_vanished_order(session, item.intent, asked_at)
    await halt_on_wrong_fills(session, [item.intent], [receipt])
    await session.ledger.submissions.settle([receipt], at=session.clock.now(), as_of=asked_at)
    return is_over


async def _keep_contradicted_order(session: AccountSession, intent: Intent, asked_at: datetime) -> bool:
    """Halt the venue: it does not know an order that was partly filled. Its whole possible cost stays reserved."""
    why = f"the order {intent.id} on {intent.ref} was filled in part by its own account, but the venue does not know it"
    await halt_venue(session, intent.ref.venue, why)
    await session.ledger.submissions.record_last_read(intent.id, as_of=asked_at)
    return True


async def _keep_vanished_order(session: AccountSession, intent: Intent, asked_at: datetime) -> bool:
    """Alert: an accepted order is missing. Others may have filled it, so its whole possible cost stays reserved."""
    message = (
        f"the order {intent.id} on {intent.ref} was accepted, but the venue lists neither it nor a fill; its possible "
        "cost stays reserved: check the venue"
    )
    log.error("not listed", venue=intent.ref.venue, intent=intent.id)
    await session.alert(intent.ref.venue, message)
    await session.ledger.submissions.record_last_read(intent.id, as_of=asked_at)
    return True


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
    histories = await _read_sealed_histories(session, items)
    sealed = [one for item in items for one in histories[item.intent.id].sealed]
    batch = await session.build_batch(row, [item.intent for item in items], sealed)
    asked_at = session.clock.now()
    found = receipts_by_intent(await session.submitter.read_submissions(batch))
    settled = []
    for item in items:
        receipt = checked_receipt(item.intent, found.get(item.intent.id))
        history = histories[item.intent.id]
        if receipt.state is IntentState.ACKED or (
            receipt.state is IntentState.ABSENT and _is_proven_absent(session, item, history, asked_at)
        ):
            settled.append(receipt)
        elif asked_at >= _in_doubt_at(item, history):
            await _mark_in_doubt(session, item, receipt)
    await halt_on_wrong_fills(session, [item.intent for item in items], settled)
    await session.ledger.submissions.settle(settled, at=session.clock.now(), as_of=asked_at)
    return len(settled)


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
