"""The composition root: opens the ledger, venues, models and forecasters of one run, and closes them at the end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import structlog

from bot.app.execution_wiring import ExecutionWiring, wire_execution
from bot.app.forecast_context import build_forecast_context
from bot.app.forecaster_requirements import budget_warnings
from bot.app.job_list import JobList
from bot.app.plugin_factory import PluginFactory
from bot.app.venues import (
    OpenVenues,
    configured_archive,
    open_venues,
    usable_venues,
    venue_forecasters,
    venue_rate_limits,
)
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.ids import derive_id
from bot.core.interfaces import Clock, HttpClient, OrderPlanner, RandomStreams
from bot.execution.gate.config_digest import credentials_digest
from bot.execution.gate.credential_guard import CredentialGuard
from bot.execution.gate.gate import ExecutionPolicy
from bot.execution.gate.kill_switch import STOP_FILE, KillSwitch
from bot.execution.outbox.outbox import Outbox
from bot.forecasting.cost_check import CostCheck
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.reforecast_policy import reschedule_forecasts
from bot.forecasting.tool_factory import ToolFactory
from bot.jobs.reconciliation import RestoredLedgerContext, reconcile_restored_ledger
from bot.jobs.submission import BatchWait
from bot.llm.gateway import LlmGateway
from bot.net.client import RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.write_client import HttpWriteClient
from bot.plugin_system.registry import Registry
from bot.store.database import instance_lock
from bot.store.ledger import LEDGER_FILE, Ledger, open_ledger, state_folder
from bot.store.rate_usage import LOCK_HOLDER_NAME, RATE_USAGE_FOLDER, SharedRateUsageFiles

log = structlog.get_logger(__name__)

LAB_FOLDER = "lab"
FORECAST_PASS_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoxcastApp(JobList):
    """The running parts of one Foxcast, and its operations. ``gateway`` is set where a forecaster uses models."""

    execution_policies: Mapping[str, ExecutionPolicy]
    planners: Mapping[str, OrderPlanner]
    gateway: LlmGateway | None


class AppOptions(TypedDict, total=False):
    """How the app runs where it is not the daemon.

    ``patience_s`` bounds one pass of the forecast job, ``confirmed`` says that a person agreed to its expected cost,
    and with ``only`` it has these forecasters, and no venue.
    """

    patience_s: float
    confirmed: bool
    only: Collection[str] | None


@asynccontextmanager
async def open_app(
    config: Config, registry: Registry, *, clock: Clock, **terms: Unpack[AppOptions]
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
        opening = _open_plugin_factory(config, registry, clock, folder=folder, ledger=ledger)
        outfitter = await stack.enter_async_context(opening)
        only, names = terms.get("only"), [*usable_venues(config, registry)]
        opened = await open_venues(outfitter, names if only is None else ())
        named = [name for venue in opened.readers for name in venue_forecasters(config, registry, venue)]
        seats = await outfitter.open_forecasters(named if only is None else only)
        gateway, workshop = await _open_models(outfitter, seats, ledger)
        guards = wire_execution(
            outfitter, opened, ledger, _kill_switch(config, folder), partial(_measured_clock_skew, outfitter.http)
        )
        surveyed, stopping = set[str](), asyncio.Event()
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
            forecasters=seats,
            forecast_context=build_forecast_context(outfitter, seats, ledger, archives, workshop),
            gateway=gateway,
            spending=_build_cost_check(outfitter, seats, gateway, confirmed=terms.get("confirmed", False)),
            discovered_venues=surveyed,
            outbox=_build_outbox(opened, guards, ledger, clock, surveyed, stopping.is_set),
            execution=guards,
            plugin_jobs=[outfitter.plugin_job(spec) for spec in registry.jobs],
            owner=derive_id("owner", str(holder.pid), holder.boot, holder.started_at.isoformat()),
            forecast_pass_limit_s=terms.get("patience_s", FORECAST_PASS_LIMIT_S),
            stopping=stopping,
        )
        if only is None:
            await _recover_state(app)
        yield app


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
    """Open one forecaster for backtests; its model calls are recorded in a ledger of the laboratory's own.

    Raises StateFolderLockedError where another backtest with models runs.
    """
    folder = config.state / LAB_FOLDER
    async with AsyncExitStack() as stack:
        outfitter = await stack.enter_async_context(_open_plugin_factory(config, registry, clock, folder=folder))
        seat = await outfitter.open_forecaster(name)
        if not seat.uses_models:
            yield BacktestForecaster(forecaster=seat, random=outfitter.random, tool_factory=None, gateway=None)
            return
        stack.enter_context(instance_lock(folder, started_at=clock.now()))
        ledger = await stack.enter_async_context(open_ledger(folder / LEDGER_FILE, now=clock.now()))
        gateway, workshop = await _open_models(outfitter, {name: seat}, ledger, forgiving=True)
        if gateway is not None:
            # The cost of a backtest is estimated next.
            await _build_cost_check(outfitter, (name,), gateway, confirmed=False).log_budget_warnings()
        yield BacktestForecaster(forecaster=seat, random=outfitter.random, tool_factory=workshop, gateway=gateway)


@asynccontextmanager
async def _open_plugin_factory(
    config: Config, registry: Registry, clock: Clock, *, folder: Path, ledger: Ledger | None = None
) -> AsyncIterator[PluginFactory]:
    """Open the plugin factory; with a ledger, requests to venues keep their rate limits.

    The write clients check the kill switch once more when their turn has come.
    """
    random = SeededRandom(config.seed)
    wanted, book = ((), None) if ledger is None else (venue_rate_limits(config, registry), ledger.rates)
    shared = None if ledger is None else SharedRateUsageFiles(folder=folder / RATE_USAGE_FOLDER, name=LOCK_HOLDER_NAME)
    rates = RateLimiter(wanted, clock=clock, random=random, store=book, shared=shared)
    client = RetryingHttpClient(clock=clock, random=random, rates=rates, proxies=config.http.proxies)
    async with client as http, AsyncExitStack() as stack:
        credentials = {} if ledger is None else _venue_credentials(config, registry, clock, ledger)
        for one in credentials.values():
            await one.load_refusal()
        yield PluginFactory(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=http,
            folder=folder,
            stack=stack,
            rates=rates,
            open_write_client=partial(
                HttpWriteClient, halt_check=_kill_switch(config, folder).halt_reason, proxies=config.http.proxies
            ),
            credentials=credentials,
        )


def _venue_credentials(config: Config, registry: Registry, clock: Clock, ledger: Ledger) -> dict[str, CredentialGuard]:
    return {
        spec.name: CredentialGuard(
            venue=spec.name,
            is_refusal=spec.is_credential_refusal,
            final_refusals=spec.final_refusals,
            compute_digest=partial(credentials_digest, config, spec),
            ledger=ledger,
            clock=clock,
        )
        for spec in registry.venues
        if spec.name in config.venues
    }


def _kill_switch(config: Config, folder: Path) -> KillSwitch:
    return KillSwitch(stop_file=config.state / STOP_FILE, ledger_file=folder / LEDGER_FILE)


def _measured_clock_skew(http: HttpClient) -> float | None:
    return http.clock_skew_s if isinstance(http, RetryingHttpClient) else None


async def _open_models(
    outfitter: PluginFactory, seats: Mapping[str, ConfiguredForecaster], ledger: Ledger, *, forgiving: bool = False
) -> tuple[LlmGateway, ToolFactory] | tuple[None, None]:
    """Open models and tools where a forecaster uses them."""
    if not any(seat.uses_models for seat in seats.values()):
        return None, None

    async def alert(subject: str, text: str) -> None:
        log.warning(subject, detail=text)
        await ledger.events.add_event("alert", f"{subject}: {text}", at=outfitter.clock.now())

    gateway = await outfitter.open_model_gateway(ledger, alert)
    return gateway, await outfitter.open_tool_factory(ledger, gateway, forgiving=forgiving)


def _build_outbox(
    opened: OpenVenues,
    guards: ExecutionWiring,
    ledger: Ledger,
    clock: Clock,
    surveyed: set[str],
    stopping: Callable[[], bool],
) -> Outbox:
    return Outbox(
        ledger=ledger,
        submitters=opened.submitters,
        clock=clock,
        kill_switch=guards.kill_switch,
        is_batch_ready=BatchWait(
            ledger=ledger, execution_policies=opened.execution_policies, discovered_venues=surveyed
        ),
        pre_send_check=guards.recheck,
        clock_fault=guards.clock_fault,
        modes={name: lane.mode for name, lane in opened.execution_policies.items()},
        accounts={name: lane.account for name, lane in opened.execution_policies.items()},
        max_unsettled={name: lane.caps.unknown_writes for name, lane in opened.execution_policies.items()},
        is_stopping=stopping,
    )


def _build_cost_check(
    outfitter: PluginFactory, seats: Iterable[str], gateway: LlmGateway | None, *, confirmed: bool
) -> CostCheck:
    config, registry = outfitter.config, outfitter.registry
    return CostCheck(
        estimates=gateway,
        ask_above_usd=config.llm.budget.ask_above_usd,
        confirmed=confirmed,
        budget_warnings=None
        if gateway is None
        else partial(budget_warnings, config, registry, tuple(seats), gateway.worst_usd),
    )


async def _recover_state(app: FoxcastApp) -> None:
    """Before anything runs.

    leases of the dead process are freed, and requests that were being sent when it died are unknown.

    A halt after a full disk is over once this can be written; a restored ledger is compared with the state at the
    venues.
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
