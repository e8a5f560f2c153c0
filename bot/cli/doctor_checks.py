"""Checks of `foxcast doctor` beyond the installation: models, prices and search, permissions, halts and the audit.

The readiness of live venues is what the last run found.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text

from bot.cli.health_report import CheckFinding, CheckVerdict
from bot.cli.output.console import ColumnKind, TableColumn, make_table, stdout_console
from bot.cli.output.trial_text import RECENT_PERIOD, failures_summary, step_limit_warnings
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
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import suggest_names
from bot.core.submissions import ExecutionMode, IntentState
from bot.evaluation.value_text import format_age, format_minute
from bot.execution.gate.execution_policy import ExecutionPolicy, venue_policies
from bot.execution.gate.kill_switch import STOP_FILE, halts_besides_file, read_halt_reason
from bot.execution.gate.readiness import READINESS_JOB, readiness_faults
from bot.execution.gate.rules import arm_objection
from bot.forecasting.leak_guard.content_filter import FILTER_ROLE
from bot.llm.adaptive_limit import LimitReason
from bot.llm.model_health import ModelHealthReport, report_model_health
from bot.llm.pricing import CallCostEstimator, PriceTable
from bot.llm.providers import describe_call_path, find_missing_setup
from bot.llm.roles import ModelRoles, bare_model_name, configured_models, provider_name
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.plugin_system.registry import Registry
from bot.store import permissions
from bot.store.audit_log import AUDIT_HEAD_FILE, AuditHead, AuditVerification, read_exported_head
from bot.store.cap_usage import count_named_groups
from bot.store.event_log import JobRunRow
from bot.store.forecast_queries import RecentFailures, read_recent_failures
from bot.store.ledger import ReadOnlyState, open_ledger_read_only, open_read_only, state_folder
from bot.store.model_calls import ModelDemotion
from bot.store.model_concurrency import ModelConcurrency
from bot.store.permissions import HaltEndCondition, PermissionStatus, PrincipalRecord, SubmissionHalt
from bot.store.submission_queries import OrderFilter, OrderRow, list_orders

_COLUMNS = (TableColumn(""), TableColumn("check"), TableColumn("found", ColumnKind.TEXT))
_VERDICT_STYLES = {CheckVerdict.OK: "green", CheckVerdict.WARN: "yellow", CheckVerdict.FAIL: "bold red"}


def print_findings(findings: Iterable[CheckFinding]) -> None:
    """Print findings as a table, each with its remedy."""
    stdout_console().print(make_table(_COLUMNS, [_finding_cells(finding) for finding in findings]))


def _finding_cells(finding: CheckFinding) -> tuple[Text, str, str]:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    style = _VERDICT_STYLES[finding.verdict]
    return Text(finding.verdict.value, style=style), finding.check, f"{finding.found}{remedy}"


CONFIG_REMEDY = "correct config.toml"


# A server on this machine or nearby answers at once.
SERVER_CHECK_LIMITS = HttpLimits(deadline_s=5.0, connect_s=3.0, attempts=1)


SERVER_CHECK_BYTES = 2**20


# The check of failed trials.
TRIALS_CHECK = "trials"


def check_models(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    """Yield the faults of models and search, if a forecaster uses models."""
    if not config.llm.roles or not any(spec.asks_models for spec in registry.forecasters):
        return
    faults = [*_check_endpoints(config, registry)]
    yield from faults
    if not faults:
        yield from asyncio.run(_check_servers(config, registry))
        yield from asyncio.run(_check_providers(config, registry))
    yield from _check_search(config, registry)


def check_demoted_models(path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield the models that are replaced for some time, according to the ledger."""
    try:
        found = asyncio.run(_load_demotions(path, now))
    except StoreError:
        return  # reported by the integrity check
    for one in found:
        role = f" as {one.role}" if one.role else ""
        text = (
            f"{one.model} is replaced{role} until {format_minute(one.until)} UTC, where there is a fallback: {one.why}"
        )
        yield CheckFinding(CheckVerdict.WARN, "demoted", text, "name another model in [llm.roles], or wait")


def check_model_health(config: Config, path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield the models with poor health in their current roles, according to the ledger."""
    try:
        found = asyncio.run(_load_model_reports(config, path, now))
    except StoreError:
        return  # reported by the integrity check
    for one in found:
        table = config.llm.roles.get(one.role)
        if one.problems and table is not None and one.model in {table.model, table.fallback}:
            text = f"{one.forecaster} {one.role} {one.model}".strip() + f": {'; '.join(one.problems)}"
            remedy = f"inspect a trial with foxcast explain, or name another model in [llm.roles.{one.role}]"
            yield CheckFinding(CheckVerdict.WARN, "model health", text, remedy)


def check_process_load(path: Path) -> Iterator[CheckFinding]:
    """Yield the models that would get more requests if the process that asks them had less to do."""
    try:
        found = asyncio.run(_load_concurrency(path))
    except StoreError:
        return  # reported by the integrity check
    for one in found:
        if one.reason == LimitReason.PROCESS:
            text = f"{one.model}: {one.in_flight} calls are open of {int(one.concurrency)} that it may get: "
            text += "one process has no CPU for more"
            remedy = "see How much at once in docs/models.md; backtests: --workers"
            yield CheckFinding(CheckVerdict.WARN, "process", text, remedy)


async def _load_concurrency(path: Path) -> Sequence[ModelConcurrency]:
    async with open_ledger_read_only(path) as ledger:
        return await ledger.model_concurrency.load()


async def _load_model_reports(config: Config, path: Path, now: datetime) -> Sequence[ModelHealthReport]:
    async with open_ledger_read_only(path) as ledger:
        return await report_model_health(ledger.model_performance, config.llm.health, now=now)


def check_caps(config: Config, path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield the caps that bound nothing, because no open question of their venue names what they count."""
    try:
        found = asyncio.run(_load_named_groups(path, [*config.venues], now))
    except StoreError:
        return  # reported by the integrity check
    for venue, (count, named) in found.items():
        for group, times in named.items():
            if count and not times and getattr(config.venues[venue].caps, f"per_{group}") is not None:
                text = f"{venue}: caps.per_{group} bounds nothing: none of its {count} open questions names its {group}"
                yield CheckFinding(
                    CheckVerdict.WARN, "caps", text, f"remove it, or have the plugin of the venue set Question.{group}"
                )


async def _load_named_groups(
    path: Path, venues: Sequence[str], now: datetime
) -> Mapping[str, tuple[int, Mapping[str, int]]]:
    async with open_ledger_read_only(path) as ledger:
        readers = ledger.events.readers
        return {venue: await readers.run(partial(count_named_groups, venue=venue, at=now)) for venue in venues}


def check_failed_trials(path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield the failed trials of the last day; the check fails if questions have no forecast because of them."""
    try:
        found = asyncio.run(_load_recent_failures(path, now))
    except StoreError:
        return  # reported by the integrity check
    if line := failures_summary(found):
        verdict = CheckVerdict.FAIL if found.postponed_questions else CheckVerdict.WARN
        remedy = "correct the cause; all trials: foxcast show QUESTION"
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
    """Return a setting of the provider of a model that is a table; None if it has no such table.

    ``endpoints`` has models named ``ENDPOINT/NAME``, ``base_urls`` the addresses of providers behind a library. Any
    other information would need the library of the provider.
    """
    provider = provider_name(model)
    if provider not in registry.models:
        return None
    try:
        table = getattr(load_plugin_settings(registry.models[provider], config), name, None)
    except ConfigError:
        return None  # reported by the check of the settings
    return table if isinstance(table, Mapping) else None


def _model_address(model: str, config: Config, registry: Registry) -> str | None:
    """Return the address of a model from the configuration; None if it has none."""
    server = bare_model_name(model).partition("/")[0]
    endpoint = (_provider_setting(model, "endpoints", config, registry) or {}).get(server)
    found = getattr(endpoint, "base_url", None) or (_provider_setting(model, "base_urls", config, registry) or {}).get(
        server
    )
    return found if isinstance(found, str) else None


async def _check_servers(config: Config, registry: Registry) -> list[CheckFinding]:
    """Check that a server answers at each configured address of a model; no key and no prompt is sent."""
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
        pass  # an error of the server still shows that it is there
    return ""


async def _check_providers(config: Config, registry: Registry) -> list[CheckFinding]:
    """Ask the providers for missing setup and prices; this loads their libraries and sends nothing."""
    from bot.app.forecaster_requirements import budget_warnings
    from bot.app.plugin_factory import PluginFactory

    clock, random = SystemClock(), SeededRandom(config.seed)
    async with AsyncExitStack() as stack:
        plugins = PluginFactory(
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
            providers = await plugins.open_providers()
        except FoxcastError as error:
            return [CheckFinding(CheckVerdict.FAIL, "models", str(error), CONFIG_REMEDY)]
        lacks = [
            (model, await _missing_credentials(providers[provider_name(model)], model))
            for model in configured_models(config.llm)
        ]
        found = [
            CheckFinding(CheckVerdict.FAIL, "keys", f"{model}: {what}", remedy)
            for model, (what, remedy) in lacks
            if what
        ]
        found += [
            CheckFinding(CheckVerdict.OK, "model calls", f"{model}: {path}")
            for model in configured_models(config.llm)
            if (path := describe_call_path(providers[provider_name(model)], model)) is not None
        ]
        prices = PriceTable(config.llm.models)
        for model in configured_models(config.llm):
            found += await _check_price(prices, model, providers[provider_name(model)])
        roles = ModelRoles(config.llm, frozenset(providers))
        estimator = CallCostEstimator(roles=roles, price_table=prices, providers=providers)
        for why in await budget_warnings(config, registry, _used_forecasters(config, registry), estimator.call_usd):
            found.append(CheckFinding(CheckVerdict.WARN, "budget", f"trials wait for budget of other trials: {why}"))
        return found


async def _missing_credentials(provider: ModelProvider, model: str) -> tuple[str, str]:
    """Return what is missing and the remedy."""
    try:
        what, _, remedy = (await find_missing_setup(provider, model) or "").partition("; ")
    except FoxcastError as error:
        return str(error), CONFIG_REMEDY
    return what, remedy


async def _check_price(prices: PriceTable, model: str, provider: ModelProvider) -> list[CheckFinding]:
    try:
        await prices.model_price(model, provider)
    except ConfigError:
        remedy = f'[llm.models."{model}"] price_in = ... and price_out = ..., or free = true'
        return [CheckFinding(CheckVerdict.WARN, "prices", f"{model} has no price, so it will not be used", remedy)]
    except FoxcastError:
        return []  # the price may be available later
    return []


def _used_forecasters(config: Config, registry: Registry) -> list[str]:
    used = dict.fromkeys(name for table in config.venues.values() for name in table.all_forecasters)
    return [name for name in used if name in registry.forecasters]


def _check_search(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    available = registry.search_engines
    names = config.research.search or available.names
    # The check of the plugins reports a name that no plugin offers.
    engines = [available[name] for name in names if name in available]
    if not engines:
        yield CheckFinding(
            CheckVerdict.WARN, "search", "no search engine is enabled", "name one in plugins of config.toml"
        )
        return
    with_archive = [spec.name for spec in registry.venues if spec.archive is not None and spec.name in config.venues]
    if with_archive and not any(spec.bounds_dates for spec in engines):
        found = f"no enabled search engine can limit dates, so there is no search for {', '.join(with_archive)}"
        yield CheckFinding(CheckVerdict.WARN, "search", found, "enable one that can: foxcast plugins")
    if config.research.filter and FILTER_ROLE not in config.llm.roles:
        found = "research.filter = true but no model has the role filter: questions with an earlier cutoff get no pages"
        yield CheckFinding(CheckVerdict.WARN, "filter", found, f'[llm.roles.{FILTER_ROLE}] model = "PROVIDER:NAME"')


def check_permissions(config: Config, registry: Registry | None, path: Path, now: datetime) -> Iterator[CheckFinding]:
    """Yield roles, halts, submissions in doubt, arm records of live venues, and the state of the audit chain.

    Without a ledger, only halts and missing arm records are reported; without a registry, no arm records.
    """
    if not path.exists():
        yield _check_halts(config, ())
        yield from _check_arm_records(config, registry, PermissionStatus(), now)
        return
    try:
        known, status, verified, in_doubt = asyncio.run(_load_permissions(config, path, now))
    except (StoreError, MalformedDataError):
        yield _check_halts(config, ())
        return  # reported by the integrity check
    yield _check_halts(config, status.halts)
    yield _check_principals(known)
    yield from _check_arm_records(config, registry, status, now)
    for venue, count in in_doubt.items():
        found = (
            f"{count} {'submission is' if count == 1 else 'submissions are'} in doubt at {venue}, and count as spent"
        )
        remedy = "foxcast orders --open lists them; check the venue, then run: foxcast orders adopt"
        yield CheckFinding(CheckVerdict.WARN, "in doubt", found, remedy)
    if verified.sound:
        yield CheckFinding(CheckVerdict.OK, "audit", f"{verified.rows} rows, the chain is intact")
    else:
        yield CheckFinding(
            CheckVerdict.FAIL, "audit", verified.why, "compare the ledger with a backup and with the venues"
        )


def _check_halts(config: Config, stops: Sequence[SubmissionHalt]) -> CheckFinding:
    """Return one finding about all halts that a person must end."""
    file = config.state / STOP_FILE
    others = halts_besides_file(file, stops)
    halts, remedies = [str(stop) for stop in others], dict.fromkeys(stop.remedy for stop in others)
    if file.exists():
        why = read_halt_reason(file)
        halts.insert(0, f"{file} exists, so nothing is submitted" + (f": {why}" if why else ""))
        remedies = {f"to continue: foxcast resume, or rm {file}": None, **remedies}
    if not halts:
        return CheckFinding(CheckVerdict.OK, "halt", "not halted")
    return CheckFinding(CheckVerdict.WARN, "halt", "; ".join(halts), "; ".join(remedies))


def _check_arm_records(
    config: Config, registry: Registry | None, status: PermissionStatus, now: datetime
) -> Iterator[CheckFinding]:
    if registry is None:
        return  # reported by the check of the plugins
    try:
        policies = venue_policies(config, registry.specs_of_table)
        commenting = [
            policy
            for policy in policies.values()
            if policy.is_live and policy.posts_comments and policy.venue in registry.venues
        ]
        silent = _venues_without_comments(config, registry, commenting)
    except ConfigError:
        return  # reported by the check of the plugins
    for venue, reason in silent.items():
        yield CheckFinding(CheckVerdict.WARN, "comments", f"{venue}: {reason}", "set both, or neither")
    for venue, policy in policies.items():
        if not policy.is_live:
            continue
        arm = status.arms.get(venue)
        if (why := arm_objection(policy, arm, now)) is not None or arm is None:
            yield CheckFinding(CheckVerdict.WARN, "armed", why or f"{venue} is not armed")
        else:
            yield CheckFinding(CheckVerdict.OK, "armed", f"{venue} is armed until {arm.until:%Y-%m-%d %H:%M} UTC")


def _venues_without_comments(
    config: Config, registry: Registry, commenting: Sequence[ExecutionPolicy]
) -> dict[str, str]:
    """Return the venues that allow no comments, and why, of those that are to get some."""
    if not commenting:
        return {}  # the import takes a tenth of the command
    from bot.app.execution_wiring import COMMENTS_NOT_ALLOWED, comment_fee

    return {one.venue: COMMENTS_NOT_ALLOWED for one in commenting if comment_fee(config, registry, one) is None}


def _check_principals(known: list[PrincipalRecord]) -> CheckFinding:
    if not known:
        found = "nobody has a token, so every user of this state folder is an approver"
        return CheckFinding(CheckVerdict.OK, "roles", found)
    return CheckFinding(CheckVerdict.OK, "roles", ", ".join(f"{one.name} ({one.role})" for one in known))


async def _load_permissions(
    config: Config, path: Path, now: datetime
) -> tuple[list[PrincipalRecord], PermissionStatus, AuditVerification, Mapping[str, int]]:
    accounts = {name: table.account for name, table in config.venues.items()}
    try:
        head: AuditHead | None = read_exported_head(path.parent / AUDIT_HEAD_FILE)
    except NotFoundError:
        head = None
    async with open_ledger_read_only(path) as ledger:
        status = await ledger.permissions.read_status(accounts, now=now)
        in_doubt: Counter[str] = Counter()
        for row in await ledger.submissions.batches(states=[IntentState.IN_DOUBT]):
            in_doubt[row.venue] += row.counts.get(IntentState.IN_DOUBT, 0)
        return await ledger.permissions.principals(), status, await ledger.permissions.verify(head), in_doubt


# The last request to a venue is searched among this many newest orders.
_MAX_ORDERS_READ = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRunState:
    """The state of live venues after the last run: readiness, submissions without an answer, and the last order sent.

    ``refused_credentials`` holds the venues that refused the credentials; they get no more requests.
    """

    run: JobRunRow | None = None
    unanswered_submissions: Mapping[str, Mapping[IntentState, int]] = field(default_factory=dict)
    last: Mapping[str, OrderRow] = field(default_factory=dict)
    refused_credentials: Mapping[str, SubmissionHalt] = field(default_factory=dict)


def load_last_run(config: Config, ledger: Path, now: datetime) -> LastRunState:
    """Load the state of the last run; it is empty without a readable ledger, which has a check of its own."""
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


def clock_fault(found: LastRunState, venues: Sequence[str]) -> str:
    """Return the fault of the clock that the last run found, "" for none."""
    faults = (parts.get("clock", "") for parts in readiness_faults(found.run, venues).values())
    return next((fault for fault in faults if fault), "")


def check_readiness(config: Config, registry: Registry, found: LastRunState, now: datetime) -> Iterator[CheckFinding]:
    """Yield what prevents submissions at each live venue whose plugin works."""
    live = [name for name in live_venue_names(config) if name in registry.venues]
    faults = readiness_faults(found.run, live)
    for venue in live:
        if (stop := found.refused_credentials.get(venue)) is not None:
            text = f"{venue}: {stop.why}, {format_age(now - stop.at)}; no more requests are sent there"
            yield CheckFinding(CheckVerdict.WARN, "credentials", text, stop.remedy)
        else:
            yield from _check_credentials(
                venue, found.run, faults, now, is_verifiable=registry.venues[venue].check is not None
            )
        yield from _check_unanswered(venue, found.unanswered_submissions.get(venue, {}))
        yield from _check_refusals(venue, found.last.get(venue), now)


def _check_credentials(
    venue: str, run: JobRunRow | None, faults: Mapping[str, Mapping[str, str]], now: datetime, *, is_verifiable: bool
) -> Iterator[CheckFinding]:
    again = f"to check again: foxcast preflight {venue}"
    if run is not None and not run.ok:
        text = f"{venue}: the last readiness check failed, {format_age(now - run.ended_at)}: {run.detail}"
        yield CheckFinding(CheckVerdict.WARN, READINESS_JOB, text, again)
    elif run is None or venue not in faults:
        if is_verifiable:
            text = f"{venue}: not verified yet; nothing is submitted before that"
            yield CheckFinding(CheckVerdict.WARN, "credentials", text, f"to verify: foxcast preflight {venue}")
    elif why := faults[venue].get("credentials"):
        text = f"{venue}: {why} (found {format_age(now - run.ended_at)})"
        yield CheckFinding(CheckVerdict.WARN, "credentials", text, f"correct it; {again}")
    elif is_verifiable:
        yield CheckFinding(CheckVerdict.OK, "credentials", f"{venue}: verified {format_age(now - run.ended_at)}")


def _check_unanswered(venue: str, counts: Mapping[IntentState, int]) -> Iterator[CheckFinding]:
    parts = [
        f"{counts[state]} {words}"
        for state, words in ((IntentState.SENDING, "being sent"), (IntentState.UNKNOWN, "without an answer"))
        if counts.get(state)
    ]
    if parts:
        found = f"{venue}: {', '.join(parts)}; a run reads them back before it sends anything else"
        yield CheckFinding(CheckVerdict.WARN, "unsettled", found, "see: foxcast orders --open")


def _check_refusals(venue: str, last: OrderRow | None, now: datetime) -> Iterator[CheckFinding]:
    if last is not None and last.row.state is IntentState.REFUSED:
        why = last.why or "no reason given"
        found = f"{venue}: the last submission was refused, {format_age(now - last.row.changed_at)}: {why}"
        yield CheckFinding(CheckVerdict.WARN, "refused", found, f"see: foxcast orders show {last.row.intent.id}")


async def _read_last_run(config: Config, live: Sequence[str], now: datetime) -> LastRunState:
    async with open_read_only(config) as records:
        runs = {run.name: run for run in await records.ledger.events.last_runs()}
        status = await records.ledger.permissions.read(permissions.list_active_halts)
        return LastRunState(
            run=runs.get(READINESS_JOB),
            unanswered_submissions=await _count_unanswered(records, live),
            last={venue: row for venue in live if (row := await _last_sent_order(records, venue, now)) is not None},
            refused_credentials={stop.venue: stop for stop in status if stop.end_condition is HaltEndCondition.RENEWED},
        )


async def _count_unanswered(records: ReadOnlyState, live: Sequence[str]) -> Mapping[str, Counter[IntentState]]:
    found = {venue: Counter[IntentState]() for venue in live}
    for row in await records.ledger.submissions.batches(states=[IntentState.SENDING, IntentState.UNKNOWN]):
        if row.venue in found and row.mode is not ExecutionMode.PAPER:
            found[row.venue].update(row.counts)
    return found


async def _last_sent_order(records: ReadOnlyState, venue: str, now: datetime) -> OrderRow | None:
    """Return the last live order sent to a venue."""
    order_filter = OrderFilter(now=now, venue=venue, limit=_MAX_ORDERS_READ, paper=False)
    rows = await records.ledger.submissions.readers.run(lambda database: list_orders(database, order_filter))
    sent = [row for row in rows if row.attempts]
    return max(sent, key=lambda row: row.attempts[0].started_at) if sent else None
