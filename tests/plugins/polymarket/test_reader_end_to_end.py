"""The reading half in front of the fake venue: lists, books, news and outcomes as that has them, on real sockets."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    BinaryOutcome,
    BinaryPrediction,
    ChoiceOutcome,
    ChoicePrediction,
    ChoiceShape,
    Json,
    PriceFeedContext,
    Question,
    Quote,
    Resolution,
    VoidOutcome,
)
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import HttpLimits, RetryingHttpClient
from bot.net.rate_limit import RateLimiter
from bot.net.websocket import WebSocketConnector
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from plugins.polymarket.api_client import PolymarketClient
from plugins.polymarket.json_values import parse_list, parse_record
from plugins.polymarket.market_parser import question_contracts
from plugins.polymarket.price_feed import PolymarketPriceFeed
from plugins.polymarket.questions import question_ref
from plugins.polymarket.reader import PolymarketReader
from plugins.polymarket.settings import PolymarketSettings

BOOK = {"bids": (("0.49", "100"), ("0.40", "50")), "asks": (("0.51", "30"), ("0.60", "500"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSetup:
    """The fake venue and the plugin's reading half."""

    venue: FakePolymarket
    reader: PolymarketReader
    client: PolymarketClient
    feed: PolymarketPriceFeed

    async def questions(self) -> dict[str, Question]:
        return {question.ref.key: question async for question in self.reader.questions()}

    async def outcomes(self, *keys: str) -> dict[str, Resolution]:
        return {one.ref.key: one async for one in self.reader.resolutions([question_ref(key) for key in keys])}


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[ReaderSetup]:
    clock, random = SystemClock(), SeededRandom(1)
    venue = FakePolymarket(clock)
    limits = HttpLimits(first_wait_s=0.001, longest_wait_s=0.01)
    async with serve_service(venue) as served, RetryingHttpClient(clock=clock, random=random, limits=limits) as http:
        host = served.url.removeprefix("http://")
        settings = PolymarketSettings(**venue.addresses(served), test_host=host, ends_within_d=3650)  # type: ignore[arg-type]
        sockets = WebSocketConnector(clock=clock, rates=RateLimiter((), clock=clock, random=random))
        place = PriceFeedContext(clock=clock, http=http, folder=tmp_path / "polymarket", sockets=sockets)
        yield ReaderSetup(
            venue=venue,
            reader=PolymarketReader(settings, place),
            client=PolymarketClient(settings, http),
            feed=PolymarketPriceFeed(settings, place),
        )
        assert venue.rate_limit_checker.violations == []


async def test_markets_and_events_become_questions_with_the_prices_of_their_books(polymarket: ReaderSetup) -> None:
    world = polymarket.venue.world
    alone = world.add_market("Will it rain?", fees=FakeFeeSchedule(rate=Decimal("0.04")), **BOOK)  # type: ignore[arg-type]
    newer = world.add_market("Will it snow?", version="v2", **BOOK)  # type: ignore[arg-type]
    event, _ = world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    found = await polymarket.questions()
    assert found.keys() == {alone.condition.lower(), newer.condition.lower(), f"event:{event.id}"}
    rain, snow, race = found[alone.condition.lower()], found[newer.condition.lower()], found[f"event:{event.id}"]
    assert rain.crowd is not None
    assert rain.crowd.prediction == BinaryPrediction(0.5)
    assert (question_contracts(rain)[""].yes, question_contracts(rain)[""].no) == alone.tokens
    assert question_contracts(rain)[""].fees is not None
    assert (snow.facts["version"], question_contracts(snow)[""].yes) == ("v2", newer.tokens[0])
    assert race.crowd is not None
    assert isinstance(race.crowd.prediction, ChoicePrediction)
    assert race.crowd.prediction.probabilities == pytest.approx({"Ann": 0.6, "Bob": 0.3, "Cat": 0.1}, abs=0.01)


async def test_outcomes_follow_what_the_oracle_says_and_says_again(polymarket: ReaderSetup) -> None:
    world = polymarket.venue.world
    yes, half, nothing = (world.add_market(f"Question {number}?", **BOOK) for number in range(3))  # type: ignore[arg-type]
    names = [market.condition.lower() for market in (yes, half, nothing)]
    await polymarket.questions()
    world.propose(yes, "1")
    assert await polymarket.outcomes(*names) == {}
    assert names[0] not in await polymarket.questions()
    world.dispute(yes)
    assert await polymarket.outcomes(*names) == {}
    world.resolve(yes, "1")
    world.resolve(half, "0.5")
    world.resolve(nothing, "0", "0")
    found = await polymarket.outcomes(*names)
    assert [found[name].outcome for name in names] == [
        BinaryOutcome(1.0),
        BinaryOutcome(0.5),
        VoidOutcome("pays 0 and 0"),
    ]
    assert await polymarket.questions() == {}


async def test_an_event_resolves_to_the_option_whose_market_paid(polymarket: ReaderSetup) -> None:
    world = polymarket.venue.world
    event, markets = world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.4"})
    key = f"event:{event.id}"
    assert (await polymarket.questions())[key].shape == ChoiceShape(options=("Ann", "Bob"))
    world.resolve(markets[0], "0")
    assert await polymarket.outcomes(key) == {}
    world.resolve(markets[1], "1")
    assert (await polymarket.outcomes(key))[key].outcome == ChoiceOutcome("Bob")


async def test_a_question_is_found_by_the_name_in_its_address(polymarket: ReaderSetup) -> None:
    market = polymarket.venue.world.add_market("Will it rain?", **BOOK)  # type: ignore[arg-type]
    found = await polymarket.reader.find_question(market.slug)
    assert found.ref.key == market.condition.lower()
    assert found.url is not None
    assert (await polymarket.reader.find_question(found.url)).ref == found.ref
    short = await polymarket.client.exchange_terms(market.condition)
    assert {parse_record(item)["t"] for item in parse_list(short["t"]) or ()} == set(market.tokens)


async def test_pm_r7_a_market_that_the_exchange_does_not_know_yet_comes_later(polymarket: ReaderSetup) -> None:
    world = polymarket.venue.world
    market = world.add_market("Will it rain?", is_minted=False, **BOOK)  # type: ignore[arg-type]
    before = await polymarket.questions()
    assert all(question.crowd is None for question in before.values())
    world.register_market(market)
    [after] = (await polymarket.questions()).values()
    assert after.crowd is not None


async def test_prices_are_heard_as_they_move(polymarket: ReaderSetup) -> None:
    world = polymarket.venue.world
    market = world.add_market("Will it rain?", **BOOK)  # type: ignore[arg-type]
    ref = question_ref(market.condition.lower())
    async with aclosing(polymarket.feed.quotes([ref])) as quotes:  # type: ignore[type-var]
        first = await anext(quotes)
        await polymarket.venue.wait_until(lambda: len(polymarket.venue.hub.channels) == 1)
        world.move_price(market, "0.70")
        heard: list[Quote] = [first]
        while heard[-1].prediction != BinaryPrediction(0.7):
            heard.append(await anext(quotes))
        world.set_tick(market, "0.001")
        world.move_price(market, "0.80")
        while heard[-1].prediction != BinaryPrediction(0.8):
            heard.append(await anext(quotes))
    assert first.prediction == BinaryPrediction(0.5)
    assert {quote.ref for quote in heard} == {ref}
    assert [quote.at for quote in heard] == sorted(quote.at for quote in heard)


def spoilt(condition: str) -> FaultDetails:
    """The record of one market with terms that cannot be read, in lists and in its event."""

    def alter(answer: Json) -> Json:
        reported: Any = answer
        for event in reported.get("events", [reported]):
            for market in event.get("markets", []):
                if market["conditionId"] == condition:
                    market["outcomes"] = '["Yes","No","Maybe"]'
        return answer

    return FaultDetails(fault=RequestFault.ALTERED, alter=alter)


async def test_an_event_with_a_market_that_cannot_be_read_is_no_question(polymarket: ReaderSetup) -> None:
    world, faults = polymarket.venue.world, polymarket.venue.faults
    _, markets = world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    rain = world.add_market("Rain?", **BOOK)  # type: ignore[arg-type]
    faults.schedule(spoilt(markets[2].condition), path="/gamma/events/keyset")
    assert set(await polymarket.questions()) == {rain.condition.lower()}
    assert len(await polymarket.questions()) == 2


@pytest.mark.parametrize("augmented", [True, False])
async def test_whoever_cannot_be_read_may_have_won(polymarket: ReaderSetup, augmented: bool) -> None:  # noqa: FBT001
    event, markets = polymarket.venue.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    event.augmented = augmented
    key, path = f"event:{event.id}", f"/gamma/events/{event.id}"
    for market, pays in zip(markets, ("1", "0", "0"), strict=True):
        polymarket.venue.world.resolve(market, pays)
    # It was never asked about here, so nobody knows which markets it had.
    polymarket.venue.faults.schedule(spoilt(markets[0].condition), path=path)
    assert await polymarket.outcomes(key) == {}
    # The others, which cannot be read, did not win.
    polymarket.venue.faults.schedule(spoilt(markets[1].condition), path=path)
    assert (await polymarket.outcomes(key))[key].outcome == ChoiceOutcome("Ann")


async def test_an_option_that_its_event_does_not_list_any_more_may_have_won(polymarket: ReaderSetup) -> None:
    world, faults = polymarket.venue.world, polymarket.venue.faults
    event, markets = world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    event.augmented = True
    key, path = f"event:{event.id}", f"/gamma/events/{event.id}"
    await polymarket.questions()

    def shortened(answer: Json) -> Json:
        reported: Any = answer
        reported["markets"] = [one for one in reported["markets"] if one["conditionId"] != markets[0].condition]
        return answer

    for market in markets[1:]:
        world.resolve(market, "0")
    faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=shortened), path=path)
    assert await polymarket.outcomes(key) == {}
    world.resolve(markets[0], "1")
    for details in (FaultDetails(fault=RequestFault.ALTERED, alter=shortened), spoilt(markets[0].condition)):
        faults.schedule(details, path=path)
        assert (await polymarket.outcomes(key))[key].outcome == ChoiceOutcome("Ann")


@pytest.mark.parametrize(
    "details", [FaultDetails(fault=RequestFault.ERROR_BEFORE, status=422), FaultDetails(fault=RequestFault.PAGE_BEFORE)]
)
async def test_an_event_that_cannot_be_read_hides_no_other_outcome(
    polymarket: ReaderSetup, details: FaultDetails
) -> None:
    first, second = (
        polymarket.venue.world.add_choice(f"Who {number}?", {"Ann": "0.6", "Bob": "0.4"}) for number in (1, 2)
    )
    for _, markets in (first, second):
        polymarket.venue.world.resolve(markets[0], "1")
    keys = [f"event:{event.id}" for event, _ in (first, second)]
    polymarket.venue.faults.schedule(details, path=f"/gamma/events/{first[0].id}", times=50)
    assert set(await polymarket.outcomes(*keys)) == {keys[1]}


async def test_pm_f1_an_event_with_a_proposed_winner_is_not_asked_and_with_a_proposed_loser_is(
    polymarket: ReaderSetup,
) -> None:
    _, lost = polymarket.venue.world.add_choice("Who will lose?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    _, won = polymarket.venue.world.add_choice("Who will win?", {"Ann": "0.6", "Bob": "0.3", "Cat": "0.1"})
    assert len(await polymarket.questions()) == 2
    polymarket.venue.world.propose(lost[2], "0")
    polymarket.venue.world.propose(won[0], "1")
    assert [one.title for one in (await polymarket.questions()).values()] == ["Who will lose?"]


async def test_records_that_come_twice_or_without_a_number_hide_no_others(polymarket: ReaderSetup) -> None:
    for number in range(6):
        polymarket.venue.world.add_market(f"Question {number}?", **BOOK)  # type: ignore[arg-type]
    asked: dict[str, str | int] = {"closed": "false", "limit": 2}
    path = "/gamma/events/keyset"

    async def found() -> int:
        return len([record async for record in polymarket.client.events(asked, most_pages=10)])

    def nameless(answer: Json) -> Json:
        reported: Any = answer
        reported["events"][0]["id"] = None
        return answer

    assert await found() == 6
    polymarket.venue.faults.schedule(RequestFault.DUPLICATED, path=path)
    assert await found() == 6
    polymarket.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=nameless), path=path, times=3)
    assert await found() == 6
