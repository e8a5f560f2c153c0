"""Prices as they move: over a real socket of the fake venue, and over sockets in memory where time matters."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    Json,
    PriceFeedContext,
    QuestionRef,
    Quote,
    ServiceUnavailableError,
)
from bot.core.clock import SystemClock
from bot.simulator.faults import SocketFault
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.websocket import ConnectionScript, DelayedMessage, FakeWebSocketClient
from plugins.manifold.price_feed import ManifoldPriceFeed
from plugins.manifold.settings import ManifoldSettings
from tests.plugins.manifold.fixture import ManifoldFixture, bodies, open_fixture, query_of

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))
RAIN = QuestionRef("manifold", "rain")


@pytest.fixture
async def manifold(tmp_path: Path) -> AsyncIterator[ManifoldFixture]:
    async with open_fixture(tmp_path, SystemClock()) as here:
        yield here


def feed_of(manifold: ManifoldFixture) -> ManifoldPriceFeed:
    return ManifoldPriceFeed(manifold.settings, manifold.price_place())


def ref(key: str) -> QuestionRef:
    return QuestionRef("manifold", key)


def probability(quote: Quote) -> float:
    assert isinstance(quote.prediction, BinaryPrediction)
    return quote.prediction.probability


async def test_the_first_quotes_are_the_prices_now_and_later_ones_what_moved(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(prob=0.4)
    async with aclosing(feed_of(manifold).quotes([ref(market.id)])) as quotes:  # type: ignore[type-var]
        first = await anext(quotes)
        manifold.world.move_price(market, 0.7)
        second = await anext(quotes)
    assert (first.ref, second.ref) == (ref(market.id), ref(market.id))
    assert [probability(first), probability(second)] == pytest.approx([0.4, 0.7])


async def test_answers_are_quoted_by_themselves_and_one_winner_as_a_whole(manifold: ManifoldFixture) -> None:
    many = manifold.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
    one = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    bob = ref(f"{many.id}/{many.answers[1].id}")
    async with aclosing(feed_of(manifold).quotes([bob, ref(one.id)])) as quotes:  # type: ignore[type-var]
        first = {quote.ref: quote for quote in [await anext(quotes), await anext(quotes)]}
        assert probability(first[bob]) == pytest.approx(0.3)
        manifold.world.move_price(many, 0.6, answer=many.answers[0])
        manifold.world.move_price(many, 0.8, answer=many.answers[1])
        assert probability(await anext(quotes)) == pytest.approx(0.8)
        manifold.world.move_price(one, 0.7, answer=one.answers[0])
        chosen: dict[str, float] = {}
        while abs(chosen.get("Ann", 0.0) - one.answers[0].pool.prob) > 1e-6:
            prediction = (await anext(quotes)).prediction
            assert isinstance(prediction, ChoicePrediction)
            chosen = dict(prediction.probabilities)
    prices = {answer.text: answer.pool.prob for answer in one.answers}
    assert chosen == pytest.approx(prices, abs=1e-3)


async def test_mf_w2_a_bet_that_is_heard_twice_is_one_quote(manifold: ManifoldFixture) -> None:
    manifold.venue.faults.on_sockets.add(SocketFault.DUPLICATING)
    market = manifold.world.add_market(prob=0.4)
    heard: list[float] = []
    async with aclosing(feed_of(manifold).quotes([ref(market.id)])) as quotes:  # type: ignore[type-var]
        heard.append(probability(await anext(quotes)))
        for price in (0.5, 0.6, 0.7):
            manifold.world.move_price(market, price)
            heard.append(probability(await anext(quotes)))
    assert heard == pytest.approx([0.4, 0.5, 0.6, 0.7])


async def test_what_comes_late_a_second_time_moves_no_price_back(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(prob=0.4)
    async with aclosing(feed_of(manifold).quotes([ref(market.id)])) as quotes:  # type: ignore[type-var]
        await anext(quotes)
        manifold.world.move_price(market, 0.5)
        assert probability(await anext(quotes)) == pytest.approx(0.5)
        manifold.venue.faults.on_sockets.add(SocketFault.STALE)
        manifold.world.move_price(market, 0.6)
        manifold.venue.faults.on_sockets.clear()
        manifold.world.move_price(market, 0.7)
        assert probability(await anext(quotes)) == pytest.approx(0.7)


async def test_mf_r3_prices_are_read_in_hundreds_when_the_feed_begins(manifold: ManifoldFixture) -> None:
    refs = [ref(f"{manifold.world.add_market().id}/one") for _ in range(129)]
    last = ref(manifold.world.add_market().id)
    async with aclosing(feed_of(manifold).quotes([*refs, last])) as quotes:  # type: ignore[type-var]
        assert (await anext(quotes)).ref == last
    assert [asked.query.count("ids") for asked in manifold.asked("/v0/market-probs")] == [100, 30]


async def test_a_connection_that_is_cut_is_an_end_and_the_next_one_reads_all_anew(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(prob=0.4)
    feed = feed_of(manifold)
    async with aclosing(feed.quotes([ref(market.id)])) as quotes:  # type: ignore[type-var]
        await anext(quotes)
        manifold.venue.hub.cut_all()
        with pytest.raises(ServiceUnavailableError):
            await anext(quotes)
    # Nothing is replayed of what happened meanwhile; the venue's own cache is past its second.
    manifold.world.move_price(market, 0.9)
    manifold.venue.forget_cached()
    async with aclosing(feed.quotes([ref(market.id)])) as quotes:  # type: ignore[type-var]
        assert probability(await anext(quotes)) == pytest.approx(0.9)
        manifold.world.move_price(market, 0.2)
        assert probability(await anext(quotes)) == pytest.approx(0.2)
    assert manifold.venue.hub.opened == 2


async def test_a_number_has_no_quote(manifold: ManifoldFixture) -> None:
    number = manifold.world.add_numeric("How many?", 0.0, 100.0)
    market = manifold.world.add_market(prob=0.4)
    async with aclosing(feed_of(manifold).quotes([ref(number.id), ref(market.id)])) as quotes:  # type: ignore[type-var]
        assert (await anext(quotes)).ref == ref(market.id)
        manifold.world.move_price(number, 0.9)
        manifold.world.move_price(market, 0.6)
        assert (await anext(quotes)).ref == ref(market.id)


async def test_nothing_to_watch_connects_nowhere(manifold: ManifoldFixture) -> None:
    assert [quote async for quote in feed_of(manifold).quotes([])] == []
    assert manifold.venue.hub.opened == 0
    assert bodies(manifold.venue.requests) == []


# In virtual time


class FakePriceApi:
    """The venue over HTTP: one market, at ``price``."""

    def __init__(self, price: float = 0.5) -> None:
        self.price, self.reads = price, 0

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        if "market-probs" in url:
            self.reads += 1
            return json.dumps({"rain": {"prob": self.price}}).encode()
        market = {"id": "rain", "question": "Rain?", "outcomeType": "BINARY", "probability": self.price}
        return json.dumps(market).encode()

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        raise NotImplementedError


def acked(text: str) -> Iterable[str]:
    return [json.dumps({"type": "ack", "txid": json.loads(text)["txid"], "success": True})]


def moved(price: float, number: int = 1, topic: str = "contract/rain/new-bet") -> str:
    data = {"bets": [{"id": f"bet{number}", "contractId": "rain", "probAfter": price}]}
    return json.dumps({"type": "broadcast", "topic": topic, "data": data})


class FeedRecorder:
    """A feed in virtual time, and what it quoted."""

    def __init__(self, clock: VirtualClock, opening: ConnectionScript, folder: Path) -> None:
        self.sockets = FakeWebSocketClient(opening, clock=clock)
        self.http = FakePriceApi()
        place = PriceFeedContext(clock=clock, http=self.http, folder=folder, sockets=self.sockets)
        self.feed = ManifoldPriceFeed(ManifoldSettings(), place)
        self.heard: list[float] = []
        self.error: ServiceUnavailableError | None = None

    async def run(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._listen(), seconds)

    async def _listen(self) -> None:
        try:
            async for quote in self.feed.quotes([RAIN]):
                self.heard.append(probability(quote))
        except ServiceUnavailableError as error:
            self.error = error

    def sent(self, kind: str) -> list[dict[str, Any]]:
        reported = [json.loads(text) for text in self.sockets.connections[0].sent]
        return [frame for frame in reported if frame["type"] == kind]


def watched(tmp_path: Path, opening: ConnectionScript, seconds: float) -> tuple[FeedRecorder, float]:
    """Run a feed and return it, with the virtual time that it took."""

    async def main(clock: VirtualClock) -> tuple[FeedRecorder, float]:
        watch = FeedRecorder(clock, opening, tmp_path)
        await watch.run(seconds)
        return watch, clock.monotonic()

    return run_in_virtual_time(main)


def test_mf_w1_a_ping_goes_out_every_twenty_seconds_and_keeps_a_silent_line(tmp_path: Path) -> None:
    watch, _ = watched(tmp_path, ConnectionScript(answer=acked), 201.0)
    assert watch.error is None
    assert len(watch.sent("ping")) == 10
    numbers = [json.loads(text)["txid"] for text in watch.sockets.connections[0].sent]
    assert len(set(numbers)) == len(numbers)


def test_mf_w1_pings_go_out_also_while_much_is_heard(tmp_path: Path) -> None:
    messages = tuple(DelayedMessage(1.0, moved(0.3 + number % 2 * 0.4, number)) for number in range(100))
    watch, _ = watched(tmp_path, ConnectionScript(messages=messages, answer=acked), 101.0)
    assert watch.error is None
    assert len(watch.sent("ping")) == 5
    assert len(watch.heard) > 90


def test_mf_w1_two_pings_without_an_answer_end_the_line(tmp_path: Path) -> None:
    watch, took_s = watched(tmp_path, ConnectionScript(), 600.0)
    assert watch.error is not None
    assert "did not answer 2 pings" in str(watch.error)
    assert took_s == pytest.approx(60.0, abs=1.0)


def test_mf_w1_one_missed_answer_is_forgiven(tmp_path: Path) -> None:
    answered = iter([True, False, True, True, False, True, True, True, True, True])

    def answer(text: str) -> Iterable[str]:
        return acked(text) if json.loads(text)["type"] != "ping" or next(answered) else []

    watch, _ = watched(tmp_path, ConnectionScript(answer=answer), 190.0)
    assert watch.error is None


def test_a_line_that_hangs_up_is_unavailable_at_once(tmp_path: Path) -> None:
    watch, took_s = watched(tmp_path, ConnectionScript(messages=(DelayedMessage(5.0),), answer=acked), 600.0)
    assert watch.error is not None
    assert took_s == pytest.approx(5.0, abs=0.1)


def test_mf_w3_an_answer_without_a_number_is_a_fault_of_ours_and_logged(tmp_path: Path) -> None:
    bare = json.dumps({"type": "ack", "success": False, "error": "invalid message"})
    with capture_logs() as logs:
        watch, _ = watched(tmp_path, ConnectionScript(messages=(bare,), answer=acked), 10.0)
    assert watch.error is None
    assert [log["log_level"] for log in logs if "an error of this program" in log["event"]] == ["error"]


def test_mf_w2_a_bet_that_comes_again_on_another_topic_moves_nothing(tmp_path: Path) -> None:
    again = moved(0.7, 1, "global/new-bet")
    messages = (
        moved(0.7, 1),
        DelayedMessage(1.0, moved(0.8, 2)),
        DelayedMessage(1.0, again),
        DelayedMessage(1.0, moved(0.6, 3)),
    )
    watch, _ = watched(tmp_path, ConnectionScript(messages=messages, answer=acked), 10.0)
    assert watch.heard == [0.5, 0.7, 0.8, 0.6]


def test_a_message_that_comes_again_moves_nothing(tmp_path: Path) -> None:
    def update(price: float, volume: int) -> str:
        data = {"contract": {"id": "rain", "prob": price, "volume": volume}}
        return json.dumps({"type": "broadcast", "topic": "contract/rain", "data": data})

    messages = (
        update(0.7, 10),
        DelayedMessage(1.0, update(0.8, 20)),
        DelayedMessage(1.0, update(0.7, 10)),
        DelayedMessage(1.0, update(0.6, 30)),
    )
    watch, _ = watched(tmp_path, ConnectionScript(messages=messages, answer=acked), 10.0)
    assert watch.heard == [0.5, 0.7, 0.8, 0.6]


def test_a_refused_subscription_is_unavailable(tmp_path: Path) -> None:
    def refuse(text: str) -> Iterable[str]:
        return [json.dumps({"type": "ack", "txid": json.loads(text)["txid"], "success": False, "error": "no"})]

    watch, _ = watched(tmp_path, ConnectionScript(answer=refuse), 10.0)
    assert watch.error is not None
    assert "refused to subscribe" in str(watch.error)


@pytest.mark.parametrize("text", ["", "{", "[]", "17", '{"type": "broadcast"}', '{"type": "new", "x": 1}', "[" * 9999])
def test_what_cannot_be_read_is_passed_over(tmp_path: Path, text: str) -> None:
    watch, _ = watched(tmp_path, ConnectionScript(messages=(text, DelayedMessage(1.0, moved(0.7))), answer=acked), 10.0)
    assert watch.error is None
    assert watch.heard == [0.5, 0.7]


@pytest.mark.parametrize("data", [{"bets": 1}, {"bets": [1, {}]}, {"bets": [{"contractId": "rain", "probAfter": 7}]}])
def test_a_broadcast_of_another_form_makes_no_quote(tmp_path: Path, data: Any) -> None:
    text = json.dumps({"type": "broadcast", "topic": "contract/rain/new-bet", "data": data})
    watch, _ = watched(tmp_path, ConnectionScript(messages=(text,), answer=acked), 10.0)
    assert (watch.error, watch.heard) == (None, [0.5])


def test_what_the_socket_lost_is_read_again_within_ten_minutes(tmp_path: Path) -> None:
    async def main(clock: VirtualClock) -> FeedRecorder:
        watch = FeedRecorder(clock, ConnectionScript(answer=acked), tmp_path)
        running = asyncio.create_task(watch.run(700.0))
        await clock.sleep(60.0)
        watch.http.price = 0.8
        await running
        return watch

    watch = run_in_virtual_time(main)
    assert watch.heard == [0.5, 0.8]
    # When the line was open, a moment later, and ten minutes after that.
    assert watch.http.reads == 3


def test_mf_r4_what_a_cache_answered_when_the_line_was_opened_is_read_again_soon(tmp_path: Path) -> None:
    async def main(clock: VirtualClock) -> FeedRecorder:
        watch = FeedRecorder(clock, ConnectionScript(answer=acked), tmp_path)
        running = asyncio.create_task(watch.run(30.0))
        # The venue has had that price since before; its cache forgets the one of before by now.
        await clock.sleep(10.0)
        watch.http.price = 0.8
        await running
        return watch

    assert run_in_virtual_time(main).heard == [0.5, 0.8]


def test_mf_r4_what_a_cache_may_have_answered_does_not_undo_what_was_just_heard(tmp_path: Path) -> None:
    # Heard two seconds before the prices are read again, over HTTP as they were.
    opening = ConnectionScript(messages=(DelayedMessage(618.0, moved(0.9)),), answer=acked)
    watch, _ = watched(tmp_path, opening, 650.0)
    assert watch.heard == [0.5, 0.9]


async def test_an_answer_that_is_added_becomes_an_option(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as manifold:
        one = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
        place = manifold.price_place()
        sockets = FakeWebSocketClient(ConnectionScript(answer=acked), clock=manifold.clock)
        feed = ManifoldPriceFeed(manifold.settings, replace(place, sockets=sockets))
        async with aclosing(feed.quotes([ref(one.id)])) as quotes:  # type: ignore[type-var]
            first = (await anext(quotes)).prediction
            assert isinstance(first, ChoicePrediction)
            assert set(first.probabilities) == {"Ann", "Bob", "Cid"}
            other = manifold.world.add_market(
                type="MULTIPLE_CHOICE",
                sums_to_one=True,
                answers=(("Ann", 0.4), ("Bob", 0.3), ("Cid", 0.2), ("Dee", 0.1)),
            )
            one.answers = other.answers
            following = asyncio.ensure_future(anext(quotes))
            while not following.done():
                await manifold.clock.advance(1.0)
            second = following.result().prediction
        assert isinstance(second, ChoicePrediction)
        assert second.probabilities == pytest.approx({"Ann": 0.4, "Bob": 0.3, "Cid": 0.2, "Dee": 0.1})


async def test_topics_of_each_market_are_asked_for(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    async with aclosing(feed_of(manifold).quotes([ref(market.id)])) as quotes:  # type: ignore[type-var]
        await anext(quotes)
        await manifold.venue.wait_until(lambda: bool(manifold.venue.hub.channels[0].facts.get("topics")))
        (channel,) = manifold.venue.hub.channels
        topics = set(channel.facts["topics"])
    assert topics == {f"contract/{market.id}{more}" for more in ("", "/new-bet", "/updated-answers")}
    assert query_of(manifold.asked("/v0/market-probs")[0]) == {"ids[]": market.id}
