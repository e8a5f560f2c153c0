"""Reading what is odd: records, answers and whole markets that are out of order hide no others."""

from typing import Any

import pytest

from bot.api import Json, ServiceUnavailableError
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_state import FakeManifoldMarket
from plugins.manifold import market_scan
from tests.plugins.manifold.fixture import ManifoldFixture

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


def open_market(manifold: ManifoldFixture, question: str = "Will it rain?") -> FakeManifoldMarket:
    return manifold.world.add_market(question)


@pytest.mark.parametrize("created", [0, 1_767_225_600, -1, "1", None, 1e300])
async def test_mf_t2_an_odd_time_of_creation_does_not_end_the_list(
    manifold: ManifoldFixture, monkeypatch: pytest.MonkeyPatch, created: Any
) -> None:
    monkeypatch.setattr(market_scan, "PAGE_SIZE", 5)
    for number in range(20):
        manifold.clock.advance_without_waking(1)
        open_market(manifold, f"Question {number}?")

    def odd(answer: Json) -> Json:
        rows: Any = answer
        rows[2]["createdTime"] = created
        return answer

    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=odd), path="/v0/search-markets")
    assert len(await manifold.questions()) >= 19


@pytest.mark.parametrize("name", [[], {}, None, 7, [1]])
async def test_mf_t2_an_odd_id_hides_no_other_market(manifold: ManifoldFixture, name: Any) -> None:
    for number in range(3):
        open_market(manifold, f"Question {number}?")

    def odd(answer: Json) -> Json:
        rows: Any = answer
        rows[1]["id"] = name
        return answer

    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=odd), path="/v0/search-markets")
    assert len(await manifold.questions()) == 2


async def test_one_market_that_is_always_out_of_order_hides_no_other(manifold: ManifoldFixture) -> None:
    markets = [open_market(manifold, f"Question {number}?") for number in range(12)]
    details = FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500)
    manifold.venue.faults.schedule(details, path=f"/v0/market/{markets[2].id}", times=100)
    found = manifold.reader().questions()
    assert len({(await anext(found)).ref for _ in range(11)}) == 11
    with pytest.raises(ServiceUnavailableError):
        await anext(found)


async def test_an_answer_that_comes_twice_is_one(manifold: ManifoldFixture) -> None:
    manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    manifold.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
    in_order = await manifold.questions()

    def doubled(answer: Json) -> Json:
        reported: Any = answer
        reported["answers"] = [row for row in reported["answers"] for _ in range(2)]
        return answer

    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=doubled), path="/v0/market/", times=2)
    found = await manifold.questions()
    assert {key: question.shape for key, question in found.items()} == {
        key: question.shape for key, question in in_order.items()
    }


async def test_several_markets_in_a_row_that_are_out_of_order_are_the_venue(manifold: ManifoldFixture) -> None:
    for number in range(12):
        open_market(manifold, f"Question {number}?")
    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500), path="/v0/market/", times=100
    )
    with pytest.raises(ServiceUnavailableError):
        await manifold.questions()
    assert len({one.path for one in manifold.asked("/v0/market/")}) == 3
