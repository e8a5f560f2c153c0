"""Which regular backups are kept: the newest ones, the fullest one, and generations of hours, days, weeks and months.

A backup is never replaced by one that holds less: within each period the fullest one is kept, and the fullest of all
is deleted only when a later one holds as much.
"""

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, zip_longest
from pathlib import Path

from bot.core.light_dataclass import dataclass
from bot.store.backups import (
    LedgerBackup,
    LedgerContent,
    list_backups,
    missing_bytes,
    read_backup_content,
    remove_backup,
)

# The newest backups are always kept: two, in case the newest is of a broken ledger.
MIN_KEPT_BACKUPS = 2
# The largest share of the disk that backups may take: they grow with the ledger.
MAX_DISK_SHARE = 0.5
# How a backup that was made for a reason is listed, by the beginning of its label.
_LABEL_GENERATIONS = {"asked": "by hand", "before-": "before an update"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRetention:
    """Which regular backups are kept: one for each of the last periods of each length, at most ``bytes`` in all."""

    hourly: int = 24
    daily: int = 30
    weekly: int = 12
    monthly: int = 24
    bytes: int | None = None


# Backups, newest first, each with what it holds; None if it cannot be read.
BackupContents = Mapping[LedgerBackup, LedgerContent | None]
# Generation -> the period of a backup, as text that differs between periods.
_PERIODS: Mapping[str, Callable[[datetime], str]] = {
    "hourly": lambda at: at.strftime("%Y%m%d%H"),
    "daily": lambda at: at.strftime("%Y%m%d"),
    "weekly": lambda at: at.strftime("%G%V"),
    "monthly": lambda at: at.strftime("%Y%m"),
}


def prune_backups(
    folder: Path, stem: str, keep: BackupRetention | None = None, *, now: datetime
) -> tuple[LedgerBackup, ...]:
    """Delete regular backups except those of the last hours, days, weeks and months with a backup; return the deleted.

    Only periods with a backup count, so a month without a running program deletes nothing. The kept backups take at
    most ``keep.bytes`` and half of the disk: beyond that, those of each generation are deleted in turn, oldest first,
    but never the newest two and the fullest. Raises StoreError.
    """
    wanted, regular = keep or BackupRetention(), _regular_backups(folder, stem, now)
    required, others = _retention_order(regular, wanted, now)
    retained = [*required, *_fitting_backups(required, others, _max_backup_bytes(folder, wanted))]
    deleted = tuple(backup for backup in regular if backup not in retained)
    for backup in deleted:
        remove_backup(backup)
    return deleted


def make_room_for_backup(
    path: Path, folder: Path, keep: BackupRetention | None = None, *, now: datetime
) -> tuple[LedgerBackup, ...]:
    """Delete as many backups as one more copy of the ledger at ``path`` needs, and return them.

    Deletes nothing if that cannot free enough space, and never the newest and the fullest backup. Raises StoreError.
    """
    missing, regular = missing_bytes(path, folder), _regular_backups(folder, path.stem, now)
    required, others = _retention_order(regular, keep or BackupRetention(), now)
    fullest = _fullest_backup(regular)
    deleted: list[LedgerBackup] = []
    for backup in reversed([*(one for one in required[1:] if one != fullest), *others]):
        if sum(one.size_bytes for one in deleted) >= missing:
            break
        deleted.append(backup)
    if sum(one.size_bytes for one in deleted) < missing:
        return ()
    for backup in deleted:
        remove_backup(backup)
    return tuple(deleted)


def backup_generations(
    folder: Path, stem: str, keep: BackupRetention | None = None, *, now: datetime
) -> Mapping[LedgerBackup, Sequence[str]]:
    """Return all backups, newest first, each with the generations that keep it, such as "hourly".

    A backup with a label is kept for its reason alone. No generation means that the next pruning deletes it.
    """
    wanted, regular = keep or BackupRetention(), _regular_backups(folder, stem, now)
    found: dict[LedgerBackup, list[str]] = {backup: [] for backup in list_backups(folder, stem)}
    for backup in [*regular][:MIN_KEPT_BACKUPS]:
        found[backup].append("newest")
    fullest = _fullest_backup(regular)
    if fullest is not None and fullest not in [*regular][:MIN_KEPT_BACKUPS]:
        found[fullest].append("fullest")
    for name in _PERIODS:
        for backup in _fullest_per_period(regular, name, wanted):
            found[backup].append(name)
    for backup, generations in found.items():
        if backup.label:
            labels = _LABEL_GENERATIONS.items()
            generations.append(next((text for label, text in labels if backup.label.startswith(label)), backup.label))
    return found


def _regular_backups(folder: Path, stem: str, now: datetime) -> BackupContents:
    """Return the regular backups, newest first, those with a time in the future last."""
    found = [backup for backup in list_backups(folder, stem) if not backup.label]
    return {one: read_backup_content(one.path) for one in sorted(found, key=lambda backup: backup.made_at > now)}


def _max_backup_bytes(folder: Path, keep: BackupRetention) -> float:
    disk_bytes = shutil.disk_usage(folder).total if folder.exists() else math.inf
    return min(MAX_DISK_SHARE * disk_bytes, math.inf if keep.bytes is None else keep.bytes)


def _fitting_backups(
    required: Sequence[LedgerBackup], others: Sequence[LedgerBackup], max_bytes: float
) -> Iterator[LedgerBackup]:
    total_bytes = sum(one.size_bytes for one in required)
    for backup in others:
        total_bytes += backup.size_bytes
        if total_bytes > max_bytes:
            return
        yield backup


def _retention_order(
    regular: BackupContents, keep: BackupRetention, now: datetime
) -> tuple[list[LedgerBackup], list[LedgerBackup]]:
    """Return the backups that are always kept, and the others, most important first: of each generation in turn."""
    fullest = _fullest_backup(regular)
    required = [*dict.fromkeys([*[*regular][:MIN_KEPT_BACKUPS], *([] if fullest is None else [fullest])])]
    alternating = chain.from_iterable(zip_longest(*(_fullest_per_period(regular, name, keep) for name in _PERIODS)))
    found = dict.fromkeys(backup for backup in alternating if backup is not None and backup not in required)
    return required, sorted(found, key=lambda backup: backup.made_at > now)


def _fullest_per_period(regular: BackupContents, name: str, keep: BackupRetention) -> list[LedgerBackup]:
    """Return the fullest backup of each of the last periods of a generation, newest first."""
    periods: dict[str, dict[LedgerBackup, LedgerContent | None]] = {}
    for backup, content in regular.items():
        periods.setdefault(_PERIODS[name](backup.made_at), {})[backup] = content
    counts: Mapping[str, int] = {
        "hourly": keep.hourly,
        "daily": keep.daily,
        "weekly": keep.weekly,
        "monthly": keep.monthly,
    }
    wanted = [*periods.values()][: counts[name]]
    return [fullest for group in wanted if (fullest := _fullest_backup(group)) is not None]


def _fullest_backup(newest_first: BackupContents) -> LedgerBackup | None:
    """Return the newest backup that holds all that an older one holds; one that cannot be read holds nothing."""
    fullest: LedgerBackup | None = None
    content: LedgerContent | None = None
    for backup, other in newest_first.items():
        if fullest is None or (other is not None and (content is None or content.lacks_part_of(other))):
            fullest, content = backup, other
    return fullest
