"""Runs a demo from beginning to end.

A world with its servers, the real daemon in it, weeks in seconds of virtual time.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from bot.app.app import FoxcastApp, open_app
from bot.cli.daemon_requests import terminal_user
from bot.config.loader import load_config
from bot.core.clock import SystemClock
from bot.core.light_dataclass import dataclass
from bot.core.operator_requests import ArmVenue
from bot.daemon.recorder import DaemonRecorder
from bot.daemon.runner import DaemonExit, DaemonLimits, ExitReason
from bot.daemon.service import handle_signals, run_daemon
from bot.execution.gate.execution_policy import venue_policy
from bot.plugin_system.registry import load_registry
from bot.simulator.demo.configuration import (
    CAPS,
    CONFIG,
    DAY_S,
    FORECASTERS,
    HOUR_S,
    START,
    WARM_UP_DAYS,
    WATCHED_S,
    DemoPlan,
    write_configs,
)
from bot.simulator.demo.final_report import DemoFigures, compute_figures
from bot.simulator.demo.ledger_snapshot import DemoLedgerReader
from bot.simulator.environment import EnvironmentLayout, SimulatedEnvironment, open_environment
from bot.simulator.models.behaviour import ModelBehaviour
from bot.store.connections import pending_writes
from bot.store.ledger import LEDGER_FILE, ReadOnlyState, state_folder
from bot.store.requests import send_request
from bot.testing.event_loop import VirtualClock, VirtualEventLoop, run_in_virtual_time

if TYPE_CHECKING:
    from bot.config.schema import Config
    from bot.core.interfaces import Clock
    from bot.jobs.job import DaemonJob
    from bot.plugin_system.registry import Registry
    from bot.simulator.demo.screen import DemoScreen

T = TypeVar("T")


Ts = TypeVarTuple("Ts")


# In real seconds: importing libraries for the first time on a slow machine takes longer than anything else.
DEADLOCK_LIMIT_S = 120.0


# By then messages to this machine have arrived; a longer wait would be repeated thousands of times.
GRACE_S = 5e-5


# How often a person is informed at most.
_WATCH_INTERVAL_S = 0.5


_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class LoopbackEventLoop(VirtualEventLoop):
    """A virtual loop that jumps when nothing is on its way, and connects only to this machine.

    Work for an executor runs at once, in its turn, so that time does not pass meanwhile. ``watcher`` is called while
    things happen, twice a second of real time at most.
    """

    def __init__(self) -> None:
        super().__init__(lambda: pending_writes(self) > 0, in_step=True, patience_s=DEADLOCK_LIMIT_S, grace_s=GRACE_S)
        self.watcher: Callable[[], None] = lambda: None
        self._real = SystemClock()
        self._notified_s = self._real.monotonic()
        self.on_turn(self._notify_watcher)

    def run_in_executor(self, _: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run it here and now."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except StopIteration:
            raise
        except BaseException as error:  # noqa: BLE001 - the waiting task must get every error
            future.set_exception(error)
        return future

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,  # noqa: ANN401 - as asyncio has it
        port: Any = None,  # noqa: ANN401 - as asyncio has it
        **options: Any,  # noqa: ANN401 - those of asyncio
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to a server of this machine; raises ConnectionRefusedError for any other."""
        if host is not None:
            _require_loopback(host)
        return await super().create_connection(protocol_factory, host, port, **options)

    async def sock_connect(self, sock: Any, address: Any) -> None:  # noqa: ANN401 - as asyncio has it
        """Connect as ``create_connection`` does, for clients that make their own sockets."""
        _require_loopback(address[0])
        await super().sock_connect(sock, address)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:  # noqa: ANN401 - as asyncio has it
        """Look up a name of this machine; raises ConnectionRefusedError for any other, without asking for it."""
        _require_loopback(host)
        return await super().getaddrinfo(host, port, **options)

    def _notify_watcher(self, _: int) -> None:
        now_s = self._real.monotonic()
        if now_s - self._notified_s >= _WATCH_INTERVAL_S:
            self._notified_s = now_s
            self.watcher()


def _require_loopback(host: object) -> None:
    if host not in _LOOPBACK_HOSTS:
        message = f"the demo connects to no other machine, and was asked to reach {host}"
        raise ConnectionRefusedError(message)


# How much longer it may take where nothing is scored yet.
_SLOW_MACHINE_FACTOR = 3.0


# An arm record is valid for a month at most.
ARMED_DAYS = 30


# The job that reads requests. The demo starts it at once, because its interval is too long for fresh requests.
_REQUESTS_JOB = "requests"


# The world moves in these steps; while prices are watched, in small ones.
STEP_S, SMALL_STEP_S = DAY_S, 300.0


# The next day begins a minute after midnight: questions that open at midnight are open by then.
_FIRST_PASS_OFFSET = timedelta(days=1, minutes=1)


# A virtual loop has no lag to be measured, and weeks of it many heartbeats.
_DAEMON_LIMITS = DaemonLimits(
    seed=1,
    heartbeat_s=6 * HOUR_S,
    check_every_s=HOUR_S,
    wake_after_s=12 * HOUR_S,
    abort_after_s=48 * HOUR_S,
    lag_every_s=DAY_S,
)


@dataclass(slots=True, kw_only=True)
class DemoResult:
    """The result: how the daemon ended and at what simulated time, which signal stopped it, and the figures, if any."""

    exit: DaemonExit | None = None
    signal: signal.Signals | None = None
    cut_short: bool = False
    figures: DemoFigures | None = None
    first_score_s: float | None = None
    example: str = ""
    ended_at: datetime | None = None

    @property
    def ended_early(self) -> bool:
        """Whether it ended before its days were over."""
        return self.cut_short or self.signal is not None


@dataclass(slots=True, kw_only=True)
class DemoRun:
    """One demo on a screen; ``begun_s`` is when the program was started, by the system's monotonic clock."""

    plan: DemoPlan
    screen: DemoScreen
    begun_s: float
    result: DemoResult = field(default_factory=DemoResult)
    _real: Clock = field(default_factory=SystemClock)
    _reader: DemoLedgerReader | None = None
    _environment: SimulatedEnvironment | None = None
    _app: FoxcastApp | None = None
    _clock: VirtualClock | None = None
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    def run(self) -> DemoResult:
        """Run it in virtual time from the world's first day."""
        run_in_virtual_time(self._main, start=START, make=LoopbackEventLoop)
        return self.result

    async def _main(self, clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LoopbackEventLoop)  # noqa: S101 - it was made so
        self._clock, loop.watcher = clock, self._refresh_screen
        stop = asyncio.Event()
        with ExitStack() as stack:
            stack.enter_context(handle_signals(stop, self._note_stop))
            stack.enter_context(self.screen.live_display())
            self._show_line("a world is made: questions, a press, crowds, a model, and four venues")
            plan = self.plan
            layout = EnvironmentLayout(
                seed=plan.seed, start=START, folder=plan.folder, size=plan.size, habits=ModelBehaviour(pages=0)
            )
            async with open_environment(clock, layout) as environment:
                self._environment = environment
                await self._age_world(environment, clock, stop)
                if not stop.is_set():
                    await self._run_foxcast(environment, clock, stop)
            loop.watcher = _do_nothing

    async def _age_world(self, environment: SimulatedEnvironment, clock: VirtualClock, stop: asyncio.Event) -> None:
        """Let a week pass before Foxcast starts."""
        for _ in range(round(WARM_UP_DAYS * DAY_S / STEP_S)):
            if stop.is_set():
                return
            environment.world_runner.advance()
            await clock.sleep(STEP_S)
        environment.world_runner.advance()

    async def _run_foxcast(self, environment: SimulatedEnvironment, clock: VirtualClock, stop: asyncio.Event) -> None:
        write_configs(environment, self.plan)
        # The caller's environment must not be used here, least of all the keys of real accounts.
        config = load_config(self.plan.folder / CONFIG, {})
        registry = load_registry(config)
        self._reader = DemoLedgerReader(state_folder(config) / LEDGER_FILE, FORECASTERS)
        self.screen.modes = {name: config.mode_of(name).value for name in config.venues}
        self._show_line(
            f"{terminal_user()} arms {', '.join(environment.writable)} for {ARMED_DAYS} days, with caps on money"
        )
        arming_task = asyncio.create_task(self._keep_armed(config, registry, environment, clock))
        world_task = asyncio.create_task(environment.run_world(clock, SMALL_STEP_S))
        try:
            async with open_app(config, registry, clock=clock) as self._app:
                await self._first_hour(self._app, clock, stop)
                world_task.cancel()
                world_task = asyncio.create_task(_run_world_daily(environment, clock))
                if not self._is_over(stop):
                    await self._run_weeks(self._app, clock, stop)
                self._refresh_screen()
                records = ReadOnlyState(config=config, folder=self._app.folder, ledger=self._app.ledger)
                self.result.figures = await compute_figures(
                    records, FORECASTERS, clock.now(), money=environment.trading
                )
                self.result.example = self._reader.best_example()
                self.result.ended_at = clock.now()
                if self.result.exit is not None:
                    await DaemonRecorder(self._app.ledger, self._app.folder).record_end(self.result.exit, clock.now())
        finally:
            self._app = None
            for task in (arming_task, world_task):
                task.cancel()
            await asyncio.gather(arming_task, world_task, return_exceptions=True)

    async def _first_hour(self, app: FoxcastApp, clock: VirtualClock, stop: asyncio.Event) -> None:
        self._show_line("the daemon starts: it finds questions, forecasts, decides, submits, and watches prices")
        jobs = [*app.jobs(), *app.price_watches()]
        self.result.exit = await self._serve_daemon(app, clock, stop, (jobs, WATCHED_S))

    async def _run_weeks(self, app: FoxcastApp, clock: VirtualClock, stop: asyncio.Event) -> None:
        self._show_line("weeks pass: the same jobs, without watching prices by the second")
        app.stopping.clear()
        left_s = (self.plan.begun + timedelta(days=self.plan.days) - clock.now()).total_seconds()
        self.result.exit = await self._serve_daemon(app, clock, stop, (app.jobs(), left_s))

    async def _serve_daemon(
        self, app: FoxcastApp, clock: VirtualClock, stop: asyncio.Event, what: tuple[Sequence[DaemonJob], float]
    ) -> DaemonExit:
        jobs = [replace(job, run_requested=self._asked) if job.name == _REQUESTS_JOB else job for job in what[0]]
        loop = asyncio.get_running_loop()
        timer = loop.call_later(what[1], app.stopping.set)
        stop_task = asyncio.create_task(_forward_stop(stop, app.stopping))
        try:
            return await run_daemon(
                jobs,
                clock=clock,
                limits=_DAEMON_LIMITS,
                record=DaemonRecorder(app.ledger, app.folder),
                stop=app.stopping,
            )
        finally:
            timer.cancel()
            stop_task.cancel()

    async def _keep_armed(
        self, config: Config, registry: Registry, environment: SimulatedEnvironment, clock: Clock
    ) -> None:
        """Arm all writable venues, as a person does with ``foxcast arm``, and again before that expires."""
        folder = state_folder(config)
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            now = clock.now()
            for venue in environment.writable:
                policy = venue_policy(config, venue, registry.specs_of_table)
                request = ArmVenue(
                    by=terminal_user(),
                    asked_at=now,
                    venue=venue,
                    account=policy.account,
                    config=policy.config_digest,
                    until=now + timedelta(days=ARMED_DAYS),
                    per_order=CAPS["per_order"] if venue in environment.trading else None,
                    per_day=CAPS["per_day"] if venue in environment.trading else None,
                    total=CAPS["total"] if venue in environment.trading else None,
                )
                send_request(folder, request, at=now)
            self._asked.set()
            await clock.sleep((ARMED_DAYS - 1) * DAY_S)

    def _is_over(self, stop: asyncio.Event) -> bool:
        exit_ = self.result.exit
        asked = exit_ is None or exit_.reason in {ExitReason.ASKED, ExitReason.CUT}
        return stop.is_set() or self.result.cut_short or not asked

    def _show_line(self, words: str) -> None:
        self._tell_time()
        self.screen.show_activity(words)

    def _tell_time(self) -> None:
        self.screen.passed_s = self._real.monotonic() - self.begun_s
        self.screen.now = None if self._clock is None else self._clock.now()
        self.screen.heard = 0 if self._environment is None else self._environment.request_count

    def _refresh_screen(self) -> None:
        """Read everything and show it; called while things happen."""
        self._tell_time()
        screen = self.screen
        if self._reader is not None:
            seen = self._reader.read_snapshot(screen.courses)
            screen.show_snapshot(seen)
            if seen.tallies and self.result.first_score_s is None:
                self.result.first_score_s = screen.passed_s
        else:
            screen.draw()
        if self._app is not None and not self.result.cut_short and self._is_late(screen.passed_s):
            self.result.cut_short = True
            self._show_line(
                f"{screen.passed_s:.0f} s are over, more than it should take; --days lets it run to the end"
            )
            self._app.stopping.set()

    def _is_late(self, passed_s: float) -> bool:
        """Whether a person has waited long enough; without any score yet, a slow machine gets more time."""
        limit_s = self.plan.limit_s
        return passed_s > (limit_s if self.result.first_score_s is not None else _SLOW_MACHINE_FACTOR * limit_s)

    def _note_stop(self, number: signal.Signals) -> None:
        self.result.signal = number
        self._show_line("stopping: running work is finished; a second signal stops at once")


async def _run_world_daily(environment: SimulatedEnvironment, clock: Clock) -> None:
    """Advance the world once a day, before the daily jobs, so that they see the past day and what opens now."""
    now = clock.now()
    begun = now.replace(hour=0, minute=0, second=0, microsecond=0)
    await clock.sleep((begun + _FIRST_PASS_OFFSET - now).total_seconds())
    await environment.run_world(clock, STEP_S)


async def _forward_stop(stop: asyncio.Event, stopping: asyncio.Event) -> None:
    await stop.wait()
    stopping.set()


def _do_nothing() -> None:
    """Watch nothing."""
