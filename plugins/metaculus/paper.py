"""The paper record: nothing is traded here, so it is the forecasts themselves, as the venue would have taken them.

It holds no wire and asks the site nothing. A forecast stands from when it was written down until the next one or a
withdrawal; what stood at spot time, and for how long, is what section 9 of the venue document scores.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from bot.api import (
    Batch,
    Clock,
    Intent,
    IntentAction,
    PaperPlace,
    Question,
    Receipt,
    Rejected,
    Sealed,
    StandingBook,
    Submitter,
    open_standing,
)
from plugins.metaculus.answer import clean, taken
from plugins.metaculus.settings import MetaculusSettings


class PaperRecord:
    """Implements the port Sealer on a book of standing forecasts."""

    def __init__(self, book: StandingBook) -> None:
        self.book = book

    async def seal(self, batch: Batch) -> Sequence[Sealed]:
        """Return what will be written down: predictions within the venue's bounds, comments as it would keep them.

        Raises Rejected where the venue would take none of it.
        """
        questions = {question.ref: question for question in batch.questions}
        made = [_as_taken(intent, questions.get(intent.ref)) for intent in batch.intents]
        said = [one for one in made if one.action is not IntentAction.COMMENT or one.text]
        if made and not said:
            message = f"the comment on {made[0].ref} is empty"
            raise Rejected(message)
        return await self.book.seal(replace(batch, intents=tuple(said)))

    async def submit(self, batch: Batch) -> Sequence[Receipt]:
        """Write down what was sealed."""
        return await self.book.submit(batch)

    async def standing(self, batch: Batch) -> Sequence[Receipt]:
        """Say what stands."""
        return await self.book.standing(batch)


@asynccontextmanager
async def open_paper(settings: MetaculusSettings, place: PaperPlace) -> AsyncIterator[Submitter]:
    """Open the paper record in the venue's folder; raises StoreError."""
    lasts = None if settings.expires_after_h is None else timedelta(hours=settings.expires_after_h)
    objection = _Objection(timedelta(seconds=settings.close_margin_s), place.clock)
    async with open_standing(place.folder, place.clock, objection=objection, lasts=lasts) as book:
        yield PaperRecord(book)


class _Objection:
    """Says what the writer would not send, or the venue not take."""

    def __init__(self, margin: timedelta, clock: Clock) -> None:
        self._margin = margin
        self._clock = clock

    def __call__(self, intent: Intent, question: Question) -> str | None:
        now = self._clock.now()
        if question.opens_at is None or now < question.opens_at:
            return f"{intent.ref} is not open yet"
        if question.closes_at is None or now >= question.closes_at - self._margin:
            return f"{intent.ref} is closed, or about to"
        try:
            for prediction in intent.predictions.values():
                taken(prediction, question.shape)
        except Rejected as error:
            return str(error)
        return None


def _as_taken(intent: Intent, question: Question | None) -> Intent:
    """Return the intent as the venue would keep it; one that it would refuse is left as it is, to be refused."""
    if intent.action is IntentAction.COMMENT:
        return replace(intent, text=clean(intent.text))
    if question is None or intent.action is not IntentAction.FORECAST:
        return intent
    try:
        predictions = {key: taken(given, question.shape) for key, given in intent.predictions.items()}
    except Rejected:
        return intent
    return replace(intent, predictions=predictions)
