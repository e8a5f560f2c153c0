"""The venues of the simulation, served on its network, with the faults that their requests and messages meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.testing.venues.faults import Fault, Faults, SocketFault
from bot.testing.venues.kit import FakeVenue, Served, serve
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.metaculus import FakeMetaculus
from bot.testing.venues.metaculus_state import User

if TYPE_CHECKING:
    from bot.clock import SeededRandom
    from bot.ports import Clock

# Canaries: they are in no file that a life leaves behind.
KEY, TOKEN = "c3b9a2d4-0e51-4d52-9f0a-6f4f0b1c7d21", "5f1d0b7e" * 5
SECRETS = {"manifold.key": KEY, "metaculus.token": TOKEN}
USERNAME = "foxbot"
BALANCE = 5_000.0
# What an order, and all orders of a day and of an arm record may cost: less than is wanted on many a day.
CAPS = {"per_order": 20.0, "per_day": 80.0, "total": 2_000.0}
# How often requests and messages meet each fault in the roughest of weathers: 20 % all together.
RATES: Mapping[Fault, float] = {
    Fault.DROPPED_BEFORE: 0.02,
    Fault.DROPPED_AFTER: 0.03,
    Fault.LATE: 0.02,
    Fault.HANGING: 0.005,
    Fault.HANGING_AFTER: 0.005,
    Fault.SLOW: 0.01,
    Fault.TOO_MANY: 0.01,
    Fault.ERROR_BEFORE: 0.01,
    Fault.ERROR_AFTER: 0.02,
    Fault.PAGE_BEFORE: 0.005,
    Fault.PAGE_AFTER: 0.005,
    Fault.TRUNCATED: 0.01,
    Fault.DUPLICATED: 0.005,
    Fault.REORDERED: 0.005,
    Fault.ENLARGED: 0.005,
    Fault.STALE: 0.02,
    Fault.PARTIAL_FILL: 0.01,
    Fault.EDITED: 0.002,
    Fault.CLOSING: 0.002,
    Fault.RESOLVED: 0.001,
}
SOCKET_RATES: Mapping[SocketFault, float] = {
    SocketFault.SILENT: 0.002,
    SocketFault.STALE: 0.01,
    SocketFault.DUPLICATING: 0.05,
    SocketFault.GAPPING: 0.05,
    SocketFault.GARBLED: 0.01,
    SocketFault.CUT: 0.005,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """The venues, served, with the accounts that Foxcast has there."""

    manifold: FakeManifold
    metaculus: FakeMetaculus
    trader: str
    pundit: User
    served: Mapping[str, Served]

    @property
    def all(self) -> Mapping[str, FakeVenue]:
        """The venues by name."""
        return {"manifold": self.manifold, "metaculus": self.metaculus}

    def calm(self) -> None:
        """Let nothing go wrong any more."""
        for venue in self.all.values():
            venue.faults.clear()


@asynccontextmanager
async def open_stalls(clock: Clock, chance: SeededRandom, roughness: float) -> AsyncIterator[Stalls]:
    """Serve the venues until the end; ``roughness`` says what share of the rates holds."""

    def faults(name: str) -> Faults:
        stream = chance.stream("faults", name)
        if roughness == 0.0:
            return Faults(stream)
        rates = {fault: rate * roughness for fault, rate in RATES.items()}
        return Faults(stream, rates, {fault: rate * roughness for fault, rate in SOCKET_RATES.items()})

    manifold = FakeManifold(clock, faults=faults("manifold"))
    metaculus = FakeMetaculus(clock, production=True, faults=faults("metaculus"))
    trader = manifold.world.add_user(USERNAME, balance=BALANCE, key=KEY, is_bot=True)
    pundit = metaculus.world.add_user(USERNAME, token=TOKEN)
    async with AsyncExitStack() as stack:
        venues: Mapping[str, FakeVenue] = {"manifold": manifold, "metaculus": metaculus}
        served = {name: await stack.enter_async_context(serve(venue)) for name, venue in venues.items()}
        yield Stalls(manifold=manifold, metaculus=metaculus, trader=trader.id, pundit=pundit, served=served)
