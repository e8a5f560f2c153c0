"""Trading on the fake Manifold over HTTP, after docs/facts/manifold.md#access, #errors, #account and #writing."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_market_maker import WantedTrade
from tests.unit.simulator.venues.manifold_client import KEY, RawManifoldClient

PLACED = {
    *("contractId", "outcome", "amount", "orderAmount", "shares", "isFilled", "isCancelled", "fills", "probBefore"),
    *("probAfter", "fees", "loanAmount", "createdTime", "isRedemption", "visibility", "betId"),
}
CASH = {"token": "CASH"}
CHOICES: dict[str, Any] = {"type": "MULTIPLE_CHOICE", "answers": [("Red", 0.5), ("Green", 0.3), ("Blue", 0.2)]}


# Bets


async def test_a_market_order_is_filled_as_the_vectors_say(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    placed = await manifold.placed(market, 50)
    assert set(placed) >= PLACED
    assert not {"id", "userId"} & set(placed)
    # Vector v040.
    assert placed["shares"] == pytest.approx(83.33333333333333)
    assert placed["probAfter"] == pytest.approx(0.6923076923076923)
    assert (await manifold.read("/v0/me"))["balance"] == pytest.approx(950)
    [row] = await manifold.read("/v0/bets", userId=manifold.ada.id)
    assert (row["id"], row["amount"], row["outcome"]) == (placed["betId"], 50, "YES")
    [effect] = manifold.venue.ledger.effects("bet", account=manifold.ada.id)
    assert effect.subject == placed["betId"]


@pytest.mark.parametrize(
    ("more", "status", "field"),
    [
        ({"amount": 0.99}, 400, "amount"),
        ({"amount": 1}, 200, None),
        ({"amount": 1.25}, 200, None),
        ({"amount": "10"}, 400, "amount"),
        ({"outcome": "yes"}, 400, "outcome"),
        ({"limitprob": 0.5}, 400, None),
        ({"expiresAt": None}, 400, "expiresAt"),
        ({"limitProb": None}, 400, "limitProb"),
        ({"limitProb": 0.995}, 400, "limitProb"),
        ({"limitProb": 0.009}, 400, "limitProb"),
        ({"idempotencyKey": "x"}, 400, None),
        ({"dryRun": "true"}, 400, "dryRun"),
        ({"deps": "x"}, 400, "deps"),
        ({"deps": ["x"], "silent": True}, 200, None),
        ({"contractId": "nothing"}, 404, None),
    ],
)
async def test_the_schema_of_a_bet_is_strict(
    manifold: RawManifoldClient, more: dict[str, Any], status: int, field: str | None
) -> None:
    reply = await manifold.bet(manifold.world.add_market(), **more)
    assert reply.status_code == status
    if status == 400:
        assert [fault["field"] for fault in reply.json()["details"]] == [field]
    assert len(manifold.venue.ledger.effects()) == (status == 200)


async def test_a_body_that_is_no_json_is_refused(manifold: RawManifoldClient) -> None:
    for content in (b"{", b'{"amount": NaN}', b"[]", b""):
        reply = await manifold.client.post("/v0/bet", content=content, headers=manifold.headers)
        assert reply.status_code == 400


@pytest.mark.parametrize("limit", [0.505, 0.333, 0.5000001])
async def test_a_limit_must_be_a_whole_percent_except_where_the_price_is_a_number(
    manifold: RawManifoldClient, limit: float
) -> None:
    reply = await manifold.bet(manifold.world.add_market(), limitProb=limit)
    assert (reply.status_code, "whole percent" in reply.text) == (400, True)
    assert (await manifold.bet(manifold.world.add_numeric("How many?", 0, 10), limitProb=limit)).status_code == 200


async def test_every_whole_percent_is_a_limit(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(prob=0.003)
    statuses = {(await manifold.bet(market, 1, limitProb=percent / 100)).status_code for percent in range(1, 100)}
    assert statuses == {200}


async def test_a_market_order_stops_at_99_percent_and_then_there_is_nothing_to_buy(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    manifold.ada.balance = 10_000
    placed = await manifold.placed(market, 5_000)
    # Vector v041: what is not spent was not ordered.
    assert placed["amount"] == placed["orderAmount"] == pytest.approx(894.9874371066194)
    assert placed["isFilled"]
    assert (await manifold.bet(market, 5)).status_code == 400


async def test_a_limit_order_fills_to_its_limit_and_rests(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    placed = await manifold.placed(market, 100, limitProb=0.6)
    # Vector v043.
    assert placed["amount"] == pytest.approx(22.47448713915891)
    assert (placed["orderAmount"], placed["isFilled"], placed["isCancelled"]) == (100, False, False)
    assert (await manifold.read("/v0/me"))["balance"] == pytest.approx(1000 - placed["amount"])
    [order] = await manifold.read("/v0/bets", userId=manifold.ada.id, kinds="open-limit")
    assert order["id"] == placed["betId"]


async def test_a_resting_order_is_filled_by_others_and_pays_then(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    placed = await manifold.placed(market, 40, limitProb=0.4)
    assert placed["amount"] == 0
    manifold.world.move_price(market, 0.35)
    [row] = await manifold.read("/v0/bets", userId=manifold.ada.id)
    assert (row["isFilled"], row["amount"], row["shares"]) == (True, pytest.approx(40), pytest.approx(100))
    assert manifold.ada.balance == pytest.approx(960)


async def test_an_order_that_nobody_can_pay_for_is_cancelled(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    placed = await manifold.placed(market, 40, limitProb=0.4)
    manifold.ada.balance = 8
    manifold.world.move_price(market, 0.35)
    [row] = await manifold.read("/v0/bets", userId=manifold.ada.id)
    assert (row["id"], row["isCancelled"], row["amount"]) == (placed["betId"], True, pytest.approx(8))
    assert manifold.ada.balance == pytest.approx(0)


async def test_one_meets_ones_own_orders(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    resting = await manifold.placed(market, 20, limitProb=0.4)
    crossing = await manifold.placed(market, 60, outcome="NO", limitProb=0.39)
    assert resting["betId"] in [fill["matchedBetId"] for fill in crossing["fills"]]


async def test_an_opposite_bet_redeems_pairs_at_one_mana(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    bought = await manifold.placed(market, 50)
    back = await manifold.placed(market, 50, outcome="NO")
    pairs = min(bought["shares"], back["shares"])
    assert manifold.ada.balance == pytest.approx(1000 - 100 + pairs)
    [held] = await manifold.read(f"/v0/market/{market.id}/positions", userId=manifold.ada.id)
    assert list(held["totalShares"].values()) == [pytest.approx(abs(bought["shares"] - back["shares"]))]
    plain = await manifold.read("/v0/bets", userId=manifold.ada.id, filterRedemptions="true")
    whole = await manifold.read("/v0/bets", userId=manifold.ada.id)
    assert (len(plain), len(whole)) == (2, 4)


@pytest.mark.parametrize(
    ("more", "amount", "words"),
    [({}, 2_000, "balance"), ({"limitProb": 0.51}, 1_001, "balance")],
)
async def test_a_bet_beyond_the_balance_is_refused(
    manifold: RawManifoldClient, more: dict[str, Any], amount: int, words: str
) -> None:
    reply = await manifold.bet(manifold.world.add_market(), amount, **more)
    assert (reply.status_code, words in reply.json()["message"]) == (403, True)


async def test_what_is_closed_resolved_or_no_market_cannot_be_bet_on(manifold: RawManifoldClient) -> None:
    closed, resolved = manifold.world.add_market(), manifold.world.add_market()
    manifold.world.close(closed)
    manifold.world.resolve(resolved, "NO")
    choice = manifold.world.add_market(**CHOICES)
    manifold.world.resolve(choice, "YES", answer=choice.answers[0])
    assert (await manifold.bet(closed)).status_code == 403
    assert (await manifold.bet(resolved)).status_code == 403
    assert (await manifold.bet(choice, answerId=choice.answers[0].id)).status_code == 403
    assert (await manifold.bet(choice, answerId=choice.answers[1].id)).status_code == 200
    assert (await manifold.bet(choice)).status_code == 400
    assert (await manifold.bet(choice, answerId="nothing")).status_code == 404
    kinds = {"STONK": 403, "POLL": 400, "BOUNTIED_QUESTION": 400, "PERP": 400}
    found = {kind: (await manifold.bet(manifold.world.add_market(type=kind))).status_code for kind in kinds}
    assert found == kinds


async def test_a_bet_needs_a_key(manifold: RawManifoldClient) -> None:
    body = {"contractId": manifold.world.add_market().id, "amount": 1}
    assert (await manifold.client.post("/v0/bet", json=body)).status_code == 401
    manifold.ada.banned = True
    assert (
        await manifold.client.post("/v0/bet", json=body, headers={"Authorization": f"Key {KEY}"})
    ).status_code == 401


async def test_a_dry_run_moves_nothing(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    dry = await manifold.placed(market, 50, dryRun=True)
    assert dry["betId"] == "dry-run"
    assert (manifold.ada.balance, market.pool.prob, manifold.venue.ledger.effects()) == (1000, 0.5, [])
    wet = await manifold.placed(market, 50)
    assert {key: wet[key] for key in ("shares", "probAfter")} == {key: dry[key] for key in ("shares", "probAfter")}


# Expiry


async def test_an_expiry_is_kept_to_the_millisecond_and_ends_the_order(manifold: RawManifoldClient) -> None:
    market, now = manifold.world.add_market(), manifold.venue.now_ms()
    placed = await manifold.placed(market, 100, limitProb=0.4, expiresAt=now + 30_123)
    assert placed["expiresAt"] == now + 30_123
    await manifold.clock.advance(30.2)
    manifold.world.move_price(market, 0.3)
    # It is listed until the sweep of the next minute, and filled no more.
    [order] = await manifold.read("/v0/bets", userId=manifold.ada.id, kinds="open-limit")
    assert (order["expiresAt"], order["amount"], order["isCancelled"]) == (now + 30_123, 0, False)
    await manifold.clock.advance(60.0)
    assert await manifold.read("/v0/bets", userId=manifold.ada.id, kinds="open-limit") == []
    [row] = await manifold.read("/v0/bets", userId=manifold.ada.id)
    assert row["isCancelled"]


@pytest.mark.parametrize("kind", ["BINARY", "MULTIPLE_CHOICE"])
async def test_a_bet_whose_expiry_has_passed_is_refused_also_when_it_comes_late(
    manifold: RawManifoldClient, kind: str
) -> None:
    market = manifold.world.add_market(type=kind, answers=[("Red", 0.5), ("Green", 0.5)] if kind != "BINARY" else [])
    more: dict[str, Any] = {"answerId": market.answers[0].id} if market.answers else {}
    now = manifold.venue.now_ms()
    assert (await manifold.bet(market, limitProb=0.6, expiresAt=now - 1, **more)).status_code in {400, 403}
    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.LATE, wait_s=31.0))
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        await manifold.bet(market, limitProb=0.6, expiresAt=now + 30_000, **more)
    await manifold.clock.advance(40.0)
    assert manifold.venue.ledger.effects() == []


async def test_zero_milliseconds_mean_no_expiry_and_fewer_mean_at_once(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    never = await manifold.placed(market, 10, limitProb=0.4, expiresMillisAfter=0)
    at_once = await manifold.placed(market, 10, limitProb=0.3, expiresMillisAfter=1)
    past = await manifold.placed(market, 10, limitProb=0.2, expiresMillisAfter=-5)
    now = manifold.venue.now_ms()
    assert "expiresAt" not in never
    assert (at_once["expiresAt"], past["expiresAt"]) == (now + 1, now - 5)
    await manifold.clock.advance(61.0)
    assert [row["id"] for row in await manifold.read("/v0/bets", kinds="open-limit")] == [never["betId"]]


# Cancelling and selling


async def test_an_order_is_cancelled_once_and_by_its_owner(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    order = await manifold.placed(market, 10, limitProb=0.4)
    other = manifold.world.trade(
        manifold.world.add_user("bob"), market, WantedTrade(outcome="YES", amount=10, limit=0.3)
    )
    reply = await manifold.client.post(f"/v0/bet/cancel/{order['betId']}", headers=manifold.headers)
    assert (reply.status_code, reply.json()["isCancelled"]) == (200, True)
    assert (await manifold.post(f"/v0/bet/cancel/{order['betId']}", {})).status_code == 403
    assert (await manifold.post(f"/v0/bet/cancel/{other.id}", {})).status_code == 403
    assert (await manifold.post("/v0/bet/cancel/nothing", {})).status_code == 404
    manifold.world.move_price(market, 0.2)
    assert manifold.ada.balance == 1000


async def test_selling_returns_what_buying_cost(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    bought = await manifold.placed(market, 50)
    sold = (await manifold.post(f"/v0/market/{market.id}/sell", {"outcome": "YES"})).json()
    assert (sold["outcome"], sold["shares"]) == ("YES", pytest.approx(-bought["shares"]))
    assert sold["amount"] == pytest.approx(-50)
    assert manifold.ada.balance == pytest.approx(1000)
    assert len(await manifold.read("/v0/bets", userId=manifold.ada.id)) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"outcome": "YES", "shares": 1e6}, 400),
        ({"outcome": "YES", "shares": 0}, 400),
        ({"outcome": "NO"}, 403),
        ({"outcome": "YES", "shares": 5}, 200),
    ],
)
async def test_a_sale_is_refused_where_there_is_nothing_to_sell(
    manifold: RawManifoldClient, body: dict[str, Any], status: int
) -> None:
    market = manifold.world.add_market()
    await manifold.placed(market, 50)
    assert (await manifold.post(f"/v0/market/{market.id}/sell", body)).status_code == status


# Answers of which one wins


async def test_a_bet_on_one_answer_moves_all_and_books_one_position(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(sums_to_one=True, **CHOICES)
    red = market.answers[0].id
    placed = await manifold.placed(market, 10, answerId=red)
    # Vector v067 has these prices in pools of another depth: only the sum is the same here.
    assert sum(answer.pool.prob for answer in market.answers) == pytest.approx(1.0)
    assert placed["amount"] == pytest.approx(10)
    assert placed["betGroupId"]
    held = await manifold.read(f"/v0/market/{market.id}/positions", userId=manifold.ada.id)
    assert {row["answerId"]: row["totalShares"] for row in held} == {
        red: {"YES": pytest.approx(placed["shares"])},
        None: {"YES": pytest.approx(placed["shares"])},
    }
    assert len(await manifold.read("/v0/bets", userId=manifold.ada.id, filterRedemptions="true")) == 1


async def test_several_answers_are_bought_in_equal_shares(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market(sums_to_one=True, **CHOICES)
    ids = [answer.id for answer in market.answers[:2]]
    reply = await manifold.post("/v0/multi-bet", {"contractId": market.id, "answerIds": ids, "amount": 30})
    legs = reply.json()
    assert [leg["answerId"] for leg in legs] == ids
    assert legs[0]["shares"] == pytest.approx(legs[1]["shares"])
    assert sum(leg["amount"] for leg in legs) == pytest.approx(30)
    assert sum(answer.pool.prob for answer in market.answers) == pytest.approx(1.0)
    assert manifold.ada.balance == pytest.approx(970)


# Payouts


@pytest.mark.parametrize(("resolution", "prob", "worth"), [("YES", None, 1.0), ("NO", None, 0.0), ("MKT", 0.4, 0.4)])
async def test_shares_pay_what_came_true(
    manifold: RawManifoldClient, resolution: str, prob: float | None, worth: float
) -> None:
    market = manifold.world.add_market()
    placed = await manifold.placed(market, 50)
    manifold.world.resolve(market, resolution, prob=prob)
    assert manifold.ada.balance == pytest.approx(950 + worth * placed["shares"])
    manifold.world.unresolve(market)
    assert manifold.ada.balance == pytest.approx(950)


async def test_a_cancelled_market_returns_what_was_spent(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    await manifold.placed(market, 50)
    await manifold.placed(market, 20, outcome="NO")
    manifold.world.resolve(market, "CANCEL")
    assert manifold.ada.balance == pytest.approx(1000)


# The queue, and turns of fate


async def test_bets_of_one_user_wait_for_each_other_and_not_longer_than_ten_seconds(
    manifold: RawManifoldClient,
) -> None:
    manifold.venue.bet_duration_s = 11.0
    first, second = manifold.world.add_market(), manifold.world.add_market()
    both = asyncio.gather(manifold.bet(first), manifold.bet(second))
    await manifold.venue.wait_until(lambda: len(manifold.venue.requests) == 2)
    await manifold.clock.advance(11.0)
    done = await both
    assert sorted(reply.status_code for reply in done) == [200, 503]
    assert len(manifold.venue.ledger.effects("bet")) == 1
    assert manifold.venue.rate_limit_checker.most_at_once[manifold.ada.id] == 2


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (RequestFault.CLOSING, 403),
        (RequestFault.RESOLVED, 403),
        (RequestFault.EDITED, 200),
        (RequestFault.PARTIAL_FILL, 200),
    ],
)
async def test_a_market_changes_while_a_bet_is_under_way(
    manifold: RawManifoldClient, fault: RequestFault, status: int
) -> None:
    market = manifold.world.add_market()
    calm = (await manifold.placed(market, 100, limitProb=0.6, dryRun=True))["amount"]
    manifold.venue.faults.schedule(fault, method="POST")
    reply = await manifold.bet(market, 100, limitProb=0.6)
    assert reply.status_code == status
    if fault is RequestFault.PARTIAL_FILL:
        assert 0 < reply.json()["amount"] < calm


async def test_a_503_of_the_venue_is_told_apart_from_one_of_the_edge(manifold: RawManifoldClient) -> None:
    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ERROR_BEFORE, status=503))
    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ERROR_BEFORE, status=502))
    market = manifold.world.add_market()
    assert "try betting again" in (await manifold.bet(market)).json()["message"]
    assert (await manifold.bet(market)).text.startswith("<html>")


# Comments


async def test_a_comment_costs_one_mana(manifold: RawManifoldClient) -> None:
    market = manifold.world.add_market()
    reply = await manifold.post("/v0/comment", {"contractId": market.id, "markdown": "Because."})
    assert reply.status_code == 200
    assert manifold.ada.balance == 999
    [row] = await manifold.read("/v0/comments", contractId=market.id)
    assert (row["id"], row["userId"]) == (reply.json()["id"], manifold.ada.id)


async def test_a_comment_is_refused_where_the_rules_say_so(manifold: RawManifoldClient) -> None:
    market, cash = manifold.world.add_market(), manifold.world.add_market(**CASH)
    assert (await manifold.post("/v0/comment", {"contractId": market.id})).status_code == 400
    long = {"contractId": market.id, "markdown": "x" * 20_001}
    assert (await manifold.post("/v0/comment", long)).status_code == 400
    assert (await manifold.post("/v0/comment", {"contractId": cash.id, "markdown": "x"})).status_code == 403
    manifold.ada.created = manifold.venue.now_ms()
    assert (await manifold.post("/v0/comment", {"contractId": market.id, "markdown": "x"})).status_code == 403
    assert manifold.ada.balance == 1000


async def test_an_account_marks_itself_as_a_bot_and_cannot_take_that_back(manifold: RawManifoldClient) -> None:
    manifold.ada.is_bot = False
    assert (await manifold.post("/set-bot-status", {"userId": manifold.ada.id, "isBot": True})).status_code == 200
    assert (await manifold.read("/v0/me"))["isBot"]
    assert (await manifold.post("/set-bot-status", {"userId": manifold.ada.id, "isBot": False})).status_code == 403
