"""Warm start: the first trial of a question begins alone, so that the others find its prompt in the provider's cache.

All trials of a question open with the same long request. Providers bill a prefix that they have in their cache at a
fraction of its price, and it is there once the first request was answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bot.domain.forecast import Trial
from bot.jobs.together import together
from bot.ports import Clock


class WarmStart:
    """Holds all trials but the first back until ``release``, or for so many seconds; 0 holds nobody back."""

    def __init__(self, *, clock: Clock, seconds: float) -> None:
        """Begin with the others held back."""
        self._clock = clock
        self._seconds = seconds
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let the other trials begin: the first one has made a step, or has ended."""
        self._released.set()

    async def run(self, trial: Callable[[int], Awaitable[Trial]], numbers: Sequence[int]) -> list[Trial]:
        """Run trials side by side, the first of the numbers before the others, and return them in that order."""

        async def one(number: int) -> Trial:
            if number != numbers[0]:
                await self._wait()
            try:
                return await trial(number)
            finally:
                self.release()

        return await together(one, numbers, places=max(1, len(numbers)))

    async def _wait(self) -> None:
        if self._seconds <= 0.0:
            return
        released = asyncio.ensure_future(self._released.wait())
        over = asyncio.ensure_future(self._clock.sleep(self._seconds))
        try:
            await asyncio.wait({released, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            released.cancel()
            over.cancel()
