"""Writing: sales, comments, cancelling, and what the account has."""

from typing import Any

import pytest

from bot.api import (
    ContractSide,
    IntentState,
    MalformedDataError,
    RequestRejectedError,
    ServiceUnavailableError,
    WriteReceipt,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_market_maker import WantedTrade
from tests.order_intents import make_batch, make_intent, seal_and_submit, seal_batch
from tests.plugins.manifold.fixture import ManifoldFixture, order_of, sale_of

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


# Sales and comments


async def test_shares_are_sold_and_the_sale_is_found_again(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.90"))
    held = manifold.venue.state.holding(manifold.ada.id, market.id, None).yes
    manifold.clock.advance_without_waking(1)
    batch, receipt = await seal_and_submit(writer, question, sale_of(market, held / 2), "i2")
    assert receipt.state is IntentState.ACKED
    assert sum(fill.cash for fill in receipt.fills) > 0.0
    assert manifold.venue.state.holding(manifold.ada.id, market.id, None).yes == pytest.approx(held / 2)
    (again,) = await writer.read_submissions(batch)
    assert (again.state, again.reference) == (IntentState.ACKED, receipt.reference)
    manifold.clock.advance_without_waking(31)
    (late,) = await writer.submit(batch)
    assert late.state is IntentState.ABSENT


async def test_a_sale_that_was_lost_is_not_taken_for_one_like_it(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.90"))
    manifold.clock.advance_without_waking(1)
    first, receipt = await seal_and_submit(writer, question, sale_of(market, 10.0), "i2")
    manifold.clock.advance_without_waking(60)
    second = await seal_batch(writer, question, make_intent(question, sale_of(market, 10.0), "i3"))
    manifold.venue.faults.schedule(RequestFault.DROPPED_BEFORE, method="POST", path="/v0/market/")
    assert [one.state for one in await writer.submit(second)] == [IntentState.UNKNOWN]
    manifold.clock.advance_without_waking(200)
    assert [one.state for one in await manifold.writer().read_submissions(second)] == [IntentState.ABSENT]
    assert [one.reference for one in await manifold.writer().read_submissions(first)] == [receipt.reference]


async def test_what_was_sold_is_told_as_the_venue_tells_it(manifold: ManifoldFixture) -> None:
    """Its own code turns each part: shares below zero, and mana below zero for what came in."""
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.90"))
    manifold.clock.advance_without_waking(1)
    _, receipt = await seal_and_submit(writer, question, sale_of(market, 10.0), "i2")
    row = manifold.venue.state.bets[receipt.reference]
    assert row.shares == pytest.approx(-10.0)
    assert sum(part["shares"] for part in row.fills) == pytest.approx(-10.0)
    assert sum(part["amount"] for part in row.fills) == pytest.approx(row.amount)
    assert sum(fill.shares for fill in receipt.fills) == pytest.approx(10.0)
    assert sum(fill.cash for fill in receipt.fills) == pytest.approx(-row.amount)


async def test_mf_s11_comments_are_off_unless_switched_on(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    with pytest.raises(RequestRejectedError, match="comments are off"):
        await manifold.writer().seal_requests(make_batch(question, make_intent(question, None, text="Rain is likely.")))


async def test_mf_s11_a_comment_is_posted_once_and_costs_one_mana(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer(comments=True)
    batch = await seal_batch(
        writer, question, make_intent(question, None, text="Rain is *likely*.\n\n" + "so " * 20_000)
    )
    receipts = [(await writer.submit(batch))[0] for _ in range(2)]
    assert {receipt.state for receipt in receipts} == {IntentState.ACKED}
    assert len({receipt.reference for receipt in receipts}) == 1
    assert "fee of 1 mana" in receipts[0].detail
    assert manifold.venue.state.users[manifold.ada.id].balance == pytest.approx(999.0)
    assert len(manifold.venue.ledger.effects("comment")) == 1
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ACKED]


async def test_a_comment_without_an_answer_is_found_again(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer(comments=True)
    batch = await seal_batch(writer, question, make_intent(question, None, text="Rain."))
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ABSENT]
    manifold.venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/v0/comment")
    assert [one.state for one in await writer.submit(batch)] == [IntentState.UNKNOWN]
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ACKED]


async def test_a_comment_is_about_the_answer_of_its_question_and_a_market_gets_one(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", answers=[("By May", 0.4), ("By June", 0.6)])
    writer = manifold.writer(comments=True)
    receipts: list[WriteReceipt] = []
    for answer in market.answers:
        question = await manifold.question(market, answer)
        batch = await seal_batch(writer, question, make_intent(question, None, answer.id, text="Said of it."))
        receipts += await writer.submit(batch)
    assert [one.state for one in receipts] == [IntentState.ACKED, IntentState.REFUSED]
    assert receipts[1].detail == "the market already has a comment of this bot"
    # That another one is there says nothing about whether this one arrived.
    assert [one.state for one in await writer.read_submissions(batch)] == [IntentState.ABSENT]
    [comment] = manifold.venue.state.comments.values()
    assert comment.answer == market.answers[0].id
    assert manifold.venue.state.users[manifold.ada.id].balance == pytest.approx(999.0)


# The account


async def test_mf_s9_cash_is_what_open_orders_leave(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=500.0, limit="0.55"))
    (bet,) = [one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id]
    account = await writer.account()
    assert account.cash == pytest.approx(1000.0 - 500.0)
    (order,) = account.orders
    assert (order.id, order.contract, order.leg, order.limit) == (bet.id, market.id, ContractSide.YES, 0.55)
    assert order.reserves == pytest.approx(500.0 - bet.amount)


async def test_positions_are_marked_anew_after_each_trade(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    for name in ("i1", "i2"):
        await seal_and_submit(writer, question, order_of(market, amount=200.0, limit="0.95"), name)
        manifold.clock.advance_without_waking(60)
        [position], [expected] = (await writer.account()).positions, (await manifold.writer().account()).positions
        assert position == expected


async def test_mf_w4_expired_orders_are_over_by_our_own_clock(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer(order_lifetime_s=61)
    await seal_and_submit(writer, question, order_of(market, amount=500.0, limit="0.55"))
    (bet,) = [one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id]
    manifold.clock.advance_without_waking(62)
    # The venue still lists it: its sweep comes once a minute.
    assert bet.is_resting(manifold.venue.now_ms())
    account = await writer.account()
    assert account.orders == ()
    assert account.cash == pytest.approx(1000.0 - bet.amount)


async def test_mf_s10_a_bet_against_an_own_holding_reduces_it(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.90"))
    before = await writer.account()
    manifold.clock.advance_without_waking(1)
    _, receipt = await seal_and_submit(
        writer, question, order_of(market, amount=20.0, limit="0.20", leg=ContractSide.NO), "i2"
    )
    manifold.clock.advance_without_waking(1)
    after = await writer.account()
    sold = sum(fill.shares for fill in receipt.fills)
    assert [position.leg for position in after.positions] == [ContractSide.YES]
    assert after.positions[0].shares == pytest.approx(before.positions[0].shares - sold)
    # 20 were spent, and each pair brought 1.
    assert after.cash == pytest.approx(before.cash - 20.0 + sold)


async def test_the_writes_of_an_account_are_its_bets_and_sales_and_no_pairs_that_the_venue_pays_out(
    manifold: ManifoldFixture,
) -> None:
    market = manifold.world.add_market()
    question, writer, receipts = await manifold.question(market), manifold.writer(), []
    began = manifold.clock.now()
    for number, order in enumerate(
        (
            order_of(market, amount=50.0, limit="0.90"),
            # It makes pairs with the shares that are held, and the venue books each of those as a bet as well.
            order_of(market, amount=20.0, limit="0.20", leg=ContractSide.NO),
            sale_of(market, shares=5.0),
            # It rests, and nothing was spent yet.
            order_of(market, amount=10.0, limit="0.02"),
        )
    ):
        manifold.clock.advance_without_waking(1)
        receipts.append((await seal_and_submit(writer, question, order, f"i{number}"))[1])
    manifold.clock.advance_without_waking(1)
    listed = {one.reference: one.text for one in await writer.list_writes(began)}
    assert listed.keys() == {receipt.reference for receipt in receipts}
    bet, against, sale, waiting = (listed[receipt.reference] for receipt in receipts)
    assert waiting == f"a bet of 0 mana on YES of market {market.id}"
    assert bet == f"a bet of 50 mana on YES of market {market.id}"
    assert against == f"a bet of 20 mana on NO of market {market.id}"
    assert sale == f"a sale of {receipts[2].fills[0].cash:g} mana on YES of market {market.id}"
    manifold.clock.advance_without_waking(3600)
    assert await writer.list_writes(manifold.clock.now()) == []


async def test_a_position_is_marked_at_what_its_sale_would_bring(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.90"))
    manifold.clock.advance_without_waking(1)
    (position,) = (await writer.account()).positions
    # With nobody else trading, a sale brings back what was paid: the round trip of v061.
    assert position.mark is not None
    assert position.shares * position.mark == pytest.approx(50.0)
    assert position.paid == pytest.approx(50.0)
    assert position.ref == question.ref


@pytest.mark.parametrize("is_known", [True, False])
async def test_shares_of_a_market_that_cannot_be_read_keep_their_worth(
    manifold: ManifoldFixture, *, is_known: bool
) -> None:
    market, writer = manifold.world.add_market(), manifold.writer()
    await seal_and_submit(writer, await manifold.question(market), order_of(market, amount=50.0, limit="0.90"))
    manifold.clock.advance_without_waking(1)
    if is_known:
        await writer.account()
        manifold.clock.advance_without_waking(301)
    manifold.venue.faults.schedule(RequestFault.PAGE_BEFORE, path=f"/v0/market/{market.id}")
    # With nobody else trading, their last price and their cost are the same.
    account = await writer.account()
    assert account.equity == pytest.approx(1000.0)
    assert account.positions[0].is_unpriced is not is_known


async def test_an_order_that_is_filled_while_the_account_is_read_counts_once(manifold: ManifoldFixture) -> None:
    market, bob = manifold.world.add_market(), manifold.world.add_user("bob")
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=500.0, limit="0.55"))
    manifold.clock.advance_without_waking(1)
    before = await writer.account()

    def fill(body: Any) -> Any:
        manifold.world.trade(bob, market, WantedTrade(outcome="NO", amount=100.0, limit=0.5))
        return body

    manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=fill), path="/v0/me")
    found = await writer.account()
    assert found.orders[0].reserves < before.orders[0].reserves - 50.0
    assert found.cash == pytest.approx(before.cash)


async def test_an_account_that_changes_all_the_time_is_not_read(manifold: ManifoldFixture) -> None:
    def spend(body: Any) -> Any:
        return body | {"balance": body["balance"] - len(manifold.asked("/v0/me"))}

    for _ in range(9):
        manifold.venue.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=spend), path="/v0/me")
    with pytest.raises(ServiceUnavailableError, match="changed each time"):
        await manifold.writer().account()


async def test_a_holding_that_is_listed_twice_is_one(manifold: ManifoldFixture) -> None:
    market, writer = manifold.world.add_market(), manifold.writer()
    await seal_and_submit(writer, await manifold.question(market), order_of(market, amount=50.0, limit="0.90"))
    manifold.clock.advance_without_waking(1)
    manifold.world.lend(manifold.ada, market, 20.0, margin=False)
    manifold.venue.faults.schedule(RequestFault.DUPLICATED, path="/v0/get-user-contract-metrics")
    found = await writer.account()
    assert (len(found.positions), found.loan) == (1, 20.0)
    assert found.equity == pytest.approx(1000.0)


async def test_what_the_venue_lent_on_a_position_is_not_its_worth(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    writer = manifold.writer()
    await seal_and_submit(writer, await manifold.question(market), order_of(market, amount=50.0, limit="0.90"))
    manifold.clock.advance_without_waking(1)

    before = await writer.account()
    manifold.world.lend(manifold.ada, market, 20.0, margin=False)
    manifold.world.lend(manifold.ada, market, 5.0, margin=True)
    after = await writer.account()
    (position,) = after.positions
    assert position.mark is not None
    assert position.shares * position.mark == pytest.approx(50.0)
    # It is in the cash, and no gain.
    assert after.cash - before.cash == pytest.approx(25.0)
    assert after.loan == pytest.approx(25.0)
    assert after.equity == pytest.approx(before.equity)


async def test_positions_of_answers_name_their_question_and_option(manifold: ManifoldFixture) -> None:
    one = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    many = manifold.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
    writer = manifold.writer()
    asked = await manifold.question(many, many.answers[1])
    await seal_and_submit(writer, asked, order_of(many, answer=many.answers[1], limit="0.60"))
    await seal_and_submit(
        writer, await manifold.question(one), order_of(one, answer=one.answers[2], option="Cid"), "i2"
    )
    manifold.clock.advance_without_waking(1)
    found = {position.contract: position for position in (await writer.account()).positions}
    assert set(found) == {f"{many.id}/{many.answers[1].id}", f"{one.id}/{one.answers[2].id}"}
    chosen = found[f"{one.id}/{one.answers[2].id}"]
    assert (str(chosen.ref), chosen.option) == (f"manifold:{one.id}", "Cid")
    assert (found[asked.ref.key].ref, found[asked.ref.key].option) == (asked.ref, "")


async def test_what_was_paid_out_is_no_position(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.90"))
    manifold.world.resolve(market, "YES")
    manifold.clock.advance_without_waking(1)
    before = len(manifold.asked("/v0/market/"))
    account = await writer.account()
    assert account.positions == ()
    assert account.cash > 1000.0
    # However many there were, none of them is read again.
    assert len(manifold.asked("/v0/market/")) == before


async def test_an_account_that_cannot_be_read_whole_is_an_error(manifold: ManifoldFixture) -> None:
    manifold.venue.faults.schedule(RequestFault.PAGE_BEFORE, path="/v0/get-user-contract-metrics")
    with pytest.raises(MalformedDataError):
        await manifold.writer().account()


async def test_orders_are_cancelled_one_or_all(manifold: ManifoldFixture) -> None:
    first, second = manifold.world.add_market(), manifold.world.add_market()
    writer = manifold.writer()
    for number, market in enumerate((first, second)):
        question = await manifold.question(market)
        await seal_and_submit(writer, question, order_of(market, amount=100.0, limit="0.51"), f"i{number}")
    ids = [order.id for order in (await writer.account()).orders]
    assert len(ids) == 2
    assert list(await writer.cancel(ids[:1])) == ids[:1]
    manifold.clock.advance_without_waking(1)
    # Cancelling what rests no more is no error.
    assert list(await writer.cancel(ids[:1])) == ids[:1]
    manifold.clock.advance_without_waking(1)
    assert list(await writer.cancel(None)) == ids[1:]
    manifold.clock.advance_without_waking(1)
    assert (await writer.account()).orders == ()


async def test_an_order_that_could_not_be_cancelled_is_not_told_of(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    writer = manifold.writer()
    await seal_and_submit(writer, await manifold.question(market), order_of(market, amount=100.0, limit="0.51"))
    ids = [order.id for order in (await writer.account()).orders]
    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ERROR_BEFORE, status=503), method="POST", path="/v0/bet/cancel"
    )
    manifold.clock.advance_without_waking(1)
    assert list(await writer.cancel(ids)) == []


async def test_an_order_whose_cancellation_has_no_answer_holds_up_no_other(manifold: ManifoldFixture) -> None:
    writer = manifold.writer()
    for number in range(3):
        market = manifold.world.add_market()
        await seal_and_submit(
            writer, await manifold.question(market), order_of(market, amount=100.0, limit="0.51"), f"i{number}"
        )
    first, *others = [order.id for order in (await writer.account()).orders]
    dropped = FaultDetails(fault=RequestFault.DROPPED_BEFORE)
    manifold.venue.faults.schedule(dropped, method="POST", path=f"/v0/bet/cancel/{first}")
    manifold.clock.advance_without_waking(1)
    assert list(await writer.cancel([first, *others])) == others
    manifold.clock.advance_without_waking(1)
    assert [order.id for order in (await writer.account()).orders] == [first]


async def test_an_answer_that_was_paid_out_is_no_position_while_its_market_is_open(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", answers=THREE)
    writer = manifold.writer()
    for number in (0, 1):
        asked = await manifold.question(market, market.answers[number])
        order = order_of(market, answer=market.answers[number], limit="0.70")
        await seal_and_submit(writer, asked, order, f"i{number}")
    manifold.world.resolve(market, "YES", answer=market.answers[0])
    manifold.clock.advance_without_waking(1)
    found = [position.contract for position in (await writer.account()).positions]
    assert found == [f"{market.id}/{market.answers[1].id}"]
