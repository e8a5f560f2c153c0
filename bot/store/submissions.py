"""Submissions: decisions, intents, attempts and fills in one store.

An intent is stored before anything is sent; unless proved refused or absent, it counts as sent.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlite_utils import Database

from bot.core.errors import StoreError
from bot.core.ids import derive_id
from bot.core.light_dataclass import dataclass
from bot.core.orders import Fill
from bot.core.questions import QuestionRef
from bot.core.submissions import (
    FINAL_INTENT_STATES,
    ExecutionMode,
    GateDecision,
    Intent,
    IntentAction,
    IntentState,
    ListedWrite,
    SealedRequest,
    WriteReceipt,
)
from bot.store import decisions, intents, permissions, submission_attempts
from bot.store.connections import TransactionRunner
from bot.store.decisions import DecisionRow, DecisionRule
from bot.store.intents import (
    AT_STAKE_STATES,
    NEXT_INTENT_STATES,
    SELECT_INTENT,
    BatchRow,
    IntentRow,
    read_standing_intent,
)
from bot.store.serialization import format_timestamp, sanitize_text
from bot.store.submission_attempts import AttemptRow, UnsettledWrites, WriteAuditEvent, WriteAuditor

__all__ = [
    "AT_STAKE_STATES",
    "NEXT_INTENT_STATES",
    "AttemptRow",
    "BatchRow",
    "DecisionRow",
    "DecisionRule",
    "IntentRow",
    "OutcomeAdoption",
    "SubmissionStore",
    "UnsettledWrites",
    "read_standing_intent",
]
_SENDING_INTENTS = f"{SELECT_INTENT} where i.state = 'sending' order by i.seq"
# An order that did not arrive is decided again: this many times at once, then after a delay that doubles.
IMMEDIATE_RETRIES, FIRST_RETRY_DELAY, MAX_RETRY_DELAY = 3, timedelta(minutes=1), timedelta(minutes=15)
_UNSETTLED_STATES = frozenset({IntentState.UNKNOWN, IntentState.IN_DOUBT})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeAdoption:
    """The outcome of an intent as reported by a person who looked at the venue: acknowledged or absent.

    An accepted order that the venue lists no more is absent if nothing more was filled; then it costs what its fills
    did. ``reference`` is the id of the order at the venue, if it is there.
    """

    intent: str
    state: IntentState
    by: str
    why: str = ""
    reference: str = ""


def _ignore_audit_event(_database: Database, _event: WriteAuditEvent) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class SubmissionStore:
    """Decisions, intents, attempts and fills; the ``auditor`` records each live write in the same transaction."""

    writer: TransactionRunner
    readers: TransactionRunner
    auditor: WriteAuditor = _ignore_audit_event

    async def decide(self, *, forecast_id: str, decision: GateDecision, at: datetime) -> GateDecision:
        """Store a decision; to send, also plan its intent and supersede the waiting intents of the question.

        While an earlier intent of the question may be at the venue, a decision to send is stored as a hold. An intent
        that was superseded before is planned under another id. Returns the decision as stored.
        """
        return await self.writer.run(lambda database: decisions.store_decision(database, forecast_id, decision, at))

    async def decide_by(self, rule: DecisionRule, *, forecast_id: str, at: datetime) -> GateDecision:
        """Decide within the transaction that stores the decision (for cap usage); else like ``decide``.

        The rule may run twice and must only read. Its errors are raised here, and nothing is stored.
        """
        return await self.writer.run(
            lambda database: decisions.store_decision(database, forecast_id, rule(database), at)
        )

    async def decisions(self, forecast_id: str) -> list[DecisionRow]:
        """Return all decisions about a forecast, oldest first."""
        return await self.readers.run(lambda database: decisions.read_decisions(database, forecast_id))

    async def batches(self, *, states: Sequence[IntentState]) -> list[BatchRow]:
        """Return the batches with an intent in one of the states, soonest close first, comments last."""
        return await self.readers.run(lambda database: intents.list_batches(database, states))

    async def intents(self, venue: str, account: str, batch: str, *, paper: bool | None = None) -> list[IntentRow]:
        """Return, by question, the newest intent that is neither refused nor superseded, except comments.

        ``paper`` chooses paper or real intents; None means both.
        """
        return await self.readers.run(
            lambda database: intents.list_batch_intents(database, venue, account, batch, paper=paper)
        )

    async def comments(self, venue: str, account: str, batch: str) -> list[IntentRow]:
        """Return the comments that are neither refused nor superseded, oldest first."""
        return await self.readers.run(lambda database: intents.list_batch_comments(database, venue, account, batch))

    async def parent_intent_state(self, comment_id: str) -> IntentState | None:
        """Return the state of the forecast or order of a comment, None if there is none."""
        return await self.readers.run(lambda database: decisions.read_parent_intent_state(database, comment_id))

    async def get(self, intent_id: str) -> IntentRow:
        """Return one intent; raises NotFoundError."""
        return await self.readers.run(lambda database: intents.read_intent(database, intent_id))

    async def read_standing(self, ref: QuestionRef, account: str, *, paper: bool | None = None) -> Intent | None:
        """Return the newest intent of the question that is neither refused nor superseded, except comments.

        ``paper`` chooses paper or real intents; None means both.
        """
        return await self.readers.run(lambda database: read_standing_intent(database, ref, account, paper=paper))

    async def sending(self) -> list[IntentRow]:
        """Return the intents being sent; at start, the outcome of each is unknown."""
        return await self.readers.run(lambda database: intents.read_intent_rows(database, _SENDING_INTENTS))

    async def resting(self) -> list[IntentRow]:
        """Return the acknowledged orders that may still be filled, or were not read back since their fence."""
        return await self.readers.run(submission_attempts.read_resting_orders)

    async def count_unsettled(self, venue: str, *, now: datetime) -> UnsettledWrites:
        """Count the live writes at a venue with an unknown outcome since a person last resumed it."""
        return await self.readers.run(lambda database: submission_attempts.count_unsettled_writes(database, venue, now))

    async def foreign_writes(self, venue: str, listed: Sequence[ListedWrite]) -> list[ListedWrite]:
        """Return what the venue lists and this ledger did not write, oldest first; writes that may be ours are not."""
        return await self.readers.run(lambda database: submission_attempts.find_foreign_writes(database, venue, listed))

    async def last_look(self, venue: str, *, now: datetime) -> datetime | None:
        """Return when a person last knew what the account had done: resumed the venue, or restored the ledger."""
        return await self.readers.run(lambda database: submission_attempts.read_last_look(database, venue, now))

    async def attempts(self, intent_ids: Sequence[str]) -> list[AttemptRow]:
        """Return the attempts of the intents with their requests, newest first."""
        return await self.readers.run(lambda database: submission_attempts.read_attempts(database, intent_ids))

    async def is_unlisted(self, intent_id: str) -> bool:
        """Return whether it is an accepted order that its venue lists no more, so that its cost stays reserved."""
        return await self.readers.run(lambda database: submission_attempts.is_unlisted_order(database, intent_id))

    async def fills(self, intent_id: str) -> list[Fill]:
        """Return the fills of an order, oldest first."""
        return await self.readers.run(lambda database: submission_attempts.read_fills(database, intent_id))

    async def begin_attempt(
        self, intent_ids: Sequence[str], *, at: datetime, sealed: Sequence[SealedRequest] = ()
    ) -> list[str]:
        """Mark waiting intents (planned, ready or proved absent) as being sent; return the ids of the attempts.

        Stores their requests with the attempts, all or none: raises StoreError if one does not wait, and
        MalformedDataError for a tag that another intent of the account has. On return it is durable: the intents may be
        sent.
        """
        requests = {one.intent: one for one in sealed}
        return await self.writer.run(
            lambda database: [self._begin(database, one, requests.get(one), at) for one in intent_ids]
        )

    async def refuse(self, intent_ids: Sequence[str], *, why: str, at: datetime) -> None:
        """Record, as an attempt that was never sent, that waiting intents are refused."""

        def work(database: Database) -> None:
            for one in intent_ids:
                submission_attempts.begin_attempt(database, one, None, at)
                receipt = WriteReceipt(intent=one, state=IntentState.REFUSED, detail=why)
                intents.move_intent(database, one, IntentState.REFUSED, detail=why, at=format_timestamp(at))
                submission_attempts.settle_attempt(database, receipt, format_timestamp(at))
                row = intents.read_intent(database, one)
                if row.mode is not ExecutionMode.PAPER:
                    self.auditor(database, submission_attempts.refusal_audit_event(receipt, row.intent.ref.venue, at))

        await self.writer.run(work)

    async def settle(self, receipts: Sequence[WriteReceipt], *, at: datetime, as_of: datetime | None = None) -> None:
        """Record the outcomes of intents; a final state does not change. Raises StoreError for an illegal move.

        ``as_of`` is when the venue was asked, if not now: an order that was read back at its fence or later costs
        exactly the sum of its fills. An absent order is superseded, and the gate decides about its forecast again.
        """
        asked_at = at if as_of is None else as_of
        await self.writer.run(lambda database: self._settle(database, receipts, at, asked_at))

    async def record_last_read(self, intent_id: str, *, as_of: datetime) -> None:
        """Record the last read of an acknowledged order; its cost stays at its maximum."""
        await self.writer.run(
            lambda database: submission_attempts.record_order_read(database, intent_id, format_timestamp(as_of))
        )

    async def move_intent(self, intent_id: str, state: IntentState, detail: str, at: datetime) -> None:
        """Move one intent to a state; its current state changes nothing. Raises StoreError for an illegal move."""
        receipt = WriteReceipt(intent=intent_id, state=state, detail=detail)
        await self.writer.run(lambda database: self._mark(database, receipt, at))

    async def abandon(self, intent_id: str, *, why: str, at: datetime, until: datetime | None = None) -> None:
        """Supersede a waiting intent; the gate decides about its forecast again, at once or at ``until``.

        Raises StoreError for an intent that does not wait.
        """
        await self.writer.run(lambda database: decisions.abandon_intent(database, intent_id, why, at, until=until))

    async def adopt(self, adoption: OutcomeAdoption, *, at: datetime) -> None:
        """Record the outcome that a person reports for an intent that is unknown or in doubt, or is listed no more.

        Raises NotFoundError, and StoreError for an intent in another state, for an outcome other than acknowledged or
        absent, and for absence while the request may still take effect.
        """
        await self.writer.run(lambda database: self._adopt(database, adoption, at))

    async def revoke_acknowledgements(self, intent_ids: Sequence[str], *, detail: str, at: datetime) -> None:
        """Revoke acknowledgements in a restored ledger, for intents that the venue does not have.

        They are then proved absent and wait to be sent again. Raises StoreError for one that was not acknowledged.
        """
        await self.writer.run(lambda database: _revoke_acknowledgements(database, intent_ids, detail, at))

    def _begin(self, database: Database, intent_id: str, sealed: SealedRequest | None, at: datetime) -> str:
        attempt = submission_attempts.begin_attempt(database, intent_id, sealed, at)
        row = intents.read_intent(database, intent_id)
        if row.mode is not ExecutionMode.PAPER:
            # From here on the approved intent may have been sent.
            permissions.use_approval(database, row.intent.forecast)
            self.auditor(database, submission_attempts.write_audit_event(attempt, row.intent, row.mode, at))
        return derive_id("attempt", intent_id, str(attempt.number))

    def _settle(self, database: Database, receipts: Sequence[WriteReceipt], at: datetime, as_of: datetime) -> None:
        for receipt in receipts:
            if intents.read_intent_state(database, receipt.intent) not in FINAL_INTENT_STATES:
                self._mark(database, receipt, at, as_of)
            _record_order_costs(database, receipt, as_of)

    def _mark(self, database: Database, receipt: WriteReceipt, at: datetime, as_of: datetime | None = None) -> None:
        row = intents.read_intent(database, receipt.intent)
        if row.state is receipt.state:
            return
        if receipt.state is IntentState.SENDING:
            message = f"intent {receipt.intent} cannot go to {receipt.state} except by an attempt"
            raise StoreError(message)
        intents.move_intent(database, receipt.intent, receipt.state, detail=receipt.detail, at=format_timestamp(at))
        if receipt.state in submission_attempts.ANSWERED_STATES:
            submission_attempts.settle_attempt(database, receipt, format_timestamp(as_of or at))
            if row.mode is not ExecutionMode.PAPER:
                self.auditor(database, submission_attempts.answer_audit_event(receipt, row.intent.ref.venue, at))
        _return_absent_order(database, row.intent, receipt, at)

    def _adopt(self, database: Database, adoption: OutcomeAdoption, at: datetime) -> None:
        row = intents.read_intent(database, adoption.intent)
        _require_adoptable(database, row, adoption, at)
        detail = f"{adoption.by} says so" + (f": {adoption.why}" if adoption.why else "")
        receipt = WriteReceipt(
            intent=adoption.intent, state=adoption.state, reference=adoption.reference, detail=detail
        )
        if row.state is IntentState.ACKED:
            submission_attempts.finish_order(database, adoption.intent, format_timestamp(at))
        else:
            intents.force_intent_state(
                database, adoption.intent, adoption.state, detail=detail, at=format_timestamp(at)
            )
            submission_attempts.settle_attempt(database, receipt, format_timestamp(at))
            submission_attempts.schedule_order_read(database, adoption.intent, at)
            _return_absent_order(database, row.intent, receipt, at)
        body = {
            "intent": adoption.intent,
            "was": row.state.value,
            "state": adoption.state.value,
            "reference": sanitize_text(adoption.reference),
            "why": sanitize_text(adoption.why),
        }
        self.auditor(
            database, WriteAuditEvent(at=at, kind="adopt", venue=row.intent.ref.venue, actor=adoption.by, body=body)
        )


def _return_absent_order(database: Database, intent: Intent, receipt: WriteReceipt, at: datetime) -> None:
    """Abandon an absent order: the market has moved since, so the gate must decide again."""
    if receipt.state is IntentState.ABSENT and intent.action is IntentAction.ORDER:
        why = f"the order {intent.id} did not arrive" + (f" ({receipt.detail})" if receipt.detail else "")
        decisions.abandon_intent(
            database,
            intent.id,
            why,
            at,
            until=at + _retry_delay(submission_attempts.count_absent_attempts(database, intent.forecast)),
        )


def _retry_delay(absent: int) -> timedelta:
    """Return the delay before the next order of a forecast after this many absent ones."""
    late = absent - IMMEDIATE_RETRIES - 1
    return timedelta() if late < 0 else min(FIRST_RETRY_DELAY * 2 ** min(late, 10), MAX_RETRY_DELAY)


def _record_order_costs(database: Database, receipt: WriteReceipt, as_of: datetime) -> None:
    """Store the fills of an acknowledged order; once it cannot be filled any more, set its final cost."""
    row = intents.read_intent(database, receipt.intent)
    if row.intent.action is not IntentAction.ORDER or row.state is not IntentState.ACKED:
        return
    submission_attempts.add_fills(database, receipt.intent, receipt.fills)
    sealed = submission_attempts.read_attempts(database, [receipt.intent])[0].sealed
    fence = None if sealed is None else sealed.fence
    if (fence is None and receipt.fills) or (fence is not None and as_of >= fence):
        submission_attempts.finish_order(database, receipt.intent, format_timestamp(as_of))


def _require_adoptable(database: Database, row: IntentRow, adoption: OutcomeAdoption, at: datetime) -> None:
    if adoption.state is IntentState.ABSENT and submission_attempts.is_unlisted_order(database, adoption.intent):
        return
    if row.state not in _UNSETTLED_STATES:
        message = f"the order {adoption.intent} is {row.state}, so its outcome cannot be reported"
        raise StoreError(message)
    if adoption.state not in {IntentState.ACKED, IntentState.ABSENT}:
        message = f"report the order {adoption.intent} as acked or absent; {adoption.state} settles nothing"
        raise StoreError(message)
    attempts = submission_attempts.read_attempts(database, [adoption.intent])
    fences = [one.sealed.fence for one in attempts if one.sealed is not None and one.sealed.fence is not None]
    if adoption.state is IntentState.ABSENT and fences and at < max(fences):
        until = f"{max(fences):%Y-%m-%d %H:%M:%S} UTC"
        message = f"the order {adoption.intent} may still take effect until {until}; look again then"
        raise StoreError(message)


def _revoke_acknowledgements(database: Database, intent_ids: Sequence[str], detail: str, at: datetime) -> None:
    for intent_id in intent_ids:
        if (state := intents.read_intent_state(database, intent_id)) is not IntentState.ACKED:
            message = f"intent {intent_id} is {state}, so there is no acknowledgement to revoke"
            raise StoreError(message)
        receipt = WriteReceipt(intent=intent_id, state=IntentState.ABSENT, detail=detail)
        intents.force_intent_state(database, intent_id, IntentState.ABSENT, detail=detail, at=format_timestamp(at))
        submission_attempts.settle_attempt(database, receipt, format_timestamp(at))
