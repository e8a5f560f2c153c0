"""The composition root: opens the ledger, venues, models and forecasters of one run, and closes them at the end.

``FoxcastApp.jobs`` returns the jobs of the daemon in the order of one pass.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import structlog

from bot.alerts.alert_job import AlertContext, report_alerts
from bot.alerts.conditions import BACKUP_JOB, DISCOVERY_PREFIX
from bot.app.execution_wiring import ExecutionWiring, wire_execution
from bot.app.forecast_context import build_forecast_context, build_pairing_context
from bot.app.forecaster_requirements import budget_warnings
from bot.app.plugin_factory import PluginFactory
from bot.app.plugin_opening import OpeningFault, OpeningRetry, describe_part
from bot.app.venues import (
    OpenVenues,
    build_kill_switch,
    configured_archive,
    discovery_interval_s,
    judges_pairs,
    matches_pairs,
    open_plugin_factory,
    open_venues,
    question_forecasters,
    usable_venues,
    venue_forecasters,
)
from bot.config.schema import Config
from bot.core.errors import ServiceUnavailableError
from bot.core.ids import derive_id
from bot.core.interfaces import (
    Clock,
    HttpClient,
    NotificationChannel,
    OrderPlanner,
    PriceFeed,
    RandomStreams,
    VenueReader,
)
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import ForecasterSpec, VenueSpec
from bot.core.questions import Question, QuestionRef
from bot.execution.gate.gate import ExecutionPolicy
from bot.execution.gate.readiness import READINESS_JOB
from bot.execution.outbox.outbox import Outbox
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.forecast_run import ConfiguredForecaster, ForecastContext
from bot.forecasting.question_admission import QuestionAdmission
from bot.forecasting.reforecast_policy import reschedule_forecasts
from bot.forecasting.tool_factory import ToolFactory
from bot.jobs.discovery import DiscoveryContext, discover_questions
from bot.jobs.forecast import ForecastJobContext, RequestedForecasts, forecast_due_questions
from bot.jobs.job import JOB_TIME_LIMIT, DaemonJob
from bot.jobs.ledger_maintenance import (
    BackupContext,
    EvidenceContext,
    back_up_ledger,
    maintain_evidence,
    verify_and_export_audit,
)
from bot.jobs.live_readiness import check_readiness
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.jobs.position_closing import close_requested_positions
from bot.jobs.price_watch import WATCH_INTERVAL, WATCH_TIME_LIMIT, PriceWatch, PriceWatchContext
from bot.jobs.question_pairs import QuestionPairing
from bot.jobs.reconciliation import RestoredLedgerContext, reconcile_restored_ledger, reconcile_submissions
from bot.jobs.resolution import ResolutionContext, ScoringContext, resolve_questions, score_forecasts
from bot.jobs.submission import BatchWait, submit_due_forecasts
from bot.llm.gateway import LlmGateway
from bot.net.client import RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store.backups import BACKUP_FOLDER
from bot.store.database import instance_lock
from bot.store.event_log import ALERT_EVENT
from bot.store.folder_identity import ADOPT_REMEDY, check_identity
from bot.store.integrity_checks import low_disk_reason
from bot.store.ledger import LAB_FOLDER, LEDGER_FILE, Ledger, open_ledger, state_folder

# One pass takes at most this and what was begun then, each trial at most its own limit.
FORECAST_JOB_LIMIT = timedelta(hours=6)
# A part of a plugin that could not be opened is tried again so often.
OPENING_RETRY_INTERVAL = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoxcastApp:
    """The running parts of one Foxcast, and its jobs.

    ``plugin_jobs`` are the jobs of plugins; ``gateway`` is set where a forecaster uses models. ``opening_faults`` are
    the parts of plugins that were left out; once one of them can be opened, ``reopening`` is set with ``stopping``.
    """

    config: Config
    registry: Registry
    folder: Path
    ledger: Ledger
    clock: Clock
    venues: Mapping[str, VenueReader]
    price_feeds: Mapping[str, PriceFeed]
    forecasters: Mapping[str, ConfiguredForecaster]
    forecast_context: ForecastContext
    cost_check: CostCheck
    discovered_venues: set[str]
    outbox: Outbox
    execution: ExecutionWiring
    plugin_jobs: Sequence[DaemonJob]
    owner: str
    forecast_pass_limit_s: float
    execution_policies: Mapping[str, ExecutionPolicy]
    planners: Mapping[str, OrderPlanner]
    gateway: LlmGateway | None
    listed_questions: dict[str, set[QuestionRef]] = field(default_factory=dict)
    opening_faults: Sequence[OpeningFault] = ()
    notifiers: Mapping[str, NotificationChannel] = field(default_factory=dict)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    reopening: asyncio.Event = field(default_factory=asyncio.Event)

    def jobs(self) -> tuple[DaemonJob, ...]:
        """Return the jobs of the daemon, in the order of one pass."""
        requested = RequestedForecasts()
        return (
            *self._request_jobs(requested),
            *self._opening_jobs(),
            *self._forecast_jobs(requested),
            *self._submission_jobs(),
            *self._scoring_jobs(),
            *self._maintenance_jobs(),
        )

    def price_watches(self) -> tuple[DaemonJob, ...]:
        """Return the jobs that run as long as the daemon lives: they come last, and are not part of a single pass."""
        return tuple(self._price_watch_jobs())

    def _request_jobs(self, requested: RequestedForecasts) -> Iterator[DaemonJob]:
        every = self.config.daemon
        context = OperatorRequestContext(
            folder=self.folder,
            ledger=self.ledger,
            clock=self.clock,
            forecasters=self.forecasters,
            cost_check=self.cost_check,
            wake=requested.add,
            privileged_requests=replace(self.execution.privileged_requests, adopt=self.outbox.adopt),
        )
        yield _make_job("requests", "do what people asked", every.requests_every_s, partial(handle_requests, context))
        yield _make_job(
            "halt", "cancel open orders while halted", every.requests_every_s, self.execution.halt_job().enforce_halts
        )

    def _opening_jobs(self) -> Iterator[DaemonJob]:
        for fault in self.opening_faults:
            is_venue = isinstance(fault.spec, VenueSpec)
            yield DaemonJob(
                name=f"{DISCOVERY_PREFIX}{fault.spec.name}" if is_venue else f"open {describe_part(fault.spec)}",
                summary="try to open what was left out",
                interval=OPENING_RETRY_INTERVAL,
                run=OpeningRetry(fault=fault, reopen=self._reopen).retry_opening,
            )

    def _reopen(self) -> None:
        self.reopening.set()
        self.stopping.set()

    def _forecast_jobs(self, requested: RequestedForecasts) -> Iterator[DaemonJob]:
        for name, venue in self.venues.items():
            discovery = DiscoveryContext(
                venue_name=name,
                venue=venue,
                forecasters=venue_forecasters(self.config, self.registry, name),
                ledger=self.ledger,
                clock=self.clock,
                policy=self.forecast_context.policy,
                fits=self._may_forecast,
                discovered_venues=self.discovered_venues,
                listed_questions=self.listed_questions,
            )
            every_s = discovery_interval_s(self.config, self.registry, name)
            run = partial(self._begin, partial(discover_questions, discovery))
            yield _make_job(f"{DISCOVERY_PREFIX}{name}", "find open questions", every_s, run)
        if matches_pairs(self.config, self.venues):
            context = build_pairing_context(
                self.config, self.registry, self.forecast_context, self.venues, self.gateway
            )
            run = partial(self._begin, QuestionPairing(context).match_pairs)
            yield _make_job("pairs", "match questions of venues", self.config.pairs.every_s, run)
        # A single pass over everything does not wait for the end of this.
        limit = FORECAST_JOB_LIMIT if math.isfinite(self.forecast_pass_limit_s) else timedelta.max
        run = partial(self._begin, partial(forecast_due_questions, self._forecast_job_context(requested)))
        every_s = self.config.daemon.forecast_every_s
        yield replace(
            _make_job("forecast", "forecast what is due", every_s, run, limit=limit), run_requested=requested.added
        )

    def _submission_jobs(self) -> Iterator[DaemonJob]:
        every = self.config.daemon
        yield _make_job(
            "reconcile", "settle unknown writes", every.reconcile_every_s, partial(reconcile_submissions, self.outbox)
        )
        ready = partial(check_readiness, self.execution.live_readiness)
        yield _make_job(READINESS_JOB, "check live readiness", every.reconcile_every_s, ready)
        closing = self.execution.close_job(self.outbox, self.folder)
        yield _make_job(
            "close", "close positions as asked", every.requests_every_s, partial(close_requested_positions, closing)
        )
        context = self.execution.submit_job(self.outbox, self.folder)
        run = partial(self._begin, partial(submit_due_forecasts, context))
        yield _make_job("submit", "decide and send", every.submit_every_s, run)

    def _scoring_jobs(self) -> Iterator[DaemonJob]:
        every = self.config.daemon
        for name, venue in self.venues.items():
            context = ResolutionContext(
                venue_name=name,
                venue=venue,
                ledger=self.ledger,
                clock=self.clock,
                account=self.config.venues[name].account,
            )
            yield _make_job(
                f"resolve {name}", "read outcomes", every.resolve_every_s, partial(resolve_questions, context)
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
        context = BackupContext(
            path=ledger,
            folder=ledger.parent / BACKUP_FOLDER,
            clock=self.clock,
            max_bytes=round(self.config.daemon.backup_gb * 1e9),
        )
        days = self.config.daemon.evidence_days
        keep = None if days is None else timedelta(days=days)
        evidence = EvidenceContext(path=ledger, ledger=self.ledger, clock=self.clock, keep=keep)
        yield _make_job("evidence", "compress and copy evidence", every_s, partial(maintain_evidence, evidence))
        yield _make_job(BACKUP_JOB, "copy ledger and paper books", every_s, partial(back_up_ledger, context))
        if self.notifiers:
            # Last, so that it reports what the others found in the same pass.
            alerts = AlertContext(
                config=self.config,
                ledger=self.ledger,
                clock=self.clock,
                channels=self.notifiers,
                clock_skew=self.execution.live_readiness.clock_skew,
            )
            every_s = self.config.alerts.every_s
            yield _make_job("alerts", "report to people", every_s, partial(report_alerts, alerts))

    def _price_watch_jobs(self) -> Iterator[DaemonJob]:
        every = self.config.daemon
        for name, feed in self.price_feeds.items() if every.watch_questions else ():
            context = PriceWatchContext(
                venue_name=name,
                forecasters=venue_forecasters(self.config, self.registry, name),
                ledger=self.ledger,
                clock=self.clock,
                policy=self.forecast_context.policy,
                fits=self._may_forecast,
                feed=feed,
                random=self.forecast_context.random,
                stopping=self.stopping,
                max_questions=every.watch_questions,
                min_move=every.watch_step,
            )
            run = PriceWatch(context).watch_prices
            yield DaemonJob(
                name=f"prices {name}",
                summary="watch prices",
                interval=WATCH_INTERVAL,
                run=run,
                time_limit=WATCH_TIME_LIMIT,
            )

    async def _begin(self, run: Callable[[], Awaitable[str]]) -> str:
        """Run a job that begins new work; raises ServiceUnavailableError while too little of the disk is free.

        Jobs that settle, resolve, cancel and copy run anyway.
        """
        if reason := low_disk_reason(self.folder, self.config.daemon.min_free_mb * 1e6):
            raise ServiceUnavailableError(reason)
        return await run()

    def _may_forecast(self, forecaster: str, question: Question) -> bool:
        return forecaster in question_forecasters(self.config, self.registry, question)

    def _forecast_job_context(self, requested: RequestedForecasts) -> ForecastJobContext:
        return ForecastJobContext(
            context=self.forecast_context,
            forecasters=self.forecasters,
            cost_check=self.cost_check,
            owner=self.owner,
            lease=timedelta(seconds=self.config.daemon.lease_s),
            admission=self._question_admission(),
            pass_limit_s=self.forecast_pass_limit_s,
            is_stopping=self.stopping.is_set,
            exclusion_reason=self._exclusion_reason,
            readers=self.venues,
            listed_questions=self.listed_questions,
            requested=requested,
        )

    def _question_admission(self) -> QuestionAdmission:
        uses_models = any(one.uses_models for one in self.forecasters.values())
        load = self.gateway.load if self.gateway is not None and uses_models else None
        return QuestionAdmission(clock=self.clock, load=load, most=self.config.daemon.concurrency)

    def _exclusion_reason(self, question: Question) -> str | None:
        table = self.config.venues.get(question.ref.venue)
        return None if table is None else table.exclude.exclusion_reason(question)


def _make_job(
    name: str, summary: str, every_s: float, run: Callable[[], Awaitable[str]], *, limit: timedelta = JOB_TIME_LIMIT
) -> DaemonJob:
    return DaemonJob(name=name, summary=summary, interval=timedelta(seconds=every_s), run=run, time_limit=limit)


log = structlog.get_logger(__name__)

# At its end no question is begun until all are done, which leaves models idle.
FORECAST_PASS_LIMIT_S = 900.0


class AppOptions(TypedDict, total=False):
    """How the app runs where it is not the daemon.

    ``pass_limit_s`` bounds one pass of the forecast job, ``confirmed`` says that a person agreed to its expected cost,
    and with ``only`` it has these forecasters, and no venue.
    """

    pass_limit_s: float
    confirmed: bool
    only: Collection[str] | None


@asynccontextmanager
async def open_app(
    config: Config, registry: Registry, *, clock: Clock, **options: Unpack[AppOptions]
) -> AsyncIterator[FoxcastApp]:
    """Lock the state folder, open the ledger, the venues and the forecasters; close all of them at the end.

    Without venues there is no submitter either, so nothing can be submitted. Raises StateFolderLockedError where
    another Foxcast runs, ConfigError for settings that a plugin refuses.
    """
    folder = state_folder(config)
    started_at = clock.now()
    async with AsyncExitStack() as stack:
        holder = stack.enter_context(instance_lock(folder, started_at=started_at))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=started_at))
        found = check_identity(folder / LEDGER_FILE)
        if found.fault:
            config = await _use_paper(config, ledger, folder, found.fault, started_at)
        factory_manager = open_plugin_factory(config, registry, clock, folder=folder, ledger=ledger)
        factory = await stack.enter_async_context(factory_manager)
        only_forecasters, names = options.get("only"), [*usable_venues(config, registry)]
        opened = await open_venues(factory, names if only_forecasters is None else ())
        named = [name for venue in opened.readers for name in venue_forecasters(config, registry, venue)]
        forecasters = await factory.open_forecasters(named if only_forecasters is None else only_forecasters)
        registry = _usable_registry(registry, factory, needs_all=only_forecasters is not None)
        needed = judges_pairs(config, opened.readers)
        gateway, tool_factory = await _open_models(factory, forecasters, ledger, needed=needed)
        switch, skew = build_kill_switch(config, folder), partial(_measured_clock_skew, factory.http)
        wiring = wire_execution(factory, opened, ledger, switch, skew, identity=found)
        discovered_venues, stopping = set[str](), asyncio.Event()
        archives = [archive for name in names if (archive := configured_archive(config, registry, name))]
        app = FoxcastApp(
            config=config,
            registry=registry,
            folder=folder,
            ledger=ledger,
            clock=clock,
            venues=opened.readers,
            execution_policies=opened.execution_policies,
            planners=opened.planners,
            price_feeds=opened.price_feeds,
            forecasters=forecasters,
            forecast_context=build_forecast_context(factory, forecasters, ledger, archives, tool_factory),
            gateway=gateway,
            cost_check=_build_cost_check(factory, forecasters, gateway, confirmed=options.get("confirmed", False)),
            discovered_venues=discovered_venues,
            outbox=_build_outbox(opened, wiring, ledger, clock, discovered_venues, stopping.is_set),
            execution=wiring,
            plugin_jobs=[factory.plugin_job(spec) for spec in registry.jobs],
            notifiers=await factory.open_notifiers(config.notifiers) if only_forecasters is None else {},
            opening_faults=factory.faults,
            owner=derive_id("owner", str(holder.pid), holder.boot, holder.started_at.isoformat()),
            forecast_pass_limit_s=options.get("pass_limit_s", FORECAST_PASS_LIMIT_S),
            stopping=stopping,
        )
        if only_forecasters is None:
            await _recover_state(app)
        yield app


def _usable_registry(registry: Registry, factory: PluginFactory, *, needs_all: bool) -> Registry:
    """Return the registry without forecasters that cannot be opened; raises the error of one if all are needed."""
    for fault in factory.faults if needs_all else ():
        raise fault.error
    errors = {fault.spec.name: fault.error for fault in factory.faults if isinstance(fault.spec, ForecasterSpec)}
    return registry.without_forecasters(errors)


async def _use_paper(config: Config, ledger: Ledger, folder: Path, fault: str, at: datetime) -> Config:
    """Return the configuration for a folder that was copied or moved, and record that nothing is submitted live."""
    text = f"the state folder {folder} {fault}; live venues use paper books here; {ADOPT_REMEDY}"
    log.warning("state folder was copied or moved", detail=text)
    await ledger.events.add_event("displaced", text, at=at)
    return config.with_live_venues_on_paper()


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestForecaster:
    """One forecaster opened by itself, for backtests; ``tool_factory`` and ``gateway`` are set if it uses models."""

    forecaster: ConfiguredForecaster
    random: RandomStreams
    tool_factory: ToolFactory | None
    gateway: LlmGateway | None


@asynccontextmanager
async def open_backtest_forecaster(
    config: Config, registry: Registry, name: str, *, clock: Clock
) -> AsyncIterator[BacktestForecaster]:
    """Open one forecaster for backtests, as ``open_backtest_forecasters`` does, without its members."""
    async with open_backtest_forecasters(config, registry, (name,), clock=clock) as opened:
        yield opened[name]


@asynccontextmanager
async def open_backtest_forecasters(
    config: Config, registry: Registry, names: Sequence[str], *, clock: Clock
) -> AsyncIterator[Mapping[str, BacktestForecaster]]:
    """Open forecasters for backtests; their model calls are recorded in one ledger of the laboratory's own.

    Raises StateFolderLockedError where another backtest with models runs.
    """
    folder = config.state / LAB_FOLDER
    async with AsyncExitStack() as stack:
        factory = await stack.enter_async_context(open_plugin_factory(config, registry, clock, folder=folder))
        forecasters = await factory.open_forecasters(names)
        registry = _usable_registry(registry, factory, needs_all=True)
        gateway, tool_factory = None, None
        if any(forecaster.uses_models for forecaster in forecasters.values()):
            stack.enter_context(instance_lock(folder, started_at=clock.now()))
            ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
            gateway, tool_factory = await _open_models(factory, forecasters, ledger, retry_failures=True)
        if gateway is not None:
            # The cost of a backtest is estimated next.
            await _build_cost_check(factory, names, gateway, confirmed=False).log_budget_warnings()
        yield {
            name: BacktestForecaster(
                forecaster=forecaster,
                random=factory.random,
                tool_factory=tool_factory if forecaster.uses_models else None,
                gateway=gateway if forecaster.uses_models else None,
            )
            for name, forecaster in forecasters.items()
        }


def _measured_clock_skew(http: HttpClient) -> float | None:
    return http.clock_skew_s if isinstance(http, RetryingHttpClient) else None


async def _open_models(
    factory: PluginFactory,
    forecasters: Mapping[str, ConfiguredForecaster],
    ledger: Ledger,
    *,
    retry_failures: bool = False,
    needed: bool = False,
) -> tuple[LlmGateway, ToolFactory] | tuple[None, None]:
    """Open models and tools where a forecaster uses them, or if they are needed otherwise."""
    if not needed and not any(forecaster.uses_models for forecaster in forecasters.values()):
        return None, None

    async def alert(subject: str, text: str) -> None:
        log.warning(subject, detail=text)
        await ledger.events.add_event(ALERT_EVENT, f"{subject}: {text}", at=factory.clock.now())

    gateway = await factory.open_model_gateway(ledger, alert)
    return gateway, await factory.open_tool_factory(ledger, gateway, retry_failures=retry_failures)


def _build_outbox(
    opened: OpenVenues,
    wiring: ExecutionWiring,
    ledger: Ledger,
    clock: Clock,
    discovered_venues: set[str],
    stopping: Callable[[], bool],
) -> Outbox:
    return Outbox(
        ledger=ledger,
        submitters=opened.submitters,
        clock=clock,
        kill_switch=wiring.kill_switch,
        is_batch_ready=BatchWait(
            ledger=ledger, execution_policies=opened.execution_policies, discovered_venues=discovered_venues
        ),
        pre_send_check=wiring.recheck,
        clock_fault=wiring.clock_fault,
        modes={name: policy.mode for name, policy in opened.execution_policies.items()},
        accounts={name: policy.account for name, policy in opened.execution_policies.items()},
        max_unsettled={name: policy.caps.unknown_writes for name, policy in opened.execution_policies.items()},
        is_stopping=stopping,
    )


def _build_cost_check(
    factory: PluginFactory, forecasters: Iterable[str], gateway: LlmGateway | None, *, confirmed: bool
) -> CostCheck:
    config, registry = factory.config, factory.registry
    return CostCheck(
        estimates=gateway,
        ask_above_usd=config.llm.budget.ask_above_usd,
        confirmed=confirmed,
        budget_warnings=None
        if gateway is None
        else partial(budget_warnings, config, registry, tuple(forecasters), gateway.worst_usd),
    )


async def _recover_state(app: FoxcastApp) -> None:
    """Recover the state before anything runs.

    Leases of the dead process are freed, and requests that were being sent when it died become unknown. A halt after a
    full disk ends once this can be written; a restored ledger is compared with the state at the venues.
    """
    now = app.clock.now()
    if halt := await app.ledger.events.resume(at=now):
        log.warning("the last run was halted", at=halt.at.isoformat(), why=halt.text)
    freed = await app.ledger.schedule.free_leases(owner_not=app.owner, now=now)
    moved = await reschedule_forecasts(
        app.ledger, app.forecast_context.policy, repeats=app.forecast_context.renews, now=now
    )
    if moved:
        log.info("due times follow the policy", moved=moved)
    unknown = await app.outbox.recover()
    if freed or unknown:
        text = f"{freed} leases of an earlier run freed, {unknown} submissions unknown"
        await app.ledger.events.add_event("recovery", text, at=now)
    if unknown:
        # Before anything new is written. If a venue does not answer, its intents stay unknown and hold back new ones.
        await app.outbox.reconcile()
    await reconcile_restored_ledger(
        RestoredLedgerContext(
            path=app.folder / LEDGER_FILE,
            ledger=app.ledger,
            execution_policies=app.execution_policies,
            outbox=app.outbox,
            clock=app.clock,
        )
    )
