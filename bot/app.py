"""The composition root: everything is built, handed over and closed here, and nowhere else."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import structlog

from bot.clock import SeededRandom
from bot.config.model import Config
from bot.desk.workshop import Workshop
from bot.domain.submission import Mode
from bot.errors import NotFound
from bot.gate.brake import STOP_FILE, Brake
from bot.gate.gate import Lane
from bot.guards import Guards, guards_of
from bot.http import HttpReader
from bot.ids import derive_id
from bot.jobs.attend import Attending, attend
from bot.jobs.audited import export_head
from bot.jobs.backup import BackingUp, back_up
from bot.jobs.discover import Discovery, discover
from bot.jobs.forecast import Forecasting, forecast_due
from bot.jobs.job import JOB_LIMIT, Job
from bot.jobs.ready import make_ready
from bot.jobs.reconcile import reconcile
from bot.jobs.resolve import Resolving, resolve
from bot.jobs.restored import Settling, settle_restored
from bot.jobs.score import Scoring, score
from bot.jobs.sitting import Means, Seat
from bot.jobs.spending import Spending
from bot.jobs.submit import submit_due
from bot.jobs.waits import BatchWait
from bot.jobs.watch import AGAIN, WATCH_LIMIT, PriceWatch, Watching
from bot.llm.gateway import Gateway
from bot.means import means_of
from bot.outbox.outbox import Outbox
from bot.outfit import Outfitter, narrow
from bot.ports import Clock, Http, Planner, PriceFeed, Random, Venue
from bot.rates import Rates
from bot.registry import Registry
from bot.store.ledger import Ledger, open_ledger, read_ledger
from bot.store.lock import instance_lock
from bot.venues import Venues, forecasters_of, open_venues, own_archive, rates_of, usable

log = structlog.get_logger(__name__)

LEDGER_FILE = "ledger.sqlite"
LAB_FOLDER = "lab"
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
    """The running parts of one Foxcast; ``chores`` are the jobs that plugins bring.

    ``gateway`` is there where a forecaster asks models.
    """

    config: Config
    registry: Registry
    folder: Path
    ledger: Ledger
    clock: Clock
    venues: Mapping[str, Venue]
    lanes: Mapping[str, Lane]
    planners: Mapping[str, Planner]
    feeds: Mapping[str, PriceFeed]
    seats: Mapping[str, Seat]
    means: Means
    gateway: Gateway | None
    spending: Spending
    surveyed: set[str]
    outbox: Outbox
    guards: Guards
    chores: Sequence[Job]
    owner: str
    patience_s: float
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def jobs(self) -> tuple[Job, ...]:
        """Return what the daemon runs, in the order of one pass."""
        return tuple(_jobs(self))

    def watches(self) -> tuple[Job, ...]:
        """Return what the daemon runs besides, each for as long as it lives: they come last, and in no single pass."""
        return tuple(_watches(self))


class Terms(TypedDict, total=False):
    """How an App runs where it is not the daemon.

    ``patience_s`` bounds one pass of the forecast job, ``confirmed`` says that a person agreed to what it is expected
    to cost, and with ``only`` there are these forecasters, and no venue.
    """

    patience_s: float
    confirmed: bool
    only: Collection[str] | None


@asynccontextmanager
async def open_app(config: Config, registry: Registry, *, clock: Clock, **terms: Unpack[Terms]) -> AsyncIterator[App]:
    """Take the state folder, open the ledger, the venues and the forecasters; close all of them at the end.

    Without venues there is no submitter either, so that nothing can leave.
    Raises InstanceLocked where another Foxcast runs, ConfigError for settings that a plugin refuses.
    """
    folder = folder_of(config)
    started_at = clock.now()
    async with AsyncExitStack() as stack:
        holder = stack.enter_context(instance_lock(folder, started_at=started_at))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=started_at))
        opening = _outfitter(config, registry, clock, folder=folder, ledger=ledger)
        outfitter = await stack.enter_async_context(opening)
        only, names = terms.get("only"), [*usable(config, registry)]
        opened = await open_venues(outfitter, names if only is None else ())
        named = [name for venue in opened.readers for name in forecasters_of(config, registry, venue)]
        seats = await outfitter.seats(named if only is None else only)
        gateway, workshop = await _models(outfitter, seats, ledger)
        brake = Brake(stop_file=config.state / STOP_FILE, ledger=folder / LEDGER_FILE)
        guards = guards_of(outfitter, opened, ledger, brake, partial(_clock_offset, outfitter.http))
        surveyed = set[str]()
        archives = [archive for name in names if (archive := own_archive(config, registry, name))]
        app = App(
            config=config,
            registry=registry,
            folder=folder,
            ledger=ledger,
            clock=clock,
            venues=opened.readers,
            lanes=opened.lanes,
            planners=opened.planners,
            feeds=opened.feeds,
            seats=seats,
            means=means_of(outfitter, seats, ledger, archives, workshop),
            gateway=gateway,
            spending=_spending(outfitter, seats, gateway, confirmed=terms.get("confirmed", False)),
            surveyed=surveyed,
            outbox=_outbox(opened, guards, ledger, clock, surveyed),
            guards=guards,
            chores=[outfitter.chore(spec) for spec in registry.jobs],
            owner=derive_id("owner", str(holder.pid), holder.boot, holder.started_at.isoformat()),
            patience_s=terms.get("patience_s", PATIENCE_S),
        )
        if only is None:
            await _recover(app)
        yield app


@dataclass(frozen=True, slots=True, kw_only=True)
class Bay:
    """One forecaster opened by itself, for backtests: ``workshop`` and ``gateway`` are there if it asks models."""

    seat: Seat
    random: Random
    workshop: Workshop | None
    gateway: Gateway | None


@asynccontextmanager
async def open_bay(config: Config, registry: Registry, name: str, *, clock: Clock) -> AsyncIterator[Bay]:
    """Open one forecaster for backtests; what it asks of models is kept in a ledger of the laboratory's own.

    Raises InstanceLocked where another backtest with models runs.
    """
    folder = config.state / LAB_FOLDER
    async with AsyncExitStack() as stack:
        outfitter = await stack.enter_async_context(_outfitter(config, registry, clock, folder=folder))
        seat = await outfitter.seat(name)
        if not seat.asks:
            yield Bay(seat=seat, random=outfitter.random, workshop=None, gateway=None)
            return
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        gateway, workshop = await _models(outfitter, {name: seat}, ledger, forgiving=True)
        if gateway is not None:
            # What a backtest would cost is asked next.
            await _spending(outfitter, (name,), gateway, confirmed=False).look()
        yield Bay(seat=seat, random=outfitter.random, workshop=workshop, gateway=gateway)


@asynccontextmanager
async def _outfitter(
    config: Config, registry: Registry, clock: Clock, *, folder: Path, ledger: Ledger | None = None
) -> AsyncIterator[Outfitter]:
    """Open what opens everything else; with a ledger, what is asked of the venues is asked at their rates."""
    random = SeededRandom(config.seed)
    wanted, book = ((), None) if ledger is None else (rates_of(config, registry), ledger.rates)
    rates = Rates(wanted, clock=clock, random=random, book=book)
    async with HttpReader(clock=clock, random=random, rates=rates) as http, AsyncExitStack() as stack:
        yield Outfitter(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=http,
            folder=folder,
            stack=stack,
            rates=rates,
        )


def _clock_offset(http: Http) -> float | None:
    return http.clock_offset_s if isinstance(http, HttpReader) else None


async def _models(
    outfitter: Outfitter, seats: Mapping[str, Seat], ledger: Ledger, *, forgiving: bool = False
) -> tuple[Gateway, Workshop] | tuple[None, None]:
    """Open models and tools where a forecaster uses them."""
    if not any(seat.asks for seat in seats.values()):
        return None, None

    async def alert(subject: str, text: str) -> None:
        log.warning(subject, detail=text)
        await ledger.journal.note("alert", f"{subject}: {text}", at=outfitter.clock.now())

    gateway = await outfitter.gateway(ledger, alert)
    return gateway, await outfitter.workshop(ledger, gateway, forgiving=forgiving)


def _outbox(opened: Venues, guards: Guards, ledger: Ledger, clock: Clock, surveyed: set[str]) -> Outbox:
    return Outbox(
        ledger=ledger,
        submitters=opened.submitters,
        clock=clock,
        brake=guards.brake,
        ready=BatchWait(ledger=ledger, lanes=opened.lanes, surveyed=surveyed),
        recheck=guards.recheck,
        modes={name: lane.mode for name, lane in opened.lanes.items()},
    )


def _spending(outfitter: Outfitter, seats: Iterable[str], gateway: Gateway | None, *, confirmed: bool) -> Spending:
    config, registry = outfitter.config, outfitter.registry
    return Spending(
        prices=gateway,
        ask_above_usd=config.llm.budget.ask_above_usd,
        confirmed=confirmed,
        narrow=None if gateway is None else partial(narrow, config, registry, tuple(seats), gateway.worst_usd),
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
    wanted = asyncio.Event()
    attending = Attending(
        folder=app.folder,
        ledger=app.ledger,
        clock=app.clock,
        seats=app.seats,
        spending=app.spending,
        wake=wanted.set,
        permitting=app.guards.permitting,
    )
    yield _job("attend", "do what people asked", every.attend_every_s, partial(attend, attending))
    yield _job("halt", "take back orders while halted", every.attend_every_s, app.guards.halting().run)
    for name, venue in app.venues.items():
        finding = Discovery(
            name=name,
            venue=venue,
            forecasters=forecasters_of(app.config, app.registry, name),
            ledger=app.ledger,
            clock=app.clock,
            policy=app.means.policy,
            surveyed=app.surveyed,
        )
        yield _job(f"discover {name}", "find open questions", every.discover_every_s, partial(discover, finding))
    # A single pass over everything has no end to it.
    limit = FORECAST_LIMIT if math.isfinite(app.patience_s) else timedelta.max
    run = partial(forecast_due, _forecasting(app))
    forecasting = _job("forecast", "forecast what is due", every.forecast_every_s, run, limit=limit)
    yield replace(forecasting, wanted=wanted)
    yield _job("reconcile", "settle doubts", every.reconcile_every_s, partial(reconcile, app.outbox))
    ready = partial(make_ready, app.guards.preparing)
    yield _job("ready", "see what live venues lack", every.reconcile_every_s, ready)
    deciding = app.guards.submitting(app.outbox)
    yield _job("submit", "decide, then send", every.submit_every_s, partial(submit_due, deciding))
    for name, venue in app.venues.items():
        resolving = Resolving(name=name, venue=venue, ledger=app.ledger, clock=app.clock)
        yield _job(f"resolve {name}", "read outcomes", every.resolve_every_s, partial(resolve, resolving))
    yield from app.guards.keeping(app.outbox, every, app.folder)
    scoring = Scoring(ledger=app.ledger, clock=app.clock)
    yield _job("score", "score what resolved", every.score_every_s, partial(score, scoring))
    yield from app.chores
    backing_up = BackingUp(path=app.folder / LEDGER_FILE, folder=app.folder / "backups", clock=app.clock)
    auditing = partial(export_head, app.guards.auditing)
    yield _job("audit", "verify the audit, export its head", every.backup_every_s, auditing)
    yield _job("backup", "copy the ledger", every.backup_every_s, partial(back_up, backing_up))


def _watches(app: App) -> Iterator[Job]:
    every = app.config.daemon
    for name, feed in app.feeds.items() if every.watch_questions else ():
        watching = Watching(
            name=name,
            forecasters=forecasters_of(app.config, app.registry, name),
            ledger=app.ledger,
            clock=app.clock,
            policy=app.means.policy,
            feed=feed,
            random=app.means.random,
            stopping=app.stopping,
            most=every.watch_questions,
            step=every.watch_step,
        )
        run = PriceWatch(watching).run
        yield Job(name=f"prices {name}", summary="watch prices move", every=AGAIN, run=run, limit=WATCH_LIMIT)


def _job(
    name: str, summary: str, every_s: float, run: Callable[[], Awaitable[str]], *, limit: timedelta = JOB_LIMIT
) -> Job:
    return Job(name=name, summary=summary, every=timedelta(seconds=every_s), run=run, limit=limit)


def _forecasting(app: App) -> Forecasting:
    return Forecasting(
        means=app.means,
        seats=app.seats,
        spending=app.spending,
        owner=app.owner,
        lease=timedelta(seconds=app.config.daemon.lease_s),
        concurrency=app.config.daemon.concurrency,
        patience_s=app.patience_s,
        stopping=app.stopping.is_set,
    )
