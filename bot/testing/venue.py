"""Fake venue: a reader, a submitter and a price feed in memory that follow the script of a test."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from enum import Enum, auto

from bot.core.outcomes import Resolution
from bot.core.questions import Question, QuestionRef, Quote
from bot.core.submissions import Intent, IntentState, SubmissionBatch, WriteReceipt


class LostPart(Enum):
    """What a broken connection lost: the request, so that nothing happened, or only the reply.

    ``REPLY_OF_VENUE``: a server in between answers with status 502 in its place.
    """

    REQUEST = auto()
    REPLY = auto()
    REPLY_OF_VENUE = auto()


class FakeSubmitter:
    """Implements VenueSubmitter; the last write for an account and question counts.

    ``writes`` holds every intent that took effect, in order, so that a test can count doubles; ``answers`` holds those
    in force.
    """

    def __init__(self) -> None:
        self.writes: list[Intent] = []
        self.standing_intents: dict[tuple[str, QuestionRef], Intent] = {}
        self._refusal: str | None = None
        self._losses: list[LostPart] = []

    def refuse_all(self, reason: str) -> None:
        """Refuse every intent from now on."""
        self._refusal = reason

    def accept_all(self) -> None:
        """Accept every intent from now on."""
        self._refusal = None

    def lose_next_request(self) -> None:
        """Lose the next write on its way to the venue; several calls lose as many."""
        self._losses.append(LostPart.REQUEST)

    def lose_next_reply(self) -> None:
        """Let the next write happen and lose the answer to it; several calls lose as many."""
        self._losses.append(LostPart.REPLY)

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        loss = self._losses.pop(0) if self._losses else None
        if loss is LostPart.REQUEST:
            return _unknown_receipts(batch)
        receipts = [self._take(intent) for intent in batch.intents]
        return _unknown_receipts(batch) if loss is LostPart.REPLY else receipts

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        return [
            WriteReceipt(intent=intent.id, state=IntentState.ACKED if self._has(intent) else IntentState.ABSENT)
            for intent in batch.intents
        ]

    def _take(self, intent: Intent) -> WriteReceipt:
        if self._refusal is not None:
            return WriteReceipt(intent=intent.id, state=IntentState.REFUSED, detail=self._refusal)
        self.writes.append(intent)
        self.standing_intents[intent.account, intent.ref] = intent
        return WriteReceipt(intent=intent.id, state=IntentState.ACKED, reference=f"write {len(self.writes)}")

    def _has(self, intent: Intent) -> bool:
        there = self.standing_intents.get((intent.account, intent.ref))
        return there is not None and there.predictions == intent.predictions


def _unknown_receipts(batch: SubmissionBatch) -> list[WriteReceipt]:
    return [
        WriteReceipt(intent=intent.id, state=IntentState.UNKNOWN, detail="connection lost") for intent in batch.intents
    ]


class FakePriceFeed:
    """Implements PriceFeed; ``opened`` holds the requested questions, in order, one entry an opening.

    It quotes the prices of ``quote_prices``, requested or not, and raises the error of ``end_with_error``; both also
    when nobody listens yet.
    """

    def __init__(self) -> None:
        self.requested_questions: list[tuple[QuestionRef, ...]] = []
        self.listener_count = 0
        self._items: asyncio.Queue[Quote | Exception | None] = asyncio.Queue()

    def quote_prices(self, *quotes: Quote) -> None:
        """Quote prices."""
        for quote in quotes:
            self._items.put_nowait(quote)

    def end_with_error(self, error: Exception) -> None:
        """End the open feeds with an error."""
        self._items.put_nowait(error)

    def end_feed(self) -> None:
        """End the open feeds without a message."""
        self._items.put_nowait(None)

    async def quotes(self, refs: Collection[QuestionRef]) -> AsyncIterator[Quote]:
        self.requested_questions.append(tuple(refs))
        self.listener_count += 1
        try:
            while (item := await self._items.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.listener_count -= 1


class FakeVenueReader:
    """Implements VenueReader; questions are yielded in the order in which they were first listed."""

    def __init__(self, questions: Iterable[Question] = (), resolutions: Iterable[Resolution] = ()) -> None:
        self._questions: dict[QuestionRef, Question] = {}
        self._resolutions: dict[tuple[QuestionRef, str], Resolution] = {}
        self._fault: Exception | None = None
        self._sound_items = 0
        self.add_questions(*questions)
        self.publish_outcomes(*resolutions)

    def add_questions(self, *questions: Question) -> None:
        """Open the questions, or replace those with the same references."""
        self._questions.update((question.ref, question) for question in questions)

    def remove_questions(self, *refs: QuestionRef) -> None:
        """Stop listing the questions; their outcomes can still be read."""
        for ref in refs:
            del self._questions[ref]

    def publish_outcomes(self, *resolutions: Resolution) -> None:
        """Publish the outcomes, or correct those of the same targets."""
        self._resolutions.update(((resolution.ref, resolution.target), resolution) for resolution in resolutions)

    def fail_with(self, error: Exception, *, after: int = 0) -> None:
        """From now on raise the error in every reading, after that many items."""
        self._fault, self._sound_items = error, after

    def recover(self) -> None:
        """Answer in full again."""
        self._fault = None

    async def questions(self) -> AsyncIterator[Question]:
        for number, question in enumerate([*self._questions.values()]):
            self._stumble(number)
            yield question
        self._stumble(len(self._questions))

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        known = [resolution for (ref, _), resolution in self._resolutions.items() if ref in pending]
        for number, resolution in enumerate(known):
            self._stumble(number)
            yield resolution
        self._stumble(len(known))

    def _stumble(self, items: int) -> None:
        if self._fault is not None and items >= self._sound_items:
            raise self._fault
