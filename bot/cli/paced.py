"""The rates of venues for a command that asks them beside a daemon: it goes on from what the daemon has used."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime

from bot.app import LEDGER_FILE, folder_of
from bot.config.model import Config
from bot.domain.wire import Rate
from bot.ports import Clock, Random
from bot.rates import RateBook, Rates, Spent
from bot.store.ledger import read_ledger


@dataclass(frozen=True, slots=True)
class Beside:
    """Implements RateBook: what is on record counts, and what a command adds to it is not written down.

    Only the holder of the state folder writes the ledger; the few requests of a command are what rates have to spare.
    """

    kept: RateBook

    async def load(self, name: str) -> Spent | None:
        """Return what was kept last under the name."""
        return await self.kept.load(name)

    async def keep(self, name: str, spent: Spent, *, free_at: datetime) -> None:
        """Do nothing."""


async def rates_beside(
    config: Config, wanted: Iterable[Rate], *, clock: Clock, random: Random, stack: AsyncExitStack
) -> Rates:
    """Return rates that know what was used, for as long as the stack is open; there may be no ledger yet."""
    path, book = folder_of(config) / LEDGER_FILE, None
    if path.exists():
        book = Beside((await stack.enter_async_context(read_ledger(path))).rates)
    return Rates(wanted, clock=clock, random=random, book=book)
