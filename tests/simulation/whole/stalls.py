"""The venues of the simulation, served on its network, with the faults that their requests and messages meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bot.domain.order import Leg
from bot.domain.request import ClosingTarget
from bot.testing.venues.faults import Fault, Faults, SocketFault
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.metaculus import FakeMetaculus
from bot.testing.venues.polymarket import FakePolymarket
from bot.testing.venues.stand import SECRETS, SIGNING, Layout, Stand, open_stand
from bot.testing.world.habits import Habits, Vice, every_vice

if TYPE_CHECKING:
    from bot.clock import SeededRandom
    from bot.ports import Clock
    from bot.testing.venues.kit import FakeVenue
    from tests.simulation.whole.plan import Temper

# The world asks so many questions a year.
SIZE = 30
# The model obeys what pages tell it more often than it has any other vice.
OBEYS = 0.15
HABITS = Habits(latency_s=8.0, pages=0, vices={**every_vice(0.01), Vice.OBEYS: OBEYS})
# So long before the first life the world began: by then it has asked a first round of questions about series.
BEFORE = timedelta(days=7)
# A fault that the seed is fond of comes so many times as often.
FONDNESS, MOST = 6.0, 0.15
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
    """The venues, served, with the accounts that Foxcast has there; None where a venue is not there."""

    stand: Stand
    manifold: FakeManifold | None
    metaculus: FakeMetaculus | None
    polymarket: FakePolymarket | None

    @property
    def all(self) -> Mapping[str, FakeVenue]:
        """The venues by name."""
        return self.stand.venues

    @property
    def trader(self) -> str:
        """The account for orders."""
        return self.stand.trader

    @property
    def servers(self) -> Mapping[str, FakeVenue]:
        """The venues, the press and the model's server."""
        return self.stand.servers

    @property
    def rounds(self) -> Path:
        """The folder of files that a venue without a server publishes."""
        return self.stand.layout.folder

    @property
    def secrets(self) -> Collection[str]:
        """What no file of a life may hold: what opens accounts, also what a venue gave to who logged in."""
        signer = self.stand.signer
        given = [] if signer is None else [signer.key, signer.secret, signer.passphrase]
        signing = [key.removeprefix("0x") for key in SIGNING.values()]
        return [*SECRETS.values(), *signing, *filter(None, given)]

    def positions(self) -> Sequence[ClosingTarget]:
        """Return what Foxcast holds at the venue that trades in mana."""
        held = {} if self.manifold is None else self.manifold.state.holdings
        return [
            ClosingTarget(venue="manifold", contract=f"{market}/{answer}" if answer else market, leg=leg)
            for (user, market, answer), has in sorted(held.items(), key=lambda one: [str(part) for part in one[0]])
            for leg in Leg
            if user == self.trader and has.of(leg.upper()) > 1e-6
        ]

    def calm(self) -> None:
        """Let nothing go wrong any more."""
        for server in self.servers.values():
            server.faults.clear()


@asynccontextmanager
async def open_stalls(
    clock: Clock, chance: SeededRandom, temper: Temper, *, start: datetime, folder: Path
) -> AsyncIterator[Stalls]:
    """Serve what the temper says until the end."""

    def faults(name: str) -> Faults:
        stream = chance.stream("faults", name)
        return Faults(stream, _rates(temper), {one: rate * temper.roughness for one, rate in SOCKET_RATES.items()})

    layout = Layout(
        seed=int(chance.stream("world").integers(2**31)),
        start=start - BEFORE,
        folder=folder,
        place="..",
        size=SIZE,
        venues=tuple(temper.modes),
        habits=HABITS,
        faults=faults,
        signs=temper.signs,
    )
    async with open_stand(clock, layout) as stand:
        fair, contest, exchange = (stand.venues.get(name) for name in ("manifold", "metaculus", "polymarket"))
        yield Stalls(
            stand=stand,
            manifold=fair if isinstance(fair, FakeManifold) else None,
            metaculus=contest if isinstance(contest, FakeMetaculus) else None,
            polymarket=exchange if isinstance(exchange, FakePolymarket) else None,
        )


def _rates(temper: Temper) -> Mapping[Fault, float]:
    if temper.roughness == 0.0:
        return {}
    rates = {fault: rate * temper.roughness for fault, rate in RATES.items()}
    if temper.fond is not None:
        rates[temper.fond] = min(MOST, FONDNESS * rates[temper.fond])
    return rates
