"""The check of one plugin: its parts are opened with the user's settings, and a child process runs the kits.

Everything has a temporary folder, writers get a client that sends nothing, and nothing is connected unless the user
asks for it; kits are never online.
"""

import asyncio
import importlib.util
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, nullcontext, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from bot.app.plugin_factory import PluginFactory
from bot.app.plugin_opening import describe_part
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.config.venue_schema import VenueTable
from bot.core.child_process import child_command
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import AuthenticationError, ConfigError, describe_error
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import (
    BaseSpec,
    ConfigurableSpec,
    DataSpec,
    ForecasterSpec,
    ModelSpec,
    NotifierSpec,
    SearchSpec,
    VenueSpec,
)
from bot.core.redaction import redact_foreign_message
from bot.core.submissions import LIVE_MODES, ExecutionMode
from bot.execution.gate.gate import ExecutionPolicy
from bot.execution.preflight import open_refusing_client
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.network_guard import refuse_connections
from bot.net.rate_limit import RateLimiter
from bot.plugin_system.discovery import PluginCandidate
from bot.plugin_system.registry import Registry

KITS_ENTRY_POINT = "bot.testing.kit_runner:main"
KITS_TIME_LIMIT_S = 600.0
REPORT_FILE = "report.json"
CONFIG_FILE = "config.toml"
# The libraries that the kits need, with the command that brings them.
KIT_LIBRARIES = ("pytest", "pytest_asyncio")
KIT_LIBRARIES_REMEDY = "pip install foxcast[test]"
NO_NETWORK = "this check makes none without --online"
MAX_SHOWN_FAILURES = 10
# Where the child process failed without a report, the end of its output says why.
SHOWN_OUTPUT_LINES = 5

PartOpener = Callable[[PluginFactory], Awaitable[object]]


class FindingKind(StrEnum):
    """What became known about one part; the values are what the summary says."""

    OPENED = "opened"
    PASSED = "passed"
    NOT_NEEDED = "not needed"
    NOT_RUN = "not run"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFinding:
    """One part that was opened or not, or one kit; ``failures`` are lines for the end of the output."""

    kind: FindingKind
    part: str
    check: str
    detail: str = ""
    failures: tuple[str, ...] = ()


async def check_plugin(
    config: Config, registry: Registry, plugin: PluginCandidate, *, online: bool
) -> list[PluginFinding]:
    """Return what was found out about a plugin that the configuration enables: its parts first, then its kits."""
    if (why := next((broken.reason for broken in registry.broken if broken.plugin is plugin), None)) is not None:
        return [_failed_finding(plugin.name, "loading", why)]
    with tempfile.TemporaryDirectory(prefix="foxcast-check-") as place:
        opened = await open_plugin_parts(config, registry, plugin, online=online, folder=Path(place))
        return [*opened, *await _run_kits(config, plugin, Path(place))]


async def open_plugin_parts(
    config: Config, registry: Registry, plugin: PluginCandidate, *, online: bool, folder: Path
) -> list[PluginFinding]:
    """Open and close each part of a plugin with its settings; the parts get folders in ``folder``."""
    findings: list[PluginFinding] = []
    with nullcontext() if online else refuse_connections(NO_NETWORK):
        for spec in registry.specs_of_plugin(plugin):
            if isinstance(spec, ConfigurableSpec):
                findings += await _open_parts(config, registry, spec, folder)
    return findings


async def _open_parts(
    config: Config, registry: Registry, spec: ConfigurableSpec[Any], folder: Path
) -> list[PluginFinding]:
    """Open and close the parts of one spec, one after the other."""
    part, clock, random = describe_part(spec), SystemClock(), SeededRandom(config.seed)
    try:
        settings = load_plugin_settings(spec, config)
        limits = spec.rates(settings) if isinstance(spec, VenueSpec) else ()
    except Exception as error:  # noqa: BLE001 - code of a plugin may raise anything
        return [_failed_finding(part, "settings", describe_error(error))]
    rates = RateLimiter(limits, clock=clock, random=random)
    client = RetryingHttpClient(
        clock=clock, random=random, limits=HttpLimits(attempts=1), rates=rates, proxies=config.http.proxies
    )
    findings = []
    async with client as http:
        for check, opener in _list_openers(spec):
            async with AsyncExitStack() as stack:
                factory = PluginFactory(
                    config=_with_venue_table(config, spec),
                    registry=registry,
                    clock=clock,
                    random=random,
                    http=http,
                    folder=folder,
                    stack=stack,
                    rates=rates,
                    open_write_client=open_refusing_client,
                )
                is_needed = check != "writer" or config.mode_of(spec.name) in LIVE_MODES
                findings.append(await _open_part(factory, part, check, opener, is_needed=is_needed))
    return findings


async def _open_part(
    factory: PluginFactory, part: str, check: str, opener: PartOpener, *, is_needed: bool
) -> PluginFinding:
    try:
        await opener(factory)
    except Exception as error:  # noqa: BLE001 - code of a plugin may raise anything
        why = " ".join(describe_error(error).split())
        if not is_needed and isinstance(error, AuthenticationError | ConfigError):
            detail = f"only live modes open it, and now: {why}"
            return PluginFinding(kind=FindingKind.NOT_NEEDED, part=part, check=check, detail=detail)
        return _failed_finding(part, check, why)
    return PluginFinding(kind=FindingKind.OPENED, part=part, check=check)


def _list_openers(spec: ConfigurableSpec[Any]) -> Iterator[tuple[str, PartOpener]]:
    """Yield the parts of a spec, each with the way in which the daemon opens it."""
    match spec:
        case VenueSpec():
            yield from _list_venue_openers(spec)
        case ForecasterSpec(name=name):
            yield "forecaster", partial(PluginFactory.open_forecaster, name=name)
        case DataSpec(open=series, pages=pages):
            parts = {"series": series, "pages": pages}
            yield from ((check, _plugin_opener(spec, opener)) for check, opener in parts.items() if opener)
        case SearchSpec() | ModelSpec() | NotifierSpec():
            yield describe_part(spec).partition(" ")[0], _plugin_opener(spec, spec.open)


def _plugin_opener(spec: ConfigurableSpec[Any], opener: Callable[..., Any]) -> PartOpener:
    return partial(PluginFactory.open_plugin, spec=spec, opener=opener)


def _list_venue_openers(spec: VenueSpec[Any]) -> Iterator[tuple[str, PartOpener]]:
    yield "reader", partial(PluginFactory.open_venue, name=spec.name)
    if spec.planner is not None:
        yield "planner", partial(PluginFactory.open_planner, name=spec.name)
    if spec.prices is not None:
        yield "price feed", partial(PluginFactory.open_price_feed, name=spec.name)
    modes = {ExecutionMode.PAPER: ("paper book", spec.paper), ExecutionMode.LIVE: ("writer", spec.writer)}
    for mode, (check, opener) in modes.items():
        if opener is not None:
            policy = ExecutionPolicy(venue=spec.name, mode=mode, primary_forecaster="", account="")
            yield check, partial(PluginFactory.open_submitter, policy=policy)


def _with_venue_table(config: Config, spec: BaseSpec) -> Config:
    """Return the configuration with a table for a venue that has none: its paper book begins with the default cash."""
    if not isinstance(spec, VenueSpec) or spec.name in config.venues:
        return config
    table = VenueTable(forecasters=("none",))
    return config.model_copy(update={"venues": {**config.venues, spec.name: table}})


async def _run_kits(config: Config, plugin: PluginCandidate, folder: Path) -> list[PluginFinding]:
    """Run the kits in a child process, which is ended if it takes too long or if this process is ended."""
    if missing := [name for name in KIT_LIBRARIES if importlib.util.find_spec(name) is None]:
        why = f"{' and '.join(missing)} is missing, so no kit was run: {KIT_LIBRARIES_REMEDY}"
        return [_failed_finding(plugin.name, "kits", why)]
    config_path, report_path = config.sources.document.path, folder / REPORT_FILE
    if config_path is None:  # the variables alone configure it
        config_path = folder / CONFIG_FILE
        config_path.touch()
    arguments = {
        "plugin": plugin.name,
        "config": str(config_path.absolute()),
        "folder": str(folder),
        "report": str(report_path),
    }
    child = await asyncio.create_subprocess_exec(
        *child_command(KITS_ENTRY_POINT, json.dumps(arguments)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(KITS_TIME_LIMIT_S):
            output, _ = await child.communicate()
    except TimeoutError:
        return [_failed_finding(plugin.name, "kits", f"they took over {KITS_TIME_LIMIT_S:g} s")]
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    try:
        report = json.loads(report_path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        lines = redact_foreign_message(output.decode(errors="replace")).splitlines()
        last = [line.strip() for line in lines if line.strip()][-SHOWN_OUTPUT_LINES:]
        why = f"pytest ended with exit code {child.returncode} and no report: {' | '.join(last)}"
        return [_failed_finding(plugin.name, "kits", why)]
    return [_kit_finding(entry) for entry in report]


def _kit_finding(entry: Mapping[str, Any]) -> PluginFinding:
    """Return what the child process reports about one kit."""
    part, kit, source, failures = entry["part"], entry["kit"], entry["source"], entry["failures"]
    if not failures and not entry["passed"]:
        return PluginFinding(kind=FindingKind.NOT_RUN, part=part, check=kit, detail=entry["why"])
    if not failures:
        detail = f"{entry['passed']} tests {source}"
        return PluginFinding(kind=FindingKind.PASSED, part=part, check=kit, detail=detail)
    lines = [redact_foreign_message(line) for line in failures[:MAX_SHOWN_FAILURES]]
    if len(failures) > MAX_SHOWN_FAILURES:
        lines.append(f"and {len(failures) - MAX_SHOWN_FAILURES} more failures")
    return PluginFinding(
        kind=FindingKind.FAILED,
        part=part,
        check=kit,
        detail=f"{len(failures)} of {len(failures) + entry['passed']} tests {source}",
        failures=tuple(lines),
    )


def _failed_finding(part: str, check: str, why: str) -> PluginFinding:
    text = " ".join(why.split())
    return PluginFinding(kind=FindingKind.FAILED, part=part, check=check, detail="see below", failures=(text,))
