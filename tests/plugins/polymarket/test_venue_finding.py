"""Questions by their names: what is found, what it is refused for, and that it is the one that is listed."""

import pytest

from bot.api import ChoiceShape, ContractError, NotFound, Rejected
from tests.plugins.polymarket.conftest import Site
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
async def test_a_market_is_found_by_any_of_its_names(site: Site, name: str) -> None:
    site.world.add(market(1), single(1))
    assert (await site.reader.find(name)).ref.key == condition(1)


async def test_what_is_found_is_read_with_its_price_whatever_the_scope(site: Site) -> None:
    site.world.add(market(1, volumeNum=1, endDate="2036-01-01T00:00:00Z"), books={token(1): book(token(1))})
    found = await site.reader.find(condition(1))
    assert found.crowd is not None
    assert found.facts["market"] == condition(1)


@pytest.mark.parametrize("grouping", ["choice", "markets"])
async def test_what_is_found_is_the_question_that_is_listed(site: Site, grouping: str) -> None:
    """Another version of it would be forecast again."""
    listed = event(market(1), number=9001, description="More than the market itself says.")
    site.world.add(listed, market(1))
    here = site.set(grouping=grouping)
    [question] = await here.questions()
    assert await here.reader.find(condition(1)) == question
    assert await here.reader.find("market-1") == question


async def test_an_event_is_found_as_one_question_and_its_market_as_another(site: Site) -> None:
    first, second = member(1, "Ann"), member(2, "Bob")
    site.world.add(event(first, second), first, second)
    whole = await site.reader.find("https://polymarket.com/event/event-77")
    assert whole.ref.key == "event:77"
    assert whole.shape == ChoiceShape(options=("Ann", "Bob"))
    assert (await site.reader.find("event:77")).ref == whole.ref
    assert (await site.reader.find(condition(2))).ref.key == condition(2)


async def test_an_event_of_several_questions_names_them(site: Site) -> None:
    site.world.add(event(market(1), market(2)))
    with pytest.raises(Rejected, match=condition(2)):
        await site.reader.find("event-77")


@pytest.mark.parametrize("name", ["no-such-market", condition(9), "event:9", "https://example.org/event/x", "!", "a/b"])
async def test_what_is_no_market_is_not_found(site: Site, name: str) -> None:
    with pytest.raises(NotFound):
        await site.reader.find(name)


async def test_a_closed_market_is_found_and_refused_with_the_reason(site: Site) -> None:
    site.world.add(market(1, closed=True))
    with pytest.raises(Rejected, match="closed"):
        await site.reader.find(condition(1))
    site.world.rows = {condition(2): row(2, status="disputed")}
    site.world.add(market(2))
    with pytest.raises(Rejected, match="about to resolve"):
        await site.reader.find(condition(2))


async def test_a_record_that_cannot_be_read_is_said_to_be_that(site: Site) -> None:
    site.world.add(market(1, outcomes=None))
    with pytest.raises(ContractError, match="outcomes"):
        await site.reader.find("market-1")
