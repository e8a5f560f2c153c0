"""One trial under its limits: every step is checked and logged before the next is asked for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from bot.desk.troubles import in_words
from bot.domain.belief import Belief, TrialPrior, unfit
from bot.domain.forecast import Limits, Trial, TrialEnd
from bot.domain.question import Question
from bot.domain.step import Step, Usage
from bot.errors import BudgetExhausted, ContextExceeded, ContractError, LimitReached, StoreError
from bot.ports import Desk, Forecaster

log = structlog.get_logger(__name__)

# A forecaster that was stopped gets this long for its own clean-up; then that is cancelled too.
CLOSE_S = 2.0

# The limits that a forecaster may come to by itself (``LimitReached.limit``).
_LIMITS = {
    "steps": TrialEnd.STEP_LIMIT,
    "tokens": TrialEnd.TOKEN_LIMIT,
    "time": TrialEnd.TIME_LIMIT,
    "repeats": TrialEnd.REPEAT_LIMIT,
    "context": TrialEnd.CONTEXT_LIMIT,
}


class StepLog(Protocol):
    """Makes one step durable; returns when it is."""

    async def __call__(self, number: int, step: Step, /) -> None:
        """Return when step ``number``, counted from 1, can no longer be lost."""
        ...


@dataclass(slots=True)
class _Progress:
    steps: int = 0
    belief: Belief | None = None
    usage: Usage = field(default_factory=Usage)
    prior: TrialPrior | None = None

    def add(self, step: Step) -> None:
        self.steps += 1
        self.belief = step.belief
        self.usage += step.usage
        self.prior = self.prior or step.prior

    def over(self, limits: Limits) -> TrialEnd | None:
        tokens = self.usage.tokens_in + self.usage.tokens_out
        if limits.cost_usd is not None and self.usage.cost_usd >= limits.cost_usd:
            return TrialEnd.COST_LIMIT
        if limits.tokens is not None and tokens >= limits.tokens:
            return TrialEnd.TOKEN_LIMIT
        return TrialEnd.STEP_LIMIT if self.steps >= limits.steps else None

    def trial(self, number: int, end: TrialEnd, detail: str = "") -> Trial:
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
class TrialRun:
    """How to run a trial: its limits, and where its steps are logged."""

    limits: Limits
    log: StepLog


async def _follow(steps: AsyncIterator[Step], question: Question, run: TrialRun, progress: _Progress) -> TrialEnd:
    async for step in steps:
        if why := unfit(step.belief, question):
            message = f"step {progress.steps + 1} ({step.action.name}): {why}"
            raise ContractError(message)
        await run.log(progress.steps + 1, step)
        progress.add(step)
        if step.final:
            return TrialEnd.FINISHED
        if end := progress.over(run.limits):
            return end
    return TrialEnd.FINISHED


@asynccontextmanager
async def _closing(steps: AsyncGenerator[Step, None]) -> AsyncIterator[AsyncGenerator[Step, None]]:
    limit = asyncio.timeout(CLOSE_S)
    try:
        yield steps
    finally:
        try:
            async with limit:
                await steps.aclose()
        except TimeoutError:
            if not limit.expired():
                raise
            log.warning("forecaster does not close", cut_off_after_s=CLOSE_S)


async def run_trial(forecaster: Forecaster, question: Question, desk: Desk, run: TrialRun) -> Trial:
    """Ask the forecaster for steps until it ends, fails or meets a limit, and return how that went.

    The last belief is part of it, whether the trial counts (``Trial.counts``) or not. A forecaster that does not close
    when it is stopped is cut off after CLOSE_S. A step whose belief does not answer the whole question is a failure.
    Raises StoreError when a step cannot be logged: an unlogged step must not count.
    """
    progress = _Progress()
    limit = asyncio.timeout(run.limits.seconds)
    try:
        async with (
            # Cancels a second time: the first one runs the forecaster's ``finally``, which may hang as well.
            asyncio.timeout(run.limits.seconds + CLOSE_S),
            limit,
            _closing(forecaster.steps(question, desk)) as steps,
        ):
            end = await _follow(steps, question, run, progress)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a forecaster is foreign code: its failure must cost this trial alone
        if limit.expired():
            return progress.trial(desk.trial, TrialEnd.TIME_LIMIT, f"stopped after {run.limits.seconds:g} s")
        return progress.trial(desk.trial, _end_of(error), in_words(error))
    return progress.trial(desk.trial, end)


def _end_of(error: Exception) -> TrialEnd:
    """Return how a trial ended that raised an error: at a limit, or else by failing."""
    match error:
        case LimitReached(limit=limit):
            return _LIMITS.get(limit, TrialEnd.FAILED)
        case ContextExceeded():
            return TrialEnd.CONTEXT_LIMIT
        case BudgetExhausted():
            return TrialEnd.COST_LIMIT
        case _:
            return TrialEnd.FAILED
