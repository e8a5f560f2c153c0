"""Runs of several forecasters concurrently, each in a process of its own, and the count of leaks that each met."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import structlog

from bot.core.light_dataclass import dataclass
from bot.evaluation.leak_audit import AuditedDocument, AuditOpinion, LeakAudit
from bot.simulator.laboratory.answers import ForecasterAnswers, LeakCounts, collect_answers
from bot.simulator.laboratory.blend import MemberAnswers, run_blend
from bot.simulator.laboratory.calibration import CalibrationLedger, calibrate_answers
from bot.simulator.laboratory.forecaster_variants import ForecasterVariant
from bot.simulator.laboratory.questions import (
    END_DAY,
    LaboratoryQuestion,
    create_world,
    follow_questions,
    select_questions,
)
from bot.simulator.laboratory.staleness import FollowedForecasts, follow_forecasts
from bot.simulator.laboratory.trial_runner import file_name_of, open_laboratory, run_forecaster
from bot.simulator.network import NetworkEventLoop
from bot.simulator.world.news import ArticleKind, HostileTrick, NewsArticle, NewsGenerator
from bot.store.ledger import LEDGER_FILE
from bot.testing.event_loop import VirtualClock, run_in_virtual_time


def count_leaks(audit: LeakAudit, cases: Sequence[LaboratoryQuestion], news: NewsGenerator) -> LeakCounts:
    """Compare the audit of a run with the articles really rewritten after each cutoff; texts count once a question."""
    days = {str(case.question.ref): case.day for case in cases}
    seen = _documents_by_article(audit.documents)
    articles = {key: news.article(key[1]) for key in seen}
    late = {key for key, article in articles.items() if article is not None and _tells_of_later(article, days[key[0]])}
    fakes = {
        key for key, article in articles.items() if article is not None and article.trick is HostileTrick.FAKE_RESULT
    }
    let_in = {key for key, found in seen.items() if any(one.document.dropped is None for one in found)}
    flagged = {
        key
        for key, found in seen.items()
        if any(one.document.dropped is None and one.opinion is AuditOpinion.LEAK for one in found)
    }
    return LeakCounts(
        found_by_search=len(late),
        let_in=len(late & let_in),
        caught=len(late & flagged),
        fakes=len((flagged & fakes) - late),
        false_alarms=len(flagged - fakes - late),
    )


def _documents_by_article(documents: Iterable[AuditedDocument]) -> Mapping[tuple[str, str], Sequence[AuditedDocument]]:
    """Return the documents from the press by question and article."""
    found: dict[tuple[str, str], list[AuditedDocument]] = {}
    for one in documents:
        base, _, number = one.document.name.rpartition("/")
        if base.endswith("/news"):
            found.setdefault((one.ref, number), []).append(one)
    return found


def _tells_of_later(article: NewsArticle, day: float) -> bool:
    """Return whether an article that was published by the cutoff contains what was written after it."""
    return (
        article.kind is ArticleKind.EDITED
        and article.published < day
        and any(one.day > day for one in article.versions)
    )


ProgressCallback = Callable[[str], None]
JobT = TypeVar("JobT", bound="ForecasterJob")
AnswersT = TypeVar("AnswersT", ForecasterAnswers, FollowedForecasts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterJob:
    """One forecaster with the questions of one world, and the folder for its ledger; ``plugins`` bring forecasters."""

    seed: int
    count: int
    setup: ForecasterVariant
    folder: Path
    plugins: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessJob(ForecasterJob):
    """One forecaster that follows the questions for so many days."""

    days: int


def run_job(job: ForecasterJob) -> ForecasterAnswers:
    """Run a forecaster over the questions; the same job gives the same answers."""
    # Warnings of plugins while the world misbehaves are part of the experiment, not of its output.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    world = create_world(job.seed, job.count)
    cases = select_questions(world, job.count)

    async def main(clock: VirtualClock) -> ForecasterAnswers:
        async with open_laboratory(world, clock, job.folder, job.plugins) as servers:
            done = await run_forecaster(servers, job.setup, cases)
            answers = collect_answers(done, cases)
            if done.audit is not None:
                answers = replace(answers, leaks=count_leaks(done.audit, cases, servers.news_server.news))
            if job.setup.is_calibrated:
                gate = job.folder / f"{file_name_of(answers.name)}-gate"
                gate.mkdir(mode=0o700)
                record = CalibrationLedger(path=gate / LEDGER_FILE, clock=clock, calendar=world.calendar)
                answers = replace(
                    answers, corrected=await calibrate_answers(record, cases, answers.pooled_answers(job.setup.trials))
                )
            return answers

    # All is over by then: outcomes that forecasts must not know can be found.
    return run_in_virtual_time(main, start=world.calendar.moment_of(END_DAY), make=NetworkEventLoop)


def run_staleness_job(job: StalenessJob) -> FollowedForecasts:
    """Follow the questions with one forecaster, from the day of the first one on; the same job gives the same."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    world = create_world(job.seed, job.count)
    cases = follow_questions(world, job.count, job.days)

    async def main(clock: VirtualClock) -> FollowedForecasts:
        async with open_laboratory(world, clock, job.folder, job.plugins) as servers:
            return await follow_forecasts(servers, job.setup, cases)

    return run_in_virtual_time(main, start=world.calendar.moment_of(cases[0].day), make=NetworkEventLoop)


def run_blend_job(job: ForecasterJob, answers_by_member: Mapping[str, Sequence[float]]) -> ForecasterAnswers:
    """Let the blend combine the answers of others; of the job only world, folder and plugins count."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    world = create_world(job.seed, job.count)
    cases = select_questions(world, job.count)

    async def main(clock: VirtualClock) -> ForecasterAnswers:
        async with open_laboratory(world, clock, job.folder, job.plugins) as servers:
            return collect_answers(
                await run_blend(servers, MemberAnswers(cases=cases, answers_by_member=answers_by_member)), cases
            )

    return run_in_virtual_time(main, start=world.calendar.moment_of(END_DAY), make=NetworkEventLoop)


def run_all_jobs(
    run: Callable[[JobT], AnswersT], jobs: Sequence[JobT], processes: int, tell: ProgressCallback
) -> list[AnswersT]:
    """Run all jobs, so many at once, and return their answers in the order of the jobs; the longest begin first."""
    if processes == 1:
        return [_report_progress(run(job), tell) for job in jobs]
    order = sorted(jobs, key=lambda job: -job.setup.trials)
    # A fresh interpreter each, without inherited files; all of them end with this block, however it ends.
    with get_context("spawn").Pool(processes) as pool:
        found = {answers.name: _report_progress(answers, tell) for answers in pool.imap_unordered(run, order)}
    return [found[job.setup.name] for job in jobs]


def _report_progress(answers: AnswersT, tell: ProgressCallback) -> AnswersT:
    tell(f"{answers.name}: {answers.progress}")
    return answers
