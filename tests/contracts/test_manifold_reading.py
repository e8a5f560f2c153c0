"""The contract kits on the price feed of Manifold and on finding one question, over the fake venue's real sockets."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
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
from bot.simulator.faults import SocketFault
from bot.simulator.venues.manifold_state import FakeManifoldAnswer, FakeManifoldMarket
from bot.testing.price_feed_contract import PriceFeedContract, PriceFeedSetup
from bot.testing.venue_contracts import QuestionReaderContract
from plugins.manifold import foxcast_venues
from plugins.manifold.price_feed import ManifoldPriceFeed
from plugins.manifold.reader import ManifoldReader
from tests.contracts.recording_clients import ClockedWebSocketClient, HostRecordingClient
from tests.plugins.manifold.fixture import ManifoldFixture, open_fixture

SPEC: VenueSpec[Any] = foxcast_venues()[0]
THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


@pytest.fixture
async def manifold(tmp_path: Path) -> AsyncIterator[ManifoldFixture]:
    async with open_fixture(tmp_path) as here:
        yield here


class PriceMover:
    """Moves what it is asked to, each time to another price."""

    def __init__(self, manifold: ManifoldFixture) -> None:
        self._stand = manifold
        self._prices = (0.15 + 0.07 * (step * 3 % 10) for step in count())
        self.places: dict[str, tuple[FakeManifoldMarket, FakeManifoldAnswer | None]] = {}

    async def watch(self, market: FakeManifoldMarket, answer: FakeManifoldAnswer | None = None) -> Question:
        question = await self._stand.question(market, answer)
        self.places[question.ref.key] = (market, answer)
        return question

    async def move(self, question: Question) -> Prediction:
        market, answer = self.places[question.ref.key]
        moved = market.answers[0] if answer is None and market.answers else answer
        self._stand.world.move_price(market, next(self._prices), answer=moved)
        if answer is not None:
            return BinaryPrediction(answer.pool.prob)
        if not market.answers:
            return BinaryPrediction(market.pool.prob)
        whole = sum(one.pool.prob for one in market.answers)
        return ChoicePrediction({one.text: one.pool.prob / whole for one in market.answers})


class TestFeed(PriceFeedContract):
    spec = SPEC

    @pytest.fixture
    async def feed_setup(self, manifold: ManifoldFixture) -> PriceFeedSetup:
        crowd, world = PriceMover(manifold), manifold.world
        many = world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
        questions = [
            await crowd.watch(world.add_market("Rain?")),
            await crowd.watch(many, many.answers[1]),
            await crowd.watch(world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)),
        ]
        # The other answer is of a market that is watched.
        others = [await crowd.watch(world.add_market("Snow?")), await crowd.watch(many, many.answers[2])]

        async def silence() -> None:
            manifold.venue.faults.on_sockets.add(SocketFault.SILENT)
            for _ in range(100):
                await manifold.clock.advance(1.0)

        place: PriceFeedContext = replace(
            manifold.price_place(), sockets=ClockedWebSocketClient(manifold.sockets, manifold.clock)
        )
        return PriceFeedSetup(
            feed=ManifoldPriceFeed(manifold.settings, place),
            questions=questions,
            others=others,
            move=crowd.move,
            silence=silence,
            now=manifold.clock.now,
        )


class TestFinder(QuestionReaderContract):
    spec = SPEC

    @pytest.fixture
    def http(self, manifold: ManifoldFixture) -> HostRecordingClient:
        return HostRecordingClient(manifold.http)

    @pytest.fixture
    def finder(self, manifold: ManifoldFixture, http: HostRecordingClient) -> QuestionReader:
        manifold.world.add_market("Rain?")
        manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
        manifold.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
        manifold.world.add_numeric("How many?", 0.0, 100.0)
        return ManifoldReader(manifold.settings, replace(manifold.place, http=http))

    @pytest.fixture
    def unfit(self, manifold: ManifoldFixture) -> str:
        over = manifold.world.add_market("Over?")
        manifold.world.close(over)
        return over.id

    @pytest.fixture
    def hosts(self, manifold: ManifoldFixture) -> frozenset[str]:
        return frozenset({manifold.served.url.removeprefix("http://")})

    @pytest.fixture
    def reached(self, http: HostRecordingClient) -> Callable[[], frozenset[str]]:
        return lambda: frozenset(http.reached)
