"""Cancels, batches, heartbeats and limits of an account on the fake Polymarket, after docs/facts/polymarket.md."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.simulator.venues.polymarket_client import OTHER_KEY, RawPolymarketClient, deep, open_polymarket

pytest.importorskip("polymarket")


@pytest.fixture
async def polymarket() -> AsyncIterator[RawPolymarketClient]:
    async with open_polymarket() as here:
        yield here


async def test_cancels_say_what_they_could_not(polymarket: RawPolymarketClient) -> None:
    market, other = deep(polymarket), deep(polymarket)
    ids = [(await polymarket.placed(market, "BUY", "0.4", "10"))["orderID"] for _ in range(3)]
    ids.append((await polymarket.placed(other, "BUY", "0.4", "10"))["orderID"])
    reported = (await polymarket.private("DELETE", "/orders", [ids[0], "0xabc"])).json()
    assert (reported["canceled"], list(reported["not_canceled"])) == ([ids[0]], ["0xabc"])
    again = (await polymarket.private("DELETE", "/order", {"orderID": ids[0]})).json()
    assert (again["canceled"], list(again["not_canceled"])) == ([], [ids[0]])
    of = await polymarket.private("DELETE", "/cancel-market-orders", {"market": other.condition})
    assert of.json()["canceled"] == [ids[3]]
    rest = await polymarket.private("DELETE", "/cancel-all")
    assert sorted(rest.json()["canceled"]) == sorted(ids[1:3])
    assert [effect.subject for effect in polymarket.venue.ledger.effects("cancel")] == [ids[0], ids[3], *ids[1:3]]


async def test_nobody_cancels_what_is_not_his(polymarket: RawPolymarketClient) -> None:
    placed = await polymarket.placed(deep(polymarket), "BUY", "0.4", "10")
    bob = polymarket.world.give_key(polymarket.world.add_user(OTHER_KEY))
    reply = await polymarket.private("DELETE", "/order", {"orderID": placed["orderID"]}, user=bob)
    assert reply.json()["canceled"] == []
    assert (await polymarket.private("GET", "/data/orders", user=bob)).json()["data"] == []
    stolen = await polymarket.private("POST", "/order", polymarket.body(deep(polymarket), "BUY", "0.4", "10"), user=bob)
    assert (stolen.status_code, "owner" in stolen.text) == (400, True)


async def test_in_a_batch_each_order_has_its_own_answer(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    bodies = [polymarket.body(market, "BUY", price, "10") for price in ("0.4", "0.575", "0.41")]
    rows = (await polymarket.private("POST", "/orders", bodies)).json()
    # One that was refused says success and has no id.
    assert [(row["success"], bool(row["orderID"])) for row in rows] == [(True, True), (True, False), (True, True)]
    assert (await polymarket.private("POST", "/orders", bodies * 6)).status_code == 400
    assert len((await polymarket.mine("/data/orders"))["data"]) == 2


async def test_private_lists_end_with_their_own_sign(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    polymarket.venue.orders.page_size = 2
    ids = [(await polymarket.placed(market, "BUY", "0.4", "10"))["orderID"] for _ in range(3)]
    first = await polymarket.mine("/data/orders")
    last = await polymarket.mine("/data/orders", next_cursor=first["next_cursor"])
    assert [row["id"] for row in [*first["data"], *last["data"]]] == ids
    assert (last["next_cursor"], first["next_cursor"] == "LTE=") == ("LTE=", False)


async def test_without_a_beat_for_ten_seconds_all_orders_go(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    await polymarket.placed(market, "BUY", "0.4", "10")
    first = (await polymarket.private("POST", "/v1/heartbeats", {"heartbeat_id": ""})).json()["heartbeat_id"]
    stale = await polymarket.private("POST", "/v1/heartbeats", {"heartbeat_id": ""})
    assert (stale.status_code, stale.json()) == (400, {"error_msg": "Invalid Heartbeat ID", "heartbeat_id": first})
    await polymarket.pass_s(9)
    assert (await polymarket.private("POST", "/v1/heartbeats", {"heartbeat_id": first})).status_code == 200
    await polymarket.pass_s(9)
    assert len((await polymarket.mine("/data/orders"))["data"]) == 1
    await polymarket.pass_s(1)
    assert (await polymarket.mine("/data/orders"))["data"] == []


async def test_a_signer_has_sixty_orders_at_once_and_is_told_what_is_left(polymarket: RawPolymarketClient) -> None:
    market = deep(polymarket)
    bodies = [polymarket.body(market, "BUY", "0.01", "5") for _ in range(61)]
    for first in range(0, 60, 15):
        reply = await polymarket.private("POST", "/orders", bodies[first : first + 15])
        assert reply.headers["poly-ratelimit-remaining"] == str(60 - first - 15)
    refused = await polymarket.private("POST", "/order", bodies[60])
    assert (refused.status_code, int(refused.headers["retry-after"])) == (429, 1)
    assert [violation.limit for violation in polymarket.venue.rate_limit_checker.violations] == ["orders of a signer"]
    await polymarket.clock.advance(1)
    assert (await polymarket.private("POST", "/order", bodies[60])).status_code == 200
    assert len(polymarket.venue.ledger.effects("order")) == 61
    # All cancels at once cost one, and one for each.
    cancel = await polymarket.private("DELETE", "/cancel-all")
    assert (len(cancel.json()["canceled"]), cancel.headers["poly-ratelimit-remaining"]) == (61, str(120 - 62))
