"""A watch on prices over a real ledger in virtual time, and what a test may do meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Database

from bot.clock import SeededRandom
from bot.daemon.service import run_daemon
from bot.domain.prediction import Binary, Prediction
from bot.domain.question import Question, QuestionRef
from bot.domain.research import Quote
from bot.domain.vitals import JobRun
from bot.jobs.job import Job
from bot.jobs.policy import Reforecast
from bot.jobs.watch import AGAIN, WATCH_LIMIT, PriceWatch, Watching
from bot.store.ledger import Ledger, open_ledger
from bot.store.questions import Questions
from bot.store.runs import Runs
from bot.store.schedule import Schedule
from bot.testing.loop import VirtualClock, simulate
from bot.testing.prices import MemoryFeed
from tests.simulation.daemon import CALM, Daemon
from tests.unit.store.conftest import NOON, Scribe

T = TypeVar("T")


@dataclass
class Watched:
    """A writer, or readers, during whose work virtual time stands still."""

    inner: Runs
    work: list[int]

    async def run(self, closure: Callable[[Database], T]) -> T:
        self.work[0] += 1
        try:
            return await asyncio.shield(self.inner.run(closure))
        finally:
            self.work[0] -= 1


@dataclass
class Stand:
    """One watch of lantern's prices, and what the test may do meanwhile."""

    clock: VirtualClock
    scribe: Scribe
    feed: MemoryFeed
    watch: PriceWatch
    stopping: asyncio.Event
    ready: asyncio.Event

    @property
    def ledger(self) -> Ledger:
        return self.scribe.ledger

    def quote(self, probability: float | Prediction, *, ago_s: float = 0.0, key: str = "rain") -> None:
        prediction = Binary(probability) if isinstance(probability, float) else probability
        at = self.clock.now() - timedelta(seconds=ago_s)
        self.feed.say(Quote(ref=QuestionRef("lantern", key), prediction=prediction, at=at))

    def prices(self, key: str = "rain") -> list[float]:
        rows = self.scribe.rows(f"select probability from price where ref = 'lantern:{key}' order by id")  # noqa: S608
        return [price for (price,) in rows]

    def dues(self) -> list[tuple[str, str, str]]:
        return self.scribe.rows("select ref, forecaster, why from schedule where due_at is not null order by ref")

    async def add(self, key: str = "rain", *, forecast: bool = True, **changes: object) -> Question:
        question = await self.scribe.ask(key, **changes)
        if forecast:
            await self.scribe.forecast(question, now=self.clock.now())
        return question

    async def begin(self) -> None:
        """Let the watch begin, with what was prepared before."""
        self.ready.set()
        await self.clock.sleep(1.0)


async def once(stand: Stand) -> str:
    return await stand.watch.run()


async def twice(stand: Stand) -> str:
    return await once(stand) and await once(stand)


async def served(stand: Stand) -> str:
    """Run the watch as the daemon does; return how its runs ended."""
    daemon = Daemon(stand.clock)
    daemon.stop = stand.stopping
    job = Job(name="prices", summary="", every=AGAIN, run=stand.watch.run, limit=WATCH_LIMIT)
    await run_daemon([job], clock=stand.clock, watch=CALM, record=daemon.record, stop=daemon.stop)
    return " ".join(run.outcome.value for run in daemon.of(JobRun) if isinstance(run, JobRun))


def play(
    folder: Path,
    story: Callable[[Stand], Awaitable[None]],
    *,
    most: int = 10,
    run: Callable[[Stand], Awaitable[str]] = once,
) -> str:
    """Play a story beside a watch; return what was said in the end."""
    work = [0]

    async def main(clock: VirtualClock) -> str:
        path = folder / "ledger.sqlite"
        async with open_ledger(path, now=clock.now()) as opened:
            ledger = replace(
                opened,
                questions=Questions(Watched(opened.questions.writer, work), opened.questions.readers),
                schedule=Schedule(Watched(opened.schedule.writer, work), opened.schedule.readers),
                forecasts=replace(opened.forecasts, writer=Watched(opened.forecasts.writer, work)),
            )
            feed, stopping, ready = MemoryFeed(), asyncio.Event(), asyncio.Event()
            watching = Watching(
                name="lantern",
                forecasters=("plain",),
                ledger=ledger,
                clock=clock,
                policy=Reforecast(price_move=0.5, min_gap=timedelta(minutes=10)),
                feed=feed,
                random=SeededRandom(1),
                stopping=stopping,
                most=most,
                step=0.05,
            )
            stand = Stand(clock, Scribe(ledger, path, now=clock.now()), feed, PriceWatch(watching), stopping, ready)
            telling = asyncio.create_task(told(stand, story))
            await ready.wait()
            said = await run(stand)
            await telling
            assert feed.listening == 0
            return said

    return simulate(main, start=NOON, busy=lambda: work[0] > 0)


async def told(stand: Stand, story: Callable[[Stand], Awaitable[None]]) -> None:
    try:
        await story(stand)
    finally:
        stand.ready.set()
        stand.stopping.set()
