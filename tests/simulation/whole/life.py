"""Lives of the real daemon on a virtual loop: each may be killed between any two turns of it, as by SIGKILL.

A killed life leaves its files as they are at that moment, committed writes and nothing else; its connections are cut
and it can make no others. What it still does with its own copy is heard by nobody.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bot.app import open_app
from bot.cli.vitals import Recorder
from bot.config.load import load_config
from bot.daemon.serve import serve
from bot.daemon.watch import Exit, Watch
from bot.registry import load_registry
from bot.testing.network import LIFE, NetworkLoop

if TYPE_CHECKING:
    from bot.testing.loop import VirtualClock

# A virtual loop has no lag to be measured, and a day of it many heartbeats.
WATCH = Watch(seed=1, heartbeat_s=300.0, look_s=300.0, wake_after_s=900.0, abort_after_s=3_600.0, lag_every_s=3_600.0)


@dataclass(slots=True, kw_only=True)
class Lives:
    """The lives of one Foxcast, one after the other, each on the files of the one before; ``ends`` is how they ended."""

    clock: VirtualClock
    loop: NetworkLoop
    root: Path
    config: str
    ends: list[str] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The number of the present or last life, from 1; 0 before the first."""
        return len(self.ends)

    @property
    def home(self) -> Path:
        """The folder of the present life."""
        return self.root / f"life-{self.number}"

    async def live(self, *, until_s: float, kill_in: int | None) -> None:
        """Live until that moment of the clock, or be killed after so many turns of the loop, whichever is first."""
        self._be_born()
        life = asyncio.current_task().get_name() if False else f"life {self.number}"
        LIFE.set(life)
        body = asyncio.ensure_future(self._serve(until_s))
        killed: asyncio.Future[None] = self.loop.create_future()
        if kill_in is not None:
            fuse = Fuse(loop=self.loop, last=self.loop.turns + kill_in, burn=lambda: self._kill(life, body, killed))
            self.loop.on_turn(fuse)
        await asyncio.wait({body, killed}, return_when=asyncio.FIRST_COMPLETED)
        self.loop.on_turn(lambda _: None)
        if not killed.done():
            end = await body
            self.ends[-1] = f"{end.reason.value} {end.detail}".strip()
            self.loop.unplug(life)
            return
        with suppress(asyncio.CancelledError, Exception):
            await body

    def _be_born(self) -> None:
        before = self.root / f"heir-{self.number}" if self.number else None
        self.ends.append("alive")
        if before is not None:
            before.rename(self.home)
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(self.config.replace("HOME", str(self.home)), encoding="utf-8")

    async def _serve(self, until_s: float) -> Exit:
        config = load_config(self.home / "config.toml")
        async with open_app(config, load_registry(config), clock=self.clock) as app:
            self.loop.call_at(until_s, app.stopping.set)
            record = Recorder(app.ledger, app.folder)
            jobs = [*app.jobs(), *app.watches()]
            return await serve(jobs, clock=self.clock, watch=WATCH, record=record, stop=app.stopping)

    def _kill(self, life: str, body: asyncio.Future[Exit], killed: asyncio.Future[None]) -> None:
        self.loop.settle_threads()
        shutil.copytree(self.home, self.root / f"heir-{self.number}", ignore=shutil.ignore_patterns("config.toml"))
        self.loop.unplug(life)
        self.ends[-1] = "killed"
        body.cancel()
        killed.set_result(None)


@dataclass(slots=True, kw_only=True)
class Fuse:
    """Burns down turn by turn."""

    loop: NetworkLoop
    last: int
    burn: object

    def __call__(self, turn: int) -> None:
        if turn == self.last:
            self.loop.call_soon(self.burn)  # type: ignore[arg-type]
