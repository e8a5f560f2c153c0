"""Warm start: the first trial begins alone, and the others follow its first step, its end, or a span of time."""

import asyncio

import pytest

from bot.core.beliefs import Belief
from bot.core.forecasts import Trial, TrialEnd
from bot.core.predictions import BinaryPrediction
from bot.forecasting.forecast_run import WarmStart
from bot.testing.event_loop import VirtualClock, run_in_virtual_time


def started(
    *, seconds: float, first_step_s: float | None, numbers: range = range(1, 4)
) -> tuple[dict[int, float], list[int]]:
    """Return when each trial began, and the numbers in the order of the result; each trial takes 100 s.

    The first one makes a step after ``first_step_s``, or none.
    """
    began: dict[int, float] = {}

    async def main(clock: VirtualClock) -> list[Trial]:
        warm = WarmStart(clock=clock, seconds=seconds)

        async def trial(number: int) -> Trial:
            began[number] = clock.monotonic()
            if number == numbers[0] and first_step_s is not None:
                await clock.sleep(first_step_s)
                warm.release()
            await clock.sleep(100.0)
            belief = Belief(predictions={"outcome": BinaryPrediction(0.5)})
            return Trial(number=number, end=TrialEnd.FINISHED, belief=belief, steps=1)

        return await warm.run_trials(trial, numbers)

    return began, [trial.number for trial in run_in_virtual_time(main)]


@pytest.mark.parametrize(
    ("seconds", "first_step_s", "others_s"),
    [
        (30.0, 12.0, 12.0),
        # A first step that takes long is not waited for.
        (30.0, 45.0, 30.0),
        # A trial that makes no step releases the others when it ends.
        (1000.0, None, 100.0),
        # 0 starts all at once.
        (0.0, 12.0, 0.0),
    ],
)
def test_the_others_follow_the_first_step_of_the_first_trial(
    seconds: float, first_step_s: float | None, others_s: float
) -> None:
    began, order = started(seconds=seconds, first_step_s=first_step_s)
    assert began == {1: 0.0, 2: pytest.approx(others_s), 3: pytest.approx(others_s)}
    assert order == [1, 2, 3]


def test_the_first_of_those_that_are_left_begins_alone() -> None:
    began, _ = started(seconds=30.0, first_step_s=5.0, numbers=range(4, 6))
    assert began == {4: 0.0, 5: pytest.approx(5.0)}


def test_a_trial_that_raises_ends_all_of_them() -> None:
    async def main(clock: VirtualClock) -> float:
        warm = WarmStart(clock=clock, seconds=30.0)

        async def trial(_number: int) -> Trial:
            await asyncio.sleep(1.0)
            message = "the disk is full"
            raise OSError(message)

        with pytest.raises(OSError, match="the disk is full"):
            await warm.run_trials(trial, [1, 2, 3])
        return clock.monotonic()

    assert run_in_virtual_time(main) == pytest.approx(1.0)


def test_no_trial_is_none() -> None:
    async def main(clock: VirtualClock) -> list[Trial]:
        async def trial(_number: int) -> Trial:
            raise AssertionError

        return await WarmStart(clock=clock, seconds=30.0).run_trials(trial, [])

    assert run_in_virtual_time(main) == []
