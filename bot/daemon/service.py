"""The daemon's main loop. It runs every job once and then on its schedule, until it is asked to stop."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import FrameType

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
from bot.daemon.scheduler import JobScheduler
from bot.jobs.job import DaemonJob

log = structlog.get_logger(__name__)


async def run_daemon(
    jobs: Sequence[DaemonJob], *, clock: Clock, watch: DaemonLimits, record: VitalsRecorder, stop: asyncio.Event
) -> DaemonExit:
    """Run every job once, in the given order, and each on its schedule until ``stop`` is set.

    A job that raises is recorded and tried again at its next slot; so is one that was stopped at its limit. No job runs
    twice at the same time. A StoreError of ``record`` ends the daemon, and so does a scheduler that cannot be woken;
    ``stop`` is then set. At the end running jobs may finish for ``drain_s`` seconds; nothing is cancelled before. An
    event loop that hangs for ``abort_after_s`` ends the process with ``health.HUNG_EXIT_CODE`` after writing all stacks
    to stderr. Raises ValueError for two jobs of the same name.
    """
    require_unique_names([HEARTBEAT_JOB, *(job.name for job in jobs)])
    runner = JobRunner(clock=clock, record=record, stop=stop)
    ticker = JobScheduler(seed=watch.seed)
    supervisor = SystemdNotifier(watch.notify_socket)
    pulse = HeartbeatLoop(watch=watch, runner=runner, ticker=ticker, supervisor=supervisor)
    ticker.schedule_every(timedelta(seconds=watch.heartbeat_s), HEARTBEAT_JOB, pulse.send_heartbeat)
    # Before the first run of any job, so that one that hangs does not keep the others waiting.
    for job in jobs:
        ticker.schedule_every(job.interval, job.name, partial(runner.run_if_free, job))
    async with ticker, asyncio.TaskGroup() as group:
        with LoopWatchdog(watch, signs=lambda: pulse.check_count, wakeup=ticker.wakeup):
            wanted = (_run_on_request(job, job.run_requested, runner) for job in jobs if job.run_requested is not None)
            work = (pulse.keep_watch(), pulse.probe_lag(), _run_all_once(jobs, runner), *wanted)
            tasks = [group.create_task(one) for one in work]
            supervisor.notify("READY=1")
            await stop.wait()
            supervisor.notify("STOPPING=1")
            cut = await _shut_down(runner, ticker, watch.drain_s)
        for task in tasks:
            task.cancel()
    return runner.exit or _asked_exit(cut)


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
        working, stopped = group.create_task(_run_all_once(jobs, runner)), group.create_task(stop.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        cut = await runner.drain(drain_s)
        stopped.cancel()
    if runner.exit is not None:
        return runner.exit
    if stop.is_set():
        return _asked_exit(cut, [job.name for job in jobs if job.name not in runner.started])
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
def handle_signals(stop: asyncio.Event, tell: Callable[[signal.Signals], None] = log_stop) -> Iterator[None]:
    """While entered, set ``stop`` and log it at the first SIGTERM or SIGINT; the second one ends the process.

    Must be entered in the main thread, inside the running loop. The handlers are the interpreter's and not the loop's,
    and the second signal has the system's own effect, so that a hung loop can be ended too; the ledger survives that as
    it survives a kill.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def wind_down(found: signal.Signals) -> None:
        stop.set()
        tell(found)

    def first(number: int, _: FrameType | None) -> None:
        for known in before:
            signal.signal(known, signal.SIG_DFL)
        # Logging takes locks, which the interrupted code may hold; so the loop does it.
        loop.call_soon_threadsafe(wind_down, signal.Signals(number))

    for number in before:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


async def _run_all_once(jobs: Sequence[DaemonJob], runner: JobRunner) -> None:
    """Run each job once, since its slots may have passed while nothing ran."""
    for job in jobs:
        await runner.run(job)


async def _run_on_request(job: DaemonJob, wanted: asyncio.Event, runner: JobRunner) -> None:
    """Run a job whenever its run is requested, without waiting for its slot, for ever."""
    while True:
        await wanted.wait()
        wanted.clear()
        await runner.run(job)


async def _shut_down(runner: JobRunner, ticker: JobScheduler, limit_s: float) -> list[str]:
    """Let running jobs finish while heartbeats continue, and name those that were cancelled.

    The runner starts no more.
    """
    cut = await runner.drain(limit_s)
    ticker.pause()
    await runner.drain(UNWIND_TIMEOUT_S)
    return cut


def _asked_exit(cut: Sequence[str], unbegun: Sequence[str] = ()) -> DaemonExit:
    told = [", ".join(cut)] if cut else []
    told += [f"not begun: {', '.join(unbegun)}"] if unbegun else []
    return DaemonExit(reason=ExitReason.CUT if cut else ExitReason.ASKED, detail="; ".join(told))
