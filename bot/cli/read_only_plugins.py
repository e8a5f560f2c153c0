"""Plugins for commands that read venues and send nothing, also while a daemon runs.

The command and the daemon together keep the rate limits of the venues, as one process does.
"""

import os
from collections.abc import Iterable
from contextlib import AsyncExitStack
from datetime import datetime

from bot.app.plugin_factory import PluginFactory
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.interfaces import Clock, RandomStreams
from bot.core.light_dataclass import dataclass
from bot.core.venue_http import RateLimit
from bot.execution.preflight import open_refusing_client
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter, RateUsage, RateUsageStore
from bot.plugin_system.registry import Registry
from bot.store.ledger import LEDGER_FILE, open_ledger_read_only, state_folder
from bot.store.rate_usage import RATE_USAGE_FOLDER, SharedRateUsageFiles


@dataclass(frozen=True, slots=True)
class ReadOnlyRateBook:
    """Implements RateUsageStore with the usage that an earlier daemon recorded; a running daemon shares its in files.

    Nothing is saved: only the process that holds the state folder writes the ledger.
    """

    recorded: RateUsageStore
    shared: SharedRateUsageFiles | None

    async def load(self, name: str) -> RateUsage | None:
        """Return the usage recorded last under a name."""
        if self.shared is not None and self.shared.knows_holder(name):
            return None
        return await self.recorded.load(name)

    async def save(self, name: str, usage: RateUsage, *, free_at: datetime) -> None:
        """Do nothing."""


async def open_shared_rates(
    config: Config, limits: Iterable[RateLimit], *, clock: Clock, random: RandomStreams, stack: AsyncExitStack
) -> RateLimiter:
    """Return rate limits that count earlier usage, for as long as the stack is open; there may be no ledger yet.

    Without write permission for the state folder, other processes do not see the usage of this one.
    """
    folder = state_folder(config)
    path, store = folder / LEDGER_FILE, None
    shared = SharedRateUsageFiles(folder=folder / RATE_USAGE_FOLDER) if os.access(folder, os.W_OK) else None
    if path.exists():
        store = ReadOnlyRateBook((await stack.enter_async_context(open_ledger_read_only(path))).rates, shared)
    return RateLimiter(limits, clock=clock, random=random, store=store, shared=shared)


async def open_read_only_plugins(
    config: Config, registry: Registry, limits: Iterable[RateLimit], *, clock: Clock, stack: AsyncExitStack
) -> tuple[PluginFactory, RetryingHttpClient]:
    """Return a factory for plugins that read within these rate limits and can send nothing, and its HTTP client."""
    random = SeededRandom(config.seed)
    rates = await open_shared_rates(config, limits, clock=clock, random=random, stack=stack)
    allowed = HttpLimits(connections=config.http.connections)
    client = RetryingHttpClient(clock=clock, random=random, limits=allowed, rates=rates, proxies=config.http.proxies)
    http = await stack.enter_async_context(client)
    plugins = PluginFactory(
        config=config,
        registry=registry,
        clock=clock,
        random=random,
        http=http,
        folder=state_folder(config),
        stack=stack,
        rates=rates,
        open_write_client=open_refusing_client,
    )
    return plugins, http
