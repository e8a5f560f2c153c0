"""One pass of the forecast job: places are filled as they come free, and what it costs is looked at each time."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator

from bot.domain.belief import Belief
from bot.domain.prediction import Binary
from bot.domain.question import Crowd, Question
from bot.domain.step import Action, Observation, Step
from bot.jobs.spending import Spending
from bot.ports import Desk
from bot.testing.forecaster import ScriptedForecaster, say
from tests.unit.jobs.conftest import FIRST, House


class Gated:
    """Forecasts at once, but the question slow only when the gate opens."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.seen: dict[str, Crowd | None] = {}
        self.arrived: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def waits(self, key: str) -> None:
        await self.arrived[key].wait()

    async def steps(self, question: Question, desk: Desk) -> AsyncGenerator[Step, None]:
        self.arrived[question.ref.key].set()
        self.seen[question.ref.key] = question.crowd
        if question.ref.key == "slow":
            await self.gate.wait()
        belief = Belief(predictions={target.key: Binary(0.4) for target in question.targets})
        yield Step(action=Action(name="wait"), observation=Observation(), belief=belief)


class Prices:
    """One dollar a forecast; remembers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def estimate(self, forecaster: str, *, trials: int, steps: int) -> float | None:
        self.asked += 1
        return 1.0


async def test_what_becomes_due_meanwhile_does_not_wait_for_the_slowest(house: House) -> None:
    gated = Gated()
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


async def test_what_is_begun_counts_for_what_comes_after_it_in_the_same_pass(house: House) -> None:
    prices = Prices()
    spending = Spending(prices=prices, ask_above_usd=5.0)
    house.forecasters = {FIRST: ScriptedForecaster(say(0.3))}
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


async def test_a_crowd_that_spoke_after_the_cutoff_is_not_shown(house: House) -> None:
    gated = Gated()
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
