"""What a running Foxcast does, in the order of one pass: the jobs of the daemon, wired from its parts."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from bot.config.schema import Config
from bot.domain.question import Question
from bot.guards import Guards
from bot.jobs.attend import Attending, attend
from bot.jobs.audited import export_head
from bot.jobs.backup import BackingUp, back_up
from bot.jobs.closing import close_asked
from bot.jobs.discover import Discovery, discover
from bot.jobs.forecast import Forecasting, forecast_due
from bot.jobs.job import JOB_LIMIT, Job
from bot.jobs.ready import make_ready
from bot.jobs.reconcile import reconcile
from bot.jobs.resolve import Resolving, resolve
from bot.jobs.score import Scoring, score
from bot.jobs.sitting import Means, Seat
from bot.jobs.spending import Spending
from bot.jobs.submit import submit_due
from bot.jobs.watch import AGAIN, WATCH_LIMIT, PriceWatch, Watching
from bot.outbox.outbox import Outbox
from bot.ports import Clock, PriceFeed, Venue
from bot.registry import Registry
from bot.store.ledger import BACKUP_FOLDER, Ledger
from bot.venues import discovered_every, forecasters_for, forecasters_of

# One pass takes at most this and what was begun then, each trial at most its own limit.
FORECAST_LIMIT = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duties:
    """The parts that jobs work with, and the jobs; ``chores`` are those that plugins bring."""

    config: Config
    registry: Registry
    folder: Path
    ledger: Ledger
    clock: Clock
    venues: Mapping[str, Venue]
    feeds: Mapping[str, PriceFeed]
    seats: Mapping[str, Seat]
    means: Means
    spending: Spending
    surveyed: set[str]
    outbox: Outbox
    guards: Guards
    chores: Sequence[Job]
    owner: str
    patience_s: float
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def jobs(self) -> tuple[Job, ...]:
        """Return what the daemon runs, in the order of one pass."""
        wanted = asyncio.Event()
        return (*self._asked(wanted), *self._forecasts(wanted), *self._leaving(), *self._learning(), *self._keeping())

    def watches(self) -> tuple[Job, ...]:
        """Return what the daemon runs besides, each for as long as it lives: they come last, and in no single pass."""
        return tuple(self._watches())

    def _asked(self, wanted: asyncio.Event) -> Iterator[Job]:
        every = self.config.daemon
        attending = Attending(
            folder=self.folder,
            ledger=self.ledger,
            clock=self.clock,
            seats=self.seats,
            spending=self.spending,
            wake=wanted.set,
            permitting=replace(self.guards.permitting, adopt=self.outbox.adopt),
        )
        yield _job("attend", "do what people asked", every.attend_every_s, partial(attend, attending))
        yield _job("halt", "take back orders while halted", every.attend_every_s, self.guards.halting().run)

    def _forecasts(self, wanted: asyncio.Event) -> Iterator[Job]:
        for name, venue in self.venues.items():
            finding = Discovery(
                name=name,
                venue=venue,
                forecasters=forecasters_of(self.config, self.registry, name),
                ledger=self.ledger,
                clock=self.clock,
                policy=self.means.policy,
                fits=self._fits,
                surveyed=self.surveyed,
            )
            every_s = discovered_every(self.config, self.registry, name)
            yield _job(f"discover {name}", "find open questions", every_s, partial(discover, finding))
        # A single pass over everything has no end to it.
        limit = FORECAST_LIMIT if math.isfinite(self.patience_s) else timedelta.max
        run, every_s = partial(forecast_due, self._forecasting()), self.config.daemon.forecast_every_s
        yield replace(_job("forecast", "forecast what is due", every_s, run, limit=limit), wanted=wanted)

    def _leaving(self) -> Iterator[Job]:
        every = self.config.daemon
        yield _job("reconcile", "settle doubts", every.reconcile_every_s, partial(reconcile, self.outbox))
        ready = partial(make_ready, self.guards.preparing)
        yield _job("ready", "see what live venues lack", every.reconcile_every_s, ready)
        closing = self.guards.closing(self.outbox, self.folder)
        yield _job("close", "close positions as asked", every.attend_every_s, partial(close_asked, closing))
        deciding = self.guards.submitting(self.outbox, self.folder)
        yield _job("submit", "decide, then send", every.submit_every_s, partial(submit_due, deciding))

    def _learning(self) -> Iterator[Job]:
        every = self.config.daemon
        for name, venue in self.venues.items():
            resolving = Resolving(
                name=name,
                venue=venue,
                ledger=self.ledger,
                clock=self.clock,
                account=self.config.venues[name].account,
            )
            yield _job(f"resolve {name}", "read outcomes", every.resolve_every_s, partial(resolve, resolving))
        yield from self.guards.keeping(self.outbox, every, self.folder)
        scoring = Scoring(ledger=self.ledger, clock=self.clock)
        yield _job("score", "score what resolved", every.score_every_s, partial(score, scoring))
        yield from self.chores

    def _keeping(self) -> Iterator[Job]:
        every_s = self.config.daemon.backup_every_s
        auditing = partial(export_head, self.guards.auditing)
        yield _job("audit", "verify the audit, export its head", every_s, auditing)
        ledger = self.guards.brake.ledger
        backing_up = BackingUp(
            path=ledger,
            folder=ledger.parent / BACKUP_FOLDER,
            clock=self.clock,
            most_bytes=round(self.config.daemon.backup_gb * 1e9),
        )
        yield _job("backup", "copy ledger and paper books", every_s, partial(back_up, backing_up))

    def _watches(self) -> Iterator[Job]:
        every = self.config.daemon
        for name, feed in self.feeds.items() if every.watch_questions else ():
            watching = Watching(
                name=name,
                forecasters=forecasters_of(self.config, self.registry, name),
                ledger=self.ledger,
                clock=self.clock,
                policy=self.means.policy,
                fits=self._fits,
                feed=feed,
                random=self.means.random,
                stopping=self.stopping,
                most=every.watch_questions,
                step=every.watch_step,
            )
            run = PriceWatch(watching).run
            yield Job(name=f"prices {name}", summary="watch prices move", every=AGAIN, run=run, limit=WATCH_LIMIT)

    def _fits(self, forecaster: str, question: Question) -> bool:
        return forecaster in forecasters_for(self.config, self.registry, question)

    def _forecasting(self) -> Forecasting:
        return Forecasting(
            means=self.means,
            seats=self.seats,
            spending=self.spending,
            owner=self.owner,
            lease=timedelta(seconds=self.config.daemon.lease_s),
            concurrency=self.config.daemon.concurrency,
            patience_s=self.patience_s,
            stopping=self.stopping.is_set,
            excluded=self._excluded,
        )

    def _excluded(self, question: Question) -> str | None:
        table = self.config.venues.get(question.ref.venue)
        return None if table is None else table.exclude.exclusion_reason(question)


def _job(
    name: str, summary: str, every_s: float, run: Callable[[], Awaitable[str]], *, limit: timedelta = JOB_LIMIT
) -> Job:
    return Job(name=name, summary=summary, every=timedelta(seconds=every_s), run=run, limit=limit)
