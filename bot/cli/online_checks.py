"""Checks that ask the configured services: one question of each venue, one search, and each model's key and name.

Nothing is submitted, no model is asked to answer, and the state folder is not touched.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Any, cast

from bot.app.plugin_factory import PluginFactory
from bot.app.venues import venue_rate_limits
from bot.cli.doctor_checks import CONFIG_REMEDY
from bot.cli.health_report import CheckFinding, CheckVerdict
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import AuthenticationError, ConfigError, FoxcastError, RequestRejectedError
from bot.core.interfaces import ModelProvider
from bot.core.submissions import LIVE_MODES, ExecutionMode
from bot.evaluation.value_text import truncate_text
from bot.llm.roles import bare_model_name, configured_models, provider_name
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.plugin_system.registry import Registry

# A person waits for the answers.
ONLINE_LIMITS = HttpLimits(deadline_s=30.0, connect_s=10.0, attempts=2)
CHECK_SECONDS = 90.0
SEARCH_TERM = "news"
_TITLE_CHARS = 60
_REMEDIES: tuple[tuple[type[FoxcastError], str], ...] = (
    (AuthenticationError, "correct the key"),
    (ConfigError, CONFIG_REMEDY),
)


async def check_online(config: Config, registry: Registry) -> list[CheckFinding]:
    """Ask all services at once and return a finding for each."""
    clock, random = SystemClock(), SeededRandom(config.seed)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foxcast-check-")))
        try:
            limits = venue_rate_limits(config, registry)
        except ConfigError as error:
            return [CheckFinding(CheckVerdict.FAIL, "settings", str(error), CONFIG_REMEDY)]
        rates = RateLimiter(limits, clock=clock, random=random)
        client = RetryingHttpClient(
            clock=clock, random=random, limits=ONLINE_LIMITS, rates=rates, proxies=config.http.proxies
        )
        plugins = PluginFactory(
            config=config,
            registry=registry,
            clock=clock,
            random=random,
            http=await stack.enter_async_context(client),
            folder=folder,
            stack=stack,
            rates=rates,
        )
        checks = [
            *(_check_service(f"venue {name}", partial(_ask_venue, plugins, name)) for name in _venues(plugins)),
            *(_check_service(f"search {name}", partial(_ask_search, plugins, name)) for name in _engines(plugins)),
            *await _model_checks(plugins),
        ]
        return list(await asyncio.gather(*checks))


def _venues(plugins: PluginFactory) -> list[str]:
    config, offered = plugins.config, plugins.registry.venues
    return [name for name in config.venues if name in offered and config.mode_of(name) is not ExecutionMode.OFF]


def _engines(plugins: PluginFactory) -> list[str]:
    offered = plugins.registry.search_engines
    return [name for name in plugins.config.research.search or offered.names if name in offered]


async def _check_service(check: str, ask: Callable[[], Awaitable[str]]) -> CheckFinding:
    """Return what a service answered; no answer in time is a fault too."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            found = await ask()
    except TimeoutError:
        found = f"no answer within {CHECK_SECONDS:g} s"
        return CheckFinding(CheckVerdict.FAIL, check, found, "try again later, or look at its status page")
    except FoxcastError as error:
        remedy = next((text for kind, text in _REMEDIES if isinstance(error, kind)), "")
        return CheckFinding(CheckVerdict.FAIL, check, str(error), remedy)
    noteworthy = found.startswith("but ")
    text = found.removeprefix("but ")
    return CheckFinding(CheckVerdict.WARN if noteworthy else CheckVerdict.OK, check, text)


async def _ask_venue(plugins: PluginFactory, name: str) -> str:
    """Read one question and the account; text that begins with "but" is a warning."""
    notes = await _check_account(plugins, name)
    reader = await plugins.open_venue(name)
    async with aclosing(cast("Any", reader.questions())) as questions:
        first = await anext(questions, None)
    if first is None:
        return "; ".join(["but it answers without any question for these settings", *notes])
    return "; ".join([f"answers, for example: {truncate_text(first.title, _TITLE_CHARS)}", *notes])


async def _check_account(plugins: PluginFactory, name: str) -> list[str]:
    """Return what the venue says about the account; on paper one that cannot be read is no fault."""
    spec, config = plugins.registry.venues[name], plugins.config
    if spec.check is None:
        return []
    try:
        return [*await spec.check(load_plugin_settings(spec, config), plugins.plugin_context(spec))]
    except (AuthenticationError, RequestRejectedError):
        if config.mode_of(name) in LIVE_MODES:
            raise
        return []


async def _ask_search(plugins: PluginFactory, name: str) -> str:
    spec = plugins.registry.search_engines[name]
    engine = await plugins.stack.enter_async_context(
        spec.open(load_plugin_settings(spec, plugins.config), plugins.plugin_context(spec))
    )
    found = await engine.search(SEARCH_TERM, before=None, limit=1)
    return "answers" if found else f"but it finds nothing for {SEARCH_TERM!r}"


async def _model_checks(plugins: PluginFactory) -> list[Awaitable[CheckFinding]]:
    models = [name for name in configured_models(plugins.config.llm) if provider_name(name) in plugins.registry.models]
    try:
        providers: Mapping[str, ModelProvider] = await plugins.open_providers() if models else {}
    except FoxcastError as error:
        found = CheckFinding(CheckVerdict.FAIL, "models", str(error), CONFIG_REMEDY)
        return [_return_finding(found)]
    return [
        _check_service(f"model {name}", partial(_ask_provider, providers[provider_name(name)], name))
        for name in dict.fromkeys(models)
    ]


async def _return_finding(found: CheckFinding) -> CheckFinding:
    return found


async def _ask_provider(provider: ModelProvider, model: str) -> str:
    check = getattr(provider, "check_access", None)
    if check is None:
        return "but its provider offers no check without a call"
    note = await check(bare_model_name(model))
    return f"but {note}" if note else "the key is accepted and the model is listed"
