"""What the tests of rates share: a book in memory, and requests that note when they left."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from bot.core.clock import SeededRandom
from bot.core.errors import StoreError
from bot.core.interfaces import Clock
from bot.core.venue_http import RateLimit
from bot.net.rate_limit import RateLimiter, RateUsage
from bot.testing.event_loop import VirtualClock

URL = "https://lantern.test/v1/bets"


@dataclass
class FakeRateUsageStore:
    """A book in memory whose commits take time; what a kill leaves of one that was under way is up to chance."""

    clock: VirtualClock
    commit_s: float = 0.0
    chance: Random = field(default_factory=lambda: Random(1))
    rows: dict[str, RateUsage] = field(default_factory=dict)
    free_at: dict[str, datetime] = field(default_factory=dict)
    commits: int = 0
    broken: bool = False

    async def load(self, name: str) -> RateUsage | None:
        return self.rows.get(name)

    async def save(self, name: str, usage: RateUsage, *, free_at: datetime) -> None:
        if self.broken:
            message = "the disk is full"
            raise StoreError(message)
        if self.chance.random() < 0.5:
            self.rows[name] = usage
        if self.commit_s:
            await self.clock.sleep(self.commit_s)
        self.rows[name] = usage
        self.free_at[name] = free_at
        self.commits += 1


def rate(count: int = 1, per_s: float = 1.0, name: str = "lantern", **given: object) -> RateLimit:
    return RateLimit(name=name, prefixes=("https://lantern.test/",), count=count, per_s=per_s, **given)  # type: ignore[arg-type]


def paced(clock: Clock, *rates: RateLimit, book: FakeRateUsageStore | None = None) -> RateLimiter:
    return RateLimiter(rates, clock=clock, random=SeededRandom(1), store=book)


def most_in_window(arrivals: Sequence[float], per_s: float) -> int:
    """Return the largest number of arrivals in any window of that length, its end excluded."""
    ordered = sorted(arrivals)
    return max(bisect_left(ordered, start + per_s) - place for place, start in enumerate(ordered))


async def leave(rates: RateLimiter, times: int, clock: VirtualClock, url: str = URL) -> list[float]:
    left = []
    for _ in range(times):
        async with rates.acquire("GET", url, patience_s=60.0) as slot:
            left.append(clock.monotonic())
            slot.record_response(200, {})
    return left
