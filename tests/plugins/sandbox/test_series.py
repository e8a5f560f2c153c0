"""The data source of the sandbox: the kit of all sources, and the real service behind it."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from bot.api import BinaryShape, PluginContext, PluginSettings, Question, QuestionRef, Target
from bot.core.clock import SeededRandom
from bot.forecasting.untrusted_text import fence_text
from bot.net.client import RetryingHttpClient
from bot.simulator.fake_service import serve_service
from bot.simulator.models.prompt_reading import read_question
from bot.simulator.world.news_server import NewsServer
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.testing.clock import FakeClock
from bot.testing.data_contract import ODD_RESPONSES, ZONES, TimeSeriesContract, recorded_requests
from bot.testing.http import FakeHttpClient
from plugins.sandbox import foxcast_data_sources
from plugins.sandbox.series import SandboxSeries
from plugins.sandbox.settings import SandboxSettings
from tests.plugins.search.shared_values import as_json

START = datetime(2026, 3, 1, tzinfo=UTC)
BEFORE = datetime(2026, 3, 5, tzinfo=UTC)
ADDRESS = "http://127.0.0.1:8750/series/SIM-PRIC-F012?as_of=2026-03-05T00%3A00%3A00%2B00%3A00"
POINTS = [["2026-03-03", 12.5], ["2026-03-04", 12.75], ["2026-03-05", 99.0]]


def body(points: object = POINTS, **more: object) -> bytes:
    whole = {"simulation": True, "name": "x", "title": "the price of tin", "unit": "crowns", "points": points, **more}
    return as_json(whole)


class TestSandboxSeries(TimeSeriesContract):
    spec = foxcast_data_sources()[0]
    settings: ClassVar[PluginSettings] = SandboxSettings()
    pages: ClassVar[Mapping[str, bytes | Exception]] = {ADDRESS: body()}
    now = BEFORE + timedelta(days=1)
    name = "SIM-PRIC-F012"
    before = BEFORE
    beyond = b"99.0"
    missing = "SIM-PRIC-X999"
    odd_responses = (
        *ODD_RESPONSES,
        body(simulation=False),
        body([["2026-03-04", 1.0], ["2026-03-03", 2.0]]),
        body([["2026-03-04", None]]),
        body([["soon", 1.0]]),
    )

    async def test_it_asks_encrypted_and_the_same_in_every_time_zone(self, context: PluginContext) -> None:
        """Nothing of the sandbox is encrypted: it never leaves this machine."""
        for zone in ZONES:
            placed = replace(context, http=FakeHttpClient(self.pages))
            await self.request_data(placed, zone)
            assert [asked.url for asked in recorded_requests(placed.http)] == [ADDRESS]


def test_a_series_is_found_in_the_texts_of_a_question_and_in_its_id() -> None:
    question = Question(
        ref=QuestionRef("lantern", "1"),
        title="Will tin close above 12?",
        shape=BinaryShape(),
        targets=(Target(),),
        background="The price of tin is published daily as series SIM-PRIC-F012.",
        source_id="SIM-WEAT-B001",
    )
    context = PluginContext(clock=FakeClock(BEFORE), http=FakeHttpClient({}), folder=Path())
    assert SandboxSeries(SandboxSettings(), context).series_names(question) == ("SIM-WEAT-B001", "SIM-PRIC-F012")


def test_series_are_found_also_where_a_world_has_more_than_a_thousand_questions_of_a_stall() -> None:
    source = SandboxSeries(
        SandboxSettings(), PluginContext(clock=FakeClock(BEFORE), http=FakeHttpClient({}), folder=Path())
    )
    named = [ask for ask in SimulatedWorld(seed=5, start=START, size=3_600).questions if ask.series]
    assert any(len(ask.series) > len("SIM-PRIC-F999") for ask in named)
    for ask in named:
        question = Question(
            ref=QuestionRef("lantern", ask.key),
            title=ask.title,
            shape=BinaryShape(),
            targets=(Target(),),
            background=ask.background,
        )
        assert source.series_names(question) == (ask.series,)
        message = {"role": "user", "content": f"## Background\n{fence_text(ask.background, 'background')}"}
        assert read_question([message]).series == ask.series


async def test_every_question_with_a_series_names_it_and_the_past_stays_as_it_was(tmp_path: Path) -> None:
    world = SimulatedWorld(seed=5, start=START, size=40)
    press = NewsServer(FakeClock(START + timedelta(days=90)), world)
    http = RetryingHttpClient(clock=press.clock, random=SeededRandom(1))
    async with serve_service(press) as served, aclosing(http):
        context = PluginContext(clock=press.clock, http=http, folder=tmp_path)
        source = SandboxSeries(SandboxSettings(base_url=served.url), context)
        named = [ask for ask in world.questions if ask.series]
        assert len(named) > 10
        for ask in named[:5]:
            assert ask.series in ask.background
            early, late = [await source.series(ask.series, before=START + timedelta(days=day)) for day in (30, 400)]
            assert late.values[:30] == early.values
            # 90 days are over, and no more is published than that.
            assert (len(early.values), len(late.values)) == (30, 90)
