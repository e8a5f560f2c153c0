from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from bot.core.orders import Account, ContractSide, Order, OrderSide, Position
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
    ledger_fixture: LedgerFixture, key: str = "rain", *, cost: float = 10.0, at: datetime = NOON, **changes: Any
) -> str:
    question = await ledger_fixture.ask(key, batch=None)
    send = ledger_fixture.order(await ledger_fixture.forecast(question), cost=cost)
    send = replace(send, intent=replace(send.intent, **changes)) if changes else send
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=at)
    return send.intent.id


async def usage(ledger_fixture: LedgerFixture, counted: CapUsageScope = RAIN, *, at: datetime = NOON) -> CapUsage:
    return await ledger_fixture.ledger.permissions.usage(counted, now=at)


async def settle(ledger_fixture: LedgerFixture, intent: str, state: IntentState, **changes: Any) -> None:
    await ledger_fixture.ledger.submissions.begin_attempt([intent], at=NOON)
    await ledger_fixture.ledger.submissions.settle([WriteReceipt(intent=intent, state=state, **changes)], at=NOON)


async def read_equity(ledger_fixture: LedgerFixture, *readings: tuple[datetime, float]) -> None:
    def add_all(database: Any) -> None:
        for at, equity in readings:
            row = {"venue": "lantern", "account": "us", "at": format_timestamp(at), "currency": "COIN", "cash": equity}
            database.execute(
                "insert into account_reading (venue, account, at, currency, cash, equity, body) "
                "values (:venue, :account, :at, :currency, :cash, :equity, '{}')",
                {**row, "equity": equity},
            )

    await ledger_fixture.ledger.permissions.write(add_all)


async def test_where_nothing_was_bought_nothing_is_at_stake(ledger_fixture: LedgerFixture) -> None:
    assert await usage(ledger_fixture) == CapUsage()


async def test_an_order_counts_from_the_moment_it_is_planned(ledger_fixture: LedgerFixture) -> None:
    await buy(ledger_fixture)
    found = await usage(ledger_fixture)
    assert (found.question, found.event, found.creator, found.category) == (10.0, 10.0, 10.0, 10.0)
    assert (found.total, found.day, found.hour, found.armed) == (10.0, 10.0, 1, 0.0)


async def test_other_questions_count_with_their_group_and_in_total(ledger_fixture: LedgerFixture) -> None:
    await buy(ledger_fixture)
    await buy(ledger_fixture, "snow", cost=5.0, exposure=ExposureGroups(event="July", creator="someone"))
    found = await usage(ledger_fixture)
    assert (found.question, found.event, found.creator, found.category, found.total) == (10.0, 10.0, 15.0, 10.0, 15.0)


async def test_a_group_without_a_name_is_no_group(ledger_fixture: LedgerFixture) -> None:
    await buy(ledger_fixture, exposure=ExposureGroups())
    found = await usage(ledger_fixture, replace(RAIN, exposure=ExposureGroups()))
    assert (found.event, found.creator, found.category, found.total) == (0.0, 0.0, 0.0, 10.0)


async def test_what_is_unknown_or_in_doubt_counts_as_sent(ledger_fixture: LedgerFixture) -> None:
    intent = await buy(ledger_fixture)
    await settle(ledger_fixture, intent, IntentState.UNKNOWN)
    assert (await usage(ledger_fixture)).total == 10.0
    await ledger_fixture.ledger.submissions.move_intent(intent, IntentState.IN_DOUBT, detail="", at=NOON)
    assert (await usage(ledger_fixture)).total == 10.0


async def test_what_was_refused_costs_nothing_but_was_tried(ledger_fixture: LedgerFixture) -> None:
    await settle(ledger_fixture, await buy(ledger_fixture), IntentState.REFUSED, detail="closed")
    found = await usage(ledger_fixture)
    assert (found.total, found.day, found.hour) == (0.0, 0.0, 1)


async def test_what_has_resolved_is_at_stake_no_more_but_was_spent_today(ledger_fixture: LedgerFixture) -> None:
    intent = await buy(ledger_fixture)
    await settle(ledger_fixture, intent, IntentState.ACKED, fills=(ledger_fixture.fill("f", shares=20.0),))
    await ledger_fixture.resolve(ledger_fixture.question(batch=None), 1.0)
    found = await usage(ledger_fixture)
    assert (found.total, found.question) == (0.0, 0.0)
    assert found.day > 0.0


async def test_days_and_hours_end(ledger_fixture: LedgerFixture) -> None:
    await buy(ledger_fixture, at=NOON)
    soon, tomorrow = NOON + HOUR, NOON + timedelta(days=1)
    assert ((await usage(ledger_fixture, at=soon)).hour, (await usage(ledger_fixture, at=soon)).day) == (0, 10.0)
    found = await usage(ledger_fixture, at=tomorrow)
    assert (found.day, found.total) == (0.0, 10.0)


async def test_each_attempt_at_an_order_counts_within_the_hour(ledger_fixture: LedgerFixture) -> None:
    for _ in range(3):
        await settle(ledger_fixture, await buy(ledger_fixture), IntentState.ABSENT)
    await buy(ledger_fixture)
    # Three were tried, and the fourth waits.
    assert (await usage(ledger_fixture)).hour == 4
    assert (await usage(ledger_fixture, replace(RAIN, account="others"))).hour == 0
    assert (await usage(ledger_fixture, replace(RAIN, paper=False))).hour == 0
    assert (await usage(ledger_fixture, at=NOON + HOUR)).hour == 0


async def test_each_attempt_at_the_same_forecast_counts_within_the_hour(ledger_fixture: LedgerFixture) -> None:
    """An order that did not arrive is decided again, and a forecast is sent again."""
    send = ledger_fixture.send(await ledger_fixture.forecast(await ledger_fixture.ask(batch=None)))
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    for state in (IntentState.ABSENT, IntentState.ACKED):
        await settle(ledger_fixture, send.intent.id, state)
    assert (await usage(ledger_fixture)).hour == 2


async def test_what_was_bought_under_the_arm_record_counts_from_its_begin(ledger_fixture: LedgerFixture) -> None:
    await buy(ledger_fixture, at=NOON)
    await buy(ledger_fixture, "snow", cost=5.0, at=NOON + HOUR)
    armed = replace(RAIN, since=NOON + timedelta(minutes=30))
    assert (await usage(ledger_fixture, armed, at=NOON + HOUR)).armed == 5.0
    assert (await usage(ledger_fixture, armed, at=NOON + 2 * HOUR)).armed == 5.0


async def test_paper_and_live_are_counted_apart_and_so_are_accounts(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(batch=None)
    send = replace(ledger_fixture.order(await ledger_fixture.forecast(question)), mode=ExecutionMode.LIVE)
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    assert (await usage(ledger_fixture)).total == 0.0
    assert (await usage(ledger_fixture, replace(RAIN, paper=False))).total == 10.0
    assert (await usage(ledger_fixture, replace(RAIN, paper=False, account="others"))).total == 0.0


async def test_what_a_sale_brought_back_is_at_stake_no_more(ledger_fixture: LedgerFixture) -> None:
    await settle(
        ledger_fixture, await buy(ledger_fixture), IntentState.ACKED, fills=(ledger_fixture.fill("f", shares=20.0),)
    )
    spent = (await usage(ledger_fixture)).total
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
    sold = await buy(ledger_fixture, order=sale)
    fill = replace(ledger_fixture.fill("g", shares=8.0), cash=4.0)
    await settle(ledger_fixture, sold, IntentState.ACKED, fills=(fill,))
    found = await usage(ledger_fixture)
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


async def traded(
    ledger_fixture: LedgerFixture, name: str, shares: float, cash: float, *, at: datetime, **changes: Any
) -> None:
    """An order that was filled: bought where cash went, sold where it came."""
    given = {"order": sale(shares), **changes} if cash > 0 else changes
    intent = await buy(ledger_fixture, given.pop("key", "rain"), cost=max(0.0, -cash), at=at, **given)
    fill = replace(ledger_fixture.fill(name, shares=shares), cash=cash, at=at)
    await settle(ledger_fixture, intent, IntentState.ACKED, fills=(fill,))


async def test_what_a_sale_of_other_shares_brought_pays_for_no_later_purchase(ledger_fixture: LedgerFixture) -> None:
    await traded(ledger_fixture, "a", 1000.0, 500.0, at=NOON)
    await traded(ledger_fixture, "b", 900.0, -450.0, at=NOON + HOUR)
    found = await usage(ledger_fixture, at=NOON + 2 * HOUR)
    assert (found.question, found.event, found.creator, found.category, found.total) == (450.0,) * 5


async def test_a_gain_on_what_was_sold_lifts_no_cap(ledger_fixture: LedgerFixture) -> None:
    await traded(ledger_fixture, "a", 10.0, -4.0, at=NOON)
    await traded(ledger_fixture, "b", 5.0, 4.5, at=NOON + HOUR)
    await traded(ledger_fixture, "c", 10.0, -7.0, at=NOON + 2 * HOUR)
    # Half of the first purchase is left, and all of the second.
    assert (await usage(ledger_fixture, at=NOON + 3 * HOUR)).total == 9.0
    await traded(ledger_fixture, "d", 15.0, 1.0, at=NOON + 4 * HOUR)
    assert (await usage(ledger_fixture, at=NOON + 5 * HOUR)).total == 0.0


async def test_shares_that_cost_nothing_are_bought_as_well(ledger_fixture: LedgerFixture) -> None:
    for number, (shares, cash) in enumerate([(10.0, -4.0), (10.0, 0.0), (10.0, 1.0)]):
        await traded(ledger_fixture, f"trade {number}", shares, cash, at=NOON + number * timedelta(minutes=1))
    # Half of the 20 shares are left, and with them half of the 4 that were paid.
    assert (await usage(ledger_fixture, at=NOON + HOUR)).total == 2.0


async def test_each_sale_ends_its_share_of_what_was_paid_for_what_is_left(ledger_fixture: LedgerFixture) -> None:
    """Held and paid, by hand: 40 for 10, 30 for 7.50, 15 for 3.75, 20 for 4.75, 10 for 2.375, none, 0.5 for 0.4."""
    trades = [
        (10.0, -4.0, 4.0), (30.0, -6.0, 10.0), (10.0, 9.0, 7.5), (15.0, 0.5, 3.75), (5.0, -1.0, 4.75),
        (10.0, 1.0, 2.375), (100.0, 5.0, 0.0), (0.5, -0.4, 0.4), (0.25, 0.3, 0.2),
    ]  # fmt: skip
    for number, (shares, cash, at_stake) in enumerate(trades):
        at = NOON + number * timedelta(minutes=1)
        await traded(ledger_fixture, f"trade {number}", shares, cash, at=at)
        found = await usage(ledger_fixture, at=at)
        assert [found.question, found.total] == pytest.approx([at_stake, at_stake])


async def test_the_sale_of_another_question_ends_no_stake_of_other_groups(ledger_fixture: LedgerFixture) -> None:
    await traded(ledger_fixture, "a", 10.0, -4.0, at=NOON)
    elsewhere = {"key": "snow", "exposure": ExposureGroups(event="July", creator="someone", category="")}
    await traded(ledger_fixture, "b", 10.0, -3.0, at=NOON, **elsewhere)
    await traded(ledger_fixture, "c", 10.0, 2.0, at=NOON + HOUR, **elsewhere)
    found = await usage(ledger_fixture, at=NOON + HOUR)
    assert (found.question, found.event, found.creator, found.category, found.total) == (4.0, 4.0, 4.0, 4.0, 4.0)


async def test_a_day_begins_at_midnight_exactly(ledger_fixture: LedgerFixture) -> None:
    midnight = NOON.replace(hour=0)
    await buy(ledger_fixture, cost=10.0, at=midnight)
    await buy(ledger_fixture, "snow", cost=5.0, at=midnight - timedelta(microseconds=1))
    assert (await usage(ledger_fixture)).day == 10.0


async def test_without_a_reading_before_now_nothing_was_lost(ledger_fixture: LedgerFixture) -> None:
    await read_equity(ledger_fixture, (NOON + HOUR, 100.0))
    found = await usage(ledger_fixture)
    assert (found.lost_today, found.drawdown) == (0.0, 0.0)


async def test_the_sale_of_one_contract_leaves_the_stake_of_another(ledger_fixture: LedgerFixture) -> None:
    await traded(ledger_fixture, "a", 10.0, -4.0, at=NOON)
    other = sale(10.0, contract="market 8")
    await traded(ledger_fixture, "b", 10.0, 6.0, at=NOON + HOUR, order=other)
    assert (await usage(ledger_fixture, at=NOON + 2 * HOUR)).total == 4.0


@pytest.mark.parametrize("reason", WITHDRAWN_REASONS)
async def test_an_outcome_that_was_taken_back_leaves_the_money_at_stake(
    ledger_fixture: LedgerFixture, reason: str
) -> None:
    await settle(
        ledger_fixture, await buy(ledger_fixture), IntentState.ACKED, fills=(ledger_fixture.fill("f", shares=20.0),)
    )
    question = ledger_fixture.question(batch=None)
    resolved = await ledger_fixture.resolve(question, 1.0)
    assert (await usage(ledger_fixture)).total == 0.0
    undone = replace(resolved, outcome=VoidOutcome(reason))
    await ledger_fixture.ledger.resolutions.record([undone], seen_at=NOON)
    assert (await usage(ledger_fixture)).total == 10.0
    await ledger_fixture.resolve(question, 0.0)
    assert (await usage(ledger_fixture)).total == 0.0


@pytest.mark.parametrize("told_before", [False, True])
async def test_a_question_that_was_annulled_is_settled(ledger_fixture: LedgerFixture, *, told_before: bool) -> None:
    await settle(
        ledger_fixture, await buy(ledger_fixture), IntentState.ACKED, fills=(ledger_fixture.fill("f", shares=20.0),)
    )
    happened = Resolution(ref=RAIN.ref, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=NOON)
    if told_before:
        await ledger_fixture.ledger.resolutions.record([happened], seen_at=NOON)
    await ledger_fixture.ledger.resolutions.record([replace(happened, outcome=VoidOutcome("annulled"))], seen_at=NOON)
    assert (await usage(ledger_fixture)).total == 0.0


async def test_what_a_clock_that_was_ahead_wrote_down_hides_no_loss(ledger_fixture: LedgerFixture) -> None:
    ahead, later = NOON + timedelta(days=30), NOON + HOUR
    await read_equity(ledger_fixture, (NOON - HOUR, 1000.0), (ahead, 1000.0), (later, 100.0))
    stop = SubmissionHalt(venue="lantern", at=ahead, why="lost")
    await ledger_fixture.ledger.permissions.write(lambda database: add_halt(database, stop))
    await ledger_fixture.ledger.permissions.write(
        lambda database: resume_submissions(database, "lantern", by="ann", at=ahead)
    )
    found = await usage(ledger_fixture, at=later)
    assert (found.lost_today, found.drawdown) == (900.0, 900.0)


async def test_losses_are_those_since_midnight_and_since_the_highest_reading(ledger_fixture: LedgerFixture) -> None:
    night = NOON.replace(hour=0)
    await read_equity(
        ledger_fixture,
        (night - 30 * HOUR, 130.0),
        (night - HOUR, 110.0),
        (night + HOUR, 120.0),
        (night + 2 * HOUR, 95.0),
    )
    found = await usage(ledger_fixture)
    assert (found.lost_today, found.drawdown) == (15.0, 35.0)


async def test_a_first_reading_of_the_day_is_where_a_day_without_yesterday_begins(
    ledger_fixture: LedgerFixture,
) -> None:
    await read_equity(ledger_fixture, (NOON - 2 * HOUR, 100.0), (NOON - HOUR, 90.0))
    assert (await usage(ledger_fixture)).lost_today == 10.0


async def test_gains_are_no_losses(ledger_fixture: LedgerFixture) -> None:
    await read_equity(ledger_fixture, (NOON - 2 * HOUR, 100.0), (NOON - HOUR, 120.0))
    found = await usage(ledger_fixture)
    assert (found.lost_today, found.drawdown) == (0.0, 0.0)


async def test_losses_begin_anew_when_a_person_resumes(ledger_fixture: LedgerFixture) -> None:
    await read_equity(ledger_fixture, (NOON - 3 * HOUR, 100.0), (NOON - 2 * HOUR, 60.0))
    stop = SubmissionHalt(venue="lantern", at=NOON - 2 * HOUR, why="lost")
    await ledger_fixture.ledger.permissions.write(lambda database: add_halt(database, stop))
    await ledger_fixture.ledger.permissions.write(
        lambda database: resume_submissions(database, "lantern", by="ann", at=NOON - HOUR)
    )
    found = await usage(ledger_fixture)
    assert (found.lost_today, found.drawdown) == (0.0, 0.0)
    await read_equity(ledger_fixture, (NOON, 55.0))
    found = await usage(ledger_fixture)
    assert found.lost_today == 5.0


async def test_what_waits_or_is_under_way_may_still_take_cash(ledger_fixture: LedgerFixture) -> None:
    first = await buy(ledger_fixture)
    await buy(ledger_fixture, "snow", cost=5.0)
    assert await ledger_fixture.ledger.permissions.unsettled_cost("lantern", "us", paper=True) == 15.0
    await settle(ledger_fixture, first, IntentState.ACKED)
    assert await ledger_fixture.ledger.permissions.unsettled_cost("lantern", "us", paper=True) == 5.0


def account(equity: float, at: datetime) -> Account:
    return Account(at=at, currency="COIN", cash=equity)


def holding(mark: float, at: datetime, cash: float = 75.0, shares: float = 10.0) -> Account:
    """An account whose losses are those of its shares."""
    position = Position(contract="rain", leg=ContractSide.YES, shares=shares, paid=5.0, mark=mark)
    return replace(account(cash, at), positions=(position,))


async def real_losses(ledger_fixture: LedgerFixture, *accounts: Account) -> tuple[float, float]:
    for one in accounts:
        await ledger_fixture.ledger.readings.add("lantern", "us", one, paper=False)
    found = await usage(ledger_fixture, replace(RAIN, paper=False))
    return round(found.lost_today, 6), round(found.drawdown, 6)


MINUTE = timedelta(minutes=1)


async def test_a_deposit_hides_no_loss_and_its_withdrawal_is_none(ledger_fixture: LedgerFixture) -> None:
    at = NOON - HOUR
    assert await real_losses(ledger_fixture, holding(0.5, at), holding(0.5, at + MINUTE, 175.0)) == (0.0, 0.0)
    assert await real_losses(ledger_fixture, holding(0.4, at + 2 * MINUTE, 175.0)) == (1.0, 1.0)
    assert await real_losses(ledger_fixture, holding(0.1, at + 3 * MINUTE, 175.0)) == (4.0, 4.0)
    assert await real_losses(ledger_fixture, holding(0.1, at + 4 * MINUTE, 75.0)) == (4.0, 4.0)
    # What goes without having come is a loss.
    assert await real_losses(ledger_fixture, holding(0.1, at + 5 * MINUTE, 25.0)) == (54.0, 54.0)


async def test_cash_that_an_unchanged_reading_confirms_is_a_transfer(ledger_fixture: LedgerFixture) -> None:
    at = NOON - HOUR
    readings = [holding(0.5, at), holding(0.5, at + MINUTE, 175.0), holding(0.5, at + 2 * MINUTE, 175.0)]
    assert await real_losses(ledger_fixture, *readings, holding(0.0, at + 3 * MINUTE, 175.0, 10.0)) == (5.0, 5.0)


async def test_a_payout_that_the_list_of_positions_shows_late_is_no_deposit(ledger_fixture: LedgerFixture) -> None:
    at = NOON - HOUR
    paid_out = [holding(0.5, at), holding(0.5, at + MINUTE, 85.0), account(85.0, at + 2 * MINUTE)]
    assert await real_losses(ledger_fixture, *paid_out) == (0.0, 0.0)
    # It was a gain of five.
    assert await real_losses(ledger_fixture, replace(holding(0.0, at + 3 * MINUTE), cash=82.0)) == (0.0, 3.0)


async def test_cash_that_moves_while_the_program_trades_is_no_transfer(ledger_fixture: LedgerFixture) -> None:
    at = NOON - HOUR
    question = await ledger_fixture.ask("rain", batch=None)
    send = replace(ledger_fixture.order(await ledger_fixture.forecast(question)), mode=ExecutionMode.LIVE)
    bought = send.intent.id
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    await settle(ledger_fixture, bought, IntentState.ACKED)
    # Shares are sold at their mark, and the list of positions shows that late.
    sold = [holding(0.5, at), holding(0.5, at + MINUTE, 80.0), holding(0.5, at + 2 * MINUTE, 80.0)]
    assert (await real_losses(ledger_fixture, *sold, account(80.0, at + 3 * MINUTE)))[0] == 0.0


@pytest.mark.parametrize(
    ("state", "lost"),
    [
        (IntentState.ABSENT, 0.0),
        (IntentState.REFUSED, 0.0),
        (IntentState.UNKNOWN, 100.0),
        (IntentState.ACKED, 100.0),
    ],
)
async def test_a_write_that_had_no_effect_explains_no_cash_that_moves(
    ledger_fixture: LedgerFixture, state: IntentState, lost: float
) -> None:
    """A deposit of 100 is taken out again while a write is under way, or just after it failed."""
    at = NOON - HOUR
    question = await ledger_fixture.ask("rain", batch=None)
    send = replace(ledger_fixture.order(await ledger_fixture.forecast(question)), mode=ExecutionMode.LIVE)
    paid_in = [holding(0.5, at), holding(0.5, at + MINUTE, 175.0), holding(0.5, at + 2 * MINUTE, 175.0)]
    assert await real_losses(ledger_fixture, *paid_in) == (0.0, 0.0)
    await ledger_fixture.ledger.submissions.decide(forecast_id=send.intent.forecast, decision=send, at=NOON)
    await settle(ledger_fixture, send.intent.id, state)
    assert (await real_losses(ledger_fixture, holding(0.5, at + 3 * MINUTE, 75.0)))[0] == lost


async def trade(ledger_fixture: LedgerFixture, contract: str, at: datetime) -> None:
    """Write an own order for a contract, which the venue accepts."""
    question = await ledger_fixture.ask(contract, batch=None)
    send = replace(ledger_fixture.order(await ledger_fixture.forecast(question)), mode=ExecutionMode.LIVE)
    order = replace(send.intent.order, contract=contract)  # type: ignore[type-var]
    send = replace(send, intent=replace(send.intent, order=order))
    submissions = ledger_fixture.ledger.submissions
    await submissions.decide(forecast_id=send.intent.forecast, decision=send, at=at)
    await submissions.begin_attempt([send.intent.id], at=at)
    await submissions.settle([WriteReceipt(intent=send.intent.id, state=IntentState.ACKED)], at=at)


@pytest.mark.parametrize("steps", [*product((100.0, -50.0, None), repeat=3)])
async def test_people_pay_in_and_take_out_between_own_orders_without_a_loss(
    ledger_fixture: LedgerFixture, steps: tuple[float | None, ...]
) -> None:
    """Each hour somebody moves so much money, or the program buys shares at their mark."""
    cash, paid_in = 1000.0, 0.0
    positions: tuple[Position, ...] = ()
    for hour, step in enumerate((*steps, 0.0)):
        at = NOON - (len(steps) - hour) * HOUR
        found = Account(at=at, currency="COIN", cash=cash, positions=positions)
        assert await real_losses(ledger_fixture, found) == (0.0, 0.0)
        if step is None:
            await trade(ledger_fixture, f"contract{hour}", at + MINUTE)
            bought = Position(contract=f"contract{hour}", leg=ContractSide.YES, shares=10.0, paid=5.0, mark=0.5)
            cash, positions = cash - 5.0, (*positions, bought)
        else:
            # Nobody takes out more than was paid in.
            moved = max(step, -paid_in)
            cash, paid_in = cash + moved, paid_in + moved


async def test_own_orders_explain_no_other_position(ledger_fixture: LedgerFixture) -> None:
    """Shares that somebody buys by hand, and that the list of positions shows late, are no withdrawal."""
    at = NOON - HOUR
    held = Position(contract="by hand", leg=ContractSide.YES, shares=100.0, paid=50.0, mark=0.5)
    readings = [account(1000.0, at), account(1100.0, at + MINUTE), account(1100.0, at + 2 * MINUTE)]
    assert await real_losses(ledger_fixture, *readings, account(1050.0, at + 3 * MINUTE)) == (0.0, 0.0)
    await trade(ledger_fixture, "own", at + 4 * MINUTE)
    own = replace(held, contract="own", shares=10.0, paid=5.0)
    now = replace(account(1045.0, at + 5 * MINUTE), positions=(held, own))
    assert await real_losses(ledger_fixture, now) == (0.0, 0.0)
    assert await real_losses(ledger_fixture, replace(now, at=at + 6 * MINUTE, cash=1035.0)) == (10.0, 10.0)


async def test_an_account_on_paper_and_the_real_one_of_the_same_name_are_two(ledger_fixture: LedgerFixture) -> None:
    readings, leave = ledger_fixture.ledger.readings, ledger_fixture.ledger.permissions
    await readings.add("lantern", "us", account(1000.0, NOON - 3 * HOUR), paper=True)
    await readings.add("lantern", "us", account(80.0, NOON - 2 * HOUR), paper=False)
    await readings.add("lantern", "us", account(75.0, NOON - HOUR), paper=False)
    real = await usage(ledger_fixture, replace(RAIN, paper=False))
    assert (real.lost_today, real.drawdown) == (5.0, 5.0)
    on_paper = await usage(ledger_fixture)
    assert (on_paper.lost_today, on_paper.drawdown) == (0.0, 0.0)
    standing = await leave.read_status({"lantern": "us"}, now=NOON, paper=())
    assert standing.losses == {"lantern": (5.0, 5.0)}
    standing = await leave.read_status({"lantern": "us"}, now=NOON, paper={"lantern"})
    assert standing.losses == {"lantern": (0.0, 0.0)}
    assert await leave.last_account("lantern", "us", paper=True) == account(1000.0, NOON - 3 * HOUR)
    assert await readings.last("lantern", "us", paper=False) == account(75.0, NOON - HOUR)
    assert [one.cash for one in await readings.since("lantern", "us", NOON - 9 * HOUR, paper=False)] == [80.0, 75.0]


async def test_what_waits_on_paper_takes_nothing_from_the_real_account(ledger_fixture: LedgerFixture) -> None:
    await buy(ledger_fixture)
    leave = ledger_fixture.ledger.permissions
    assert await leave.unsettled_cost("lantern", "us", paper=True) == 10.0
    assert await leave.unsettled_cost("lantern", "us", paper=False) == 0.0
