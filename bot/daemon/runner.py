"""Runs one job at a time to its recorded end: whatever it raises, the others go on."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from bot.daemon.watch import Exit, ExitReason, Record
from bot.domain.vitals import JobRun, Outcome, Vital
from bot.errors import StoreError, Unavailable, told
from bot.jobs.job import Job
from bot.ports import Clock

log = structlog.get_logger(__name__)

# A cut job gets this long to unwind; its ``finally`` blocks are short, its network calls are already cancelled.
UNWIND_S = 1.0


class Runner:
    """Runs jobs, reports how they ended, and knows why everything has to stop.

    ``exit`` stays None until something worse than a failing job happens; ``stop`` is set with it, and is the event
    that the jobs see too. ``begun`` are the jobs that ran at all, ``troubled`` those whose last run did not do its
    work, each with its error in ``errors``.
    """

    def __init__(self, *, clock: Clock, record: Record, stop: asyncio.Event) -> None:
        self.clock = clock
        self.stop = stop
        self.exit: Exit | None = None
        self.troubled: dict[str, Outcome] = {}
        self.errors: dict[str, Exception] = {}
        self.begun: set[str] = set()
        self._said: dict[str, str] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._record = record
        self._running: dict[asyncio.Task[object], str] = {}

    async def run(self, job: Job) -> None:
        """Run the job once, or not at all when asked to stop; only cancellation leaves this method as an error.

        A run of the same job that is under way is waited for.
        """
        async with self._turns[job.name]:
            if not self.stop.is_set():
                await self._run(job)

    async def run_if_free(self, job: Job) -> None:
        """Do as ``run`` does, or nothing while the same job runs."""
        if not self._turns[job.name].locked():
            await self.run(job)

    async def _run(self, job: Job) -> None:
        started_at, start = self.clock.now(), self.clock.monotonic()
        self.begun.add(job.name)
        with self.tracked(job.name):
            outcome, detail, error = await self._attempt(job)
            took_s = self.clock.monotonic() - start
            self._tell(job.name, outcome, error)
            self._tell_news(job.name, detail)
            await self.report(
                JobRun(job=job.name, started_at=started_at, took_s=took_s, outcome=outcome, detail=detail)
            )

    @contextmanager
    def tracked(self, name: str) -> Iterator[None]:
        """Count what the present task does as running, so that ``drain`` waits for it."""
        if (task := asyncio.current_task()) is None:
            message = f"{name} runs outside any task"
            raise RuntimeError(message)
        self._running[task] = name
        try:
            yield
        finally:
            self._running.pop(task, None)

    async def report(self, vital: Vital) -> None:
        """Record the report; give up where the store cannot take it.

        This is how a full disk ends the daemon, while a job's own StoreError (a backup that failed, a read that took
        too long) is one failed run: what matters is whether anything can still be written down.
        """
        try:
            await self._record(vital)
        except StoreError as error:
            self.give_up(ExitReason.STORE, str(error))

    def give_up(self, reason: ExitReason, detail: str) -> None:
        """Stop everything for this reason; the first one given stands."""
        if self.exit is None:
            log.error("daemon gives up", reason=reason.value, detail=detail)
            self.exit = Exit(reason=reason, detail=detail)
        self.stop.set()

    async def drain(self, limit_s: float) -> list[str]:
        """Let running jobs finish for that long, cut off the others, and return the names of those."""
        if self._running:
            await asyncio.wait([*self._running], timeout=limit_s)
        cut, names = [*self._running], sorted(self._running.values())
        for task in cut:
            task.cancel()
        if cut:
            log.warning("jobs cut off", jobs=names, after_s=limit_s)
            await asyncio.wait(cut, timeout=UNWIND_S)
        # One that will not be cancelled is not waited for again.
        self._running.clear()
        return names

    async def _attempt(self, job: Job) -> tuple[Outcome, str, Exception | None]:
        limit = asyncio.timeout(job.limit.total_seconds())
        try:
            async with limit:
                return Outcome.DONE, await job.run(), None
        except Unavailable as error:
            return Outcome.UNAVAILABLE, str(error), error
        except Exception as error:  # noqa: BLE001 - a bug in one job must not cost the work of all others
            why = f"stopped after {job.limit}" if limit.expired() else told(error)
            return Outcome.FAILED, why, error

    def _tell(self, name: str, outcome: Outcome, error: Exception | None) -> None:
        """Log a job when it breaks and when it heals, not at every run between."""
        if error is None:
            self.errors.pop(name, None)
        else:
            self.errors[name] = error
        if outcome is self.troubled.get(name, Outcome.DONE):
            return
        if outcome is Outcome.DONE:
            del self.troubled[name]
            log.info("job works again", job=name)
            return
        self.troubled[name] = outcome
        if outcome is Outcome.UNAVAILABLE:
            log.warning("job must wait", job=name, why=str(error))
        else:
            log.error("job failed", job=name, exc_info=error)

    def _tell_news(self, name: str, detail: str) -> None:
        """Log what a job did when that differs from the last time; the ledger has every run."""
        if name in self.troubled or detail == self._said.get(name):
            return
        self._said[name] = detail
        log.info("job done", job=name, what=detail)


def refuse_twins(jobs: Sequence[str]) -> None:
    """Raise ValueError for a name that two jobs share: reports could not tell them apart."""
    twins = sorted(name for name, count in Counter(jobs).items() if count > 1)
    if twins:
        message = f"every job needs a name of its own, shared by several: {twins}"
        raise ValueError(message)
