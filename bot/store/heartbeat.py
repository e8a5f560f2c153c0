"""The heartbeat of the daemon: one small file next to the ledger, and what it says about a daemon that ended.

A heartbeat every ten seconds would be three million rows a year, and only the last one matters. A daemon that ends as
it was asked to, or that gives up, adds the reason; where that is missing and no process runs, the daemon was killed or
the machine went down.
"""

import json
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from bot.core.errors import StoreError
from bot.core.light_dataclass import dataclass
from bot.store.database import LockHolder, find_running_holder, translate_errors
from bot.store.private_files import read_private_json, replace_private_file

HEARTBEAT_FILE = "heartbeat.json"
MAX_HEARTBEAT_AGE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonHeartbeat:
    """The last sign of life, with the lag of the event loop in seconds.

    ``ended`` is why the daemon ended, None while it runs and after a kill; ``failed``: it gave up.
    """

    at: datetime
    lag_p99_s: float = 0.0
    lag_max_s: float = 0.0
    ended: str | None = None
    failed: bool = False


class DaemonCondition(StrEnum):
    """Whether the daemon runs, and how the last one ended."""

    NEVER = "never started"
    RUNNING = "running"
    ONCE = "a single pass is running"
    SILENT = "running without a heartbeat"
    STOPPED = "stopped"
    FAILED = "gave up"
    DIED = "died"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """The process that holds the state folder, and the last heartbeat there."""

    condition: DaemonCondition
    holder: LockHolder | None
    heartbeat: DaemonHeartbeat | None

    @property
    def is_running(self) -> bool:
        """Whether a process uses the state folder."""
        return self.holder is not None


def read_daemon_state(folder: Path, now: datetime) -> DaemonState:
    """Return the state of the daemon of a folder."""
    holder, heartbeat = find_running_holder(folder), read_heartbeat(folder)
    return DaemonState(condition=_daemon_condition(holder, heartbeat, now), holder=holder, heartbeat=heartbeat)


def _daemon_condition(holder: LockHolder | None, heartbeat: DaemonHeartbeat | None, now: datetime) -> DaemonCondition:
    if holder is not None:
        if heartbeat is None or heartbeat.at < holder.started_at:
            # A single pass has no heartbeat, and a daemon has its first one after some seconds.
            return DaemonCondition.ONCE
        return DaemonCondition.RUNNING if now - heartbeat.at <= MAX_HEARTBEAT_AGE else DaemonCondition.SILENT
    if heartbeat is None:
        return DaemonCondition.NEVER
    if heartbeat.ended is None:
        return DaemonCondition.DIED
    return DaemonCondition.FAILED if heartbeat.failed else DaemonCondition.STOPPED


def read_heartbeat(folder: Path) -> DaemonHeartbeat | None:
    """Return the last heartbeat in the folder; None if there is none that can be read."""
    try:
        raw = read_private_json(folder / HEARTBEAT_FILE)
        ended = raw.get("ended")
        return DaemonHeartbeat(
            at=datetime.fromisoformat(raw["at"]),
            lag_p99_s=float(raw.get("lag_p99_s", 0.0)),
            lag_max_s=float(raw.get("lag_max_s", 0.0)),
            ended=None if ended is None else str(ended),
            failed=bool(raw.get("failed", False)),
        )
    except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_heartbeat(folder: Path, heartbeat: DaemonHeartbeat) -> None:
    """Replace the heartbeat in the folder; raises StoreError."""
    values = {"at": heartbeat.at.isoformat(), "lag_p99_s": heartbeat.lag_p99_s, "lag_max_s": heartbeat.lag_max_s}
    ended = {} if heartbeat.ended is None else {"ended": heartbeat.ended, "failed": heartbeat.failed}
    path = folder / HEARTBEAT_FILE
    with translate_errors(path):
        replace_private_file(path, json.dumps({**values, **ended}).encode(), durable=False)
