"""Writing: what is sent, what is made of the answer, and how a bet without one is found again."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bot.api import IntentAction, IntentState, Leg, Rejected, Unauthorized
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.venues.manifold_math import Want
from bot.testing.venues.manifold_schemas import BET
from plugins.manifold.bets import DEADLINE_S, SETTLE_S
from plugins.manifold.state import milliseconds
from tests.intents import batch_of, intent_of, placed, sealed
from tests.plugins.manifold.stand import Stand, bodies, order_of

THREE = (("Ann", 0.5), ("Bob", 0.3), ("Cid", 0.2))


# MF-S: submitting


async def test_mf_s1_only_fields_of_the_schema_are_sent_and_none_is_null(stand: Stand) -> None:
    market = stand.world.add_market()
    answered = stand.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    writer = stand.writer()
    await placed(writer, await stand.question(market), order_of(market))
    await placed(
        writer, await stand.question(answered), order_of(answered, answer=answered.answers[0], option="Ann"), "i2"
    )
    first, second = bodies(stand.asked("/v0/bet", "POST"))
    assert set(first) == {"contractId", "amount", "outcome", "limitProb", "expiresAt"}
    assert set(second) == {*first, "answerId"}
    assert set(second) <= set(BET)
    assert None not in {*first.values(), *second.values()}
    assert len(stand.venue.ledger.effects("bet", account=stand.ada.id)) == 2


@pytest.mark.parametrize(
    ("limit", "fine"),
    [
        *(("0.5", True), ("0.57", True), ("0.01", True), ("0.99", True)),
        *(("0.555", False), ("0.995", False), ("0.001", False), ("1", False), ("0", False), ("much", False)),
    ],
)
async def test_mf_s2_limits_are_whole_percents(stand: Stand, limit: str, fine: bool) -> None:  # noqa: FBT001
    market = stand.world.add_market(prob=0.005)
    question, order = await stand.question(market), order_of(market)
    shown = min(max(float(limit), 0.001), 0.999) if limit != "much" else 0.5
    order = replace(order, limit=shown, terms={**order.terms, "limit_prob": limit})
    batch = batch_of(question, intent_of(question, order))
    if fine:
        (made,) = await stand.writer().seal(batch)
        assert json.loads(made.body)["limitProb"] == float(limit)
    else:
        with pytest.raises(Rejected, match="whole percent"):
            await stand.writer().seal(batch)


async def test_mf_s2_a_number_takes_finer_limits(stand: Stand) -> None:
    market = stand.world.add_numeric("How many?", 0.0, 100.0)
    question = await stand.question(market)
    _, receipt = await placed(stand.writer(), question, order_of(market, limit="0.555"))
    assert receipt.state is IntentState.ACKED
    assert bodies(stand.asked("/v0/bet", "POST"))[0]["limitProb"] == 0.555


async def test_mf_s3_and_s5_every_bet_is_a_limit_order_with_an_expiry_ahead(stand: Stand) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)
    batch, _ = await placed(stand.writer(order_lifetime_s=90), question, order_of(market))
    (body,) = bodies(stand.asked("/v0/bet", "POST"))
    assert "expiresMillisAfter" not in body
    # The last milliseconds make it unique.
    assert 0 <= body["expiresAt"] - (milliseconds(stand.clock.now()) + 90_000) < 1_000
    assert body["limitProb"] == 0.6
    assert batch.sealed[0].fence is not None
    assert milliseconds(batch.sealed[0].fence) == body["expiresAt"] + SETTLE_S * 1000


async def test_expiries_of_one_account_are_never_the_same(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    tags = set()
    for number in range(20):
        (made,) = await writer.seal(batch_of(question, intent_of(question, order_of(market), f"i{number}")))
        tags.add(json.loads(made.body)["expiresAt"])
    assert len(tags) == 20


async def test_a_limit_that_is_not_the_decided_one_is_refused(stand: Stand) -> None:
    market = stand.world.add_market()
    question, order = await stand.question(market), order_of(market)
    batch = batch_of(question, intent_of(question, replace(order, limit=0.55)))
    with pytest.raises(Rejected, match=r"not the 0\.5500 that was decided on"):
        await stand.writer().seal(batch)


@pytest.mark.parametrize(("amount", "fine"), [(0.99, False), (1.0, True), (1.25, True)])
async def test_a_bet_is_at_least_one_mana(stand: Stand, amount: float, fine: bool) -> None:  # noqa: FBT001
    market = stand.world.add_market()
    question = await stand.question(market)
    batch = batch_of(question, intent_of(question, order_of(market, amount=amount)))
    if fine:
        assert len(await stand.writer().seal(batch)) == 1
    else:
        with pytest.raises(Rejected, match="stake"):
            await stand.writer().seal(batch)


async def test_mf_s4_bets_go_one_at_a_time_and_wait_at_least_30_seconds(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    intents = [intent_of(question, order_of(market, amount=5.0), f"i{number}") for number in range(4)]
    receipts = await writer.submit(await sealed(writer, question, *intents))
    assert [receipt.state for receipt in receipts] == [IntentState.ACKED] * 4
    assert stand.venue.judge.most_at_once[stand.ada.id] == 1
    assert DEADLINE_S >= 30.0


async def test_mf_s7_a_part_that_rests_is_success_and_no_second_bet(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch, receipt = await placed(writer, question, order_of(market, amount=500.0, limit="0.55"))
    (bet,) = [one for one in stand.venue.state.bets.values() if one.user == stand.ada.id]
    assert not bet.is_filled
    assert receipt.state is IntentState.ACKED
    assert receipt.reference == bet.id
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(bet.amount)
    assert bet.amount < 500.0
    (again,) = await writer.standing(batch)
    assert (again.state, again.fills) == (IntentState.ACKED, receipt.fills)
    assert len(stand.asked("/v0/bet", "POST")) == 1


async def test_what_is_filled_later_is_added_to_what_was_filled_at_once(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch, receipt = await placed(writer, question, order_of(market, amount=100.0, limit="0.55"))
    bob = stand.world.add_user("bob")
    stand.world.trade(bob, market, Want(outcome="NO", amount=20.0, limit=0.5))
    stand.clock.pass_unnoticed(5)
    (again,) = await writer.standing(batch)
    (bet,) = [one for one in stand.venue.state.bets.values() if one.user == stand.ada.id and one.limit]
    assert again.fills[: len(receipt.fills)] == receipt.fills
    assert len(again.fills) > len(receipt.fills)
    assert sum(fill.shares for fill in again.fills) == pytest.approx(bet.shares)
    assert -sum(fill.cash for fill in again.fills) == pytest.approx(bet.amount)


async def test_the_parts_of_a_bet_where_one_answer_wins_add_up_to_it(stand: Stand) -> None:
    market = stand.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    order = order_of(market, answer=market.answers[0], amount=10.0, limit="0.60", option="Ann")
    _, receipt = await placed(stand.writer(), await stand.question(market), order)
    # v067 of the vectors, on pools of another depth: spent in full, for more shares than one pool gives.
    (bet,) = [one for one in stand.venue.state.bets.values() if one.user == stand.ada.id and not one.is_redemption]
    assert -sum(fill.cash for fill in receipt.fills) == pytest.approx(10.0)
    assert sum(fill.shares for fill in receipt.fills) == pytest.approx(bet.shares)
    assert all(0.0 <= fill.price <= 1.0 and fill.shares > 0.0 for fill in receipt.fills)


async def test_mf_s8_own_opposite_orders_are_cancelled_before_a_bet(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    resting = order_of(market, amount=50.0, limit="0.55", leg=Leg.NO)
    await placed(writer, question, resting)
    old = next(one for one in stand.venue.state.bets.values() if one.user == stand.ada.id)
    assert not old.is_filled
    # The plan does not know of it; the writer looks.
    _, receipt = await placed(writer, question, order_of(market, amount=50.0, limit="0.65"), "i2")
    assert receipt.state is IntentState.ACKED
    assert old.is_cancelled
    assert receipt.also == (f"cancel {old.id}: 200",)
    posts = [one.path for one in stand.venue.requests if one.method == "POST"]
    assert posts == ["/v0/bet", f"/v0/bet/cancel/{old.id}", "/v0/bet"]
    matched = {fill["matchedBetId"] for fill in stand.venue.state.bets[receipt.reference].fills}
    assert old.id not in matched


async def test_mf_s8_where_one_answer_wins_own_orders_on_the_others_are_cancelled(stand: Stand) -> None:
    market = stand.world.add_market(type="MULTIPLE_CHOICE", sums_to_one=True, answers=THREE)
    question, writer = await stand.question(market), stand.writer()
    ann, bob, _ = market.answers
    await placed(writer, question, order_of(market, answer=bob, amount=30.0, limit="0.25", option="Bob"))
    (old,) = [one for one in stand.venue.state.bets.values() if one.user == stand.ada.id and one.limit]
    await placed(writer, question, order_of(market, answer=ann, amount=30.0, limit="0.60", option="Ann"), "i2")
    assert old.is_cancelled


async def test_mf_s8_without_a_list_of_own_orders_nothing_is_bet(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(market)))
    stand.venue.faults.next(Fault.ERROR_BEFORE, method="GET", path="/v0/bets")
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert stand.asked("/v0/bet", "POST") == []


async def test_mf_s12_a_dry_run_is_asked_first_where_wanted_and_never_booked(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer(dry_run=True)
    _, receipt = await placed(writer, question, order_of(market))
    assert [body.get("dryRun") for body in bodies(stand.asked("/v0/bet", "POST"))] == [True, None]
    assert receipt.reference != "dry-run"
    assert receipt.also == ("dry run: 200",)
    # The market moves away between the plan and the order: what is planned is not to be had any more.
    batch = await sealed(writer, question, intent_of(question, order_of(market, limit="0.70", expected=0.6), "i2"))
    stand.world.move(market, 0.69)
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert "dry run" in receipt.detail
    assert len(stand.venue.ledger.effects("bet", account=stand.ada.id)) == 1


async def test_mf_s12_the_answer_of_a_dry_run_to_a_bet_is_no_bet(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()

    def rehearsed(answer: Any) -> Any:
        return {**answer, "betId": "dry-run"}

    stand.venue.faults.next(Trouble(fault=Fault.ALTERED, alter=rehearsed), method="POST", path="/v0/bet")
    _, receipt = await placed(writer, question, order_of(market))
    assert (receipt.state, receipt.fills) == (IntentState.UNKNOWN, ())


# What is not sealed


async def test_mf_r5_a_text_that_changed_since_the_forecast_is_not_bet_on(stand: Stand) -> None:
    market = stand.world.add_market(description="Rain at Orly.")
    question = await stand.question(market)
    stand.clock.pass_unnoticed(1)
    stand.world.edit(market, description="Rain at Orly. Snow counts.")
    [made] = await stand.writer().seal(batch_of(question, intent_of(question, order_of(market))))
    assert (made.body, made.question and made.question.background) == ("", "Rain at Orly. Snow counts.")


@pytest.mark.parametrize("end", ["close", "resolve", "forget"])
async def test_a_market_that_ended_is_not_bet_on(stand: Stand, end: str) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)
    stand.clock.pass_unnoticed(1)
    if end == "close":
        stand.world.close(market)
    elif end == "resolve":
        stand.world.resolve(market, "NO")
    else:
        del stand.venue.state.markets[market.id]
    with pytest.raises(Rejected):
        await stand.writer().seal(batch_of(question, intent_of(question, order_of(market))))
    assert [one for one in stand.venue.requests if one.method == "POST"] == []


async def test_cash_is_never_bet(stand: Stand) -> None:
    market = stand.world.add_market(token="CASH")  # noqa: S106 - a currency
    question = await stand.question(market)
    with pytest.raises(Rejected, match="another currency"):
        await stand.writer().seal(batch_of(question, intent_of(question, order_of(market))))


async def test_forecasts_and_withdrawals_are_not_taken(stand: Stand) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)
    intent = intent_of(question, order_of(market), action=IntentAction.FORECAST)
    with pytest.raises(Rejected, match="takes orders"):
        await stand.writer().seal(batch_of(question, intent))


async def test_without_a_key_nothing_is_sealed_and_the_setting_is_named(stand: Stand) -> None:
    market = stand.world.add_market()
    question = await stand.question(market)
    with pytest.raises(Unauthorized, match="no key: make one"):
        await stand.writer(key=None).seal(batch_of(question, intent_of(question, order_of(market))))


async def test_what_was_sealed_too_long_ago_is_not_sent(stand: Stand) -> None:
    market = stand.world.add_market()
    question, writer = await stand.question(market), stand.writer()
    batch = await sealed(writer, question, intent_of(question, order_of(market)))
    stand.clock.pass_unnoticed(56)
    (receipt,) = await writer.submit(batch)
    assert receipt.state is IntentState.ABSENT
    assert stand.asked("/v0/bet", "POST") == []
