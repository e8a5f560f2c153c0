"""The session that submitting and reading back share: one submitter, the lock on its account, and the ledger."""

from collections.abc import Awaitable, Callable, Sequence

import structlog

from bot.core.interfaces import Clock, SealingSubmitter, VenueSubmitter
from bot.core.light_dataclass import dataclass
from bot.core.submissions import (
    ExecutionMode,
    Intent,
    IntentAction,
    IntentState,
    SealedRequest,
    SubmissionBatch,
    WriteReceipt,
)
from bot.execution.gate.kill_switch import KillSwitch
from bot.execution.gate.readiness import MAX_UNSETTLED_WRITES
from bot.store.ledger import Ledger
from bot.store.submission_attempts import is_valid_fill
from bot.store.submissions import BatchRow, IntentRow

log = structlog.get_logger()

WAITING_STATES = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.ABSENT})
UNSETTLED_STATES = frozenset({IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT})
ANSWER_STATES = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT})

# Returns why a decided intent must not be written now, or None.
IntentCheck = Callable[[Intent], Awaitable[str | None]]
# Returns what is wrong with this clock, or "".
ClockFault = Callable[[], str]
# Alerts people: the venue, and the text.
VenueAlert = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSession:
    """Access to one submitter, for the code that holds the lock on its account.

    ``mode`` and ``account`` are those in use now; None if not given. More than ``max_unsettled`` writes without a known
    outcome halt the venue. Once ``is_stopping`` returns true, nothing more is begun.
    """

    ledger: Ledger
    submitter: VenueSubmitter
    clock: Clock
    kill_switch: KillSwitch
    pre_send_check: IntentCheck
    alert: VenueAlert
    clock_fault: ClockFault
    mode: ExecutionMode | None
    account: str | None = None
    max_unsettled: int = MAX_UNSETTLED_WRITES
    is_stopping: Callable[[], bool] = lambda: False

    @property
    def sealing_submitter(self) -> SealingSubmitter | None:
        """The submitter if it seals its requests before they are written, else None."""
        return self.submitter if isinstance(self.submitter, SealingSubmitter) else None

    def handles(self, mode: ExecutionMode, account: str) -> bool:
        """Return whether intents of that mode (paper or real) and account go through this session."""
        same_side = self.mode is None or (mode is ExecutionMode.PAPER) == (self.mode is ExecutionMode.PAPER)
        return same_side and self.account in {None, account}

    async def read_intents(self, row: BatchRow) -> list[IntentRow]:
        """Return the newest relevant intent of each question of the batch; of comments, all."""
        return await batch_intents(self.ledger, row)

    async def build_batch(
        self, row: BatchRow, intents: Sequence[Intent], sealed: Sequence[SealedRequest] = ()
    ) -> SubmissionBatch:
        """Return the intents with all questions that belong to their batch."""
        questions = [] if row.comments else await self.ledger.questions.in_batch(row.venue, row.batch)
        if not questions:
            questions = [await self.ledger.questions.get(intent.ref) for intent in intents]
        return SubmissionBatch(key=row.batch, intents=tuple(intents), questions=tuple(questions), sealed=tuple(sealed))

    async def build_single_batch(self, intent: Intent, sealed: Sequence[SealedRequest] = ()) -> SubmissionBatch:
        """Return a batch of one intent."""
        question = await self.ledger.questions.get(intent.ref)
        return SubmissionBatch(key=intent.batch, intents=(intent,), questions=(question,), sealed=tuple(sealed))


async def batch_intents(ledger: Ledger, row: BatchRow) -> list[IntentRow]:
    """Return the newest relevant intent of each question of the batch, paper or real; of comments, all."""
    if row.comments:
        return await ledger.submissions.comments(row.venue, row.account, row.batch)
    paper = row.mode is ExecutionMode.PAPER
    return await ledger.submissions.intents(row.venue, row.account, row.batch, paper=paper)


def checked_receipt(intent: Intent, receipt: WriteReceipt | None) -> WriteReceipt:
    """Return the receipt of a write; a missing or invalid receipt counts as unknown."""
    if receipt is None:
        return unknown_receipt(intent, "no receipt")
    if receipt.state not in ANSWER_STATES:
        return unknown_receipt(intent, f"{receipt.state} is no answer to a write")
    if invalid := [one.reference for one in receipt.fills if not is_valid_fill(one)]:
        return unknown_receipt(intent, f"{receipt.state}, with fills that make no sense: {invalid[:3]}")
    return receipt


def unknown_receipt(intent: Intent, detail: str) -> WriteReceipt:
    """Return a receipt that says that the outcome is unknown."""
    return WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail=detail)


def is_standing_forecast(item: IntentRow) -> bool:
    """Return whether an intent is an acknowledged forecast, which a write of its batch must repeat."""
    return item.state is IntentState.ACKED and item.intent.action is IntentAction.FORECAST


def receipts_by_intent(receipts: Sequence[WriteReceipt]) -> dict[str, WriteReceipt]:
    """Return the receipts by intent; two different receipts for one intent count as unknown."""
    found: dict[str, WriteReceipt] = {}
    for receipt in receipts:
        if receipt.intent in found and found[receipt.intent] != receipt:
            contradiction = WriteReceipt(
                intent=receipt.intent, state=IntentState.UNKNOWN, detail="two different receipts"
            )
            found[receipt.intent] = contradiction
        else:
            found[receipt.intent] = receipt
    return found
