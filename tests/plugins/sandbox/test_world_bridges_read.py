"""The plugins of real venues read the simulated world from the doubles, over real sockets, as they read the venues."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.api import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurveShape,
    PluginContext,
    PluginSettings,
    Question,
    VenueSpec,
)
from bot.core.clock import SeededRandom
from bot.net.client import RetryingHttpClient
from bot.simulator.fake_service import FakeService, serve_service
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_bridge import ManifoldBridge
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.metaculus_bridge import MetaculusBridge
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_bridge import PolymarketBridge
from bot.simulator.venues.world_bridge import WorldRunner
from bot.simulator.world.question_generation import FORECASTING_CONTEST, PLAY_MONEY_MARKET, REAL_MONEY_MARKET
from bot.simulator.world.questions import AnswerKind
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.testing.clock import FakeClock
from plugins.manifold import foxcast_venues as manifold
from plugins.manifold.settings import ManifoldSettings
from plugins.metaculus import foxcast_venues as metaculus
from plugins.metaculus.settings import MetaculusSettings
from plugins.polymarket import foxcast_venues as polymarket
from plugins.polymarket.settings import PolymarketSettings

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY = 3.0
# What a setting says where the address of the served double belongs.
HERE = "http://127.0.0.1:1"
SHAPES = {
    AnswerKind.BINARY: BinaryShape,
    AnswerKind.CHOICE: ChoiceShape,
    AnswerKind.NUMBER: CurveShape,
    AnswerKind.DATE: CurveShape,
}


@pytest.fixture
def world() -> SimulatedWorld:
    return SimulatedWorld(seed=31, start=START, size=120)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START + timedelta(days=DAY))


async def read(spec: VenueSpec[Any], venue: FakeService, folder: Path, settings: PluginSettings) -> list[Question]:
    """Return the questions that the plugin finds at the venue, wherever it is served."""
    async with serve_service(venue) as served, RetryingHttpClient(clock=venue.clock, random=SeededRandom(1)) as http:
        message = {name: value for name, value in settings.model_dump().items() if str(value).startswith(HERE)}
        here = {name: value.replace(HERE, served.url) for name, value in message.items()}
        placed = settings.model_copy(update=here)
        async with spec.reader(placed, PluginContext(clock=venue.clock, http=http, folder=folder)) as reader:
            return [question async for question in reader.questions()]


async def test_all_forms_of_markets_in_play_money_are_read(
    world: SimulatedWorld, clock: FakeClock, tmp_path: Path
) -> None:
    venue = FakeManifold(clock)
    bridge = ManifoldBridge(world=world, venue=venue)
    WorldRunner(world=world, clock=clock, bridges={PLAY_MONEY_MARKET: bridge}).advance()
    settings = ManifoldSettings(base_url=HERE, min_bettors=0)
    found = {one.ref.key: one for one in await read(manifold()[0], venue, tmp_path, settings)}
    for ask in (ask for ask in world.open(DAY) if ask.venue_kind == PLAY_MONEY_MARKET):
        question = found[bridge.markets[ask.key].id]
        assert question.title == ask.title
        assert ask.criteria in question.background
        assert question.closes_at == world.calendar.moment_of(ask.closes)
        assert isinstance(question.shape, SHAPES[ask.answer_kind])
        if ask.answer_kind is AnswerKind.BINARY:
            assert question.crowd is not None
            assert isinstance(question.crowd.prediction, BinaryPrediction)
            price = world.crowd_price(ask, DAY)
            assert isinstance(price, float)
            assert question.crowd.prediction.probability == pytest.approx(price, abs=0.02)


async def test_a_tournament_is_read_with_groups_numbers_and_dates(
    world: SimulatedWorld, clock: FakeClock, tmp_path: Path
) -> None:
    venue = FakeMetaculus(clock)
    bridge = MetaculusBridge(world=world, venue=venue)
    WorldRunner(world=world, clock=clock, bridges={FORECASTING_CONTEST: bridge}).advance()
    user = venue.world.add_user("foxbot")
    settings = MetaculusSettings(token=SecretStr(user.token), tournaments=("sample-aib",), base_url=HERE)
    found = await read(metaculus()[0], venue, tmp_path, settings)
    asked = [ask for ask in world.open(DAY) if ask.venue_kind == FORECASTING_CONTEST]
    assert len(found) == len(asked)
    assert {type(one.shape) for one in found} == {SHAPES[ask.answer_kind] for ask in asked}
    texts = "\n".join(f"{one.title} {one.background} {one.criteria}" for one in found)
    for ask in asked:
        assert ask.background in texts
        assert ask.criteria in texts


async def test_an_exchange_is_read_with_events_of_one_winner(
    world: SimulatedWorld, clock: FakeClock, tmp_path: Path
) -> None:
    venue = FakePolymarket(clock)
    bridge = PolymarketBridge(world=world, venue=venue)
    WorldRunner(world=world, clock=clock, bridges={REAL_MONEY_MARKET: bridge}).advance()
    settings = PolymarketSettings(
        gamma_url=f"{HERE}/gamma", clob_url=HERE, data_url=f"{HERE}/data-api", site_url=f"{HERE}/site"
    )
    found = await read(polymarket()[0], venue, tmp_path, settings)
    asked = [ask for ask in world.open(DAY) if ask.venue_kind == REAL_MONEY_MARKET]
    assert {one.title for one in found} == {ask.title for ask in asked}
    by_title = {one.title: one for one in found}
    for ask in asked:
        question = by_title[ask.title]
        assert isinstance(question.shape, SHAPES[ask.answer_kind])
        price = world.crowd_price(ask, DAY)
        assert question.crowd is not None
        if isinstance(price, Mapping):
            assert isinstance(question.crowd.prediction, ChoicePrediction)
            assert len(question.crowd.prediction.probabilities) == len(price)
        else:
            assert isinstance(question.crowd.prediction, BinaryPrediction)
            assert question.crowd.prediction.probability == pytest.approx(price, abs=0.03)
