"""Watch prices move, for as long as the daemon runs: what moved is recorded, and the question made due.

One watch per venue with a price feed, a run a day: in the end the feed is opened anew, whatever its state. A feed that
falls silent is opened again after a wait drawn from a range that doubles, and only one that stays away is worth a line.
Quotes may come by the thousand; the ledger is asked every few seconds at most, and only for what moved by a step.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from bot.domain.prediction import Prediction, mismatch
from bot.domain.question import Crowd, QuestionRef
from bot.domain.research import Quote
from bot.errors import Unauthorized, Unavailable
from bot.jobs.discover import Planning, plan
from bot.jobs.policy import moved
from bot.ports import PriceFeed, Random

log = structlog.get_logger(__name__)

RUN_S = 86_400.0
# A run ends by itself; one that does not is stopped as any job that hangs.
WATCH_LIMIT = timedelta(hours=25)
# Once it has ended the next one begins within this time.
AGAIN = timedelta(minutes=1)
FLUSH_S = 5.0
# How often it is asked which questions there are to watch.
CHOOSE_S = 300.0
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 300.0
# Nothing but a person ends this one.
UNAUTHORIZED_WAIT_S = 3600.0
# A feed that lasted this long was sound; the waits begin anew.
STEADY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching(Planning):
    """What watching the prices of one venue needs: at most ``most`` questions, and moves of ``step`` in log-odds."""

    feed: PriceFeed
    random: Random
    stopping: asyncio.Event
    most: int
    step: float


class PriceWatch:
    """Follows one feed; its runs are one after the other, and remember each other's failures."""

    def __init__(self, parts: Watching) -> None:
        self._parts = parts
        self._jitter = parts.random.stream("prices", parts.name)
        # Of each question the newest quote, whether looked at or not; those not looked at, under the time at which they
        # were heard, since clocks of feeds may be off; and what is on record.
        self._newest: dict[QuestionRef, Quote] = {}
        self._fresh: dict[QuestionRef, Quote] = {}
        self._known: dict[QuestionRef, Prediction] = {}
        # Set when there are some to be looked at.
        self._news = asyncio.Event()
        self._choose_at = 0.0
        self._failures = 0
        self._heard = 0
        self._moved = 0
        self._planned = 0

    async def run(self) -> str:
        """Watch until asked to stop, or for a day; errors that no waiting mends end the run."""
        clock, self._moved, self._planned, quotes = self._parts.clock, 0, 0, 0
        ends_at = clock.monotonic() + RUN_S
        while not self._parts.stopping.is_set() and clock.monotonic() < ends_at:
            if refs := await self._chosen():
                self._heard = 0
                await self._follow(refs, ends_at)
                quotes += self._heard
            else:
                await self._rest(CHOOSE_S)
        return f"{self._parts.name}: {quotes} quotes, {self._moved} prices moved, {self._planned} planned"

    async def _chosen(self) -> dict[QuestionRef, None]:
        """Return what is to be watched, the soonest to close first; a dict, as a set that keeps its order."""
        parts = self._parts
        refs = await parts.ledger.questions.priced(parts.name, now=parts.clock.now(), limit=parts.most)
        for memory in (self._newest, self._known):
            for ref in memory.keys() - set(refs):
                del memory[ref]
        return dict.fromkeys(refs)

    async def _follow(self, refs: dict[QuestionRef, None], ends_at: float) -> None:
        """Have the feed open until it ends, the day does, or there are other questions to watch."""
        clock = self._parts.clock
        began = clock.monotonic()
        self._choose_at = began + CHOOSE_S
        pump = asyncio.create_task(self._pump(refs))
        try:
            while not (pump.done() or self._parts.stopping.is_set() or clock.monotonic() >= ends_at):
                # A quiet feed costs nothing: what is due is done when something moves, or others are to be chosen.
                await self._rest(min(self._choose_at, ends_at) - clock.monotonic(), pump, news=self._news)
                if self._fresh:
                    await self._rest(FLUSH_S, pump)
                await self._flush()
                if await self._outdated(refs):
                    break
        finally:
            ended = pump.done()
            pump.cancel()
            await asyncio.wait({pump})
            error = None if pump.cancelled() else pump.exception()
        if ended:
            await self._ended(error, steady=clock.monotonic() - began >= STEADY_S)

    async def _outdated(self, refs: dict[QuestionRef, None]) -> bool:
        """Ask now and then whether others are to be watched."""
        if self._parts.clock.monotonic() < self._choose_at:
            return False
        self._choose_at += CHOOSE_S
        return (await self._chosen()).keys() != refs.keys()

    async def _pump(self, refs: Collection[QuestionRef]) -> None:
        async for quote in self._parts.feed.quotes(refs):
            self._hear(quote, refs)

    def _hear(self, quote: Quote, refs: Collection[QuestionRef]) -> None:
        """Keep the newest quote of each question; repeated, late and unwanted ones leave no trace."""
        if not self._heard and self._failures > 1:
            log.info("prices are watched again", venue=self._parts.name)
        self._heard += 1
        last = self._newest.get(quote.ref)
        if quote.ref not in refs or (last is not None and quote.at < last.at):
            return
        self._newest[quote.ref] = quote
        if last is None or last.prediction != quote.prediction:
            self._fresh[quote.ref] = replace(quote, at=self._parts.clock.now())
            self._news.set()

    async def _flush(self) -> None:
        """Record what moved, and make due what the policy says."""
        fresh, self._fresh = self._fresh, {}
        self._news.clear()
        for quote in fresh.values():
            known = self._known.get(quote.ref)
            if known is None or moved(known, quote.prediction) >= self._parts.step:
                await self._record(quote)

    async def _record(self, quote: Quote) -> None:
        parts = self._parts
        question = await parts.ledger.questions.get(quote.ref)
        if why := mismatch(quote.prediction, question.shape):
            log.warning("a quote is left out", question=str(quote.ref), why=why)
            return
        before = question.crowd
        if before is not None:
            self._known[quote.ref] = before.prediction
            # Heard before what was polled since; a time to come is that of another clock.
            late = quote.at < before.at <= parts.clock.now()
            if late or moved(before.prediction, quote.prediction) < parts.step:
                return
        crowd = Crowd(
            prediction=quote.prediction, at=quote.at, explanation="" if before is None else before.explanation
        )
        self._moved += await parts.ledger.questions.reprice([(quote.ref, crowd)], seen_at=parts.clock.now())
        self._known[quote.ref] = quote.prediction
        for forecaster in parts.forecasters:
            self._planned += await plan(parts, [replace(question, crowd=crowd)], forecaster)

    async def _ended(self, error: BaseException | None, *, steady: bool) -> None:
        """Wait before the feed is opened again; raise what no waiting mends."""
        if error is not None and not isinstance(error, Unavailable | Unauthorized):
            raise error
        why = str(error) if error is not None else "the feed ended by itself"
        self._failures = 1 if steady and self._heard else self._failures + 1
        # One that ends now and then is opened again without a word.
        if self._failures == 2:
            log.warning("prices cannot be watched", venue=self._parts.name, why=why)
        if isinstance(error, Unauthorized):
            log.error("prices cannot be watched", venue=self._parts.name, why=why)
            await self._rest(UNAUTHORIZED_WAIT_S)
            return
        asked_s = error.retry_after_s if isinstance(error, Unavailable) else None
        ceiling = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures, 20))
        await self._rest(max(asked_s or 0.0, float(self._jitter.uniform(0.0, ceiling))))

    async def _rest(self, seconds: float, *others: asyncio.Task[None], news: asyncio.Event | None = None) -> None:
        """Let that time pass, but no more once asked to stop, at news, or once one of the others is done."""
        events = (self._parts.stopping,) if news is None else (self._parts.stopping, news)
        waits: set[asyncio.Task[object]] = {asyncio.create_task(event.wait()) for event in events}
        waits.add(asyncio.create_task(self._parts.clock.sleep(max(seconds, 0.0))))
        try:
            await asyncio.wait({*waits, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
