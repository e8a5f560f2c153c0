"""Which orders the venue is known to have accepted, kept in a file.

The venue lists resting and traded orders, and forgets all others. This file distinguishes an order that ended without a
trade from one that never arrived. If the file is lost, such an order counts as absent, and a person must check its
cost.
"""

import asyncio
import json
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

ACCEPTED_ORDERS_FILE = "taken.json"
# The newest are kept; each is only read back until its fence.
MAX_ACCEPTED_ORDERS = 5_000


class AcceptedOrders:
    """The hashes of orders, the oldest first, in a file of the plugin's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ACCEPTED_ORDERS_FILE
        self._known: dict[str, None] | None = None
        self._file_lock = asyncio.Lock()

    async def add(self, order: str) -> None:
        """Add one."""
        async with self._file_lock:
            known = await self._read()
            if order.lower() in known:
                return
            known[order.lower()] = None
            for name in list(known)[:-MAX_ACCEPTED_ORDERS]:
                del known[name]
            try:
                await asyncio.to_thread(self._write, json.dumps(list(known)))
            except OSError as error:
                log.warning("an accepted order could not be recorded", order=order, error=str(error))

    async def find_any(self, orders: set[str]) -> str | None:
        """Return one of these orders that was accepted, None if none is known."""
        async with self._file_lock:
            known = await self._read()
        return next((name for name in sorted(orders) if name.lower() in known), None)

    async def _read(self) -> dict[str, None]:
        if self._known is None:
            self._known = await asyncio.to_thread(self._load)
        return self._known

    def _load(self) -> dict[str, None]:
        try:
            listed = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("the list of accepted orders is lost", file=ACCEPTED_ORDERS_FILE, error=type(error).__name__)
            return {}
        return dict.fromkeys(str(name) for name in listed) if isinstance(listed, list) else {}

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._path)
