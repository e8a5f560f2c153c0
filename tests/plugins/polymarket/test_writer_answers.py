"""What each answer to an order proves, and what it does not; and who must act."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.api import IntentState, Question, Reply, Unauthorized, Unavailable, Who
from bot.testing.venues.faults import Fault, Trouble
from plugins.polymarket.terms import OrderType
from plugins.polymarket.writer_verdict import verdict_of
from tests.intents import intent_of, placed, sealed
from tests.plugins.polymarket.writer_stand import BOOK, FEES, Stand, order_of, standing

GTD = OrderType.GTD


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as opened:
        yield opened


async def rain(stand: Stand, **fields: Any) -> Question:
    return await stand.question(stand.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


async def test_pm_s7_success_without_success_is_a_refusal(stand: Stand) -> None:
    question = await rain(stand)
    stand.venue.orders.refuses.append("the market is not yet ready to process new orders")
    _, receipt = await placed(stand.writer(), question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "not yet ready" in receipt.detail


async def test_an_order_that_finds_nobody_is_dropped(stand: Stand) -> None:
    question = await rain(stand, asks=(("0.60", "5"),))
    _, receipt = await placed(stand.writer(), question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "no orders found to match" in receipt.detail


@pytest.mark.parametrize(("mode", "status"), [("restarting", "425"), ("cancel_only", "503"), ("post_only", "503")])
async def test_while_the_exchange_takes_no_orders_nothing_was_done_and_cancelling_goes_on(
    stand: Stand, mode: str, status: str
) -> None:
    question = await rain(stand)
    writer = stand.writer()
    _, resting = await placed(writer, question, order_of(question, price="0.40", type=GTD))
    stand.venue.mode = mode
    batch, receipt = await placed(writer, question, order_of(question), "i2")
    assert receipt.state is IntentState.ABSENT
    assert receipt.detail.startswith(status)
    if mode == "restarting":
        with pytest.raises(Unavailable, match="425"):
            await writer.cancel(None)
    else:
        assert await writer.cancel(None) == (resting.reference,)
    # It resumes by the status of its answers, not by a clock.
    stand.venue.mode = "open"
    assert [one.state for one in await writer.submit(batch)] == [IntentState.ACKED]


async def test_a_403_of_the_region_stops_orders_and_says_what_to_do(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(question)))
    stand.venue.is_blocked = True
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.REFUSED
    assert 'set mode = "paper"' in receipt.detail
    with pytest.raises(Unauthorized, match="the account was refused"):
        await writer.seal(batch)
    # What was open can be closed all the same.
    assert await writer.cancel(None) == ()


async def test_a_wallet_of_another_type_stops_orders(stand: Stand) -> None:
    question = await rain(stand)
    stand.user.kind = 2
    writer = stand.writer()
    batch, receipt = await placed(writer, question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "wallet_type" in receipt.detail
    with pytest.raises(Unauthorized, match="wallet_type"):
        await writer.seal(batch)


def said(status: int, body: object) -> Reply:
    return Reply(status=status, body=body.encode() if isinstance(body, str) else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("reply", "state", "who"),
    [
        (said(200, {"success": True, "orderID": "0x1", "status": "live"}), IntentState.ACKED, Who.NOBODY),
        (said(200, {"success": True, "orderID": "", "errorMsg": "no"}), IntentState.REFUSED, Who.NOBODY),
        (said(200, {"success": False, "orderID": "0x1"}), IntentState.REFUSED, Who.NOBODY),
        (said(200, "<html>"), IntentState.UNKNOWN, Who.NOBODY),
        (said(200, {}), IntentState.UNKNOWN, Who.NOBODY),
        (said(400, {"error": "Invalid order payload"}), IntentState.REFUSED, Who.DEVELOPER),
        (said(400, {"error": "order 0x1 is invalid. Duplicated."}), IntentState.UNKNOWN, Who.NOBODY),
        (said(400, {"error": "address 0x1 is in closed only mode"}), IntentState.REFUSED, Who.OPERATOR),
        (said(400, {"error": "invalid signature"}), IntentState.REFUSED, Who.OPERATOR),
        (said(400, {"error": "not enough balance / allowance"}), IntentState.REFUSED, Who.NOBODY),
        (said(401, {"error": "Unauthorized/Invalid api key"}), IntentState.REFUSED, Who.OPERATOR),
        (said(403, {"error": "Trading restricted in your region"}), IntentState.REFUSED, Who.OPERATOR),
        (said(403, "<html>Attention Required!</html>"), IntentState.ABSENT, Who.NOBODY),
        (said(422, {"error": "unknown field"}), IntentState.REFUSED, Who.DEVELOPER),
        (said(425, {"error": "service not ready"}), IntentState.ABSENT, Who.NOBODY),
        (said(429, {"error": "Too Many Requests"}), IntentState.ABSENT, Who.NOBODY),
        (said(503, {"error": "Trading is currently cancel-only."}), IntentState.ABSENT, Who.NOBODY),
        (said(503, "<html>"), IntentState.UNKNOWN, Who.NOBODY),
        (said(408, {}), IntentState.UNKNOWN, Who.NOBODY),
        (said(500, {"error": "could not insert order"}), IntentState.UNKNOWN, Who.NOBODY),
        (said(502, "<html>"), IntentState.UNKNOWN, Who.NOBODY),
    ],
)
def test_each_answer_proves_no_more_than_it_does(reply: Reply, state: IntentState, who: Who) -> None:
    verdict = verdict_of(reply)
    assert (verdict.state, verdict.who) == (state, who)


async def test_pm_l2_too_many_requests_are_no_doubt(stand: Stand) -> None:
    question = await rain(stand)
    stand.venue.faults.next(Trouble(fault=Fault.TOO_MANY, retry_after="7"), method="POST", path="/order")
    batch, receipt = await placed(stand.writer(), question, order_of(question))
    assert receipt.state is IntentState.ABSENT
    assert [one.state for one in await stand.writer().submit(batch)] == [IntentState.ACKED]
