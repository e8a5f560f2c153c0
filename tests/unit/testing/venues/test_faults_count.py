"""A fault that is counted as served was met: at the door, in the cache, and in the world."""

import httpx
import pytest

from bot.testing.clock import FakeClock
from bot.testing.venues.faults import Fault
from bot.testing.venues.kit import serve
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.metaculus import FakeMetaculus
from bot.testing.venues.record import Limit
from tests.unit.testing.venues.counter import Counter, visited

TOKEN = "5f1d0b7e" * 5


async def test_who_is_sent_away_at_the_door_meets_no_fault() -> None:
    async with visited(Counter(FakeClock(), limits=(Limit(name="one", count=1, per_s=60.0),))) as visit:
        await visit.total()
        visit.faults.next(Fault.DROPPED_BEFORE)
        assert (await visit.add()).status_code == 429
        assert (visit.faults.pending, visit.faults.injected) == (1, {})


async def test_an_answer_that_was_never_given_cannot_be_stale() -> None:
    venue = FakeManifold(FakeClock())
    market = venue.world.add_market()
    before = market.question
    async with serve(venue) as served, httpx.AsyncClient(base_url=served.url) as client:
        await client.get(f"/v0/market/{market.id}?fresh=1")
        venue.world.edit(market, question="New?")
        venue.faults.next(Fault.STALE, times=2)
        fresh = (await client.get(f"/v0/market/{market.id}?fresh=2")).json()["question"]
        assert (fresh, venue.faults.injected[Fault.STALE]) == ("New?", 0)
        stale = (await client.get(f"/v0/market/{market.id}?fresh=1")).json()["question"]
        assert (stale, venue.faults.injected[Fault.STALE]) == (before, 1)


async def test_a_market_can_close_while_an_order_on_it_is_cancelled() -> None:
    venue = FakeManifold(FakeClock())
    venue.world.add_user("ada", key="k")
    market = venue.world.add_market()
    headers = {"Authorization": "Key k"}
    async with serve(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        bet = {"contractId": market.id, "amount": 10, "outcome": "YES", "limitProb": 0.1}
        order = (await client.post("/v0/bet", json=bet)).json()["betId"]
        venue.faults.next(Fault.CLOSING, method="POST")
        await client.post(f"/v0/bet/cancel/{order}", json={})
        row = (await client.get(f"/v0/market/{market.id}?fresh=1")).json()
    assert row["closeTime"] <= venue.clock.now().timestamp() * 1000


async def test_a_number_resolves_to_a_number_in_flight() -> None:
    venue = FakeManifold(FakeClock())
    venue.world.add_user("ada", key="k")
    market = venue.world.add_numeric("How many?", 0.0, 100.0, prob=0.3)
    headers = {"Authorization": "Key k"}
    async with serve(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        venue.faults.next(Fault.RESOLVED, method="POST")
        reply = await client.post("/v0/bet", json={"contractId": market.id, "amount": 10, "outcome": "YES"})
        row = (await client.get(f"/v0/market/{market.id}?fresh=1")).json()
    assert reply.status_code == 403
    # Section 4.4 of the venue document: such a market knows MKT and CANCEL.
    assert (row["resolution"], row["resolutionProbability"]) == ("MKT", pytest.approx(0.3))


async def test_a_question_can_close_while_it_is_commented_on() -> None:
    venue = FakeMetaculus(FakeClock())
    venue.world.add_user("samplebot", token=TOKEN)
    rain = venue.world.add_question("Rain?")
    headers = {"Authorization": f"Token {TOKEN}"}
    async with serve(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        venue.faults.next(Fault.CLOSING, method="POST")
        body = {"on_post": rain.post, "text": "Why not.", "is_private": True}
        assert (await client.post("/api/comments/create/", json=body)).status_code == 201
    assert rain.status(venue.now()) == "closed"
