"""Orders whose answer is lost: what is known, what is not, and that nothing is posted twice on a guess."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    AuthenticationError,
    HttpRequest,
    HttpResponse,
    IntentState,
    Question,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.testing.http import FakeWriteClient
from plugins.polymarket.accepted_orders import ACCEPTED_ORDERS_FILE, MAX_ACCEPTED_ORDERS, AcceptedOrders
from plugins.polymarket.order_terms import PolymarketOrderType
from tests.order_intents import make_intent, seal_and_submit, seal_batch
from tests.plugins.polymarket.writer_fixture import BOOK, FEES, WriterFixture, open_writer_fixture, order_of

GTD = PolymarketOrderType.GTD
# The request is lost, or its answer, in each of the ways that a network has.
LOST = [
    RequestFault.DROPPED_BEFORE,
    FaultDetails(fault=RequestFault.ERROR_BEFORE, status=502),
    RequestFault.PAGE_BEFORE,
]
TAKEN = [
    RequestFault.DROPPED_AFTER,
    FaultDetails(fault=RequestFault.ERROR_AFTER, status=502),
    RequestFault.PAGE_AFTER,
    RequestFault.TRUNCATED,
]


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        opened.world.exchange.confirmed_s = opened.world.exchange.mined_s = 0.0
        yield opened


async def rain(polymarket: WriterFixture, **fields: Any) -> Question:
    return await polymarket.question(polymarket.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


def lose(polymarket: WriterFixture, fault: RequestFault | FaultDetails) -> None:
    polymarket.venue.faults.schedule(fault, method="POST", path="/order")


@pytest.mark.parametrize("fault", LOST)
async def test_pm_c1_after_a_lost_request_its_market_waits_and_nothing_is_posted_again(
    polymarket: WriterFixture, fault: RequestFault | FaultDetails
) -> None:
    question, other = await rain(polymarket), await rain(polymarket)
    writer = polymarket.writer()
    lose(polymarket, fault)
    batch, receipt = await seal_and_submit(writer, question, order_of(question))
    assert receipt.state is IntentState.UNKNOWN
    assert len(polymarket.asked("/order")) == 1
    with pytest.raises(ServiceUnavailableError, match="an earlier order on its market is unknown"):
        await seal_batch(writer, question, make_intent(question, order_of(question), "i2"))
    # Other markets do not.
    assert (await seal_and_submit(writer, other, order_of(other), "i3"))[1].state is IntentState.ACKED
    # Before the fence its absence is no proof, after it it is.
    (early,) = await writer.read_submissions(batch)
    assert early.state is IntentState.ABSENT
    with pytest.raises(ServiceUnavailableError):
        await seal_batch(writer, question, make_intent(question, order_of(question), "i2"))
    fence = batch.sealed[0].fence
    assert fence is not None
    polymarket.clock.advance_without_waking((fence - polymarket.clock.now()).total_seconds())
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ABSENT]
    assert (await seal_and_submit(writer, question, order_of(question), "i2"))[1].state is IntentState.ACKED


@pytest.mark.parametrize("fault", TAKEN)
async def test_pm_c2_a_lost_answer_to_an_order_that_was_matched_is_settled_by_its_trades(
    polymarket: WriterFixture, fault: RequestFault | FaultDetails
) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    lose(polymarket, fault)
    batch, receipt = await seal_and_submit(writer, question, order_of(question))
    assert receipt.state is IntentState.UNKNOWN
    # Its cancellation was asked for by its hash, and found nothing to cancel.
    (asked,) = polymarket.asked("/order", "DELETE")
    assert batch.sealed[0].tag.encode() in asked.body
    for reader in (writer, polymarket.writer()):
        (found,) = await reader.read_submissions(batch)
        assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)
    assert len(polymarket.effects()) == 1
    assert (await seal_and_submit(writer, question, order_of(question, size="10"), "i2"))[1].state is IntentState.ACKED


async def test_a_trade_that_does_not_settle_until_the_fence_leaves_its_order_unknown(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    polymarket.world.exchange.confirmed_s = 100_000.0
    batch, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())
    assert receipt.detail == "matched: no shares yet, 1 trades settle"
    fence = batch.sealed[0].fence
    assert fence is not None
    polymarket.clock.advance_without_waking((fence - polymarket.clock.now()).total_seconds() - 0.001)
    assert [one.state for one in await polymarket.writer().read_submissions(batch)] == [IntentState.ACKED]
    polymarket.clock.advance_without_waking(0.001)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, found.detail) == (IntentState.UNKNOWN, "1 trades are not settled yet")
    polymarket.clock.advance_without_waking(100_000.0)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, found.detail) == (IntentState.ACKED, "20 shares")


@pytest.mark.parametrize("fault", TAKEN)
async def test_pm_c2_what_could_be_cancelled_was_there_and_is_known_at_once(
    polymarket: WriterFixture, fault: RequestFault | FaultDetails
) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    lose(polymarket, fault)
    batch, receipt = await seal_and_submit(writer, question, order_of(question, price="0.45", type=GTD))
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())
    assert receipt.detail.startswith("cancelled, because there was no answer")
    assert (await writer.account()).orders == ()
    assert (await seal_and_submit(writer, question, order_of(question), "i2"))[1].state is IntentState.ACKED
    assert len(polymarket.effects()) == 2
    # The venue lists it no more; that it had been there is on disk.
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, found.fills, found.detail) == (
        IntentState.ACKED,
        (),
        "it no longer rests, and was not traded",
    )


async def test_pm_c3_after_a_restart_a_doubt_is_settled_by_reading_alone(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    lose(polymarket, RequestFault.DROPPED_AFTER)
    polymarket.venue.faults.schedule(RequestFault.DROPPED_BEFORE, method="DELETE")
    batch, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question, price="0.45", type=GTD))
    assert receipt.state is IntentState.UNKNOWN
    writes = sum(one.method != "GET" for one in polymarket.venue.requests)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, found.reference) == (IntentState.ACKED, batch.sealed[0].tag)
    assert sum(one.method != "GET" for one in polymarket.venue.requests) == writes


async def test_what_never_left_this_machine_is_absent(polymarket: WriterFixture) -> None:
    def cut(_: HttpRequest) -> HttpResponse:
        message = "no connection; nothing was sent"
        raise RequestRejectedError(message)

    question = await rain(polymarket)
    batch = await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question)))
    wire, polymarket.wire = polymarket.wire, FakeWriteClient(cut)
    (receipt,) = await polymarket.writer().submit(batch)
    assert (receipt.state, receipt.detail) == (IntentState.ABSENT, "no connection; nothing was sent")
    assert [request.method for request in polymarket.wire.sent] == ["POST"]
    polymarket.wire = wire
    (receipt,) = await polymarket.writer().submit(batch)
    assert receipt.state is IntentState.ACKED


async def test_without_its_secrets_nothing_is_written(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(question)))
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500), path="/auth/derive-api-key"
    )
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert "nothing was written" in receipt.detail
    assert not polymarket.asked("/order")


async def test_after_an_order_in_doubt_the_rest_of_its_batch_is_not_begun(polymarket: WriterFixture) -> None:
    question, other = await rain(polymarket), await rain(polymarket)
    writer = polymarket.writer()
    first, second = make_intent(question, order_of(question)), make_intent(other, order_of(other), "i2")
    one, two = await seal_batch(writer, question, first), await seal_batch(writer, other, second)
    whole = type(one)(key="b", intents=(first, second), questions=(question, other), sealed=(*one.sealed, *two.sealed))
    lose(polymarket, RequestFault.DROPPED_BEFORE)
    receipts = await writer.submit(whole)
    assert [receipt.state for receipt in receipts] == [IntentState.UNKNOWN, IntentState.ABSENT]
    assert len(polymarket.asked("/order")) == 1


async def test_an_order_that_was_made_too_long_ago_is_not_sent(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    for name, order in (("i1", order_of(question)), ("i2", order_of(question, price="0.40", type=GTD))):
        batch = await seal_batch(polymarket.writer(), question, make_intent(question, order, name))
        polymarket.clock.advance_without_waking(400)
        (receipt,) = await polymarket.writer().submit(batch)
        assert (receipt.state, receipt.detail) == (IntentState.ABSENT, "sealed too long ago")
    assert not polymarket.asked("/order")


async def test_the_same_request_posted_again_is_one_order(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    batch, _ = await seal_and_submit(writer, question, order_of(question))
    (again,) = await writer.submit(batch)
    assert (again.state, "has it already" in again.detail) == (IntentState.UNKNOWN, True)
    (found,) = await writer.read_submissions(batch)
    assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)
    assert len(polymarket.effects()) == 1


async def test_an_answer_that_names_another_order_is_a_doubt(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)

    def other(reported: Any) -> Any:
        return {**reported, "orderID": "0x" + "99" * 32}

    lose(polymarket, FaultDetails(fault=RequestFault.ALTERED, alter=other))
    _, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert receipt.state is IntentState.UNKNOWN
    assert "which is not what was sent" in receipt.detail


@pytest.mark.parametrize("path", ["/data/orders", "/data/trades"])
async def test_where_reading_fails_nothing_is_known(polymarket: WriterFixture, path: str) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    batch, _ = await seal_and_submit(writer, question, order_of(question))
    polymarket.venue.faults.schedule(FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500), path=path)
    (found,) = await writer.read_submissions(batch)
    assert found.state is IntentState.UNKNOWN
    assert found.detail.startswith("cannot be read")


async def test_fills_that_cannot_be_read_at_once_are_read_later(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    polymarket.venue.faults.schedule(FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500), path="/data/trades")
    batch, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())
    assert len((await polymarket.writer().read_submissions(batch))[0].fills) == 1


async def test_secrets_that_the_venue_does_not_take_are_told(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    batch, _ = await seal_and_submit(writer, question, order_of(question))
    polymarket.user.secret = "C" * 43 + "="
    with pytest.raises(AuthenticationError):
        await writer.read_submissions(batch)
    # They are asked for anew.
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ACKED]


async def test_an_order_that_ended_unfilled_is_told_from_one_that_never_came(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    batch, _ = await seal_and_submit(polymarket.writer(), question, order_of(question, price="0.45", type=GTD))
    polymarket.clock.advance_without_waking(700)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, found.fills) == (IntentState.ACKED, ())
    (polymarket.folder / ACCEPTED_ORDERS_FILE).write_text("{")
    assert [one.state for one in await polymarket.writer().read_submissions(batch)] == [IntentState.ABSENT]
    (polymarket.folder / ACCEPTED_ORDERS_FILE).unlink()
    (polymarket.folder / ACCEPTED_ORDERS_FILE).mkdir()
    # What cannot be noted is taken all the same.
    _, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question), "i2")
    assert receipt.state is IntentState.ACKED


async def test_only_the_newest_orders_that_were_taken_are_kept(tmp_path: Path) -> None:
    (tmp_path / ACCEPTED_ORDERS_FILE).write_text(json.dumps([f"0x{number}" for number in range(MAX_ACCEPTED_ORDERS)]))
    walked = AcceptedOrders(tmp_path)
    await walked.add("0xAB")
    again = AcceptedOrders(tmp_path)
    assert await again.find_any({"0xab"}) == "0xab"
    assert await again.find_any({"0x0", "0xcd"}) is None
    assert await again.find_any({"0x1"}) == "0x1"


async def test_what_was_never_sealed_is_absent(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    batch = await seal_batch(polymarket.writer(), question, make_intent(question, order_of(question)))
    bare = type(batch)(key="b", intents=batch.intents, questions=batch.questions)
    assert [one.state for one in await polymarket.writer().read_submissions(bare)] == [IntentState.ABSENT]
    assert [one.state for one in await polymarket.writer().submit(bare)] == [IntentState.REFUSED]


async def test_an_order_made_while_the_clock_was_an_hour_ahead_is_found_once_it_is_right(
    polymarket: WriterFixture,
) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    polymarket.clock.set_wall_clock(3_600.0)
    batch = await seal_batch(writer, question, make_intent(question, order_of(question)))
    polymarket.clock.set_wall_clock(-3_600.0)
    lose(polymarket, RequestFault.DROPPED_AFTER)
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.UNKNOWN
    assert len(polymarket.effects()) == 1
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)
