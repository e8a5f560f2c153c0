"""What the account has, on the fake venue: nothing counts twice, and nothing before it is confirmed."""

from base64 import b64encode
from collections.abc import AsyncIterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    Account,
    AuthenticationError,
    ContractSide,
    HttpResponse,
    IntentState,
    MalformedDataError,
    OrderSide,
    Question,
    ServiceUnavailableError,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.testing.http import FakeWriteClient
from plugins.polymarket.order_terms import PolymarketOrderType
from tests.order_intents import seal_and_submit
from tests.plugins.polymarket.writer_fixture import BOOK, FEES, WriterFixture, open_writer_fixture, order_of

GTD = PolymarketOrderType.GTD


@pytest.fixture
async def polymarket(tmp_path: Path) -> AsyncIterator[WriterFixture]:
    async with open_writer_fixture(tmp_path) as opened:
        yield opened


async def rain(polymarket: WriterFixture, **fields: Any) -> Question:
    return await polymarket.question(polymarket.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


async def account(polymarket: WriterFixture) -> Account:
    return await polymarket.writer().account()


async def test_pm_s9_a_match_is_no_position_until_it_is_confirmed(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    batch, receipt = await seal_and_submit(polymarket.writer(), question, order_of(question))
    fee = float(FEES.fee_of(Decimal("0.50"), Decimal(20)))
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())
    assert "1 trades settle" in receipt.detail
    pending = await account(polymarket)
    assert pending.positions == ()
    assert pending.cash == pytest.approx(1000 - 10 - fee)
    (held,) = pending.orders
    assert held.shares == 20.0
    assert held.reserves == pytest.approx(10 + fee)
    assert pending.equity == pytest.approx(1000.0)
    polymarket.clock.advance_without_waking(5)
    (found,) = await polymarket.writer().read_submissions(batch)
    (fill,) = found.fills
    assert (fill.shares, fill.price) == (20.0, 0.5)
    assert fill.fee == pytest.approx(fee)
    assert fill.cash == pytest.approx(-10 - fee)
    settled = await account(polymarket)
    assert settled.orders == ()
    assert settled.cash == pytest.approx(1000 - 10 - fee)
    (position,) = settled.positions
    assert (position.contract, position.leg, position.shares) == (question.ref.key, ContractSide.YES, 20.0)
    # What it cost, and the best bid, at which it could be sold.
    assert position.paid == pytest.approx(10 + fee)
    assert position.mark == 0.49


async def test_shares_are_worth_what_the_bids_for_all_of_them_bring(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    await seal_and_submit(polymarket.writer(), question, order_of(question))
    polymarket.clock.advance_without_waking(5)
    market = polymarket.venue.state.markets[question.ref.key]
    market.bids.clear()
    market.bids.update({Decimal("0.49"): Decimal(5), Decimal("0.40"): Decimal(5)})
    (position,) = (await account(polymarket)).positions
    # Of 20 shares 5 bring 0.49 and 5 bring 0.40 each, and nobody wants the others.
    assert position.mark == pytest.approx((5 * 0.49 + 5 * 0.40) / 20)


@pytest.mark.parametrize("path", ["/balance-allowance", "/data-api/v2/positions"])
async def test_pm_s9_a_match_that_is_confirmed_while_the_account_is_read_counts_once(
    polymarket: WriterFixture, path: str
) -> None:
    question = await rain(polymarket)
    await seal_and_submit(polymarket.writer(), question, order_of(question))

    def confirm(body: Any) -> Any:
        polymarket.clock.advance_without_waking(5)
        return body

    polymarket.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=confirm), path=path)
    read = await account(polymarket)
    assert [one.shares for one in read.positions] == [20.0]
    assert read.orders == ()
    # Twenty shares, bought at 0.50 and worth the bid of 0.49 now, and the fee.
    fee = float(FEES.fee_of(Decimal("0.50"), Decimal(20)))
    assert read.equity == pytest.approx(1000.0 - 20 * 0.01 - fee)


async def test_pm_s9_a_match_that_fails_on_chain_gives_its_dollars_back(polymarket: WriterFixture) -> None:
    question = await rain(polymarket)
    polymarket.world.exchange.next_settlements.append("FAILED")
    batch, _ = await seal_and_submit(polymarket.writer(), question, order_of(question))
    polymarket.clock.advance_without_waking(3)
    (retrying,) = await polymarket.writer().read_submissions(batch)
    assert "1 trades settle" in retrying.detail
    polymarket.clock.advance_without_waking(3)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, found.fills) == (IntentState.ACKED, ())
    assert "1 trades failed on chain" in found.detail
    assert (await account(polymarket)).cash == 1000.0


async def test_pm_s9_of_several_matches_those_that_fail_are_left_out(polymarket: WriterFixture) -> None:
    question = await rain(polymarket, asks=(("0.50", "40"), ("0.60", "500")))
    polymarket.world.exchange.next_settlements.extend(["CONFIRMED", "FAILED"])
    batch, _ = await seal_and_submit(polymarket.writer(), question, order_of(question, price="0.60", size="50"))
    polymarket.clock.advance_without_waking(6)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert [(fill.shares, fill.price) for fill in found.fills] == [(40.0, 0.5)]
    assert found.detail == "40 shares, 1 trades failed on chain"


async def test_past_its_fence_an_order_is_not_told_before_all_its_trades_are_settled(polymarket: WriterFixture) -> None:
    polymarket.world.exchange.confirmed_s = 600.0
    question = await rain(polymarket)
    batch, _ = await seal_and_submit(polymarket.writer(), question, order_of(question))
    polymarket.clock.advance_without_waking(300)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, found.detail) == (IntentState.UNKNOWN, "1 trades are not settled yet")
    polymarket.clock.advance_without_waking(400)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)


async def test_an_order_that_rests_is_filled_by_others_at_its_price_without_a_fee(polymarket: WriterFixture) -> None:
    market = polymarket.world.add_market("Will it rain?", fees=FEES, **BOOK)
    question = await polymarket.question(market)
    batch, receipt = await seal_and_submit(
        polymarket.writer(), question, order_of(question, price="0.49", type=GTD, size="20")
    )
    assert (receipt.state, receipt.detail) == (IntentState.ACKED, "live")
    before = await account(polymarket)
    (order,) = before.orders
    assert order.limit == 0.49
    assert order.reserves == pytest.approx(9.8)
    assert before.cash == pytest.approx(990.2)
    assert order.expires_at is not None
    # 600 s, less the minute by which the venue is early.
    assert 539 <= (order.expires_at - polymarket.clock.now()).total_seconds() <= 541
    polymarket.world.trade(market, "SELL", "105")
    polymarket.clock.advance_without_waking(6)
    (found,) = await polymarket.writer().read_submissions(batch)
    (fill,) = found.fills
    assert (fill.shares, fill.price, fill.fee) == (5.0, 0.49, 0.0)
    assert fill.cash == pytest.approx(-2.45)
    assert found.detail.endswith("it rests")
    after = await account(polymarket)
    assert after.cash == pytest.approx(1000 - 9.8)
    assert after.orders[0].shares == 15.0


async def test_no_is_a_position_of_its_own_and_an_order_on_it_is_one_on_no(polymarket: WriterFixture) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    question = await rain(polymarket)
    writer = polymarket.writer()
    await seal_and_submit(writer, question, order_of(question, leg=ContractSide.NO, price="0.51"))
    await seal_and_submit(writer, question, order_of(question, leg=ContractSide.NO, price="0.45", type=GTD), "i2")
    # Another writer, as after a restart, must ask which token is which.
    found = await account(polymarket)
    assert [(one.leg, one.shares) for one in found.positions] == [(ContractSide.NO, 20.0)]
    assert [(one.leg, one.limit) for one in found.orders] == [(ContractSide.NO, 0.45)]


@pytest.mark.parametrize(("outcome", "pays"), [(("1",), 1.0), (("0", "1"), 0.0), (("0.5",), 0.5)])
async def test_a_position_that_is_decided_is_marked_at_what_it_pays(
    polymarket: WriterFixture, outcome: tuple[str, ...], pays: float
) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    market = polymarket.world.add_market("Will it rain?", **BOOK)
    question = await polymarket.question(market)
    await seal_and_submit(polymarket.writer(), question, order_of(question))
    polymarket.world.resolve(market, *outcome)
    (position,) = (await account(polymarket)).positions
    assert position.mark == pays


async def test_a_position_that_nobody_buys_has_no_mark(polymarket: WriterFixture) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    market = polymarket.world.add_market("Will it rain?", **BOOK)
    question = await polymarket.question(market)
    await seal_and_submit(polymarket.writer(), question, order_of(question))
    polymarket.world.set_book(market, asks=(("0.60", "5"),))
    (position,) = (await account(polymarket)).positions
    assert position.mark is None


@pytest.mark.parametrize(("is_known", "mark"), [(True, 0.49), (False, 0.5)])
async def test_a_position_without_a_book_keeps_its_last_mark_while_its_outcome_is_proposed(
    polymarket: WriterFixture, *, is_known: bool, mark: float
) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    market = polymarket.world.add_market("Will it rain?", **BOOK)
    writer, question = polymarket.writer(), await polymarket.question(market)
    await seal_and_submit(writer, question, order_of(question))
    if is_known:
        await writer.account()
    polymarket.world.propose(market, "0")
    polymarket.clock.advance_without_waking(301)
    (position,) = (await writer.account()).positions
    # Its last bid, or its cost where no bid was ever read.
    assert position.mark == pytest.approx(mark)
    # The ledger may know its last bid.
    assert position.is_unpriced is not is_known


async def test_a_position_that_is_listed_twice_is_one(polymarket: WriterFixture) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    question = await rain(polymarket)
    await seal_and_submit(polymarket.writer(), question, order_of(question))
    polymarket.venue.faults.schedule(RequestFault.DUPLICATED, path="/data-api/v2/positions")
    assert [one.shares for one in (await account(polymarket)).positions] == [20.0]


async def test_the_wrong_type_of_wallet_shows_no_dollars(polymarket: WriterFixture) -> None:
    assert (await polymarket.writer(wallet_type="safe").account()).cash == 0.0


async def test_pm_p3_private_lists_are_read_to_their_end(polymarket: WriterFixture) -> None:
    polymarket.venue.orders.page_size = 2
    question = await rain(polymarket)
    writer = polymarket.writer()
    for number in range(5):
        order = order_of(question, price=f"0.4{number}", type=GTD, size="5")
        await seal_and_submit(writer, question, order, f"i{number}")
    assert len((await account(polymarket)).orders) == 5
    assert len(polymarket.asked("/data/orders", "GET")) == 3


async def test_a_list_that_does_not_end_is_not_believed(polymarket: WriterFixture) -> None:
    # Each a cursor that the venue takes: the n-th part of the list.
    cursors = (b64encode(str(number).encode()).decode() for number in count(1))

    def endless(_: Any) -> Any:
        return {"data": [], "next_cursor": next(cursors)}

    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=endless), path="/data/orders", times=200
    )
    with pytest.raises(MalformedDataError, match="more than 100 pages"):
        await account(polymarket)


@pytest.mark.parametrize(
    ("path", "alter", "words"),
    [
        ("/balance-allowance", {}, "no balance"),
        ("/data/orders", {"rows": []}, "no data"),
        ("/data/orders", {"data": [{"id": "0x1"}]}, "open order 0x1"),
        ("/data-api/v2/positions", {"data": [{"condition_id": "0x1", "current_size": 3}]}, "position in 0x1"),
    ],
)
async def test_what_cannot_be_read_is_not_left_out(
    polymarket: WriterFixture, path: str, alter: Any, words: str
) -> None:
    polymarket.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: alter), path=path)
    with pytest.raises(MalformedDataError, match=words):
        await account(polymarket)


async def test_an_order_on_a_token_of_no_known_market_is_told(polymarket: WriterFixture) -> None:
    row: dict[str, Any] = {
        "id": "0x1",
        "market": "0x9",
        "asset_id": "7" * 77,
        "side": "BUY",
        "price": "0.5",
        "original_size": "5",
    }
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: {"data": [row]}), path="/data/orders"
    )
    with pytest.raises(MalformedDataError, match="its side is unknown"):
        await account(polymarket)


async def test_a_market_whose_terms_cannot_be_read_hides_no_fill(polymarket: WriterFixture) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    question = await rain(polymarket)
    batch, _ = await seal_and_submit(polymarket.writer(), question, order_of(question))
    gone = FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: {"markets": []})
    polymarket.venue.faults.schedule(gone, path="/gamma", times=2)
    (found,) = await polymarket.writer().read_submissions(batch)
    assert (found.state, "its terms cannot be read" in found.detail) == (IntentState.UNKNOWN, True)
    assert len((await polymarket.writer().read_submissions(batch))[0].fills) == 1


async def test_the_side_of_a_newer_token_is_in_its_number(polymarket: WriterFixture) -> None:
    question = await rain(polymarket, version="v2")
    writer = polymarket.writer()
    await seal_and_submit(writer, question, order_of(question, leg=ContractSide.NO, price="0.45", type=GTD))
    gone = FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: {"markets": []})
    polymarket.venue.faults.schedule(gone, path="/gamma", times=2)
    assert [order.leg for order in (await account(polymarket)).orders] == [ContractSide.NO]


@pytest.mark.parametrize("alter", [{"apiKey": "k"}, None])
async def test_a_log_in_that_gives_no_whole_key_is_told(polymarket: WriterFixture, alter: Any) -> None:
    whole = (
        RequestFault.PAGE_BEFORE if alter is None else FaultDetails(fault=RequestFault.ALTERED, alter=lambda _: alter)
    )
    polymarket.venue.faults.schedule(whole, path="/auth/derive-api-key")
    with pytest.raises(MalformedDataError, match=r"not JSON|no complete API key"):
        await account(polymarket)


# Cancelling


async def test_pm_s10_all_orders_are_cancelled_by_one_request_whatever_else_is_stopped(
    polymarket: WriterFixture,
) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    placed_ = [
        (await seal_and_submit(writer, question, order_of(question, price=f"0.4{number}", type=GTD), f"i{number}"))[
            1
        ].reference
        for number in range(3)
    ]
    polymarket.venue.is_blocked = True
    # Neither attestation nor region nor a signature of an order is needed to leave.
    ended = await polymarket.writer(attested=False).cancel(None)
    assert sorted(ended) == sorted(placed_)
    assert len(polymarket.asked("/cancel-all", "DELETE")) == 1
    assert (await account(polymarket)).orders == ()


async def test_a_cancellation_says_that_it_takes_back_so_that_it_leaves_also_while_all_is_halted(
    polymarket: WriterFixture,
) -> None:
    wire = polymarket.wire = FakeWriteClient(
        lambda _: HttpResponse(status=200, body=b'{"canceled": [], "not_canceled": {}}')
    )
    await polymarket.writer().cancel(None)
    await polymarket.writer().cancel(["0x" + "12" * 32])
    sent = [(request.method, request.is_cancellation, request.body) for request in wire.sent]
    assert sent == [("DELETE", True, None), ("DELETE", True, b'["0x' + b"12" * 32 + b'"]')]
    question = await rain(polymarket)
    await seal_and_submit(polymarket.writer(), question, order_of(question))
    post = next(request for request in wire.sent if request.method == "POST")
    assert not post.is_cancellation


async def test_an_order_that_rests_no_more_is_reported_as_such_and_one_of_others_is_not_touched(
    polymarket: WriterFixture,
) -> None:
    question = await rain(polymarket)
    writer = polymarket.writer()
    _, first = await seal_and_submit(writer, question, order_of(question, price="0.40", type=GTD))
    _, second = await seal_and_submit(writer, question, order_of(question, price="0.41", type=GTD), "i2")
    gone = "0x" + "12" * 32
    assert await writer.cancel([first.reference, gone]) == (first.reference, gone)
    assert [order.id for order in (await account(polymarket)).orders] == [second.reference]
    asked = len(polymarket.venue.requests)
    assert await writer.cancel([]) == ()
    assert len(polymarket.venue.requests) == asked
    # One that the venue lists still rests, whatever it answered.
    polymarket.wire = FakeWriteClient(lambda _: HttpResponse(status=200, body=b'{"canceled": []}'))
    assert await polymarket.writer().cancel([second.reference, gone]) == (gone,)


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (401, b'{"error": "no such key"}', AuthenticationError, "cancelling: 401: no such key"),
        (403, b'{"error": "restricted"}', AuthenticationError, "cancelling: 403: restricted"),
        (404, b'"not found"', ServiceUnavailableError, "cancelling: 404: not found"),
        (500, b"{}", ServiceUnavailableError, "cancelling: 500"),
    ],
)
async def test_cancelling_that_is_refused_says_what_the_venue_says(
    polymarket: WriterFixture, status: int, body: bytes, error: type[Exception], message: str
) -> None:
    polymarket.wire = FakeWriteClient(lambda _: HttpResponse(status=status, body=body))
    with pytest.raises(error, match=f"^{message}"):
        await polymarket.writer().cancel(None)


async def test_cancelling_that_is_refused_is_told(polymarket: WriterFixture) -> None:
    writer = polymarket.writer()
    polymarket.venue.faults.schedule(FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500), method="DELETE")
    with pytest.raises(ServiceUnavailableError, match="cancelling: 500"):
        await writer.cancel(None)
    await writer.account()
    polymarket.user.secret = "B" * 43 + "="
    with pytest.raises(AuthenticationError, match="cancelling: 401"):
        await writer.cancel(None)


async def test_a_sale_that_rests_holds_no_dollars(polymarket: WriterFixture) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    question = await rain(polymarket)
    writer = polymarket.writer()
    await seal_and_submit(writer, question, order_of(question))
    before = await writer.account()
    await seal_and_submit(
        writer, question, order_of(question, side=OrderSide.SELL, price="0.70", type=GTD, size="20"), "i2"
    )
    after = await writer.account()
    assert (after.cash, after.orders[0].reserves) == (before.cash, 0.0)


async def test_what_a_position_gained_is_told_as_the_venue_tells_it_also_once_it_is_no_more(
    polymarket: WriterFixture,
) -> None:
    polymarket.world.exchange.confirmed_s = 0.0
    market = polymarket.world.add_market("Will it rain?", **{"fees": FEES, **BOOK})
    question = await polymarket.question(market)
    writer = polymarket.writer()
    await seal_and_submit(writer, question, order_of(question))
    (open_,) = (await writer.account()).gains
    assert (open_.contract, open_.closed, open_.before_fees) == (question.ref.key, False, True)
    polymarket.world.resolve(market, "1")
    before = await writer.account()
    (decided,) = before.gains
    # 20 shares for 10 dollars pay 20; the fee is left out.
    assert decided.gain == pytest.approx(10.0)
    assert (decided.closed, before.positions[0].decided) == (True, True)
    (user,) = polymarket.venue.state.users.values()
    polymarket.world.redeem(user, market)
    polymarket.clock.advance_without_waking(3601)
    after = await writer.account()
    assert (after.positions, after.gains) == ((), (decided,))
    assert after.equity == pytest.approx(before.equity)


async def test_a_list_of_what_is_no_more_that_cannot_be_read_hides_nothing_of_the_account(
    polymarket: WriterFixture,
) -> None:
    question = await rain(polymarket)
    polymarket.world.exchange.confirmed_s = 0.0
    writer = polymarket.writer()
    await seal_and_submit(writer, question, order_of(question))

    def broken(answer: Any) -> Any:
        return {"data": "missing"}

    # The second of the two lists.
    polymarket.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=lambda answer: answer), path="/v2/positions"
    )
    polymarket.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=broken), path="/v2/positions")
    found = await writer.account()
    assert [one.shares for one in found.positions] == [20.0]
