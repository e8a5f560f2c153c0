"""What sending and reading back share: one venue's submitter, one account's turn, and the record of both."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from bot.domain.submission import Batch, Intent, IntentAction, IntentState, Mode, Receipt, Sealed
from bot.gate.brake import Brake
from bot.gate.readiness import MOST_DOUBTS
from bot.ports import Clock, Sealer, Submitter
from bot.store.ledger import Ledger
from bot.store.submissions import BatchRow, IntentRow
from bot.store.writes import is_sound

log = structlog.get_logger()

WAITING = frozenset({IntentState.PLANNED, IntentState.READY, IntentState.ABSENT})
UNSETTLED = frozenset({IntentState.SENDING, IntentState.UNKNOWN, IntentState.IN_DOUBT})
ANSWERS = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT})

# Says why an intent that was decided must not be written now, or nothing.
Recheck = Callable[[Intent], Awaitable[str | None]]
# Says what is wrong with this clock, or nothing.
ClockFault = Callable[[], str]
# Tells people: which venue, and what.
Alarm = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The way to one submitter, for whoever has the turn of its account.

    ``mode`` is what it is used in now, ``account`` whose it is; None where nobody said. More than ``most_doubts``
    writes without a known outcome stop the venue. Once ``stopping`` says so nothing more is begun.
    """

    ledger: Ledger
    submitter: Submitter
    clock: Clock
    brake: Brake
    recheck: Recheck
    alarm: Alarm
    clock_fault: ClockFault
    mode: Mode | None
    account: str | None = None
    most_doubts: int = MOST_DOUBTS
    stopping: Callable[[], bool] = lambda: False

    @property
    def sealer(self) -> Sealer | None:
        """The submitter, where it makes its requests before they are written."""
        return self.submitter if isinstance(self.submitter, Sealer) else None

    def fits(self, mode: Mode, account: str) -> bool:
        """Say whether this is where intents went that were decided in that mode: the side, and whose account."""
        same_side = self.mode is None or (mode is Mode.PAPER) == (self.mode is Mode.PAPER)
        return same_side and self.account in {None, account}

    async def intents(self, row: BatchRow) -> list[IntentRow]:
        """Return, of each question of the batch, the newest intent that matters; for comments, each."""
        return await intents_of(self.ledger, row)

    async def batch(self, row: BatchRow, intents: Sequence[Intent], sealed: Sequence[Sealed] = ()) -> Batch:
        """Return the intents with all questions that belong to their batch."""
        questions = [] if row.comments else await self.ledger.questions.in_batch(row.venue, row.batch)
        if not questions:
            questions = [await self.ledger.questions.get(intent.ref) for intent in intents]
        return Batch(key=row.batch, intents=tuple(intents), questions=tuple(questions), sealed=tuple(sealed))

    async def alone(self, intent: Intent, sealed: Sequence[Sealed] = ()) -> Batch:
        """Return one intent by itself."""
        question = await self.ledger.questions.get(intent.ref)
        return Batch(key=intent.batch, intents=(intent,), questions=(question,), sealed=tuple(sealed))


async def intents_of(ledger: Ledger, row: BatchRow) -> list[IntentRow]:
    """Return, of each question of the batch, the newest intent that matters on its side; for comments, each."""
    if row.comments:
        return await ledger.submissions.comments(row.venue, row.account, row.batch)
    paper = row.mode is Mode.PAPER
    return await ledger.submissions.intents(row.venue, row.account, row.batch, paper=paper)


def answer(intent: Intent, receipt: Receipt | None) -> Receipt:
    """Return what a write is known to have done; no receipt, or one that makes no sense, is no answer."""
    if receipt is None:
        return unknown(intent, "no receipt")
    if receipt.state not in ANSWERS:
        return unknown(intent, f"{receipt.state} is no answer to a write")
    if odd := [one.reference for one in receipt.fills if not is_sound(one)]:
        return unknown(intent, f"{receipt.state}, with fills that make no sense: {odd[:3]}")
    return receipt


def unknown(intent: Intent, detail: str) -> Receipt:
    """Return that nothing is known."""
    return Receipt(intent=intent.id, state=IntentState.UNKNOWN, detail=detail)


def stands(item: IntentRow) -> bool:
    """Say whether an intent is an answer that the venue has and that a write of its batch must repeat."""
    return item.state is IntentState.ACKED and item.intent.action is IntentAction.FORECAST


def first_of(receipts: Sequence[Receipt]) -> dict[str, Receipt]:
    """Return the receipts by intent; of two for one intent neither is believed."""
    found: dict[str, Receipt] = {}
    for receipt in receipts:
        if receipt.intent in found and found[receipt.intent] != receipt:
            contradiction = Receipt(intent=receipt.intent, state=IntentState.UNKNOWN, detail="two different receipts")
            found[receipt.intent] = contradiction
        else:
            found[receipt.intent] = receipt
    return found
