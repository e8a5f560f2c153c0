"""A checked copy of the ledger every so often, and the old ones pruned."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.ports import Clock
from bot.store import backup as store_backup


@dataclass(frozen=True, slots=True, kw_only=True)
class BackingUp:
    """Which ledger is copied, into which folder, and how many bytes its copies may take there."""

    path: Path
    folder: Path
    clock: Clock
    most_bytes: int | None = None


async def back_up(parts: BackingUp) -> str:
    """Copy, check and prune, off the event loop; raises StoreError for a copy that does not pass its checks."""
    keep = store_backup.Keep(bytes=parts.most_bytes)
    prune = partial(store_backup.prune, parts.folder, parts.path.stem, keep)
    # Before it too: where others have filled the disk since, old copies make room for the new one.
    pruned = [*await asyncio.to_thread(prune)]
    made = await asyncio.to_thread(store_backup.back_up, parts.path, parts.folder, at=parts.clock.now())
    pruned += await asyncio.to_thread(prune)
    removed = f", {len(pruned)} old ones removed" if pruned else ""
    return f"{made.path.name}, {made.size_bytes / 1e6:.1f} MB{removed}"
