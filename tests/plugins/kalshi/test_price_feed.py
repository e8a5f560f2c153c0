"""Prices as they move, over the double's socket with a key, and by polling without one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    AuthenticationError,
    BinaryPrediction,
    ChoicePrediction,
    MalformedDataError,
    PriceFeedContext,
    QuestionRef,
    Quote,
    ServiceUnavailableError,
)
from bot.testing.clock import FakeClock
from plugins.kalshi.live_books import BookSubscription
from plugins.kalshi.price_feed import KalshiPriceFeed
from plugins.kalshi.questions import NONE_OPTION
from tests.plugins.kalshi.fake_stream import FakeKalshiStream
from tests.plugins.kalshi.records import event, quoted
from tests.plugins.kalshi.writer_fixture import A, B, WriterFixture, open_writer_fixture

WAIT_S = 10.0


@dataclass(slots=True)
class FeedFixture:
    """The double with its socket, and the feed in front of it."""

    live: WriterFixture
    stream: FakeKalshiStream

    def feed(self, **changes: Any) -> KalshiPriceFeed:
        kalshi = self.live.kalshi.set(**changes)
        place = kalshi.place
        context = PriceFeedContext(clock=kalshi.clock, http=place.http, folder=place.folder, sockets=self.stream)
        return KalshiPriceFeed(kalshi.settings, context)

    def commands(self, *names: str) -> list[str]:
        found = [one["cmd"] for one in self.stream.commands]
        return [one for one in found if one in names] if names else found


@pytest.fixture
async def feeds(tmp_path: Path) -> AsyncIterator[FeedFixture]:
    async with open_writer_fixture(tmp_path, FakeClock()) as live:
        stream = FakeKalshiStream(live.account, live.kalshi.clock)
        for ticker in (A, B):
            live.kalshi.venue.books[ticker] = {"yes_dollars": [], "no_dollars": []}
            stream.move(ticker, "0.5500", "0.5700")
        yield FeedFixture(live, stream)


def refs(*keys: str) -> Sequence[QuestionRef]:
    return [QuestionRef("kalshi", key) for key in keys]


async def next_quote(quotes: AsyncIterator[Quote]) -> Quote:
    async with asyncio.timeout(WAIT_S):
        return await anext(quotes)


async def test_the_socket_is_signed_and_quotes_what_changes(feeds: FeedFixture) -> None:
    async with aclosing(feeds.feed().quotes(refs(A, B))) as quotes:  # type: ignore[type-var]  # a generator
        first = {(await next_quote(quotes)).ref.key for _ in range(2)}
        feeds.stream.move(A, "0.6000", "0.6400")
        # The mid passes through other prices, one for each level that changes.
        while (quote := await next_quote(quotes)).prediction != BinaryPrediction(0.62):
            assert quote.ref.key == A
    assert first == {A, B}
    assert feeds.commands() == ["subscribe"]
    assert feeds.stream.commands[0]["params"]["market_tickers"] == [A, B]


async def test_after_a_gap_the_books_are_subscribed_again(feeds: FeedFixture) -> None:
    async with aclosing(feeds.feed().quotes(refs(A, B))) as quotes:  # type: ignore[type-var]  # a generator
        await next_quote(quotes)
        await next_quote(quotes)
        feeds.live.kalshi.venue.books[B] = {"yes_dollars": [["0.3000", "5.00"]], "no_dollars": [["0.6800", "5.00"]]}
        feeds.stream.lose_frame()
        feeds.stream.send(A, "orderbook_delta", price_dollars="0.5500", delta_fp="1.00", side="yes")
        # Nothing told of the move of B: the new book did.
        quote = await next_quote(quotes)
    assert (quote.ref.key, quote.prediction) == (B, BinaryPrediction(0.31))
    assert feeds.commands() == ["subscribe", "unsubscribe", "subscribe"]
    assert feeds.stream.subscriptions.keys() == {2}


async def test_an_event_is_quoted_as_a_whole_with_the_rest_for_none(feeds: FeedFixture) -> None:
    members = quoted("A", "0.5500", "0.5700"), quoted("B", "0.2800", "0.3000")
    venue = feeds.live.kalshi.venue
    venue.add(event(*members, number=30, mutually_exclusive=True))
    names = {letter: f"KXDEMO-26DEC30-{letter}" for letter in "AB"}
    venue.books |= {name: {"yes_dollars": [], "no_dollars": []} for name in names.values()}
    feeds.stream.move(names["A"], "0.5500", "0.5700")
    feeds.stream.move(names["B"], "0.2800", "0.3000")
    async with aclosing(feeds.feed().quotes(refs("event:KXDEMO-26DEC30"))) as quotes:  # type: ignore[type-var]
        quote = await next_quote(quotes)
    assert isinstance(quote.prediction, ChoicePrediction)
    wanted = {"Candidate A": 0.56, "Candidate B": 0.29, NONE_OPTION: 0.15}
    assert quote.prediction.probabilities == pytest.approx(wanted)


@pytest.mark.parametrize(("code", "error"), [(9, AuthenticationError), (25, ServiceUnavailableError)])
async def test_an_error_of_the_socket_ends_the_feed(feeds: FeedFixture, code: int, error: type[Exception]) -> None:
    async with aclosing(feeds.feed().quotes(refs(A))) as quotes:  # type: ignore[type-var]  # a generator
        await next_quote(quotes)
        feeds.stream.connections[-1].push(f'{{"type":"error","id":1,"msg":{{"code":{code},"msg":"no"}}}}')
        with pytest.raises(error, match=f"refused a command: {code} no"):
            await next_quote(quotes)


async def test_a_wrong_key_is_for_the_operator(feeds: FeedFixture) -> None:
    with pytest.raises(AuthenticationError):
        await next_quote(feeds.feed(key_id="another").quotes(refs(A)))


async def test_a_quiet_connection_is_kept_and_a_dead_one_is_lost(feeds: FeedFixture) -> None:
    clock = feeds.live.kalshi.clock
    async with aclosing(feeds.feed().quotes(refs(A))) as quotes:  # type: ignore[type-var]  # a generator
        await next_quote(quotes)
        waiting = asyncio.ensure_future(anext(quotes))
        await clock.advance(120)
        assert (waiting.done(), len(feeds.commands("list_subscriptions"))) == (False, 6)
        feeds.stream.is_silent = True
        await clock.advance(80)
        with pytest.raises(ServiceUnavailableError, match="did not answer 2 times"):
            await waiting


async def test_without_a_key_the_best_prices_are_read_once_a_minute(feeds: FeedFixture) -> None:
    clock = feeds.live.kalshi.clock
    async with aclosing(feeds.feed(key_file=None).quotes(refs(A))) as quotes:  # type: ignore[type-var]  # a generator
        assert (await next_quote(quotes)).prediction == BinaryPrediction(0.56)
        waiting = asyncio.ensure_future(anext(quotes))
        feeds.stream.move(A, "0.6000", "0.6400")
        for _ in range(200):
            await clock.advance(1)
            await asyncio.sleep(0.005)
            if waiting.done():
                break
        assert (await waiting).prediction == BinaryPrediction(0.62)
    assert feeds.stream.connections == []


@pytest.mark.parametrize(
    "frame",
    [
        {"seq": "2"},
        {"seq": 3},
        {"seq": 2, "type": "orderbook_delta", "msg": {"price_dollars": 0.5}},
        {"seq": 2, "type": "orderbook_delta", "msg": {"price_dollars": "0.5", "delta_fp": "-1", "side": "yes"}},
        {"seq": 2, "type": "orderbook_delta", "msg": {"price_dollars": "0.5", "delta_fp": "1", "side": "maybe"}},
        {"seq": 2, "type": "orderbook_snapshot", "msg": {"yes_dollars_fp": {}}},
        {"seq": 2, "type": "orderbook_snapshot", "msg": {"yes_dollars_fp": [["0.5"]]}},
    ],
    ids=str,
)
def test_a_frame_that_does_not_fit_makes_the_books_unknown(frame: dict[str, Any]) -> None:
    books = BookSubscription(tickers=(A,))
    assert books.apply_frame({"seq": 1, "type": "orderbook_snapshot", "msg": {"market_ticker": A}}) == A
    with pytest.raises(MalformedDataError):
        books.apply_frame({**frame, "msg": {"market_ticker": A, **frame.get("msg", {})}})
