"""A checked copy of the ledger every so often, and the old ones pruned."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from bot.ports import Clock
from bot.store import backup as store_backup
from bot.store.backup import Backup
from bot.store.backup_keep import Keep, make_room, prune


@dataclass(frozen=True, slots=True, kw_only=True)
class BackingUp:
    """Which ledger is copied, into which folder, and how many bytes its copies may take there."""

    path: Path
    folder: Path
    clock: Clock
    most_bytes: int | None = None


async def back_up(parts: BackingUp) -> str:
    """Copy, check and prune, off the event loop; raises StoreError for a copy that does not pass its checks."""
    made, gone = await asyncio.to_thread(_backed_up, parts)
    removed = f", {gone} old ones removed" if gone else ""
    return f"{made.path.name}, {made.size_bytes / 1e6:.1f} MB{removed}"


def _backed_up(parts: BackingUp) -> tuple[Backup, int]:
    keep, now = Keep(bytes=parts.most_bytes), parts.clock.now()
    gone = make_room(parts.path, parts.folder, keep, now=now)
    made = store_backup.back_up(parts.path, parts.folder, at=now)
    return made, len(gone) + len(prune(parts.folder, parts.path.stem, keep, now=now))
