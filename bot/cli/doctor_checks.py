"""Checks of `foxcast doctor` beyond the installation.

Models, prices and search; permissions, halts and the audit chain; readiness of live venues as the last run found it.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from bot.app.execution_wiring import COMMENTS_NOT_ALLOWED, comment_fee
from bot.app.forecaster_requirements import budget_warnings
from bot.app.plugin_factory import PluginFactory
from bot.cli.output.formatting import format_age, format_minute
from bot.cli.trial_failures import RECENT_PERIOD, failures_summary, step_limit_warnings
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    ConfigError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    ServerUnreachableError,
    StoreError,
)
from bot.core.interfaces import ModelProvider
from bot.core.plain_text import suggest_names
from bot.core.submissions import ExecutionMode, IntentState
from bot.execution.gate.execution_policy import venue_policies
from bot.execution.gate.kill_switch import STOP_FILE, halts_besides_file, read_halt_reason
from bot.execution.gate.rules import arm_objection
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE as FILTER
from bot.llm.model_health import ModelHealthReport, report_model_health
from bot.llm.pricing import CallCostEstimator, PriceTable
from bot.llm.providers import find_missing_setup
from bot.llm.roles import ModelRoles, bare_model_name, configured_models, provider_name
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.plugin_system.registry import Registry, load_registry
from bot.store import permissions
from bot.store.audit_log import AUDIT_HEAD_FILE, AuditHead, read_exported_head
from bot.store.audit_log import AuditVerification as Verified
from bot.store.event_log import JobRunRow
from bot.store.forecast_queries import RecentFailures, read_recent_failures
from bot.store.ledger import ReadOnlyState, open_ledger_read_only, open_read_only, state_folder
from bot.store.model_calls import ModelDemotion
from bot.store.permissions import HaltEndCondition, PermissionStatus, PrincipalRecord, SubmissionHalt
from bot.store.submission_queries import OrderFilter, OrderRow, list_orders


class CheckVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What one check found, and what to do unless all is well."""

    verdict: CheckVerdict
    check: str
    found: str
    remedy: str = ""


CONFIG_REMEDY = "mend config.toml"


# A server on this machine or nearby answers at once.
SERVER_CHECK_LIMITS = HttpLimits(deadline_s=5.0, connect_s=3.0, attempts=1)


SERVER_CHECK_BYTES = 2**20


# The check that finds trials which failed.
TRIALS_CHECK = "trials"


def check_models(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    """Yield what is wrong with what forecasters work with that ask models; nothing where none of them does."""
    if not config.llm.roles or not any(spec.asks_models for spec in registry.forecasters):
        return
    faults = [*_check_endpoints(config, registry)]
    yield from faults
    if not faults:
        yield from asyncio.run(_check_servers(config, registry))
        yield from asyncio.run(_check_providers(config, registry))
    yield from _check_search(config, registry)


def check_demoted_models(path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield the models that are replaced for a while, out of a ledger."""
    try:
        found = asyncio.run(_load_demotions(path, now))
    except StoreError:
        return  # as the soundness says
    for one in found:
        role = f" as {one.role}" if one.role else ""
        told = (
            f"{one.model} is replaced{role} until {format_minute(one.until)} UTC, where there is a fallback: {one.why}"
        )
        yield CheckFinding(CheckVerdict.WARN, "demoted", told, "name another model in [llm.roles], or wait")


def check_model_health(config: Config, path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield the models that do badly in the roles that they play now, out of a ledger: a line for each."""
    try:
        found = asyncio.run(_load_model_reports(config, path, now))
    except StoreError:
        return  # as the soundness says
    for one in found:
        table = config.llm.roles.get(one.role)
        if one.problems and table is not None and one.model in {table.model, table.fallback}:
            told = f"{one.forecaster} {one.role} {one.model}".strip() + f": {'; '.join(one.problems)}"
            remedy = f"look at a trial with foxcast explain, or name another model in [llm.roles.{one.role}]"
            yield CheckFinding(CheckVerdict.WARN, "model health", told, remedy)


async def _load_model_reports(config: Config, path: Path, now: datetime) -> Sequence[ModelHealthReport]:
    async with open_ledger_read_only(path) as ledger:
        return await report_model_health(ledger.model_performance, config.llm.health, now=now)


def check_failed_trials(path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield what went wrong with trials in the last day, out of a ledger; it fails where questions have no forecast."""
    try:
        found = asyncio.run(_load_recent_failures(path, now))
    except StoreError:
        return  # as the soundness says
    if line := failures_summary(found):
        verdict = CheckVerdict.FAIL if found.postponed_questions else CheckVerdict.WARN
        remedy = "mend what it names; every trial: foxcast show QUESTION"
        yield CheckFinding(verdict, TRIALS_CHECK, f"in the last 24 hours: {line}", remedy)
    for line in step_limit_warnings(found):
        remedy = "raise steps in [forecasters.NAME] and in its settings, or name another model in [llm.roles]"
        yield CheckFinding(CheckVerdict.WARN, "steps", f"in the last 24 hours {line}", remedy)


async def _load_recent_failures(path: Path, now: datetime) -> RecentFailures:
    async with open_ledger_read_only(path) as ledger:
        return await read_recent_failures(ledger.forecasts.readers, now - RECENT_PERIOD)


async def _load_demotions(path: Path, now: datetime) -> tuple[ModelDemotion, ...]:
    async with open_ledger_read_only(path) as ledger:
        return tuple(await ledger.model_performance.demotions(now=now))


def _check_endpoints(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    for model in configured_models(config.llm):
        endpoints = _provider_setting(model, "endpoints", config, registry)
        if endpoints is None:
            continue
        endpoint, _, name = bare_model_name(model).partition("/")
        if endpoint not in endpoints or not name:
            found = f"{model} names no endpoint of [models.{provider_name(model)}.settings.endpoints]"
            known = suggest_names(endpoint, endpoints)
            yield CheckFinding(CheckVerdict.FAIL, "endpoints", f"{found} ({known})", CONFIG_REMEDY)


def _provider_setting(model: str, name: str, config: Config, registry: Registry) -> Mapping[str, Any] | None:
    """Return a table of a provider's settings by the part of a model before the slash; None where it has no such one.

    ``endpoints`` has what is named ``ENDPOINT/NAME``, ``base_urls`` the addresses of providers behind a library. What
    else a provider knows only it can tell, and to ask it would load its library.
    """
    provider = provider_name(model)
    if provider not in registry.models:
        return None
    try:
        table = getattr(load_plugin_settings(registry.models[provider], config), name, None)
    except ConfigError:
        return None  # as the check of the settings says
    return table if isinstance(table, Mapping) else None


def _model_address(model: str, config: Config, registry: Registry) -> str | None:
    """Return the address that config names for a model, if it does."""
    server = bare_model_name(model).partition("/")[0]
    endpoint = (_provider_setting(model, "endpoints", config, registry) or {}).get(server)
    found = getattr(endpoint, "base_url", None) or (_provider_setting(model, "base_urls", config, registry) or {}).get(
        server
    )
    return found if isinstance(found, str) else None


async def _check_servers(config: Config, registry: Registry) -> list[CheckFinding]:
    """Look whether there is somebody at each address that config names for a model; no key and no prompt is sent."""
    models: dict[str, list[str]] = {}
    for model in configured_models(config.llm):
        if (address := _model_address(model, config, registry)) is not None:
            models.setdefault(address, []).append(model)
    clock = SystemClock()
    random, proxies = SeededRandom(config.seed), config.http.proxies
    async with RetryingHttpClient(clock=clock, random=random, limits=SERVER_CHECK_LIMITS, proxies=proxies) as http:
        whys = await asyncio.gather(*(_connection_error(http, address) for address in models))
    remedy = "start the server, or correct its address in the settings of [models]"
    found = zip(models.values(), whys, strict=True)
    return [
        CheckFinding(CheckVerdict.FAIL, "endpoints", f"{', '.join(named)}: {why}", remedy)
        for named, why in found
        if why
    ]


async def _connection_error(http: RetryingHttpClient, address: str) -> str:
    try:
        await http.get(f"{address}/models", max_bytes=SERVER_CHECK_BYTES)
    except ServerUnreachableError as error:
        return str(error)
    except FoxcastError:
        pass  # whatever it says, somebody is there
    return ""


async def _check_providers(config: Config, registry: Registry) -> list[CheckFinding]:
    """Ask the providers what is missing and what they cost, which loads their libraries and sends nothing."""
    clock, random = SystemClock(), SeededRandom(config.seed)
    async with AsyncExitStack() as stack:
        outfitter = PluginFactory(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=await stack.enter_async_context(
                RetryingHttpClient(clock=clock, random=random, proxies=config.http.proxies)
            ),
            folder=state_folder(config),
            stack=stack,
        )
        try:
            llms = await outfitter.open_providers()
        except FoxcastError as error:
            return [CheckFinding(CheckVerdict.FAIL, "models", str(error), CONFIG_REMEDY)]
        lacks = [
            (model, await _missing_credentials(llms[provider_name(model)], model))
            for model in configured_models(config.llm)
        ]
        found = [
            CheckFinding(CheckVerdict.FAIL, "keys", f"{model}: {what}", remedy)
            for model, (what, remedy) in lacks
            if what
        ]
        tariff = PriceTable(config.llm.models)
        for model in configured_models(config.llm):
            found += await _check_price(tariff, model, llms[provider_name(model)])
        prices = CallCostEstimator(roles=ModelRoles(config.llm, frozenset(llms)), price_table=tariff, providers=llms)
        for why in await budget_warnings(config, registry, _used_forecasters(config, registry), prices.call_usd):
            found.append(CheckFinding(CheckVerdict.WARN, "budget", f"trials wait for each other's budget: {why}"))
        return found


async def _missing_credentials(llm: ModelProvider, model: str) -> tuple[str, str]:
    """Return what is missing, and what to do about it."""
    try:
        what, _, remedy = (await find_missing_setup(llm, model) or "").partition("; ")
    except FoxcastError as error:
        return str(error), CONFIG_REMEDY
    return what, remedy


async def _check_price(tariff: PriceTable, model: str, llm: ModelProvider) -> list[CheckFinding]:
    try:
        await tariff.model_price(model, llm)
    except ConfigError:
        remedy = f'[llm.models."{model}"] price_in = ... and price_out = ..., or free = true'
        return [CheckFinding(CheckVerdict.WARN, "prices", f"{model} has no price, so it will not be asked", remedy)]
    except FoxcastError:
        return []  # what cannot be told now may be known when it is asked
    return []


def _used_forecasters(config: Config, registry: Registry) -> list[str]:
    used = dict.fromkeys(name for table in config.venues.values() for name in table.all_forecasters)
    return [name for name in used if name in registry.forecasters]


def _check_search(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    there = registry.search_engines
    named = config.research.search or there.names
    # A name that nobody offers is refused with the registry.
    engines = [there[name] for name in named if name in there]
    if not engines:
        yield CheckFinding(
            CheckVerdict.WARN, "search", "no search engine is enabled", "name one in plugins of config.toml"
        )
        return
    dating = [spec.name for spec in registry.venues if spec.archive is not None and spec.name in config.venues]
    if dating and not any(spec.bounds_dates for spec in engines):
        found = f"no enabled search engine can bound dates, so questions of {', '.join(dating)} are not searched for"
        yield CheckFinding(CheckVerdict.WARN, "search", found, "enable one that can: foxcast plugins")
    if config.research.filter and FILTER not in config.llm.roles:
        found = "research.filter = true and no model plays the role filter, so questions of earlier days get no pages"
        yield CheckFinding(CheckVerdict.WARN, "filter", found, f'[llm.roles.{FILTER}] model = "PROVIDER:NAME"')


def check_permissions(config: Config, path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield who may do what, what is stopped or in doubt, which live venues are armed, and whether the audit is whole.

    Where there is no ledger yet, only what live venues lack.
    """
    if not path.exists():
        yield _check_halts(config, ())
        yield from _check_arm_records(config, PermissionStatus(), now)
        return
    try:
        known, standing, verified, doubts = asyncio.run(_load_permissions(config, path, now))
    except (StoreError, MalformedDataError):
        yield _check_halts(config, ())
        return  # as the soundness says
    yield _check_halts(config, standing.halts)
    yield _check_principals(known)
    yield from _check_arm_records(config, standing, now)
    for venue, count in doubts.items():
        found = (
            f"{count} {'submission is' if count == 1 else 'submissions are'} in doubt at {venue}, and count as spent"
        )
        remedy = "foxcast orders --open names them; look at the venue, then say so: foxcast orders adopt"
        yield CheckFinding(CheckVerdict.WARN, "in doubt", found, remedy)
    if verified.sound:
        yield CheckFinding(CheckVerdict.OK, "audit", f"{verified.rows} rows, the chain is whole")
    else:
        yield CheckFinding(CheckVerdict.FAIL, "audit", verified.why, "compare it with a backup and with the venues")


def _check_halts(config: Config, stops: Sequence[SubmissionHalt]) -> CheckFinding:
    """Return one row about all that holds something back until a person resumes it."""
    file = config.state / STOP_FILE
    others = halts_besides_file(file, stops)
    held, remedies = [str(stop) for stop in others], dict.fromkeys(stop.remedy for stop in others)
    if file.exists():
        why = read_halt_reason(file)
        held.insert(0, f"{file} is there, so nothing leaves" + (f": {why}" if why else ""))
        remedies = {f"to go on run: foxcast resume, or rm {file}": None, **remedies}
    if not held:
        return CheckFinding(CheckVerdict.OK, "halt", "not halted")
    return CheckFinding(CheckVerdict.WARN, "halt", "; ".join(held), "; ".join(remedies))


def _check_arm_records(config: Config, standing: PermissionStatus, now: datetime) -> Iterator[CheckFinding]:
    try:
        registry = load_registry(config)
        lanes = venue_policies(config, registry.specs_of_table)
        commenting = [
            lane for lane in lanes.values() if lane.is_live and lane.posts_comments and lane.venue in registry.venues
        ]
        silent = [lane.venue for lane in commenting if comment_fee(config, registry, lane) is None]
    except ConfigError:
        return  # as the plugins say
    for venue in silent:
        yield CheckFinding(CheckVerdict.WARN, "comments", f"{venue}: {COMMENTS_NOT_ALLOWED}", "set both, or neither")
    for venue, lane in lanes.items():
        if not lane.is_live:
            continue
        arm = standing.arms.get(venue)
        if (why := arm_objection(lane, arm, now)) is not None or arm is None:
            yield CheckFinding(CheckVerdict.WARN, "armed", why or f"{venue} is not armed")
        else:
            yield CheckFinding(CheckVerdict.OK, "armed", f"{venue} is armed until {arm.until:%Y-%m-%d %H:%M} UTC")


def _check_principals(known: list[PrincipalRecord]) -> CheckFinding:
    if not known:
        found = "nobody has a token, so whoever can use this state folder is an approver"
        return CheckFinding(CheckVerdict.OK, "roles", found)
    return CheckFinding(CheckVerdict.OK, "roles", ", ".join(f"{one.name} ({one.role})" for one in known))


async def _load_permissions(
    config: Config, path: Path, now: datetime
) -> tuple[list[PrincipalRecord], PermissionStatus, Verified, Mapping[str, int]]:
    accounts = {name: table.account for name, table in config.venues.items()}
    try:
        head: AuditHead | None = read_exported_head(path.parent / AUDIT_HEAD_FILE)
    except NotFoundError:
        head = None
    async with open_ledger_read_only(path) as ledger:
        leaves = await ledger.permissions.read_status(accounts, now=now)
        doubts: Counter[str] = Counter()
        for row in await ledger.submissions.batches(states=[IntentState.IN_DOUBT]):
            doubts[row.venue] += row.counts.get(IntentState.IN_DOUBT, 0)
        return await ledger.permissions.principals(), leaves, await ledger.permissions.verify(head), doubts


READINESS_JOB = "ready"


# As the job that looks at them tells of them.
_FAULT_PATTERN = re.compile(r"(?:^|, )(credentials|reconciliation|clock|database|audit): ")


# The last request of a venue is among so many orders, or it is long ago.
_MAX_ORDERS_READ = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRunState:
    """What the last run left: how it found live venues, what has no answer there, and what was sent last.

    ``refused_credentials`` are the venues that refused the credentials and are asked nothing more.
    """

    run: JobRunRow | None = None
    unanswered_submissions: Mapping[str, Mapping[IntentState, int]] = field(default_factory=dict)
    last: Mapping[str, OrderRow] = field(default_factory=dict)
    refused_credentials: Mapping[str, SubmissionHalt] = field(default_factory=dict)


def load_last_run(config: Config, ledger: Path, now: datetime) -> LastRunState:
    """Read what the last run left; nothing where there is no ledger or none that can be read, as its check says."""
    live = live_venue_names(config)
    if not live or not ledger.exists():
        return LastRunState()
    try:
        return asyncio.run(_read_last_run(config, live, now))
    except FoxcastError:
        return LastRunState()


def live_venue_names(config: Config) -> list[str]:
    """Return the venues in mode live."""
    return [name for name in config.venues if config.mode_of(name) is ExecutionMode.LIVE]


def readiness_faults(run: JobRunRow | None, venues: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return what the job found wrong with each venue that it looked at, by what it looked at; {} for one all well."""
    if run is None or not run.ok:
        return {}
    names = "|".join(re.escape(name) for name in sorted(venues, key=len, reverse=True))
    _, *told = re.split(rf"(?:^|; )({names}): ", run.detail) if names else [""]
    return {name: dict(_split_faults(said)) for name, said in zip(told[::2], told[1::2], strict=True)}


def _split_faults(said: str) -> Iterator[tuple[str, str]]:
    _, *found = _FAULT_PATTERN.split(said)
    yield from zip(found[::2], found[1::2], strict=True)


def clock_fault(found: LastRunState, venues: Sequence[str]) -> str:
    """Return what the last run found wrong with the clock, "" for nothing."""
    faults = (parts.get("clock", "") for parts in readiness_faults(found.run, venues).values())
    return next((fault for fault in faults if fault), "")


def check_readiness(config: Config, registry: Registry, found: LastRunState, now: datetime) -> Iterator[CheckFinding]:
    """Yield for each live venue whose plugin works what keeps its submissions back."""
    live = [name for name in live_venue_names(config) if name in registry.venues]
    looked = readiness_faults(found.run, live)
    for venue in live:
        if (stop := found.refused_credentials.get(venue)) is not None:
            told = f"{venue}: {stop.why}, {format_age(now - stop.at)}; nothing more is asked there"
            yield CheckFinding(CheckVerdict.WARN, "credentials", told, stop.remedy)
        else:
            yield from _check_credentials(
                venue, found.run, looked, now, is_proved=registry.venues[venue].check is not None
            )
        yield from _check_unanswered(venue, found.unanswered_submissions.get(venue, {}))
        yield from _check_refusals(venue, found.last.get(venue), now)


def _check_credentials(
    venue: str, run: JobRunRow | None, looked: Mapping[str, Mapping[str, str]], now: datetime, *, is_proved: bool
) -> Iterator[CheckFinding]:
    again = f"to look again: foxcast preflight {venue}"
    if run is not None and not run.ok:
        told = f"{venue}: the last look at what it needs failed, {format_age(now - run.ended_at)}: {run.detail}"
        yield CheckFinding(CheckVerdict.WARN, READINESS_JOB, told, again)
    elif run is None or venue not in looked:
        if is_proved:
            told = f"{venue}: not proved yet, and nothing is submitted before"
            yield CheckFinding(CheckVerdict.WARN, "credentials", told, f"to look: foxcast preflight {venue}")
    elif why := looked[venue].get("credentials"):
        told = f"{venue}: {why} (found {format_age(now - run.ended_at)})"
        yield CheckFinding(CheckVerdict.WARN, "credentials", told, f"mend it, and {again}")
    elif is_proved:
        yield CheckFinding(CheckVerdict.OK, "credentials", f"{venue}: good {format_age(now - run.ended_at)}")


def _check_unanswered(venue: str, counts: Mapping[IntentState, int]) -> Iterator[CheckFinding]:
    parts = [
        f"{counts[state]} {words}"
        for state, words in ((IntentState.SENDING, "on the way"), (IntentState.UNKNOWN, "without an answer"))
        if counts.get(state)
    ]
    if parts:
        found = f"{venue}: {', '.join(parts)}; a run reads that back before it sends anything else"
        yield CheckFinding(CheckVerdict.WARN, "unsettled", found, "look: foxcast orders --open")


def _check_refusals(venue: str, last: OrderRow | None, now: datetime) -> Iterator[CheckFinding]:
    if last is not None and last.row.state is IntentState.REFUSED:
        why = last.why or "it did not say why"
        found = f"{venue}: the last that was sent was refused, {format_age(now - last.row.changed_at)}: {why}"
        yield CheckFinding(CheckVerdict.WARN, "refused", found, f"look: foxcast orders show {last.row.intent.id}")


async def _read_last_run(config: Config, live: Sequence[str], now: datetime) -> LastRunState:
    async with open_read_only(config) as records:
        runs = {run.name: run for run in await records.ledger.events.last_runs()}
        standing = await records.ledger.permissions.read(permissions.list_active_halts)
        return LastRunState(
            run=runs.get(READINESS_JOB),
            unanswered_submissions=await _count_unanswered(records, live),
            last={venue: row for venue in live if (row := await _last_sent_order(records, venue, now)) is not None},
            refused_credentials={
                stop.venue: stop for stop in standing if stop.end_condition is HaltEndCondition.RENEWED
            },
        )


async def _count_unanswered(records: ReadOnlyState, live: Sequence[str]) -> Mapping[str, Counter[IntentState]]:
    found = {venue: Counter[IntentState]() for venue in live}
    for row in await records.ledger.submissions.batches(states=[IntentState.SENDING, IntentState.UNKNOWN]):
        if row.venue in found and row.mode is not ExecutionMode.PAPER:
            found[row.venue].update(row.counts)
    return found


async def _last_sent_order(records: ReadOnlyState, venue: str, now: datetime) -> OrderRow | None:
    """Return what was sent to a venue last, for real."""
    asked = OrderFilter(now=now, venue=venue, limit=_MAX_ORDERS_READ, paper=False)
    rows = await records.ledger.submissions.readers.run(lambda database: list_orders(database, asked))
    sent = [row for row in rows if row.attempts]
    return max(sent, key=lambda row: row.attempts[0].started_at) if sent else None
