"""Tasks that outlive their caller, such as settling a call after a cancellation, and daily alerts to the operator."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import date
from typing import Any, TypeVar

import structlog

from bot.core.errors import FoxcastError
from bot.core.interfaces import Clock
from bot.llm.providers import describe_foreign_error

ResultT = TypeVar("ResultT")
log = structlog.get_logger(__name__)
# A task that has not finished this long after the end (such as a notifier that hangs) is cancelled.
SHUTDOWN_TIMEOUT_S = 10.0


class BackgroundTasks:
    """Tasks that the gateway waits for at its end; failures are logged."""

    def __init__(self) -> None:
        """Begin with no task."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def start_task(self, work: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
        """Run the task independently of the caller, who may be cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._log_failure)
        return task

    async def wait_for_all(self) -> None:
        """Wait until all tasks are done; after ten seconds cancel the rest, and wait as long again."""
        for _ in range(2):
            if self._tasks:
                _, late = await asyncio.wait(self._tasks, timeout=SHUTDOWN_TIMEOUT_S)
                for task in late:
                    task.cancel()

    def _log_failure(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        # Ctrl-C and the end of the process may be raised in any running task, and must reach the main task.
        if isinstance(error := task.exception(), Exception):
            message = (
                f"{type(error).__name__}: {error}" if isinstance(error, FoxcastError) else describe_foreign_error(error)
            )
            log.warning("background task failed", error=message)


class DailyAlerts:
    """Alerts a person to each problem at most once a day."""

    def __init__(self, alert: Callable[[str, str], Awaitable[None]], *, tasks: BackgroundTasks, clock: Clock) -> None:
        """Keep the channel; alerts are sent in the background."""
        self._alert = alert
        self._errands = tasks
        self._clock = clock
        self._last_sent: dict[str, date] = {}

    def alert_once(self, key: str, subject: str, text: str) -> None:
        """Send the alert, unless one with the same key was sent today."""
        today = self._clock.now().date()
        if self._last_sent.get(key) != today:
            self._last_sent[key] = today
            self._errands.start_task(self._send(subject, text))

    async def _send(self, subject: str, text: str) -> None:
        await self._alert(subject, text)
