"""Forecasts per second on one full round: the model alone, and through the daemon's jobs with a real ledger."""

import asyncio
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from bot.app import App, open_app
from bot.clock import SystemClock
from bot.config.loader import load_config
from bot.desk.desk import TrialDesk, cutoff_of
from bot.domain.learning import Fitted
from bot.domain.question import Question
from bot.registry import load_registry
from tests.benchmarks.figures import VENUE, Size, environment, rounds, say

FORECASTER = "baseline"
TOLD = frozenset({"forecast", "submit"})


def main(size: Size) -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder) / "state", size))


async def _measure(state: Path, size: Size) -> None:
    config = load_config(None, environment(state, source=rounds(size), chosen="latest"))
    async with open_app(config, load_registry(config), clock=SystemClock(), patience_s=math.inf) as app:
        questions = [question async for question in app.venues[VENUE].questions()]
        started = perf_counter()
        known = await app.means.teacher.known(FORECASTER, cutoff_of(questions[0], app.clock.now()))
        say("baseline: learn what was known before the round", f"{perf_counter() - started:.2f} s")
        await _alone(app, questions, known.fitted if known else None, times=size.pick(10, 1))
        await _in_jobs(app, len(questions))


async def _alone(app: App, questions: Sequence[Question], fitted: Fitted | None, *, times: int) -> None:
    forecaster = app.seats[FORECASTER].forecaster
    started, steps = perf_counter(), 0
    for question in [*questions] * times:
        cutoff = cutoff_of(question, app.clock.now())
        desk = TrialDesk(forecast="benchmark", cutoff=cutoff, trial=1, fitted=fitted, random=app.means.random)
        steps += len([step async for step in forecaster.steps(question, desk)])
    took_s = perf_counter() - started
    count = len(questions) * times
    say(
        f"baseline: model alone, {count:,} questions",
        f"{count / took_s:,.0f} forecasts/s, {steps / took_s:,.0f} steps/s",
    )


async def _in_jobs(app: App, count: int) -> None:
    for job in app.jobs():
        started = perf_counter()
        await job.run()
        took_s = perf_counter() - started
        if job.name in TOLD:
            say(f"baseline: job {job.name}, {count:,} questions", f"{count / took_s:,.0f} forecasts/s, {took_s:.2f} s")
