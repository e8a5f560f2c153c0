"""Forecasts per second on one full round: the model alone, and through the daemon's jobs with a real ledger."""

import asyncio
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from bot.app.app import FoxcastApp, open_app
from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.core.learning import FittedParameters
from bot.core.questions import Question
from bot.forecasting.trial_tools import GuardedTrialContext, question_cutoff
from bot.plugin_system.registry import load_registry
from tests.benchmarks.figures import VENUE, MeasureSize, environment, rounds, say

FORECASTER = "baseline"
TOLD = frozenset({"forecast", "submit"})


def main(size: MeasureSize) -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder) / "state", size))


async def _measure(state: Path, size: MeasureSize) -> None:
    config = load_config(None, environment(state, source=rounds(size), chosen="latest"))
    async with open_app(config, load_registry(config), clock=SystemClock(), pass_limit_s=math.inf) as app:
        questions = [question async for question in app.venues[VENUE].questions()]
        started = perf_counter()
        known = await app.forecast_context.parameter_fitter.parameters_for(
            FORECASTER, question_cutoff(questions[0], app.clock.now())
        )
        say("baseline: learn what was known before the round", f"{perf_counter() - started:.2f} s")
        await _alone(app, questions, known.parameters if known else None, times=size.pick(10, 1))
        await _in_jobs(app, len(questions))


async def _alone(
    app: FoxcastApp, questions: Sequence[Question], fitted: FittedParameters | None, *, times: int
) -> None:
    forecaster = app.forecasters[FORECASTER].implementation
    started, steps = perf_counter(), 0
    for question in [*questions] * times:
        cutoff = question_cutoff(question, app.clock.now())
        context = GuardedTrialContext(
            forecast="benchmark", cutoff=cutoff, trial=1, fitted=fitted, random=app.forecast_context.random
        )
        steps += len([step async for step in forecaster.steps(question, context)])
    took_s = perf_counter() - started
    count = len(questions) * times
    say(
        f"baseline: model alone, {count:,} questions",
        f"{count / took_s:,.0f} forecasts/s, {steps / took_s:,.0f} steps/s",
    )


async def _in_jobs(app: FoxcastApp, count: int) -> None:
    for job in app.jobs():
        started = perf_counter()
        await job.run()
        took_s = perf_counter() - started
        if job.name in TOLD:
            say(f"baseline: job {job.name}, {count:,} questions", f"{count / took_s:,.0f} forecasts/s, {took_s:.2f} s")
