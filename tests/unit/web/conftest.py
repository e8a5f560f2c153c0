"""A daemon whose heartbeat the tests write, and watchers of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bot.config.schema import Config
from bot.store.database import instance_lock
from bot.store.heartbeat import DaemonHeartbeat, write_heartbeat
from bot.store.ledger import Ledger, state_folder
from bot.testing.clock import FakeClock
from bot.web.app import create_web_app
from bot.web.watched_state import WatchedState
from tests.blank_ledger import open_blank_ledger

NOON = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
TOKEN = "a-token-of-a-test"  # noqa: S105 - of a test


@dataclass
class WatchedDaemon:
    """A daemon whose heartbeat the test writes, and a watcher of it."""

    ledger: Ledger
    folder: Path
    clock: FakeClock
    config: Config

    async def get(self, path: str, *, token: str | None = None, **headers: str) -> httpx.Response:
        state = WatchedState(
            config=self.config, folder=self.folder, ledger=self.ledger, clock=self.clock, clock_skew=lambda: None
        )
        transport = httpx.ASGITransport(create_web_app(state, token=token))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420") as client:
            return await client.get(path, headers=headers)

    def beat(self, age: timedelta = timedelta()) -> None:
        write_heartbeat(self.folder, DaemonHeartbeat(at=self.clock.now() - age, lag_p99_s=0.25, lag_max_s=0.5))

    async def samples(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """Return the metrics as the library's parser reads them, by name and values of labels."""
        answer = await self.get("/metrics")
        assert answer.status_code == 200
        families = [*text_string_to_metric_families(answer.text)]
        assert all(family.documentation for family in families)
        return {
            (sample.name.removeprefix("foxcast_"), tuple(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[WatchedDaemon]:
    config = Config.model_validate({"state": tmp_path, "venues": {"lantern": {"forecasters": ["fox"]}}})
    folder = state_folder(config)
    with instance_lock(folder, started_at=NOON):
        async with open_blank_ledger(folder / "ledger.sqlite", now=NOON) as ledger:
            clock = FakeClock(NOON)
            clock.advance_without_waking(30.0)
            yield WatchedDaemon(ledger, folder, clock, config)
