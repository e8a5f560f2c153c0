"""The writing half of a venue in memory, with the three ways in which a write can end: acked, refused, unknown."""

from collections.abc import Sequence
from enum import Enum, auto

from bot.domain.question import QuestionRef
from bot.domain.submission import Batch, Intent, IntentState, Receipt


class Loss(Enum):
    """What a broken connection cost: the request, so that nothing happened, or only the reply."""

    REQUEST = auto()
    REPLY = auto()


class MemoryBook:
    """Implements the port Submitter; the last write for an account and question stands.

    ``writes`` holds every intent that took effect, in order, so that a test can count doubles; ``answers`` holds those
    that stand.
    """

    def __init__(self) -> None:
        self.writes: list[Intent] = []
        self.answers: dict[tuple[str, QuestionRef], Intent] = {}
        self._refusal: str | None = None
        self._losses: list[Loss] = []

    def refuse_all(self, reason: str) -> None:
        """Refuse every intent from now on."""
        self._refusal = reason

    def accept_all(self) -> None:
        """Accept every intent from now on."""
        self._refusal = None

    def drop_request(self) -> None:
        """Lose the next write on its way there; several calls lose as many."""
        self._losses.append(Loss.REQUEST)

    def drop_reply(self) -> None:
        """Let the next write happen and lose the answer to it; several calls lose as many."""
        self._losses.append(Loss.REPLY)

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        loss = self._losses.pop(0) if self._losses else None
        if loss is Loss.REQUEST:
            return _unknown(batch)
        receipts = [self._take(intent) for intent in batch.intents]
        return _unknown(batch) if loss is Loss.REPLY else receipts

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        return [
            Receipt(intent=intent.id, state=IntentState.ACKED if self._has(intent) else IntentState.ABSENT)
            for intent in batch.intents
        ]

    def _take(self, intent: Intent) -> Receipt:
        if self._refusal is not None:
            return Receipt(intent=intent.id, state=IntentState.REFUSED, detail=self._refusal)
        self.writes.append(intent)
        self.answers[intent.account, intent.ref] = intent
        return Receipt(intent=intent.id, state=IntentState.ACKED, reference=f"write {len(self.writes)}")

    def _has(self, intent: Intent) -> bool:
        there = self.answers.get((intent.account, intent.ref))
        return there is not None and there.predictions == intent.predictions


def _unknown(batch: Batch) -> list[Receipt]:
    return [Receipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost") for intent in batch.intents]
