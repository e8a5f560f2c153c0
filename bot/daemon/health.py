"""The daemon's health: heartbeat, clock steps, lag of the event loop, and reports to systemd.

A watchdog thread ends a process whose event loop hangs.
"""

import faulthandler
import math
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import structlog

from bot.core.interfaces import Clock
from bot.daemon.runner import ClockStep, DaemonLimits, ExitReason, HeartbeatRecord, JobRunner

if TYPE_CHECKING:
    from bot.daemon.scheduler import JobScheduler

log = structlog.get_logger(__name__)


class SystemdNotifier:
    """Sends states such as READY=1, WATCHDOG=1 and STOPPING=1 to the datagram socket at ``address``, if there is one.

    An address that begins with ``@`` is in Linux's abstract namespace. Source: sd_notify(3).
    """

    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address
        self._logged_failure = False

    def notify(self, state: str) -> None:
        """Send the state; a supervisor that does not listen is logged once and is no reason to stop."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.settimeout(0)
                connection.sendto(state.encode(), self._address)
        except OSError as error:
            if not self._logged_failure:
                log.warning("supervisor does not listen", state=state, error=str(error))
            self._logged_failure = True
        else:
            self._logged_failure = False


class StallDetector:
    """Counts the checks since the last sign of life; it counts checks, not seconds.

    A process that was itself paused (SIGSTOP, a suspended machine) makes no checks meanwhile. So it does not count as
    hung when it continues, although both its clocks have moved.
    """

    def __init__(self, check_every_s: float) -> None:
        self._check_every_s = check_every_s
        self._last_signs: int | None = None
        self._silent_checks = 0

    def update(self, signs: int) -> float:
        """Return the silence in seconds, given the number of signs of life so far; call it every ``check_every_s``."""
        self._silent_checks = self._silent_checks + 1 if signs == self._last_signs else 0
        self._last_signs = signs
        return self._silent_checks * self._check_every_s


# EX_SOFTWARE of sysexits.h; a supervisor starts the process again.
HUNG_EXIT_CODE = 70


# A hang may come from a full pipe behind stderr; writing there would hang as well.
MAX_DUMP_S = 5.0


STDERR_FD = 2


def dump_stacks() -> None:
    """Write the stack of every thread to the process's own stderr, even if something replaced ``sys.stderr``."""
    faulthandler.dump_traceback(file=STDERR_FD, all_threads=True)


def _end_process() -> None:
    threading.Timer(MAX_DUMP_S, os._exit, [HUNG_EXIT_CODE]).start()
    dump_stacks()
    log.critical("event loop hangs, process ends", exit_code=HUNG_EXIT_CODE)
    # Use nothing that needs the loop, a lock or a healthy interpreter: the ledger survives a kill at any moment.
    os._exit(HUNG_EXIT_CODE)


class LoopWatchdog:
    """While entered, end the process when the event loop gave no sign of life for ``abort_after_s``.

    ``signs`` returns the number of signs of life so far; ``wakeup`` is called from the thread after ``wake_after_s``;
    ``end_process`` does not return.
    """

    def __init__(
        self,
        limits: DaemonLimits,
        *,
        signs: Callable[[], int],
        wakeup: Callable[[], None],
        end_process: Callable[[], None] = _end_process,
    ) -> None:
        self._limits = limits
        self._last_signs = signs
        self._wakeup = wakeup
        self._abort = end_process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        silence = StallDetector(self._limits.check_every_s)
        while not self._over.wait(self._limits.check_every_s):
            silent_s = silence.update(self._last_signs())
            if silent_s >= self._limits.abort_after_s:
                self._abort()
            elif silent_s >= self._limits.wake_after_s:
                self._wakeup()


log = structlog.get_logger(__name__)


HEARTBEAT_JOB = "heartbeat"


# Lag is judged over about a minute, whatever the interval of the probe.
LAG_WINDOW_S = 60.0


class ClockStepDetector:
    """Compares wall and monotonic time, which differ only when somebody sets the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = (clock.now(), clock.monotonic())

    def measure_step(self) -> float:
        """Return by how many seconds the wall clock was set since the last call, negative for back."""
        (wall, monotonic), self._seen = self._seen, (self._clock.now(), self._clock.monotonic())
        return (self._seen[0] - wall).total_seconds() - (self._seen[1] - monotonic)


class HeartbeatLoop:
    """Sends heartbeats from the scheduler, and checks the event loop; ``beat_count`` and ``check_count`` count both."""

    def __init__(
        self, *, limits: DaemonLimits, runner: JobRunner, scheduler: "JobScheduler", supervisor: SystemdNotifier
    ) -> None:
        self.beat_count = 0
        self.check_count = 0
        self._limits = limits
        self._runner = runner
        self._scheduler = scheduler
        self._supervisor = supervisor
        self._lags: deque[float] = deque([0.0], maxlen=max(1, round(LAG_WINDOW_S / limits.lag_every_s)))
        self._lagging = ""

    async def send_heartbeat(self) -> None:
        """Send one sign of life, to the supervisor and to the recorder."""
        self.beat_count += 1
        self._supervisor.notify("WATCHDOG=1")
        clock, p99 = self._runner.clock, nearest_rank(self._lags, 0.99)
        self._log_lag(p99)
        beat = HeartbeatRecord(at=clock.now(), monotonic_s=clock.monotonic(), lag_p99_s=p99, lag_max_s=max(self._lags))
        with self._runner.track(HEARTBEAT_JOB):
            await self._runner.record_vital(beat)

    async def keep_watch(self) -> None:
        """Check the clock and the heartbeat for ever; wake a silent scheduler, then end the daemon."""
        silence, step_detector = StallDetector(self._limits.check_every_s), ClockStepDetector(self._runner.clock)
        while True:
            await self._runner.clock.sleep(self._limits.check_every_s)
            self.check_count += 1
            await self._check_clock(step_detector.measure_step())
            self._check_scheduler(silence.update(self.beat_count))

    async def probe_lag(self) -> None:
        """Measure for ever how late the loop wakes a sleeper."""
        clock, every_s = self._runner.clock, self._limits.lag_every_s
        while True:
            start = clock.monotonic()
            await clock.sleep(every_s)
            self._lags.append(max(0.0, clock.monotonic() - start - every_s))

    async def _check_clock(self, step_s: float) -> None:
        if abs(step_s) <= self._limits.clock_step_s:
            return
        log.warning("wall clock was set", seconds=round(step_s, 3))
        now = self._runner.clock.now()
        self._scheduler.realign(now)
        await self._runner.record_vital(ClockStep(at=now, seconds=step_s))

    def _check_scheduler(self, silent_s: float) -> None:
        if silent_s >= self._limits.abort_after_s:
            dump_stacks()
            self._runner.give_up(ExitReason.STALLED, f"no heartbeat for {silent_s:.0f} s; restart the daemon")
        elif silent_s >= self._limits.wake_after_s:
            log.warning("no heartbeat, waking the scheduler", silent_s=silent_s)
            # A clock set forward and back again between two checks moves a slot far ahead without a visible step.
            self._scheduler.realign(self._runner.clock.now())

    def _log_lag(self, p99: float) -> None:
        state = "lagging" if p99 > self._limits.lag_warn_s else ""
        if state != self._lagging:
            event = "event loop lags" if state else "event loop has recovered"
            log.warning(event, p99_s=round(p99, 3), limit_s=self._limits.lag_warn_s)
        self._lagging = state


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
