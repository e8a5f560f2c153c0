"""Work that outlives who began it: the settlement of a call whose caller was cancelled, an alert to a person."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import date
from typing import Any, TypeVar

import structlog

from bot.errors import FoxcastError
from bot.llm.faults import named
from bot.ports import Clock

T = TypeVar("T")

log = structlog.get_logger(__name__)

# At the end, what has not come back by then (a notifier that hangs) is cut off.
PATIENCE_S = 10.0


class Errands:
    """Tasks that are waited for at the end; what goes wrong in one is logged."""

    def __init__(self) -> None:
        """Begin with none."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the work apart from the caller, who may be cancelled without it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self) -> None:
        """Wait until all is done; after ten seconds cancel what is left, and wait as long again."""
        for _ in range(2):
            if self._tasks:
                _, late = await asyncio.wait(self._tasks, timeout=PATIENCE_S)
                for task in late:
                    task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        # Ctrl-C and the end of the process reach whatever runs at that moment, and go on to who is to act on them.
        if isinstance(error := task.exception(), Exception):
            said = f"{type(error).__name__}: {error}" if isinstance(error, FoxcastError) else named(error)
            log.warning("gateway errand failed", error=said)


class Alarm:
    """Tells a person of what went wrong, each thing once a day."""

    def __init__(self, alert: Callable[[str, str], Awaitable[None]], *, errands: Errands, clock: Clock) -> None:
        """Keep the channel; nothing waits for it."""
        self._alert = alert
        self._errands = errands
        self._clock = clock
        self._told: dict[str, date] = {}

    def tell(self, key: str, subject: str, text: str) -> None:
        """Send it, unless the same (by its key) was sent today."""
        today = self._clock.now().date()
        if self._told.get(key) != today:
            self._told[key] = today
            self._errands.begin(self._send(subject, text))

    async def _send(self, subject: str, text: str) -> None:
        await self._alert(subject, text)
