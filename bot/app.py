"""The composition root: everything is built, handed over and closed here, and nowhere else."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from bot.clock import SeededRandom
from bot.config.model import CalibrationUse, Config
from bot.config.plugin_settings import settings_of
from bot.desk.combine import Pool
from bot.domain.forecast import Limits
from bot.domain.submission import Mode
from bot.errors import ConfigError, NotFound
from bot.gate.brake import STOP_FILE, Brake
from bot.gate.gate import Gate, Lane
from bot.http import HttpReader
from bot.ids import derive_id
from bot.jobs.attend import Attending, attend
from bot.jobs.backup import BackingUp, back_up
from bot.jobs.calibrate import Calibrator, Identity
from bot.jobs.discover import Discovery, discover
from bot.jobs.forecast import Forecasting, Seat, forecast_due
from bot.jobs.job import JOB_LIMIT, Job
from bot.jobs.learn import School, Teacher
from bot.jobs.policy import Reforecast
from bot.jobs.reconcile import reconcile
from bot.jobs.resolve import Resolving, resolve
from bot.jobs.restored import Settling, settle_restored
from bot.jobs.score import Scoring, score
from bot.jobs.submit import BatchWait, Submitting, submit_due
from bot.outbox.outbox import Outbox
from bot.ports import Archive, Clock, Http, Random, Submitter, Venue
from bot.registry import Registry
from bot.specs import JobSpec, Workplace
from bot.store.ledger import Ledger, open_ledger, read_ledger
from bot.store.lock import instance_lock

log = structlog.get_logger(__name__)

LEDGER_FILE = "ledger.sqlite"
PATIENCE_S = 300.0
# One pass takes at most PATIENCE_S and what was begun then, each trial at most its own limit.
FORECAST_LIMIT = timedelta(hours=6)


def folder_of(config: Config) -> Path:
    """Return where this run keeps everything: paper and live never share a database file."""
    live = any(config.mode_of(venue) in {Mode.APPROVE, Mode.LIVE} for venue in config.venues)
    return config.state / ("live" if live else "paper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What was recorded, to be read while a daemon may be writing it."""

    config: Config
    folder: Path
    ledger: Ledger


@asynccontextmanager
async def open_records(config: Config) -> AsyncIterator[Records]:
    """Open the ledger for reading; raises NotFound where there is none yet."""
    folder = folder_of(config)
    path = folder / LEDGER_FILE
    if not path.exists():
        message = f"there is no ledger at {path} yet; make one with: foxcast run --once"
        raise NotFound(message)
    async with read_ledger(path) as ledger:
        yield Records(config=config, folder=folder, ledger=ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The running parts of one Foxcast; ``chores`` are the jobs that plugins bring."""

    config: Config
    registry: Registry
    folder: Path
    ledger: Ledger
    clock: Clock
    random: Random
    venues: Mapping[str, Venue]
    lanes: Mapping[str, Lane]
    seats: Mapping[str, Seat]
    teacher: Teacher
    surveyed: set[str]
    outbox: Outbox
    chores: Sequence[Job]
    owner: str
    patience_s: float
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def jobs(self) -> tuple[Job, ...]:
        """Return what the daemon runs, in the order of one pass."""
        return tuple(_jobs(self))

    @property
    def policy(self) -> Reforecast:
        """The re-forecast policy as configured."""
        policy = self.config.policy
        return Reforecast(
            stale_after=timedelta(hours=policy.stale_after_h),
            near_close=tuple(timedelta(hours=hours) for hours in policy.near_close_h),
            price_move=policy.price_move,
            min_gap=timedelta(hours=policy.min_gap_h),
        )


@asynccontextmanager
async def open_app(
    config: Config, registry: Registry, *, clock: Clock, patience_s: float = PATIENCE_S
) -> AsyncIterator[App]:
    """Take the state folder, open the ledger, the venues and the forecasters; close all of them at the end.

    ``patience_s`` bounds one pass of the forecast job; a single pass over everything has no end to it.
    Raises InstanceLocked where another Foxcast runs, ConfigError for settings that a plugin refuses.
    """
    folder = folder_of(config)
    started_at = clock.now()
    async with AsyncExitStack() as stack:
        holder = stack.enter_context(instance_lock(folder, started_at=started_at))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=started_at))
        http = await stack.enter_async_context(HttpReader(clock=clock, random=SeededRandom(config.seed)))
        builder = _Builder(config=config, registry=registry, clock=clock, http=http, folder=folder, stack=stack)
        lanes = {name: _lane(config, name) for name in _usable(config, registry)}
        venues = {name: await builder.venue(name) for name in lanes}
        submitters = {name: await builder.submitter(lane) for name, lane in lanes.items()}
        seats = await builder.seats(venues)
        surveyed: set[str] = set()
        app = App(
            config=config,
            registry=registry,
            folder=folder,
            ledger=ledger,
            clock=clock,
            random=SeededRandom(config.seed),
            venues=venues,
            lanes=lanes,
            seats=seats,
            teacher=Teacher(
                ledger=ledger,
                archives=[archive for name in venues if (archive := _own_archive(config, registry, name))],
                schools={name: school_of(config, registry, name) for name in seats},
                clock=clock,
            ),
            surveyed=surveyed,
            outbox=Outbox(
                ledger=ledger,
                submitters={name: submitter for name, submitter in submitters.items() if submitter is not None},
                clock=clock,
                brake=Brake(stop_file=config.state / STOP_FILE, ledger=folder / LEDGER_FILE),
                ready=BatchWait(ledger=ledger, lanes=lanes, surveyed=surveyed),
            ),
            chores=[builder.chore(spec) for spec in registry.jobs],
            owner=derive_id("owner", str(holder.pid), holder.boot, holder.started_at.isoformat()),
            patience_s=patience_s,
        )
        await _recover(app)
        yield app


@asynccontextmanager
async def open_seat(config: Config, registry: Registry, name: str, *, clock: Clock) -> AsyncIterator[Seat]:
    """Open one forecaster by itself, for a backtest; nothing is recorded."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(HttpReader(clock=clock, random=SeededRandom(config.seed)))
        builder = _Builder(
            config=config, registry=registry, clock=clock, http=http, folder=folder_of(config), stack=stack
        )
        yield await builder.seat(name)


def school_of(config: Config, registry: Registry, name: str) -> School:
    """Return how a forecaster learns."""
    spec = registry.forecasters[name]
    learner = spec.learner(settings_of(spec, config)) if spec.learner else None
    return School(learner=learner, shipped=spec.shipped())


def archive_of(config: Config, registry: Registry, venue: str | None, folder: Path) -> tuple[str, Archive]:
    """Return the archive of past rounds in a folder, in the form of the given venue or of the only one that has one.

    Raises ConfigError where no venue has archives, or several have and none is named.
    """
    able = [spec for spec in registry.venues if spec.archive and venue in {None, spec.name}]
    if len(able) != 1 or able[0].archive is None:
        found = ", ".join(sorted(spec.name for spec in able)) or "none"
        message = f"of the enabled venues, {found} can read past rounds; name one with --venue"
        raise ConfigError(message)
    return able[0].name, able[0].archive(settings_of(able[0], config), folder)


def _own_archive(config: Config, registry: Registry, name: str) -> Archive | None:
    spec = registry.venues[name]
    settings = settings_of(spec, config)
    folder = spec.archive_folder(settings)
    return spec.archive(settings, folder) if spec.archive and folder else None


def _usable(config: Config, registry: Registry) -> Iterator[str]:
    """Yield the venues that are on, whose plugin works, and which somebody can forecast; say why others are not."""
    for name in config.venues:
        if config.mode_of(name) is Mode.OFF:
            continue
        if name in registry.venues and _forecasters(config, registry, name):
            yield name
        else:
            log.warning("venue left out: its plugin, or that of its forecasters, is broken", venue=name)


def _forecasters(config: Config, registry: Registry, venue: str) -> tuple[str, ...]:
    return tuple(name for name in config.venues[venue].forecasters if name in registry.forecasters)


def _lane(config: Config, name: str) -> Lane:
    table = config.venues[name]
    return Lane(venue=name, mode=config.mode_of(name), primary=table.forecasters[0], account=table.account)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    config: Config
    registry: Registry
    clock: Clock
    http: Http
    folder: Path
    stack: AsyncExitStack

    def place(self, name: str) -> Workplace:
        return Workplace(clock=self.clock, http=self.http, folder=self.folder / name)

    async def venue(self, name: str) -> Venue:
        spec = self.registry.venues[name]
        return await self.stack.enter_async_context(spec.reader(settings_of(spec, self.config), self.place(name)))

    async def submitter(self, lane: Lane) -> Submitter | None:
        """Open the paper book in paper mode; the venue's writer in live modes alone."""
        spec = self.registry.venues[lane.venue]
        opener = spec.paper if lane.mode is Mode.PAPER else spec.writer
        if opener is None:
            return None
        return await self.stack.enter_async_context(opener(settings_of(spec, self.config), self.place(lane.venue)))

    def chore(self, spec: JobSpec) -> Job:
        run = partial(spec.run, self.place(spec.name))
        return Job(name=f"plugin {spec.name}", summary=spec.summary, every=spec.every, run=run)

    async def seats(self, venues: Iterable[str]) -> Mapping[str, Seat]:
        """Open each forecaster of the venues once."""
        names = dict.fromkeys(name for venue in venues for name in _forecasters(self.config, self.registry, venue))
        return {name: await self.seat(name) for name in names}

    async def seat(self, name: str) -> Seat:
        spec, table, limits = self.registry.forecasters[name], self.config.forecaster(name), self.config.limits
        opened = spec.open(settings_of(spec, self.config), self.place(name))
        return Seat(
            name=name,
            forecaster=await self.stack.enter_async_context(opened),
            trials=table.trials,
            pool=Pool(table.aggregate),
            limits=Limits(steps=limits.steps, seconds=limits.seconds, tokens=limits.tokens, cost_usd=limits.cost_usd),
        )


async def _recover(app: App) -> None:
    """Before anything runs: leases of the dead come back, and what was on the wire when it died is unknown.

    A halt is over once this can be written; a restored ledger is held against what stands at the venues.
    """
    now = app.clock.now()
    if halt := await app.ledger.journal.resume(at=now):
        log.warning("the last run was halted", at=halt.at.isoformat(), why=halt.text)
    freed = await app.ledger.schedule.free_leases(owner_not=app.owner, now=now)
    unknown = await app.outbox.recover()
    if freed or unknown:
        text = f"{freed} leases of an earlier run freed, {unknown} submissions unknown"
        await app.ledger.journal.note("recovery", text, at=now)
    await settle_restored(
        Settling(path=app.folder / LEDGER_FILE, ledger=app.ledger, lanes=app.lanes, outbox=app.outbox, clock=app.clock)
    )


def _jobs(app: App) -> Iterator[Job]:
    every = app.config.daemon
    attending = Attending(folder=app.folder, ledger=app.ledger, clock=app.clock)
    yield _job("attend", "do what people asked", every.attend_every_s, partial(attend, attending))
    for name, venue in app.venues.items():
        finding = Discovery(
            name=name,
            venue=venue,
            forecasters=_forecasters(app.config, app.registry, name),
            ledger=app.ledger,
            clock=app.clock,
            policy=app.policy,
            surveyed=app.surveyed,
        )
        yield _job(f"discover {name}", "find open questions", every.discover_every_s, partial(discover, finding))
    # A single pass over everything has no end to it.
    limit = FORECAST_LIMIT if math.isfinite(app.patience_s) else timedelta.max
    run = partial(forecast_due, _forecasting(app))
    yield _job("forecast", "forecast what is due", every.forecast_every_s, run, limit=limit)
    yield _job("reconcile", "settle doubts", every.reconcile_every_s, partial(reconcile, app.outbox))
    yield _job("submit", "decide, then send", every.submit_every_s, partial(submit_due, _submitting(app)))
    for name, venue in app.venues.items():
        resolving = Resolving(name=name, venue=venue, ledger=app.ledger, clock=app.clock)
        yield _job(f"resolve {name}", "read outcomes", every.resolve_every_s, partial(resolve, resolving))
    scoring = Scoring(ledger=app.ledger, clock=app.clock)
    yield _job("score", "score what resolved", every.score_every_s, partial(score, scoring))
    yield from app.chores
    backing_up = BackingUp(path=app.folder / LEDGER_FILE, folder=app.folder / "backups", clock=app.clock)
    yield _job("backup", "copy the ledger", every.backup_every_s, partial(back_up, backing_up))


def _job(
    name: str, summary: str, every_s: float, run: Callable[[], Awaitable[str]], *, limit: timedelta = JOB_LIMIT
) -> Job:
    return Job(name=name, summary=summary, every=timedelta(seconds=every_s), run=run, limit=limit)


def _forecasting(app: App) -> Forecasting:
    return Forecasting(
        ledger=app.ledger,
        seats=app.seats,
        teacher=app.teacher,
        calibrator=_calibrator(app),
        policy=app.policy,
        clock=app.clock,
        random=app.random,
        owner=app.owner,
        lease=timedelta(seconds=app.config.daemon.lease_s),
        concurrency=app.config.daemon.concurrency,
        patience_s=app.patience_s,
        stopping=app.stopping.is_set,
    )


def _calibrator(app: App) -> Calibrator:
    if app.config.calibration.use is CalibrationUse.IDENTITY:
        return Identity()
    from bot.jobs.gated import GatedCalibrator  # noqa: PLC0415 - numpy, which identity does not need

    return GatedCalibrator(ledger=app.ledger, clock=app.clock)


def _submitting(app: App) -> Submitting:
    # There are no arm records yet, so whatever config says a live venue holds everything.
    gate = Gate(brake=app.outbox.brake, armed=lambda _lane, _now: False)
    return Submitting(ledger=app.ledger, lanes=app.lanes, gate=gate, outbox=app.outbox, clock=app.clock)
