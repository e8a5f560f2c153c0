"""The contract kits on the price feed of Polymarket and on finding one question, over the fake venue's real sockets."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    Prediction,
    PriceFeedContext,
    Question,
    QuestionReader,
    VenueSpec,
)
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import SocketFault
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakePolymarketMarket
from bot.testing.clock import FakeClock
from bot.testing.price_feed_contract import PriceFeedContract, PriceFeedSetup
from bot.testing.venue_contracts import QuestionReaderContract
from plugins.polymarket import foxcast_venues
from plugins.polymarket.price_feed import PolymarketPriceFeed
from plugins.polymarket.reader import PolymarketReader
from plugins.polymarket.settings import PolymarketSettings
from tests.contracts.recording_clients import ClockedWebSocketClient, HostRecordingClient

SPEC: VenueSpec[Any] = foxcast_venues()[0]
RACE = {"Ann": "0.50", "Bob": "0.30", "Cat": "0.20"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFixture:
    """The fake venue on a clock that stands still, and what the plugin is given to read it."""

    venue: FakePolymarket
    clock: FakeClock
    settings: PolymarketSettings
    place: PriceFeedContext
    http: HostRecordingClient
    host: str


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[FeedFixture]:
    clock, random = FakeClock(), SeededRandom(1)
    venue = FakePolymarket(clock)
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    rates = RateLimiter((), clock=SystemClock(), random=random)
    async with (
        serve_service(venue) as served,
        RetryingHttpClient(clock=SystemClock(), random=random, limits=limits) as reader,
    ):
        host = served.url.removeprefix("http://")
        settings = PolymarketSettings.model_validate(
            {**venue.addresses(served), "test_host": host, "ends_within_d": 3650, "min_volume": 0, "min_liquidity": 0}
        )
        http = HostRecordingClient(reader)
        sockets = ClockedWebSocketClient(WebSocketConnector(clock=SystemClock(), rates=rates), clock)
        place = PriceFeedContext(clock=clock, http=http, folder=tmp_path, sockets=sockets)
        yield FeedFixture(venue=venue, clock=clock, settings=settings, place=place, http=http, host=host)


class PriceMover:
    """Moves what it is asked to, each time to another price."""

    def __init__(self, polymarket: FeedFixture) -> None:
        self._stand = polymarket
        self._prices = (f"{0.15 + 0.07 * (step * 3 % 10):.2f}" for step in count())
        self._middles: dict[str, str] = {}
        self.places: dict[str, Sequence[FakePolymarketMarket]] = {}

    async def watch(self, name: str, *markets: FakePolymarketMarket, middles: Sequence[str] = ("0.50",)) -> Question:
        question = await PolymarketReader(self._stand.settings, self._stand.place).find_question(name)
        self.places[question.ref.key] = markets
        self._middles |= {market.condition: middle for market, middle in zip(markets, middles, strict=True)}
        return question

    async def move(self, question: Question) -> Prediction:
        markets = self.places[question.ref.key]
        # The feed puts what it hears and what it reads in order by the venue's time.
        self._stand.clock.advance_without_waking(0.01)
        # Of a race the prices of all must continue to sum to about 1: two change places.
        changed = [markets[0]] if len(markets) == 1 else markets[:2]
        wanted = [next(self._prices)] if len(markets) == 1 else [self._middles[one.condition] for one in changed][::-1]
        for market, price in zip(changed, wanted, strict=True):
            self._middles[market.condition] = price
            self._stand.venue.world.move_price(market, price)
        middles = [float(self._middles[market.condition]) for market in markets]
        if len(markets) == 1:
            return BinaryPrediction(middles[0])
        return ChoicePrediction(
            {market.item: middle / sum(middles) for market, middle in zip(markets, middles, strict=True)}
        )


class TestFeed(PriceFeedContract):
    spec = SPEC

    @pytest.fixture
    async def feed_setup(self, polymarket: FeedFixture) -> PriceFeedSetup:
        crowd, world = PriceMover(polymarket), polymarket.venue.world
        rain, snow, newer = (
            world.add_market("Rain?"),
            world.add_market("Snow?"),
            world.add_market("Hail?", version="v2"),
        )
        event, racers = world.add_choice("Who will win?", RACE)
        questions = [
            await crowd.watch(rain.slug, rain),
            await crowd.watch(newer.slug, newer),
            await crowd.watch(f"event:{event.id}", *racers, middles=tuple(RACE.values())),
        ]
        others = [await crowd.watch(snow.slug, snow)]

        async def silence() -> None:
            polymarket.venue.faults.on_sockets.add(SocketFault.SILENT)
            for _ in range(100):
                await polymarket.clock.advance(1.0)

        return PriceFeedSetup(
            feed=PolymarketPriceFeed(polymarket.settings, polymarket.place),
            questions=questions,
            others=others,
            move=crowd.move,
            silence=silence,
            now=polymarket.clock.now,
        )


class TestFinder(QuestionReaderContract):
    spec = SPEC

    @pytest.fixture
    def finder(self, polymarket: FeedFixture) -> QuestionReader:
        world = polymarket.venue.world
        world.add_market("Rain?")
        world.add_market("Hail?", version="v2")
        world.add_choice("Who will win?", RACE)
        return PolymarketReader(polymarket.settings, replace(polymarket.place))

    @pytest.fixture
    def unfit(self, polymarket: FeedFixture) -> str:
        over = polymarket.venue.world.add_market("Over?")
        polymarket.venue.world.resolve(over, "1")
        return over.condition.lower()

    @pytest.fixture
    def hosts(self, polymarket: FeedFixture) -> frozenset[str]:
        return frozenset({polymarket.host})

    @pytest.fixture
    def reached(self, polymarket: FeedFixture) -> Callable[[], frozenset[str]]:
        return lambda: frozenset(polymarket.http.reached)
