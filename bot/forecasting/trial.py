"""One run of a forecaster on a question under its limits.

Every step is checked and logged before the next one is requested.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Protocol

import structlog

from bot.core.beliefs import NO_USAGE, Belief, ModelUsage, Step, TrialPrior, belief_mismatch
from bot.core.concurrency import reject_unrequested_cancellation
from bot.core.errors import (
    BudgetExhaustedError,
    ContextLengthExceededError,
    MalformedDataError,
    StoreError,
    TrialLimitReachedError,
)
from bot.core.forecasts import Trial, TrialEnd, TrialLimits
from bot.core.interfaces import Forecaster, TrialContext
from bot.core.light_dataclass import dataclass
from bot.core.questions import Question
from bot.forecasting.failures import describe_error

log = structlog.get_logger(__name__)

# A forecaster that was stopped gets this long for its own clean-up; then that is cancelled too.
CLOSE_TIMEOUT_S = 2.0

# The limits that a forecaster may reach by itself (``TrialLimitReachedError.limit``).
_ENDS_BY_LIMIT = {
    "steps": TrialEnd.STEP_LIMIT,
    "tokens": TrialEnd.TOKEN_LIMIT,
    "time": TrialEnd.TIME_LIMIT,
    "repeats": TrialEnd.REPEAT_LIMIT,
    "context": TrialEnd.CONTEXT_LIMIT,
}


async def _write_nothing() -> None:
    pass


class StepLogger(Protocol):
    """Makes one step durable, and before it what waits to be recorded; returns when they are."""

    async def __call__(self, number: int, step: Step, /) -> None:
        """Return when step ``number``, counted from 1, can no longer be lost."""
        ...


@dataclass(slots=True)
class _TrialProgress:
    steps: int = 0
    belief: Belief | None = None
    usage: ModelUsage = NO_USAGE
    prior: TrialPrior | None = None

    def add(self, step: Step) -> None:
        self.steps += 1
        self.belief = step.belief
        self.usage += step.usage
        self.prior = self.prior or step.prior

    def reached_limit(self, limits: TrialLimits) -> TrialEnd | None:
        tokens = self.usage.tokens_in + self.usage.tokens_out
        if limits.cost_usd is not None and self.usage.cost_usd >= limits.cost_usd:
            return TrialEnd.COST_LIMIT
        if limits.tokens is not None and tokens >= limits.tokens:
            return TrialEnd.TOKEN_LIMIT
        return TrialEnd.STEP_LIMIT if self.steps >= limits.steps else None

    def to_trial(self, number: int, end: TrialEnd, detail: str = "") -> Trial:
        if self.belief is None and end is not TrialEnd.FAILED:
            end = TrialEnd.EMPTY
        return Trial(
            number=number,
            end=end,
            belief=self.belief,
            steps=self.steps,
            usage=self.usage,
            detail=detail,
            prior=self.prior,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """How to run a trial: its limits, and where its steps are logged.

    ``write_waiting`` writes what waits to be recorded at the end.
    """

    limits: TrialLimits
    log: StepLogger
    write_waiting: Callable[[], Awaitable[None]] = _write_nothing


async def _run_steps(
    steps: AsyncIterator[Step], question: Question, run: TrialSettings, progress: _TrialProgress
) -> TrialEnd:
    async for step in steps:
        if why := belief_mismatch(step.belief, question):
            message = f"step {progress.steps + 1} ({step.action.name}): {why}"
            raise MalformedDataError(message)
        await run.log(progress.steps + 1, step)
        progress.add(step)
        if step.final:
            return TrialEnd.FINISHED
        if end := progress.reached_limit(run.limits):
            return end
    return TrialEnd.FINISHED


class _ClosedSteps:
    """A block with the steps of a forecaster, which is closed at its end."""

    __slots__ = ("_steps",)

    def __init__(self, steps: AsyncGenerator[Step, None]) -> None:
        self._steps = steps

    async def __aenter__(self) -> AsyncGenerator[Step, None]:
        return self._steps

    async def __aexit__(self, *_error: object) -> None:
        # Its time runs from here on, not from the beginning of the trial.
        limit = asyncio.timeout(CLOSE_TIMEOUT_S)
        try:
            async with limit:
                await self._steps.aclose()
        except TimeoutError:
            if not limit.expired():
                raise
            log.warning("forecaster does not close", cut_off_after_s=CLOSE_TIMEOUT_S)


async def run_trial(forecaster: Forecaster, question: Question, context: TrialContext, run: TrialSettings) -> Trial:
    """Ask the forecaster for steps until it ends, fails or reaches a limit, and return the trial.

    The last belief is part of it, whether the trial counts (``Trial.counts``) or not. A forecaster that does not close
    when it is stopped is cut off after CLOSE_TIMEOUT_S. A step whose belief does not answer the whole question is a
    failure.
    Raises StoreError when a step cannot be logged: an unlogged step must not count.
    """
    progress, detail = _TrialProgress(), ""
    limit = asyncio.timeout(run.limits.seconds)
    try:
        async with (
            # Cancels a second time: the first one runs the forecaster's ``finally``, which may hang as well.
            asyncio.timeout(run.limits.seconds + CLOSE_TIMEOUT_S),
            limit,
            _ClosedSteps(forecaster.steps(question, context)) as steps,
        ):
            with reject_unrequested_cancellation("the forecaster"):
                end = await _run_steps(steps, question, run, progress)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a forecaster is foreign code: its failure must cost this trial alone
        if limit.expired():
            end, detail = TrialEnd.TIME_LIMIT, f"stopped after {run.limits.seconds:g} s"
        else:
            end, detail = _trial_end(error), describe_error(error)
    trial = progress.to_trial(context.trial, end, detail)
    await run.write_waiting()
    return trial


def _trial_end(error: Exception) -> TrialEnd:
    """Return how a trial that raised an error ended: at a limit, or by failing."""
    match error:
        case TrialLimitReachedError(limit=limit):
            return _ENDS_BY_LIMIT.get(limit, TrialEnd.FAILED)
        case ContextLengthExceededError():
            return TrialEnd.CONTEXT_LIMIT
        case BudgetExhaustedError():
            return TrialEnd.COST_LIMIT
        case _:
            return TrialEnd.FAILED
