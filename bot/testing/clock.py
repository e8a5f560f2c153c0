"""A clock that stands still until a test moves it."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

START = datetime(2026, 1, 1, tzinfo=UTC)
# Turns of the loop for the work that a woken sleeper starts, before time moves on.
SETTLE_TURNS = 50


class FakeClock:
    """Implements Clock; sleepers wake in the order of their time, then of their call.

    For code that sets timers of its own (asyncio.timeout, a scheduler) use ``bot.testing.event_loop`` instead: this
    clock moves only what asks it.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._monotonic = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds <= 0.0:
            woken.get_loop().call_soon(woken.set_result, None)
        else:
            heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Advance the time, stopping at each sleeper to let it do its work."""
        end = self._monotonic + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            self.advance_without_waking(due - self._monotonic)
            if not woken.done():
                woken.set_result(None)
            await self._settle()
        self.advance_without_waking(end - self._monotonic)

    def advance_without_waking(self, seconds: float) -> None:
        """Move both times and wake nobody, as when code computes that long without yielding."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def set_wall_clock(self, seconds: float) -> None:
        """Set the wall clock forward, or back where negative; monotonic time is not changed."""
        self._now += timedelta(seconds=seconds)

    async def _settle(self) -> None:
        for _ in range(SETTLE_TURNS):
            await self.sleep(0.0)
