"""The signs of life: heartbeat, clock guard, lag of the event loop, and the task that acts when they stop."""

import math
from collections import deque
from collections.abc import Sequence

import structlog

from bot.daemon.runner import Runner
from bot.daemon.silence import Silence
from bot.daemon.supervisor import Supervisor
from bot.daemon.ticker import Ticker
from bot.daemon.watch import ExitReason, Watch
from bot.daemon.watchdog import dump_stacks
from bot.domain.vitals import Beat, ClockStep
from bot.ports import Clock

log = structlog.get_logger(__name__)

HEARTBEAT = "heartbeat"
# Lag is judged over about a minute, whatever the interval of the probe.
LAG_WINDOW_S = 60.0


class ClockGuard:
    """Compares wall and monotonic time, which differ only when somebody sets the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = (clock.now(), clock.monotonic())

    def step(self) -> float:
        """Return by how many seconds the wall clock was set since the last call, negative for back."""
        (wall, monotonic), self._seen = self._seen, (self._clock.now(), self._clock.monotonic())
        return (self._seen[0] - wall).total_seconds() - (self._seen[1] - monotonic)


class Pulse:
    """Beats from the scheduler, looks from the loop: ``beats`` stands still with the one, ``looks`` with the other."""

    def __init__(self, *, watch: Watch, runner: Runner, ticker: Ticker, supervisor: Supervisor) -> None:
        self.beats = 0
        self.looks = 0
        self._watch = watch
        self._runner = runner
        self._ticker = ticker
        self._supervisor = supervisor
        self._lags: deque[float] = deque([0.0], maxlen=max(1, round(LAG_WINDOW_S / watch.lag_every_s)))
        self._lagging = ""

    async def beat(self) -> None:
        """Give one sign of life, to the supervisor and to the record."""
        self.beats += 1
        self._supervisor.tell("WATCHDOG=1")
        clock, p99 = self._runner.clock, percentile(self._lags, 0.99)
        self._judge_lag(p99)
        beat = Beat(at=clock.now(), monotonic_s=clock.monotonic(), lag_p99_s=p99, lag_max_s=max(self._lags))
        with self._runner.tracked(HEARTBEAT):
            await self._runner.report(beat)

    async def keep_watch(self) -> None:
        """Look at the clock and at the heartbeat for ever; wake a silent scheduler, give up on a dead one."""
        silence, guard = Silence(self._watch.look_s), ClockGuard(self._runner.clock)
        while True:
            await self._runner.clock.sleep(self._watch.look_s)
            self.looks += 1
            await self._check_clock(guard.step())
            self._check_scheduler(silence.look(self.beats))

    async def probe_lag(self) -> None:
        """Measure for ever how late the loop wakes a sleeper."""
        clock, every_s = self._runner.clock, self._watch.lag_every_s
        while True:
            start = clock.monotonic()
            await clock.sleep(every_s)
            self._lags.append(max(0.0, clock.monotonic() - start - every_s))

    async def _check_clock(self, step_s: float) -> None:
        if abs(step_s) <= self._watch.clock_step_s:
            return
        log.warning("wall clock was set", seconds=round(step_s, 3))
        now = self._runner.clock.now()
        self._ticker.realign(now)
        await self._runner.report(ClockStep(at=now, seconds=step_s))

    def _check_scheduler(self, silent_s: float) -> None:
        if silent_s >= self._watch.abort_after_s:
            dump_stacks()
            self._runner.give_up(ExitReason.STALLED, f"no heartbeat for {silent_s:.0f} s; start the daemon again")
        elif silent_s >= self._watch.wake_after_s:
            log.warning("no heartbeat, waking the scheduler", silent_s=silent_s)
            # A clock set forward and back again between two looks left a slot far ahead, and no step to be seen.
            self._ticker.realign(self._runner.clock.now())

    def _judge_lag(self, p99: float) -> None:
        state = "lagging" if p99 > self._watch.lag_warn_s else ""
        if state != self._lagging:
            event = "event loop lags" if state else "event loop is on time again"
            log.warning(event, p99_s=round(p99, 3), limit_s=self._watch.lag_warn_s)
        self._lagging = state


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
