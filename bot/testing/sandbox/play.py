"""A demo from its beginning to its end: a world with its servers, the real daemon in it, weeks in seconds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.app import LEDGER_FILE, App, Records, folder_of, open_app
from bot.cli.signed_requests import terminal_user
from bot.clock import SystemClock
from bot.config.loader import load_config
from bot.daemon.recorder import DaemonRecorder
from bot.daemon.runner import DaemonExit, DaemonLimits, ExitReason
from bot.daemon.service import handle_signals, run_daemon
from bot.domain.request import ArmVenue
from bot.gate.lanes import lane_in
from bot.registry import load_registry
from bot.store.requests import ask
from bot.testing.loop import VirtualClock, simulate
from bot.testing.sandbox.ending import Figures, figures_of
from bot.testing.sandbox.loop import SandboxLoop
from bot.testing.sandbox.plan import (
    AGE_DAYS,
    CAPS,
    CONFIG,
    DAY_S,
    FORECASTERS,
    HOUR_S,
    START,
    WATCHED_S,
    Plan,
    write_configs,
)
from bot.testing.sandbox.seen import Reader
from bot.testing.venues.stand import Layout, Stand, open_stand
from bot.testing.world.habits import Habits

if TYPE_CHECKING:
    from bot.config.schema import Config
    from bot.jobs.job import Job
    from bot.ports import Clock
    from bot.registry import Registry
    from bot.testing.sandbox.screen import Screen

# How much longer it may take where nothing is scored yet.
_SLOW = 3.0
# An arm record holds no longer than a month.
ARMED_DAYS = 30
# The job that sees what people ask, and is told of it here: by itself it looks too seldom for what must be fresh.
_ATTEND = "attend"
# The world goes on in such steps; while prices are watched, in small ones.
STEP_S, SMALL_STEP_S = DAY_S, 300.0
# The next day begins a minute after midnight: what opens at midnight has opened by then.
_DAWN = timedelta(days=1, minutes=1)
# A virtual loop has no lag to be measured, and weeks of it many heartbeats.
_WATCH = DaemonLimits(
    seed=1,
    heartbeat_s=6 * HOUR_S,
    check_every_s=HOUR_S,
    wake_after_s=12 * HOUR_S,
    abort_after_s=48 * HOUR_S,
    lag_every_s=DAY_S,
)


@dataclass(slots=True, kw_only=True)
class Played:
    """What came of it: how the daemon ended, which signal stopped it, and the figures where there are any."""

    exit: DaemonExit | None = None
    signal: signal.Signals | None = None
    cut_short: bool = False
    figures: Figures | None = None
    first_score_s: float | None = None
    example: str = ""

    @property
    def early(self) -> bool:
        """Whether it ended before its days were over."""
        return self.cut_short or self.signal is not None


@dataclass(slots=True, kw_only=True)
class Play:
    """One demo on a screen; ``begun_s`` is when the program was started, by the system's monotonic clock."""

    plan: Plan
    screen: Screen
    begun_s: float
    played: Played = field(default_factory=Played)
    _real: Clock = field(default_factory=SystemClock)
    _reader: Reader | None = None
    _stand: Stand | None = None
    _app: App | None = None
    _clock: VirtualClock | None = None
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    def run(self) -> Played:
        """Run it in virtual time from the world's first day."""
        simulate(self._main, start=START, make=SandboxLoop)
        return self.played

    async def _main(self, clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SandboxLoop)  # noqa: S101 - it was made so
        self._clock, loop.watcher = clock, self._look
        stop = asyncio.Event()
        with ExitStack() as stack:
            stack.enter_context(handle_signals(stop, self._stopped))
            stack.enter_context(self.screen.shown())
            self._say("a world is made: questions, a press, crowds, a model, and four venues")
            plan = self.plan
            layout = Layout(seed=plan.seed, start=START, folder=plan.folder, size=plan.size, habits=Habits(pages=0))
            async with open_stand(clock, layout) as stand:
                self._stand = stand
                await self._age(stand, clock, stop)
                if not stop.is_set():
                    await self._foxcast(stand, clock, stop)
            loop.watcher = _nothing

    async def _age(self, stand: Stand, clock: VirtualClock, stop: asyncio.Event) -> None:
        """Let a week pass before Foxcast comes."""
        for _ in range(round(AGE_DAYS * DAY_S / STEP_S)):
            if stop.is_set():
                return
            stand.stalls.advance()
            await clock.sleep(STEP_S)
        stand.stalls.advance()

    async def _foxcast(self, stand: Stand, clock: VirtualClock, stop: asyncio.Event) -> None:
        write_configs(stand, self.plan)
        # Nothing of the caller's environment belongs here, least of all the keys of real accounts.
        config = load_config(self.plan.folder / CONFIG, {})
        registry = load_registry(config)
        self._reader = Reader(folder_of(config) / LEDGER_FILE, FORECASTERS)
        self.screen.modes = {name: config.mode_of(name).value for name in config.venues}
        self._say(f"{terminal_user()} arms {', '.join(stand.writable)} for {ARMED_DAYS} days, with caps on money")
        armer = asyncio.create_task(self._keep_armed(config, registry, stand, clock))
        living = asyncio.create_task(stand.live(clock, SMALL_STEP_S))
        try:
            async with open_app(config, registry, clock=clock) as self._app:
                await self._first_hour(self._app, clock, stop)
                living.cancel()
                living = asyncio.create_task(_live_by_day(stand, clock))
                if not self._is_over(stop):
                    await self._weeks(self._app, clock, stop)
                self._look()
                records = Records(config=config, folder=self._app.folder, ledger=self._app.ledger)
                self.played.figures = await figures_of(records, FORECASTERS, clock.now(), money=stand.trading)
                self.played.example = self._reader.example()
        finally:
            self._app = None
            for task in (armer, living):
                task.cancel()
            await asyncio.gather(armer, living, return_exceptions=True)

    async def _first_hour(self, app: App, clock: VirtualClock, stop: asyncio.Event) -> None:
        self._say("the daemon starts: it finds questions, forecasts, decides, submits, and watches prices")
        jobs = [*app.jobs(), *app.watches()]
        self.played.exit = await self._served(app, clock, stop, (jobs, WATCHED_S))

    async def _weeks(self, app: App, clock: VirtualClock, stop: asyncio.Event) -> None:
        self._say("weeks pass: the same jobs, without watching prices by the second")
        app.stopping.clear()
        left_s = (self.plan.begun + timedelta(days=self.plan.days) - clock.now()).total_seconds()
        self.played.exit = await self._served(app, clock, stop, (app.jobs(), left_s))

    async def _served(
        self, app: App, clock: VirtualClock, stop: asyncio.Event, what: tuple[Sequence[Job], float]
    ) -> DaemonExit:
        jobs = [replace(job, wanted=self._asked) if job.name == _ATTEND else job for job in what[0]]
        loop = asyncio.get_running_loop()
        timer = loop.call_later(what[1], app.stopping.set)
        told = asyncio.create_task(_passed_on(stop, app.stopping))
        try:
            return await run_daemon(
                jobs,
                clock=clock,
                watch=_WATCH,
                record=DaemonRecorder(app.ledger, app.folder),
                stop=app.stopping,
            )
        finally:
            timer.cancel()
            told.cancel()

    async def _keep_armed(self, config: Config, registry: Registry, stand: Stand, clock: Clock) -> None:
        """Arm all venues that can be written to, as a person does with ``foxcast arm``, and again before that ends."""
        folder = folder_of(config)
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            now = clock.now()
            for venue in stand.writable:
                lane = lane_in(config, venue, registry.configurable)
                request = ArmVenue(
                    by=terminal_user(),
                    asked_at=now,
                    venue=venue,
                    account=lane.account,
                    config=lane.digest,
                    until=now + timedelta(days=ARMED_DAYS),
                    per_order=CAPS["per_order"] if venue in stand.trading else None,
                    per_day=CAPS["per_day"] if venue in stand.trading else None,
                    total=CAPS["total"] if venue in stand.trading else None,
                )
                ask(folder, request, at=now)
            self._asked.set()
            await clock.sleep((ARMED_DAYS - 1) * DAY_S)

    def _is_over(self, stop: asyncio.Event) -> bool:
        exit_ = self.played.exit
        return stop.is_set() or self.played.cut_short or (exit_ is not None and exit_.reason is not ExitReason.ASKED)

    def _say(self, words: str) -> None:
        self._tell_time()
        self.screen.say(words)

    def _tell_time(self) -> None:
        self.screen.passed_s = self._real.monotonic() - self.begun_s
        self.screen.now = None if self._clock is None else self._clock.now()
        self.screen.heard = 0 if self._stand is None else self._stand.heard

    def _look(self) -> None:
        """Look at everything and show it; called while things happen."""
        self._tell_time()
        screen = self.screen
        if self._reader is not None:
            seen = self._reader.seen(screen.courses)
            screen.look(seen)
            if seen.tallies and self.played.first_score_s is None:
                self.played.first_score_s = screen.passed_s
        else:
            screen.draw()
        if self._app is not None and not self.played.cut_short and self._is_late(screen.passed_s):
            self.played.cut_short = True
            self._say(f"{screen.passed_s:.0f} s are over, more than it should take; --days lets it go on to the end")
            self._app.stopping.set()

    def _is_late(self, passed_s: float) -> bool:
        """Whether a person has waited long enough; without any score yet, a slow machine gets more time."""
        limit_s = self.plan.limit_s
        return passed_s > (limit_s if self.played.first_score_s is not None else _SLOW * limit_s)

    def _stopped(self, number: signal.Signals) -> None:
        self.played.signal = number
        self._say("stopping; what runs is finished, a second signal stops at once")


async def _live_by_day(stand: Stand, clock: Clock) -> None:
    """Let the world go on once a day, before the daily jobs, so that they see the day that was and what opens now."""
    now = clock.now()
    begun = now.replace(hour=0, minute=0, second=0, microsecond=0)
    await clock.sleep((begun + _DAWN - now).total_seconds())
    await stand.live(clock, STEP_S)


async def _passed_on(stop: asyncio.Event, stopping: asyncio.Event) -> None:
    await stop.wait()
    stopping.set()


def _nothing() -> None:
    """Watch nothing."""
