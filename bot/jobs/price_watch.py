"""Watch prices for as long as the daemon runs: record what moved, and make the question due.

There is one watch per venue with a price feed, and one run a day: at its end the feed is opened again, whatever its
state. A feed that falls silent is opened again after a random wait from a range that doubles each time, and only one
that stays silent is logged. Quotes may come by the thousand; the ledger is read every few seconds at most, and only for
prices that moved by a step.
"""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import structlog

from bot.core.errors import AuthenticationError, ServiceUnavailableError
from bot.core.interfaces import PriceFeed, RandomStreams
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction, prediction_mismatch
from bot.core.questions import CrowdForecast, QuestionRef, Quote
from bot.forecasting.reforecast_policy import log_odds_move
from bot.jobs.discovery import SchedulingContext, schedule_questions

log = structlog.get_logger(__name__)

WATCH_RUN_S = 86_400.0
# A run ends by itself; one that does not is stopped like any job that hangs.
WATCH_TIME_LIMIT = timedelta(hours=25)
# The next run begins within this time after one has ended.
WATCH_INTERVAL = timedelta(minutes=1)
RECORD_INTERVAL_S = 5.0
# How often the list of questions to watch is refreshed.
RESELECT_INTERVAL_S = 300.0
FIRST_WAIT_S = 1.0
MAX_WAIT_S = 300.0
# Only a person ends this one.
UNAUTHORIZED_WAIT_S = 3600.0
# A feed that lasted this long was sound; the waits start again from the shortest.
STABLE_FEED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceWatchContext(SchedulingContext):
    """What the price watch of a venue needs: at most ``max_questions`` questions, moves of ``min_move`` in log-odds."""

    feed: PriceFeed
    random: RandomStreams
    stopping: asyncio.Event
    max_questions: int
    min_move: float


class PriceWatch:
    """Follows one feed; its runs follow each other, and remember earlier failures."""

    def __init__(self, job: PriceWatchContext) -> None:
        self._parts = job
        self._jitter = job.random.stream("prices", job.venue_name)
        # The newest quote of each question, whether examined or not; those not examined, with the time at which they
        # arrived, since clocks of feeds may be off; and the recorded one.
        self._newest: dict[QuestionRef, Quote] = {}
        self._unrecorded: dict[QuestionRef, Quote] = {}
        self._recorded: dict[QuestionRef, Prediction] = {}
        # Set when there are quotes to examine.
        self._has_unrecorded = asyncio.Event()
        self._reselect_at = 0.0
        self._failures = 0
        self._quotes_received = 0
        self._prices_moved = 0
        self._planned = 0

    async def watch_prices(self) -> str:
        """Watch until asked to stop, or for a day; an error that waiting does not cure ends the run."""
        clock, self._prices_moved, self._planned, quotes = self._parts.clock, 0, 0, 0
        ends_at = clock.monotonic() + WATCH_RUN_S
        while not self._parts.stopping.is_set() and clock.monotonic() < ends_at:
            if refs := await self._select_questions():
                self._quotes_received = 0
                await self._follow_feed(refs, ends_at)
                quotes += self._quotes_received
            else:
                await self._wait(RESELECT_INTERVAL_S)
        return f"{self._parts.venue_name}: {quotes} quotes, {self._prices_moved} prices moved, {self._planned} planned"

    async def _select_questions(self) -> dict[QuestionRef, None]:
        """Return the questions to watch, the soonest to close first; a dict, as a set that keeps its order."""
        job = self._parts
        refs = await job.ledger.questions.open_forecast_questions(
            job.venue_name, now=job.clock.now(), limit=job.max_questions
        )
        for quotes in (self._newest, self._recorded):
            for ref in quotes.keys() - set(refs):
                del quotes[ref]
        return dict.fromkeys(refs)

    async def _follow_feed(self, refs: dict[QuestionRef, None], ends_at: float) -> None:
        """Keep the feed open until it ends, the day ends, or there are other questions to watch."""
        clock = self._parts.clock
        began = clock.monotonic()
        self._reselect_at = began + RESELECT_INTERVAL_S
        reader = asyncio.create_task(self._read_quotes(refs))
        try:
            while not (reader.done() or self._parts.stopping.is_set() or clock.monotonic() >= ends_at):
                # A quiet feed costs nothing: work is done when something moves, or when the questions are chosen again.
                await self._wait(min(self._reselect_at, ends_at) - clock.monotonic(), reader, news=self._has_unrecorded)
                if self._unrecorded:
                    await self._wait(RECORD_INTERVAL_S, reader)
                await self._record_moves()
                if await self._selection_changed(refs):
                    break
        finally:
            ended = reader.done()
            reader.cancel()
            await asyncio.wait({reader})
            error = None if reader.cancelled() else reader.exception()
        if ended:
            await self._handle_feed_end(error, was_stable=clock.monotonic() - began >= STABLE_FEED_S)

    async def _selection_changed(self, refs: dict[QuestionRef, None]) -> bool:
        """Check now and then whether other questions are to be watched."""
        if self._parts.clock.monotonic() < self._reselect_at:
            return False
        self._reselect_at += RESELECT_INTERVAL_S
        return (await self._select_questions()).keys() != refs.keys()

    async def _read_quotes(self, refs: Collection[QuestionRef]) -> None:
        async for quote in self._parts.feed.quotes(refs):
            self._receive_quote(quote, refs)

    def _receive_quote(self, quote: Quote, refs: Collection[QuestionRef]) -> None:
        """Keep the newest quote of each question; ignore repeated, late and unwanted ones."""
        if not self._quotes_received and self._failures > 1:
            log.info("prices are watched again", venue=self._parts.venue_name)
        self._quotes_received += 1
        last = self._newest.get(quote.ref)
        if quote.ref not in refs or (last is not None and quote.at < last.at):
            return
        self._newest[quote.ref] = quote
        if last is None or last.prediction != quote.prediction:
            self._unrecorded[quote.ref] = replace(quote, at=self._parts.clock.now())
            self._has_unrecorded.set()

    async def _record_moves(self) -> None:
        """Record what moved, and make due what the policy says; after an error what is left waits for the next run."""
        for _ in range(len(self._unrecorded)):
            ref = next(iter(self._unrecorded))
            quote = self._unrecorded.pop(ref)
            known = self._recorded.get(ref)
            if known is None or log_odds_move(known, quote.prediction) >= self._parts.min_move:
                try:
                    await self._record_quote(quote)
                except BaseException:
                    # The last one from now on, so that a quote that always fails does not keep the others waiting.
                    self._unrecorded.setdefault(ref, quote)
                    raise
        if not self._unrecorded:
            self._has_unrecorded.clear()

    async def _record_quote(self, quote: Quote) -> None:
        job = self._parts
        question = await job.ledger.questions.get(quote.ref)
        if why := prediction_mismatch(quote.prediction, question.shape):
            log.warning("a quote is ignored", question=str(quote.ref), why=why)
            return
        before = question.crowd
        if before is not None:
            self._recorded[quote.ref] = before.prediction
            # Ignore a quote from before the last poll; a time in the future comes from another clock.
            late = quote.at < before.at <= job.clock.now()
            if late or log_odds_move(before.prediction, quote.prediction) < job.min_move:
                return
        crowd = (
            CrowdForecast(prediction=quote.prediction, at=quote.at)
            if before is None
            else replace(before, prediction=quote.prediction, at=quote.at)
        )
        self._prices_moved += await job.ledger.questions.record_crowd_prices(
            [(quote.ref, crowd)], seen_at=job.clock.now()
        )
        self._recorded[quote.ref] = quote.prediction
        for forecaster in job.forecasters:
            self._planned += await schedule_questions(job, [replace(question, crowd=crowd)], forecaster)

    async def _handle_feed_end(self, error: BaseException | None, *, was_stable: bool) -> None:
        """Wait before the feed is opened again; raise an error that waiting does not cure."""
        if error is not None and not isinstance(error, ServiceUnavailableError | AuthenticationError):
            raise error
        why = str(error) if error is not None else "the feed ended by itself"
        self._failures = 1 if was_stable and self._quotes_received else self._failures + 1
        # A feed that ends now and then is opened again without a message.
        if self._failures == 2:
            log.warning("prices cannot be watched", venue=self._parts.venue_name, why=why)
        if isinstance(error, AuthenticationError):
            log.error("prices cannot be watched", venue=self._parts.venue_name, why=why)
            await self._wait(UNAUTHORIZED_WAIT_S)
            return
        retry_after_s = error.retry_after_s if isinstance(error, ServiceUnavailableError) else None
        ceiling = min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures, 20))
        await self._wait(max(retry_after_s or 0.0, float(self._jitter.uniform(0.0, ceiling))))

    async def _wait(self, seconds: float, *others: asyncio.Task[None], news: asyncio.Event | None = None) -> None:
        """Wait that long, but end early when asked to stop, at news, or once one of the other tasks is done."""
        events = (self._parts.stopping,) if news is None else (self._parts.stopping, news)
        waits: set[asyncio.Task[object]] = {asyncio.create_task(event.wait()) for event in events}
        waits.add(asyncio.create_task(self._parts.clock.sleep(max(seconds, 0.0))))
        try:
            await asyncio.wait({*waits, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
