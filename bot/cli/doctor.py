"""`foxcast doctor`: check the configuration, disk, clock, daemon and ledger, and suggest a fix for each fault."""

import asyncio
import os
import resource
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_exit import ExitCode
from bot.cli.doctor_checks import (
    CONFIG_REMEDY,
    TRIALS_CHECK,
    check_caps,
    check_demoted_models,
    check_failed_trials,
    check_model_health,
    check_models,
    check_permissions,
    check_process_load,
    check_readiness,
    clock_fault,
    live_venue_names,
    load_last_run,
    print_findings,
)
from bot.cli.health_report import CheckFinding, CheckVerdict, check_conditions
from bot.cli.options import CommandInvocation
from bot.cli.output.console import print_json
from bot.cli.plugins import describe_hidden_commands
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, StoreError
from bot.core.plugin_specs import PluginTableName
from bot.core.submissions import ExecutionMode
from bot.evaluation.value_text import format_age, format_bytes
from bot.llm.roles import ModelRoles
from bot.plugin_system.registry import Registry, load_registry, with_all_members
from bot.store.backups import BACKUP_FOLDER, list_backups
from bot.store.database import WAL_LIMIT_BYTES
from bot.store.event_log import LedgerEvent
from bot.store.folder_identity import ADOPT_REMEDY, check_identity
from bot.store.heartbeat import MAX_HEARTBEAT_AGE, DaemonCondition, read_daemon_state
from bot.store.integrity_checks import LOW_DISK_RULE, run_quick_check, sqlite_version_warning, wal_size
from bot.store.ledger import LEDGER_FILE, open_ledger_read_only, state_folder
from bot.store.private_files import find_foreign_entries
from bot.store.restore import lost_ledger_reason, read_restore_mark

OLDEST_PYTHON = (3, 11)


# Of databases, logs, plugins and what they open.
OTHER_OPEN_FILES = 100


# Foxcast did not exist before this day, so an earlier clock is wrong.
EARLIEST_CLOCK = datetime(2026, 1, 1, tzinfo=UTC)


CLOCK_SLACK = timedelta(minutes=5)


# Reading more pages takes longer than a person waits.
MAX_CHECKED_BYTES = 100_000_000
MAX_BACKUP_AGE = timedelta(days=1)


def run_checks(config_path: Path | None, now: datetime) -> Iterator[CheckFinding]:
    """Yield the findings, each fault once; checks that need the configuration are left out if it cannot be read."""
    reported = set[str]()
    for finding in _all_findings(config_path, now):
        # An invalid setting is reported by each check that needs it.
        if finding.verdict is not CheckVerdict.FAIL or finding.found not in reported:
            reported.add(finding.found)
            yield finding


def _all_findings(config_path: Path | None, now: datetime) -> Iterator[CheckFinding]:
    yield _check_python()
    yield _check_sqlite()
    try:
        config = load_config(config_path)
    except ConfigError as error:
        yield CheckFinding(CheckVerdict.FAIL, "configuration", str(error), "correct it")
        return
    yield CheckFinding(
        CheckVerdict.OK, "configuration", str(config.sources.document.path or "defaults and environment")
    )
    registry = None
    try:
        registry = load_registry(config)
    except ConfigError as error:
        yield CheckFinding(CheckVerdict.FAIL, "plugins", str(error), CONFIG_REMEDY)
    else:
        yield from _check_plugins(config, registry)
    yield _check_connections(config)
    yield _check_state_folder(config)
    yield _check_disk(config)
    folder = state_folder(config)
    found = load_last_run(config, folder / LEDGER_FILE, now)
    yield _check_clock(folder / LEDGER_FILE, now, clock_fault(found, live_venue_names(config)))
    yield from _check_daemon(folder, now)
    yield from check_conditions(config, now)
    yield from _check_ledger(folder / LEDGER_FILE, now)
    if (folder / LEDGER_FILE).exists():
        yield from check_model_health(config, folder / LEDGER_FILE, now)
        yield from check_process_load(folder / LEDGER_FILE)
        yield from check_caps(config, folder / LEDGER_FILE, now)
    yield from check_permissions(config, registry, folder / LEDGER_FILE, now)
    if registry is not None:
        yield from check_readiness(config, registry, found, now)


def _check_services(config_path: Path | None) -> list[CheckFinding]:
    from bot.cli.online_checks import check_online

    try:
        config = load_config(config_path)
        return asyncio.run(check_online(config, load_registry(config)))
    except ConfigError:
        return []  # reported by the other checks


def _check_python() -> CheckFinding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info >= OLDEST_PYTHON:
        return CheckFinding(CheckVerdict.OK, "python", found)
    return CheckFinding(CheckVerdict.FAIL, "python", found, "install Python 3.11 or newer")


def _check_sqlite() -> CheckFinding:
    warning = sqlite_version_warning()
    if warning is None:
        return CheckFinding(CheckVerdict.OK, "sqlite", "no known fault in this version")
    return CheckFinding(CheckVerdict.WARN, "sqlite", warning)


def _check_connections(config: Config) -> CheckFinding:
    """Compare the connections that requests to models may need with what config and the system allow."""
    asked = [one.concurrency for one in config.llm.providers.values() if "concurrency" in one.model_fields_set]
    wanted = max(asked, default=0)
    allowed, files = config.http.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = f"{allowed} at a time"
    if wanted > allowed:
        found = f"{found}, though a provider in [llm.providers] is allowed {wanted} requests: the others wait"
        return CheckFinding(CheckVerdict.WARN, "connections", found, f"[http] connections = {wanted} in config.toml")
    if files != resource.RLIM_INFINITY and files < (needed := wanted + OTHER_OPEN_FILES):
        found = f"{wanted} requests at a time, and {files} open files"
        return CheckFinding(CheckVerdict.WARN, "connections", found, f"ulimit -n {needed} before foxcast starts")
    return CheckFinding(CheckVerdict.OK, "connections", found)


def _check_plugins(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    for broken in registry.broken:
        yield CheckFinding(
            CheckVerdict.FAIL, "plugins", f"{broken.plugin.name}: {broken.reason}", "repair it or do not enable it"
        )
    for line in describe_hidden_commands(registry):
        yield CheckFinding(CheckVerdict.WARN, "commands", line, "give it another name in its plugin")
    yield from _check_settings(config, registry)
    yield from _check_venues(config, registry)
    yield from _check_notifiers(config, registry)
    yield from _check_forecasters(config, registry)
    names = ", ".join(plugin.name for plugin in registry.enabled)
    if names:
        yield CheckFinding(CheckVerdict.OK, "plugins", f"enabled: {names}")
    else:
        yield CheckFinding(CheckVerdict.WARN, "plugins", "none is enabled", "name some in plugins of config.toml")


def _check_settings(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    for table in PluginTableName:
        for spec in registry.specs_of_table(table):
            try:
                load_plugin_settings(spec, config)
            except ConfigError as error:
                yield CheckFinding(CheckVerdict.FAIL, "settings", str(error), "correct it")


def _check_venues(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    """Yield the venues that are left out because no plugin offers them, unless a broken plugin is the cause."""
    for venue in config.venues:
        if venue not in registry.venues and config.mode_of(venue) is not ExecutionMode.OFF and not registry.broken:
            found = f"no enabled plugin offers {venue}, so it is left out"
            remedy = f'add its plugin to plugins of config.toml, or set mode = "off" in [venues.{venue}]'
            yield CheckFinding(CheckVerdict.WARN, "venues", found, remedy)


def _check_notifiers(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    for name in config.notifiers:
        if name not in registry.notifiers and not registry.broken:
            found = f"no enabled plugin offers {name}, so it delivers nothing"
            yield CheckFinding(CheckVerdict.WARN, "notifiers", found, "add its plugin to plugins of config.toml")


def _check_forecasters(config: Config, registry: Registry) -> Iterator[CheckFinding]:
    from bot.app.forecaster_requirements import missing_roles, unused_role_warnings

    used = dict.fromkeys(name for table in config.venues.values() for name in table.all_forecasters)
    try:
        used.update(
            dict.fromkeys(with_all_members(config, registry, [name for name in used if name in registry.forecasters]))
        )
    except ConfigError as error:
        yield CheckFinding(CheckVerdict.FAIL, "forecasters", str(error), CONFIG_REMEDY)
    for name in used:
        lacking = missing_roles(config, registry.forecasters[name]) if name in registry.forecasters else None
        if lacking is not None:
            yield CheckFinding(CheckVerdict.FAIL, "models", lacking, CONFIG_REMEDY)
    yield from _check_limits(config, registry, [name for name in used if name in registry.forecasters])
    try:
        ModelRoles(config.llm, frozenset(registry.models.names))
    except ConfigError as error:
        yield CheckFinding(CheckVerdict.FAIL, "models", str(error), CONFIG_REMEDY)
        return
    for idle in unused_role_warnings(config, registry):
        yield CheckFinding(CheckVerdict.WARN, "roles", idle)
    findings = [*check_models(config, registry)]
    if config.llm.roles and not any(found.check in {"keys", "endpoints"} for found in findings):
        models = ", ".join(f"{role}: {table.model}" for role, table in config.llm.roles.items())
        yield CheckFinding(CheckVerdict.OK, "models", models)
    yield from findings


def _check_limits(config: Config, registry: Registry, used: Iterable[str]) -> Iterator[CheckFinding]:
    from bot.app.forecaster_requirements import limit_warnings

    try:
        yield from [CheckFinding(CheckVerdict.WARN, "limits", why) for why in limit_warnings(config, registry, used)]
    except ConfigError:
        return  # reported by the check of the settings


def _check_state_folder(config: Config) -> CheckFinding:
    folder = config.state
    if not folder.exists():
        parent = _existing_parent(folder)
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
            return CheckFinding(CheckVerdict.OK, "state folder", f"{folder} will be created")
        return CheckFinding(
            CheckVerdict.FAIL, "state folder", f"{folder} cannot be created", "name another in state of config.toml"
        )
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return CheckFinding(CheckVerdict.FAIL, "state folder", f"{folder} cannot be written", "check its permissions")
    used = state_folder(config)
    if fault := next(find_foreign_entries(used), "") if used.exists() else "":
        found, _, remedy = fault.partition("; ")
        return CheckFinding(CheckVerdict.FAIL, "state folder", found, remedy)
    wide = [path for path in (used, used / LEDGER_FILE) if path.exists() and _is_readable_by_others(path)]
    if wide:
        return CheckFinding(
            CheckVerdict.WARN, "state folder", f"others can read {wide[0]}", f"run: chmod go-rwx {wide[0]}"
        )
    return CheckFinding(CheckVerdict.OK, "state folder", str(folder))


def _is_readable_by_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _existing_parent(folder: Path) -> Path:
    return next(parent for parent in folder.absolute().parents if parent.exists())


def _check_disk(config: Config) -> CheckFinding:
    folder, least = config.state, config.daemon.min_free_mb * 1e6
    free = shutil.disk_usage(folder if folder.exists() else _existing_parent(folder)).free
    if free >= least:
        return CheckFinding(CheckVerdict.OK, "disk", f"{format_bytes(free)} free")
    found = f"{format_bytes(free)} free; {LOW_DISK_RULE}"
    return CheckFinding(CheckVerdict.FAIL, "disk", found, f"free {format_bytes(round(least))} or more")


def _check_clock(ledger: Path, now: datetime, fault: str) -> CheckFinding:
    """Check the clock; ``fault`` is what the last comparison with a live venue found."""
    floor = (
        max(EARLIEST_CLOCK, datetime.fromtimestamp(ledger.stat().st_mtime, UTC)) if ledger.exists() else EARLIEST_CLOCK
    )
    if now >= floor - CLOCK_SLACK:
        if fault:
            found = f"{now:%Y-%m-%d %H:%M} UTC; in the last run it {fault}"
            return CheckFinding(CheckVerdict.WARN, "clock", found, "nothing is submitted until a run finds it correct")
        return CheckFinding(CheckVerdict.OK, "clock", f"{now:%Y-%m-%d %H:%M} UTC")
    return CheckFinding(
        CheckVerdict.FAIL, "clock", f"{now:%Y-%m-%d %H:%M} UTC is before {floor:%Y-%m-%d %H:%M}", "set the clock"
    )


def _check_daemon(folder: Path, now: datetime) -> Iterator[CheckFinding]:
    """Check the process that runs; how one ended that does not run is a condition."""
    state = read_daemon_state(folder, now)
    holder, beat = state.holder, None if state.heartbeat is None else state.heartbeat.at
    if holder is None:
        if state.condition in {DaemonCondition.NEVER, DaemonCondition.STOPPED}:
            yield CheckFinding(CheckVerdict.OK, "daemon", "not running")
        return
    age = None if beat is None or beat < holder.started_at else now - beat
    silent = now - holder.started_at if age is None else age
    if silent <= MAX_HEARTBEAT_AGE:
        yield CheckFinding(CheckVerdict.OK, "daemon", f"process {holder.pid} is running")
    elif age is None:
        found = f"last heartbeat of process {holder.pid}: {format_age(silent)}"
        yield CheckFinding(CheckVerdict.WARN, "daemon", found, "check its log; a single pass has no heartbeat")


def _check_ledger(path: Path, now: datetime) -> Iterator[CheckFinding]:
    try:
        reason = lost_ledger_reason(path)
    except StoreError as error:
        reason = str(error)
    if reason:
        found, _, remedy = reason.partition("; ")
        yield CheckFinding(CheckVerdict.FAIL, "ledger", found, remedy)
        return
    if not path.exists():
        yield CheckFinding(CheckVerdict.OK, "ledger", "none yet; create one with: foxcast run --once")
        return
    yield check_ledger_integrity(path)
    yield from _check_identity(path)
    wal = wal_size(path)
    if wal > WAL_LIMIT_BYTES:
        yield CheckFinding(
            CheckVerdict.WARN, "write-ahead log", format_bytes(wal), "close programs that keep the ledger open"
        )
    else:
        yield CheckFinding(CheckVerdict.OK, "write-ahead log", format_bytes(wal))
    yield _check_backup(path, now)
    yield from _check_last_halt(path)
    yield from check_demoted_models(path, now)
    yield from check_failed_trials(path, now)
    if mark := read_restore_mark(path):
        found = f"restored from {mark.backup} at {mark.at:%Y-%m-%d %H:%M} UTC, so nothing is submitted"
        remedy = "the next run compares it with the venues, and reports what is left to settle"
        yield CheckFinding(CheckVerdict.WARN, "restored", found, remedy)


def _check_identity(path: Path) -> Iterator[CheckFinding]:
    try:
        found = check_identity(path)
    except StoreError as error:
        text, _, remedy = str(error).partition("; ")
        yield CheckFinding(CheckVerdict.FAIL, "folder identity", text, remedy)
        return
    if found.fault:
        text = f"{path.parent} {found.fault}, so nothing is submitted live"
        yield CheckFinding(CheckVerdict.WARN, "folder identity", text, ADOPT_REMEDY)


def _check_last_halt(path: Path) -> Iterator[CheckFinding]:
    try:
        halt = asyncio.run(_load_last_halt(path))
    except StoreError:
        return  # reported by the integrity check
    if halt is not None:
        yield CheckFinding(CheckVerdict.FAIL, "halted", halt.text, "the next start ends the halt: foxcast run")


async def _load_last_halt(path: Path) -> LedgerEvent | None:
    async with open_ledger_read_only(path) as ledger:
        return await ledger.events.unresolved_halt()


def check_ledger_integrity(path: Path, *, max_bytes: int = MAX_CHECKED_BYTES) -> CheckFinding:
    """Read the pages of a ledger, unless it has more bytes: each backup reads them too."""
    remedy = "restore a backup: foxcast db restore NAME (foxcast db list)"
    try:
        if (size := path.stat().st_size) > max_bytes:
            found = f"{path}, {format_bytes(size)}; its pages were not read: that is foxcast db check"
            return CheckFinding(CheckVerdict.OK, "ledger", found)
        health = run_quick_check(path)
    except (OSError, StoreError) as error:
        return CheckFinding(CheckVerdict.FAIL, "ledger", str(error), remedy)
    if health.sound:
        return CheckFinding(CheckVerdict.OK, "ledger", f"{path}, {format_bytes(health.database_bytes)}")
    return CheckFinding(CheckVerdict.FAIL, "ledger", f"{path}: {health.problems[0].examples[0]}", remedy)


def _check_backup(path: Path, now: datetime) -> CheckFinding:
    copies = list_backups(path.parent / BACKUP_FOLDER, path.stem)
    if copies and now - copies[0].made_at <= MAX_BACKUP_AGE:
        return CheckFinding(CheckVerdict.OK, "backup", f"{copies[0].path.name}, {format_age(now - copies[0].made_at)}")
    found = f"the last one was made {format_age(now - copies[0].made_at)}" if copies else "none"
    return CheckFinding(CheckVerdict.WARN, "backup", found, "create one with: foxcast db backup")


app = typer.Typer(add_completion=False)


@app.command()
def doctor(
    ctx: typer.Context,
    *,
    online: Annotated[
        bool, typer.Option("--online", help="Also ask venues, search engines and model providers: keys, addresses.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check this installation and suggest fixes."""
    path = ctx.ensure_object(CommandInvocation).config_path
    findings = [*run_checks(path, SystemClock().now()), *(_check_services(path) if online else ())]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    if any(finding.verdict is CheckVerdict.FAIL for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
    if any(finding.check == TRIALS_CHECK for finding in findings):
        raise typer.Exit(ExitCode.TRIALS_FAILED)
