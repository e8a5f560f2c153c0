"""The fake venues of the simulation, served on its network, with the faults of their requests and messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bot.core.operator_requests import PositionToClose
from bot.core.orders import ContractSide
from bot.simulator.environment import SECRETS, SIGNING, EnvironmentLayout, SimulatedEnvironment, open_environment
from bot.simulator.faults import FaultSchedule, RequestFault, SocketFault
from bot.simulator.models.behaviour import AnswerFault, ModelBehaviour, equal_fault_rates
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.world.question_generation import RoundSchedule

if TYPE_CHECKING:
    from bot.core.clock import SeededRandom
    from bot.core.interfaces import Clock
    from bot.simulator.fake_service import FakeService
    from tests.simulation.full_system.plan import SimulationTraits

# The world asks so many questions a year.
SIZE = 30
# The model obeys what pages tell it more often than it has any other vice.
OBEYS = 0.15
HABITS = ModelBehaviour(latency_s=8.0, pages=0, fault_rates={**equal_fault_rates(0.01), AnswerFault.OBEYS: OBEYS})
# So long before the first life the world began: by then it has asked a first round of questions about series.
BEFORE = timedelta(days=7)
# Rounds of the benchmark come so often, in days, that ten days see outcomes of some.
ROUNDS = RoundSchedule(interval=2.0, least=2, published_after=1.5)
# A fault that the seed is fond of comes so many times as often.
FREQUENT_FAULT_FACTOR, MOST = 6.0, 0.15
# How often requests and messages meet each fault in the roughest of weathers: 20 % all together.
RATES: Mapping[RequestFault, float] = {
    RequestFault.DROPPED_BEFORE: 0.02,
    RequestFault.DROPPED_AFTER: 0.03,
    RequestFault.LATE: 0.02,
    RequestFault.HANGING: 0.005,
    RequestFault.HANGING_AFTER: 0.005,
    RequestFault.SLOW: 0.01,
    RequestFault.TOO_MANY: 0.01,
    RequestFault.ERROR_BEFORE: 0.01,
    RequestFault.ERROR_AFTER: 0.02,
    RequestFault.PAGE_BEFORE: 0.005,
    RequestFault.PAGE_AFTER: 0.005,
    RequestFault.TRUNCATED: 0.01,
    RequestFault.DUPLICATED: 0.005,
    RequestFault.REORDERED: 0.005,
    RequestFault.ENLARGED: 0.005,
    RequestFault.STALE: 0.02,
    RequestFault.PARTIAL_FILL: 0.01,
    RequestFault.EDITED: 0.002,
    RequestFault.CLOSING: 0.002,
    RequestFault.RESOLVED: 0.001,
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
class SimulationVenues:
    """The venues, served, with the accounts that Foxcast has there; None where a venue is not there."""

    environment: SimulatedEnvironment
    manifold: FakeManifold | None
    metaculus: FakeMetaculus | None
    polymarket: FakePolymarket | None
    # What somebody else traded with the accounts of Foxcast.
    foreign_markets: set[str] = field(default_factory=set)
    # Orders that somebody else placed and left, with their market.
    foreign_orders: dict[str, str] = field(default_factory=dict)

    @property
    def all(self) -> Mapping[str, FakeService]:
        """The venues by name."""
        return self.environment.venues

    @property
    def trader(self) -> str:
        """The account for orders."""
        return self.environment.manifold_account

    @property
    def servers(self) -> Mapping[str, FakeService]:
        """The venues, the press and the model's server."""
        return self.environment.servers

    @property
    def rounds(self) -> Path:
        """The folder of files that a venue without a server publishes."""
        return self.environment.layout.folder

    @property
    def secrets(self) -> Collection[str]:
        """What no file of a life may hold: what opens accounts, also what a venue gave to who logged in."""
        signer = self.environment.polymarket_account
        given = [] if signer is None else [signer.key, signer.secret, signer.passphrase]
        signing = [key.removeprefix("0x") for key in SIGNING.values()]
        return [*SECRETS.values(), *signing, *filter(None, given)]

    def positions(self) -> Sequence[PositionToClose]:
        """Return what Foxcast holds at the venues that take orders."""
        held = {} if self.manifold is None else self.manifold.state.holdings
        found = [
            PositionToClose(venue="manifold", contract=f"{market}/{answer}" if answer else market, leg=leg)
            for (user, market, answer), has in sorted(held.items(), key=lambda one: [str(part) for part in one[0]])
            for leg in ContractSide
            if user == self.trader and has.of(leg.upper()) > 1e-6 and market not in self.foreign_markets
        ]
        return [*found, *self._signed_positions()]

    def _signed_positions(self) -> Iterator[PositionToClose]:
        signer = self.environment.polymarket_account
        if self.polymarket is None or signer is None:
            return
        for token, shares in sorted(signer.shares.items()):
            market = self.polymarket.state.tokens[token]
            if shares > 0 and market.trades_now:
                leg = ContractSide.YES if token == market.tokens[0] else ContractSide.NO
                yield PositionToClose(venue="polymarket", contract=market.condition, leg=leg)

    def stop_faults(self) -> None:
        """Let nothing go wrong any more."""
        for server in self.servers.values():
            server.faults.clear()


@asynccontextmanager
async def open_venues(
    clock: Clock, chance: SeededRandom, traits: SimulationTraits, *, start: datetime, folder: Path
) -> AsyncIterator[SimulationVenues]:
    """Serve what the temper says until the end."""

    def faults(name: str) -> FaultSchedule:
        stream = chance.stream("faults", name)
        return FaultSchedule(
            stream, _rates(traits), {one: rate * traits.roughness for one, rate in SOCKET_RATES.items()}
        )

    layout = EnvironmentLayout(
        seed=int(chance.stream("world").integers(2**31)),
        start=start - BEFORE,
        folder=folder,
        place="..",
        size=SIZE,
        venues=tuple(traits.modes),
        habits=HABITS,
        faults=faults,
        has_signer=traits.signs,
        balance=traits.balance,
        rounds=ROUNDS if traits.drawn else RoundSchedule(),
    )
    async with open_environment(clock, layout) as environment:
        fair, contest, exchange = (environment.venues.get(name) for name in ("manifold", "metaculus", "polymarket"))
        yield SimulationVenues(
            environment=environment,
            manifold=fair if isinstance(fair, FakeManifold) else None,
            metaculus=contest if isinstance(contest, FakeMetaculus) else None,
            polymarket=exchange if isinstance(exchange, FakePolymarket) else None,
        )


def _rates(traits: SimulationTraits) -> Mapping[RequestFault, float]:
    if traits.roughness == 0.0:
        return {}
    rates = {fault: rate * traits.roughness for fault, rate in RATES.items()}
    if traits.frequent_fault is not None:
        rates[traits.frequent_fault] = min(MOST, FREQUENT_FAULT_FACTOR * rates[traits.frequent_fault])
    return rates
