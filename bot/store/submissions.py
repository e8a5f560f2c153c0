"""The outbox on disk: what was to leave, whether it left, and what the other side said.

An intent is written before the wire is touched, and its state moves only along its machine; whatever is not proved to
be refused or absent counts as sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlite_utils import Database

from bot.domain.order import Fill
from bot.domain.question import QuestionRef
from bot.domain.submission import FINAL_STATES, Decision, Intent, IntentAction, IntentState, Mode, Receipt, Sealed
from bot.errors import StoreError
from bot.ids import derive_id
from bot.store import approvals, intents, writes
from bot.store import batches as by_batch
from bot.store import decisions as decided
from bot.store.batches import BatchRow
from bot.store.codec import clean, stamp
from bot.store.decisions import DecisionRow, Rule
from bot.store.intents import AT_STAKE, INTENT, NEXT_STATES, IntentRow, standing
from bot.store.runs import Runs
from bot.store.writes import AttemptRow, Auditor, Doubts, Trail

__all__ = [
    "AT_STAKE",
    "NEXT_STATES",
    "Adoption",
    "AttemptRow",
    "BatchRow",
    "DecisionRow",
    "Doubts",
    "IntentRow",
    "Rule",
    "Submissions",
    "standing",
]

_SENDING = f"{INTENT} where i.state = 'sending' order by i.seq"
# An order that did not arrive is decided anew at once, so often; then after a while, and after twice that.
AT_ONCE, FIRST_WAIT, LONGEST_WAIT = 3, timedelta(minutes=1), timedelta(minutes=15)
_UNSURE = frozenset({IntentState.UNKNOWN, IntentState.IN_DOUBT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What a person who looked at the venue says became of an intent: acknowledged, or absent.

    ``reference`` is the name under which the venue has it, where it is there.
    """

    intent: str
    state: IntentState
    by: str
    why: str = ""
    reference: str = ""


def _untold(_database: Database, _trail: Trail) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Submissions:
    """Decisions, intents, attempts and fills; the ``auditor`` is told of each live write in the same transaction."""

    writer: Runs
    readers: Runs
    auditor: Auditor = _untold

    async def decide(self, *, forecast_id: str, decision: Decision, at: datetime) -> Decision:
        """Store a decision; for Send also plan the intent, and supersede what still waited for the question.

        While an earlier intent of the question may be on its way, a Send is stored as a Hold that says so. An intent
        that was superseded before is planned anew under another id. Returns the decision as stored.
        """
        return await self.writer.run(lambda database: decided.decide(database, forecast_id, decision, at))

    async def decide_by(self, rule: Rule, *, forecast_id: str, at: datetime) -> Decision:
        """Take a decision in the transaction that stores it, such as one over what is at stake; else as ``decide``.

        The rule may run twice, and does nothing but read. What it raises is raised here, and nothing is stored.
        """
        return await self.writer.run(lambda database: decided.decide(database, forecast_id, rule(database), at))

    async def decisions(self, forecast_id: str) -> list[DecisionRow]:
        """Return all decisions over a forecast, oldest first."""
        return await self.readers.run(lambda database: decided.decisions(database, forecast_id))

    async def batches(self, *, states: Sequence[IntentState]) -> list[BatchRow]:
        """Return the batches with an intent in one of the states, soonest close first, comments last."""
        return await self.readers.run(lambda database: by_batch.batches(database, states))

    async def intents(self, venue: str, account: str, batch: str, *, paper: bool | None = None) -> list[IntentRow]:
        """Return, by question, the newest intent that is neither refused nor superseded, comments aside.

        ``paper`` says on which side: on paper, or at the venue; None: on either.
        """
        return await self.readers.run(lambda database: by_batch.intents(database, venue, account, batch, paper=paper))

    async def comments(self, venue: str, account: str, batch: str) -> list[IntentRow]:
        """Return the comments that are neither refused nor superseded, oldest first."""
        return await self.readers.run(lambda database: by_batch.comments(database, venue, account, batch))

    async def leader(self, comment_id: str) -> IntentState | None:
        """Return where the forecast or order stands that a comment goes with, None where there is none."""
        return await self.readers.run(lambda database: decided.state_of_leader(database, comment_id))

    async def get(self, intent_id: str) -> IntentRow:
        """Return one intent; raises NotFound."""
        return await self.readers.run(lambda database: intents.get(database, intent_id))

    async def standing(self, ref: QuestionRef, account: str, *, paper: bool | None = None) -> Intent | None:
        """Return the newest intent of the question that is neither refused nor superseded, comments aside.

        ``paper`` says on which side: on paper, or at the venue; None: on either.
        """
        return await self.readers.run(lambda database: standing(database, ref, account, paper=paper))

    async def sending(self) -> list[IntentRow]:
        """Return the intents on the wire; found at start, each of them is unknown."""
        return await self.readers.run(lambda database: intents.rows_of(database, _SENDING))

    async def resting(self) -> list[IntentRow]:
        """Return the acknowledged orders that may still be filled, or were not read back since they cannot be."""
        return await self.readers.run(writes.resting)

    async def doubts(self, venue: str, *, now: datetime) -> Doubts:
        """Count the live writes at a venue without a known outcome, begun since a person resumed it last."""
        return await self.readers.run(lambda database: writes.doubts(database, venue, now))

    async def attempts(self, intent_ids: Sequence[str]) -> list[AttemptRow]:
        """Return the attempts at the intents with their requests, newest first."""
        return await self.readers.run(lambda database: writes.attempts_of(database, intent_ids))

    async def fills(self, intent_id: str) -> list[Fill]:
        """Return what was filled of an order, oldest first."""
        return await self.readers.run(lambda database: writes.fills_of(database, intent_id))

    async def begin_attempt(
        self, intent_ids: Sequence[str], *, at: datetime, sealed: Sequence[Sealed] = ()
    ) -> list[str]:
        """Mark waiting intents (planned, ready or proved absent) as on the wire; return the ids of the attempts.

        Their requests are kept with the attempts. All or none: raises StoreError if one of them does not wait, and
        ContractError for a tag that another intent of the account has. On return this is durable, and the wire is free.
        """
        requests = {one.intent: one for one in sealed}
        return await self.writer.run(
            lambda database: [self._begin(database, one, requests.get(one), at) for one in intent_ids]
        )

    async def refuse(self, intent_ids: Sequence[str], *, why: str, at: datetime) -> None:
        """Record, as an attempt that never touched the wire, that waiting intents are refused for good."""

        def work(database: Database) -> None:
            for one in intent_ids:
                writes.begin(database, one, None, at)
                receipt = Receipt(intent=one, state=IntentState.REFUSED, detail=why)
                intents.move(database, one, IntentState.REFUSED, detail=why, at=stamp(at))
                writes.settle(database, receipt, stamp(at))
                row = intents.get(database, one)
                if row.mode is not Mode.PAPER:
                    self.auditor(database, writes.unwritten(receipt, row.intent.ref.venue, at))

        await self.writer.run(work)

    async def settle(self, receipts: Sequence[Receipt], *, at: datetime, as_of: datetime | None = None) -> None:
        """Record what became of intents; a final state is proof and stays. Raises StoreError for an illegal move.

        ``as_of`` is when the other side was asked, where that is not now: an order costs what it took, and no more,
        once it was read back at its fence or later. An order that is absent is superseded, and its forecast comes
        before the gate again.
        """
        asked = at if as_of is None else as_of
        await self.writer.run(lambda database: self._settle(database, receipts, at, asked))

    async def keep(self, intent_id: str, *, as_of: datetime) -> None:
        """Record that an acknowledged order was read back for the last time, and still costs all that it may."""
        await self.writer.run(lambda database: writes.read_again(database, intent_id, stamp(as_of)))

    async def mark(self, intent_id: str, state: IntentState, detail: str, at: datetime) -> None:
        """Move one intent; the state it has already changes nothing. Raises StoreError for an illegal move."""
        receipt = Receipt(intent=intent_id, state=state, detail=detail)
        await self.writer.run(lambda database: self._mark(database, receipt, at))

    async def abandon(self, intent_id: str, *, why: str, at: datetime, until: datetime | None = None) -> None:
        """Take back an intent that waits; its forecast comes before the gate again, at once or then.

        Raises StoreError for an intent that does not wait.
        """
        await self.writer.run(lambda database: decided.abandon(database, intent_id, why, at, until=until))

    async def adopt(self, adoption: Adoption, *, at: datetime) -> None:
        """Take a person's word for what became of an intent that is unknown or in doubt.

        Raises NotFound, and StoreError for an intent that is neither, for another state than acknowledged or absent,
        and for absence while the request may still take effect.
        """
        await self.writer.run(lambda database: self._adopt(database, adoption, at))

    async def revoke(self, intent_ids: Sequence[str], *, detail: str, at: datetime) -> None:
        """Take back that intents were acknowledged: in a restored ledger only, of what was read back and is not there.

        They are then proved absent and wait to be sent again. Raises StoreError for one that was not acknowledged.
        """
        await self.writer.run(lambda database: _revoke(database, intent_ids, detail, at))

    def _begin(self, database: Database, intent_id: str, sealed: Sealed | None, at: datetime) -> str:
        attempt = writes.begin(database, intent_id, sealed, at)
        row = intents.get(database, intent_id)
        if row.mode is not Mode.PAPER:
            # Up to here nothing has become of what a person approved; from here on it may have left.
            approvals.use(database, row.intent.forecast)
            self.auditor(database, writes.before(attempt, row.intent, row.mode, at))
        return derive_id("attempt", intent_id, str(attempt.number))

    def _settle(self, database: Database, receipts: Sequence[Receipt], at: datetime, as_of: datetime) -> None:
        for receipt in receipts:
            if intents.state_of(database, receipt.intent) not in FINAL_STATES:
                self._mark(database, receipt, at, as_of)
            _account_for(database, receipt, as_of)

    def _mark(self, database: Database, receipt: Receipt, at: datetime, as_of: datetime | None = None) -> None:
        row = intents.get(database, receipt.intent)
        if row.state is receipt.state:
            return
        if receipt.state is IntentState.SENDING:
            message = f"intent {receipt.intent} cannot go to {receipt.state} but by an attempt"
            raise StoreError(message)
        intents.move(database, receipt.intent, receipt.state, detail=receipt.detail, at=stamp(at))
        if receipt.state in writes.ANSWERS:
            writes.settle(database, receipt, stamp(as_of or at))
            if row.mode is not Mode.PAPER:
                self.auditor(database, writes.after(receipt, row.intent.ref.venue, at))
        _decide_anew(database, row.intent, receipt, at)

    def _adopt(self, database: Database, adoption: Adoption, at: datetime) -> None:
        row = intents.get(database, adoption.intent)
        _require_adoptable(database, row, adoption, at)
        detail = f"{adoption.by} says so" + (f": {adoption.why}" if adoption.why else "")
        receipt = Receipt(intent=adoption.intent, state=adoption.state, reference=adoption.reference, detail=detail)
        intents.force(database, adoption.intent, adoption.state, detail=detail, at=stamp(at))
        writes.settle(database, receipt, stamp(at))
        writes.look_again(database, adoption.intent, at)
        _decide_anew(database, row.intent, receipt, at)
        body = {
            "intent": adoption.intent,
            "was": row.state.value,
            "state": adoption.state.value,
            "reference": clean(adoption.reference),
            "why": clean(adoption.why),
        }
        self.auditor(database, Trail(at=at, kind="adopt", venue=row.intent.ref.venue, actor=adoption.by, body=body))


def _decide_anew(database: Database, intent: Intent, receipt: Receipt, at: datetime) -> None:
    """An order that did not arrive was meant for a market that has moved since."""
    if receipt.state is IntentState.ABSENT and intent.action is IntentAction.ORDER:
        why = f"the order {intent.id} did not arrive" + (f" ({receipt.detail})" if receipt.detail else "")
        decided.abandon(database, intent.id, why, at, until=at + _patience(writes.misses(database, intent.forecast)))


def _patience(misses: int) -> timedelta:
    """Return how long after that many orders of one forecast that did not arrive the next one is thought of."""
    late = misses - AT_ONCE - 1
    return timedelta() if late < 0 else min(FIRST_WAIT * 2 ** min(late, 10), LONGEST_WAIT)


def _account_for(database: Database, receipt: Receipt, as_of: datetime) -> None:
    """Keep the fills of an order that was taken, and release what it cannot cost any more."""
    row = intents.get(database, receipt.intent)
    if row.intent.action is not IntentAction.ORDER or row.state is not IntentState.ACKED:
        return
    writes.fill(database, receipt.intent, receipt.fills)
    sealed = writes.attempts_of(database, [receipt.intent])[0].sealed
    fence = None if sealed is None else sealed.fence
    if (fence is None and receipt.fills) or (fence is not None and as_of >= fence):
        writes.finish(database, receipt.intent, stamp(as_of))


def _require_adoptable(database: Database, row: IntentRow, adoption: Adoption, at: datetime) -> None:
    if row.state not in _UNSURE:
        message = f"the order {adoption.intent} is {row.state}, so there is nothing to say about it"
        raise StoreError(message)
    if adoption.state not in {IntentState.ACKED, IntentState.ABSENT}:
        message = f"say of the order {adoption.intent} that it is acked or absent; {adoption.state} settles nothing"
        raise StoreError(message)
    attempts = writes.attempts_of(database, [adoption.intent])
    fences = [one.sealed.fence for one in attempts if one.sealed is not None and one.sealed.fence is not None]
    if adoption.state is IntentState.ABSENT and fences and at < max(fences):
        until = f"{max(fences):%Y-%m-%d %H:%M:%S} UTC"
        message = f"the order {adoption.intent} may still take effect until {until}; look again then"
        raise StoreError(message)


def _revoke(database: Database, intent_ids: Sequence[str], detail: str, at: datetime) -> None:
    for intent_id in intent_ids:
        if (state := intents.state_of(database, intent_id)) is not IntentState.ACKED:
            message = f"intent {intent_id} is {state}, so there is no acknowledgement to take back"
            raise StoreError(message)
        receipt = Receipt(intent=intent_id, state=IntentState.ABSENT, detail=detail)
        intents.force(database, intent_id, IntentState.ABSENT, detail=detail, at=stamp(at))
        writes.settle(database, receipt, stamp(at))
