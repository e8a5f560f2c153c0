import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.beliefs import Belief, ModelUsage, PriorSource, Step, StepAction, StepObservation, TrialPrior
from bot.core.clock import SeededRandom
from bot.core.errors import (
    BudgetExhaustedError,
    ContextLengthExceededError,
    FoxcastError,
    LeakError,
    RequestRejectedError,
    ServiceUnavailableError,
    StoreError,
    TrialLimitReachedError,
)
from bot.core.forecasts import Trial, TrialEnd, TrialLimits
from bot.core.interfaces import Forecaster, TrialContext
from bot.core.learning import FittedParameters
from bot.core.predictions import BinaryPrediction, BinaryShape
from bot.core.questions import Question, QuestionRef, Target
from bot.forecasting.trial import CLOSE_TIMEOUT_S, TrialSettings, run_trial
from bot.forecasting.trial_tools import GuardedTrialContext, question_cutoff
from bot.testing.event_loop import VirtualClock, run_in_virtual_time

NOW = datetime(2026, 3, 1, tzinfo=UTC)
QUESTION = Question(ref=QuestionRef("lantern", "1"), title="?", shape=BinaryShape(), targets=(Target(),))


def belief(probability: float, target: str = "outcome") -> Belief:
    return Belief(predictions={target: BinaryPrediction(probability)})


def step(probability: float, *, target: str = "outcome", usage: ModelUsage | None = None) -> Step:
    return Step(
        action=StepAction(name="think"),
        observation=StepObservation(),
        belief=belief(probability, target),
        usage=usage or ModelUsage(),
    )


class Scripted:
    """Yields the given steps, raises the given errors and hangs on None; notes whether it was closed."""

    def __init__(self, *script: Step | BaseException | None) -> None:
        self.script = script
        self.closed = False

    async def steps(self, question: Question, trial_context: TrialContext) -> AsyncGenerator[Step, None]:
        try:
            for item in self.script:
                if item is None:
                    await asyncio.Event().wait()
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
        finally:
            self.closed = True


class Log:
    """Keeps what was logged; fails from the given step on."""

    def __init__(self, fails_at: int = 99) -> None:
        self.numbers: list[int] = []
        self.fails_at = fails_at

    async def __call__(self, number: int, step: Step) -> None:
        if number >= self.fails_at:
            message = "disk full"
            raise StoreError(message)
        self.numbers.append(number)


def trial_context() -> GuardedTrialContext:
    return GuardedTrialContext(forecast="f", cutoff=NOW, trial=1, fitted=None, random=SeededRandom(1))


async def run(forecaster: Forecaster, limits: TrialLimits | None = None, log: Log | None = None) -> Trial:
    return await run_trial(
        forecaster, QUESTION, trial_context(), TrialSettings(limits=limits or TrialLimits(), log=log or Log())
    )


async def test_every_step_is_logged_in_order_and_the_last_belief_stands() -> None:
    log = Log()
    trial = await run(Scripted(step(0.3), step(0.6)), log=log)
    assert (trial.end, trial.belief, trial.steps) == (TrialEnd.FINISHED, belief(0.6), 2)
    assert log.numbers == [1, 2]


@pytest.mark.parametrize("end", [None, FoxcastError("broken")])
async def test_what_waits_to_be_recorded_is_written_at_the_end(end: FoxcastError | None) -> None:
    events: list[str] = []

    async def log(number: int, step: Step) -> None:
        events.append(f"step {number}")

    async def write_waiting() -> None:
        events.append("waiting")

    script: list[Step | Exception | None] = [step(0.3), step(0.6)]
    script += [] if end is None else [end]
    settings = TrialSettings(limits=TrialLimits(), log=log, write_waiting=write_waiting)
    await run_trial(Scripted(*script), QUESTION, trial_context(), settings)
    assert events == ["step 1", "step 2", "waiting"]


async def test_the_step_limit_closes_the_forecaster() -> None:
    forecaster = Scripted(step(0.3), step(0.6), step(0.9))
    trial = await run(forecaster, TrialLimits(steps=2))
    assert (trial.end, trial.belief) == (TrialEnd.STEP_LIMIT, belief(0.6))
    assert forecaster.closed


@pytest.mark.parametrize(
    ("limits", "end"),
    [(TrialLimits(tokens=30), TrialEnd.TOKEN_LIMIT), (TrialLimits(cost_usd=0.02), TrialEnd.COST_LIMIT)],
)
async def test_a_budget_stops_the_trial_when_it_is_used_up(limits: TrialLimits, end: TrialEnd) -> None:
    cost = ModelUsage(calls=1, tokens_in=15, tokens_out=5, cost_usd=0.01)
    trial = await run(Scripted(*(step(0.1 * n, usage=cost) for n in range(1, 6))), limits)
    assert (trial.end, trial.steps) == (end, 2)
    assert trial.usage.cost_usd == pytest.approx(0.02)


async def test_a_forecaster_that_hangs_leaves_its_last_belief() -> None:
    forecaster = Scripted(step(0.4), None)
    trial = await run(forecaster, TrialLimits(seconds=0.05))
    assert (trial.end, trial.belief) == (TrialEnd.TIME_LIMIT, belief(0.4))
    assert forecaster.closed


@pytest.mark.parametrize("error", [ServiceUnavailableError("model down"), KeyError("bug"), asyncio.CancelledError()])
async def test_a_forecaster_that_fails_leaves_its_last_belief_and_the_reason(error: BaseException) -> None:
    trial = await run(Scripted(step(0.4), error))
    assert (trial.end, trial.belief) == (TrialEnd.FAILED, belief(0.4))
    assert type(error).__name__ in trial.detail


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (TrialLimitReachedError("no step is left", limit="steps"), TrialEnd.STEP_LIMIT),
        (TrialLimitReachedError("no token is left", limit="tokens"), TrialEnd.TOKEN_LIMIT),
        (TrialLimitReachedError("no time is left", limit="time"), TrialEnd.TIME_LIMIT),
        (TrialLimitReachedError("the same call again", limit="repeats"), TrialEnd.REPEAT_LIMIT),
        (TrialLimitReachedError("too long", limit="context"), TrialEnd.CONTEXT_LIMIT),
        (ContextLengthExceededError("too long"), TrialEnd.CONTEXT_LIMIT),
        (BudgetExhaustedError("no money is left"), TrialEnd.COST_LIMIT),
        (TrialLimitReachedError("of a new kind", limit="patience"), TrialEnd.FAILED),
        (RequestRejectedError("a signature is missing"), TrialEnd.FAILED),
    ],
)
async def test_a_limit_that_a_forecaster_comes_to_is_no_failure_of_its_model(
    error: FoxcastError, end: TrialEnd
) -> None:
    trial = await run(Scripted(step(0.4), error))
    assert (trial.end, trial.belief, trial.detail) == (end, belief(0.4), f"{type(error).__name__}: {error}")
    assert trial.is_answer is (end is not TrialEnd.FAILED)


async def test_what_a_trial_started_from_is_what_its_first_step_says() -> None:
    prior = TrialPrior(PriorSource.BASE_RATE, BinaryPrediction(0.1))
    first = replace(step(0.3), prior=prior)
    assert (await run(Scripted(first, step(0.6)))).prior == prior
    assert (await run(Scripted(step(0.3), step(0.6)))).prior is None


async def test_a_time_limit_of_the_forecasters_own_is_its_failure_and_not_the_limit_of_the_trial() -> None:
    trial = await run(Scripted(step(0.4), TimeoutError("the server did not answer")))
    assert (trial.end, trial.belief) == (TrialEnd.FAILED, belief(0.4))
    # What a foreign error says may hold a key.
    assert trial.detail.startswith("TimeoutError (test_trial.py:")


class Lingering:
    """Yields one step, then hangs, and takes an hour to clean up."""

    async def steps(self, question: Question, trial_context: TrialContext) -> AsyncGenerator[Step, None]:
        try:
            yield step(0.4)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("limits", "end", "took_s"),
    [
        (TrialLimits(seconds=60), TrialEnd.TIME_LIMIT, 60 + CLOSE_TIMEOUT_S),
        (TrialLimits(steps=1), TrialEnd.STEP_LIMIT, CLOSE_TIMEOUT_S),
    ],
)
def test_a_forecaster_that_does_not_close_is_cut_off(limits: TrialLimits, end: TrialEnd, took_s: float) -> None:
    async def main(clock: VirtualClock) -> tuple[Trial, float]:
        return await run(Lingering(), limits), clock.monotonic()

    trial, ended_s = run_in_virtual_time(main)
    assert (trial.end, trial.belief) == (end, belief(0.4))
    assert ended_s == pytest.approx(took_s)


@pytest.mark.parametrize("limits", [TrialLimits(steps=1), TrialLimits(seconds=30)])
def test_a_forecaster_has_time_to_close_however_long_its_trial_was(limits: TrialLimits) -> None:
    cleaned: list[bool] = []

    class Slow:
        async def steps(self, question: Question, trial_context: TrialContext) -> AsyncGenerator[Step, None]:
            try:
                await asyncio.sleep(10 * CLOSE_TIMEOUT_S)
                yield step(0.4)
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(CLOSE_TIMEOUT_S / 2)
                cleaned.append(True)

    async def main(_clock: VirtualClock) -> Trial:
        return await run(Slow(), limits)

    assert run_in_virtual_time(main).belief == belief(0.4)
    assert cleaned == [True]


async def test_a_forecaster_that_fails_to_close_keeps_its_last_belief() -> None:
    class Broken:
        async def steps(self, question: Question, trial_context: TrialContext) -> AsyncGenerator[Step, None]:
            try:
                yield step(0.4)
                yield step(0.5)
            finally:
                message = "already gone"
                raise TimeoutError(message)

    trial = await run(Broken(), TrialLimits(steps=1))
    assert (trial.end, trial.belief) == (TrialEnd.FAILED, belief(0.4))
    assert trial.detail.startswith("TimeoutError (test_trial.py:")


async def test_a_belief_that_answers_something_else_is_neither_logged_nor_kept() -> None:
    log = Log()
    trial = await run(Scripted(step(0.4), step(0.9, target="other")), log=log)
    assert (trial.end, trial.belief) == (TrialEnd.FAILED, belief(0.4))
    assert "step 2 (think): targets ['other']" in trial.detail
    assert log.numbers == [1]


async def test_a_forecaster_without_a_step_has_no_belief() -> None:
    assert (await run(Scripted())).end is TrialEnd.EMPTY


async def test_a_step_that_cannot_be_logged_stops_everything() -> None:
    forecaster = Scripted(step(0.4), step(0.5))
    with pytest.raises(StoreError, match="disk full"):
        await run(forecaster, log=Log(fails_at=2))
    assert forecaster.closed


def test_a_context_refuses_what_was_learned_after_the_cutoff() -> None:
    late = FittedParameters(forecaster="x", before=NOW + timedelta(days=1), examples=3, payload={})
    with pytest.raises(LeakError, match="cutoff"):
        GuardedTrialContext(forecast="f", cutoff=NOW, trial=1, fitted=late, random=SeededRandom(1))


def test_the_cutoff_is_now_unless_the_venue_fixed_an_earlier_moment() -> None:
    fixed = Question(ref=QuestionRef("lantern", "1"), title="?", shape=BinaryShape(), targets=(Target(),), as_of=NOW)
    assert question_cutoff(QUESTION, NOW) == NOW
    assert question_cutoff(fixed, NOW + timedelta(days=5)) == NOW
    assert question_cutoff(fixed, NOW - timedelta(days=5)) == NOW - timedelta(days=5)


def test_chance_belongs_to_forecast_trial_and_labels() -> None:
    again = [trial_context().stream("a").random() for _ in range(2)]
    assert again[0] == again[1]
    assert trial_context().stream("a").random() != trial_context().stream("b").random()
