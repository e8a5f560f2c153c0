"""Reading what is odd: records, answers and whole markets that are out of order hide no others."""

from typing import Any

import pytest

from bot.api import Json, Unavailable
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.venues.manifold_state import Market
from plugins.manifold import scan
from tests.plugins.manifold.stand import Stand

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


def open_market(stand: Stand, question: str = "Will it rain?") -> Market:
    return stand.world.add_market(question)


@pytest.mark.parametrize("created", [0, 1_767_225_600, -1, "1", None, 1e300])
async def test_mf_t2_an_odd_time_of_creation_does_not_end_the_list(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, created: Any
) -> None:
    monkeypatch.setattr(scan, "PAGE", 5)
    for number in range(20):
        stand.clock.pass_unnoticed(1)
        open_market(stand, f"Question {number}?")

    def odd(answer: Json) -> Json:
        rows: Any = answer
        rows[2]["createdTime"] = created
        return answer

    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=odd), path="/v0/search-markets")
    assert len(await stand.questions()) >= 19


@pytest.mark.parametrize("name", [[], {}, None, 7, [1]])
async def test_mf_t2_an_odd_id_hides_no_other_market(stand: Stand, name: Any) -> None:
    for number in range(3):
        open_market(stand, f"Question {number}?")

    def odd(answer: Json) -> Json:
        rows: Any = answer
        rows[1]["id"] = name
        return answer

    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=odd), path="/v0/search-markets")
    assert len(await stand.questions()) == 2


async def test_one_market_that_is_always_out_of_order_hides_no_other(stand: Stand) -> None:
    markets = [open_market(stand, f"Question {number}?") for number in range(12)]
    trouble = Trouble(fault=Fault.ERROR_BEFORE, status=500)
    stand.venue.faults.next(trouble, path=f"/v0/market/{markets[2].id}", times=100)
    found = stand.reader().questions()
    assert len({(await anext(found)).ref for _ in range(11)}) == 11
    with pytest.raises(Unavailable):
        await anext(found)


async def test_an_answer_that_comes_twice_is_one(stand: Stand) -> None:
    stand.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    stand.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
    in_order = await stand.questions()

    def doubled(answer: Json) -> Json:
        said: Any = answer
        said["answers"] = [row for row in said["answers"] for _ in range(2)]
        return answer

    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=doubled), path="/v0/market/", times=2)
    found = await stand.questions()
    assert {key: question.shape for key, question in found.items()} == {
        key: question.shape for key, question in in_order.items()
    }


async def test_several_markets_in_a_row_that_are_out_of_order_are_the_venue(stand: Stand) -> None:
    for number in range(12):
        open_market(stand, f"Question {number}?")
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=500), path="/v0/market/", times=100)
    with pytest.raises(Unavailable):
        await stand.questions()
    assert len({one.path for one in stand.asked("/v0/market/")}) == 3
