"""The feed in front of the fake venue while its socket goes wrong: every price is quoted in the end, and soon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from bot.api import BinaryPrediction, PriceFeedContext, QuestionRef, Quote, ServiceUnavailableError
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import SocketFault
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakePolymarketMarket
from bot.testing.clock import FakeClock
from plugins.polymarket.price_feed import PolymarketPriceFeed
from plugins.polymarket.questions import question_ref
from plugins.polymarket.settings import PolymarketSettings
from tests.contracts.recording_clients import ClockedWebSocketClient

# A book that is silent for so long is read; well before all connections are renewed, which is after ten minutes.
AGE_S, SOON_S = 30.0, 90


@dataclass(slots=True)
class FeedRecorder:
    """A feed that is opened again whenever it ends, its quotes, and the other side."""

    venue: FakePolymarket
    clock: FakeClock
    feed: PolymarketPriceFeed
    http: RetryingHttpClient
    time_url: str
    quoted_prices: list[float] = field(default_factory=list)
    ends: int = 0

    async def follow(self, ref: QuestionRef) -> None:
        while True:
            try:
                await self.listen(ref)
            except ServiceUnavailableError:
                self.ends += 1

    async def listen(self, ref: QuestionRef) -> None:
        async with aclosing(self.feed.quotes([ref])) as quotes:  # type: ignore[type-var]
            async for quote in quotes:
                self.add_quote(quote)

    def add_quote(self, quote: Quote) -> None:
        assert isinstance(quote.prediction, BinaryPrediction)
        self.quoted_prices.append(round(quote.prediction.probability, 6))

    async def moved(self, market: FakePolymarketMarket, price: str) -> None:
        """Move the price a moment later, and let what is said of it arrive."""
        self.clock.advance_without_waking(0.01)
        self.venue.world.move_price(market, price)
        await self.settle()

    async def settle(self) -> None:
        """Let both sides say what they have to say: answers over HTTP come after what the socket said before."""
        for _ in range(8):
            await self.http.get(self.time_url, max_bytes=1000)

    async def until(self, price: float) -> int:
        """Return after how many simulated seconds the price was the last one quoted."""
        for passed in range(600):
            if self.quoted_prices[-1:] == [price]:
                return passed
            await self.clock.advance(1.0)
            await self.settle()
        raise AssertionError(self.quoted_prices)


@asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[tuple[FeedRecorder, FakePolymarketMarket]]:
    clock, random = FakeClock(), SeededRandom(1)
    venue = FakePolymarket(clock, limits=())
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    async with (
        serve_service(venue) as served,
        RetryingHttpClient(clock=SystemClock(), random=random, limits=limits) as http,
    ):
        settings = PolymarketSettings.model_validate(
            {**venue.addresses(served), "test_host": served.url.removeprefix("http://"), "feed_age_s": AGE_S}
        )
        rates = RateLimiter((), clock=SystemClock(), random=random)
        sockets = ClockedWebSocketClient(WebSocketConnector(clock=SystemClock(), rates=rates), clock)
        place = PriceFeedContext(clock=clock, http=http, folder=folder, sockets=sockets)
        market = venue.world.add_market("Will it rain?")
        watch = FeedRecorder(venue, clock, PolymarketPriceFeed(settings, place), http, f"{served.url}/time")
        following = asyncio.create_task(watch.follow(question_ref(market.condition.lower())))
        try:
            await watch.until(0.5)
            yield watch, market
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize("fault", list(SocketFault))
async def test_pm_c5_whatever_a_socket_does_the_price_is_told_soon(tmp_path: Path, fault: SocketFault) -> None:
    async with watching(tmp_path) as (watch, market):
        await watch.moved(market, "0.60")
        assert await watch.until(0.6) == 0
        watch.venue.faults.on_sockets.add(fault)
        for price in ("0.65", "0.55", "0.72"):
            await watch.moved(market, price)
        assert await watch.until(0.72) <= SOON_S
        assert watch.venue.faults.injected[fault] > 0
        # No price is quoted twice, even if a message arrives twice.
        assert all(before != after for before, after in pairwise(watch.quoted_prices))


async def test_what_comes_twice_ends_nothing(tmp_path: Path) -> None:
    async with watching(tmp_path) as (watch, market):
        watch.venue.faults.on_sockets.add(SocketFault.DUPLICATING)
        for price in ("0.65", "0.55", "0.72"):
            await watch.moved(market, price)
        assert await watch.until(0.72) == 0
        assert (watch.quoted_prices, watch.ends, watch.venue.hub.opened) == ([0.5, 0.65, 0.55, 0.72], 0, 1)


async def test_a_socket_that_says_the_same_again_and_again_is_found_out_by_the_age_of_the_book(tmp_path: Path) -> None:
    async with watching(tmp_path) as (watch, market):
        await watch.moved(market, "0.60")
        watch.venue.faults.on_sockets.add(SocketFault.STALE)
        await watch.moved(market, "0.72")
        assert watch.quoted_prices[-1] == 0.6
        late = await watch.until(0.72)
        assert AGE_S <= late <= SOON_S
        assert watch.ends == 1
