"""The doctor's checks of what forecasters work with: models and their prices, search, and who was found wanting."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.app import folder_of
from bot.cli.failed_trials import RECENTLY, failures_line, out_of_steps
from bot.cli.finding import Finding, Verdict
from bot.cli.output.figures import moment
from bot.clock import SeededRandom, SystemClock
from bot.config.model import Config
from bot.config.nearest import instead
from bot.config.plugin_settings import settings_of
from bot.desk.leaks.content import ROLE as FILTER
from bot.errors import ConfigError, FoxcastError, ServerUnreachable, StoreError
from bot.http import HttpLimits, HttpReader
from bot.llm.estimate import Prices
from bot.llm.health import ModelReport, report_models
from bot.llm.lacking import lacking
from bot.llm.price import Tariff
from bot.llm.roles import Roles, models_of, name_of, provider_of
from bot.outfit import Outfitter, narrow
from bot.ports import Llm
from bot.registry import Registry
from bot.specs import Can
from bot.store.conducts import Demotion
from bot.store.failures import RecentFailures, failures_since
from bot.store.ledger import read_ledger

MEND = "mend config.toml"
# A server on this machine or nearby answers at once.
REACH = HttpLimits(deadline_s=5.0, connect_s=3.0, attempts=1)
REACH_BYTES = 2**20
# The check that finds trials which failed.
TRIALS = "trials"


def means(config: Config, registry: Registry) -> Iterator[Finding]:
    """Yield what is wrong with what forecasters work with that ask models; nothing where none of them does."""
    if not config.llm.roles or not any(Can.ASK_MODELS in spec.abilities for spec in registry.forecasters):
        return
    faults = [*_endpoint_faults(config, registry)]
    yield from faults
    if not faults:
        yield from asyncio.run(_reached(config, registry))
        yield from asyncio.run(_answers(config, registry))
    yield from _search(config, registry)


def demotions(path: Path, now: datetime) -> Iterator[Finding]:
    """Yield the models that are replaced for a while, out of a ledger."""
    try:
        found = asyncio.run(_demoted(path, now))
    except StoreError:
        return  # as the soundness says
    for one in found:
        role = f" as {one.role}" if one.role else ""
        told = f"{one.model} is replaced{role} until {moment(one.until)} UTC, where there is a fallback: {one.why}"
        yield Finding(Verdict.WARN, "demoted", told, "name another model in [llm.roles], or wait")


def troubles(config: Config, path: Path, now: datetime) -> Iterator[Finding]:
    """Yield the models that do badly in the roles that they play now, out of a ledger: a line for each."""
    try:
        found = asyncio.run(_reports(config, path, now))
    except StoreError:
        return  # as the soundness says
    for one in found:
        table = config.llm.roles.get(one.role)
        if one.troubles and table is not None and one.model in {table.model, table.fallback}:
            told = f"{one.forecaster} {one.role} {one.model}".strip() + f": {'; '.join(one.troubles)}"
            remedy = f"look at a trial with foxcast explain, or name another model in [llm.roles.{one.role}]"
            yield Finding(Verdict.WARN, "model health", told, remedy)


async def _reports(config: Config, path: Path, now: datetime) -> Sequence[ModelReport]:
    async with read_ledger(path) as ledger:
        return await report_models(ledger.conducts, config.llm.health, now=now)


def failed_trials(path: Path, now: datetime) -> Iterator[Finding]:
    """Yield what went wrong with trials in the last day, out of a ledger; it fails where questions have no forecast."""
    try:
        found = asyncio.run(_failed(path, now))
    except StoreError:
        return  # as the soundness says
    if line := failures_line(found):
        verdict = Verdict.FAIL if found.put_off else Verdict.WARN
        remedy = "mend what it names; every trial: foxcast show QUESTION"
        yield Finding(verdict, TRIALS, f"in the last 24 hours: {line}", remedy)
    for line in out_of_steps(found):
        remedy = "raise steps in [forecasters.NAME] and in its settings, or name another model in [llm.roles]"
        yield Finding(Verdict.WARN, "steps", f"in the last 24 hours {line}", remedy)


async def _failed(path: Path, now: datetime) -> RecentFailures:
    async with read_ledger(path) as ledger:
        return await failures_since(ledger.forecasts.readers, now - RECENTLY)


async def _demoted(path: Path, now: datetime) -> tuple[Demotion, ...]:
    async with read_ledger(path) as ledger:
        return tuple(await ledger.conducts.demotions(now=now))


def _endpoint_faults(config: Config, registry: Registry) -> Iterator[Finding]:
    for model in models_of(config.llm):
        endpoints = _setting(model, "endpoints", config, registry)
        if endpoints is None:
            continue
        endpoint, _, name = name_of(model).partition("/")
        if endpoint not in endpoints or not name:
            found = f"{model} names no endpoint of [models.{provider_of(model)}.settings.endpoints]"
            known = instead(endpoint, endpoints)
            yield Finding(Verdict.FAIL, "endpoints", f"{found} ({known})", MEND)


def _setting(model: str, name: str, config: Config, registry: Registry) -> Mapping[str, Any] | None:
    """Return a table of a provider's settings by the part of a model before the slash; None where it has no such one.

    ``endpoints`` has what is named ``ENDPOINT/NAME``, ``base_urls`` the addresses of providers behind a library. What
    else a provider knows only it can tell, and to ask it would load its library.
    """
    provider = provider_of(model)
    if provider not in registry.models:
        return None
    try:
        table = getattr(settings_of(registry.models[provider], config), name, None)
    except ConfigError:
        return None  # as the check of the settings says
    return table if isinstance(table, Mapping) else None


def _address(model: str, config: Config, registry: Registry) -> str | None:
    """Return the address that config names for a model, if it does."""
    server = name_of(model).partition("/")[0]
    endpoint = (_setting(model, "endpoints", config, registry) or {}).get(server)
    found = getattr(endpoint, "base_url", None) or (_setting(model, "base_urls", config, registry) or {}).get(server)
    return found if isinstance(found, str) else None


async def _reached(config: Config, registry: Registry) -> list[Finding]:
    """Look whether there is somebody at each address that config names for a model; no key and no prompt is sent."""
    models: dict[str, list[str]] = {}
    for model in models_of(config.llm):
        if (address := _address(model, config, registry)) is not None:
            models.setdefault(address, []).append(model)
    clock = SystemClock()
    async with HttpReader(clock=clock, random=SeededRandom(config.seed), limits=REACH) as http:
        whys = await asyncio.gather(*(_why_unreached(http, address) for address in models))
    remedy = "start the server, or correct its address in the settings of [models]"
    found = zip(models.values(), whys, strict=True)
    return [Finding(Verdict.FAIL, "endpoints", f"{', '.join(named)}: {why}", remedy) for named, why in found if why]


async def _why_unreached(http: HttpReader, address: str) -> str:
    try:
        await http.get(f"{address}/models", max_bytes=REACH_BYTES)
    except ServerUnreachable as error:
        return str(error)
    except FoxcastError:
        pass  # whatever it says, somebody is there
    return ""


async def _answers(config: Config, registry: Registry) -> list[Finding]:
    """Ask the providers what is missing and what they cost, which loads their libraries and sends nothing."""
    clock, random = SystemClock(), SeededRandom(config.seed)
    async with AsyncExitStack() as stack:
        outfitter = Outfitter(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=await stack.enter_async_context(HttpReader(clock=clock, random=random)),
            folder=folder_of(config),
            stack=stack,
        )
        try:
            llms = await outfitter.providers()
        except FoxcastError as error:
            return [Finding(Verdict.FAIL, "models", str(error), MEND)]
        lacks = [(model, await _lacks(llms[provider_of(model)], model)) for model in models_of(config.llm)]
        found = [Finding(Verdict.FAIL, "keys", f"{model}: {what}", remedy) for model, (what, remedy) in lacks if what]
        tariff = Tariff(config.llm.models)
        for model in models_of(config.llm):
            found += await _priced(tariff, model, llms[provider_of(model)])
        prices = Prices(roles=Roles(config.llm, frozenset(llms)), tariff=tariff, llms=llms)
        for why in await narrow(config, registry, _used(config, registry), prices.call_usd):
            found.append(Finding(Verdict.WARN, "budget", f"trials wait for each other's budget: {why}"))
        return found


async def _lacks(llm: Llm, model: str) -> tuple[str, str]:
    """Return what is missing, and what to do about it."""
    try:
        what, _, remedy = (await lacking(llm, model) or "").partition("; ")
    except FoxcastError as error:
        return str(error), MEND
    return what, remedy


async def _priced(tariff: Tariff, model: str, llm: Llm) -> list[Finding]:
    try:
        await tariff.rate(model, llm)
    except ConfigError:
        remedy = f'[llm.models."{model}"] price_in = ... and price_out = ..., or free = true'
        return [Finding(Verdict.WARN, "prices", f"{model} has no price, so it will not be asked", remedy)]
    except FoxcastError:
        return []  # what cannot be told now may be known when it is asked
    return []


def _used(config: Config, registry: Registry) -> list[str]:
    used = dict.fromkeys(name for table in config.venues.values() for name in table.everyone)
    return [name for name in used if name in registry.forecasters]


def _search(config: Config, registry: Registry) -> Iterator[Finding]:
    there = registry.search_engines
    named = config.desk.search or there.names
    # A name that nobody offers is refused with the registry.
    engines = [there[name] for name in named if name in there]
    if not engines:
        yield Finding(Verdict.WARN, "search", "no search engine is enabled", "name one in plugins of config.toml")
        return
    dating = [spec.name for spec in registry.venues if spec.archive is not None and spec.name in config.venues]
    if dating and not any(Can.SEARCH_BEFORE_DATE in spec.abilities for spec in engines):
        found = f"no enabled search engine can bound dates, so questions of {', '.join(dating)} are not searched for"
        yield Finding(Verdict.WARN, "search", found, "enable one that can: foxcast plugins")
    if config.desk.filter and FILTER not in config.llm.roles:
        found = "desk.filter = true and no model plays the role filter, so questions of earlier days get no pages"
        yield Finding(Verdict.WARN, "filter", found, f'[llm.roles.{FILTER}] model = "PROVIDER:NAME"')
