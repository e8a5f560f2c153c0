"""One pass of every job, for `foxcast run --once`, with progress and a summary at the end."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import typer

from bot.app.app import FoxcastApp
from bot.cli.command_exit import SIGNAL_EXIT_CODES, ExitCode
from bot.cli.cost_confirmation import unconfirmed_forecasts_message
from bot.cli.options import CommandInvocation
from bot.cli.output.trial_text import failures_exit_code, failures_summary
from bot.cli.pass_summary import load_pass_summary
from bot.config.process_setup import return_free_memory
from bot.core.errors import FoxcastError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible
from bot.daemon.recorder import DaemonRecorder, JobRunCollector
from bot.daemon.runner import DRAIN_TIMEOUT_S, DaemonExit, ExitReason
from bot.daemon.service import handle_signals, run_jobs_once
from bot.jobs.job import DaemonJob
from bot.store.forecast_queries import RecentFailures, read_recent_failures
from bot.store.submission_queries import SubmissionCounts, count_submissions

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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
    async def display(self, bars: "Progress | None") -> AsyncIterator[None]:
        """Show the progress of the pass while the block runs, in lines where there are no bars."""
        opened = self.opened
        self._count_before, self._started_s = await opened.ledger.forecasts.count(), opened.clock.monotonic()
        if bars is None:
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

    async def _update_bars(self, bars: "Progress", tasks: "Sequence[TaskID]") -> None:
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


def run_single_pass(
    app_opener: AbstractAsyncContextManager[FoxcastApp], call: CommandInvocation
) -> tuple[DaemonExit, ExitCode]:
    """Run one pass; return its end, and the exit code where the end itself has none to report.

    Raises typer.Exit if a signal interrupted the pass.
    """
    stops: list[signal.Signals] = []
    end, failed, sent, refused = asyncio.run(_execute_pass(app_opener, call, stops))
    for line in (*credential_problems(refused), *submission_problems(sent)):
        typer.echo(replace_invisible(f"foxcast: {line}"), err=True)
    if stops and end.reason in {ExitReason.ASKED, ExitReason.CUT}:
        detail = f"; {end.detail}" if end.detail else ""
        typer.echo(replace_invisible(f"foxcast: interrupted{detail}; the next run does the rest"), err=True)
        raise typer.Exit(SIGNAL_EXIT_CODES[stops[0]])
    if line := failures_summary(failed):
        typer.echo(replace_invisible(f"foxcast: {line}"), err=True)
    refusal_code = ExitCode.UNAUTHORIZED if refused else ExitCode.DONE
    return end, refusal_code or submissions_exit_code(sent) or failures_exit_code(failed)


async def _execute_pass(
    app_opener: AbstractAsyncContextManager[FoxcastApp], call: CommandInvocation, stops: list[signal.Signals]
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
        with handle_signals(opened.stopping, stop), _terminal_bars() as bars:
            async with progress.display(bars):
                jobs = progress.track_jobs(opened.jobs())
                end = await run_jobs_once(jobs, clock=opened.clock, record=collector, stop=opened.stopping)
        summary, held = await load_pass_summary(opened, collector.runs), await unconfirmed_forecasts_message(opened)
        readers = opened.ledger.forecasts.readers
        readiness = opened.execution.readiness
        refused = {venue: readiness.credentials[venue] for venue in sorted(readiness.refused_credentials)}
        failed, sent = await read_recent_failures(readers, began), await count_submissions(readers, began)
    # What shows tables takes 4 MB, and the ledger is closed now, which held 3 MB.
    return_free_memory()
    from bot.cli.output.console import stdout_console
    from bot.cli.output.pass_report import print_pass_summary

    print_pass_summary(stdout_console(), summary, call)
    if held:
        stdout_console().print(f"\n{held}")
    return end, failed, sent, refused


def _terminal_bars() -> "AbstractContextManager[Progress | None]":
    """Return the progress bars of a pass, None where nobody sees them."""
    if not sys.stderr.isatty():
        return nullcontext()
    from bot.cli.output.console import progress_bars

    return progress_bars()
