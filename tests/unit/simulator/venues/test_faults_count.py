"""What doubles count: faults that were met, at the door, in the cache and in the world, and requests by limits."""

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from bot.simulator.fake_service import serve_service
from bot.simulator.faults import RequestFault
from bot.simulator.request_log import LoggedRequest, RequestLimit
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.polymarket import LIMITS, FakePolymarket
from bot.testing.clock import FakeClock
from tests.unit.simulator.venues.counter_service import CounterService, open_counter

TOKEN = "5f1d0b7e" * 5


async def test_who_is_sent_away_at_the_door_meets_no_fault() -> None:
    async with open_counter(
        CounterService(FakeClock(), limits=(RequestLimit(name="one", count=1, per_s=60.0),))
    ) as counter:
        await counter.total()
        counter.faults.schedule(RequestFault.DROPPED_BEFORE)
        assert (await counter.add()).status_code == 429
        assert (counter.faults.pending, counter.faults.injected) == (1, {})


async def test_an_answer_that_was_never_given_cannot_be_stale() -> None:
    venue = FakeManifold(FakeClock())
    market = venue.world.add_market()
    before = market.question
    async with serve_service(venue) as served, httpx.AsyncClient(base_url=served.url) as client:
        await client.get(f"/v0/market/{market.id}?fresh=1")
        venue.world.edit(market, question="New?")
        venue.faults.schedule(RequestFault.STALE, times=2)
        fresh = (await client.get(f"/v0/market/{market.id}?fresh=2")).json()["question"]
        assert (fresh, venue.faults.injected) == ("New?", {})
        stale = (await client.get(f"/v0/market/{market.id}?fresh=1")).json()["question"]
        assert (stale, venue.faults.injected[RequestFault.STALE]) == (before, 1)


async def test_a_market_can_close_while_an_order_on_it_is_cancelled() -> None:
    venue = FakeManifold(FakeClock())
    venue.world.add_user("ada", key="k")
    market = venue.world.add_market()
    headers = {"Authorization": "Key k"}
    async with serve_service(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        bet = {"contractId": market.id, "amount": 10, "outcome": "YES", "limitProb": 0.1}
        order = (await client.post("/v0/bet", json=bet)).json()["betId"]
        venue.faults.schedule(RequestFault.CLOSING, method="POST")
        await client.post(f"/v0/bet/cancel/{order}", json={})
        row = (await client.get(f"/v0/market/{market.id}?fresh=1")).json()
    assert row["closeTime"] <= venue.clock.now().timestamp() * 1000


async def test_a_number_resolves_to_a_number_in_flight() -> None:
    venue = FakeManifold(FakeClock())
    venue.world.add_user("ada", key="k")
    market = venue.world.add_numeric("How many?", 0.0, 100.0, prob=0.3)
    headers = {"Authorization": "Key k"}
    async with serve_service(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        venue.faults.schedule(RequestFault.RESOLVED, method="POST")
        reply = await client.post("/v0/bet", json={"contractId": market.id, "amount": 10, "outcome": "YES"})
        row = (await client.get(f"/v0/market/{market.id}?fresh=1")).json()
    assert reply.status_code == 403
    # See docs/facts/manifold.md#resolution: such a market knows MKT and CANCEL.
    assert (row["resolution"], row["resolutionProbability"]) == ("MKT", pytest.approx(0.3))


async def test_a_question_can_close_while_it_is_commented_on() -> None:
    venue = FakeMetaculus(FakeClock())
    venue.world.add_user("samplebot", token=TOKEN)
    rain = venue.world.add_question("Rain?")
    headers = {"Authorization": f"Token {TOKEN}"}
    async with serve_service(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        venue.faults.schedule(RequestFault.CLOSING, method="POST")
        body = {"on_post": rain.post, "text": "Why not.", "is_private": True}
        assert (await client.post("/api/comments/create/", json=body)).status_code == 201
    assert rain.status(venue.now()) == "closed"


async def test_a_reading_by_post_can_be_stale_and_is_known_by_its_body() -> None:
    venue = FakePolymarket(FakeClock())
    market = venue.world.add_market()
    async with serve_service(venue) as served, httpx.AsyncClient(base_url=served.url) as client:

        async def best_bid(token: str) -> str:
            [book] = (await client.post("/books", json=[{"token_id": token}])).json()
            bid: str = book["bids"][-1]["price"]
            return bid

        before = await best_bid(market.tokens[0])
        venue.world.move_price(market, "0.80")
        venue.faults.schedule(RequestFault.STALE, method="POST", path="/books", times=2)
        assert await best_bid(market.tokens[1]) == "0.19"
        assert venue.faults.injected == {}
        assert await best_bid(market.tokens[0]) == before
        assert venue.faults.injected == {RequestFault.STALE: 1}
        assert await best_bid(market.tokens[0]) == "0.79"


async def test_a_fault_that_had_nothing_to_spoil_is_not_counted() -> None:
    venue = FakeMetaculus(FakeClock())
    venue.world.add_user("samplebot", token=TOKEN)
    rain = venue.world.add_question("Rain?")
    headers = {"Authorization": f"Token {TOKEN}"}
    async with serve_service(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        for fault, path in (
            (RequestFault.CLOSING, "/api/users/me/"),
            (RequestFault.PARTIAL_FILL, f"/api/posts/{rain.post}/"),
            (RequestFault.DUPLICATED, f"/api/questions/{rain.id}/post/"),
        ):
            venue.faults.schedule(fault)
            assert (await client.get(path)).status_code == 200
        assert (venue.faults.pending, venue.faults.injected) == (0, {})
        venue.faults.schedule(RequestFault.CLOSING)
        await client.get(f"/api/questions/{rain.id}/")
    assert venue.faults.injected == {RequestFault.CLOSING: 1}
    assert rain.status(venue.now()) == "closed"


async def test_a_question_can_be_edited_while_a_comment_on_it_is_changed() -> None:
    venue = FakeMetaculus(FakeClock())
    venue.world.add_user("samplebot", token=TOKEN)
    rain = venue.world.add_question("Rain?")
    before = rain.criteria
    headers = {"Authorization": f"Token {TOKEN}"}
    async with serve_service(venue) as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        body = {"on_post": rain.post, "text": "Why not.", "is_private": True}
        made = (await client.post("/api/comments/create/", json=body)).json()
        venue.faults.schedule(RequestFault.EDITED, method="POST")
        await client.post(f"/api/comments/{made['id']}/edit/", json={"text": "Why."})
    assert venue.faults.injected == {RequestFault.EDITED: 1}
    assert rain.criteria != before


def asked(method: str, path: str) -> LoggedRequest:
    at = datetime(2026, 11, 22, tzinfo=UTC)
    return LoggedRequest(number=1, method=method, path=path, query="", headers={}, body=b"", at=at, at_s=0.0)


def bounds(method: str, path: str) -> Iterator[tuple[int, float]]:
    """Yield the limits that hold for a request, but for that of everything together."""
    for limit in LIMITS:
        if limit.holds_for(asked(method, path)) and limit.name != "general":
            yield limit.count, limit.per_s


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/gamma/events/keyset", {(4_000, 10.0), (500, 10.0), (900, 10.0)}),
        ("GET", "/gamma/markets/keyset", {(4_000, 10.0), (300, 10.0), (900, 10.0)}),
        ("GET", "/gamma/tags/slug/politics", {(4_000, 10.0), (200, 10.0)}),
        ("GET", "/gamma/comments", {(4_000, 10.0), (200, 10.0)}),
        ("GET", "/data-api/v2/positions", {(1_000, 10.0), (150, 10.0)}),
        ("GET", "/book", {(9_000, 10.0), (1_500, 10.0)}),
        ("GET", "/price", {(9_000, 10.0), (1_500, 10.0)}),
        ("GET", "/midpoint", {(9_000, 10.0), (1_500, 10.0)}),
        ("POST", "/books", {(9_000, 10.0), (500, 10.0)}),
        ("GET", "/prices-history", {(9_000, 10.0), (1_000, 10.0)}),
        ("GET", "/tick-size", {(9_000, 10.0), (200, 10.0)}),
        ("GET", "/data/orders", {(9_000, 10.0), (500, 10.0)}),
        ("GET", "/auth/api-keys", {(9_000, 10.0), (100, 10.0)}),
        ("GET", "/balance-allowance", {(9_000, 10.0), (200, 10.0)}),
        ("GET", "/balance-allowance/update", {(9_000, 10.0), (200, 10.0), (50, 10.0)}),
        ("POST", "/order", {(3_500, 10.0), (36_000, 600.0)}),
        ("DELETE", "/order", {(3_000, 10.0), (30_000, 600.0)}),
        ("POST", "/orders", {(1_000, 10.0), (15_000, 600.0)}),
        ("DELETE", "/orders", {(1_000, 10.0), (15_000, 600.0)}),
        ("DELETE", "/cancel-all", {(250, 10.0), (6_000, 600.0)}),
        ("DELETE", "/cancel-market-orders", {(1_000, 10.0), (1_500, 600.0)}),
    ],
)
def test_the_limits_of_an_exchange_are_those_of_its_document(
    method: str, path: str, expected: set[tuple[int, float]]
) -> None:
    """docs/facts/polymarket.md#rate-limits."""
    assert set(bounds(method, path)) == expected
