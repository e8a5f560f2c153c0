"""Writing: what is sent, what is made of the answer, and how a bet without one is found again."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.api import (
    AuthenticationError,
    ContractSide,
    HttpRequest,
    HttpResponse,
    IntentAction,
    IntentState,
    RequestRejectedError,
    VenueWriterContext,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold_market_maker import WantedTrade
from bot.simulator.venues.manifold_request_schemas import BET
from bot.testing.http import FakeWriteClient
from plugins.manifold.market_state import to_milliseconds
from plugins.manifold.write_requests import SETTLEMENT_DELAY_S, WRITE_DEADLINE_S
from plugins.manifold.writer import ManifoldWriter
from tests.order_intents import make_batch, make_intent, seal_and_submit, seal_batch
from tests.plugins.manifold.fixture import ManifoldFixture, bodies, order_of

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


# MF-S: submitting


async def test_mf_s1_only_fields_of_the_schema_are_sent_and_none_is_null(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    answered = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    writer = manifold.writer()
    await seal_and_submit(writer, await manifold.question(market), order_of(market))
    await seal_and_submit(
        writer, await manifold.question(answered), order_of(answered, answer=answered.answers[0], option="Ann"), "i2"
    )
    first, second = bodies(manifold.asked("/v0/bet", "POST"))
    assert set(first) == {"contractId", "amount", "outcome", "limitProb", "expiresAt"}
    assert set(second) == {*first, "answerId"}
    assert set(second) <= set(BET)
    assert None not in {*first.values(), *second.values()}
    assert len(manifold.venue.ledger.effects("bet", account=manifold.ada.id)) == 2


@pytest.mark.parametrize(
    ("limit", "fine"),
    [
        *(("0.5", True), ("0.57", True), ("0.01", True), ("0.99", True)),
        *(("0.555", False), ("0.995", False), ("0.001", False), ("1", False), ("0", False), ("much", False)),
    ],
)
async def test_mf_s2_limits_are_whole_percents(manifold: ManifoldFixture, limit: str, fine: bool) -> None:  # noqa: FBT001
    market = manifold.world.add_market(prob=0.005)
    question, order = await manifold.question(market), order_of(market)
    shown = min(max(float(limit), 0.001), 0.999) if limit != "much" else 0.5
    order = replace(order, limit=shown, terms={**order.terms, "limit_prob": limit})
    batch = make_batch(question, make_intent(question, order))
    if fine:
        (made,) = await manifold.writer().seal_requests(batch)
        assert json.loads(made.body)["limitProb"] == float(limit)
    else:
        with pytest.raises(RequestRejectedError, match="whole percent"):
            await manifold.writer().seal_requests(batch)


async def test_mf_s2_a_number_takes_finer_limits(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_numeric("How many?", 0.0, 100.0)
    question = await manifold.question(market)
    _, receipt = await seal_and_submit(manifold.writer(), question, order_of(market, limit="0.555"))
    assert receipt.state is IntentState.ACKED
    assert bodies(manifold.asked("/v0/bet", "POST"))[0]["limitProb"] == 0.555


async def test_mf_s3_and_s5_every_bet_is_a_limit_order_with_an_expiry_ahead(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    batch, _ = await seal_and_submit(manifold.writer(order_lifetime_s=90), question, order_of(market))
    (body,) = bodies(manifold.asked("/v0/bet", "POST"))
    assert "expiresMillisAfter" not in body
    # The last milliseconds make it unique.
    assert 0 <= body["expiresAt"] - (to_milliseconds(manifold.clock.now()) + 90_000) < 1_000
    assert body["limitProb"] == 0.6
    assert batch.sealed[0].fence is not None
    assert to_milliseconds(batch.sealed[0].fence) == body["expiresAt"] + SETTLEMENT_DELAY_S * 1000


async def test_expiries_of_one_account_are_never_the_same(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    tags = set()
    for number in range(20):
        (made,) = await writer.seal_requests(
            make_batch(question, make_intent(question, order_of(market), f"i{number}"))
        )
        tags.add(json.loads(made.body)["expiresAt"])
    assert len(tags) == 20


async def test_a_limit_that_is_not_the_decided_one_is_refused(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, order = await manifold.question(market), order_of(market)
    batch = make_batch(question, make_intent(question, replace(order, limit=0.55)))
    with pytest.raises(RequestRejectedError, match=r"not the 0\.5500 that was decided on"):
        await manifold.writer().seal_requests(batch)


@pytest.mark.parametrize(("amount", "fine"), [(0.99, False), (1.0, True), (1.25, True)])
async def test_a_bet_is_at_least_one_mana(manifold: ManifoldFixture, amount: float, fine: bool) -> None:  # noqa: FBT001
    market = manifold.world.add_market()
    question = await manifold.question(market)
    batch = make_batch(question, make_intent(question, order_of(market, amount=amount)))
    if fine:
        assert len(await manifold.writer().seal_requests(batch)) == 1
    else:
        with pytest.raises(RequestRejectedError, match="stake"):
            await manifold.writer().seal_requests(batch)


async def test_mf_s4_bets_go_one_at_a_time_and_wait_at_least_30_seconds(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    intents = [make_intent(question, order_of(market, amount=5.0), f"i{number}") for number in range(4)]
    receipts = await writer.submit(await seal_batch(writer, question, *intents))
    assert [receipt.state for receipt in receipts] == [IntentState.ACKED] * 4
    assert manifold.venue.rate_limit_checker.most_at_once[manifold.ada.id] == 1
    assert WRITE_DEADLINE_S >= 30.0


async def test_mf_s7_a_part_that_rests_is_success_and_no_second_bet(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch, receipt = await seal_and_submit(writer, question, order_of(market, amount=500.0, limit="0.55"))
    (bet,) = [one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id]
    assert not bet.is_filled
    assert receipt.state is IntentState.ACKED
    assert receipt.reference == bet.id
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(bet.amount)
    assert bet.amount < 500.0
    (again,) = await writer.read_submissions(batch)
    assert (again.state, again.fills) == (IntentState.ACKED, receipt.fills)
    assert len(manifold.asked("/v0/bet", "POST")) == 1


async def test_what_is_filled_later_is_added_to_what_was_filled_at_once(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch, receipt = await seal_and_submit(writer, question, order_of(market, amount=100.0, limit="0.55"))
    bob = manifold.world.add_user("bob")
    manifold.world.trade(bob, market, WantedTrade(outcome="NO", amount=20.0, limit=0.5))
    manifold.clock.advance_without_waking(5)
    (again,) = await writer.read_submissions(batch)
    (bet,) = [one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id and one.limit]
    assert again.fills[: len(receipt.fills)] == receipt.fills
    assert len(again.fills) > len(receipt.fills)
    assert sum(fill.shares for fill in again.fills) == pytest.approx(bet.shares)
    assert -sum(fill.cash for fill in again.fills) == pytest.approx(bet.amount)


async def test_the_parts_of_a_bet_where_one_answer_wins_add_up_to_it(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    order = order_of(market, answer=market.answers[0], amount=10.0, limit="0.60", option="Ann")
    _, receipt = await seal_and_submit(manifold.writer(), await manifold.question(market), order)
    # v067 of the vectors, on pools of another depth: spent in full, for more shares than one pool gives.
    (bet,) = [
        one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id and not one.is_redemption
    ]
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(10.0)
    assert sum(fill.shares for fill in receipt.fills) == pytest.approx(bet.shares)
    assert all(0.0 <= fill.price <= 1.0 and fill.shares > 0.0 for fill in receipt.fills)


async def test_mf_s8_nothing_is_bet_while_an_own_opposite_order_cannot_be_cancelled(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.55", leg=ContractSide.NO))
    fault = FaultDetails(fault=RequestFault.ERROR_BEFORE, status=500)
    manifold.venue.faults.schedule(fault, method="POST", path="/v0/bet/cancel")
    _, receipt = await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.60"), "i2")
    assert (receipt.state, "could not be cancelled" in receipt.detail) == (IntentState.ABSENT, True)
    assert [one.path for one in manifold.asked("/v0/bet", "POST")] == ["/v0/bet", "/v0/bet/cancel/bet000001"]


async def test_mf_s8_own_opposite_orders_are_cancelled_before_a_bet(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    resting = order_of(market, amount=50.0, limit="0.55", leg=ContractSide.NO)
    await seal_and_submit(writer, question, resting)
    old = next(one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id)
    assert not old.is_filled
    # The plan does not know of it; the writer looks.
    _, receipt = await seal_and_submit(writer, question, order_of(market, amount=50.0, limit="0.65"), "i2")
    assert receipt.state is IntentState.ACKED
    assert old.is_cancelled
    assert receipt.other_writes == (f"cancel {old.id}: 200",)
    posts = [one.path for one in manifold.venue.requests if one.method == "POST"]
    assert posts == ["/v0/bet", f"/v0/bet/cancel/{old.id}", "/v0/bet"]
    matched = {fill["matchedBetId"] for fill in manifold.venue.state.bets[receipt.reference].fills}
    assert old.id not in matched


@pytest.mark.parametrize("is_named", [False, True])
async def test_mf_s8_an_own_order_that_is_not_in_the_way_is_cancelled_only_where_the_plan_says_so(
    manifold: ManifoldFixture, *, is_named: bool
) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    _, resting = await seal_and_submit(writer, question, order_of(market, amount=500.0, limit="0.55"))
    old = manifold.venue.state.bets[resting.reference]
    spent = f"{old.amount:g} mana for {old.shares:g} YES"
    assert resting.detail == f"{spent}, of 500 wanted, P(YES) 0.5500 after it"
    # One that does not rest any more has nothing to be cancelled.
    cancels = (old.id, "long-gone") if is_named else ()
    _, receipt = await seal_and_submit(writer, question, order_of(market, limit="0.65", cancels=cancels), "i2")
    assert (receipt.state, old.is_cancelled) == (IntentState.ACKED, is_named)
    assert receipt.other_writes == ((f"cancel {old.id}: 200",) if is_named else ())
    assert "wanted" not in receipt.detail


async def test_only_cancellations_are_marked_as_such_because_they_are_sent_while_all_is_halted(
    manifold: ManifoldFixture,
) -> None:
    def answer_anything(_: HttpRequest) -> HttpResponse:
        return HttpResponse(status=200, body=b'{"betId": "dry-run"}')

    market = manifold.world.add_market()
    wire = FakeWriteClient(answer_anything)
    place = VenueWriterContext(clock=manifold.clock, http=manifold.http, folder=manifold.folder, wire=wire)
    writer = ManifoldWriter(manifold.with_settings(dry_run=True), place)
    await seal_and_submit(writer, await manifold.question(market), order_of(market))
    writer = ManifoldWriter(manifold.with_settings(dry_run=False), place)
    await seal_and_submit(writer, await manifold.question(market), order_of(market))
    await writer.cancel(["b1"])
    marks = [(one.url.rpartition("/v0/")[2], one.is_cancellation) for one in wire.sent]
    assert marks == [("bet", False), ("bet", False), ("bet/cancel/b1", True)]


async def test_mf_s8_where_one_answer_wins_own_orders_on_the_others_are_cancelled(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    question, writer = await manifold.question(market), manifold.writer()
    ann, bob, _ = market.answers
    await seal_and_submit(writer, question, order_of(market, answer=bob, amount=30.0, limit="0.25", option="Bob"))
    (old,) = [one for one in manifold.venue.state.bets.values() if one.user == manifold.ada.id and one.limit]
    await seal_and_submit(writer, question, order_of(market, answer=ann, amount=30.0, limit="0.60", option="Ann"), "i2")
    assert old.is_cancelled
    listed = await writer.list_writes(manifold.clock.now() - timedelta(hours=1))
    assert [one.contract for one in listed] == [f"{market.id}/{answer.id}" for answer in (bob, ann)]


async def test_mf_s8_without_a_list_of_own_orders_nothing_is_bet(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(market)))
    manifold.venue.faults.schedule(RequestFault.ERROR_BEFORE, method="GET", path="/v0/bets")
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert manifold.asked("/v0/bet", "POST") == []


async def test_mf_s12_a_dry_run_is_asked_first_where_wanted_and_never_booked(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer(dry_run=True)
    _, receipt = await seal_and_submit(writer, question, order_of(market))
    assert [body.get("dryRun") for body in bodies(manifold.asked("/v0/bet", "POST"))] == [True, None]
    assert receipt.reference != "dry-run"
    assert receipt.other_writes == ("dry run: 200",)
    # The market moves away between the plan and the order: what is planned is no longer available.
    batch = await seal_batch(
        writer, question, make_intent(question, order_of(market, limit="0.70", expected=0.6), "i2")
    )
    manifold.world.move_price(market, 0.69)
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert "dry run" in receipt.detail
    assert len(manifold.venue.ledger.effects("bet", account=manifold.ada.id)) == 1


async def test_mf_s12_the_answer_of_a_dry_run_to_a_bet_is_no_bet(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()

    def rehearsed(answer: Any) -> Any:
        return {**answer, "betId": "dry-run"}

    manifold.venue.faults.schedule(
        FaultDetails(fault=RequestFault.ALTERED, alter=rehearsed), method="POST", path="/v0/bet"
    )
    _, receipt = await seal_and_submit(writer, question, order_of(market))
    assert (receipt.state, receipt.fills) == (IntentState.UNKNOWN, ())


# What is not sealed


async def test_mf_r5_a_text_that_changed_since_the_forecast_is_not_bet_on(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(description="Rain at Orly.")
    question = await manifold.question(market)
    manifold.clock.advance_without_waking(1)
    manifold.world.edit(market, description="Rain at Orly. Snow counts.")
    [made] = await manifold.writer().seal_requests(make_batch(question, make_intent(question, order_of(market))))
    assert (made.body, made.question and made.question.background) == ("", "Rain at Orly. Snow counts.")


@pytest.mark.parametrize("end", ["close", "resolve", "forget"])
async def test_a_market_that_ended_is_not_bet_on(manifold: ManifoldFixture, end: str) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    manifold.clock.advance_without_waking(1)
    if end == "close":
        manifold.world.close(market)
    elif end == "resolve":
        manifold.world.resolve(market, "NO")
    else:
        del manifold.venue.state.markets[market.id]
    with pytest.raises(RequestRejectedError):
        await manifold.writer().seal_requests(make_batch(question, make_intent(question, order_of(market))))
    assert [one for one in manifold.venue.requests if one.method == "POST"] == []


async def test_cash_is_never_bet(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market(token="CASH")  # noqa: S106 - a currency
    question = await manifold.question(market)
    with pytest.raises(RequestRejectedError, match="another currency"):
        await manifold.writer().seal_requests(make_batch(question, make_intent(question, order_of(market))))


async def test_forecasts_and_withdrawals_are_not_taken(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    intent = make_intent(question, order_of(market), action=IntentAction.FORECAST)
    with pytest.raises(RequestRejectedError, match="accepts orders"):
        await manifold.writer().seal_requests(make_batch(question, intent))


async def test_without_a_key_nothing_is_sealed_and_the_setting_is_named(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question = await manifold.question(market)
    with pytest.raises(AuthenticationError, match="no key: create one"):
        await manifold.writer(key=None).seal_requests(make_batch(question, make_intent(question, order_of(market))))


async def test_what_was_sealed_too_long_ago_is_not_sent(manifold: ManifoldFixture) -> None:
    market = manifold.world.add_market()
    question, writer = await manifold.question(market), manifold.writer()
    batch = await seal_batch(writer, question, make_intent(question, order_of(market)))
    manifold.clock.advance_without_waking(56)
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert manifold.asked("/v0/bet", "POST") == []
