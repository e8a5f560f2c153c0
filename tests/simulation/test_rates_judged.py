"""Rates under kills, reboots and clocks that are set, judged by one who knows nothing of how they are kept."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.venue_http import RateLimit
from bot.net.rate_limit import IN_TRANSIT_S, RateLimiter
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from tests.unit.net.rate_usage_stores import URL, FakeRateUsageStore, most_in_window, paced, rate


class MachineClock:
    """The clock of one process: the wall clock may be set, and after a reboot monotonic time begins anew."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._offset = 0.0

    def now(self) -> datetime:
        return self.clock.now()

    def monotonic(self) -> float:
        return self.clock.monotonic() + self._offset

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    def reboot(self, uptime_s: float) -> None:
        self._offset = uptime_s - self.clock.monotonic()


@dataclass
class SharedService:
    """Clients of one service, their processes, and when what they sent arrived at it."""

    clock: VirtualClock
    chance: Random
    arrivals: list[float] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    pending: dict[int, int] = field(default_factory=dict)

    async def client(self, rates: RateLimiter, longest_s: float) -> None:
        while True:
            await self.clock.sleep(self.chance.uniform(0.0, longest_s))
            try:
                await self.ask(rates, longest_s)
            except ConnectionError:
                continue

    async def ask(self, rates: RateLimiter, longest_s: float) -> None:
        async with rates.acquire("POST", URL, patience_s=60.0) as turn:
            took_s = self.chance.uniform(0.0, longest_s)
            answered = self.chance.random() < 0.8
            late_s = 0.0 if answered else IN_TRANSIT_S
            number = len(self.arrivals)
            self.arrivals.append(self.clock.monotonic() + self.chance.uniform(0.0, took_s + late_s))
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self.pending[id(asyncio.current_task())] = number
            try:
                await self.clock.sleep(took_s)
            finally:
                self.under_way -= 1
            del self.pending[id(asyncio.current_task())]
            if not answered:
                raise ConnectionError
            turn.record_response(200, {})

    def killed(self) -> None:
        """What was on its way arrives soon or never."""
        now = self.clock.monotonic()
        for number in self.pending.values():
            latest = now + self.chance.uniform(0.0, IN_TRANSIT_S)
            self.arrivals[number] = min(self.arrivals[number], latest)
        self.pending.clear()


async def lives(
    world: SharedService, machine: MachineClock, book: FakeRateUsageStore, the: RateLimit, *, reboots: bool
) -> None:
    """Several processes, one after the other, each killed at a random moment."""
    chance = world.chance
    for _ in range(chance.randint(2, 5)):
        rates = paced(machine, the, book=book)
        longest_s = chance.choice([0.01, 0.3, 2.0]) * the.per_s
        clients = [asyncio.create_task(world.client(rates, longest_s)) for _ in range(chance.randint(1, 12))]
        await world.clock.sleep(chance.uniform(0.0, 3.0) * the.per_s)
        world.clock.set_wall_clock(
            -chance.choice([0.0, 0.0, 1.0, 3600.0]) if reboots else chance.uniform(-7200.0, 7200.0)
        )
        await world.clock.sleep(chance.uniform(0.0, 3.0) * the.per_s)
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)
        world.killed()
        if reboots and chance.random() < 0.5:
            machine.reboot(chance.uniform(0.0, 30.0))


@dataclass(frozen=True, kw_only=True)
class RateCase:
    count: int
    per_s: float
    burst: int
    at_once: int | None
    seed: int
    reboots: bool


CASES = st.builds(
    RateCase,
    count=st.integers(1, 12),
    per_s=st.sampled_from([0.4, 3.6, 60.0]),
    burst=st.integers(1, 12),
    at_once=st.none() | st.integers(1, 3),
    seed=st.integers(0, 10**9),
    reboots=st.booleans(),
)


@settings(max_examples=80)
@given(CASES)
def test_no_window_of_the_other_side_holds_more_than_it_allows_whoever_is_killed_when(case: RateCase) -> None:
    the = rate(case.count, case.per_s, burst=case.burst, max_in_flight=case.at_once)

    async def main(clock: VirtualClock) -> SharedService:
        world = SharedService(clock, Random(case.seed))
        book = FakeRateUsageStore(clock, commit_s=0.001, chance=world.chance)
        await lives(world, MachineClock(clock), book, the, reboots=case.reboots)
        return world

    world = run_in_virtual_time(main)
    if world.arrivals:
        assert most_in_window(world.arrivals, case.per_s) <= case.count
        assert case.at_once is None or world.most_under_way <= case.at_once


def test_the_judge_sees_one_too_many() -> None:
    assert most_in_window([0.0, 0.5, 0.999], 1.0) == 3
    assert most_in_window([0.0, 0.5, 1.0], 1.0) == 2
