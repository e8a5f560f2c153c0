"""Runs of several forecasters side by side: each in a process of its own, with its own copy of the same world."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import structlog

from bot.testing.lab.answers import Answers, answers_of
from bot.testing.lab.bench import open_hall, run, slug
from bot.testing.lab.correcting import Record, corrected
from bot.testing.lab.ensemble import Members, run_ensemble
from bot.testing.lab.leaking import leaks_in
from bot.testing.lab.questions import END_DAY, cases_of, world_of
from bot.testing.lab.variants import Setup
from bot.testing.loop import VirtualClock, simulate
from bot.testing.network import NetworkLoop

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One forecaster with the questions of one world, and the folder for its ledger; ``plugins`` bring forecasters."""

    seed: int
    count: int
    setup: Setup
    folder: Path
    plugins: tuple[str, ...]


def play(job: Job) -> Answers:
    """Run a forecaster over the questions; the same job gives the same answers."""
    # What plugins warn of while the world misbehaves is part of the experiment, not of its output.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    world = world_of(job.seed, job.count)
    cases = cases_of(world, job.count)

    async def main(clock: VirtualClock) -> Answers:
        async with open_hall(world, clock, job.folder, job.plugins) as hall:
            done = await run(hall, job.setup, cases)
            answers = answers_of(done, cases)
            if done.audit is not None:
                answers = replace(answers, leaks=leaks_in(done.audit, cases, hall.press.newsroom))
            if job.setup.corrected:
                record = Record(
                    path=job.folder / f"{slug(answers.name)}-gate.sqlite", clock=clock, calendar=world.calendar
                )
                answers = replace(answers, corrected=await corrected(record, cases, answers.said(job.setup.trials)))
            return answers

    # All has happened by then: what forecasts must not know is there to be found.
    return simulate(main, start=world.calendar.at(END_DAY), make=NetworkLoop)


def play_together(job: Job, said: Mapping[str, Sequence[float]]) -> Answers:
    """Let the ensemble make its answers of those of others; of the job, world and folder and plugins count."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    world = world_of(job.seed, job.count)
    cases = cases_of(world, job.count)

    async def main(clock: VirtualClock) -> Answers:
        async with open_hall(world, clock, job.folder, job.plugins) as hall:
            return answers_of(await run_ensemble(hall, Members(cases=cases, said=said)), cases)

    return simulate(main, start=world.calendar.at(END_DAY), make=NetworkLoop)


def play_all(jobs: Sequence[Job], processes: int, tell: Tell) -> list[Answers]:
    """Run all jobs, so many at once, and return their answers in the order of the jobs; the longest begin first."""
    if processes == 1:
        return [_told(play(job), tell) for job in jobs]
    order = sorted(jobs, key=lambda job: -job.setup.trials)
    # A fresh interpreter each, whatever this one holds open; all of them end with this block, whatever ends it.
    with get_context("spawn").Pool(processes) as pool:
        found = {answers.name: _told(answers, tell) for answers in pool.imap_unordered(play, order)}
    return [found[job.setup.name] for job in jobs]


def _told(answers: Answers, tell: Tell) -> Answers:
    use, silent = answers.use, f", {answers.silent} without an answer" if answers.silent else ""
    tell(f"{answers.name}: {use.calls} calls, {use.steps} steps, {use.seconds:.0f} s{silent}")
    return answers
