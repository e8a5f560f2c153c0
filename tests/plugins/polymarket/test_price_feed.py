"""Prices as they move, over sockets in memory, where ten minutes take no time; real ones are in test_venue_whole."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    ConfigError,
    Json,
    NotFoundError,
    PriceFeedContext,
    QuestionRef,
    Quote,
    ServiceUnavailableError,
)
from bot.testing.clock import START, FakeClock
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.loopback_server import ReceivedRequest
from bot.testing.websocket import ConnectionScript, DelayedMessage, FakeWebSocketClient
from plugins.polymarket.price_feed import RECONNECT_INTERVAL_S, PolymarketPriceFeed
from plugins.polymarket.questions import question_ref
from plugins.polymarket.settings import PolymarketSettings
from tests.plugins.polymarket.conftest import FakePolymarketData
from tests.plugins.polymarket.records import book, condition, event, market, member, token

SETTINGS = PolymarketSettings(
    gamma_url="http://127.0.0.1/gamma", clob_url="http://127.0.0.1/clob", data_url="http://127.0.0.1/data"
)
ONE = question_ref(condition(1))


class FakeHttpClient:
    """Implements ``HttpClient`` on a world in memory."""

    def __init__(self, world: FakePolymarketData) -> None:
        self._world = world

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        return self._answer("GET", url, b"")

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return self._answer("POST", url, json.dumps(body).encode())

    def _answer(self, method: str, url: str, body: bytes) -> bytes:
        path = url.removeprefix("http://127.0.0.1")
        sent = self._world.answer(ReceivedRequest(method=method, path=path, headers={}, body=body))
        if sent.status == 404:
            raise NotFoundError(url)
        return sent.body


def stamp(seconds: float) -> str:
    """A moment so many seconds after the beginning, as the venue writes it."""
    return str(round((START + timedelta(seconds=seconds)).timestamp() * 1000))


def whole(at_s: float, bid: str | None = "0.36", ask: str | None = "0.38", number: int = 1) -> str:
    frame = book(token(number), bid, ask, timestamp=stamp(at_s))
    return json.dumps([{**frame, "event_type": "book"}])


def change(at_s: float, side: str, price: str, size: str, number: int = 1, **best: str) -> str:
    """A change of one level; the best prices after it are said where the test knows them."""
    item = {"asset_id": token(number), "price": price, "size": size, "side": side, "hash": "0x1", **best}
    frame = {"event_type": "price_change", "market": condition(number), "timestamp": stamp(at_s)}
    return json.dumps({**frame, "price_changes": [item]})


def pong(text: str) -> list[str]:
    return ["PONG"] if text == "PING" else []


def opening(*messages: str | DelayedMessage, silent: bool = False) -> ConnectionScript:
    return ConnectionScript(messages=messages, answer=(lambda _: []) if silent else pong)


class FeedRun:
    """What a feed said while it ran: quotes with the moment of each, what ended it, and its sockets."""

    def __init__(self) -> None:
        self.quotes: list[tuple[float, Quote]] = []
        self.error: Exception | None = None
        self.sockets = FakeWebSocketClient(clock=FakeClock())

    @property
    def prices(self) -> list[float]:
        return [
            round(quote.prediction.probability, 6)
            for _, quote in self.quotes
            if isinstance(quote.prediction, BinaryPrediction)
        ]


def running(
    world: FakePolymarketData,
    *openings: ConnectionScript | Exception,
    seconds: float = 60.0,
    refs: tuple[QuestionRef, ...] = (ONE,),
    meanwhile: Callable[[VirtualClock], Awaitable[None]] | None = None,
) -> FeedRun:
    """Let a feed run for so many simulated seconds."""
    run = FeedRun()

    async def main(clock: VirtualClock) -> None:
        run.sockets = FakeWebSocketClient(*openings, clock=clock)
        place = PriceFeedContext(clock=clock, http=FakeHttpClient(world), folder=Path(), sockets=run.sockets)

        async def listen() -> None:
            async with aclosing(PolymarketPriceFeed(SETTINGS, place).quotes(refs)) as quotes:  # type: ignore[type-var]
                async for quote in quotes:
                    run.quotes.append((clock.monotonic(), quote))

        other = None if meanwhile is None else asyncio.ensure_future(meanwhile(clock))
        try:
            async with asyncio.timeout(seconds):
                await listen()
        except TimeoutError:
            pass
        except ServiceUnavailableError as error:
            run.error = error
        if other is not None:
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)

    run_in_virtual_time(main)
    return run


def one_market(bid: str | None = "0.36", ask: str | None = "0.38", at_s: float = 0.0) -> FakePolymarketData:
    world = FakePolymarketData()
    world.add(market(1), books={token(1): book(token(1), bid, ask, timestamp=stamp(at_s))})
    return world


def test_the_first_frame_names_the_tokens_of_yes() -> None:
    run = running(one_market(), opening())
    assert json.loads(run.sockets.connections[0].sent[0]) == {
        "type": "market",
        "assets_ids": [token(1)],
        "custom_feature_enabled": False,
    }
    assert urlsplit(run.sockets.requested_urls[0]).path == "/ws/market"


def test_a_price_is_quoted_now_and_whenever_it_moves() -> None:
    run = running(
        one_market(),
        opening(
            DelayedMessage(1.0, change(1, "BUY", "0.37", "10", best_bid="0.37", best_ask="0.38")),
            DelayedMessage(1.0, change(2, "BUY", "0.20", "10", best_bid="0.37", best_ask="0.38")),
            DelayedMessage(1.0, change(3, "SELL", "0.38", "0", best_bid="0.37", best_ask="0.90")),
            DelayedMessage(1.0, whole(4, "0.50", "0.52")),
        ),
    )
    assert run.prices == [0.37, 0.375, 0.51]
    assert [quote.at for _, quote in run.quotes] == [START + timedelta(seconds=seconds) for seconds in (0, 1, 4)]


def test_quotes_are_of_our_clock_and_changes_are_put_in_order_by_that_of_the_venue() -> None:
    """The venue is 200 s behind; its third change is older than the second, which stays in force."""
    first = change(-199, "BUY", "0.37", "10", best_bid="0.37", best_ask="0.38")
    later = [DelayedMessage(1.0, text) for text in (first, whole(-197, "0.50", "0.52"), whole(-198, "0.20", "0.22"))]
    run = running(one_market(at_s=-200.0), opening(*later))
    assert run.prices == [0.37, 0.375, 0.51]
    assert [quote.at for _, quote in run.quotes] == [START + timedelta(seconds=seconds) for seconds in (0, 1, 2)]


def test_pings_go_out_every_ten_seconds() -> None:
    run = running(one_market(), opening(), seconds=45)
    assert run.sockets.connections[0].sent[1:] == ["PING"] * 4
    assert run.error is None


def test_a_connection_that_answers_no_ping_is_unavailable() -> None:
    run = running(one_market(), opening(silent=True), seconds=45)
    assert isinstance(run.error, ServiceUnavailableError)


def test_a_connection_that_ends_or_cannot_be_made_is_unavailable() -> None:
    assert isinstance(running(one_market(), opening(DelayedMessage(5.0))).error, ServiceUnavailableError)
    assert isinstance(running(one_market(), ServiceUnavailableError("nobody")).error, ServiceUnavailableError)


def test_pm_c5_after_a_gap_a_book_is_unknown_until_a_whole_one_comes() -> None:
    """The second change reports best prices that no message before reported: something was missed."""
    run = running(
        one_market(),
        opening(
            DelayedMessage(1.0, change(1, "BUY", "0.20", "10", best_bid="0.45", best_ask="0.47")),
            DelayedMessage(1.0, change(2, "BUY", "0.37", "10")),
            DelayedMessage(1.0, whole(3, "0.46", "0.48")),
        ),
    )
    assert run.prices == [0.37, 0.47]


def test_pm_c5_a_book_that_stays_unknown_is_read() -> None:
    world = one_market()

    async def move(clock: VirtualClock) -> None:
        await clock.sleep(2.0)
        world.books[token(1)] = book(token(1), "0.56", "0.58", timestamp=stamp(2))

    run = running(world, opening(DelayedMessage(1.0, "{ no JSON")), meanwhile=move)
    assert run.prices == [0.37, 0.57]
    assert 10 <= run.quotes[1][0] <= 20.1


def test_pm_c5_deltas_before_the_first_whole_book_count_for_nothing() -> None:
    world = FakePolymarketData()
    world.add(market(1))
    run = running(
        world,
        opening(
            change(0, "BUY", "0.80", "1"),
            DelayedMessage(1.0, change(1, "SELL", "0.82", "1")),
            DelayedMessage(1.0, whole(2)),
        ),
    )
    assert run.prices == [0.37]


def test_pm_c5_a_freeze_with_pongs_alive_is_found_by_the_age_of_the_book() -> None:
    world = one_market()

    async def move(clock: VirtualClock) -> None:
        await clock.sleep(60.0)
        world.books[token(1)] = book(token(1), "0.70", "0.72", timestamp=stamp(60))

    run = running(world, opening(), seconds=500, meanwhile=move)
    assert run.error is not None
    assert "no more changes" in str(run.error)
    assert run.prices == [0.37]
    assert run.sockets.connections[0].sent.count("PING") >= 29


def test_pm_c5_a_silent_book_that_cannot_be_read_any_more_is_unknown() -> None:
    world = one_market()

    async def end(clock: VirtualClock) -> None:
        await clock.sleep(60.0)
        world.books.clear()

    run = running(world, opening(DelayedMessage(330, change(330, "BUY", "0.37", "5"))), seconds=400, meanwhile=end)
    assert run.prices == [0.37]
    assert run.error is None


def test_pm_c5_a_market_in_which_nothing_happens_is_no_freeze() -> None:
    run = running(one_market(), opening(), seconds=590)
    assert run.error is None
    assert run.prices == [0.37]


def test_pm_c5_a_connection_is_renewed_and_its_books_read_again() -> None:
    world = one_market()

    async def move(clock: VirtualClock) -> None:
        await clock.sleep(RECONNECT_INTERVAL_S - 5)
        world.books[token(1)] = book(token(1), "0.40", "0.42", timestamp=stamp(RECONNECT_INTERVAL_S - 5))

    run = running(world, opening(), opening(), seconds=RECONNECT_INTERVAL_S + 60, meanwhile=move)
    assert len(run.sockets.connections) == 2
    assert run.sockets.connections[0].closed
    assert run.sockets.connections[1].sent[0] == run.sockets.connections[0].sent[0]
    assert run.prices == [0.37, 0.41]


def test_with_the_renewal_it_is_read_anew_which_outcomes_an_event_has() -> None:
    world = FakePolymarketData()
    members = [member(1, "Ann"), member(2, "Bob"), member(3, "Cat")]
    prices = {1: ("0.49", "0.51"), 2: ("0.29", "0.31"), 3: ("0.19", "0.21")}
    world.add(event(*members), books={token(number): book(token(number), *sides) for number, sides in prices.items()})

    async def drop_out(clock: VirtualClock) -> None:
        await clock.sleep(RECONNECT_INTERVAL_S - 5)
        over = {**members[2], "closed": True, "outcomePrices": '["0","1"]'}
        world.events[:] = [event(*members[:2], over)]
        del world.books[token(3)]
        for number, sides in ((1, ("0.69", "0.71")), (2, ("0.29", "0.31"))):
            world.books[token(number)] = book(token(number), *sides, timestamp=stamp(RECONNECT_INTERVAL_S - 5))

    of_event = question_ref(f"event:{world.events[0]['id']}")
    run = running(world, opening(), opening(), seconds=RECONNECT_INTERVAL_S + 60, refs=(of_event,), meanwhile=drop_out)
    reported = [
        quote.prediction.probabilities for _, quote in run.quotes if isinstance(quote.prediction, ChoicePrediction)
    ]
    assert reported[0] == pytest.approx({"Ann": 0.5, "Bob": 0.3, "Cat": 0.2})
    assert reported[-1] == pytest.approx({"Ann": 0.7, "Bob": 0.3})


def test_frames_that_are_older_than_what_is_known_change_nothing() -> None:
    run = running(
        one_market(at_s=10),
        opening(
            DelayedMessage(1.0, change(5, "BUY", "0.37", "9")),
            DelayedMessage(1.0, whole(6, "0.10", "0.12")),
            DelayedMessage(1.0, "PONG"),
        ),
    )
    assert run.prices == [0.37]


def test_a_new_tick_makes_the_book_unknown() -> None:
    tick = {
        "event_type": "tick_size_change",
        "asset_id": token(1),
        "old_tick_size": "0.01",
        "new_tick_size": "0.001",
        "timestamp": stamp(1),
    }
    run = running(
        one_market(),
        opening(
            DelayedMessage(1.0, json.dumps(tick)),
            DelayedMessage(1.0, change(2, "BUY", "0.37", "5")),
            DelayedMessage(1.0, whole(3, "0.371")),
        ),
    )
    assert run.prices == [0.37, 0.3755]


def test_pm_v4_what_the_socket_says_of_a_resolution_only_has_the_book_read() -> None:
    """No quote of it, and no outcome: the next reading finds no book any more."""
    world = one_market()
    frame = {
        "event_type": "market_resolved",
        "market": condition(1),
        "assets_ids": [token(1), token(1, 1)],
        "winning_asset_id": token(1),
        "winning_outcome": "Yes",
        "timestamp": stamp(1),
    }

    async def end(clock: VirtualClock) -> None:
        await clock.sleep(0.5)
        world.books.clear()

    run = running(world, opening(DelayedMessage(1.0, json.dumps(frame))), meanwhile=end)
    assert run.prices == [0.37]
    polls = [json.loads(request.body) for request in world.seen if request.method == "POST"]
    assert polls.count([{"token_id": token(1)}]) > 1


@pytest.mark.parametrize(("bid", "ask"), [("0.38", "0.38"), ("0.20", "0.60"), (None, None)])
def test_books_that_cross_or_are_wide_have_no_price(bid: str | None, ask: str | None) -> None:
    run = running(
        one_market(), opening(DelayedMessage(1.0, whole(1, bid, ask)), DelayedMessage(1.0, whole(2, "0.40", "0.42")))
    )
    assert run.prices == [0.37, 0.41]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "7",
        '"text"',
        "[[]]",
        "[" * 100_000,
        json.dumps({"event_type": "new_market"}),
        change(1, "UP", "2", "x"),
    ],
    ids=range(8),
)
def test_no_message_breaks_the_feed(text: str) -> None:
    run = running(one_market(), opening(DelayedMessage(1.0, text), DelayedMessage(1.0, whole(2, "0.40", "0.42"))))
    assert run.error is None
    assert run.prices == [0.37, 0.41]


def test_an_event_is_quoted_as_a_whole() -> None:
    world = FakePolymarketData()
    books = {token(1): book(token(1), "0.60", "0.62"), token(2): book(token(2), "0.38", "0.40")}
    world.add(event(member(1, "Ann"), member(2, "Bob")), books=books)
    run = running(
        world, opening(DelayedMessage(1.0, whole(1, "0.70", "0.72", number=1))), refs=(question_ref("event:77"),)
    )
    found = [quote.prediction for _, quote in run.quotes]
    assert all(isinstance(prediction, ChoicePrediction) for prediction in found)
    shares = [prediction.probabilities["Ann"] for prediction in found if isinstance(prediction, ChoicePrediction)]
    assert shares == pytest.approx([0.61, 0.71 / 1.10])


def test_more_than_two_hundred_tokens_go_over_several_sockets() -> None:
    world = FakePolymarketData()
    numbers = range(1, 251)
    world.add(
        *(market(number) for number in numbers),
        books={token(number): book(token(number)) for number in numbers},
    )
    refs = tuple(question_ref(condition(number)) for number in numbers)
    run = running(world, opening(), opening(), refs=refs)
    sizes = [len(json.loads(socket.sent[0])["assets_ids"]) for socket in run.sockets.connections]
    assert sorted(sizes) == [50, 200]
    assert {quote.ref for _, quote in run.quotes} == set(refs)


def test_questions_that_cannot_be_watched_are_left_out_and_none_at_all_is_unavailable() -> None:
    both = running(
        one_market(),
        opening(),
        refs=(ONE, question_ref(condition(9)), question_ref("event:9"), question_ref("strange")),
    )
    assert {quote.ref for _, quote in both.quotes} == {ONE}
    assert isinstance(running(FakePolymarketData(), opening()).error, ServiceUnavailableError)


async def test_pm_r8_the_socket_too_is_at_the_test_host_or_nowhere() -> None:
    clock = FakeClock()
    sockets = FakeWebSocketClient(opening(), clock=clock)
    place = PriceFeedContext(clock=clock, http=FakeHttpClient(one_market()), folder=Path(), sockets=sockets)
    settings = SETTINGS.model_copy(update={"test_host": "127.0.0.1"})
    async with aclosing(PolymarketPriceFeed(settings, place).quotes([ONE])) as quotes:  # type: ignore[type-var]
        with pytest.raises(ConfigError, match="test_host"):
            await anext(quotes)
    assert sockets.requested_urls == []
