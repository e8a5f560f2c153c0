"""Which copies of a ledger stay: so many hours and days, as long as there is room for them.

A copy whose time is still to come was made by a clock that was ahead: it counts as the oldest.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from bot.store.backup import Backup, backups, missing_bytes, remove

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

# Whatever they take, the newest copies stay: one more in case the newest is of a ledger that was spoilt.
LEAST_KEPT = 2
# Of the whole disk copies take no more: the ledger grows, and copies do in its pace.
MOST_OF_DISK = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Which regular backups are kept: one of each of so many hours and days, that take no more than ``bytes``."""

    hourly: int = 24
    daily: int = 30
    bytes: int | None = None


def prune(folder: Path, stem: str, keep: Keep | None = None, *, now: datetime) -> tuple[Backup, ...]:
    """Delete regular backups but the newest of each of the last hours and days that have any; return what went.

    Hours and days are those with a backup, not those before now: nothing goes because the program was off for a month.
    What is kept takes at most ``keep.bytes`` and half of the disk: hours and days give way in turn, the oldest first,
    the newest two never. Raises StoreError.
    """
    wanted, regular = keep or Keep(), _regular(folder, stem, now)
    stays = [*_stays(_in_order(regular, wanted, now), _most(folder, wanted))]
    gone = tuple(backup for backup in regular if backup not in stays)
    for backup in gone:
        remove(backup)
    return gone


def make_room(path: Path, folder: Path, keep: Keep | None = None, *, now: datetime) -> tuple[Backup, ...]:
    """Delete what must go for one more copy of the ledger at ``path`` to fit, and return it.

    Nothing goes where that would not do, and the newest copy stays whatever happens. Raises StoreError.
    """
    missing, regular = missing_bytes(path, folder), _regular(folder, path.stem, now)
    gone: list[Backup] = []
    for backup in reversed(_in_order(regular, keep or Keep(), now)[1:]):
        if sum(one.size_bytes for one in gone) >= missing:
            break
        gone.append(backup)
    if sum(one.size_bytes for one in gone) < missing:
        return ()
    for backup in gone:
        remove(backup)
    return tuple(gone)


def _regular(folder: Path, stem: str, now: datetime) -> list[Backup]:
    """Return the regular backups, the newest first and those of the future last."""
    found = [backup for backup in backups(folder, stem) if not backup.label]
    return sorted(found, key=lambda backup: backup.made_at > now)


def _most(folder: Path, keep: Keep) -> float:
    whole = shutil.disk_usage(folder).total if folder.exists() else math.inf
    return min(MOST_OF_DISK * whole, math.inf if keep.bytes is None else keep.bytes)


def _stays(in_order: Sequence[Backup], most: float) -> Iterator[Backup]:
    taken = 0
    for number, backup in enumerate(in_order):
        taken += backup.size_bytes
        if taken > most and number >= LEAST_KEPT:
            return
        yield backup


def _in_order(regular: Sequence[Backup], keep: Keep, now: datetime) -> list[Backup]:
    """Return what is kept where there is room for all, what should stay longest first: the newest two, then in turn."""
    hours = _newest_of_each(regular, lambda backup: backup.made_at.strftime("%Y%m%d%H"))[: keep.hourly]
    days = _newest_of_each(regular, lambda backup: backup.made_at.strftime("%Y%m%d"))[: keep.daily]
    turns = chain.from_iterable(zip_longest(hours, days))
    found = dict.fromkeys(backup for backup in chain(regular[:LEAST_KEPT], turns) if backup is not None)
    return sorted(found, key=lambda backup: backup.made_at > now)


def _newest_of_each(regular: Iterable[Backup], period: Callable[[Backup], str]) -> list[Backup]:
    newest: dict[str, Backup] = {}
    for backup in regular:
        newest.setdefault(period(backup), backup)
    return [*newest.values()]
