"""What each answer to an order proves, and what it does not; and who must act."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.api import AuthenticationError, HttpResponse, IntentState, Question, ResponsibleParty, ServiceUnavailableError
from bot.simulator.faults import FaultDetails, RequestFault
from plugins.polymarket.order_terms import PolymarketOrderType
from plugins.polymarket.write_requests import write_verdict
from tests.order_intents import make_intent, seal_and_submit, seal_batch
from tests.plugins.polymarket.writer_fixture import BOOK, FEES, WriterFixture, open_writer_fixture, order_of

GTD = PolymarketOrderType.GTD


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


async def rain(polymarket: WriterFixture, **fields: Any) -> Question:
    return await polymarket.question(polymarket.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


async def test_pm_s7_success_without_success_is_a_refusal(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    polymarket.venue.orders.next_refusals.append("the market is not yet ready to process new orders")
    _, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "not yet ready" in receipt.detail


async def test_an_order_that_finds_nobody_is_dropped(polymarket: WriterFixture) -> None:
    question = await rain(polymarket, asks=(("0.60", "5"),))
    _, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "no orders found to match" in receipt.detail


@pytest.mark.parametrize(("mode", "status"), [("restarting", "425"), ("cancel_only", "503"), ("post_only", "503")])
async def test_while_the_exchange_takes_no_orders_nothing_was_done_and_cancelling_goes_on(
    polymarket: WriterFixture, mode: str, status: str
) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    _, resting = await seal_and_submit(writer, question, order_of(question, price="0.40", type=GTD))
    polymarket.venue.mode = mode
    batch, receipt = await seal_and_submit(writer, question, order_of(question), "i2")
    assert receipt.state is IntentState.ABSENT
    assert receipt.detail.startswith(status)
    if mode == "restarting":
        with pytest.raises(ServiceUnavailableError, match="425"):
            await writer.cancel(None)
    else:
        assert await writer.cancel(None) == (resting.reference,)
    # It resumes by the status of its answers, not by a clock.
    polymarket.venue.mode = "open"
    assert [one.state for one in await writer.submit(batch)] == [IntentState.ACKED]


async def test_a_403_of_the_region_stops_orders_and_says_what_to_do(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(question)))
    polymarket.venue.is_blocked = True
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.REFUSED
    assert 'set mode = "paper"' in receipt.detail
    with pytest.raises(AuthenticationError, match="the account was refused"):
        await writer.seal_requests(batch)
    # What was open can be closed all the same.
    assert await writer.cancel(None) == ()


async def test_secrets_that_the_venue_replaced_cost_one_order_and_are_derived_again(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    _, first = await seal_and_submit(writer, question, order_of(question, price="0.40", type=GTD))
    assert first.state is IntentState.ACKED
    polymarket.user.passphrase = "another"  # noqa: S105 - of a double
    _, refused = await seal_and_submit(writer, question, order_of(question, price="0.41", type=GTD), "i2")
    assert (refused.state, "401" in refused.detail) == (IntentState.REFUSED, True)
    _, accepted = await seal_and_submit(writer, question, order_of(question, price="0.42", type=GTD), "i3")
    assert accepted.state is IntentState.ACKED


async def test_a_wallet_of_another_type_stops_orders(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    polymarket.user.kind = 2
    writer = polymarket.writer()
    batch, receipt = await seal_and_submit(writer, question, order_of(question))
    assert receipt.state is IntentState.REFUSED
    assert "wallet_type" in receipt.detail
    with pytest.raises(AuthenticationError, match="wallet_type"):
        await writer.seal_requests(batch)


def said(status: int, body: object) -> HttpResponse:
    return HttpResponse(status=status, body=body.encode() if isinstance(body, str) else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("reply", "state", "who"),
    [
        (said(200, {"success": True, "orderID": "0x1", "status": "live"}), IntentState.ACKED, ResponsibleParty.NOBODY),
        (said(200, {"success": True, "orderID": "", "errorMsg": "no"}), IntentState.REFUSED, ResponsibleParty.NOBODY),
        (said(200, {"success": False, "orderID": "0x1"}), IntentState.REFUSED, ResponsibleParty.NOBODY),
        (said(200, "<html>"), IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (said(200, {}), IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (said(400, {"error": "Invalid order payload"}), IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (said(400, {"error": "order 0x1 is invalid. Duplicated."}), IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (said(400, {"error": "address 0x1 is in closed only mode"}), IntentState.REFUSED, ResponsibleParty.OPERATOR),
        (said(400, {"error": "invalid signature"}), IntentState.REFUSED, ResponsibleParty.OPERATOR),
        (said(400, {"error": "not enough balance / allowance"}), IntentState.REFUSED, ResponsibleParty.NOBODY),
        (said(401, {"error": "Unauthorized/Invalid api key"}), IntentState.REFUSED, ResponsibleParty.OPERATOR),
        (said(403, {"error": "Trading restricted in your region"}), IntentState.REFUSED, ResponsibleParty.OPERATOR),
        (said(403, "<html>Attention Required!</html>"), IntentState.ABSENT, ResponsibleParty.NOBODY),
        (said(400, {"error": "breaks minimum tick size rule"}), IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (said(404, {"error": "not found"}), IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (said(405, {"error": "not allowed"}), IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (said(422, {"error": "unknown field"}), IntentState.REFUSED, ResponsibleParty.DEVELOPER),
        (said(425, {"error": "service not ready"}), IntentState.ABSENT, ResponsibleParty.NOBODY),
        (said(429, {"error": "Too Many Requests"}), IntentState.ABSENT, ResponsibleParty.NOBODY),
        (said(503, {"error": "Trading is currently cancel-only."}), IntentState.ABSENT, ResponsibleParty.NOBODY),
        (said(503, "<html>"), IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (said(408, {}), IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (said(500, {"error": "could not insert order"}), IntentState.UNKNOWN, ResponsibleParty.NOBODY),
        (said(502, "<html>"), IntentState.UNKNOWN, ResponsibleParty.NOBODY),
    ],
)
def test_each_answer_proves_no_more_than_it_does(
    reply: HttpResponse, state: IntentState, who: ResponsibleParty
) -> None:
    verdict = write_verdict(reply)
    assert (verdict.state, verdict.responsible) == (state, who)


async def test_pm_l2_too_many_requests_are_no_doubt(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.TOO_MANY, retry_after="7"), method="POST", path="/order"
    )
    batch, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert receipt.state is IntentState.ABSENT
    assert [one.state for one in await polymarket.writer().submit(batch)] == [IntentState.ACKED]
