"""Opens what config names: venues, writers, forecasters, and the workshop of models, engines, data and pages."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from importlib import resources
from math import ceil
from pathlib import Path
from typing import Any, Protocol, TypedDict, TypeVar

import structlog

from bot.config.loader import describe_place
from bot.config.plugin_settings import load_plugin_settings, recordable_settings, restore_settings
from bot.config.schema import Config
from bot.core.nearest_names import suggest_names
from bot.desk.calculator import calculator
from bot.desk.combine import Pool
from bot.desk.leaks.content import ROLE as FILTER
from bot.desk.tools.names import names as names_of_tools
from bot.desk.tools.search import NAME as WEB_SEARCH
from bot.desk.tools.search import usable
from bot.desk.tools.summary import ROLE as SUMMARISER
from bot.desk.workshop import Engine, Gauge, Shelf, Workshop
from bot.domain.setup import Setup
from bot.domain.submission import Mode
from bot.errors import ConfigError
from bot.gate.credentials import GuardedHttp, GuardedWire, VenueCredentials
from bot.gate.gate import Lane
from bot.jobs.job import Job
from bot.jobs.sitting import Seat
from bot.limits import limits_of, short_limits
from bot.llm.gateway import Gateway, open_gateway
from bot.llm.roles import models_of, provider_of
from bot.members import members_of
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.net.write_client import HttpWriteClient
from bot.ports import Clock, Http, Llm, Planner, PriceFeed, Random, Submitter, Venue, Wire
from bot.registry import Registry
from bot.specs import (
    Can,
    Configurable,
    ForecasterSpec,
    JobSpec,
    PaperPlace,
    PricePlace,
    Settings,
    Workplace,
    WriterPlace,
)
from bot.store.ledger import Ledger

BUILT_IN = "plugins"
HOSTS_FILE = "hosts.txt"
# Those of the house; what else there is forecasters name.
ROLES = frozenset({"main", "critic", "auditor", FILTER, SUMMARISER})

log = structlog.get_logger(__name__)

T = TypeVar("T")
P = TypeVar("P", bound=Workplace)
Alert = Callable[[str, str], Awaitable[None]]
LIVE_MODES = frozenset({Mode.APPROVE, Mode.LIVE})


class OpenWire(Protocol):
    """Makes a wire that keeps the rates."""

    def __call__(self, *, rates: RateLimiter) -> AbstractAsyncContextManager[Wire]:
        """Return it, to be entered."""
        ...


class _Common(TypedDict):
    """What every place has."""

    clock: Clock
    http: Http
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfitter:
    """Opens things on a stack, which closes them in the opposite order.

    ``rates`` are those of the venues, which reading over ``http`` keeps too; ``open_wire`` makes the wires of writers.
    A venue whose ``credentials`` were refused is not asked any more.
    """

    config: Config
    registry: Registry
    clock: Clock
    random: Random
    http: Http
    folder: Path
    stack: AsyncExitStack
    rates: RateLimiter | None = None
    open_wire: OpenWire = HttpWriteClient
    credentials: Mapping[str, VenueCredentials] = field(default_factory=dict)

    def place(self, name: str) -> Workplace:
        """Return what the factory of a plugin is given."""
        return Workplace(**self._common(name))

    async def venue(self, name: str) -> Venue:
        """Open the reader of a venue."""
        spec = self.registry.venues[name]
        venue: Venue = await self._opened(spec, spec.reader)
        return venue

    async def submitter(self, lane: Lane) -> Submitter | None:
        """Open the paper book in paper mode; the venue's writer, with a wire, in live modes alone."""
        spec, common = self.registry.venues[lane.venue], self._common(lane.venue)
        if lane.mode is Mode.PAPER and spec.paper is not None:
            paper = self.config.venues[lane.venue].paper
            return await self._entered(spec, spec.paper, PaperPlace(**common, cash=paper.cash, delay_s=paper.delay_s))
        if lane.mode in LIVE_MODES and spec.writer is not None:
            wire = await self.stack.enter_async_context(self.open_wire(rates=self._rates))
            if (credentials := self.credentials.get(lane.venue)) is not None:
                wire = GuardedWire(wire, credentials)
            return await self._entered(spec, spec.writer, WriterPlace(**common, wire=wire))
        return None

    async def planner(self, name: str) -> Planner | None:
        """Open what turns beliefs into orders, where the venue trades."""
        spec = self.registry.venues[name]
        return None if spec.planner is None else await self._opened(spec, spec.planner)

    async def prices(self, name: str) -> PriceFeed | None:
        """Open the price feed of a venue, where it has one; it connects when it is asked for quotes."""
        spec = self.registry.venues[name]
        if spec.prices is None:
            return None
        sockets = WebSocketConnector(clock=self.clock, rates=self._rates)
        return await self._entered(spec, spec.prices, PricePlace(**self._common(name), sockets=sockets))

    def chore(self, spec: JobSpec) -> Job:
        """Return the job that a plugin brings."""
        run = partial(spec.run, self.place(spec.name))
        return Job(name=f"plugin {spec.name}", summary=spec.summary, every=spec.every, run=run)

    async def seats(self, names: Iterable[str]) -> Mapping[str, Seat]:
        """Open each of the forecasters once."""
        wanted = dict.fromkeys(names)
        for why in short_limits(self.config, self.registry, wanted):
            log.warning("a forecaster has less than it needs", why=why)
        return {name: await self.seat(name) for name in wanted}

    async def seat(self, name: str) -> Seat:
        """Open one forecaster as configured."""
        spec, table = self.registry.forecasters[name], self.config.forecaster_table(name)
        if lacking := lacking_roles(self.config, spec):
            raise ConfigError(lacking)
        settings = load_plugin_settings(spec, self.config)
        return Seat(
            name=name,
            forecaster=await self._started(spec.open, settings, self.place(spec.name)),
            trials=table.trials or spec.trials,
            pool=Pool(table.aggregate),
            limits=limits_of(self.config, self.registry, name),
            least_trials=self.config.limits.least_trials if table.least_trials is None else table.least_trials,
            warm_start_s=table.warm_start_s,
            asks=Can.ASK_MODELS in spec.abilities,
            clairvoyant=table.clairvoyant,
            settings=recordable_settings(settings),
            uses=table.uses,
            members=members_of(self.config, self.registry, name),
        )

    async def seat_as(self, name: str, setup: Setup) -> Seat:
        """Open one forecaster as it was configured for a forecast on record; no model need play its roles now."""
        spec = self.registry.forecasters[name]
        settings = restore_settings(spec, self.config, setup.settings)
        return Seat(
            name=name,
            forecaster=await self._started(spec.open, settings, self.place(spec.name)),
            trials=setup.trials,
            pool=Pool(setup.aggregate),
            limits=setup.limits,
            asks=Can.ASK_MODELS in spec.abilities,
            clairvoyant=setup.clairvoyant,
            settings=setup.settings,
            uses=setup.uses,
            members=tuple(spec.members(settings)) if spec.members else (),
        )

    async def providers(self) -> Mapping[str, Llm]:
        """Open the providers of models that config names and an enabled plugin offers."""
        section = self.config.llm
        named = dict.fromkeys([*map(provider_of, models_of(section)), *section.providers])
        specs = [self.registry.models[name] for name in named if name in self.registry.models]
        return {spec.name: await self._opened(spec, spec.open) for spec in specs}

    async def gateway(self, ledger: Ledger, alert: Alert) -> Gateway:
        """Open the gateway, with the providers that config names."""
        section, opened = self.config.llm, await self.providers()
        return await self.stack.enter_async_context(
            open_gateway(section, opened, ledger=ledger, clock=self.clock, random=self.random, alert=alert)
        )

    async def workshop(self, ledger: Ledger, gateway: Gateway, *, forgiving: bool = False) -> Workshop:
        """Open all that forecasters may use; nothing is fetched or started before it is needed.

        ``forgiving`` is for the laboratory: what failed is asked again by the next run.
        Raises ConfigError for tools and search engines that are named in config and that nobody offers.
        """
        from bot.net.html.page_reader import SubprocessPageReader  # noqa: PLC0415 - as above
        from bot.net.web.fetcher import GuardedFetcher  # noqa: PLC0415 - only where somebody reads pages

        if faults := [*strange_tools(self.config, self.registry)]:
            raise ConfigError("\n".join(faults))
        workshop = Workshop(
            section=self.config.desk,
            fetcher=await self.stack.enter_async_context(GuardedFetcher(clock=self.clock)),
            reader=await self.stack.enter_async_context(SubprocessPageReader()),
            ledger=ledger,
            clock=self.clock,
            engines=[await self._engine(name) for name in self._engines()],
            gauges=await self._gauges(),
            shelves=await self._shelves(),
            blocked=hosts_of(self.registry),
            models=gateway,
            calculator=calculator(),
            cast={role: table.model for role, table in self.config.llm.roles.items()},
            forgiving=forgiving,
        )
        if (why := no_search(workshop, backdated=False)) is not None:
            log.warning("forecasters cannot search the web", why=why)
        for why in idle_roles(self.config, self.registry):
            log.warning("a role that nobody asks", why=why)
        return workshop

    def _engines(self) -> tuple[str, ...]:
        wanted, there = self.config.desk.search, self.registry.search_engines
        if missing := [name for name in wanted if name not in there]:
            message = f"desk.search: no enabled plugin offers {', '.join(missing)}; enabled: {', '.join(there.names)}"
            raise ConfigError(message)
        return wanted or there.names

    async def _engine(self, name: str) -> Engine:
        spec = self.registry.search_engines[name]
        return Engine(name=name, engine=await self._opened(spec, spec.open), abilities=spec.abilities)

    async def _gauges(self) -> Mapping[str, Gauge]:
        sources = [(spec, spec.open) for spec in self.registry.data_sources]
        return {
            spec.name: Gauge(spec=spec, source=await self._opened(spec, opener)) for spec, opener in sources if opener
        }

    async def _shelves(self) -> Mapping[str, Shelf]:
        sources = [(spec, spec.pages) for spec in self.registry.data_sources]
        return {
            spec.name: Shelf(spec=spec, source=await self._opened(spec, opener)) for spec, opener in sources if opener
        }

    async def _opened(self, spec: Configurable[Any], opener: Callable[..., Any]) -> Any:  # noqa: ANN401 - what it opens
        return await self._entered(spec, opener, self.place(spec.name))

    async def _entered(
        self, spec: Configurable[Any], opener: Callable[[Any, P], AbstractAsyncContextManager[T]], place: P
    ) -> T:
        return await self._started(opener, load_plugin_settings(spec, self.config), place)

    async def _started(
        self, opener: Callable[[Any, P], AbstractAsyncContextManager[T]], settings: Settings, place: P
    ) -> T:
        return await self.stack.enter_async_context(opener(settings, place))

    def _common(self, name: str) -> _Common:
        credentials = self.credentials.get(name)
        http = self.http if credentials is None else GuardedHttp(self.http, credentials)
        return _Common(clock=self.clock, http=http, folder=self.folder / name)

    @property
    def _rates(self) -> RateLimiter:
        return self.rates or RateLimiter((), clock=self.clock, random=self.random)


async def narrow(
    config: Config, registry: Registry, forecasters: Iterable[str], worst_usd: Callable[[str], Awaitable[float | None]]
) -> Sequence[str]:
    """Say where the budget of a question has less room than the trials of a forecaster need to ask at once.

    ``worst_usd`` tells what a call in a role may cost at most, None where that is not known. It counts the roles that
    the forecasters cannot do without. To ask for a price may load a library.
    """
    limit_usd = config.llm.budget.question_usd
    if limit_usd is None:
        return ()
    said = []
    for name in dict.fromkeys(forecasters):
        spec = registry.forecasters[name]
        trials = config.forecaster_table(name).trials or spec.trials
        for role in spec.roles:
            worst = await worst_usd(role) if role in config.llm.roles else None
            if worst and worst * trials > limit_usd:
                said.append(
                    f"{name}: a call as {role} is held at the most that it may cost, up to {worst:.3f} US dollars, so "
                    f"[llm.budget] question_usd = {limit_usd:g} lets {int(limit_usd / worst)} of {trials} trials ask "
                    f"at once; raise it to {ceil(100 * trials * worst) / 100:.2f}, or lower max_tokens of "
                    f"[llm.roles.{role}]"
                )
    return said


def idle_roles(config: Config, registry: Registry) -> Iterator[str]:
    """Yield a line for each role that config gives a model and that nobody is known to ask: most are misspelt."""
    needed = {role for spec in registry.forecasters for role in (*spec.roles, *spec.may_ask)}
    for role in config.llm.roles:
        if not any(fnmatchcase(role, asked) for asked in needed | ROLES):
            close = suggest_names(role, needed | ROLES)
            yield f"[llm.roles.{role}] has a model, and no enabled forecaster says that it asks this role; {close}"


def lacking_roles(config: Config, spec: ForecasterSpec[Any]) -> str | None:
    """Say what to add to config.toml where no model plays a role that the forecaster cannot do without."""
    lacking = [role for role in spec.roles if role not in config.llm.roles]
    if not lacking:
        return None
    tables = ", ".join(f'[llm.roles.{role}] model = "PROVIDER:NAME"' for role in lacking)
    return f"{spec.name} asks a model in the role {', '.join(lacking)}; add to config.toml: {tables}"


def strange_tools(config: Config, registry: Registry) -> Iterator[str]:
    """Yield a line for each tool that a table of [desk.sources] names and that no trial could be offered."""
    valid = names_of_tools(spec.name for spec in registry.data_sources if spec.pages is not None)
    for source, table in config.desk.sources.items():
        named = [(("tools", index), tool) for index, tool in enumerate(table.tools or ())]
        first: list[tuple[tuple[str | int, ...], str]] = [] if table.first is None else [(("first",), table.first)]
        for key, tool in (*named, *first):
            if tool not in valid:
                place = describe_place(config, "desk", "sources", source, *key)
                yield f"{place}there is no tool {tool}; {suggest_names(tool, valid)}"


def no_search(workshop: Workshop, *, backdated: bool) -> str | None:
    """Say why trials cannot search the web, if they cannot; ``backdated`` ones need an engine that bounds dates."""
    if not workshop.engines:
        return (
            f"no search engine is enabled, so {WEB_SEARCH} is not offered; add a plugin that has one to plugins of "
            "config.toml (foxcast plugins lists them)"
        )
    if usable(workshop.engines, workshop.section.search, backdated=backdated):
        return None
    names = ", ".join(engine.name for engine in workshop.engines)
    return (
        f"none of the enabled search engines ({names}) can be held to pages of before a date, so {WEB_SEARCH} is not "
        "offered; enable one that can (foxcast plugins lists them)"
    )


def hosts_of(registry: Registry) -> frozenset[str]:
    """Return the hosts that give answers away: those that the program knows, and those of every enabled venue."""
    text = resources.files(BUILT_IN).joinpath(HOSTS_FILE).read_text(encoding="utf-8")
    known = (line.strip() for line in text.splitlines() if not line.startswith("#"))
    return frozenset([*filter(None, known), *(host for spec in registry.venues for host in spec.hosts)])
