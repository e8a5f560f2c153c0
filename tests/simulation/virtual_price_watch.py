"""A price watch over a real ledger in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlite_utils import Database

from bot.core.clock import SeededRandom
from bot.core.errors import StoreError
from bot.core.predictions import BinaryPrediction, Prediction
from bot.core.questions import Question, QuestionRef, Quote
from bot.daemon.runner import JobRun
from bot.daemon.service import run_daemon
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.jobs.job import DaemonJob
from bot.jobs.price_watch import WATCH_INTERVAL, WATCH_TIME_LIMIT, PriceWatch, PriceWatchContext
from bot.store.connections import LedgerReaders, StatementValues, TransactionRunner
from bot.store.ledger import Ledger
from bot.store.questions import QuestionStore
from bot.store.schedule import ScheduleStore
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.venue import FakePriceFeed
from tests.blank_ledger import open_blank_ledger
from tests.simulation.virtual_daemon import CALM, VirtualDaemon
from tests.unit.store.conftest import NOON, LedgerFixture

T = TypeVar("T")


@dataclass
class TrackedRuns:
    """A writer, or readers, during whose work virtual time stands still."""

    inner: TransactionRunner
    work: list[int]

    async def run(self, closure: Callable[[Database], T]) -> T:
        self.work[0] += 1
        try:
            return await asyncio.shield(self.inner.run(closure))
        finally:
            self.work[0] -= 1


@dataclass
class FaultyReaders:
    """Readers whose next ``failures`` short queries fail."""

    inner: LedgerReaders
    failures: int = 0

    async def run(self, work: Callable[[Database], T]) -> T:
        return await self.inner.run(work)

    async def lookup(self, query: Callable[[Database], T]) -> T:
        return await self.inner.lookup(query)

    async def lookup_rows(self, statement: str, values: StatementValues = ()) -> list[Any]:
        if self.failures:
            self.failures -= 1
            message = "the disk cannot be read"
            raise StoreError(message)
        return await self.inner.lookup_rows(statement, values)


@dataclass
class VirtualPriceWatch:
    """One watch of lantern's prices, and what the test may do meanwhile."""

    clock: VirtualClock
    ledger_fixture: LedgerFixture
    feed: FakePriceFeed
    watch: PriceWatch
    stopping: asyncio.Event
    ready: asyncio.Event
    question_readers: FaultyReaders

    @property
    def ledger(self) -> Ledger:
        return self.ledger_fixture.ledger

    def quote(self, probability: float | Prediction, *, ago_s: float = 0.0, key: str = "rain") -> None:
        prediction = BinaryPrediction(probability) if isinstance(probability, float) else probability
        at = self.clock.now() - timedelta(seconds=ago_s)
        self.feed.quote_prices(Quote(ref=QuestionRef("lantern", key), prediction=prediction, at=at))

    def prices(self, key: str = "rain") -> list[float]:
        rows = self.ledger_fixture.rows(f"select probability from price where ref = 'lantern:{key}' order by id")  # noqa: S608
        return [price for (price,) in rows]

    def dues(self) -> list[tuple[str, str, str]]:
        return self.ledger_fixture.rows(
            "select ref, forecaster, why from schedule where due_at is not null order by ref"
        )

    async def add(self, key: str = "rain", *, forecast: bool = True, **changes: object) -> Question:
        question = await self.ledger_fixture.ask(key, **changes)
        if forecast:
            await self.ledger_fixture.forecast(question, now=self.clock.now())
        return question

    async def begin(self) -> None:
        """Let the watch begin, with what was prepared before."""
        self.ready.set()
        await self.clock.sleep(1.0)


async def once(stand: VirtualPriceWatch) -> str:
    return await stand.watch.watch_prices()


async def twice(stand: VirtualPriceWatch) -> str:
    return await once(stand) and await once(stand)


async def served(stand: VirtualPriceWatch) -> str:
    """Run the watch as the daemon does; return how its runs ended."""
    daemon = VirtualDaemon(stand.clock)
    daemon.stop = stand.stopping
    job = DaemonJob(
        name="prices", summary="", interval=WATCH_INTERVAL, run=stand.watch.watch_prices, time_limit=WATCH_TIME_LIMIT
    )
    await run_daemon([job], clock=stand.clock, limits=CALM, record=daemon.record, stop=daemon.stop)
    return " ".join(run.outcome.value for run in daemon.of(JobRun) if isinstance(run, JobRun))


def play(
    folder: Path,
    scenario: Callable[[VirtualPriceWatch], Awaitable[None]],
    *,
    most: int = 10,
    run: Callable[[VirtualPriceWatch], Awaitable[str]] = once,
) -> str:
    """Play a scenario next to a watch; return what was said in the end."""
    work = [0]

    async def main(clock: VirtualClock) -> str:
        path = folder / "ledger.sqlite"
        async with open_blank_ledger(path, now=clock.now()) as opened:
            readers = FaultyReaders(opened.questions.readers)
            ledger = replace(
                opened,
                questions=QuestionStore(TrackedRuns(opened.questions.writer, work), readers),
                schedule=ScheduleStore(TrackedRuns(opened.schedule.writer, work), opened.schedule.readers),
                forecasts=replace(opened.forecasts, writer=TrackedRuns(opened.forecasts.writer, work)),
            )
            feed, stopping, ready = FakePriceFeed(), asyncio.Event(), asyncio.Event()
            watching = PriceWatchContext(
                venue_name="lantern",
                forecasters=("plain",),
                ledger=ledger,
                clock=clock,
                policy=ReforecastPolicy(price_move=0.5, min_gap=timedelta(minutes=10)),
                feed=feed,
                random=SeededRandom(1),
                stopping=stopping,
                max_questions=most,
                min_move=0.05,
            )
            stand = VirtualPriceWatch(
                clock,
                LedgerFixture(ledger, path, now=clock.now()),
                feed,
                PriceWatch(watching),
                stopping,
                ready,
                readers,
            )
            telling = asyncio.create_task(run_scenario(stand, scenario))
            await ready.wait()
            values = await run(stand)
            await telling
            assert feed.listener_count == 0
            return values

    return run_in_virtual_time(main, start=NOON, busy=lambda: work[0] > 0)


async def run_scenario(stand: VirtualPriceWatch, scenario: Callable[[VirtualPriceWatch], Awaitable[None]]) -> None:
    try:
        await scenario(stand)
    finally:
        stand.ready.set()
        stand.stopping.set()
