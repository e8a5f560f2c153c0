"""The paper record: nothing is traded here, so it holds forecasts as the venue would have accepted them.

It sends no requests. A forecast is active from when it was recorded until the next one or a withdrawal; scores depend
on the forecast at spot time and on its duration (docs/facts/metaculus.md#scores).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from bot.api import (
    Clock,
    Intent,
    IntentAction,
    PaperBookContext,
    PaperForecastBook,
    Question,
    RequestRejectedError,
    SealedRequest,
    SubmissionBatch,
    VenueSubmitter,
    WriteReceipt,
    open_forecast_book,
)
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.write_requests import clean_comment, prediction_as_kept


class MetaculusPaperRecord:
    """Implements ``SealingSubmitter`` on a forecast book."""

    def __init__(self, book: PaperForecastBook) -> None:
        self.book = book

    async def seal_requests(self, batch: SubmissionBatch) -> Sequence[SealedRequest]:
        """Return the requests to be recorded: predictions within the venue's bounds, comments as it would store them.

        Raises RequestRejectedError if the venue would accept none of it.
        """
        questions = {question.ref: question for question in batch.questions}
        intents = [_intent_as_kept(intent, questions.get(intent.ref)) for intent in batch.intents]
        accepted = [one for one in intents if one.action is not IntentAction.COMMENT or one.text]
        if intents and not accepted:
            message = f"the comment on {intents[0].ref} is empty"
            raise RequestRejectedError(message)
        return await self.book.seal_requests(replace(batch, intents=tuple(accepted)))

    async def submit(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Record the sealed requests."""
        return await self.book.submit(batch)

    async def read_submissions(self, batch: SubmissionBatch) -> Sequence[WriteReceipt]:
        """Return which intents are active."""
        return await self.book.read_submissions(batch)


@asynccontextmanager
async def open_paper(settings: MetaculusSettings, context: PaperBookContext) -> AsyncIterator[VenueSubmitter]:
    """Open the paper record in the venue's folder; raises StoreError."""
    lasts = settings.forecast_lifetime()
    objection = _SubmissionRules(timedelta(seconds=settings.close_margin_s), context.clock)
    async with open_forecast_book(context.folder, context.clock, objection=objection, forecast_lifetime=lasts) as book:
        yield MetaculusPaperRecord(book)


class _SubmissionRules:
    """Returns what the writer would not send, or the venue would not accept."""

    def __init__(self, margin: timedelta, clock: Clock) -> None:
        self._margin = margin
        self._clock = clock

    def __call__(self, intent: Intent, question: Question) -> str | None:
        now = self._clock.now()
        if question.opens_at is None or now < question.opens_at:
            return f"{intent.ref} is not open yet"
        if question.closes_at is None or now >= question.closes_at - self._margin:
            return f"{intent.ref} is closed, or closes soon"
        try:
            for prediction in intent.predictions.values():
                prediction_as_kept(prediction, question.shape)
        except RequestRejectedError as error:
            return str(error)
        return None


def _intent_as_kept(intent: Intent, question: Question | None) -> Intent:
    """Return the intent as the venue would store it; one that it would refuse is returned unchanged."""
    if intent.action is IntentAction.COMMENT:
        return replace(intent, text=clean_comment(intent.text))
    if question is None or intent.action is not IntentAction.FORECAST:
        return intent
    try:
        predictions = {key: prediction_as_kept(given, question.shape) for key, given in intent.predictions.items()}
    except RequestRejectedError:
        return intent
    return replace(intent, predictions=predictions)
