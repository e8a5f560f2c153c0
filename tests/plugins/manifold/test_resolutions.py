"""Outcomes: what each kind of market says it resolved to, when that counts, and what undoes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    BinaryOutcome,
    ChoiceOutcome,
    NumericOutcome,
    Outcome,
    QuestionRef,
    Resolution,
    ServiceUnavailableError,
    VoidOutcome,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_state import FakeManifoldMarket
from tests.plugins.manifold.fixture import ManifoldFixture

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))
LATER_S = 3600.0


async def reported(
    manifold: ManifoldFixture, market: FakeManifoldMarket, answer: int | None = None
) -> list[Resolution]:
    """Return what is reported of a question, an hour later."""
    key = market.id if answer is None else f"{market.id}/{market.answers[answer].id}"
    manifold.clock.advance_without_waking(LATER_S)
    return [found async for found in manifold.reader().resolutions([ref_of(key)])]


def ref_of(key: str) -> QuestionRef:
    return QuestionRef("manifold", key)


async def outcome(manifold: ManifoldFixture, market: FakeManifoldMarket, answer: int | None = None) -> Outcome | None:
    found = await reported(manifold, market, answer)
    return found[0].outcome if found else None


@pytest.mark.parametrize(("answer_field", "value"), [("YES", 1.0), ("NO", 0.0), ("MKT", 0.83)])
async def test_mf_v1_the_price_counts_only_where_the_market_says_so(
    manifold: ManifoldFixture, answer_field: str, value: float
) -> None:
    market = manifold.world.add_market()
    # Of YES and NO this is the price before the resolution.
    manifold.world.resolve(market, answer_field, prob=0.83)
    assert await outcome(manifold, market) == BinaryOutcome(value)


async def test_mf_v1_a_cancelled_market_is_not_scored(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    manifold.world.resolve(market, "CANCEL")
    assert isinstance(await outcome(manifold, market), VoidOutcome)


async def test_an_open_market_has_no_outcome(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    assert await outcome(manifold, market) is None
    manifold.world.close(market)
    assert await outcome(manifold, market) is None


async def test_mf_v2_the_winner_is_the_answer_that_is_named(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    manifold.world.resolve(market, market.answers[2].id)
    # The prices that the answers continue to show favour another one.
    assert market.answers[0].pool.prob == pytest.approx(0.5)
    assert await outcome(manifold, market) == ChoiceOutcome("Cid")


@pytest.mark.parametrize("way", ["named", "paid all"])
async def test_an_answer_that_was_split_from_other_was_part_of_it(manifold: ManifoldFixture, way: str) -> None:
    answers = (("Other", 0.2), ("Ann", 0.5), ("Dee", 0.3))
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=answers)
    winner = market.answers[2].id
    if way == "named":
        manifold.world.resolve(market, winner)
    else:
        manifold.world.resolve(market, "CHOOSE_MULTIPLE", weights={winner: 1.0})
    found = await outcome(manifold, market)
    assert isinstance(found, ChoiceOutcome)
    assert (found.option, found.otherwise) == ("Dee", ("Other",))


async def test_mf_v2_what_several_winners_are_paid_is_read_from_the_answers(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    ann, bob, cid = market.answers
    manifold.world.resolve(market, "CHOOSE_MULTIPLE", weights={ann.id: 0.25, cid.id: 0.75})
    found = await outcome(manifold, market)
    assert found == VoidOutcome("several answers won: Ann 25 %, Cid 75 %", shares={"Ann": 0.25, "Cid": 0.75})
    assert [asked.path for asked in manifold.asked("/v0/market/")][-1] == f"/v0/market/{market.id}/answers"
    assert bob.payout == 0.0


async def test_mf_v2_several_winners_of_which_one_gets_all_are_one(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    manifold.world.resolve(market, "CHOOSE_MULTIPLE", weights={market.answers[1].id: 1.0})
    assert await outcome(manifold, market) == ChoiceOutcome("Bob")


async def test_mf_v3_answers_resolve_by_themselves_while_the_market_stays_open(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
    manifold.world.resolve(market, "YES", answer=market.answers[0], prob=0.4)
    manifold.world.resolve(market, "MKT", answer=market.answers[1], prob=0.3)
    assert not market.resolved
    assert await outcome(manifold, market, 0) == BinaryOutcome(1.0)
    assert await outcome(manifold, market, 1) == BinaryOutcome(0.3)
    assert await outcome(manifold, market, 2) is None
    manifold.world.resolve(market, "CANCEL", answer=market.answers[2])
    # With the last answer the market itself says MKT, which is about none of them.
    assert market.resolution == "MKT"
    assert await outcome(manifold, market, 0) == BinaryOutcome(1.0)
    assert isinstance(await outcome(manifold, market, 2), VoidOutcome)


@pytest.mark.parametrize(
    ("scale", "prob", "value"),
    [
        ({"low": 0.0, "high": 100.0}, 0.25, 25.0),
        ({"low": -50.0, "high": 50.0}, 0.5, 0.0),
        ({"low": 10.0, "high": 1000.0, "is_log": True}, 0.5, 40.480152477394384),
    ],
)
async def test_mf_v4_a_number_is_what_its_price_stands_for(
    manifold: ManifoldFixture, scale: dict[str, Any], prob: float, value: float
) -> None:
    market = manifold.world.add_numeric("How many?", **scale)
    manifold.world.resolve(market, "MKT", prob=prob)
    found = await outcome(manifold, market)
    assert isinstance(found, NumericOutcome)
    assert found.value == pytest.approx(value)


async def test_mf_v4_the_vectors_of_the_venue(manifold: ManifoldFixture, shared: Path) -> None:
    vectors = json.loads((shared / "venues" / "manifold_cpmm_vectors.json").read_bytes())["vectors"]
    numeric = [vector for vector in vectors if vector["fn"] == "pseudoNumeric"]
    assert [vector["id"] for vector in numeric] == ["v082", "v083", "v084", "v085"]
    for vector in numeric:
        given = vector["input"]
        market = manifold.world.add_numeric("?", given["min"], given["max"], is_log=given["isLogScale"])
        manifold.world.resolve(market, "MKT", prob=given["prob"])
        found = await outcome(manifold, market)
        assert isinstance(found, NumericOutcome)
        assert found.value == pytest.approx(vector["output"]["value"], rel=1e-6), vector["id"]


async def test_mf_v5_a_resolution_counts_after_more_than_ten_minutes(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    reader = manifold.reader()
    manifold.world.resolve(market, "YES")
    resolved_at = manifold.clock.now()
    for _ in range(10):
        manifold.clock.advance_without_waking(60)
        assert [found async for found in reader.resolutions([ref_of(market.id)])] == []
    manifold.clock.advance_without_waking(400)
    (found,) = [found async for found in reader.resolutions([ref_of(market.id)])]
    assert (found.outcome, found.resolved_at, found.target) == (BinaryOutcome(1.0), resolved_at, "outcome")


async def test_mf_v5_an_undone_resolution_takes_the_outcome_back_also_after_a_restart(
    manifold: ManifoldFixture,
) -> None:
    market = manifold.world.add_market()
    manifold.world.resolve(market, "YES")
    assert await outcome(manifold, market) == BinaryOutcome(1.0)
    manifold.world.unresolve(market)
    undone = await reported(manifold, market)
    assert undone[0].outcome == VoidOutcome("the resolution was undone")
    # Said again and again, under the same moment.
    assert await reported(manifold, market) == undone
    manifold.world.resolve(market, "NO")
    assert await outcome(manifold, market) == BinaryOutcome(0.0)


async def test_mf_v5_a_resolution_that_was_just_changed_waits_again(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    manifold.world.resolve(market, "YES")
    assert await outcome(manifold, market) == BinaryOutcome(1.0)
    manifold.world.unresolve(market)
    manifold.world.resolve(market, "NO")
    manifold.clock.advance_without_waking(5)
    (found,) = [one async for one in manifold.reader().resolutions([ref_of(market.id)])]
    assert found.outcome == VoidOutcome("the resolution has just been changed")
    assert await outcome(manifold, market) == BinaryOutcome(0.0)


async def test_a_market_that_cannot_be_read_hides_no_other(manifold: ManifoldFixture) -> None:
    gone, market = manifold.world.add_market(), manifold.world.add_market()
    del manifold.venue.state.markets[gone.id]
    manifold.world.resolve(market, "NO")
    manifold.clock.advance_without_waking(LATER_S)
    pending = [ref_of(gone.id), ref_of("no such/answer"), ref_of(market.id)]
    found = [one async for one in manifold.reader().resolutions(pending)]
    assert [(one.ref, one.outcome) for one in found] == [(ref_of(market.id), BinaryOutcome(0.0))]


@pytest.mark.parametrize(
    "odd",
    [
        {"resolution": "PERHAPS"},
        {"resolution": "MKT", "resolutionProbability": 7},
        {"resolution": "MKT", "resolutionProbability": None},
        {"resolutionTime": None},
        {"resolution": None},
    ],
)
async def test_a_resolution_that_fits_nothing_is_left_out(manifold: ManifoldFixture, odd: dict[str, object]) -> None:
    market = manifold.world.add_market()
    manifold.world.resolve(market, "YES")
    market.more = odd
    assert await reported(manifold, market) == []


async def test_an_answer_of_the_venue_that_is_no_json_costs_that_market_alone(manifold: ManifoldFixture) -> None:
    first, second = manifold.world.add_market(), manifold.world.add_market()
    for market in (first, second):
        manifold.world.resolve(market, "YES")
    manifold.venue.faults.schedule(RequestFault.PAGE_BEFORE, path=f"/v0/market/{first.id}")
    manifold.clock.advance_without_waking(LATER_S)
    found = [one async for one in manifold.reader().resolutions([ref_of(first.id), ref_of(second.id)])]
    assert [one.ref for one in found] == [ref_of(second.id)]


async def test_one_market_that_is_out_of_order_hides_no_other_outcome(manifold: ManifoldFixture) -> None:
    markets = [manifold.world.add_market() for _ in range(4)]
    for market in markets:
        manifold.world.resolve(market, "YES")
    manifold.clock.advance_without_waking(LATER_S)
    details = FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500)
    manifold.venue.faults.schedule(details, path=f"/v0/market/{markets[0].id}", times=100)
    refs = [ref_of(market.id) for market in markets]
    assert [found.ref async for found in manifold.reader().resolutions(refs)] == refs[1:]


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_where_no_market_can_be_read_the_venue_is_unavailable(manifold: ManifoldFixture, count: int) -> None:
    refs = [ref_of(manifold.world.add_market().id) for _ in range(count)]
    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500), path="/v0/market/", times=100
    )
    with pytest.raises(ServiceUnavailableError):
        assert [found async for found in manifold.reader().resolutions(refs)]
    assert len(manifold.asked("/v0/market/")) <= 3


async def test_mf_t1_an_outcome_without_a_time_counts_from_when_it_was_first_seen(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
    manifold.world.resolve(market, "YES", answer=market.answers[0])
    market.answers[0].resolution_time = None
    ref = ref_of(f"{market.id}/{market.answers[0].id}")
    seen = manifold.clock.now()
    assert [found async for found in manifold.reader().resolutions([ref])] == []
    for _ in range(2):
        manifold.clock.advance_without_waking(LATER_S)
        # Another reader each time, as after a restart.
        (found,) = [found async for found in manifold.reader().resolutions([ref])]
        assert (found.outcome, found.resolved_at) == (BinaryOutcome(1.0), seen)
