"""Lives of the real daemon on a virtual event loop: each may be killed between any two turns of it, as by SIGKILL."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.app.app import FoxcastApp, open_app
from bot.config.loader import load_config
from bot.core.errors import FoxcastError
from bot.core.redaction import temporary_secrets
from bot.daemon.recorder import DaemonRecorder
from bot.daemon.runner import DaemonExit, DaemonLimits, ExitReason, HealthEvent, HeartbeatRecord, JobOutcome, JobRun
from bot.daemon.service import run_daemon
from bot.execution.gate.execution_policy import venue_policy
from bot.jobs.job import DaemonJob
from bot.jobs.reconciliation import reconcile_submissions
from bot.plugin_system.registry import Registry, load_registry
from bot.simulator.network import CURRENT_PROCESS, NetworkEventLoop
from bot.store.connections import WriterThread
from bot.store.database import open_writer
from bot.store.folder_identity import check_identity, export_identity, locate_folder, write_identity
from bot.store.heartbeat import read_heartbeat
from bot.store.ledger import LEDGER_FILE, state_folder
from bot.store.scores import ResolvedBinaryColumns, ScoreFilter
from tests.ledger_checks import read_rows
from tests.simulation.full_system.plan import LifeEnding

if TYPE_CHECKING:
    from bot.config.schema import Config
    from bot.execution.gate.gate import ExecutionPolicy
    from bot.testing.event_loop import VirtualClock

HEARTBEAT_S, LOOK_S = 1_800.0, 360.0
# A virtual loop has no lag to be measured, and a day of it many heartbeats.
WATCH = DaemonLimits(
    seed=1,
    heartbeat_s=HEARTBEAT_S,
    check_every_s=LOOK_S,
    wake_after_s=1.5 * HEARTBEAT_S,
    abort_after_s=12.0 * HEARTBEAT_S,
    lag_every_s=2.0 * HEARTBEAT_S,
)
# What may pass between two heartbeats, by how often the clock was set meanwhile. Set back once, it makes a slot be
# missed until the next look: with the intervals of the real daemon that is 25 of the 30 seconds that are allowed. Set
# forward and back again within one look, it leaves no step to be seen, and the silence itself must be noticed.
GAPS_S = (HEARTBEAT_S + LOOK_S, 2.0 * HEARTBEAT_S + LOOK_S, WATCH.wake_after_s + HEARTBEAT_S + LOOK_S)
KILLED, KILLED_AT_LAST = "killed", "killed after it had stopped"
# The job that does what people ask for.
REQUESTS, CLOSE = "requests", "close"
_STATES = "select distinct state from intent"
EXPECTED = {
    "age": {ExitReason.ASKED, ExitReason.CUT},
    "stop": {ExitReason.ASKED, ExitReason.CUT},
    "full disk": {ExitReason.STORE},
    "storage fault": {ExitReason.STORE},
}


@dataclass(slots=True, kw_only=True)
class DaemonLives:
    """The lives of one Foxcast, one after the other, each on the files of the one before; ``ends`` is how they ended.

    ``began`` is when, by the ``clock`` of the machine, which people may set. ``writes`` tells how many writes the
    venues heard so far, ``calls`` how many were made for forecasts, ``asked`` is set when people have asked for
    something, ``asked_to_close`` when that is to close positions. ``passes`` are the runs of jobs, in the order in
    which they ended, ``cut_off`` those that did not end before their life. ``killed_with`` counts the kills at which an
    intent in a state was there. ``noticed`` is called at each turn of the loop, ``beats`` at each
    heartbeat.
    """

    clock: VirtualClock
    loop: NetworkEventLoop
    root: Path
    config: str
    writes: Callable[[], int]
    noticed: Callable[[], None]
    beats: Callable[[], None]
    calls: Callable[[], int] = int
    ends: list[str] = field(default_factory=list)
    began: list[datetime] = field(default_factory=list)
    passes: list[JobRun] = field(default_factory=list)
    cut_off: list[JobRun] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    killed_with: Counter[str] = field(default_factory=Counter)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    asked_to_close: asyncio.Event = field(default_factory=asyncio.Event)
    app: FoxcastApp | None = None
    scored: ResolvedBinaryColumns | None = None
    _registry: Registry | None = None
    _lanes: dict[str, ExecutionPolicy] = field(default_factory=dict)
    # The home of a life and where its ledger is: people look there often, and reading the configuration takes long.
    _folder: tuple[Path, Path] = (Path(), Path())
    _under_way: dict[str, JobRun] = field(default_factory=dict)
    _alive: bool = False
    _beat_s: float = 0.0
    _steps: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self.next_folder(0).mkdir()
        self._configure(self.next_folder(0))

    @property
    def number(self) -> int:
        """The number of the present or last life, from 1; 0 before the first."""
        return len(self.ends)

    @property
    def home(self) -> Path:
        """The folder of the present life, or what the last one left."""
        return self.root / f"life-{self.number}" if self._alive else self.next_folder(self.number)

    @property
    def folder(self) -> Path:
        """Where the ledger of the present life is, or what the last one left."""
        if self._folder[0] != self.home:
            self._folder = (self.home, state_folder(self.loaded()))
        return self._folder[1]

    def next_folder(self, number: int) -> Path:
        """Return the folder that a life leaves."""
        return self.root / f"heir-{number}"

    def loaded(self) -> Config:
        """Return the configuration of the present life, or of the next."""
        return load_config(self.home / "config.toml")

    def policy_of(self, venue: str) -> ExecutionPolicy:
        """Return the way out of a venue under that configuration."""
        # What it says depends on no folder, and the digest of a key takes long.
        if venue not in self._lanes:
            config = self.loaded()
            self._lanes[venue] = venue_policy(config, venue, self._plugins(config).specs_of_table)
        return self._lanes[venue]

    async def live(self, *, until_s: float, life_ending: LifeEnding) -> None:
        """Live until that moment of the clock, or to the end that fate has in store, whichever is first."""
        self._prepare_life()
        life = f"life {self.number}"
        CURRENT_PROCESS.set(life)
        killed: asyncio.Future[None] = self.loop.create_future()
        body = asyncio.ensure_future(self._serve(until_s, life_ending))
        self.loop.on_turn(_KillTimer(lives=self, life_ending=life_ending, burn=lambda: self._kill(life, body, killed)))
        ends: list[asyncio.Future[Any]] = [body, killed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self.loop.on_turn(lambda _: self.noticed())
        if killed.done():
            with suppress(asyncio.CancelledError, Exception):
                await body
        else:
            self._end(body, life_ending)
        self.app = None
        self.cut_off += self._under_way.values()
        self._under_way.clear()
        await self._hand_over_files(life)

    async def look_back(self) -> tuple[list[str], list[str]]:
        """Read back twice what the last life left, with nothing else going on, and return what stood each time.

        What the forecasts are scored on is in ``scored``.
        """
        self._prepare_life()
        CURRENT_PROCESS.set(f"life {self.number}")
        with temporary_secrets():
            config, stood = self.loaded(), []
            async with open_app(config, self._plugins(config), clock=self.clock) as app:
                self.scored = await app.ledger.scores.read_binary_columns(ScoreFilter())
                for _ in range(2):
                    await reconcile_submissions(app.outbox)
                    stood.append(await app.ledger.permissions.read(_standing))
        self.ends[-1] = "looked back"
        await self._hand_over_files(f"life {self.number}")
        return stood[0], stood[1]

    async def fill_disk(self) -> None:
        """Let no page be added to the ledger any more."""
        if self.app is not None:
            with suppress(FoxcastError):
                await self.app.ledger.events.writer.run(
                    lambda database: database.execute("pragma max_page_count = 1").fetchone()
                )

    def _prepare_life(self) -> None:
        before = self.next_folder(self.number)
        self.ends.append("alive")
        self.began.append(self.clock.now())
        self._alive = True
        before.rename(self.home)
        for ledger in self.home.glob(f"*/*/{LEDGER_FILE}"):
            _settle_identity(ledger)
        self._configure(self.home)
        self._beat_s, self._steps = self.loop.time(), (self.clock.wall_clock_changes, self.clock.wall_clock_changes)

    def registry(self) -> Registry:
        """Return what the plugins of the configuration offer."""
        return self._plugins(self.loaded())

    def change_config(self, text: str) -> None:
        """Let the next life begin with another configuration; call it between two lives."""
        self.config = text
        self._lanes.clear()
        self._configure(self.home)

    def _configure(self, home: Path) -> None:
        (home / "config.toml").write_text(self.config.replace("HOME", str(home)), encoding="utf-8")

    def _plugins(self, config: Config) -> Registry:
        # What plugins offer does not change, and reading them takes as long as an hour of a simulated day.
        self._registry = self._registry or load_registry(config)
        return self._registry

    async def _serve(self, until_s: float, life_ending: LifeEnding) -> DaemonExit:
        # Each life learns anew what it must hide, as each process does.
        with temporary_secrets():
            return await self._serve_from(self.loaded(), until_s, life_ending)

    async def _serve_from(self, config: Config, until_s: float, life_ending: LifeEnding) -> DaemonExit:
        async with open_app(config, self._plugins(config), clock=self.clock) as app:
            self.app = app
            self.loop.call_at(until_s, app.stopping.set)
            ends_s = self.loop.time() + life_ending.after_s
            if life_ending.manner == "stop":
                self.loop.call_at(ends_s, app.stopping.set)
            disk = asyncio.create_task(self._filled(ends_s)) if life_ending.manner == "full disk" else None
            recorder = DaemonRecorder(app.ledger, app.folder)

            async def record(event: HealthEvent, /) -> None:
                self._record_health(event)
                await recorder(event)

            heard = {REQUESTS: self.asked, CLOSE: self.asked_to_close}
            jobs = [replace(job, run_requested=heard[job.name]) if job.name in heard else job for job in app.jobs()]
            jobs = [self._watched(job) for job in (*jobs, *app.price_watches())]
            try:
                # As the command does it (``bot.cli.run``), so that a crash is reported by the next life.
                await recorder.record_start(self.clock.now())
                end = await run_daemon(jobs, clock=self.clock, limits=WATCH, record=record, stop=app.stopping)
                await recorder.record_end(end, self.clock.now())
                return end
            finally:
                if disk is not None:
                    disk.cancel()

    async def _filled(self, at_s: float) -> None:
        await self.clock.sleep(at_s - self.loop.time())
        await self.fill_disk()

    def _watched(self, job: DaemonJob) -> DaemonJob:
        """Return the job with its runs in ``_under_way``; one that is cut off may have taken as long as any may."""

        async def run() -> str:
            self._under_way[job.name] = JobRun(
                job=job.name,
                started_at=self.clock.now(),
                took_s=job.time_limit.total_seconds(),
                outcome=JobOutcome.FAILED,
                detail="cut off",
            )
            return await job.run()

        return replace(job, run=run)

    def _record_health(self, event: HealthEvent) -> None:
        if isinstance(event, JobRun):
            self._under_way.pop(event.job, None)
            # What ends once the ledger has failed is not on record, and is not done.
            writer = None if self.app is None else self.app.ledger.events.writer
            failed = isinstance(writer, WriterThread) and writer.halted is not None
            self.passes.append(replace(event, outcome=JobOutcome.FAILED) if failed else event)
        if isinstance(event, HeartbeatRecord):
            gap_s, self._beat_s = self.loop.time() - self._beat_s, self.loop.time()
            # What was set just before the last heartbeat may have been seen only after it.
            steps, self._steps = (
                self.clock.wall_clock_changes - self._steps[0],
                (self._steps[1], self.clock.wall_clock_changes),
            )
            self.beats()
            if gap_s > GAPS_S[min(steps, len(GAPS_S) - 1)]:
                at = f"at {self._beat_s:.0f} s, {self.clock.now():%Y-%m-%d %H:%M:%S} by its clock"
                self.faults.append(f"I9: no heartbeat for {gap_s:.0f} s in life {self.number} {at}")

    def _end(self, body: asyncio.Task[DaemonExit], life_ending: LifeEnding) -> None:
        if error := body.exception():
            self.ends[-1] = f"failed: {type(error).__name__}: {error}"
            if not (life_ending.manner in {"full disk", "storage fault"} and isinstance(error, FoxcastError)):
                self.faults.append(f"life {self.number} {self.ends[-1]}")
            return
        end = body.result()
        self.ends[-1] = f"{end.reason.value} {end.detail}".strip()
        if (
            end.reason
            not in EXPECTED[life_ending.manner if life_ending.manner in EXPECTED else "age"] | EXPECTED["age"]
        ):
            self.faults.append(f"life {self.number} ended by itself: {self.ends[-1]}")

    def _kill(self, life: str, body: asyncio.Task[DaemonExit], killed: asyncio.Future[None]) -> None:
        if killed.done() or body.done():
            return
        self.loop.wait_for_threads()
        if (ledger := self.folder / LEDGER_FILE).exists():
            self.killed_with.update(row["state"] for row in read_rows(ledger, _STATES))
        shutil.copytree(self.home, self.next_folder(self.number), ignore=shutil.ignore_patterns("config.toml"))
        self.loop.disconnect_process(life)
        # Where it had written that it was asked to stop, the next life takes it for no crash.
        last = read_heartbeat(self.folder)
        self.ends[-1] = KILLED if last is None or last.ended is None else KILLED_AT_LAST
        body.cancel()
        killed.set_result(None)

    async def _hand_over_files(self, life: str) -> None:
        """Leave the files to the next life."""
        self.loop.disconnect_process(life)
        home = self.home
        if self.next_folder(self.number).exists():
            shutil.rmtree(home)
        else:
            home.rename(self.next_folder(self.number))
        self._alive = False
        self._configure(self.home)


def _settle_identity(ledger: Path) -> None:
    """Let the folder belong to the place to which a life moved it, as one machine that starts again has one place."""
    identity = check_identity(ledger).identity
    if identity is None:
        return
    settled = replace(identity, place=locate_folder(ledger.parent))
    with closing(open_writer(ledger)) as database:
        write_identity(database, settled)
    export_identity(ledger.parent, settled)


@dataclass(slots=True, kw_only=True)
class _KillTimer:
    """Burns down turn by turn, once lit: by a write, or by time."""

    lives: DaemonLives
    life_ending: LifeEnding
    burn: Callable[[], None]
    _lit: int | None = None
    _from_s: float | None = None
    _from_writes: int = 0
    _from_calls: int = 0

    def __call__(self, turn: int) -> None:
        self.lives.noticed()
        if not self.life_ending.manner.startswith("kill"):
            return
        if self._from_s is None:
            self._from_s, self._from_writes = self.lives.loop.time(), self.lives.writes()
            self._from_calls = self.lives.calls()
        if self._lit is None and self._is_time():
            self._lit = turn
        if self._lit is not None and turn == self._lit + self.life_ending.turns:
            self.lives.loop.call_soon(self.burn)

    def _is_time(self) -> bool:
        if self.life_ending.calls:
            return self.lives.calls() >= self._from_calls + self.life_ending.calls
        if self.life_ending.writes:
            return self.lives.writes() >= self._from_writes + self.life_ending.writes
        return self.lives.loop.time() >= (self._from_s or 0.0) + self.life_ending.after_s


def _standing(database: object) -> list[str]:
    rows: list[str] = []
    for table in ("intent", "attempt", "fill", "decision"):
        found = database.execute(f"select * from {table}")  # type: ignore[attr-defined]  # noqa: S608 - constants
        rows += [f"{table} {row}" for row in found]
    return rows


def life_end(life: str) -> str:
    """Return in a word how a life ended."""
    if life.startswith(("asked", "looked")):
        return "stopped" if life.startswith("asked") else "looked back"
    return "killed" if life == "killed" else "disk full" if "disk" in life or "store" in life else life[:60]
