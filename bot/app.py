"""The composition root: everything is built, handed over and closed here, and nowhere else."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import structlog

from bot.clock import SeededRandom
from bot.config.schema import Config
from bot.desk.workshop import Workshop
from bot.domain.submission import Mode
from bot.duties import Duties
from bot.errors import NotFound
from bot.gate.armed import credentials_digest
from bot.gate.brake import STOP_FILE, Brake
from bot.gate.credentials import VenueCredentials
from bot.gate.gate import Lane
from bot.guards import Guards, guards_of
from bot.ids import derive_id
from bot.jobs.policy import follow_policy
from bot.jobs.restored import Settling, settle_restored
from bot.jobs.sitting import Seat
from bot.jobs.spending import Spending
from bot.jobs.waits import BatchWait
from bot.llm.gateway import Gateway
from bot.means import means_of
from bot.net.client import RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.outbox.outbox import Outbox
from bot.outfit import Outfitter, narrow
from bot.ports import Clock, Http, Planner, Random
from bot.registry import Registry
from bot.store.ledger import Ledger, open_ledger, read_ledger
from bot.store.lock import instance_lock
from bot.store.shared_rates import HOLDER, RATE_FOLDER, SharedRates
from bot.venues import Venues, forecasters_of, open_venues, own_archive, rates_of, usable

log = structlog.get_logger(__name__)

LEDGER_FILE = "ledger.sqlite"
LAB_FOLDER = "lab"
PATIENCE_S = 300.0


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
class App(Duties):
    """The running parts of one Foxcast, and what it does with them.

    ``gateway`` is there where a forecaster asks models.
    """

    lanes: Mapping[str, Lane]
    planners: Mapping[str, Planner]
    gateway: Gateway | None


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
        guards = guards_of(outfitter, opened, ledger, _brake(config, folder), partial(_clock_offset, outfitter.http))
        surveyed, stopping = set[str](), asyncio.Event()
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
            outbox=_outbox(opened, guards, ledger, clock, surveyed, stopping.is_set),
            guards=guards,
            chores=[outfitter.chore(spec) for spec in registry.jobs],
            owner=derive_id("owner", str(holder.pid), holder.boot, holder.started_at.isoformat()),
            patience_s=terms.get("patience_s", PATIENCE_S),
            stopping=stopping,
        )
        if only is None:
            await _recover(app)
        yield app


@dataclass(frozen=True, slots=True, kw_only=True)
class Bay:
    """One forecaster opened by itself, for backtests: ``workshop`` and ``gateway`` are there if it asks models."""

    forecaster: Seat
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
            yield Bay(forecaster=seat, random=outfitter.random, workshop=None, gateway=None)
            return
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        gateway, workshop = await _models(outfitter, {name: seat}, ledger, forgiving=True)
        if gateway is not None:
            # What a backtest would cost is asked next.
            await _spending(outfitter, (name,), gateway, confirmed=False).look()
        yield Bay(forecaster=seat, random=outfitter.random, workshop=workshop, gateway=gateway)


@asynccontextmanager
async def _outfitter(
    config: Config, registry: Registry, clock: Clock, *, folder: Path, ledger: Ledger | None = None
) -> AsyncIterator[Outfitter]:
    """Open what opens everything else; with a ledger, what is asked of the venues is asked at their rates.

    The wires of writers ask the brake once more when their turn has come.
    """
    random = SeededRandom(config.seed)
    wanted, book = ((), None) if ledger is None else (rates_of(config, registry), ledger.rates)
    shared = None if ledger is None else SharedRates(folder=folder / RATE_FOLDER, name=HOLDER)
    rates = RateLimiter(wanted, clock=clock, random=random, book=book, shared=shared)
    async with RetryingHttpClient(clock=clock, random=random, rates=rates) as http, AsyncExitStack() as stack:
        credentials = {} if ledger is None else _credentials(config, registry, clock, ledger)
        for one in credentials.values():
            await one.recall()
        yield Outfitter(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=http,
            folder=folder,
            stack=stack,
            rates=rates,
            open_wire=partial(HttpWriteClient, holds=_brake(config, folder).holds),
            credentials=credentials,
        )


def _credentials(config: Config, registry: Registry, clock: Clock, ledger: Ledger) -> dict[str, VenueCredentials]:
    return {
        spec.name: VenueCredentials(
            venue=spec.name,
            is_refusal=spec.refuses_credentials,
            final=spec.final_refusals,
            digest=partial(credentials_digest, config, spec),
            ledger=ledger,
            clock=clock,
        )
        for spec in registry.venues
        if spec.name in config.venues
    }


def _brake(config: Config, folder: Path) -> Brake:
    return Brake(stop_file=config.state / STOP_FILE, ledger=folder / LEDGER_FILE)


def _clock_offset(http: Http) -> float | None:
    return http.clock_skew_s if isinstance(http, RetryingHttpClient) else None


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


def _outbox(
    opened: Venues, guards: Guards, ledger: Ledger, clock: Clock, surveyed: set[str], stopping: Callable[[], bool]
) -> Outbox:
    return Outbox(
        ledger=ledger,
        submitters=opened.submitters,
        clock=clock,
        brake=guards.brake,
        ready=BatchWait(ledger=ledger, lanes=opened.lanes, surveyed=surveyed),
        recheck=guards.recheck,
        clock_fault=guards.clock_fault,
        modes={name: lane.mode for name, lane in opened.lanes.items()},
        accounts={name: lane.account for name, lane in opened.lanes.items()},
        most_doubts={name: lane.caps.doubts for name, lane in opened.lanes.items()},
        stopping=stopping,
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
    moved = await follow_policy(app.ledger, app.means.policy, repeats=app.means.repeats, now=now)
    if moved:
        log.info("due times follow the policy", moved=moved)
    unknown = await app.outbox.recover()
    if freed or unknown:
        text = f"{freed} leases of an earlier run freed, {unknown} submissions unknown"
        await app.ledger.journal.note("recovery", text, at=now)
    if unknown:
        # Before anything new is written. A venue that does not answer leaves its own in doubt, which hold it back.
        await app.outbox.reconcile()
    await settle_restored(
        Settling(path=app.folder / LEDGER_FILE, ledger=app.ledger, lanes=app.lanes, outbox=app.outbox, clock=app.clock)
    )
