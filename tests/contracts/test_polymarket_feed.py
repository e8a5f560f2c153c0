"""The contract kits on the price feed of Polymarket and on finding one question, over the fake venue's real sockets."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bot.api import Binary, Choice, Finder, Prediction, PricePlace, Question, VenueSpec
from bot.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.testing.clock import FakeClock
from bot.testing.feed_contract import Booth, FinderContract, PriceFeedContract
from bot.testing.venues.faults import SocketFault
from bot.testing.venues.kit import serve
from bot.testing.venues.polymarket import FakePolymarket
from bot.testing.venues.polymarket_state import Market
from plugins.polymarket import foxcast_venues
from plugins.polymarket.feed import PolymarketFeed
from plugins.polymarket.settings import PolymarketSettings
from plugins.polymarket.venue import PolymarketVenue
from tests.contracts.wiring import ClockedSockets, NotingHttp

SPEC: VenueSpec[Any] = foxcast_venues()[0]
RACE = {"Ann": "0.50", "Bob": "0.30", "Cat": "0.20"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """The fake venue on a clock that stands still, and what the plugin is given to read it."""

    venue: FakePolymarket
    clock: FakeClock
    settings: PolymarketSettings
    place: PricePlace
    http: NotingHttp
    host: str


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    clock, random = FakeClock(), SeededRandom(1)
    venue = FakePolymarket(clock)
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    rates = RateLimiter((), clock=SystemClock(), random=random)
    async with serve(venue) as served, RetryingHttpClient(clock=SystemClock(), random=random, limits=limits) as reader:
        host = served.url.removeprefix("http://")
        settings = PolymarketSettings.model_validate(
            {**venue.addresses(served), "test_host": host, "ends_within_d": 3650, "volume_min": 0, "liquidity_min": 0}
        )
        http = NotingHttp(reader)
        sockets = ClockedSockets(WebSocketConnector(clock=SystemClock(), rates=rates), clock)
        place = PricePlace(clock=clock, http=http, folder=tmp_path, sockets=sockets)
        yield Stand(venue=venue, clock=clock, settings=settings, place=place, http=http, host=host)


class Crowd:
    """Moves what it is asked to, each time to another price."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._prices = (f"{0.15 + 0.07 * (step * 3 % 10):.2f}" for step in count())
        self._middles: dict[str, str] = {}
        self.places: dict[str, Sequence[Market]] = {}

    async def watch(self, name: str, *markets: Market, middles: Sequence[str] = ("0.50",)) -> Question:
        question = await PolymarketVenue(self._stand.settings, self._stand.place).find(name)
        self.places[question.ref.key] = markets
        self._middles |= {market.condition: middle for market, middle in zip(markets, middles, strict=True)}
        return question

    async def move(self, question: Question) -> Prediction:
        markets = self.places[question.ref.key]
        # The feed puts what it hears and what it reads in order by the venue's time.
        self._stand.clock.pass_unnoticed(0.01)
        # Of a race the prices of all must go on summing to about 1: two change places.
        changed = [markets[0]] if len(markets) == 1 else markets[:2]
        wanted = [next(self._prices)] if len(markets) == 1 else [self._middles[one.condition] for one in changed][::-1]
        for market, price in zip(changed, wanted, strict=True):
            self._middles[market.condition] = price
            self._stand.venue.world.move(market, price)
        middles = [float(self._middles[market.condition]) for market in markets]
        if len(markets) == 1:
            return Binary(middles[0])
        return Choice({market.item: middle / sum(middles) for market, middle in zip(markets, middles, strict=True)})


class TestFeed(PriceFeedContract):
    spec = SPEC

    @pytest.fixture
    async def booth(self, stand: Stand) -> Booth:
        crowd, world = Crowd(stand), stand.venue.world
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
            stand.venue.faults.on_sockets.add(SocketFault.SILENT)
            for _ in range(100):
                await stand.clock.advance(1.0)

        return Booth(
            feed=PolymarketFeed(stand.settings, stand.place),
            questions=questions,
            others=others,
            move=crowd.move,
            silence=silence,
            now=stand.clock.now,
        )


class TestFinder(FinderContract):
    spec = SPEC

    @pytest.fixture
    def finder(self, stand: Stand) -> Finder:
        world = stand.venue.world
        world.add_market("Rain?")
        world.add_market("Hail?", version="v2")
        world.add_choice("Who will win?", RACE)
        return PolymarketVenue(stand.settings, replace(stand.place))

    @pytest.fixture
    def unfit(self, stand: Stand) -> str:
        over = stand.venue.world.add_market("Over?")
        stand.venue.world.resolve(over, "1")
        return over.condition.lower()

    @pytest.fixture
    def hosts(self, stand: Stand) -> frozenset[str]:
        return frozenset({stand.host})

    @pytest.fixture
    def reached(self, stand: Stand) -> Callable[[], frozenset[str]]:
        return lambda: frozenset(stand.http.reached)
