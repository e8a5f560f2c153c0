"""One pass of the forecast job: places are filled as they come free, and what it costs is looked at each time."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import timedelta

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.forecasts import TrialLimits
from bot.core.interfaces import TrialContext
from bot.core.predictions import BinaryPrediction
from bot.core.questions import CrowdForecast, Question
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.question_admission import MAX_BEGUN_AT_ONCE, POLL_S
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, JobsFixture


class FakeBlockedForecaster:
    """Forecasts at once, but questions whose name begins with slow only when the gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.seen: dict[str, CrowdForecast | None] = {}
        self.arrived: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.began = 0

    async def waits(self, key: str) -> None:
        await self.arrived[key].wait()

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        self.began += 1
        self.arrived[question.ref.key].set()
        self.seen[question.ref.key] = question.crowd
        if question.ref.key.startswith("slow"):
            await self.gate.wait()
        belief = Belief(predictions={target.key: BinaryPrediction(0.4) for target in question.targets})
        yield Step(action=StepAction(name="wait"), observation=StepObservation(), belief=belief)


class FakeDollarEstimates:
    """One dollar a forecast; remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        self.asked += 1
        return 1.0


async def test_what_becomes_due_meanwhile_does_not_wait_for_the_slowest(jobs_fixture: JobsFixture) -> None:
    gated = FakeBlockedForecaster()
    jobs_fixture.forecasters[FIRST] = gated
    jobs_fixture.offer("slow")
    await jobs_fixture.discover()
    under_way = asyncio.ensure_future(jobs_fixture.forecast())
    await gated.waits("slow")
    jobs_fixture.offer("urgent")
    await jobs_fixture.discover()
    await jobs_fixture.clock.advance(1.5)
    await gated.waits("urgent")
    assert not under_way.done()
    gated.gate.set()
    assert await under_way == "2 forecasts made"


async def test_a_forecast_longer_than_the_configured_lease_is_paid_once_whoever_looks(
    jobs_fixture: JobsFixture,
) -> None:
    """Trials of 600 s and a lease of 30 s; another daemon on the same ledger looks every 20 s."""
    gated = FakeBlockedForecaster()
    jobs_fixture.forecasters = {FIRST: gated}
    jobs_fixture.limits, jobs_fixture.lease = TrialLimits(seconds=600.0), timedelta(seconds=30)
    jobs_fixture.offer("slow")
    await jobs_fixture.discover()
    under_way = asyncio.ensure_future(jobs_fixture.forecast())
    await gated.waits("slow")
    other = replace(jobs_fixture, owner="run 2")
    for _ in range(30):
        await jobs_fixture.clock.advance(20.0)
        assert await other.forecast() == "0 forecasts made"
    assert not under_way.done()
    gated.gate.set()
    assert await under_way == "1 forecasts made"
    assert gated.began == 1


async def test_a_lease_of_a_dead_daemon_ends(jobs_fixture: JobsFixture) -> None:
    gated = FakeBlockedForecaster()
    jobs_fixture.forecasters = {FIRST: gated}
    jobs_fixture.limits, jobs_fixture.lease = TrialLimits(seconds=600.0), timedelta(seconds=30)
    jobs_fixture.offer("slow")
    await jobs_fixture.discover()
    killed = asyncio.ensure_future(jobs_fixture.forecast())
    await gated.waits("slow")
    killed.cancel()
    await asyncio.wait([killed])
    gated.gate.set()
    other = replace(jobs_fixture, owner="run 2")
    # The longest trial, its warm start and five minutes.
    await jobs_fixture.clock.advance(600.0 + 300.0 - 1.0)
    assert await other.forecast() == "0 forecasts made"
    await jobs_fixture.clock.advance(1.0)
    assert await other.forecast() == "1 forecasts made"


async def test_what_is_begun_counts_for_what_comes_after_it_in_the_same_pass(jobs_fixture: JobsFixture) -> None:
    prices = FakeDollarEstimates()
    spending = CostCheck(estimates=prices, ask_above_usd=5.0)
    jobs_fixture.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3))}
    jobs_fixture.concurrency = 2
    jobs_fixture.spending, jobs_fixture.asks = spending, True
    jobs_fixture.offer(*(f"question {number}" for number in range(4)))
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "4 forecasts made"
    jobs_fixture.offer(*(f"later {number}" for number in range(2)))
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "0 forecasts made, 2 held"
    spending.confirmed = True
    assert await jobs_fixture.forecast() == "2 forecasts made"
    assert prices.asked >= 2


async def test_a_crowd_that_spoke_after_the_cutoff_is_not_shown(jobs_fixture: JobsFixture) -> None:
    gated = FakeBlockedForecaster()
    jobs_fixture.forecasters[FIRST] = gated
    asked_at = jobs_fixture.clock.now()
    jobs_fixture.offer("rain", as_of=asked_at)
    await jobs_fixture.clock.advance(3600)
    # The venue dates this one an hour back, and shows a price of now.
    jobs_fixture.offer("snow", as_of=asked_at)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    assert gated.seen["rain"] is not None
    assert gated.seen["snow"] is None


@dataclass
class FakeRequestLoad:
    """Models that would get so many more calls, of which each question under way makes one a trial."""

    places: int
    is_process_busy: bool = False
    is_question_limit_reached: bool = False

    def room(self) -> int:
        return self.places

    def open_calls(self, scope: str) -> int:
        return 0


async def test_as_many_are_begun_as_the_models_have_room_for_and_the_others_as_they_get_it(
    jobs_fixture: JobsFixture,
) -> None:
    load, gated = FakeRequestLoad(places=5), FakeBlockedForecaster()
    jobs_fixture.forecasters = {FIRST: gated}
    jobs_fixture.load, jobs_fixture.concurrency, jobs_fixture.asks, jobs_fixture.trials = load, None, True, 2
    jobs_fixture.offer(*(f"slow {number}" for number in range(6)))
    await jobs_fixture.discover()
    under_way = asyncio.ensure_future(jobs_fixture.forecast())
    for number in range(3):
        await gated.waits(f"slow {number}")
    await asyncio.sleep(3 * POLL_S)
    assert len(gated.arrived) == 3
    gated.gate.set()
    assert await under_way == "6 forecasts made"


async def test_no_burst_of_questions_begins_in_one_instant(jobs_fixture: JobsFixture) -> None:
    gated = FakeBlockedForecaster()
    jobs_fixture.forecasters, jobs_fixture.load, jobs_fixture.concurrency = {FIRST: gated}, FakeRequestLoad(100), None
    jobs_fixture.asks = True
    jobs_fixture.offer(*(f"slow {number}" for number in range(2 * MAX_BEGUN_AT_ONCE)))
    await jobs_fixture.discover()
    gated.gate.set()
    under_way = asyncio.ensure_future(jobs_fixture.forecast())
    await gated.waits("slow 0")
    assert len(gated.arrived) <= MAX_BEGUN_AT_ONCE
    assert await under_way == f"{2 * MAX_BEGUN_AT_ONCE} forecasts made"
