"""The venues of the simulation and what happens there: people trade, markets open, are edited, close and resolve."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.testing.venues.faults import Fault, Faults, SocketFault
from bot.testing.venues.kit import FakeVenue, Served, serve
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.metaculus import FakeMetaculus
from bot.testing.venues.metaculus_world import grid

if TYPE_CHECKING:
    import numpy as np

    from bot.clock import SeededRandom
    from bot.ports import Clock

# Canaries: they are in no file that a life leaves behind.
KEY, TOKEN = "c3b9a2d4-0e51-4d52-9f0a-6f4f0b1c7d21", "5f1d0b7e" * 5
USERNAME = "foxbot"
HOUR_S, DAY_S = 3_600.0, 86_400.0
# How often requests and messages meet each fault, between 5 and 20 % all together.
RATES: Mapping[Fault, float] = {
    Fault.DROPPED_BEFORE: 0.02,
    Fault.DROPPED_AFTER: 0.03,
    Fault.LATE: 0.02,
    Fault.HANGING: 0.004,
    Fault.HANGING_AFTER: 0.004,
    Fault.SLOW: 0.01,
    Fault.TOO_MANY: 0.01,
    Fault.ERROR_BEFORE: 0.01,
    Fault.ERROR_AFTER: 0.02,
    Fault.PAGE_AFTER: 0.005,
    Fault.TRUNCATED: 0.01,
    Fault.ENLARGED: 0.005,
    Fault.STALE: 0.02,
    Fault.PARTIAL_FILL: 0.01,
    Fault.EDITED: 0.002,
    Fault.CLOSING: 0.002,
}
SOCKET_RATES: Mapping[SocketFault, float] = {
    SocketFault.DUPLICATING: 0.05,
    SocketFault.GAPPING: 0.05,
    SocketFault.GARBLED: 0.01,
    SocketFault.CUT: 0.005,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """The venues, served."""

    manifold: FakeManifold
    metaculus: FakeMetaculus
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
async def open_stalls(clock: Clock, chance: SeededRandom, *, faulty: bool) -> AsyncIterator[Stalls]:
    """Serve the venues, with the accounts that Foxcast has there, until the end."""

    def faults(name: str) -> Faults:
        stream = chance.stream("faults", name)
        return Faults(stream, RATES, SOCKET_RATES) if faulty else Faults(stream)

    manifold = FakeManifold(clock, faults=faults("manifold"))
    metaculus = FakeMetaculus(clock, production=True, faults=faults("metaculus"))
    manifold.world.add_user(USERNAME, balance=5_000.0, key=KEY, is_bot=True)
    metaculus.world.add_user(USERNAME, token=TOKEN)
    async with AsyncExitStack() as stack:
        venues: Mapping[str, FakeVenue] = {"manifold": manifold, "metaculus": metaculus}
        served = {name: await stack.enter_async_context(serve(venue)) for name, venue in venues.items()}
        yield Stalls(manifold=manifold, metaculus=metaculus, served=served)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What goes on at the venues, drawn from one stream."""

    stalls: Stalls
    clock: Clock
    stream: np.random.Generator

    def begin(self) -> None:
        """Open what is there on the first day."""
        for _ in range(12):
            self._open_market()
        for _ in range(8):
            self._ask()

    async def blow(self) -> None:
        """Let things happen, for ever."""
        events: tuple[tuple[float, Callable[[], object]], ...] = (
            (0.70, self._trade),
            (0.85, self._resolve),
            (0.93, self._open_market),
            (1.01, self._ask),
        )
        while True:
            await self.clock.sleep(float(self.stream.exponential(HOUR_S / 2.0)))
            draw = self.stream.random()
            next(act for share, act in events if draw < share)()

    def _days(self, low: float, high: float) -> timedelta:
        return timedelta(days=float(self.stream.uniform(low, high)))

    def _open_market(self) -> None:
        number = len(self.stalls.manifold.state.markets)
        closes = round((self.clock.now() + self._days(0.5, 20.0)).timestamp() * 1000)
        price = float(self.stream.uniform(0.1, 0.9))
        self.stalls.manifold.world.add_market(f"Will lamp {number} be lit in time?", prob=price, closes=closes)

    def _ask(self) -> None:
        world = self.stalls.metaculus.world
        number, closes = len(world.state.questions), self.clock.now() + self._days(0.5, 20.0)
        terms = {"scheduled_close": closes, "scheduled_resolve": closes + timedelta(days=1)}
        match int(self.stream.integers(4)):
            case 0:
                scale = grid(0.0, 100.0, open_upper=True)
                world.add_question(f"How many boats come to harbour {number}?", type="numeric", scaling=scale, **terms)
            case 1:
                trees = ["Ash", "Elm", "Oak"]
                world.add_question(f"Who wins cup {number}?", type="multiple_choice", options=trees, **terms)
            case _:
                world.add_question(f"Will bridge {number} open?", **terms)

    def _trade(self) -> None:
        world = self.stalls.manifold.world
        now = round(self.clock.now().timestamp() * 1000)
        markets = [one for one in world.state.markets.values() if not one.resolved and now < one.closes]
        if markets:
            market = markets[int(self.stream.integers(len(markets)))]
            odds = math.log(market.pool.prob / (1.0 - market.pool.prob)) + float(self.stream.normal(0.0, 0.4))
            world.move(market, min(0.97, max(0.03, 1.0 / (1.0 + math.exp(-odds)))))

    def _resolve(self) -> None:
        """Let one of each that is closed, or nearly, find its end."""
        soon, manifold, metaculus = self.clock.now() + timedelta(hours=6), self.stalls.manifold, self.stalls.metaculus
        over = [one for one in manifold.state.markets.values() if not one.resolved]
        over = [one for one in over if one.closes < soon.timestamp() * 1000]
        if over:
            ends = ("YES", "NO", "NO", "CANCEL")
            manifold.world.resolve(over[0], ends[int(self.stream.integers(len(ends)))])
        asked = metaculus.world.state.questions.values()
        due = [one for one in asked if one.resolution is None and one.close < soon]
        if due:
            ends = {"binary": ("yes", "no", "annulled"), "multiple_choice": ("Ash", "Elm", "Oak")}
            known = ends.get(due[0].type, ("17.5", "above_upper_bound"))
            metaculus.world.resolve(due[0], known[int(self.stream.integers(len(known)))])
