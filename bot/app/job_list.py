"""The jobs of a running Foxcast, in the order of one pass, built from its parts."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from bot.app.execution_wiring import ExecutionWiring
from bot.app.venues import discovery_interval_s, question_forecasters, venue_forecasters
from bot.config.schema import Config
from bot.core.interfaces import Clock, PriceFeed, VenueReader
from bot.core.questions import Question
from bot.execution.outbox.outbox import Outbox
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.forecast_run import ConfiguredForecaster, ForecastContext
from bot.jobs.discovery import DiscoveryContext, discover_questions
from bot.jobs.forecast import ForecastJobContext, forecast_due_questions
from bot.jobs.job import JOB_TIME_LIMIT, DaemonJob
from bot.jobs.ledger_maintenance import BackupContext, back_up_ledger, verify_and_export_audit
from bot.jobs.live_readiness import check_readiness
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.jobs.position_closing import close_requested_positions
from bot.jobs.price_watch import WATCH_INTERVAL, WATCH_TIME_LIMIT, PriceWatch, PriceWatchContext
from bot.jobs.reconciliation import reconcile_submissions
from bot.jobs.resolution import ResolutionContext, ScoringContext, resolve_questions, score_forecasts
from bot.jobs.submission import submit_due_forecasts
from bot.plugin_system.registry import Registry
from bot.store.ledger import BACKUP_FOLDER, Ledger

# One pass takes at most this and what was begun then, each trial at most its own limit.
FORECAST_JOB_LIMIT = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """The parts that jobs use, and the jobs; ``plugin_jobs`` are those of plugins."""

    config: Config
    registry: Registry
    folder: Path
    ledger: Ledger
    clock: Clock
    venues: Mapping[str, VenueReader]
    price_feeds: Mapping[str, PriceFeed]
    forecasters: Mapping[str, ConfiguredForecaster]
    forecast_context: ForecastContext
    spending: CostCheck
    discovered_venues: set[str]
    outbox: Outbox
    execution: ExecutionWiring
    plugin_jobs: Sequence[DaemonJob]
    owner: str
    forecast_pass_limit_s: float
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def jobs(self) -> tuple[DaemonJob, ...]:
        """Return the jobs of the daemon, in the order of one pass."""
        wanted = asyncio.Event()
        return (
            *self._request_jobs(wanted),
            *self._forecast_jobs(wanted),
            *self._submission_jobs(),
            *self._scoring_jobs(),
            *self._maintenance_jobs(),
        )

    def price_watches(self) -> tuple[DaemonJob, ...]:
        """Return the jobs that run as long as the daemon lives: they come last, and are not part of a single pass."""
        return tuple(self._price_watch_jobs())

    def _request_jobs(self, wanted: asyncio.Event) -> Iterator[DaemonJob]:
        every = self.config.daemon
        attending = OperatorRequestContext(
            folder=self.folder,
            ledger=self.ledger,
            clock=self.clock,
            forecasters=self.forecasters,
            cost_check=self.spending,
            wake=wanted.set,
            privileged_requests=replace(self.execution.privileged_requests, adopt=self.outbox.adopt),
        )
        yield _make_job("requests", "do what people asked", every.requests_every_s, partial(handle_requests, attending))
        yield _make_job(
            "halt", "take back orders while halted", every.requests_every_s, self.execution.halt_job().enforce_halts
        )

    def _forecast_jobs(self, wanted: asyncio.Event) -> Iterator[DaemonJob]:
        for name, venue in self.venues.items():
            finding = DiscoveryContext(
                venue_name=name,
                venue=venue,
                forecasters=venue_forecasters(self.config, self.registry, name),
                ledger=self.ledger,
                clock=self.clock,
                policy=self.forecast_context.policy,
                fits=self._fits,
                discovered_venues=self.discovered_venues,
            )
            every_s = discovery_interval_s(self.config, self.registry, name)
            yield _make_job(f"discover {name}", "find open questions", every_s, partial(discover_questions, finding))
        # A single pass over everything does not wait for the end of this.
        limit = FORECAST_JOB_LIMIT if math.isfinite(self.forecast_pass_limit_s) else timedelta.max
        run, every_s = (
            partial(forecast_due_questions, self._forecast_job_context()),
            self.config.daemon.forecast_every_s,
        )
        yield replace(_make_job("forecast", "forecast what is due", every_s, run, limit=limit), run_requested=wanted)

    def _submission_jobs(self) -> Iterator[DaemonJob]:
        every = self.config.daemon
        yield _make_job(
            "reconcile", "settle unknown writes", every.reconcile_every_s, partial(reconcile_submissions, self.outbox)
        )
        ready = partial(check_readiness, self.execution.live_readiness)
        yield _make_job("ready", "check live readiness", every.reconcile_every_s, ready)
        closing = self.execution.close_job(self.outbox, self.folder)
        yield _make_job(
            "close", "close positions as asked", every.requests_every_s, partial(close_requested_positions, closing)
        )
        deciding = self.execution.submit_job(self.outbox, self.folder)
        yield _make_job("submit", "decide and send", every.submit_every_s, partial(submit_due_forecasts, deciding))

    def _scoring_jobs(self) -> Iterator[DaemonJob]:
        every = self.config.daemon
        for name, venue in self.venues.items():
            resolving = ResolutionContext(
                venue_name=name,
                venue=venue,
                ledger=self.ledger,
                clock=self.clock,
                account=self.config.venues[name].account,
            )
            yield _make_job(
                f"resolve {name}", "read outcomes", every.resolve_every_s, partial(resolve_questions, resolving)
            )
        yield from self.execution.account_jobs(self.outbox, every, self.folder)
        scoring = ScoringContext(ledger=self.ledger, clock=self.clock)
        yield _make_job("score", "score resolved questions", every.score_every_s, partial(score_forecasts, scoring))
        yield from self.plugin_jobs

    def _maintenance_jobs(self) -> Iterator[DaemonJob]:
        every_s = self.config.daemon.backup_every_s
        auditing = partial(verify_and_export_audit, self.execution.audit_export)
        yield _make_job("audit", "verify the audit, export its head", every_s, auditing)
        ledger = self.execution.kill_switch.ledger_file
        backing_up = BackupContext(
            path=ledger,
            folder=ledger.parent / BACKUP_FOLDER,
            clock=self.clock,
            max_bytes=round(self.config.daemon.backup_gb * 1e9),
        )
        yield _make_job("backup", "copy ledger and paper books", every_s, partial(back_up_ledger, backing_up))

    def _price_watch_jobs(self) -> Iterator[DaemonJob]:
        every = self.config.daemon
        for name, feed in self.price_feeds.items() if every.watch_questions else ():
            watching = PriceWatchContext(
                venue_name=name,
                forecasters=venue_forecasters(self.config, self.registry, name),
                ledger=self.ledger,
                clock=self.clock,
                policy=self.forecast_context.policy,
                fits=self._fits,
                feed=feed,
                random=self.forecast_context.random,
                stopping=self.stopping,
                max_questions=every.watch_questions,
                min_move=every.watch_step,
            )
            run = PriceWatch(watching).watch_prices
            yield DaemonJob(
                name=f"prices {name}",
                summary="watch prices",
                interval=WATCH_INTERVAL,
                run=run,
                time_limit=WATCH_TIME_LIMIT,
            )

    def _fits(self, forecaster: str, question: Question) -> bool:
        return forecaster in question_forecasters(self.config, self.registry, question)

    def _forecast_job_context(self) -> ForecastJobContext:
        return ForecastJobContext(
            context=self.forecast_context,
            forecasters=self.forecasters,
            cost_check=self.spending,
            owner=self.owner,
            lease=timedelta(seconds=self.config.daemon.lease_s),
            concurrency=self.config.daemon.concurrency,
            pass_limit_s=self.forecast_pass_limit_s,
            is_stopping=self.stopping.is_set,
            exclusion_reason=self._exclusion_reason,
        )

    def _exclusion_reason(self, question: Question) -> str | None:
        table = self.config.venues.get(question.ref.venue)
        return None if table is None else table.exclude.exclusion_reason(question)


def _make_job(
    name: str, summary: str, every_s: float, run: Callable[[], Awaitable[str]], *, limit: timedelta = JOB_TIME_LIMIT
) -> DaemonJob:
    return DaemonJob(name=name, summary=summary, interval=timedelta(seconds=every_s), run=run, time_limit=limit)
