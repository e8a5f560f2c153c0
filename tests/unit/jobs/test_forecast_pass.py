"""One pass of the forecast job: places are filled as they come free, and what it costs is looked at each time."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.interfaces import TrialContext
from bot.core.predictions import BinaryPrediction
from bot.core.questions import CrowdForecast, Question
from bot.forecasting.cost_check import CostCheck
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, JobsFixture


class FakeBlockedForecaster:
    """Forecasts at once, but the question slow only when the gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.seen: dict[str, CrowdForecast | None] = {}
        self.arrived: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def waits(self, key: str) -> None:
        await self.arrived[key].wait()

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        self.arrived[question.ref.key].set()
        self.seen[question.ref.key] = question.crowd
        if question.ref.key == "slow":
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


async def test_what_becomes_due_meanwhile_does_not_wait_for_the_slowest(house: JobsFixture) -> None:
    gated = FakeBlockedForecaster()
    house.forecasters[FIRST] = gated
    house.offer("slow")
    await house.discover()
    under_way = asyncio.ensure_future(house.forecast())
    await gated.waits("slow")
    house.offer("urgent")
    await house.discover()
    await house.clock.advance(1.5)
    await gated.waits("urgent")
    assert not under_way.done()
    gated.gate.set()
    assert await under_way == "2 forecasts made"


async def test_what_is_begun_counts_for_what_comes_after_it_in_the_same_pass(house: JobsFixture) -> None:
    prices = FakeDollarEstimates()
    spending = CostCheck(estimates=prices, ask_above_usd=5.0)
    house.forecasters = {FIRST: ScriptedForecaster(believe_yes(0.3))}
    house.concurrency = 2
    house.spending, house.asks = spending, True
    house.offer(*(f"question {number}" for number in range(4)))
    await house.discover()
    assert await house.forecast() == "4 forecasts made"
    house.offer(*(f"later {number}" for number in range(2)))
    await house.discover()
    assert await house.forecast() == "0 forecasts made, 2 held"
    spending.confirmed = True
    assert await house.forecast() == "2 forecasts made"
    assert prices.asked >= 2


async def test_a_crowd_that_spoke_after_the_cutoff_is_not_shown(house: JobsFixture) -> None:
    gated = FakeBlockedForecaster()
    house.forecasters[FIRST] = gated
    asked_at = house.clock.now()
    house.offer("rain", as_of=asked_at)
    await house.clock.advance(3600)
    # The venue dates this one an hour back, and shows a price of now.
    house.offer("snow", as_of=asked_at)
    await house.discover()
    await house.forecast()
    assert gated.seen["rain"] is not None
    assert gated.seen["snow"] is None
