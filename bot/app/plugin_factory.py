"""Opens what config names: venues and their writers, forecasters, models, search engines, data, notifiers."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypedDict, TypeVar

import structlog

from bot.app.forecaster_requirements import (
    limit_warnings,
    missing_roles,
    search_unavailable_reason,
    trial_limits,
    unknown_tools,
    unused_role_warnings,
)
from bot.app.plugin_opening import OpeningFault, UnopenedProvider, describe_part, enter_plugin
from bot.config.plugin_settings import load_plugin_settings, recordable_settings, restore_settings
from bot.config.schema import Config
from bot.core.errors import AuthenticationError, ConfigError, PluginError, ServiceUnavailableError
from bot.core.forecasts import ForecasterSetup
from bot.core.interfaces import (
    Clock,
    DataSource,
    HttpClient,
    ModelProvider,
    NotificationChannel,
    OrderPlanner,
    PriceFeed,
    RandomStreams,
    VenueReader,
    VenueSubmitter,
    WriteClient,
)
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import (
    BaseSpec,
    ConfigurableSpec,
    JobSpec,
    ModelSpec,
    PaperBookContext,
    PluginContext,
    PluginSettings,
    PriceFeedContext,
    VenueSpec,
    VenueWriterContext,
)
from bot.core.submissions import ExecutionMode
from bot.core.values import Json
from bot.execution.gate.credential_guard import CredentialGuard, GuardedHttpClient, GuardedWriteClient
from bot.execution.gate.gate import ExecutionPolicy
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.series_archive import ArchivedDataSource, SeriesArchive
from bot.forecasting.tool_factory import ConfiguredDataSource, ConfiguredPageSource, ConfiguredSearchEngine, ToolFactory
from bot.forecasting.tools.calculator import find_calculator
from bot.jobs.job import DaemonJob
from bot.llm.gateway import LlmGateway, open_gateway
from bot.llm.roles import configured_models, provider_name
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.net.write_client import HttpWriteClient
from bot.plugin_system.registry import Registry, direct_members
from bot.store.backups import BACKUP_FOLDER
from bot.store.ledger import Ledger
from bot.store.private_files import create_private_folder
from bot.store.question_pairs import PairUse
from bot.store.rate_usage import RATE_USAGE_FOLDER
from bot.store.requests import REQUEST_FOLDER
from bot.store.response_shapes import ResponseShapes

PLUGINS_PACKAGE = "plugins"


BLOCKED_HOSTS_FILE = "hosts.txt"


# In the state folder; each venue has a folder there, and every other plugin one in that of plugins.
PLUGIN_FOLDER = "plugins"


ENGINE_FOLDERS = frozenset({PLUGIN_FOLDER, BACKUP_FOLDER, RATE_USAGE_FOLDER, REQUEST_FOLDER})


log = structlog.get_logger(__name__)


T = TypeVar("T")


P = TypeVar("P", bound=PluginContext)


AlertCallback = Callable[[str, str], Awaitable[None]]


LIVE_MODES = frozenset({ExecutionMode.APPROVE, ExecutionMode.LIVE})


class WriteClientFactory(Protocol):
    """Makes a write client that keeps the rate limits."""

    def __call__(self, *, rates: RateLimiter) -> AbstractAsyncContextManager[WriteClient]:
        """Return it, to be entered."""
        ...


class _CommonContext(TypedDict):
    """What every plugin context has."""

    clock: Clock
    http: HttpClient
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedHttpClient:
    """Implements ``HttpClient`` for one venue: lets ``shapes`` look at what is read."""

    inner: HttpClient
    shapes: ResponseShapes
    venue: str

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        """See ``HttpClient``."""
        body = await self.inner.get(url, max_bytes=max_bytes, headers=headers)
        self.shapes.observe(self.venue, url, body)
        return body

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        """See ``HttpClient``."""
        return await self.inner.post(url, body, max_bytes=max_bytes, headers=headers, deadline_s=deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFactory:
    """Opens things on a stack, which closes them in the opposite order.

    ``rates`` are those of the venues; reading over ``http`` keeps them too. ``open_write_client`` makes the clients of
    writers. A venue whose ``credentials`` were refused gets no more requests. ``faults`` collects the parts that could
    not be opened and were left out. ``shapes`` looks at the answers of venues.
    """

    config: Config
    registry: Registry
    clock: Clock
    random: RandomStreams
    http: HttpClient
    folder: Path
    stack: AsyncExitStack
    rates: RateLimiter | None = None
    open_write_client: WriteClientFactory = HttpWriteClient
    credentials: Mapping[str, CredentialGuard] = field(default_factory=dict)
    faults: list[OpeningFault] = field(default_factory=list)
    shapes: ResponseShapes | None = None

    async def open_or_skip(
        self, spec: ConfigurableSpec[Any], opener: Callable[["PluginFactory"], Awaitable[T]]
    ) -> T | None:
        """Return what ``opener`` opens with this factory; None where it cannot be opened now, with an entry in faults.

        What it had opened by then is closed. Raises ConfigError for settings that the plugin refuses.
        """
        async with AsyncExitStack() as stack:
            try:
                opened = await opener(replace(self, stack=stack))
            except (PluginError, ServiceUnavailableError, AuthenticationError) as error:
                log.error("left out until it can be opened", part=describe_part(spec), error=str(error))  # noqa: TRY400 - the error names the place
                self.faults.append(OpeningFault(spec=spec, error=error, retry=partial(self._retry_opening, opener)))
                return None
            self.stack.push_async_exit(stack.pop_all())
            return opened

    async def _retry_opening(self, opener: Callable[["PluginFactory"], Awaitable[object]]) -> None:
        async with AsyncExitStack() as stack:
            await opener(replace(self, stack=stack))

    def plugin_context(self, spec: BaseSpec) -> PluginContext:
        """Return the context for the factory of a plugin."""
        return PluginContext(**self._common_context(spec))

    async def open_venue(self, name: str) -> VenueReader:
        """Open the reader of a venue."""
        spec = self.registry.venues[name]
        venue: VenueReader = await self.open_plugin(spec, spec.reader)
        return venue

    async def open_submitter(self, policy: ExecutionPolicy) -> VenueSubmitter | None:
        """Open the paper book in paper mode; the venue's writer, with a write client, only in live modes."""
        spec = self.registry.venues[policy.venue]
        common = self._common_context(spec)
        if policy.mode is ExecutionMode.PAPER and spec.paper is not None:
            paper = self.config.venues[policy.venue].paper
            return await self._open_with_context(
                spec, spec.paper, PaperBookContext(**common, cash=paper.cash, delay_s=paper.delay_s)
            )
        if policy.mode in LIVE_MODES and spec.writer is not None:
            client = await self.stack.enter_async_context(self.open_write_client(rates=self._rates))
            if (credentials := self.credentials.get(policy.venue)) is not None:
                client = GuardedWriteClient(client, credentials)
            return await self._open_with_context(spec, spec.writer, VenueWriterContext(**common, wire=client))
        return None

    async def open_planner(self, name: str) -> OrderPlanner | None:
        """Open the order planner, where the venue trades."""
        spec = self.registry.venues[name]
        return None if spec.planner is None else await self.open_plugin(spec, spec.planner)

    async def open_price_feed(self, name: str) -> PriceFeed | None:
        """Open the price feed of a venue, where it has one; it connects when it is asked for quotes."""
        spec = self.registry.venues[name]
        if spec.prices is None:
            return None
        sockets = WebSocketConnector(clock=self.clock, rates=self._rates, proxies=self.config.http.proxies)
        return await self._open_with_context(
            spec, spec.prices, PriceFeedContext(**self._common_context(spec), sockets=sockets)
        )

    def plugin_job(self, spec: JobSpec) -> DaemonJob:
        """Return the job of a plugin."""
        run = partial(spec.run, self.plugin_context(spec))
        return DaemonJob(name=f"plugin {spec.name}", summary=spec.summary, interval=spec.every, run=run)

    async def open_forecasters(self, names: Iterable[str]) -> Mapping[str, ConfiguredForecaster]:
        """Open each of the forecasters once; leave out those that cannot be opened."""
        wanted = dict.fromkeys(names)
        for why in limit_warnings(self.config, self.registry, wanted):
            log.warning("config gives a forecaster less than it needs", why=why)
        opened = {}
        for name in wanted:
            opener = partial(PluginFactory.open_forecaster, name=name)
            opened[name] = await self.open_or_skip(self.registry.forecasters[name], opener)
        return {
            name: replace(one, members=tuple(member for member in one.members if opened.get(member, one) is not None))
            for name, one in opened.items()
            if one is not None
        }

    async def open_forecaster(self, name: str) -> ConfiguredForecaster:
        """Open one forecaster as configured."""
        spec, table = self.registry.forecasters[name], self.config.forecaster_table(name)
        if missing := missing_roles(self.config, spec):
            raise ConfigError(missing)
        settings = load_plugin_settings(spec, self.config)
        return ConfiguredForecaster(
            name=name,
            implementation=await self._enter_factory(spec, spec.open, settings, self.plugin_context(spec)),
            trials=table.trials or spec.trials,
            pool=PoolingMethod(table.aggregate),
            limits=trial_limits(self.config, self.registry, name),
            min_trial_share=self.config.limits.min_trial_share
            if table.min_trial_share is None
            else table.min_trial_share,
            warm_start_s=table.warm_start_s,
            uses_models=spec.asks_models,
            clairvoyant=table.clairvoyant,
            settings=recordable_settings(settings),
            variant_of=table.uses,
            members=direct_members(self.config, self.registry, name),
            may_have_members=spec.members is not None,
        )

    async def open_recorded_forecaster(self, name: str, setup: ForecasterSetup) -> ConfiguredForecaster:
        """Open one forecaster as it was configured for a recorded forecast; no model need play its roles now."""
        spec = self.registry.forecasters[name]
        settings = restore_settings(spec, self.config, setup.settings)
        return ConfiguredForecaster(
            name=name,
            implementation=await self._enter_factory(spec, spec.open, settings, self.plugin_context(spec)),
            trials=setup.trials,
            pool=PoolingMethod(setup.aggregate),
            limits=setup.limits,
            uses_models=spec.asks_models,
            clairvoyant=setup.clairvoyant,
            settings=setup.settings,
            variant_of=setup.uses,
            members=tuple(spec.members(settings)) if spec.members else (),
            may_have_members=spec.members is not None,
        )

    async def open_providers(self) -> Mapping[str, ModelProvider]:
        """Open the model providers that config names and an enabled plugin offers."""
        section = self.config.llm
        named = dict.fromkeys([*map(provider_name, configured_models(section)), *section.providers])
        specs = [self.registry.models[name] for name in named if name in self.registry.models]
        return {spec.name: await self._open_provider(spec) for spec in specs}

    async def _open_provider(self, spec: ModelSpec[Any]) -> ModelProvider:
        opened = await self._open_or_skip_plugin(spec, spec.open)
        return UnopenedProvider(error=self.faults[-1].error) if opened is None else opened

    async def open_notifiers(self, names: Iterable[str]) -> Mapping[str, NotificationChannel]:
        """Open the notifiers that an enabled plugin offers; log the others."""
        opened, offered = {}, self.registry.notifiers
        for name in names:
            if name in offered:
                opened[name] = await self._open_or_skip_plugin(offered[name], offered[name].open)
            else:
                log.warning("notifier skipped: its plugin is broken or not in use; add it to plugins", notifier=name)
        return {name: channel for name, channel in opened.items() if channel is not None}

    async def open_model_gateway(self, ledger: Ledger, alert: AlertCallback) -> LlmGateway:
        """Open the gateway, with the providers that config names."""
        section, opened = self.config.llm, await self.open_providers()
        return await self.stack.enter_async_context(
            open_gateway(section, opened, ledger=ledger, clock=self.clock, random=self.random, alert=alert)
        )

    async def open_tool_factory(
        self, ledger: Ledger, gateway: LlmGateway, *, retry_failures: bool = False
    ) -> ToolFactory:
        """Open all tools that forecasters may use; nothing is fetched or started before it is needed.

        ``retry_failures`` is for the laboratory: the next run repeats what failed. Raises ConfigError for tools and
        search engines that config names and no enabled plugin offers.
        """
        from bot.net.html.page_reader import SubprocessPageReader  # noqa: PLC0415 - as above
        from bot.net.web.fetcher import GuardedFetcher  # noqa: PLC0415 - only where somebody reads pages

        if faults := [*unknown_tools(self.config, self.registry)]:
            raise ConfigError("\n".join(faults))
        tool_factory = ToolFactory(
            section=self.config.research,
            fetcher=await self.stack.enter_async_context(
                GuardedFetcher(clock=self.clock, proxies=self.config.http.proxies)
            ),
            reader=await self.stack.enter_async_context(SubprocessPageReader()),
            ledger=ledger,
            clock=self.clock,
            search_engines=await self._open_search_engines(),
            data_sources=await self.open_data_sources(),
            page_sources=await self._open_page_sources(),
            blocked_hosts=blocked_hosts(self.registry),
            models=gateway,
            calculator=find_calculator(),
            models_by_role={role: table.model for role, table in self.config.llm.roles.items()},
            retry_failures=retry_failures,
            pair_use=PairUse(self.config.pairs.use),
        )
        if (why := search_unavailable_reason(tool_factory, backdated=False)) is not None:
            log.warning("forecasters cannot search the web", why=why)
        for why in unused_role_warnings(self.config, self.registry):
            log.warning("a role that no forecaster uses", why=why)
        return tool_factory

    def _search_engine_names(self) -> tuple[str, ...]:
        wanted, available = self.config.research.search, self.registry.search_engines
        if missing := [name for name in wanted if name not in available]:
            message = (
                f"research.search: no enabled plugin offers {', '.join(missing)}; enabled: {', '.join(available.names)}"
            )
            raise ConfigError(message)
        return wanted or available.names

    async def _open_search_engines(self) -> list[ConfiguredSearchEngine]:
        specs = [self.registry.search_engines[name] for name in self._search_engine_names()]
        opened = [(spec, await self._open_or_skip_plugin(spec, spec.open)) for spec in specs]
        return [
            ConfiguredSearchEngine(name=spec.name, engine=engine, bounds_dates=spec.bounds_dates)
            for spec, engine in opened
            if engine is not None
        ]

    async def open_data_sources(self, *, archived: bool = True) -> Mapping[str, ConfiguredDataSource]:
        """Open the enabled data sources; if ``archived``, series that config keeps in files are read from there."""
        folder = self.config.research.series if archived else None
        wanted = [(spec, spec.open) for spec in self.registry.data_sources if spec.open]
        opened = [(spec, await self._open_or_skip_plugin(spec, opener)) for spec, opener in wanted]
        return {
            spec.name: ConfiguredDataSource(spec=spec, source=_from_archive(spec.name, source, folder))
            for spec, source in opened
            if source
        }

    async def _open_page_sources(self) -> Mapping[str, ConfiguredPageSource]:
        wanted = [(spec, spec.pages) for spec in self.registry.data_sources if spec.pages]
        opened = [(spec, await self._open_or_skip_plugin(spec, opener)) for spec, opener in wanted]
        return {spec.name: ConfiguredPageSource(spec=spec, source=source) for spec, source in opened if source}

    async def _open_or_skip_plugin(self, spec: ConfigurableSpec[Any], opener: Callable[..., Any]) -> Any:  # noqa: ANN401 - what it opens
        return await self.open_or_skip(spec, partial(PluginFactory.open_plugin, spec=spec, opener=opener))

    async def open_plugin(self, spec: ConfigurableSpec[Any], opener: Callable[..., Any]) -> Any:  # noqa: ANN401 - what it opens
        """Open what a factory of a spec opens, with its settings; raises as ``enter_plugin`` does."""
        return await self._open_with_context(spec, opener, self.plugin_context(spec))

    async def _open_with_context(
        self, spec: ConfigurableSpec[Any], opener: Callable[[Any, P], AbstractAsyncContextManager[T]], context: P
    ) -> T:
        return await self._enter_factory(spec, opener, load_plugin_settings(spec, self.config), context)

    async def _enter_factory(
        self,
        spec: ConfigurableSpec[Any],
        opener: Callable[[Any, P], AbstractAsyncContextManager[T]],
        settings: PluginSettings,
        context: P,
    ) -> T:
        return await self.stack.enter_async_context(enter_plugin(spec, partial(opener, settings, context)))

    def _common_context(self, spec: BaseSpec) -> _CommonContext:
        name = spec.name
        credentials = self.credentials.get(name) if isinstance(spec, VenueSpec) else None
        http = self.http if credentials is None else GuardedHttpClient(self.http, credentials)
        if self.shapes is not None and isinstance(spec, VenueSpec) and name in self.config.venues:
            http = ObservedHttpClient(inner=http, shapes=self.shapes, venue=name)
        return _CommonContext(clock=self.clock, http=http, folder=self._plugin_folder(spec))

    def _plugin_folder(self, spec: BaseSpec) -> Path:
        """Return the folder of a plugin, which exists; a temporary one where the state folder cannot be written to.

        Raises ConfigError for a venue whose folder would be one of the engine.
        """
        if isinstance(spec, VenueSpec):
            folder = self.folder / spec.name
            if spec.name in ENGINE_FOLDERS:
                message = f"the venue {spec.name} cannot have that name: {folder} is a folder of the engine"
                raise ConfigError(message)
        else:
            kind = spec.table if isinstance(spec, ConfigurableSpec) else "jobs"
            folder = self.folder / PLUGIN_FOLDER / kind / spec.name
        if os.access(self.folder, os.W_OK):
            create_private_folder(folder)
        elif not folder.is_dir():
            return Path(self.stack.enter_context(TemporaryDirectory(prefix=f"foxcast-{spec.name}-")))
        return folder

    @property
    def _rates(self) -> RateLimiter:
        return self.rates or RateLimiter((), clock=self.clock, random=self.random)


def _from_archive(name: str, source: DataSource, folder: Path | None) -> DataSource:
    return source if folder is None else ArchivedDataSource(source, SeriesArchive(folder, name))


def blocked_hosts(registry: Registry) -> frozenset[str]:
    """Return the hosts that reveal answers: those that the program knows, and those of every enabled venue."""
    text = resources.files(PLUGINS_PACKAGE).joinpath(BLOCKED_HOSTS_FILE).read_text(encoding="utf-8")
    known = (line.strip() for line in text.splitlines() if not line.startswith("#"))
    return frozenset([*filter(None, known), *(host for spec in registry.venues for host in spec.hosts)])
