"""Questions by their names: what is found, what it is refused for, and that it is the one that is listed."""

import pytest

from bot.api import ChoiceShape, MalformedDataError, NotFoundError, RequestRejectedError
from tests.plugins.polymarket.conftest import PolymarketFixture
from tests.plugins.polymarket.records import book, condition, event, market, member, row, single, token


@pytest.mark.parametrize(
    "name",
    [
        condition(1),
        condition(1).upper().replace("0X", "0x"),
        "market-1",
        "event-1",
        "https://polymarket.com/event/event-1/market-1",
        "https://polymarket.com/de/event/event-1?tid=17",
        "polymarket.com/market/market-1",
    ],
)
async def test_a_market_is_found_by_any_of_its_names(site: PolymarketFixture, name: str) -> None:
    site.world.add(market(1), single(1))
    assert (await site.reader.find_question(name)).ref.key == condition(1)


async def test_what_is_found_is_read_with_its_price_whatever_the_scope(site: PolymarketFixture) -> None:
    site.world.add(market(1, volumeNum=1, endDate="2036-01-01T00:00:00Z"), books={token(1): book(token(1))})
    found = await site.reader.find_question(condition(1))
    assert found.crowd is not None
    assert found.market == condition(1)


@pytest.mark.parametrize("grouping", ["choice", "markets"])
async def test_what_is_found_is_the_question_that_is_listed(site: PolymarketFixture, grouping: str) -> None:
    """Another version of it would be forecast again."""
    listed = event(market(1), number=9001, description="More than the market itself says.")
    site.world.add(listed, market(1))
    here = site.set(grouping=grouping)
    [question] = await here.questions()
    assert await here.reader.find_question(condition(1)) == question
    assert await here.reader.find_question("market-1") == question


async def test_an_event_is_found_as_one_question_and_its_market_as_another(site: PolymarketFixture) -> None:
    first, second = member(1, "Ann"), member(2, "Bob")
    site.world.add(event(first, second), first, second)
    whole = await site.reader.find_question("https://polymarket.com/event/event-77")
    assert whole.ref.key == "event:77"
    assert whole.shape == ChoiceShape(options=("Ann", "Bob"))
    assert (await site.reader.find_question("event:77")).ref == whole.ref
    assert (await site.reader.find_question(condition(2))).ref.key == condition(2)


async def test_an_event_of_several_questions_names_them(site: PolymarketFixture) -> None:
    site.world.add(event(market(1), market(2)))
    with pytest.raises(RequestRejectedError, match=condition(2)):
        await site.reader.find_question("event-77")


@pytest.mark.parametrize(
    "name",
    ["no-such-market", condition(9), "event:9", "https://example.org/event/x", "!", "a/b", "https://[::1", "[a/b"],
)
async def test_what_is_no_market_is_not_found(site: PolymarketFixture, name: str) -> None:
    with pytest.raises(NotFoundError):
        await site.reader.find_question(name)


async def test_a_closed_market_is_found_and_refused_with_the_reason(site: PolymarketFixture) -> None:
    site.world.add(market(1, closed=True))
    with pytest.raises(RequestRejectedError, match="closed"):
        await site.reader.find_question(condition(1))
    site.world.rows = {condition(2): row(2, status="disputed")}
    site.world.add(market(2))
    with pytest.raises(RequestRejectedError, match="about to resolve"):
        await site.reader.find_question(condition(2))


async def test_a_record_that_cannot_be_read_is_said_to_be_that(site: PolymarketFixture) -> None:
    site.world.add(market(1, outcomes=None))
    with pytest.raises(MalformedDataError, match="outcomes"):
        await site.reader.find_question("market-1")
