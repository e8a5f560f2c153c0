"""`foxcast run`: the daemon, or one pass of every job with progress and a summary at the end.

SIGUSR1 halts all submissions.
"""

import asyncio
import logging
import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import field, replace
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
from bot.cli.output.score_report import print_kinds
from bot.cli.output.trial_text import failures_exit_code, failures_summary
from bot.cli.serve import serve_web
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import ConfigError, FoxcastError, StoreError
from bot.core.forecasts import Forecast
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Resolution
from bot.core.plain_text import replace_invisible
from bot.core.predictions import CurveShape, Prediction, QuestionShape
from bot.core.questions import SINGLE_TARGET
from bot.daemon.recorder import DaemonRecorder, JobRunCollector
from bot.daemon.runner import DRAIN_TIMEOUT_S, DaemonExit, DaemonLimits, ExitReason, JobRun
from bot.daemon.service import handle_signals, log_stop, run_daemon, run_jobs_once
from bot.evaluation.value_text import NO_VALUE, describe_outcome, describe_prediction_short
from bot.execution.gate.kill_switch import STOP_FILE, engage_kill_switch
from bot.jobs.job import DaemonJob
from bot.plugin_system.discovery import BUILT_IN_CONFIG
from bot.store.forecast_queries import RecentFailures, read_recent_failures
from bot.store.ledger import LEDGER_FILE
from bot.store.score_totals import ScoreSums
from bot.store.scores import ScoreFilter
from bot.store.submission_queries import SubmissionCounts, count_submissions

signal_log = structlog.get_logger(__name__)


@contextmanager
def halt_on_signal(stop_file: Path) -> Iterator[None]:
    """Create the stop file at each SIGUSR1 while the block runs; enter it in the main thread, in a running loop."""
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
    """The progress of one pass of an open Foxcast."""

    opened: FoxcastApp
    began: datetime
    _running: str = ""
    _count_before: int = 0
    _started_s: float = field(default=0.0)
    _redraw: Callable[[], Awaitable[None]] | None = None

    def track_jobs(self, jobs: Sequence[DaemonJob]) -> list[DaemonJob]:
        """Return the jobs, changed so that each records here that it runs."""
        return [replace(job, run=partial(self._run_job, job)) for job in jobs]

    @asynccontextmanager
    async def display(self, bars: Progress) -> AsyncIterator[None]:
        """Show the progress of the pass while the block runs."""
        opened = self.opened
        self._count_before, self._started_s = await opened.ledger.forecasts.count(), opened.clock.monotonic()
        if bars.disable:
            updates = asyncio.create_task(self._repeat(REPORT_EVERY_S, self._print_progress))
        else:
            tasks = [bars.add_task(name, total=None) for name in ("forecasts", "submissions")]
            self._redraw = partial(self._update_bars, bars, tasks)
            updates = asyncio.create_task(self._repeat(REDRAW_EVERY_S, self._redraw))
        try:
            yield
        finally:
            updates.cancel()

    async def _run_job(self, job: DaemonJob) -> str:
        self._running = job.name
        result = await job.run()
        if self._redraw is not None:
            # What only draws must not fail the job that it follows.
            with suppress(FoxcastError):
                await self._redraw()
        return result

    async def _repeat(self, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.opened.clock.sleep(pause_s)
            await work()

    async def _print_progress(self) -> None:
        (made, all_made), (sent, all_sent) = await self._load_counts()
        took_s = self.opened.clock.monotonic() - self._started_s
        counts = ((made, all_made, "forecasts"), (sent, all_sent, "submissions"))
        parts = [f"{done} of {total} {what}" for done, total, what in counts if total]
        typer.echo(
            replace_invisible(f"foxcast: {took_s:.0f} s, {self._running}: {', '.join(parts) or 'working'}"), err=True
        )

    async def _update_bars(self, bars: Progress, tasks: Sequence[TaskID]) -> None:
        for task, (done, total) in zip(tasks, await self._load_counts(), strict=True):
            bars.update(task, completed=done, total=total or None)
        bars.refresh()

    async def _load_counts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the numbers of forecasts made and due, and the numbers of submissions tried and planned."""
        ledger, now = self.opened.ledger, self.opened.clock.now()
        due = await ledger.schedule.counts(now)
        made = await ledger.forecasts.count() - self._count_before
        sent = await count_submissions(ledger.forecasts.readers, self.began)
        return (made, made + due.due + due.leased), (sent.tried, sent.tried + sent.waiting)


def submission_problems(found: SubmissionCounts) -> Iterator[str]:
    """Yield a line for each venue with submissions without an answer, or with refused ones."""
    for venue, count in found.unanswered.items():
        has = "submission to {} has" if count == 1 else "submissions to {} have"
        yield f"{count} {has.format(venue)} no answer; the next run reads back what can be: foxcast orders --open"
    for venue, (count, why) in found.refused.items():
        was = "submission to {} was" if count == 1 else "submissions to {} were"
        yield f"{count} {was.format(venue)} refused: {why or 'no reason given'}; see: foxcast orders"


def credential_problems(refused: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each live venue that refused the credentials."""
    for venue, why in refused.items():
        yield f"{venue}: nothing is submitted, {why}; renew the credentials, then check them: foxcast preflight {venue}"


def submissions_exit_code(found: SubmissionCounts) -> ExitCode:
    """Return the exit code of a pass that has nothing worse to report."""
    if found.unanswered:
        return ExitCode.UNAVAILABLE
    return ExitCode.REFUSED if found.refused else ExitCode.DONE


MAX_LINES_SHOWN = 12


MAX_FORECASTS_READ = 10 * MAX_LINES_SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """One forecast: the answer for one target, the crowd at that time, and the outcome if it is known."""

    forecast: Forecast
    title: str
    family: str
    shape: QuestionShape
    target: str
    crowd: Prediction | None
    resolution: Resolution | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSummary:
    """The summary of a pass; ``written`` is the number of files in each folder with files for a venue."""

    runs: Sequence[JobRun]
    questions: int
    forecasts: int
    lines: tuple[SummaryLine, ...]
    scored: ScoreSums
    seed: int
    ledger: Path
    written: Mapping[Path, int]


async def load_pass_summary(app: FoxcastApp, runs: Sequence[JobRun]) -> PassSummary:
    """Load the summary of a pass with these job runs."""
    ledger = app.ledger
    recent = [await _summary_line(app, forecast) for forecast in await ledger.forecasts.recent(MAX_FORECASTS_READ)]
    return PassSummary(
        runs=runs,
        questions=await ledger.questions.count(),
        forecasts=await ledger.forecasts.count(),
        lines=tuple(_interleave_families(recent)[:MAX_LINES_SHOWN]),
        scored=await ledger.scores.read_sums(ScoreFilter()),
        seed=app.config.seed,
        ledger=app.folder / LEDGER_FILE,
        written=_count_venue_files(app),
    )


async def _summary_line(app: FoxcastApp, forecast: Forecast) -> SummaryLine:
    """Return the line of a forecast, for a resolved target if there is one."""
    outcomes = {found.target: found for found in await app.ledger.resolutions.current(forecast.ref)}
    question = await app.ledger.forecasts.question_of(forecast.id)
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
    """Take lines from each question family in turn: the newest forecasts of a pass are often of one family."""
    families: dict[str, list[SummaryLine]] = {}
    for line in lines:
        families.setdefault(line.family, []).append(line)
    return [line for group in zip_longest(*families.values()) for line in group if line is not None]


def _count_venue_files(app: FoxcastApp) -> dict[Path, int]:
    """Count the files that paper books and writers keep in the folders of the venues."""
    counts: dict[Path, int] = {}
    for venue in app.venues:
        for path in sorted((app.folder / venue).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                counts[path.parent] = counts.get(path.parent, 0) + 1
    return counts


JOB_COLUMNS = (TableColumn("job"), TableColumn("took", ColumnKind.NUMBER), TableColumn("result", ColumnKind.TEXT))


FORECAST_COLUMNS = (TableColumn("question", ColumnKind.TITLE), TableColumn("by"), TableColumn("for"))


def print_pass_summary(console: Console, summary: PassSummary, call: CommandInvocation) -> None:
    """Print the whole summary; the suggested commands repeat how the program was called."""
    print_heading(console, "Jobs")
    console.print(
        make_table(
            JOB_COLUMNS,
            [(run.job, f"{run.took_s:.1f} s", _job_result_text(run.outcome, run.detail)) for run in summary.runs],
        )
    )
    if summary.lines:
        print_heading(console, f"Newest forecasts ({summary.forecasts} in all, of {summary.questions} questions)")
        # Quantiles are too long for an unbroken column.
        kind = (
            ColumnKind.TEXT if any(isinstance(line.shape, CurveShape) for line in summary.lines) else ColumnKind.NUMBER
        )
        columns = (*FORECAST_COLUMNS, TableColumn("forecast", kind), TableColumn("crowd", kind), TableColumn("outcome"))
        console.print(make_table(columns, [_summary_cells(line) for line in summary.lines]))
    if summary.scored.rule:
        _print_scores(console, summary)
    print_heading(console, "Files")
    console.print(f"ledger: {summary.ledger}")
    for folder, count in summary.written.items():
        console.print(f"files of the venue: {folder} ({count} {'file' if count == 1 else 'files'})")
    _print_next_commands(console, summary, call)


def _print_scores(console: Console, summary: PassSummary) -> None:
    # With numpy, which a program without scores does not need.
    from bot.cli.score import print_total_scores
    from bot.evaluation.summed_scores import FAMILY, sums_by_forecaster

    random = SeededRandom(summary.seed)
    by_forecaster = sums_by_forecaster(summary.scored)
    for name, own in by_forecaster.items():
        print_total_scores(console, name, own.score_groups(random.stream("groups"), [FAMILY]))
    for name, own in by_forecaster.items():
        print_kinds(console, own.report_kinds(random.stream("kinds")), prefix=f"{name}: ", groups=False)


def _job_result_text(outcome: str, detail: str) -> str:
    return detail if outcome == "done" else f"{outcome}: {detail}"


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
    scored = next(iter(summary.scored.venue), None)
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
        ctx, min_level=logging.WARNING if once else logging.NOTSET, built_in=BUILT_IN_CONFIG if once else None
    )
    if not config.venues:
        message = (
            "no venue is configured: name a file with --config, or add a [venues.NAME] table to config.toml; "
            "`foxcast demo` writes a file to start from, state/demo/real.toml, and `foxcast run --once` needs none"
        )
        raise ConfigError(message)
    if config.sources.document.is_built_in:
        typer.echo(f"foxcast: {replace_invisible(_built_in_notice(config))}", err=True)
    for broken in registry.broken:
        log.warning("plugin is broken", plugin=broken.plugin.name, reason=broken.reason)
    open_configured_app = partial(
        open_app,
        config,
        registry,
        clock=SystemClock(),
        pass_limit_s=math.inf if once else FORECAST_PASS_LIMIT_S,
        confirmed=yes,
    )
    limits = DaemonLimits(seed=config.seed, notify_socket=notify_socket)
    if once:
        _run_one_pass(open_configured_app(), ctx.ensure_object(CommandInvocation))
    end = asyncio.run(_run_daemon(open_configured_app, limits))
    _report_unclean_exit(end)
    raise typer.Exit(EXIT_REASON_CODES.get(end.reason, ExitCode.FAILED))


def _built_in_notice(config: Config) -> str:
    forecasters = sorted({name for table in config.venues.values() for name in table.forecasters})
    return (
        f"no configuration file found; this pass uses the built-in one: venue {', '.join(config.venues)}, "
        f"forecaster {', '.join(forecasters)}, mode {config.mode}, results in {config.state}"
    )


def _run_one_pass(app_opener: AppOpener, call: CommandInvocation) -> NoReturn:
    stops: list[signal.Signals] = []
    end, failed, sent, refused = asyncio.run(_execute_pass(app_opener, call, stops))
    for line in (*credential_problems(refused), *submission_problems(sent)):
        typer.echo(replace_invisible(f"foxcast: {line}"), err=True)
    if stops and end.reason in {ExitReason.ASKED, ExitReason.CUT}:
        detail = f"; {end.detail}" if end.detail else ""
        typer.echo(replace_invisible(f"foxcast: interrupted{detail}; the next run does the rest"), err=True)
        raise typer.Exit(SIGNAL_EXIT_CODES[stops[0]])
    _report_unclean_exit(end)
    if line := failures_summary(failed):
        typer.echo(replace_invisible(f"foxcast: {line}"), err=True)
    code = EXIT_REASON_CODES.get(end.reason, ExitCode.FAILED)
    refusal_code = ExitCode.UNAUTHORIZED if refused else ExitCode.DONE
    raise typer.Exit(code or refusal_code or submissions_exit_code(sent) or failures_exit_code(failed))


def _report_unclean_exit(end: DaemonExit) -> None:
    if not end.is_clean:
        typer.echo(replace_invisible(f"foxcast: {end.reason.value}: {end.detail}"), err=True)


async def _run_daemon(open_configured_app: Callable[[], AppOpener], limits: DaemonLimits) -> DaemonExit:
    """Run the daemon until it ends; where a part of a plugin can be opened at last, it starts again with that part."""
    while True:
        end, is_reopening = await _run_daemon_once(open_configured_app(), limits)
        if not is_reopening or not end.is_clean:
            return end


async def _run_daemon_once(app_opener: AppOpener, limits: DaemonLimits) -> tuple[DaemonExit, bool]:
    async with app_opener as opened:
        interrupted: list[signal.Signals] = []

        def stop(number: signal.Signals) -> None:
            interrupted.append(number)
            log_stop(number)

        with handle_signals(opened.stopping, stop), halt_on_signal(opened.config.state / STOP_FILE):
            record = DaemonRecorder(opened.ledger, opened.folder)
            log.info("running", folder=str(opened.folder), venues=[*opened.venues], stop="Ctrl-C or SIGTERM")
            jobs = [*opened.jobs(), *opened.price_watches()]
            await record.record_start(opened.clock.now())
            async with serve_web(opened, opened.config.serve.forecaster):
                end = await run_daemon(jobs, clock=opened.clock, limits=limits, record=record, stop=opened.stopping)
            await record.record_end(end, opened.clock.now())
            return end, opened.reopening.is_set() and not interrupted


async def _execute_pass(
    app_opener: AppOpener, call: CommandInvocation, stops: list[signal.Signals]
) -> tuple[DaemonExit, RecentFailures, SubmissionCounts, Mapping[str, str]]:
    """Run one pass, print its summary, and return its end, failed trials, submissions and refused credentials.

    A signal that stops the pass is added to the list.
    """

    def stop(number: signal.Signals) -> None:
        stops.append(number)
        again = "Ctrl-C again" if number is signal.SIGINT else "a second signal"
        typer.echo(
            f"foxcast: stopping; running jobs may finish within {DRAIN_TIMEOUT_S:g} s, {again} stops at once", err=True
        )

    async with app_opener as opened:
        collector, began = JobRunCollector(DaemonRecorder(opened.ledger, opened.folder)), opened.clock.now()
        progress = PassProgress(opened, began)
        with handle_signals(opened.stopping, stop), progress_bars() as bars:
            async with progress.display(bars):
                jobs = progress.track_jobs(opened.jobs())
                end = await run_jobs_once(jobs, clock=opened.clock, record=collector, stop=opened.stopping)
        print_pass_summary(stdout_console(), await load_pass_summary(opened, collector.runs), call)
        if held := await unconfirmed_forecasts_message(opened):
            stdout_console().print(f"\n{held}")
        readers = opened.ledger.forecasts.readers
        readiness = opened.execution.readiness
        refused = {venue: readiness.credentials[venue] for venue in sorted(readiness.refused_credentials)}
        return end, await read_recent_failures(readers, began), await count_submissions(readers, began), refused
