from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.domain.order import Leg, Order, Side
from bot.domain.permission import Exposure, Usage
from bot.domain.question import QuestionRef
from bot.domain.submission import IntentState, Mode, Receipt
from bot.store.codec import stamp
from bot.store.stops import Stop, add, resume
from bot.store.usage import Counted
from tests.unit.store.conftest import NOON, Scribe

RAIN = Counted(
    ref=QuestionRef("lantern", "rain"),
    account="us",
    paper=True,
    exposure=Exposure(event="June", creator="someone", category="weather"),
)
HOUR = timedelta(hours=1)


async def buy(scribe: Scribe, key: str = "rain", *, cost: float = 10.0, at: datetime = NOON, **changes: Any) -> str:
    question = await scribe.ask(key, batch=None)
    send = scribe.order(await scribe.forecast(question), cost=cost)
    send = replace(send, intent=replace(send.intent, **changes)) if changes else send
    await scribe.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=at)
    return send.intent.id


async def usage(scribe: Scribe, counted: Counted = RAIN, *, at: datetime = NOON) -> Usage:
    return await scribe.ledger.leave.usage(counted, now=at)


async def settle(scribe: Scribe, intent: str, state: IntentState, **changes: Any) -> None:
    await scribe.ledger.submissions.begin_attempt([intent], at=NOON)
    await scribe.ledger.submissions.settle([Receipt(intent=intent, state=state, **changes)], at=NOON)


async def read_equity(scribe: Scribe, *readings: tuple[datetime, float]) -> None:
    def add_all(database: Any) -> None:
        for at, equity in readings:
            row = {"venue": "lantern", "account": "us", "at": stamp(at), "currency": "COIN", "cash": equity}
            database["reading"].insert({**row, "equity": equity, "body": "{}"})

    await scribe.ledger.leave.write(add_all)


async def test_where_nothing_was_bought_nothing_is_at_stake(scribe: Scribe) -> None:
    assert await usage(scribe) == Usage()


async def test_an_order_counts_from_the_moment_it_is_planned(scribe: Scribe) -> None:
    await buy(scribe)
    found = await usage(scribe)
    assert (found.question, found.event, found.creator, found.category) == (10.0, 10.0, 10.0, 10.0)
    assert (found.total, found.day, found.hour, found.armed) == (10.0, 10.0, 1, 0.0)


async def test_other_questions_count_with_their_group_and_in_total(scribe: Scribe) -> None:
    await buy(scribe)
    await buy(scribe, "snow", cost=5.0, exposure=Exposure(event="July", creator="someone"))
    found = await usage(scribe)
    assert (found.question, found.event, found.creator, found.category, found.total) == (10.0, 10.0, 15.0, 10.0, 15.0)


async def test_a_group_without_a_name_is_no_group(scribe: Scribe) -> None:
    await buy(scribe, exposure=Exposure())
    found = await usage(scribe, replace(RAIN, exposure=Exposure()))
    assert (found.event, found.creator, found.category, found.total) == (0.0, 0.0, 0.0, 10.0)


async def test_what_is_unknown_or_in_doubt_counts_as_sent(scribe: Scribe) -> None:
    intent = await buy(scribe)
    await settle(scribe, intent, IntentState.UNKNOWN)
    assert (await usage(scribe)).total == 10.0
    await scribe.ledger.submissions.mark(intent, IntentState.IN_DOUBT, detail="", at=NOON)
    assert (await usage(scribe)).total == 10.0


async def test_what_was_refused_costs_nothing_but_was_tried(scribe: Scribe) -> None:
    await settle(scribe, await buy(scribe), IntentState.REFUSED, detail="closed")
    found = await usage(scribe)
    assert (found.total, found.day, found.hour) == (0.0, 0.0, 1)


async def test_what_has_resolved_is_at_stake_no_more_but_was_spent_today(scribe: Scribe) -> None:
    intent = await buy(scribe)
    await settle(scribe, intent, IntentState.ACKED, fills=(scribe.fill("f", shares=20.0),))
    await scribe.resolve(scribe.question(batch=None), 1.0)
    found = await usage(scribe)
    assert (found.total, found.question) == (0.0, 0.0)
    assert found.day > 0.0


async def test_days_and_hours_end(scribe: Scribe) -> None:
    await buy(scribe, at=NOON)
    soon, tomorrow = NOON + HOUR, NOON + timedelta(days=1)
    assert ((await usage(scribe, at=soon)).hour, (await usage(scribe, at=soon)).day) == (0, 10.0)
    found = await usage(scribe, at=tomorrow)
    assert (found.day, found.total) == (0.0, 10.0)


async def test_what_was_bought_under_the_arm_record_counts_from_its_begin(scribe: Scribe) -> None:
    await buy(scribe, at=NOON)
    await buy(scribe, "snow", cost=5.0, at=NOON + HOUR)
    armed = replace(RAIN, since=NOON + timedelta(minutes=30))
    assert (await usage(scribe, armed, at=NOON + HOUR)).armed == 5.0


async def test_paper_and_live_are_counted_apart_and_so_are_accounts(scribe: Scribe) -> None:
    question = await scribe.ask(batch=None)
    send = replace(scribe.order(await scribe.forecast(question)), mode=Mode.LIVE)
    await scribe.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    assert (await usage(scribe)).total == 0.0
    assert (await usage(scribe, replace(RAIN, paper=False))).total == 10.0
    assert (await usage(scribe, replace(RAIN, paper=False, account="others"))).total == 0.0


async def test_what_a_sale_brought_back_is_at_stake_no_more(scribe: Scribe) -> None:
    await settle(scribe, await buy(scribe), IntentState.ACKED, fills=(scribe.fill("f", shares=20.0),))
    spent = (await usage(scribe)).total
    sale = Order(
        contract="market 7",
        leg=Leg.YES,
        side=Side.SELL,
        shares=8.0,
        limit=0.5,
        cost=0.0,
        expected=0.5,
        currency="COIN",
    )
    sold = await buy(scribe, order=sale)
    fill = replace(scribe.fill("g", shares=8.0), cash=4.0)
    await settle(scribe, sold, IntentState.ACKED, fills=(fill,))
    found = await usage(scribe)
    assert found.total == spent - 4.0
    assert (found.question, found.hour) == (spent - 4.0, 2)


async def test_losses_are_those_since_midnight_and_since_the_highest_reading(scribe: Scribe) -> None:
    night = NOON.replace(hour=0)
    await read_equity(
        scribe, (night - 30 * HOUR, 130.0), (night - HOUR, 110.0), (night + HOUR, 120.0), (night + 2 * HOUR, 95.0)
    )
    found = await usage(scribe)
    assert (found.lost_today, found.drawdown) == (15.0, 35.0)


async def test_a_first_reading_of_the_day_is_where_a_day_without_yesterday_begins(scribe: Scribe) -> None:
    await read_equity(scribe, (NOON - 2 * HOUR, 100.0), (NOON - HOUR, 90.0))
    assert (await usage(scribe)).lost_today == 10.0


async def test_gains_are_no_losses(scribe: Scribe) -> None:
    await read_equity(scribe, (NOON - 2 * HOUR, 100.0), (NOON - HOUR, 120.0))
    found = await usage(scribe)
    assert (found.lost_today, found.drawdown) == (0.0, 0.0)


async def test_losses_begin_anew_when_a_person_resumes(scribe: Scribe) -> None:
    await read_equity(scribe, (NOON - 3 * HOUR, 100.0), (NOON - 2 * HOUR, 60.0))
    stop = Stop(venue="lantern", at=NOON - 2 * HOUR, why="lost")
    await scribe.ledger.leave.write(lambda database: add(database, stop))
    await scribe.ledger.leave.write(lambda database: resume(database, "lantern", by="ann", at=NOON - HOUR))
    found = await usage(scribe)
    assert (found.lost_today, found.drawdown) == (0.0, 0.0)
    await read_equity(scribe, (NOON, 55.0))
    found = await usage(scribe)
    assert found.lost_today == 5.0


async def test_what_waits_or_is_under_way_may_still_take_cash(scribe: Scribe) -> None:
    first = await buy(scribe)
    await buy(scribe, "snow", cost=5.0)
    assert await scribe.ledger.leave.waiting("lantern", "us") == 15.0
    await settle(scribe, first, IntentState.ACKED)
    assert await scribe.ledger.leave.waiting("lantern", "us") == 5.0
