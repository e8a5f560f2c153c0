"""The dashboard of a demo that has ended: its clock continues where the simulated one stopped."""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import TYPE_CHECKING

from bot.cli.web import DEFAULT_LISTEN, serve_dashboard
from bot.config.loader import load_config
from bot.config.web_schema import WebSection
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.simulator.demo.configuration import CONFIG
from bot.store.database import LOCK_FILE
from bot.store.ledger import state_folder

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from pathlib import Path

    from bot.core.interfaces import Clock

ANY_PORT = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class ShiftedClock:
    """A clock that is ``shift`` away from the one of the system."""

    shift: timedelta
    real: Clock = field(default_factory=SystemClock)

    def now(self) -> datetime:
        return self.real.now() + self.shift

    def monotonic(self) -> float:
        return self.real.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self.real.sleep(seconds)


def serve_demo_dashboard(folder: Path, ended_at: datetime) -> None:
    """Serve the dashboard of the demo in a folder until a signal, at the usual address or, if taken, at another."""
    config = load_config(folder / CONFIG, {})
    # The daemon of the demo ran in this process, which would be taken for it.
    (state_folder(config) / LOCK_FILE).write_bytes(b"")
    clock = ShiftedClock(ended_at - SystemClock().now())
    try:
        asyncio.run(serve_dashboard(config, WebSection(listen=DEFAULT_LISTEN), clock))
    except ConfigError:
        asyncio.run(serve_dashboard(config, WebSection(listen=ANY_PORT), clock))
