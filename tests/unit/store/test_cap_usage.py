from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.core.orders import Account, ContractSide, Order, OrderSide
from bot.core.outcomes import WITHDRAWN_REASONS, BinaryOutcome, Resolution, VoidOutcome
from bot.core.permissions import CapUsage, ExposureGroups
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, IntentState, WriteReceipt
from bot.store.cap_usage import CapUsageScope
from bot.store.permissions import SubmissionHalt, add_halt, resume_submissions
from bot.store.serialization import format_timestamp
from tests.unit.store.conftest import NOON, LedgerFixture

RAIN = CapUsageScope(
    ref=QuestionRef("lantern", "rain"),
    account="us",
    paper=True,
    exposure=ExposureGroups(event="June", creator="someone", category="weather"),
)
HOUR = timedelta(hours=1)


async def buy(
    scribe: LedgerFixture, key: str = "rain", *, cost: float = 10.0, at: datetime = NOON, **changes: Any
) -> str:
    question = await scribe.ask(key, batch=None)
    send = scribe.order(await scribe.forecast(question), cost=cost)
    send = replace(send, intent=replace(send.intent, **changes)) if changes else send
    await scribe.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=at)
    return send.intent.id


async def usage(scribe: LedgerFixture, counted: CapUsageScope = RAIN, *, at: datetime = NOON) -> CapUsage:
    return await scribe.ledger.permissions.usage(counted, now=at)


async def settle(scribe: LedgerFixture, intent: str, state: IntentState, **changes: Any) -> None:
    await scribe.ledger.submissions.begin_attempt([intent], at=NOON)
    await scribe.ledger.submissions.settle([WriteReceipt(intent=intent, state=state, **changes)], at=NOON)


async def read_equity(scribe: LedgerFixture, *readings: tuple[datetime, float]) -> None:
    def add_all(database: Any) -> None:
        for at, equity in readings:
            row = {"venue": "lantern", "account": "us", "at": format_timestamp(at), "currency": "COIN", "cash": equity}
            database["account_reading"].insert({**row, "equity": equity, "body": "{}"})

    await scribe.ledger.permissions.write(add_all)


async def test_where_nothing_was_bought_nothing_is_at_stake(scribe: LedgerFixture) -> None:
    assert await usage(scribe) == CapUsage()


async def test_an_order_counts_from_the_moment_it_is_planned(scribe: LedgerFixture) -> None:
    await buy(scribe)
    found = await usage(scribe)
    assert (found.question, found.event, found.creator, found.category) == (10.0, 10.0, 10.0, 10.0)
    assert (found.total, found.day, found.hour, found.armed) == (10.0, 10.0, 1, 0.0)


async def test_other_questions_count_with_their_group_and_in_total(scribe: LedgerFixture) -> None:
    await buy(scribe)
    await buy(scribe, "snow", cost=5.0, exposure=ExposureGroups(event="July", creator="someone"))
    found = await usage(scribe)
    assert (found.question, found.event, found.creator, found.category, found.total) == (10.0, 10.0, 15.0, 10.0, 15.0)


async def test_a_group_without_a_name_is_no_group(scribe: LedgerFixture) -> None:
    await buy(scribe, exposure=ExposureGroups())
    found = await usage(scribe, replace(RAIN, exposure=ExposureGroups()))
    assert (found.event, found.creator, found.category, found.total) == (0.0, 0.0, 0.0, 10.0)


async def test_what_is_unknown_or_in_doubt_counts_as_sent(scribe: LedgerFixture) -> None:
    intent = await buy(scribe)
    await settle(scribe, intent, IntentState.UNKNOWN)
    assert (await usage(scribe)).total == 10.0
    await scribe.ledger.submissions.move_intent(intent, IntentState.IN_DOUBT, detail="", at=NOON)
    assert (await usage(scribe)).total == 10.0


async def test_what_was_refused_costs_nothing_but_was_tried(scribe: LedgerFixture) -> None:
    await settle(scribe, await buy(scribe), IntentState.REFUSED, detail="closed")
    found = await usage(scribe)
    assert (found.total, found.day, found.hour) == (0.0, 0.0, 1)


async def test_what_has_resolved_is_at_stake_no_more_but_was_spent_today(scribe: LedgerFixture) -> None:
    intent = await buy(scribe)
    await settle(scribe, intent, IntentState.ACKED, fills=(scribe.fill("f", shares=20.0),))
    await scribe.resolve(scribe.question(batch=None), 1.0)
    found = await usage(scribe)
    assert (found.total, found.question) == (0.0, 0.0)
    assert found.day > 0.0


async def test_days_and_hours_end(scribe: LedgerFixture) -> None:
    await buy(scribe, at=NOON)
    soon, tomorrow = NOON + HOUR, NOON + timedelta(days=1)
    assert ((await usage(scribe, at=soon)).hour, (await usage(scribe, at=soon)).day) == (0, 10.0)
    found = await usage(scribe, at=tomorrow)
    assert (found.day, found.total) == (0.0, 10.0)


async def test_each_attempt_at_an_order_counts_within_the_hour(scribe: LedgerFixture) -> None:
    for _ in range(3):
        await settle(scribe, await buy(scribe), IntentState.ABSENT)
    await buy(scribe)
    # Three were tried, and the fourth waits.
    assert (await usage(scribe)).hour == 4
    assert (await usage(scribe, replace(RAIN, account="others"))).hour == 0
    assert (await usage(scribe, replace(RAIN, paper=False))).hour == 0
    assert (await usage(scribe, at=NOON + HOUR)).hour == 0


async def test_what_was_bought_under_the_arm_record_counts_from_its_begin(scribe: LedgerFixture) -> None:
    await buy(scribe, at=NOON)
    await buy(scribe, "snow", cost=5.0, at=NOON + HOUR)
    armed = replace(RAIN, since=NOON + timedelta(minutes=30))
    assert (await usage(scribe, armed, at=NOON + HOUR)).armed == 5.0


async def test_paper_and_live_are_counted_apart_and_so_are_accounts(scribe: LedgerFixture) -> None:
    question = await scribe.ask(batch=None)
    send = replace(scribe.order(await scribe.forecast(question)), mode=ExecutionMode.LIVE)
    await scribe.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    assert (await usage(scribe)).total == 0.0
    assert (await usage(scribe, replace(RAIN, paper=False))).total == 10.0
    assert (await usage(scribe, replace(RAIN, paper=False, account="others"))).total == 0.0


async def test_what_a_sale_brought_back_is_at_stake_no_more(scribe: LedgerFixture) -> None:
    await settle(scribe, await buy(scribe), IntentState.ACKED, fills=(scribe.fill("f", shares=20.0),))
    spent = (await usage(scribe)).total
    sale = Order(
        contract="market 7",
        leg=ContractSide.YES,
        side=OrderSide.SELL,
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


def sale(shares: float, *, contract: str = "market 7", leg: ContractSide = ContractSide.YES) -> Order:
    return Order(
        contract=contract,
        leg=leg,
        side=OrderSide.SELL,
        shares=shares,
        limit=0.5,
        cost=0.0,
        expected=0.5,
        currency="COIN",
    )


async def traded(scribe: LedgerFixture, name: str, shares: float, cash: float, *, at: datetime, **changes: Any) -> None:
    """An order that was filled: bought where cash went, sold where it came."""
    given = {"order": sale(shares), **changes} if cash > 0 else changes
    intent = await buy(scribe, cost=max(0.0, -cash), at=at, **given)
    fill = replace(scribe.fill(name, shares=shares), cash=cash, at=at)
    await settle(scribe, intent, IntentState.ACKED, fills=(fill,))


async def test_what_a_sale_of_other_shares_brought_pays_for_no_later_purchase(scribe: LedgerFixture) -> None:
    await traded(scribe, "a", 1000.0, 500.0, at=NOON)
    await traded(scribe, "b", 900.0, -450.0, at=NOON + HOUR)
    found = await usage(scribe, at=NOON + 2 * HOUR)
    assert (found.question, found.event, found.creator, found.category, found.total) == (450.0,) * 5


async def test_a_gain_on_what_was_sold_lifts_no_cap(scribe: LedgerFixture) -> None:
    await traded(scribe, "a", 10.0, -4.0, at=NOON)
    await traded(scribe, "b", 5.0, 4.5, at=NOON + HOUR)
    await traded(scribe, "c", 10.0, -7.0, at=NOON + 2 * HOUR)
    # Half of the first purchase is left, and all of the second.
    assert (await usage(scribe, at=NOON + 3 * HOUR)).total == 9.0
    await traded(scribe, "d", 15.0, 1.0, at=NOON + 4 * HOUR)
    assert (await usage(scribe, at=NOON + 5 * HOUR)).total == 0.0


async def test_the_sale_of_one_contract_leaves_the_stake_of_another(scribe: LedgerFixture) -> None:
    await traded(scribe, "a", 10.0, -4.0, at=NOON)
    other = sale(10.0, contract="market 8")
    await traded(scribe, "b", 10.0, 6.0, at=NOON + HOUR, order=other)
    assert (await usage(scribe, at=NOON + 2 * HOUR)).total == 4.0


@pytest.mark.parametrize("reason", WITHDRAWN_REASONS)
async def test_an_outcome_that_was_taken_back_leaves_the_money_at_stake(scribe: LedgerFixture, reason: str) -> None:
    await settle(scribe, await buy(scribe), IntentState.ACKED, fills=(scribe.fill("f", shares=20.0),))
    question = scribe.question(batch=None)
    resolved = await scribe.resolve(question, 1.0)
    assert (await usage(scribe)).total == 0.0
    undone = replace(resolved, outcome=VoidOutcome(reason))
    await scribe.ledger.resolutions.record([undone], seen_at=NOON)
    assert (await usage(scribe)).total == 10.0
    await scribe.resolve(question, 0.0)
    assert (await usage(scribe)).total == 0.0


@pytest.mark.parametrize("told_before", [False, True])
async def test_a_question_that_was_annulled_is_settled(scribe: LedgerFixture, *, told_before: bool) -> None:
    await settle(scribe, await buy(scribe), IntentState.ACKED, fills=(scribe.fill("f", shares=20.0),))
    happened = Resolution(ref=RAIN.ref, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=NOON)
    if told_before:
        await scribe.ledger.resolutions.record([happened], seen_at=NOON)
    await scribe.ledger.resolutions.record([replace(happened, outcome=VoidOutcome("annulled"))], seen_at=NOON)
    assert (await usage(scribe)).total == 0.0


async def test_what_a_clock_that_was_ahead_wrote_down_hides_no_loss(scribe: LedgerFixture) -> None:
    ahead, later = NOON + timedelta(days=30), NOON + HOUR
    await read_equity(scribe, (NOON - HOUR, 1000.0), (ahead, 1000.0), (later, 100.0))
    stop = SubmissionHalt(venue="lantern", at=ahead, why="lost")
    await scribe.ledger.permissions.write(lambda database: add_halt(database, stop))
    await scribe.ledger.permissions.write(lambda database: resume_submissions(database, "lantern", by="ann", at=ahead))
    found = await usage(scribe, at=later)
    assert (found.lost_today, found.drawdown) == (900.0, 900.0)


async def test_losses_are_those_since_midnight_and_since_the_highest_reading(scribe: LedgerFixture) -> None:
    night = NOON.replace(hour=0)
    await read_equity(
        scribe, (night - 30 * HOUR, 130.0), (night - HOUR, 110.0), (night + HOUR, 120.0), (night + 2 * HOUR, 95.0)
    )
    found = await usage(scribe)
    assert (found.lost_today, found.drawdown) == (15.0, 35.0)


async def test_a_first_reading_of_the_day_is_where_a_day_without_yesterday_begins(scribe: LedgerFixture) -> None:
    await read_equity(scribe, (NOON - 2 * HOUR, 100.0), (NOON - HOUR, 90.0))
    assert (await usage(scribe)).lost_today == 10.0


async def test_gains_are_no_losses(scribe: LedgerFixture) -> None:
    await read_equity(scribe, (NOON - 2 * HOUR, 100.0), (NOON - HOUR, 120.0))
    found = await usage(scribe)
    assert (found.lost_today, found.drawdown) == (0.0, 0.0)


async def test_losses_begin_anew_when_a_person_resumes(scribe: LedgerFixture) -> None:
    await read_equity(scribe, (NOON - 3 * HOUR, 100.0), (NOON - 2 * HOUR, 60.0))
    stop = SubmissionHalt(venue="lantern", at=NOON - 2 * HOUR, why="lost")
    await scribe.ledger.permissions.write(lambda database: add_halt(database, stop))
    await scribe.ledger.permissions.write(
        lambda database: resume_submissions(database, "lantern", by="ann", at=NOON - HOUR)
    )
    found = await usage(scribe)
    assert (found.lost_today, found.drawdown) == (0.0, 0.0)
    await read_equity(scribe, (NOON, 55.0))
    found = await usage(scribe)
    assert found.lost_today == 5.0


async def test_what_waits_or_is_under_way_may_still_take_cash(scribe: LedgerFixture) -> None:
    first = await buy(scribe)
    await buy(scribe, "snow", cost=5.0)
    assert await scribe.ledger.permissions.unsettled_cost("lantern", "us", paper=True) == 15.0
    await settle(scribe, first, IntentState.ACKED)
    assert await scribe.ledger.permissions.unsettled_cost("lantern", "us", paper=True) == 5.0


def account(equity: float, at: datetime) -> Account:
    return Account(at=at, currency="COIN", cash=equity)


async def test_an_account_on_paper_and_the_real_one_of_the_same_name_are_two(scribe: LedgerFixture) -> None:
    readings, leave = scribe.ledger.readings, scribe.ledger.permissions
    await readings.add("lantern", "us", account(1000.0, NOON - 3 * HOUR), paper=True)
    await readings.add("lantern", "us", account(80.0, NOON - 2 * HOUR), paper=False)
    await readings.add("lantern", "us", account(75.0, NOON - HOUR), paper=False)
    real = await usage(scribe, replace(RAIN, paper=False))
    assert (real.lost_today, real.drawdown) == (5.0, 5.0)
    on_paper = await usage(scribe)
    assert (on_paper.lost_today, on_paper.drawdown) == (0.0, 0.0)
    standing = await leave.read_status({"lantern": "us"}, now=NOON, paper=())
    assert standing.losses == {"lantern": (5.0, 5.0)}
    standing = await leave.read_status({"lantern": "us"}, now=NOON, paper={"lantern"})
    assert standing.losses == {"lantern": (0.0, 0.0)}
    assert await leave.last_account("lantern", "us", paper=True) == account(1000.0, NOON - 3 * HOUR)
    assert await readings.last("lantern", "us", paper=False) == account(75.0, NOON - HOUR)
    assert [one.cash for one in await readings.since("lantern", "us", NOON - 9 * HOUR, paper=False)] == [80.0, 75.0]


async def test_what_waits_on_paper_takes_nothing_from_the_real_account(scribe: LedgerFixture) -> None:
    await buy(scribe)
    leave = scribe.ledger.permissions
    assert await leave.unsettled_cost("lantern", "us", paper=True) == 10.0
    assert await leave.unsettled_cost("lantern", "us", paper=False) == 0.0
