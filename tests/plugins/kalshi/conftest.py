"""The strict double of the venue on one real socket, and the plugin in front of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.api import PluginContext, Question, QuestionRef, Resolution
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.testing.clock import FakeClock
from bot.testing.loopback_server import LoopbackServer
from plugins.kalshi.api_client import KalshiClient
from plugins.kalshi.reader import KalshiReader
from plugins.kalshi.settings import KalshiSettings
from tests.plugins.kalshi.fake_exchange import PREFIX, FakeKalshiExchange
from tests.plugins.kalshi.records import series


@dataclass(frozen=True, slots=True, kw_only=True)
class KalshiFixture:
    """The venue and the plugin, on one clock that stands still."""

    venue: FakeKalshiExchange
    settings: KalshiSettings
    place: PluginContext
    clock: FakeClock

    @property
    def client(self) -> KalshiClient:
        return KalshiClient(self.settings, self.place.http, self.clock)

    @property
    def reader(self) -> KalshiReader:
        return KalshiReader(self.settings, self.place)

    def set(self, **changes: Any) -> "KalshiFixture":
        """The same with other settings."""
        settings = KalshiSettings.model_validate({**self.settings.model_dump(), **changes})
        return KalshiFixture(venue=self.venue, settings=settings, place=self.place, clock=self.clock)

    async def questions(self) -> dict[str, Question]:
        return {question.ref.key: question async for question in self.reader.questions()}

    async def resolutions(self, *keys: str) -> dict[str, Resolution]:
        pending = [QuestionRef("kalshi", key) for key in keys]
        return {found.ref.key: found async for found in self.reader.resolutions(pending)}


@pytest.fixture
async def kalshi(tmp_path: Path) -> AsyncIterator[KalshiFixture]:
    async with open_kalshi(tmp_path) as fixture:
        yield fixture


@asynccontextmanager
async def open_kalshi(tmp_path: Path, clock: FakeClock | None = None) -> AsyncIterator[KalshiFixture]:
    """Open the venue with one series and no event."""
    venue, clock = FakeKalshiExchange(series={"KXDEMO": series()}), clock or FakeClock()
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    async with (
        LoopbackServer(venue.answer) as server,
        RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1), limits=limits) as http,
    ):
        settings = KalshiSettings(
            api_url=f"{server.address}{PREFIX}", test_host=server.address.removeprefix("http://"), min_volume=0.0
        )
        place = PluginContext(clock=clock, http=http, folder=tmp_path / "kalshi")
        yield KalshiFixture(venue=venue, settings=settings, place=place, clock=clock)
