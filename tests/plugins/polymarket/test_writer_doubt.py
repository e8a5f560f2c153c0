"""Orders whose answer is lost: what is known, what is not, and that nothing is posted twice on a guess."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.api import IntentState, Question, Rejected, Reply, Request, Unauthorized, Unavailable
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.wires import MemoryWire
from plugins.polymarket.terms import OrderType
from plugins.polymarket.writer_taken import FILE, MOST, Taken
from tests.intents import intent_of, placed, sealed
from tests.plugins.polymarket.writer_stand import BOOK, FEES, Stand, order_of, standing

GTD = OrderType.GTD
# The request is lost, or its answer, in each of the ways that a network has.
LOST = [Fault.DROPPED_BEFORE, Trouble(fault=Fault.ERROR_BEFORE, status=502), Fault.PAGE_BEFORE]
TAKEN = [Fault.DROPPED_AFTER, Trouble(fault=Fault.ERROR_AFTER, status=502), Fault.PAGE_AFTER, Fault.TRUNCATED]


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as opened:
        opened.world.exchange.confirmed_s = opened.world.exchange.mined_s = 0.0
        yield opened


async def rain(stand: Stand, **fields: Any) -> Question:
    return await stand.question(stand.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


def lose(stand: Stand, fault: Fault | Trouble) -> None:
    stand.venue.faults.next(fault, method="POST", path="/order")


@pytest.mark.parametrize("fault", LOST)
async def test_pm_c1_after_a_lost_request_its_market_waits_and_nothing_is_posted_again(
    stand: Stand, fault: Fault | Trouble
) -> None:
    question, other = await rain(stand), await rain(stand)
    writer = stand.writer()
    lose(stand, fault)
    batch, receipt = await placed(writer, question, order_of(question))
    assert receipt.state is IntentState.UNKNOWN
    assert len(stand.asked("/order")) == 1
    with pytest.raises(Unavailable, match="an earlier order on its market is uncertain"):
        await sealed(writer, question, intent_of(question, order_of(question), "i2"))
    # Other markets do not.
    assert (await placed(writer, other, order_of(other), "i3"))[1].state is IntentState.ACKED
    # Before the fence its absence is no proof, after it it is.
    (early,) = await writer.standing(batch)
    assert early.state is IntentState.ABSENT
    with pytest.raises(Unavailable):
        await sealed(writer, question, intent_of(question, order_of(question), "i2"))
    fence = batch.sealed[0].fence
    assert fence is not None
    stand.clock.pass_unnoticed((fence - stand.clock.now()).total_seconds())
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ABSENT]
    assert (await placed(writer, question, order_of(question), "i2"))[1].state is IntentState.ACKED


@pytest.mark.parametrize("fault", TAKEN)
async def test_pm_c2_a_lost_answer_to_an_order_that_was_matched_is_settled_by_its_trades(
    stand: Stand, fault: Fault | Trouble
) -> None:
    question = await rain(stand)
    writer = stand.writer()
    lose(stand, fault)
    batch, receipt = await placed(writer, question, order_of(question))
    assert receipt.state is IntentState.UNKNOWN
    # Its cancellation was asked for by its hash, and found nothing to cancel.
    (asked,) = stand.asked("/order", "DELETE")
    assert batch.sealed[0].tag.encode() in asked.body
    for reader in (writer, stand.writer()):
        (found,) = await reader.standing(batch)
        assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)
    assert len(stand.effects()) == 1
    assert (await placed(writer, question, order_of(question, size="10"), "i2"))[1].state is IntentState.ACKED


@pytest.mark.parametrize("fault", TAKEN)
async def test_pm_c2_what_could_be_cancelled_was_there_and_is_known_at_once(
    stand: Stand, fault: Fault | Trouble
) -> None:
    question = await rain(stand)
    writer = stand.writer()
    lose(stand, fault)
    batch, receipt = await placed(writer, question, order_of(question, price="0.45", type=GTD))
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())
    assert receipt.detail.startswith("cancelled, as no answer came")
    assert (await writer.account()).orders == ()
    assert (await placed(writer, question, order_of(question), "i2"))[1].state is IntentState.ACKED
    assert len(stand.effects()) == 2
    # The venue lists it no more; that it had been there is on disk.
    (found,) = await stand.writer().standing(batch)
    assert (found.state, found.fills, found.detail) == (
        IntentState.ACKED,
        (),
        "it rests no more, without a trade",
    )


async def test_pm_c3_after_a_restart_a_doubt_is_settled_by_reading_alone(stand: Stand) -> None:
    question = await rain(stand)
    lose(stand, Fault.DROPPED_AFTER)
    stand.venue.faults.next(Fault.DROPPED_BEFORE, method="DELETE")
    batch, receipt = await placed(stand.writer(), question, order_of(question, price="0.45", type=GTD))
    assert receipt.state is IntentState.UNKNOWN
    writes = sum(one.method != "GET" for one in stand.venue.requests)
    (found,) = await stand.writer().standing(batch)
    assert (found.state, found.reference) == (IntentState.ACKED, batch.sealed[0].tag)
    assert sum(one.method != "GET" for one in stand.venue.requests) == writes


async def test_what_never_left_this_machine_is_absent(stand: Stand) -> None:
    def cut(_: Request) -> Reply:
        message = "no connection; nothing was sent"
        raise Rejected(message)

    question = await rain(stand)
    batch = await sealed(stand.writer(), question, intent_of(question, order_of(question)))
    wire, stand.wire = stand.wire, MemoryWire(cut)
    (receipt,) = await stand.writer().submit(batch)
    assert (receipt.state, receipt.detail) == (IntentState.ABSENT, "no connection; nothing was sent")
    assert [request.method for request in stand.wire.sent] == ["POST"]
    stand.wire = wire
    (receipt,) = await stand.writer().submit(batch)
    assert receipt.state is IntentState.ACKED


async def test_without_its_secrets_nothing_is_written(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(question)))
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=500), path="/auth/derive-api-key")
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert "nothing was written" in receipt.detail
    assert not stand.asked("/order")


async def test_after_an_order_in_doubt_the_rest_of_its_batch_is_not_begun(stand: Stand) -> None:
    question, other = await rain(stand), await rain(stand)
    writer = stand.writer()
    first, second = intent_of(question, order_of(question)), intent_of(other, order_of(other), "i2")
    one, two = await sealed(writer, question, first), await sealed(writer, other, second)
    whole = type(one)(key="b", intents=(first, second), questions=(question, other), sealed=(*one.sealed, *two.sealed))
    lose(stand, Fault.DROPPED_BEFORE)
    receipts = await writer.submit(whole)
    assert [receipt.state for receipt in receipts] == [IntentState.UNKNOWN, IntentState.ABSENT]
    assert len(stand.asked("/order")) == 1


async def test_an_order_that_was_made_too_long_ago_is_not_sent(stand: Stand) -> None:
    question = await rain(stand)
    for name, order in (("i1", order_of(question)), ("i2", order_of(question, price="0.40", type=GTD))):
        batch = await sealed(stand.writer(), question, intent_of(question, order, name))
        stand.clock.pass_unnoticed(400)
        (receipt,) = await stand.writer().submit(batch)
        assert (receipt.state, receipt.detail) == (IntentState.ABSENT, "sealed too long ago")
    assert not stand.asked("/order")


async def test_the_same_request_posted_again_is_one_order(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    batch, _ = await placed(writer, question, order_of(question))
    (again,) = await writer.submit(batch)
    assert (again.state, "has it already" in again.detail) == (IntentState.UNKNOWN, True)
    (found,) = await writer.standing(batch)
    assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)
    assert len(stand.effects()) == 1


async def test_an_answer_that_names_another_order_is_a_doubt(stand: Stand) -> None:
    question = await rain(stand)

    def other(said: Any) -> Any:
        return {**said, "orderID": "0x" + "99" * 32}

    lose(stand, Trouble(fault=Fault.ALTERED, alter=other))
    _, receipt = await placed(stand.writer(), question, order_of(question))
    assert receipt.state is IntentState.UNKNOWN
    assert "which is not what was sent" in receipt.detail


@pytest.mark.parametrize("path", ["/data/orders", "/data/trades"])
async def test_where_reading_fails_nothing_is_known(stand: Stand, path: str) -> None:
    question = await rain(stand)
    writer = stand.writer()
    batch, _ = await placed(writer, question, order_of(question))
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=500), path=path)
    (found,) = await writer.standing(batch)
    assert found.state is IntentState.UNKNOWN
    assert found.detail.startswith("cannot be read")


async def test_fills_that_cannot_be_read_at_once_are_read_later(stand: Stand) -> None:
    question = await rain(stand)
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=500), path="/data/trades")
    batch, receipt = await placed(stand.writer(), question, order_of(question))
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())
    assert len((await stand.writer().standing(batch))[0].fills) == 1


async def test_secrets_that_the_venue_does_not_take_are_told(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    batch, _ = await placed(writer, question, order_of(question))
    stand.user.secret = "C" * 43 + "="
    with pytest.raises(Unauthorized):
        await writer.standing(batch)
    # They are asked for anew.
    assert [one.state for one in await writer.standing(batch)] == [IntentState.ACKED]


async def test_an_order_that_ended_unfilled_is_told_from_one_that_never_came(stand: Stand) -> None:
    question = await rain(stand)
    batch, _ = await placed(stand.writer(), question, order_of(question, price="0.45", type=GTD))
    stand.clock.pass_unnoticed(700)
    (found,) = await stand.writer().standing(batch)
    assert (found.state, found.fills) == (IntentState.ACKED, ())
    (stand.folder / FILE).write_text("{")
    assert [one.state for one in await stand.writer().standing(batch)] == [IntentState.ABSENT]
    (stand.folder / FILE).unlink()
    (stand.folder / FILE).mkdir()
    # What cannot be noted is taken all the same.
    _, receipt = await placed(stand.writer(), question, order_of(question), "i2")
    assert receipt.state is IntentState.ACKED


async def test_only_the_newest_orders_that_were_taken_are_kept(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps([f"0x{number}" for number in range(MOST)]))
    taken = Taken(tmp_path)
    await taken.add("0xAB")
    again = Taken(tmp_path)
    assert await again.any_of({"0xab"}) == "0xab"
    assert await again.any_of({"0x0", "0xcd"}) is None
    assert await again.any_of({"0x1"}) == "0x1"


async def test_what_was_never_sealed_is_absent(stand: Stand) -> None:
    question = await rain(stand)
    batch = await sealed(stand.writer(), question, intent_of(question, order_of(question)))
    bare = type(batch)(key="b", intents=batch.intents, questions=batch.questions)
    assert [one.state for one in await stand.writer().standing(bare)] == [IntentState.ABSENT]
    assert [one.state for one in await stand.writer().submit(bare)] == [IntentState.REFUSED]


async def test_an_order_made_while_the_clock_was_an_hour_ahead_is_found_once_it_is_right(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    stand.clock.step(3_600.0)
    batch = await sealed(writer, question, intent_of(question, order_of(question)))
    stand.clock.step(-3_600.0)
    lose(stand, Fault.DROPPED_AFTER)
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.UNKNOWN
    assert len(stand.effects()) == 1
    (found,) = await stand.writer().standing(batch)
    assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)
