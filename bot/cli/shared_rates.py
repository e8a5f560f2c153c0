"""Rate limits of venues for a command that calls them while a daemon runs.

Together they keep the limits as one process does.
"""

import os
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime

from bot.config.schema import Config
from bot.core.interfaces import Clock, RandomStreams
from bot.core.venue_http import RateLimit
from bot.net.rate_limit import RateLimiter, RateUsage, RateUsageStore
from bot.store.ledger import LEDGER_FILE, open_ledger_read_only, state_folder
from bot.store.rate_usage import RATE_USAGE_FOLDER, SharedRateUsageFiles


@dataclass(frozen=True, slots=True)
class ReadOnlyRateBook:
    """Implements RateBook: what an earlier daemon left on record counts; one that runs is seen by its file.

    Only the holder of the state folder writes the ledger.
    """

    kept: RateUsageStore
    shared: SharedRateUsageFiles | None

    async def load(self, name: str) -> RateUsage | None:
        """Return what was kept last under the name."""
        if self.shared is not None and self.shared.knows_holder(name):
            return None
        return await self.kept.load(name)

    async def save(self, name: str, spent: RateUsage, *, free_at: datetime) -> None:
        """Do nothing."""


async def open_shared_rates(
    config: Config, wanted: Iterable[RateLimit], *, clock: Clock, random: RandomStreams, stack: AsyncExitStack
) -> RateLimiter:
    """Return rates that know what was used, for as long as the stack is open; there may be no ledger yet.

    Whoever may only read the state folder is seen by nobody else.
    """
    folder = state_folder(config)
    path, book = folder / LEDGER_FILE, None
    shared = SharedRateUsageFiles(folder=folder / RATE_USAGE_FOLDER) if os.access(folder, os.W_OK) else None
    if path.exists():
        book = ReadOnlyRateBook((await stack.enter_async_context(open_ledger_read_only(path))).rates, shared)
    return RateLimiter(wanted, clock=clock, random=random, store=book, shared=shared)
