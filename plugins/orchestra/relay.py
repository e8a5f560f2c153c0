"""Steps that come up while another step is being made: they are passed on at once, one at a time.

An orchestrator's move may set many subagents to work. The engine logs and counts each of their turns as it happens, and
nothing goes on before it has done so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from bot.api import Step


class Relay:
    """Passes on the steps of a stream, and before each of them those that were put in while it was made."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._put: asyncio.Queue[Step] = asyncio.Queue()
        self._taken = asyncio.Event()

    async def put(self, step: Step) -> None:
        """Pass on a step; returns when whoever reads has come back for more."""
        self._taken.clear()
        self._put.put_nowait(step)
        await self._taken.wait()

    async def through(self, stream: AsyncGenerator[Step, None]) -> AsyncGenerator[Step, None]:
        """Yield all steps in the order in which they were made; what the stream raises comes through."""
        making = asyncio.ensure_future(anext(stream, None))
        try:
            while True:
                if (put := await self._next(making)) is not None:
                    yield put
                    self._taken.set()
                elif (made := await making) is not None:
                    yield made
                    making = asyncio.ensure_future(anext(stream, None))
                else:
                    return
        finally:
            # Stopped at a step of a subagent: what goes on behind it ends here as well.
            await _stopped(making)
            await stream.aclose()

    async def _next(self, making: asyncio.Future[Step | None]) -> Step | None:
        getting = asyncio.ensure_future(self._put.get())
        try:
            both: set[asyncio.Future[Any]] = {making, getting}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return getting.result() if getting.done() else None
        finally:
            getting.cancel()


async def _stopped(making: asyncio.Future[Step | None]) -> None:
    if not making.done():
        making.cancel()
        await asyncio.wait({making})
        # Whoever stopped it does not want to know how that went.
        _ = making.cancelled() or making.exception()
