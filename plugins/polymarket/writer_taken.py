"""Which orders the venue is known to have taken: it lists what rests and what was traded, and forgets all others.

So an order that ended without a trade is told from one that never arrived. A file that is lost costs no more than that
such an order is called absent, which leaves what it might have cost to a person.
"""

import asyncio
import json
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

FILE = "taken.json"
# The newest are kept; each is read back until its fence alone.
MOST = 5_000


class Taken:
    """The hashes of orders, the oldest first, in a file of the plugin's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._known: dict[str, None] | None = None
        self._turn = asyncio.Lock()

    async def add(self, order: str) -> None:
        """Keep one."""
        async with self._turn:
            known = await self._read()
            if order.lower() in known:
                return
            known[order.lower()] = None
            for name in list(known)[:-MOST]:
                del known[name]
            try:
                await asyncio.to_thread(self._write, json.dumps(list(known)))
            except OSError as error:
                log.warning("an order that was taken is not noted", order=order, error=str(error))

    async def any_of(self, orders: set[str]) -> str | None:
        """Return one of these orders that was taken, None where none is known to have been."""
        async with self._turn:
            known = await self._read()
        return next((name for name in sorted(orders) if name.lower() in known), None)

    async def _read(self) -> dict[str, None]:
        if self._known is None:
            self._known = await asyncio.to_thread(self._kept)
        return self._known

    def _kept(self) -> dict[str, None]:
        try:
            listed = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("what was taken is not known any more", file=FILE, error=type(error).__name__)
            return {}
        return dict.fromkeys(str(name) for name in listed) if isinstance(listed, list) else {}

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._path)
