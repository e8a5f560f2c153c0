"""One at a time for the same request: who comes second finds the answer on record, or asks if the first one failed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Flights:
    """A lock for each request in flight."""

    def __init__(self) -> None:
        """Begin with none."""
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, request: str) -> AsyncIterator[None]:
        """Wait until nobody else is at the same request, and keep others from it while entered."""
        lock, users = self._locks.get(request, (asyncio.Lock(), 0))
        self._locks[request] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(request)
            if users > 1:
                self._locks[request] = lock, users - 1
