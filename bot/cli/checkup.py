"""The checks of ``foxcast doctor``: each looks at one thing, changes nothing, and says what to do about it."""

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.app import LEDGER_FILE, folder_of
from bot.cli.checkup_leave import leave
from bot.cli.checkup_models import demotions, failed_trials, means, troubles
from bot.cli.checkup_ready import Left, clock_fault, left, live_venues, readiness
from bot.cli.finding import Finding, Verdict
from bot.cli.output.figures import ago, size
from bot.cli.vitals import last_beat
from bot.config.load import load_config
from bot.config.model import Config
from bot.config.plugin_settings import settings_of
from bot.domain.submission import Mode
from bot.errors import ConfigError, StoreError
from bot.limits import short_limits
from bot.llm.roles import Roles
from bot.members import with_members
from bot.outfit import idle_roles, lacking_roles
from bot.registry import Registry, load_registry
from bot.specs import Table
from bot.store.backup import backups
from bot.store.checks import FREE_LIMIT_BYTES, quick_check, version_warning, wal_bytes
from bot.store.database import WAL_LIMIT_BYTES
from bot.store.journal import Event
from bot.store.ledger import BACKUP_FOLDER, read_ledger
from bot.store.lock import is_running, last_holder
from bot.store.restore import restored

OLDEST_PYTHON = (3, 11)
# No Foxcast was written before, so a clock that says so is wrong.
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK_SLACK = timedelta(minutes=5)
SILENT_AFTER = timedelta(seconds=60)
BACKUP_WITHIN = timedelta(days=1)


def checkup(config_path: Path | None, now: datetime) -> Iterator[Finding]:
    """Yield the findings, each fault once; where the configuration cannot be read, those that need it are left out."""
    told = set[str]()
    for finding in _checked(config_path, now):
        # A setting that is refused is refused to each check that needs it.
        if finding.verdict is not Verdict.FAIL or finding.found not in told:
            told.add(finding.found)
            yield finding


def _checked(config_path: Path | None, now: datetime) -> Iterator[Finding]:
    yield _python()
    yield _sqlite()
    try:
        config = load_config(config_path)
    except ConfigError as error:
        yield Finding(Verdict.FAIL, "configuration", str(error), "mend it")
        return
    yield Finding(Verdict.OK, "configuration", str(config.sources.document.path or "defaults and environment"))
    yield from _plugins(config)
    yield _state(config)
    yield _disk(config.state)
    folder = folder_of(config)
    found = left(config, folder / LEDGER_FILE, now)
    yield _clock(folder / LEDGER_FILE, now, clock_fault(found, live_venues(config)))
    yield _daemon(folder, now)
    yield from _ledger(folder / LEDGER_FILE, now)
    if (folder / LEDGER_FILE).exists():
        yield from troubles(config, folder / LEDGER_FILE, now)
    yield from leave(config, folder / LEDGER_FILE, now)
    yield from _readiness(config, found, now)


def _python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info >= OLDEST_PYTHON:
        return Finding(Verdict.OK, "python", found)
    return Finding(Verdict.FAIL, "python", found, "install Python 3.11 or newer")


def _sqlite() -> Finding:
    warning = version_warning()
    if warning is None:
        return Finding(Verdict.OK, "sqlite", "no known fault in this version")
    return Finding(Verdict.WARN, "sqlite", warning)


def _plugins(config: Config) -> Iterator[Finding]:
    try:
        registry = load_registry(config)
    except ConfigError as error:
        yield Finding(Verdict.FAIL, "plugins", str(error), "mend config.toml")
        return
    for broken in registry.broken:
        yield Finding(Verdict.FAIL, "plugins", f"{broken.plugin.name}: {broken.reason}", "mend it or do not enable it")
    yield from _settings(config, registry)
    yield from _venues(config, registry)
    yield from _models(config, registry)
    names = ", ".join(plugin.name for plugin in registry.enabled)
    if names:
        yield Finding(Verdict.OK, "plugins", f"enabled: {names}")
    else:
        yield Finding(Verdict.WARN, "plugins", "none is enabled", "name some in plugins of config.toml")


def _settings(config: Config, registry: Registry) -> Iterator[Finding]:
    for table in Table:
        for spec in registry.configurable(table):
            try:
                settings_of(spec, config)
            except ConfigError as error:
                yield Finding(Verdict.FAIL, "settings", str(error), "mend it")


def _venues(config: Config, registry: Registry) -> Iterator[Finding]:
    """Yield the venues that are left out because no plugin brings them; what is broken is told as such."""
    for venue in config.venues:
        if venue not in registry.venues and config.mode_of(venue) is not Mode.OFF and not registry.broken:
            found = f"no plugin in use brings {venue}, so it is left out"
            remedy = f'add its plugin to plugins of config.toml, or say mode = "off" in [venues.{venue}]'
            yield Finding(Verdict.WARN, "venues", found, remedy)


def _models(config: Config, registry: Registry) -> Iterator[Finding]:
    used = dict.fromkeys(name for table in config.venues.values() for name in table.everyone)
    try:
        used.update(
            dict.fromkeys(with_members(config, registry, [name for name in used if name in registry.forecasters]))
        )
    except ConfigError as error:
        yield Finding(Verdict.FAIL, "forecasters", str(error), "mend config.toml")
    for name in used:
        lacking = lacking_roles(config, registry.forecasters[name]) if name in registry.forecasters else None
        if lacking is not None:
            yield Finding(Verdict.FAIL, "models", lacking, "mend config.toml")
    yield from _limits(config, registry, [name for name in used if name in registry.forecasters])
    try:
        Roles(config.llm, frozenset(registry.models.names))
    except ConfigError as error:
        yield Finding(Verdict.FAIL, "models", str(error), "mend config.toml")
        return
    for idle in idle_roles(config, registry):
        yield Finding(Verdict.WARN, "roles", idle)
    answers = [*means(config, registry)]
    if config.llm.roles and not any(found.check in {"keys", "endpoints"} for found in answers):
        told = ", ".join(f"{role}: {table.model}" for role, table in config.llm.roles.items())
        yield Finding(Verdict.OK, "models", told)
    yield from answers


def _limits(config: Config, registry: Registry, used: Iterable[str]) -> Iterator[Finding]:
    try:
        yield from [Finding(Verdict.WARN, "limits", why) for why in short_limits(config, registry, used)]
    except ConfigError:
        return  # as the check of the settings says


def _state(config: Config) -> Finding:
    folder = config.state
    if not folder.exists():
        parent = _existing(folder)
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
            return Finding(Verdict.OK, "state folder", f"{folder} will be made")
        return Finding(Verdict.FAIL, "state folder", f"{folder} cannot be made", "name another in state of config.toml")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Finding(Verdict.FAIL, "state folder", f"{folder} cannot be written", "look at its rights")
    wide = [path for path in (folder_of(config), folder_of(config) / LEDGER_FILE) if path.exists() and _is_wide(path)]
    if wide:
        return Finding(Verdict.WARN, "state folder", f"others can read {wide[0]}", f"run: chmod go-rwx {wide[0]}")
    return Finding(Verdict.OK, "state folder", str(folder))


def _is_wide(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _existing(folder: Path) -> Path:
    return next(parent for parent in folder.absolute().parents if parent.exists())


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder if folder.exists() else _existing(folder)).free
    if free >= FREE_LIMIT_BYTES:
        return Finding(Verdict.OK, "disk", f"{size(free)} free")
    return Finding(Verdict.FAIL, "disk", f"{size(free)} free", f"free {size(FREE_LIMIT_BYTES)} or more")


def _clock(ledger: Path, now: datetime, compared: str) -> Finding:
    """``compared`` is what was found wrong with the clock when a live venue was asked last."""
    floor = max(FIRST_DAY, datetime.fromtimestamp(ledger.stat().st_mtime, UTC)) if ledger.exists() else FIRST_DAY
    if now >= floor - CLOCK_SLACK:
        if compared:
            found = f"{now:%Y-%m-%d %H:%M} UTC; as the last run saw it, it {compared}"
            return Finding(Verdict.WARN, "clock", found, "nothing is submitted until a run finds it right")
        return Finding(Verdict.OK, "clock", f"{now:%Y-%m-%d %H:%M} UTC")
    return Finding(Verdict.FAIL, "clock", f"{now:%Y-%m-%d %H:%M} UTC is before {floor:%Y-%m-%d %H:%M}", "set the clock")


def _readiness(config: Config, found: Left, now: datetime) -> Iterator[Finding]:
    try:
        registry = load_registry(config)
    except ConfigError:
        return  # as the plugins say
    yield from readiness(config, registry, found, now)


def _daemon(folder: Path, now: datetime) -> Finding:
    holder = last_holder(folder)
    if holder is None or not is_running(holder):
        return Finding(Verdict.OK, "daemon", "does not run")
    beat = last_beat(folder)
    age = None if beat is None or beat < holder.started_at else now - beat
    silent = now - holder.started_at if age is None else age
    if silent <= SILENT_AFTER:
        return Finding(Verdict.OK, "daemon", f"process {holder.pid} runs")
    found = f"process {holder.pid} gave its last heartbeat {ago(silent)}"
    return Finding(Verdict.WARN, "daemon", found, "look at its log; a single pass gives none")


def _ledger(path: Path, now: datetime) -> Iterator[Finding]:
    if not path.exists():
        yield Finding(Verdict.OK, "ledger", "there is none yet; make one with: foxcast run --once")
        return
    yield _soundness(path)
    wal = wal_bytes(path)
    if wal > WAL_LIMIT_BYTES:
        yield Finding(Verdict.WARN, "write-ahead log", size(wal), "end programs that keep the ledger open")
    else:
        yield Finding(Verdict.OK, "write-ahead log", size(wal))
    yield _backup(path, now)
    yield from _store_halt(path)
    yield from demotions(path, now)
    yield from failed_trials(path, now)
    if mark := restored(path):
        found = f"restored from {mark.backup} at {mark.at:%Y-%m-%d %H:%M} UTC, so nothing leaves"
        yield Finding(
            Verdict.WARN, "restored", found, "the next run asks the venues what stands, and says what is left"
        )


def _store_halt(path: Path) -> Iterator[Finding]:
    try:
        halt = asyncio.run(_standing_halt(path))
    except StoreError:
        return  # as the soundness says
    if halt is not None:
        yield Finding(Verdict.FAIL, "halted", halt.text, "the next start ends the halt: foxcast run")


async def _standing_halt(path: Path) -> Event | None:
    async with read_ledger(path) as ledger:
        return await ledger.journal.standing_halt()


def _soundness(path: Path) -> Finding:
    remedy = "restore a backup: foxcast db restore FILE"
    try:
        health = quick_check(path)
    except StoreError as error:
        return Finding(Verdict.FAIL, "ledger", str(error), remedy)
    if health.sound:
        return Finding(Verdict.OK, "ledger", f"{path}, {size(health.database_bytes)}")
    return Finding(Verdict.FAIL, "ledger", f"{path}: {health.problems[0].examples[0]}", remedy)


def _backup(path: Path, now: datetime) -> Finding:
    copies = backups(path.parent / BACKUP_FOLDER, path.stem)
    if copies and now - copies[0].made_at <= BACKUP_WITHIN:
        return Finding(Verdict.OK, "backup", f"{copies[0].path.name}, {ago(now - copies[0].made_at)}")
    found = f"the last one is of {ago(now - copies[0].made_at)}" if copies else "there is none"
    return Finding(Verdict.WARN, "backup", found, "make one with: foxcast db backup")
