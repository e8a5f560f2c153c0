"""Pages that move while they are read, and records on them that are none."""

from pathlib import Path

import pytest

from bot.simulator.faults import FaultDetails, RequestFault
from plugins.metaculus.api_client import PAGE_SIZE
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.records import post
from tests.plugins.metaculus.test_reader import LIST, page, read


async def test_what_is_published_between_two_pages_hides_nothing(site: MetaculusFixture) -> None:
    add, faults = site.fake.world.add_question, site.fake.faults
    for number in range(2 * PAGE_SIZE + 50):
        add(f"Rain {number}?")
    # The newest come first, so that one of the first page comes again on the second.
    faults.schedule(FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: None), path="/api/posts/")
    faults.schedule(FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: add("New?")), path="/api/posts/")
    assert len(await site.questions()) == 2 * PAGE_SIZE + 50


@pytest.mark.parametrize("number", [None, [], {}, 1.5])
async def test_mc_t2_records_without_a_number_on_every_page_lose_no_other(tmp_path: Path, number: object) -> None:
    pages = [
        page({**post(1), "id": number}, *(post(40000 + PAGE_SIZE * place + n) for n in range(PAGE_SIZE - 2)), "odd")
        for place in range(2)
    ]
    found, asked = await read(tmp_path, {LIST: pages[0], f"{LIST}&offset=100": pages[1], f"{LIST}&offset=200": page()})
    assert len(found) == 2 * (PAGE_SIZE - 2)
    assert len(asked) == 3


async def test_mc_p2_a_list_that_repeats_itself_with_odd_records_ends(tmp_path: Path) -> None:
    full = page("odd", *(post(40000 + n) for n in range(PAGE_SIZE - 1)))
    found, asked = await read(tmp_path, {LIST: full, f"{LIST}&offset=100": full})
    assert len(found) == PAGE_SIZE - 1
    assert len(asked) == 2
