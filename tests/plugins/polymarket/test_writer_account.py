"""What the account has, on the fake venue: nothing counts twice, and nothing before it is confirmed."""

from base64 import b64encode
from collections.abc import AsyncIterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bot.api import Account, ContractError, IntentState, Leg, Question, Reply, Side, Unauthorized, Unavailable
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.wires import MemoryWire
from plugins.polymarket.terms import OrderType
from tests.intents import placed
from tests.plugins.polymarket.writer_stand import BOOK, FEES, Stand, order_of, standing

GTD = OrderType.GTD


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(tmp_path) as opened:
        yield opened


async def rain(stand: Stand, **fields: Any) -> Question:
    return await stand.question(stand.world.add_market("Will it rain?", **{"fees": FEES, **BOOK, **fields}))


async def account(stand: Stand) -> Account:
    return await stand.writer().account()


async def test_pm_s9_a_match_is_no_position_until_it_is_confirmed(stand: Stand) -> None:
    question = await rain(stand)
    batch, receipt = await placed(stand.writer(), question, order_of(question))
    fee = float(FEES.of(Decimal("0.50"), Decimal(20)))
    assert (receipt.state, receipt.fills) == (IntentState.ACKED, ())
    assert "1 trades settle" in receipt.detail
    pending = await account(stand)
    assert pending.positions == ()
    assert pending.cash == pytest.approx(1000 - 10 - fee)
    (held,) = pending.orders
    assert held.shares == 20.0
    assert held.reserves == pytest.approx(10 + fee)
    assert pending.equity == pytest.approx(1000.0)
    stand.clock.pass_unnoticed(5)
    (found,) = await stand.writer().standing(batch)
    (fill,) = found.fills
    assert (fill.shares, fill.price) == (20.0, 0.5)
    assert fill.fee == pytest.approx(fee)
    assert fill.cash == pytest.approx(-10 - fee)
    settled = await account(stand)
    assert settled.orders == ()
    assert settled.cash == pytest.approx(1000 - 10 - fee)
    (position,) = settled.positions
    assert (position.contract, position.leg, position.shares) == (question.ref.key, Leg.YES, 20.0)
    # What it cost, and the best bid, at which it could be sold.
    assert position.paid == pytest.approx(10 + fee)
    assert position.mark == 0.49


async def test_pm_s9_a_match_that_fails_on_chain_gives_its_dollars_back(stand: Stand) -> None:
    question = await rain(stand)
    stand.world.exchange.fates.append("FAILED")
    batch, _ = await placed(stand.writer(), question, order_of(question))
    stand.clock.pass_unnoticed(3)
    (retrying,) = await stand.writer().standing(batch)
    assert "1 trades settle" in retrying.detail
    stand.clock.pass_unnoticed(3)
    (found,) = await stand.writer().standing(batch)
    assert (found.state, found.fills) == (IntentState.ACKED, ())
    assert "1 trades failed on chain" in found.detail
    assert (await account(stand)).cash == 1000.0


async def test_pm_s9_of_several_matches_those_that_fail_are_left_out(stand: Stand) -> None:
    question = await rain(stand, asks=(("0.50", "40"), ("0.60", "500")))
    stand.world.exchange.fates.extend(["CONFIRMED", "FAILED"])
    batch, _ = await placed(stand.writer(), question, order_of(question, price="0.60", size="50"))
    stand.clock.pass_unnoticed(6)
    (found,) = await stand.writer().standing(batch)
    assert [(fill.shares, fill.price) for fill in found.fills] == [(40.0, 0.5)]
    assert "1 trades failed" in found.detail


async def test_past_its_fence_an_order_is_not_told_before_all_its_trades_are_settled(stand: Stand) -> None:
    stand.world.exchange.confirmed_s = 600.0
    question = await rain(stand)
    batch, _ = await placed(stand.writer(), question, order_of(question))
    stand.clock.pass_unnoticed(300)
    (found,) = await stand.writer().standing(batch)
    assert (found.state, found.detail) == (IntentState.UNKNOWN, "1 trades are not settled yet")
    stand.clock.pass_unnoticed(400)
    (found,) = await stand.writer().standing(batch)
    assert (found.state, len(found.fills)) == (IntentState.ACKED, 1)


async def test_an_order_that_rests_is_filled_by_others_at_its_price_without_a_fee(stand: Stand) -> None:
    market = stand.world.add_market("Will it rain?", fees=FEES, **BOOK)
    question = await stand.question(market)
    batch, receipt = await placed(stand.writer(), question, order_of(question, price="0.49", type=GTD, size="20"))
    assert (receipt.state, receipt.detail) == (IntentState.ACKED, "live")
    before = await account(stand)
    (order,) = before.orders
    assert order.limit == 0.49
    assert order.reserves == pytest.approx(9.8)
    assert before.cash == pytest.approx(990.2)
    assert order.expires_at is not None
    # 600 s, less the minute by which the venue is early.
    assert 539 <= (order.expires_at - stand.clock.now()).total_seconds() <= 541
    stand.world.trade(market, "SELL", "105")
    stand.clock.pass_unnoticed(6)
    (found,) = await stand.writer().standing(batch)
    (fill,) = found.fills
    assert (fill.shares, fill.price, fill.fee) == (5.0, 0.49, 0.0)
    assert fill.cash == pytest.approx(-2.45)
    assert found.detail.endswith("it rests")
    after = await account(stand)
    assert after.cash == pytest.approx(1000 - 9.8)
    assert after.orders[0].shares == 15.0


async def test_no_is_a_position_of_its_own_and_an_order_on_it_is_one_on_no(stand: Stand) -> None:
    stand.world.exchange.confirmed_s = 0.0
    question = await rain(stand)
    writer = stand.writer()
    await placed(writer, question, order_of(question, leg=Leg.NO, price="0.51"))
    await placed(writer, question, order_of(question, leg=Leg.NO, price="0.45", type=GTD), "i2")
    # Another writer, as after a restart, must ask which token is which.
    found = await account(stand)
    assert [(one.leg, one.shares) for one in found.positions] == [(Leg.NO, 20.0)]
    assert [(one.leg, one.limit) for one in found.orders] == [(Leg.NO, 0.45)]


@pytest.mark.parametrize(("outcome", "pays"), [(("1",), 1.0), (("0", "1"), 0.0), (("0.5",), 0.5)])
async def test_a_position_that_is_decided_is_marked_at_what_it_pays(
    stand: Stand, outcome: tuple[str, ...], pays: float
) -> None:
    stand.world.exchange.confirmed_s = 0.0
    market = stand.world.add_market("Will it rain?", **BOOK)
    question = await stand.question(market)
    await placed(stand.writer(), question, order_of(question))
    stand.world.resolve(market, *outcome)
    (position,) = (await account(stand)).positions
    assert position.mark == pays


async def test_a_position_that_nobody_buys_has_no_mark(stand: Stand) -> None:
    stand.world.exchange.confirmed_s = 0.0
    market = stand.world.add_market("Will it rain?", **BOOK)
    question = await stand.question(market)
    await placed(stand.writer(), question, order_of(question))
    stand.world.set_book(market, asks=(("0.60", "5"),))
    (position,) = (await account(stand)).positions
    assert position.mark is None


async def test_the_wrong_type_of_wallet_shows_no_dollars(stand: Stand) -> None:
    assert (await stand.writer(wallet_type="safe").account()).cash == 0.0


async def test_pm_p3_private_lists_are_read_to_their_end(stand: Stand) -> None:
    stand.venue.orders.page_size = 2
    question = await rain(stand)
    writer = stand.writer()
    for number in range(5):
        order = order_of(question, price=f"0.4{number}", type=GTD, size="5")
        await placed(writer, question, order, f"i{number}")
    assert len((await account(stand)).orders) == 5
    assert len(stand.asked("/data/orders", "GET")) == 3


async def test_a_list_that_does_not_end_is_not_believed(stand: Stand) -> None:
    # Each a cursor that the venue takes: the n-th part of the list.
    cursors = (b64encode(str(number).encode()).decode() for number in count(1))

    def endless(_: Any) -> Any:
        return {"data": [], "next_cursor": next(cursors)}

    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=endless), path="/data/orders", times=200)
    with pytest.raises(ContractError, match="more than 100 pages"):
        await account(stand)


@pytest.mark.parametrize(
    ("path", "alter", "words"),
    [
        ("/balance-allowance", {}, "no balance"),
        ("/data/orders", {"rows": []}, "no data"),
        ("/data/orders", {"data": [{"id": "0x1"}]}, "open order 0x1"),
        ("/data-api/v2/positions", {"data": [{"condition_id": "0x1", "current_size": 3}]}, "position in 0x1"),
    ],
)
async def test_what_cannot_be_read_is_not_left_out(stand: Stand, path: str, alter: Any, words: str) -> None:
    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=lambda _: alter), path=path)
    with pytest.raises(ContractError, match=words):
        await account(stand)


async def test_an_order_on_a_token_of_no_known_market_is_told(stand: Stand) -> None:
    row: dict[str, Any] = {
        "id": "0x1",
        "market": "0x9",
        "asset_id": "7" * 77,
        "side": "BUY",
        "price": "0.5",
        "original_size": "5",
    }
    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=lambda _: {"data": [row]}), path="/data/orders")
    with pytest.raises(ContractError, match="which side that is cannot be read"):
        await account(stand)


async def test_a_market_whose_terms_cannot_be_read_hides_no_fill(stand: Stand) -> None:
    stand.world.exchange.confirmed_s = 0.0
    question = await rain(stand)
    batch, _ = await placed(stand.writer(), question, order_of(question))
    gone = Trouble(fault=Fault.ALTERED, alter=lambda _: {"markets": []})
    stand.venue.faults.next(gone, path="/gamma", times=2)
    (found,) = await stand.writer().standing(batch)
    assert (found.state, "its terms cannot be read" in found.detail) == (IntentState.UNKNOWN, True)
    assert len((await stand.writer().standing(batch))[0].fills) == 1


async def test_the_side_of_a_newer_token_is_in_its_number(stand: Stand) -> None:
    question = await rain(stand, version="v2")
    writer = stand.writer()
    await placed(writer, question, order_of(question, leg=Leg.NO, price="0.45", type=GTD))
    gone = Trouble(fault=Fault.ALTERED, alter=lambda _: {"markets": []})
    stand.venue.faults.next(gone, path="/gamma", times=2)
    assert [order.leg for order in (await account(stand)).orders] == [Leg.NO]


@pytest.mark.parametrize("alter", [{"apiKey": "k"}, None])
async def test_a_log_in_that_gives_no_whole_key_is_told(stand: Stand, alter: Any) -> None:
    whole = Fault.PAGE_BEFORE if alter is None else Trouble(fault=Fault.ALTERED, alter=lambda _: alter)
    stand.venue.faults.next(whole, path="/auth/derive-api-key")
    with pytest.raises(ContractError, match=r"not JSON|no whole API key"):
        await account(stand)


# Cancelling


async def test_pm_s10_all_orders_are_cancelled_by_one_request_whatever_else_is_stopped(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    placed_ = [
        (await placed(writer, question, order_of(question, price=f"0.4{number}", type=GTD), f"i{number}"))[1].reference
        for number in range(3)
    ]
    stand.venue.is_blocked = True
    # Neither attestation nor region nor a signature of an order is needed to leave.
    ended = await stand.writer(attested=False).cancel(None)
    assert sorted(ended) == sorted(placed_)
    assert len(stand.asked("/cancel-all", "DELETE")) == 1
    assert (await account(stand)).orders == ()


async def test_a_cancellation_says_that_it_takes_back_so_that_it_leaves_also_while_all_is_halted(stand: Stand) -> None:
    wire = stand.wire = MemoryWire(lambda _: Reply(status=200, body=b'{"canceled": [], "not_canceled": {}}'))
    await stand.writer().cancel(None)
    await stand.writer().cancel(["0x" + "12" * 32])
    assert [(request.method, request.takes_back) for request in wire.sent] == [("DELETE", True)] * 2
    question = await rain(stand)
    await placed(stand.writer(), question, order_of(question))
    post = next(request for request in wire.sent if request.method == "POST")
    assert not post.takes_back


async def test_an_order_that_rests_no_more_is_reported_as_such_and_one_of_others_is_not_touched(stand: Stand) -> None:
    question = await rain(stand)
    writer = stand.writer()
    _, first = await placed(writer, question, order_of(question, price="0.40", type=GTD))
    _, second = await placed(writer, question, order_of(question, price="0.41", type=GTD), "i2")
    gone = "0x" + "12" * 32
    assert await writer.cancel([first.reference, gone]) == (first.reference, gone)
    assert [order.id for order in (await account(stand)).orders] == [second.reference]
    assert await writer.cancel([]) == ()


async def test_cancelling_that_is_refused_is_told(stand: Stand) -> None:
    writer = stand.writer()
    stand.venue.faults.next(Trouble(fault=Fault.ERROR_BEFORE, status=500), method="DELETE")
    with pytest.raises(Unavailable, match="cancelling: 500"):
        await writer.cancel(None)
    await writer.account()
    stand.user.secret = "B" * 43 + "="
    with pytest.raises(Unauthorized, match="cancelling: 401"):
        await writer.cancel(None)


async def test_a_sale_that_rests_holds_no_dollars(stand: Stand) -> None:
    stand.world.exchange.confirmed_s = 0.0
    question = await rain(stand)
    writer = stand.writer()
    await placed(writer, question, order_of(question))
    before = await writer.account()
    await placed(writer, question, order_of(question, side=Side.SELL, price="0.70", type=GTD, size="20"), "i2")
    after = await writer.account()
    assert (after.cash, after.orders[0].reserves) == (before.cash, 0.0)


async def test_what_a_position_gained_is_told_as_the_venue_tells_it_also_once_it_is_no_more(stand: Stand) -> None:
    stand.world.exchange.confirmed_s = 0.0
    market = stand.world.add_market("Will it rain?", **{"fees": FEES, **BOOK})
    question = await stand.question(market)
    writer = stand.writer()
    await placed(writer, question, order_of(question))
    (open_,) = (await writer.account()).gains
    assert (open_.contract, open_.closed, open_.before_fees) == (question.ref.key, False, True)
    stand.world.resolve(market, "1")
    before = await writer.account()
    (decided,) = before.gains
    # 20 shares for 10 dollars pay 20; the fee is left out.
    assert decided.gain == pytest.approx(10.0)
    assert (decided.closed, before.positions[0].decided) == (True, True)
    (user,) = stand.venue.state.users.values()
    stand.world.redeem(user, market)
    stand.clock.pass_unnoticed(3601)
    after = await writer.account()
    assert (after.positions, after.gains) == ((), (decided,))
    assert after.equity == pytest.approx(before.equity)


async def test_a_list_of_what_is_no_more_that_cannot_be_read_hides_nothing_of_the_account(stand: Stand) -> None:
    question = await rain(stand)
    stand.world.exchange.confirmed_s = 0.0
    writer = stand.writer()
    await placed(writer, question, order_of(question))

    def broken(answer: Any) -> Any:
        return {"data": "missing"}

    # The second of the two lists.
    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=lambda answer: answer), path="/v2/positions")
    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=broken), path="/v2/positions")
    found = await writer.account()
    assert [one.shares for one in found.positions] == [20.0]
