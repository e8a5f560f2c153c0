"""The daemon's main loop. It runs every job once and then on its schedule, until it is asked to stop."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import structlog

from bot.core.errors import AuthenticationError
from bot.core.interfaces import Clock
from bot.daemon.health import HEARTBEAT_JOB, HeartbeatLoop, LoopWatchdog, SystemdNotifier
from bot.daemon.runner import (
    DRAIN_TIMEOUT_S,
    UNWIND_TIMEOUT_S,
    DaemonExit,
    DaemonLimits,
    ExitReason,
    JobOutcome,
    JobRunner,
    VitalsRecorder,
    require_unique_names,
)
from bot.jobs.job import DaemonJob

if TYPE_CHECKING:
    from bot.daemon.scheduler import JobScheduler

log = structlog.get_logger(__name__)


async def run_daemon(
    jobs: Sequence[DaemonJob], *, clock: Clock, limits: DaemonLimits, record: VitalsRecorder, stop: asyncio.Event
) -> DaemonExit:
    """Run every job once, in the given order, and each on its schedule until ``stop`` is set.

    A job that raises is recorded and tried again at its next slot; so is one that was stopped at its limit. No job runs
    twice at the same time. A StoreError of ``record`` ends the daemon, and so does a scheduler that cannot be woken;
    ``stop`` is then set. At the end running jobs may finish for ``drain_s`` seconds; nothing is cancelled before. An
    event loop that hangs for ``abort_after_s`` ends the process with ``health.HUNG_EXIT_CODE`` after writing all stacks
    to stderr. Raises ValueError for two jobs of the same name.
    """
    from bot.daemon.scheduler import JobScheduler  # noqa: PLC0415 - with APScheduler, which a single pass does not need

    require_unique_names([HEARTBEAT_JOB, *(job.name for job in jobs)])
    runner = JobRunner(clock=clock, record=record, stop=stop)
    scheduler = JobScheduler(seed=limits.seed)
    supervisor = SystemdNotifier(limits.notify_socket)
    heartbeat = HeartbeatLoop(limits=limits, runner=runner, scheduler=scheduler, supervisor=supervisor)
    scheduler.schedule_every(timedelta(seconds=limits.heartbeat_s), HEARTBEAT_JOB, heartbeat.send_heartbeat)
    # Before the first run of any job, so that one that hangs does not keep the others waiting.
    for job in jobs:
        scheduler.schedule_every(job.interval, job.name, partial(runner.run_if_free, job))
    async with scheduler, asyncio.TaskGroup() as group:
        with LoopWatchdog(limits, signs=lambda: heartbeat.check_count, wakeup=scheduler.wakeup):
            on_request = (
                _run_on_request(job, job.run_requested, runner) for job in jobs if job.run_requested is not None
            )
            work = (heartbeat.keep_watch(), heartbeat.probe_lag(), _run_all_once(jobs, runner), *on_request)
            tasks = [group.create_task(one) for one in work]
            supervisor.notify("READY=1")
            await stop.wait()
            supervisor.notify("STOPPING=1")
            cancelled = await _shut_down(runner, scheduler, limits.drain_s)
        for task in tasks:
            task.cancel()
    return runner.exit or _asked_exit(cancelled)


async def run_jobs_once(
    jobs: Sequence[DaemonJob],
    *,
    clock: Clock,
    record: VitalsRecorder,
    stop: asyncio.Event,
    drain_s: float = DRAIN_TIMEOUT_S,
) -> DaemonExit:
    """Run every job once, in the given order; one that fails does not stop the others, but shows in the exit.

    Once ``stop`` is set no other job begins, and the running one may finish for ``drain_s`` seconds; the exit names it
    if it was cancelled, and the jobs that were not begun. Raises ValueError for two jobs of the same name.
    """
    require_unique_names([job.name for job in jobs])
    runner = JobRunner(clock=clock, record=record, stop=stop)
    async with asyncio.TaskGroup() as group:
        run_task, stop_task = group.create_task(_run_all_once(jobs, runner)), group.create_task(stop.wait())
        await asyncio.wait({run_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
        cancelled = await runner.drain(drain_s)
        stop_task.cancel()
    if runner.exit is not None:
        return runner.exit
    if stop.is_set():
        return _asked_exit(cancelled, [job.name for job in jobs if job.name not in runner.started])
    if runner.failing:
        return DaemonExit(reason=_exit_reason(runner), detail=", ".join(runner.failing))
    return DaemonExit(reason=ExitReason.DONE)


def _exit_reason(runner: JobRunner) -> ExitReason:
    """Return the most important reason: credentials were refused, a job failed, or services are unavailable."""
    if any(isinstance(error, AuthenticationError) for error in runner.errors.values()):
        return ExitReason.UNAUTHORIZED
    waits = all(outcome is JobOutcome.UNAVAILABLE for outcome in runner.failing.values())
    return ExitReason.UNAVAILABLE if waits else ExitReason.FAILED


def log_stop(number: signal.Signals) -> None:
    """Log that the process shuts down."""
    log.info("stopping, a second signal stops at once", signal=number.name)


@contextmanager
def handle_signals(stop: asyncio.Event, log_signal: Callable[[signal.Signals], None] = log_stop) -> Iterator[None]:
    """While entered, set ``stop`` and log it at the first SIGTERM or SIGINT; the second one ends the process.

    Must be entered in the main thread, inside the running loop. The handlers are the interpreter's and not the loop's,
    and the second signal has the system's own effect, so that a hung loop can be ended too; the ledger survives that as
    it survives a kill.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def begin_shutdown(found: signal.Signals) -> None:
        stop.set()
        log_signal(found)

    def handle_first_signal(number: int, _: FrameType | None) -> None:
        for known in before:
            signal.signal(known, signal.SIG_DFL)
        # Logging takes locks, which the interrupted code may hold; so the loop does it.
        loop.call_soon_threadsafe(begin_shutdown, signal.Signals(number))

    for number in before:
        signal.signal(number, handle_first_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


async def _run_all_once(jobs: Sequence[DaemonJob], runner: JobRunner) -> None:
    """Run each job once, since its slots may have passed while nothing ran."""
    for job in jobs:
        await runner.run(job)


async def _run_on_request(job: DaemonJob, on_request: asyncio.Event, runner: JobRunner) -> None:
    """Run a job whenever its run is requested, without waiting for its slot, for ever."""
    while True:
        await on_request.wait()
        on_request.clear()
        await runner.run(job)


async def _shut_down(runner: JobRunner, scheduler: "JobScheduler", limit_s: float) -> list[str]:
    """Let running jobs finish while heartbeats continue; return the names of those that were cancelled.

    The runner starts no more jobs.
    """
    cancelled = await runner.drain(limit_s)
    scheduler.pause()
    await runner.drain(UNWIND_TIMEOUT_S)
    return cancelled


def _asked_exit(cancelled: Sequence[str], not_started: Sequence[str] = ()) -> DaemonExit:
    details = [", ".join(cancelled)] if cancelled else []
    details += [f"not begun: {', '.join(not_started)}"] if not_started else []
    return DaemonExit(reason=ExitReason.CUT if cancelled else ExitReason.ASKED, detail="; ".join(details))
