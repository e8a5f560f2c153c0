"""How a single pass gets on: bars on a terminal, else a line on stderr now and then; and what its writes came to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import typer
from rich.progress import Progress, TaskID

from bot.app import App
from bot.cli.exits import ExitCode
from bot.cli.output.plain import plain
from bot.jobs.job import Job
from bot.store.sent import SentSince, sent_since

LOOK_EVERY_S = 0.3
TELL_EVERY_S = 30.0


@dataclass(slots=True)
class PassProgress:
    """One pass of an open Foxcast, from the moment on at which it began."""

    opened: App
    began: datetime
    _running: str = ""
    _before: int = 0
    _clock_s: float = field(default=0.0)

    def followed(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs, which also say here which of them runs."""
        return [replace(job, run=partial(self._run, job)) for job in jobs]

    @asynccontextmanager
    async def shown(self, bars: Progress) -> AsyncIterator[None]:
        """Tell how the pass gets on while the block runs."""
        opened = self.opened
        self._before, self._clock_s = await opened.ledger.forecasts.count(), opened.clock.monotonic()
        if bars.disable:
            looking = asyncio.create_task(self._every(TELL_EVERY_S, self._tell))
        else:
            tasks = [bars.add_task(name, total=None) for name in ("forecasts", "submissions")]
            looking = asyncio.create_task(self._every(LOOK_EVERY_S, partial(self._draw, bars, tasks)))
        try:
            yield
        finally:
            looking.cancel()

    async def _run(self, job: Job) -> str:
        self._running = job.name
        return await job.run()

    async def _every(self, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.opened.clock.sleep(pause_s)
            await work()

    async def _tell(self) -> None:
        (made, all_made), (sent, all_sent) = await self._counts()
        took_s = self.opened.clock.monotonic() - self._clock_s
        counts = ((made, all_made, "forecasts"), (sent, all_sent, "submissions"))
        parts = [f"{done} of {total} {what}" for done, total, what in counts if total]
        typer.echo(plain(f"foxcast: {took_s:.0f} s, {self._running}: {', '.join(parts) or 'at work'}"), err=True)

    async def _draw(self, bars: Progress, tasks: Sequence[TaskID]) -> None:
        for task, (done, total) in zip(tasks, await self._counts(), strict=True):
            bars.update(task, completed=done, total=total or None)

    async def _counts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return how many forecasts are made of those that were due, and how many submissions were tried of all."""
        ledger, now = self.opened.ledger, self.opened.clock.now()
        due = await ledger.schedule.counts(now)
        made = await ledger.forecasts.count() - self._before
        sent = await sent_since(ledger.forecasts.readers, self.began)
        return (made, made + due.due + due.leased), (sent.tried, sent.tried + sent.waiting)


def writes_told(found: SentSince) -> Iterator[str]:
    """Yield a line for each venue with submissions that have no answer, or that were refused."""
    for venue, count in found.unanswered.items():
        has = "submission to {} has" if count == 1 else "submissions to {} have"
        yield f"{count} {has.format(venue)} no answer; the next run reads back what can be: foxcast orders --open"
    for venue, (count, why) in found.refused.items():
        was = "submission to {} was" if count == 1 else "submissions to {} were"
        yield f"{count} {was.format(venue)} refused: {why or 'it did not say why'}; look: foxcast orders"


def writes_code(found: SentSince) -> ExitCode:
    """Return the code of a pass that has nothing worse to say about its submissions."""
    if found.unanswered:
        return ExitCode.UNAVAILABLE
    return ExitCode.REFUSED if found.refused else ExitCode.DONE
