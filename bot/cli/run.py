"""`foxcast run`: the daemon, or one pass of every job with its progress and a summary at the end.

SIGUSR1 halts all submissions.
"""

import asyncio
import logging
import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, NoReturn

import structlog
import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from bot.app.app import FORECAST_PASS_LIMIT_S, FoxcastApp, open_app
from bot.cli.command_exit import SIGNAL_EXIT_CODES, ExitCode
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.cost_confirmation import unconfirmed_forecasts_message
from bot.cli.options import CommandInvocation
from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading, progress_bars, stdout_console
from bot.cli.output.formatting import NO_VALUE
from bot.cli.output.outcomes import describe_outcome
from bot.cli.output.predictions import describe_prediction_short
from bot.cli.output.score_report import print_kinds
from bot.cli.score import graded_by_forecaster, print_total_scores, rows_by_forecaster
from bot.cli.trial_failures import failures_exit_code, failures_summary
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, StoreError
from bot.core.forecasts import Forecast
from bot.core.outcomes import Resolution
from bot.core.plain_text import replace_invisible
from bot.core.predictions import CurveShape, Prediction, QuestionShape
from bot.core.questions import SINGLE_TARGET
from bot.daemon.recorder import DaemonRecorder, JobRunCollector
from bot.daemon.runner import DRAIN_TIMEOUT_S, DaemonExit, DaemonLimits, ExitReason, JobRun
from bot.daemon.service import handle_signals, run_daemon
from bot.daemon.service import run_jobs_once as one_pass
from bot.evaluation.score_report import kind_reports
from bot.execution.gate.kill_switch import STOP_FILE, engage_kill_switch
from bot.jobs.job import DaemonJob
from bot.plugin_system.discovery import BUILT_IN_CONFIG
from bot.store.forecast_queries import RecentFailures, read_recent_failures
from bot.store.ledger import LEDGER_FILE
from bot.store.scores import NonBinaryScores, ResolvedBinaryColumns, ScoreFilter
from bot.store.submission_queries import SubmissionCounts, count_submissions

signal_log = structlog.get_logger(__name__)


@contextmanager
def halt_on_signal(stop_file: Path) -> Iterator[None]:
    """While entered, make the stop file at each SIGUSR1. Enter it in the main thread, inside the running loop."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _halt_submissions, stop_file)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)


def _halt_submissions(stop_file: Path) -> None:
    try:
        engage_kill_switch(stop_file, "SIGUSR1")
    except StoreError as error:
        signal_log.error("cannot halt", file=str(stop_file), error=str(error))
        return
    signal_log.warning("halted by a signal", file=str(stop_file), resume="foxcast resume")


REDRAW_EVERY_S = 0.3


REPORT_EVERY_S = 30.0


@dataclass(slots=True)
class PassProgress:
    """One pass of an open Foxcast, from the moment on at which it began."""

    opened: FoxcastApp
    began: datetime
    _running: str = ""
    _before: int = 0
    _clock_s: float = field(default=0.0)

    def track_jobs(self, jobs: Sequence[DaemonJob]) -> list[DaemonJob]:
        """Return the jobs, which also say here which of them runs."""
        return [replace(job, run=partial(self._run, job)) for job in jobs]

    @asynccontextmanager
    async def display(self, bars: Progress) -> AsyncIterator[None]:
        """Tell how the pass gets on while the block runs."""
        opened = self.opened
        self._before, self._clock_s = await opened.ledger.forecasts.count(), opened.clock.monotonic()
        if bars.disable:
            looking = asyncio.create_task(self._every(REPORT_EVERY_S, self._tell))
        else:
            tasks = [bars.add_task(name, total=None) for name in ("forecasts", "submissions")]
            looking = asyncio.create_task(self._every(REDRAW_EVERY_S, partial(self._draw, bars, tasks)))
        try:
            yield
        finally:
            looking.cancel()

    async def _run(self, job: DaemonJob) -> str:
        self._running = job.name
        return await job.run()

    async def _every(self, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.opened.clock.sleep(pause_s)
            await work()

    async def _tell(self) -> None:
        (made, all_made), (sent, all_sent) = await self._counts()
        took_s = self.opened.clock.monotonic() - self._clock_s
        counts = ((made, all_made, "forecasts"), (sent, all_sent, "submissions"))
        parts = [f"{done} of {total} {what}" for done, total, what in counts if total]
        typer.echo(
            replace_invisible(f"foxcast: {took_s:.0f} s, {self._running}: {', '.join(parts) or 'at work'}"), err=True
        )

    async def _draw(self, bars: Progress, tasks: Sequence[TaskID]) -> None:
        for task, (done, total) in zip(tasks, await self._counts(), strict=True):
            bars.update(task, completed=done, total=total or None)

    async def _counts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return how many forecasts are made of those that were due, and how many submissions were tried of all."""
        ledger, now = self.opened.ledger, self.opened.clock.now()
        due = await ledger.schedule.counts(now)
        made = await ledger.forecasts.count() - self._before
        sent = await count_submissions(ledger.forecasts.readers, self.began)
        return (made, made + due.due + due.leased), (sent.tried, sent.tried + sent.waiting)


def submission_problems(found: SubmissionCounts) -> Iterator[str]:
    """Yield a line for each venue with submissions that have no answer, or that were refused."""
    for venue, count in found.unanswered.items():
        has = "submission to {} has" if count == 1 else "submissions to {} have"
        yield f"{count} {has.format(venue)} no answer; the next run reads back what can be: foxcast orders --open"
    for venue, (count, why) in found.refused.items():
        was = "submission to {} was" if count == 1 else "submissions to {} were"
        yield f"{count} {was.format(venue)} refused: {why or 'it did not say why'}; look: foxcast orders"


def submissions_exit_code(found: SubmissionCounts) -> ExitCode:
    """Return the code of a pass that has nothing worse to say about its submissions."""
    if found.unanswered:
        return ExitCode.UNAVAILABLE
    return ExitCode.REFUSED if found.refused else ExitCode.DONE


MAX_LINES_SHOWN = 12


MAX_FORECASTS_READ = 10 * MAX_LINES_SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """One forecast: the answer for one target, the crowd when it was made, and what happened if that is known."""

    forecast: Forecast
    title: str
    family: str
    shape: QuestionShape
    target: str
    crowd: Prediction | None
    resolution: Resolution | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSummary:
    """What to tell at the end of a pass; ``written`` is each folder with files for a venue, and how many."""

    runs: Sequence[JobRun]
    questions: int
    forecasts: int
    lines: tuple[SummaryLine, ...]
    scored: ResolvedBinaryColumns
    marked: Sequence[NonBinaryScores]
    seed: int
    ledger: Path
    written: Mapping[Path, int]


async def load_pass_summary(app: FoxcastApp, runs: Sequence[JobRun]) -> PassSummary:
    """Gather the summary of the pass whose job runs are given."""
    ledger = app.ledger
    recent = [await _summary_line(app, forecast) for forecast in await ledger.forecasts.recent(MAX_FORECASTS_READ)]
    return PassSummary(
        runs=runs,
        questions=await ledger.questions.count(),
        forecasts=await ledger.forecasts.count(),
        lines=tuple(_interleave_families(recent)[:MAX_LINES_SHOWN]),
        scored=await ledger.scores.read_binary_columns(ScoreFilter()),
        marked=await ledger.scores.read_non_binary_scores(ScoreFilter()),
        seed=app.config.seed,
        ledger=app.folder / LEDGER_FILE,
        written=_count_venue_files(app),
    )


async def _summary_line(app: FoxcastApp, forecast: Forecast) -> SummaryLine:
    """Tell the target that has resolved, if one has; a question may have many."""
    outcomes = {found.target: found for found in await app.ledger.resolutions.current(forecast.ref)}
    question = (await app.ledger.forecasts.trace(forecast.id)).question
    target = next((key for key in forecast.predictions if key in outcomes), next(iter(forecast.predictions)))
    return SummaryLine(
        forecast=forecast,
        title=question.title,
        family=question.family,
        shape=question.shape,
        target=target,
        crowd=question.crowd.prediction if question.crowd else None,
        resolution=outcomes.get(target),
    )


def _interleave_families(lines: Sequence[SummaryLine]) -> list[SummaryLine]:
    """Take from each family of questions in turn: the newest forecasts of a pass are often of one family alone."""
    families: dict[str, list[SummaryLine]] = {}
    for line in lines:
        families.setdefault(line.family, []).append(line)
    return [line for turn in zip_longest(*families.values()) for line in turn if line is not None]


def _count_venue_files(app: FoxcastApp) -> dict[Path, int]:
    """Count the files that the paper books and writers of the venues keep in their folders."""
    counts: dict[Path, int] = {}
    for venue in app.venues:
        for path in sorted((app.folder / venue).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                counts[path.parent] = counts.get(path.parent, 0) + 1
    return counts


JOB_COLUMNS = (TableColumn("job"), TableColumn("took", ColumnKind.NUMBER), TableColumn("what it did", ColumnKind.TEXT))


FORECAST_COLUMNS = (TableColumn("question", ColumnKind.TITLE), TableColumn("by"), TableColumn("for"))


def print_pass_summary(console: Console, summary: PassSummary, call: CommandInvocation) -> None:
    """Print the whole summary; how the program was called is repeated in the commands to try."""
    print_heading(console, "Jobs")
    console.print(
        make_table(
            JOB_COLUMNS,
            [(run.job, f"{run.took_s:.1f} s", _job_result_text(run.outcome, run.detail)) for run in summary.runs],
        )
    )
    if summary.lines:
        print_heading(console, f"Newest forecasts ({summary.forecasts} in all, of {summary.questions} questions)")
        # Quantiles are too long for a line of their own width.
        kind = (
            ColumnKind.TEXT if any(isinstance(line.shape, CurveShape) for line in summary.lines) else ColumnKind.NUMBER
        )
        columns = (*FORECAST_COLUMNS, TableColumn("forecast", kind), TableColumn("crowd", kind), TableColumn("outcome"))
        console.print(make_table(columns, [_summary_cells(line) for line in summary.lines]))
    for name, rows in rows_by_forecaster(summary.scored).items():
        print_total_scores(console, name, rows, SeededRandom(summary.seed))
    for name, others in graded_by_forecaster(summary.marked).items():
        kinds = kind_reports(others, rng=SeededRandom(summary.seed).stream("kinds"))
        print_kinds(console, kinds, whose=f"{name}: ", groups=False)
    print_heading(console, "Where it is")
    console.print(f"ledger: {summary.ledger}")
    for folder, count in summary.written.items():
        console.print(f"written for the venue: {folder} ({count} {'file' if count == 1 else 'files'})")
    _print_next_commands(console, summary, call)


def _job_result_text(ended: str, detail: str) -> str:
    return detail if ended == "done" else f"{ended}: {detail}"


def _summary_cells(line: SummaryLine) -> tuple[str, ...]:
    return (
        line.title,
        line.forecast.forecaster,
        "" if line.target == SINGLE_TARGET else line.target,
        describe_prediction_short(line.forecast.predictions[line.target], line.shape),
        NO_VALUE if line.crowd is None else describe_prediction_short(line.crowd, line.shape),
        describe_outcome(line.resolution.outcome if line.resolution else None, line.shape),
    )


def _print_next_commands(console: Console, summary: PassSummary, call: CommandInvocation) -> None:
    newest = summary.lines[0].forecast if summary.lines else None
    refs = [*summary.scored.ref, *(one.ref for one in summary.marked)]
    scored = refs[-1].venue if refs else None
    print_heading(console, "Try next")
    if newest is None:
        console.print(f"  {call.command_line_for('doctor')}")
        return
    console.print(f"  {call.command_line_for('show', str(newest.ref))}")
    console.print(f"  {call.command_line_for('show', newest.id, '--json')}")
    last = ("score", "--venue", scored) if scored else ("questions", "--venue", newest.ref.venue)
    console.print(f"  {call.command_line_for(*last)}")


app = typer.Typer(add_completion=False)


log = structlog.get_logger()


EXIT_REASON_CODES = {
    ExitReason.DONE: ExitCode.DONE,
    ExitReason.ASKED: ExitCode.DONE,
    ExitReason.STORE: ExitCode.STORE,
    ExitReason.UNAUTHORIZED: ExitCode.UNAUTHORIZED,
    ExitReason.UNAVAILABLE: ExitCode.UNAVAILABLE,
}


AppOpener = AbstractAsyncContextManager[FoxcastApp]


@app.command()
def run(
    ctx: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run every job once, print a summary and exit.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the expected cost without asking.")] = False,
    notify_socket: Annotated[str | None, typer.Option(envvar="NOTIFY_SOCKET", hidden=True)] = None,
) -> None:
    """Run the daemon: find questions, forecast, submit, resolve and score; --once for one pass."""
    config, registry = load_config_and_plugins(
        ctx, least=logging.WARNING if once else logging.NOTSET, built_in=BUILT_IN_CONFIG if once else None
    )
    if not config.venues:
        message = (
            "no venue is configured: name a file with --config, or add a [venues.NAME] table to config.toml; "
            "`foxcast demo` writes a file to begin with, state/demo/real.toml, and `foxcast run --once` needs none"
        )
        raise ConfigError(message)
    if config.sources.document.is_built_in:
        typer.echo(f"foxcast: {replace_invisible(_built_in_notice(config))}", err=True)
    for broken in registry.broken:
        log.warning("plugin is broken", plugin=broken.plugin.name, reason=broken.reason)
    opening = open_app(
        config, registry, clock=SystemClock(), pass_limit_s=math.inf if once else FORECAST_PASS_LIMIT_S, confirmed=yes
    )
    watch = DaemonLimits(seed=config.seed, notify_socket=notify_socket)
    if once:
        _run_one_pass(opening, ctx.ensure_object(CommandInvocation))
    end = asyncio.run(_run_daemon(opening, watch))
    _report_unclean_exit(end)
    raise typer.Exit(EXIT_REASON_CODES.get(end.reason, ExitCode.FAILED))


def _built_in_notice(config: Config) -> str:
    forecasters = sorted({name for table in config.venues.values() for name in table.forecasters})
    return (
        f"no configuration file found; this pass uses the built-in one: venue {', '.join(config.venues)}, "
        f"forecaster {', '.join(forecasters)}, mode {config.mode}, results in {config.state}"
    )


def _run_one_pass(opening: AppOpener, call: CommandInvocation) -> NoReturn:
    stops: list[signal.Signals] = []
    end, failed, sent = asyncio.run(_execute_pass(opening, call, stops))
    for line in submission_problems(sent):
        typer.echo(replace_invisible(f"foxcast: {line}"), err=True)
    if stops and end.reason in {ExitReason.ASKED, ExitReason.CUT}:
        told = f"; {end.detail}" if end.detail else ""
        typer.echo(replace_invisible(f"foxcast: interrupted{told}; what is left is done by the next run"), err=True)
        raise typer.Exit(SIGNAL_EXIT_CODES[stops[0]])
    _report_unclean_exit(end)
    if line := failures_summary(failed):
        typer.echo(replace_invisible(f"foxcast: {line}"), err=True)
    code = EXIT_REASON_CODES.get(end.reason, ExitCode.FAILED)
    raise typer.Exit(code or submissions_exit_code(sent) or failures_exit_code(failed))


def _report_unclean_exit(end: DaemonExit) -> None:
    if not end.is_clean:
        typer.echo(replace_invisible(f"foxcast: {end.reason.value}: {end.detail}"), err=True)


async def _run_daemon(opening: AppOpener, watch: DaemonLimits) -> DaemonExit:
    async with opening as opened:
        with handle_signals(opened.stopping), halt_on_signal(opened.config.state / STOP_FILE):
            record = DaemonRecorder(opened.ledger, opened.folder)
            log.info("running", folder=str(opened.folder), venues=[*opened.venues], stop="Ctrl-C or SIGTERM")
            jobs = [*opened.jobs(), *opened.price_watches()]
            return await run_daemon(jobs, clock=opened.clock, limits=watch, record=record, stop=opened.stopping)


async def _execute_pass(
    opening: AppOpener, call: CommandInvocation, stops: list[signal.Signals]
) -> tuple[DaemonExit, RecentFailures, SubmissionCounts]:
    """Do one pass, tell of it, and return its end with what went wrong with its trials, and with what it sent.

    The signal that stopped it, if one did, is added to the list.
    """

    def stop(number: signal.Signals) -> None:
        stops.append(number)
        again = "Ctrl-C again" if number is signal.SIGINT else "a second signal"
        typer.echo(
            f"foxcast: stopping; what runs may finish within {DRAIN_TIMEOUT_S:g} s, {again} stops at once", err=True
        )

    async with opening as opened:
        tally, began = JobRunCollector(DaemonRecorder(opened.ledger, opened.folder)), opened.clock.now()
        this = PassProgress(opened, began)
        with handle_signals(opened.stopping, stop), progress_bars() as bars:
            async with this.display(bars):
                jobs = this.track_jobs(opened.jobs())
                end = await one_pass(jobs, clock=opened.clock, record=tally, stop=opened.stopping)
        print_pass_summary(stdout_console(), await load_pass_summary(opened, tally.runs), call)
        if held := await unconfirmed_forecasts_message(opened):
            stdout_console().print(f"\n{held}")
        readers = opened.ledger.forecasts.readers
        return end, await read_recent_failures(readers, began), await count_submissions(readers, began)
