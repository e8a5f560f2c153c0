"""Who may ask a provider now: a queue that is served in the order of arrival and turns nobody away.

Waiting counts towards the caller's own deadline; who gives up leaves the queue at once.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.config.llm_schema import ProviderSection
from bot.ports import Clock

MINUTE_S = 60.0


class Queue:
    """The places at one provider: so many requests at once, and so many in any minute."""

    def __init__(self, section: ProviderSection, *, clock: Clock) -> None:
        """Open the queue."""
        self._places = asyncio.Semaphore(section.concurrency)
        self._pace = None if section.per_minute is None else Pace(section.per_minute, clock=clock)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and keep it while entered."""
        async with self._places:
            if self._pace is not None:
                await self._pace.turn()
            yield


class Pace:
    """At most so many turns in any sixty seconds, wherever they begin; as many as that may come at once."""

    # aiolimiter would do, but on a simulated clock, which stands still while it looks again, it looks for ever.
    def __init__(self, per_minute: int, *, clock: Clock) -> None:
        """Begin with no turn taken."""
        self._clock = clock
        self._taken: deque[float] = deque(maxlen=per_minute)
        self._first = asyncio.Lock()

    async def turn(self) -> None:
        """Wait for a turn, behind those who came before."""
        async with self._first:
            if len(self._taken) == self._taken.maxlen:
                wait_s = self._taken[0] + MINUTE_S - self._clock.monotonic()
                if wait_s > 0:
                    await self._clock.sleep(wait_s)
            self._taken.append(self._clock.monotonic())
