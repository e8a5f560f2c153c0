from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import methodcaller

import pytest

from bot.config.venue_schema import BankrollSection
from bot.core.errors import MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.core.orders import OrderPlan, OrderSide
from bot.core.permissions import ApprovalState
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, HoldDecision, IntentState, SendDecision
from bot.execution.gate.decision_context import DecisionContext, build_intent
from bot.execution.gate.rules import MAX_PLAN_AGE
from bot.store import permissions
from bot.store.permissions import SubmissionHalt
from bot.store.serialization import format_timestamp
from tests.unit.execution.gate.decision_contexts import order
from tests.unit.jobs.conftest import VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture

READ = "insert into account_reading (venue, account, at, currency, body, cash, equity) values (?, ?, ?, ?, ?, ?, ?)"


@pytest.fixture
def floor(house: JobsFixture) -> TradingFixture:
    return TradingFixture.of(house)


async def test_a_belief_becomes_an_order_in_the_paper_book(floor: TradingFixture) -> None:
    await floor.forecast("rain")
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"
    assert floor.bought() == [10.0]
    [forecast] = await floor.house.history()
    [row] = await floor.house.ledger.submissions.decisions(forecast.id)
    assert isinstance(row.decision, SendDecision)
    assert (row.decision.why, row.decision.market_state) == ("paper; a good price", '{"ask":0.5}')
    assert await floor.submit() == "0 planned, 0 held, 0 acknowledged"


async def test_the_planner_may_spend_what_cash_and_caps_leave(floor: TradingFixture) -> None:
    floor.bound(per_day=25.0)
    floor.wants.stake = 1000.0
    floor.broker.cash = 18.0
    await floor.forecast("rain")
    await floor.submit()
    assert floor.wants.wishes[0].sizing.max_cost == 18.0
    floor.broker.cash = 500.0
    await floor.forecast("snow")
    await floor.submit()
    assert floor.wants.wishes[1].sizing.max_cost == pytest.approx(7.0)
    assert sum(floor.bought()) == pytest.approx(25.0)


async def test_orders_of_one_pass_share_the_same_cash_and_caps(floor: TradingFixture) -> None:
    floor.bound(total=35.0)
    await floor.forecast("rain", "snow", "wind", "hail", "fog")
    assert await floor.submit() == "5 planned, 0 held, 5 acknowledged"
    assert floor.bought() == pytest.approx([7.0] * 5)
    assert floor.broker.reads == 1


async def test_cash_that_waiting_orders_will_take_is_not_spent_twice(floor: TradingFixture) -> None:
    floor.broker.cash = 15.0
    await floor.forecast("rain")
    await floor.submit(flush=False)
    await floor.forecast("snow")
    await floor.submit(flush=False)
    assert [wish.account.cash for wish in floor.wants.wishes] == [15.0, 5.0]
    await floor.forecast("hail")
    await floor.submit(flush=False)
    assert floor.wants.wishes[2].account.cash == 0.0


async def test_a_cap_that_leaves_nothing_holds_with_its_figures_and_asks_again(floor: TradingFixture) -> None:
    floor.bound(total=10.0)
    await floor.forecast("rain")
    await floor.submit()
    await floor.forecast("snow")
    assert await floor.submit() == "0 planned, 1 held, 0 acknowledged"
    assert await floor.whys("snow") == ["nothing may be bought: caps.total = 10 leaves 0.00, 10.00 is at stake"]


async def test_an_order_beyond_a_cap_is_held_whatever_its_planner_was_told(floor: TradingFixture) -> None:
    floor.bound(per_question=9.0)
    floor.wants.greedy = True
    await floor.forecast("rain")
    assert await floor.submit() == "0 planned, 1 held, 0 acknowledged"
    assert await floor.whys() == ["the order would cost 10.00 COIN, and caps.per_question = 9"]


async def test_what_another_order_took_while_this_one_was_planned_counts(floor: TradingFixture) -> None:
    floor.bound(total=15.0)
    await floor.forecast("snow")
    [other] = await floor.house.history("snow")
    later = HoldDecision(why="later", until=floor.house.clock.now() + timedelta(days=9))
    submissions, now = floor.house.ledger.submissions, floor.house.clock.now()
    await submissions.decide(forecast_id=other.id, decision=later, at=now)
    question = await floor.house.ledger.questions.get(other.ref)
    rival = build_intent(
        DecisionContext(
            policy=floor.execution_policy,
            forecast=other,
            question=question,
            current_intent=None,
            lock_reason=None,
            now=now,
            takes_orders=True,
            plan=OrderPlan(why="a price", order=order(cost=10.0, currency="COIN")),
        )
    )
    send = SendDecision(intent=rival, mode=ExecutionMode.PAPER, why="paper")
    floor.wants.meanwhile = partial(submissions.decide, forecast_id=other.id, decision=send, at=now)
    await floor.forecast("rain")
    await floor.submit(flush=False)
    [why] = await floor.whys("rain")
    assert why == "the order would cost 10.00 COIN, and caps.total = 15 leaves 5.00, 10.00 is at stake"


async def test_an_order_beyond_the_account_is_none(floor: TradingFixture) -> None:
    floor.broker.cash, floor.wants.greedy = 9.0, True
    await floor.forecast("rain")
    await floor.submit()
    assert await floor.whys() == ["no order: it would cost 10.00, and 9.00 is free"]


@pytest.mark.parametrize(
    ("fault", "why", "again"),
    [
        (ServiceUnavailableError("down"), "the market cannot be read: down", True),
        (RequestRejectedError("no market"), "not traded: no market", False),
        (MalformedDataError("odd"), "no plan: MalformedDataError: odd", True),
        (KeyError("pool"), "the planner failed: KeyError", True),
    ],
)
async def test_a_planner_that_fails_holds_its_order(
    floor: TradingFixture,
    fault: Exception,
    why: str,
    again: bool,  # noqa: FBT001 - a column
) -> None:
    floor.wants.fault = fault
    await floor.forecast("rain")
    assert await floor.submit() == "0 planned, 1 held, 0 acknowledged"
    assert await floor.whys() == [why]
    floor.wants.fault = None
    await floor.house.clock.advance(7200)
    assert await floor.submit() == f"{int(again)} planned, 0 held, {int(again)} acknowledged"


async def test_a_venue_that_does_not_answer_is_asked_once_a_pass(floor: TradingFixture) -> None:
    floor.wants.fault = ServiceUnavailableError("down")
    await floor.forecast("rain", "snow", "wind")
    await floor.submit()
    assert len(floor.wants.wishes) == 1


async def test_an_account_that_cannot_be_read_holds_everything_of_its_venue(floor: TradingFixture) -> None:
    floor.broker.fault = ServiceUnavailableError("no answer")
    await floor.forecast("rain", "snow")
    assert await floor.submit() == "0 planned, 2 held, 0 acknowledged"
    assert await floor.whys() == ["the account cannot be read: no answer"]
    assert floor.wants.wishes == []


@pytest.mark.parametrize("mode", [ExecutionMode.LIVE, ExecutionMode.APPROVE])
async def test_nothing_is_planned_or_read_while_a_live_venue_is_not_armed(
    floor: TradingFixture, mode: ExecutionMode
) -> None:
    floor.bound(mode)
    await floor.forecast("rain")
    await floor.submit()
    assert (floor.broker.reads, floor.wants.wishes, floor.broker.writes) == (0, [], [])


async def test_an_armed_venue_sends_within_the_amounts_of_its_record(floor: TradingFixture) -> None:
    floor.bound(ExecutionMode.LIVE)
    await floor.arm(per_order=8.0, per_day=12.0)
    await floor.forecast("rain", "snow", "wind")
    assert await floor.submit() == "3 planned, 0 held, 3 acknowledged"
    assert sorted(floor.bought()) == pytest.approx([4.0, 4.0, 4.0])


async def test_each_thing_that_a_live_venue_lacks_is_named(floor: TradingFixture) -> None:
    floor.bound(ExecutionMode.LIVE)
    floor.readiness.clock, floor.readiness.credentials = "is off by +9.0 s", {VENUE: "refused"}
    await floor.arm()
    await floor.forecast("rain")
    await floor.submit()
    assert await floor.whys() == ["lantern is not ready: credentials: refused; clock: is off by +9.0 s"]


async def test_what_was_disarmed_or_stopped_after_the_decision_goes_back_to_the_gate(floor: TradingFixture) -> None:
    floor.bound(ExecutionMode.LIVE)
    await floor.arm()
    await floor.forecast("rain")
    await floor.submit(flush=False)
    stop = SubmissionHalt(venue=VENUE, at=floor.house.clock.now(), why="odd", by="ann")
    await floor.house.ledger.permissions.write(lambda database: permissions.add_halt(database, stop))
    assert await floor.outbox.flush() == 0
    assert floor.broker.writes == []
    assert "back to the gate" in (await floor.whys())[-1]
    await floor.house.clock.advance(1)
    await floor.submit()
    assert "lantern was stopped by ann" in (await floor.whys())[-1]


async def test_an_order_whose_plan_grew_old_is_planned_anew(floor: TradingFixture) -> None:
    await floor.forecast("rain")
    await floor.submit(flush=False)
    await floor.house.clock.advance(MAX_PLAN_AGE.total_seconds() + 1)
    assert await floor.outbox.flush() == 0
    assert floor.broker.writes == []
    await floor.house.clock.advance(1)
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"
    assert len(floor.wants.wishes) == 2


async def test_a_question_that_was_reworded_after_the_decision_is_not_answered(floor: TradingFixture) -> None:
    await floor.forecast("rain")
    await floor.submit(flush=False)
    floor.house.offer("rain", title="Will there be rain, or snow?")
    await floor.house.discover()
    assert await floor.outbox.flush() == 0
    assert 'is "Will there be rain, or snow?" now' in (await floor.whys())[-1]


async def test_a_person_is_asked_and_what_is_approved_leaves_once(floor: TradingFixture) -> None:
    floor.bound(ExecutionMode.APPROVE)
    await floor.arm()
    await floor.forecast("rain")
    assert await floor.submit() == "0 planned, 1 held, 0 acknowledged"
    [asked] = await floor.house.ledger.permissions.approvals()
    assert (asked.cost, asked.shown["order"], asked.shown["question"]) == (10.0, "buy yes rain", "lantern:rain")
    [row] = await floor.house.ledger.permissions.recent_audit_rows(limit=1)
    assert (row.kind, row.body["approval"]) == ("ask", asked.id)
    await floor.house.clock.advance(3600)
    await floor.submit()
    assert await floor.house.ledger.permissions.approvals() == [asked]
    answered = replace(asked, state=ApprovalState.APPROVED, by="ann")
    at = floor.house.clock.now()
    await floor.house.ledger.permissions.write(lambda database: permissions.answer_approval(database, answered, at=at))
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"
    used = await floor.house.ledger.permissions.approval(asked.forecast)
    assert used
    assert used.state is ApprovalState.USED


async def test_what_was_approved_is_not_asked_again_for_trouble_on_its_way(floor: TradingFixture) -> None:
    floor.bound(ExecutionMode.APPROVE)
    await floor.arm()
    await floor.forecast("rain")
    await floor.submit()
    [asked] = await floor.house.ledger.permissions.approvals()
    answered = replace(asked, state=ApprovalState.APPROVED, by="ann", expires_at=asked.asked_at + timedelta(hours=12))
    at = floor.house.clock.now()
    await floor.house.ledger.permissions.write(lambda database: permissions.answer_approval(database, answered, at=at))
    assert await floor.submit(flush=False) == "1 planned, 0 held, 0 acknowledged"
    # By now the plan is too old to be written, and is made anew.
    await floor.house.clock.advance(5 * 60)
    assert floor.broker.writes == []
    for _ in range(2):
        await floor.submit()
        await floor.house.clock.advance(3600)
    assert await floor.house.ledger.permissions.approvals() == []
    assert len(floor.broker.writes) == 1
    used = await floor.house.ledger.permissions.approval(asked.forecast)
    assert used
    assert (used.id, used.state) == (asked.id, ApprovalState.USED)


async def test_silence_is_no_approval_and_is_asked_again(floor: TradingFixture) -> None:
    floor.bound(ExecutionMode.APPROVE)
    await floor.arm(until=floor.house.clock.now() + timedelta(days=3))
    await floor.forecast("rain")
    await floor.submit()
    [first] = await floor.house.ledger.permissions.approvals()
    await floor.house.clock.advance(13 * 3600)
    await floor.submit()
    [again] = await floor.house.ledger.permissions.approvals()
    assert again.id != first.id
    assert floor.broker.writes == []


async def test_a_venue_that_lost_too_much_stops_itself_until_a_person_resumes_it(floor: TradingFixture) -> None:
    floor.bound(daily_loss=10.0)
    house = floor.house

    async def reading(equity: float) -> None:
        row = {
            "venue": VENUE,
            "account": "me",
            "at": format_timestamp(house.clock.now()),
            "currency": "COIN",
            "body": "{}",
        }
        values = [*row.values(), equity, equity]
        await house.ledger.permissions.write(methodcaller("execute", READ, values))

    await reading(100.0)
    await house.clock.advance(60)
    await reading(85.0)
    await floor.forecast("rain")
    assert await floor.submit() == "0 planned, 1 held, 0 acknowledged"
    await house.clock.advance(1200)
    await floor.submit()
    [stop] = await house.ledger.permissions.read(permissions.list_active_halts)
    assert (stop.venue, stop.by) == (VENUE, "")
    assert "15.00 was lost today" in stop.why
    assert [row.kind for row in await house.ledger.permissions.recent_audit_rows(limit=9)] == ["stop"]
    at = house.clock.now()
    await house.ledger.permissions.write(
        lambda database: permissions.resume_submissions(database, VENUE, by="ann", at=at)
    )
    await house.clock.advance(1200)
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_a_sale_leaves_though_every_cap_is_full(floor: TradingFixture) -> None:
    floor.bound(total=10.0)
    await floor.forecast("rain")
    await floor.submit()
    floor.wants.side = OrderSide.SELL
    await floor.forecast("snow")
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"
    assert floor.wants.wishes[-1].sizing.max_cost == 0.0
    assert floor.bought() == [10.0, 0.0]


async def test_what_no_plan_is_made_of_is_looked_at_again_after_a_while(floor: TradingFixture) -> None:
    floor.wants.stake = 0.5
    await floor.forecast("rain")
    await floor.submit()
    assert await floor.whys() == ["no order: 0.50 is not worth an order"]
    floor.wants.stake = 10.0
    await floor.house.clock.advance(3599)
    assert await floor.submit() == "0 planned, 0 held, 0 acknowledged"
    await floor.house.clock.advance(1)
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_an_hour_takes_so_many_forecasts_where_nothing_is_paid(house: JobsFixture) -> None:
    floor = TradingFixture.of(house)
    floor.bound(orders_per_hour=2)
    floor.wants.stake = 1.0
    await floor.forecast("rain", "snow", "wind")
    assert await floor.submit() == "2 planned, 1 held, 2 acknowledged"
    await house.clock.advance(3700)
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"
    rows = await house.ledger.submissions.batches(states=[IntentState.ACKED])
    assert len(rows) == 3
    assert await house.ledger.submissions.read_standing(QuestionRef(VENUE, "rain"), "me")


async def test_a_fresh_account_is_not_put_into_the_questions_of_one_pass(floor: TradingFixture) -> None:
    """952 of 1,000 went into 33 markets in one pass, the earliest close first."""
    floor.broker.cash, floor.wants.stake = 1000.0, 40.0
    floor.execution_policy = replace(floor.execution_policy, bankroll=BankrollSection())
    await floor.forecast(*(f"question {number}" for number in range(33)))
    await floor.submit()
    assert sum(floor.bought()) == pytest.approx(100.0)
    assert floor.bought() == pytest.approx([100.0 / 33] * 33)


async def test_the_legs_of_one_event_are_sized_as_one_bet(floor: TradingFixture) -> None:
    floor.broker.cash, floor.wants.stake = 1000.0, 30.0
    floor.execution_policy = replace(floor.execution_policy, bankroll=BankrollSection())
    await floor.forecast("ann wins", "bob wins", facts={"event": "the vote"})
    await floor.submit()
    assert floor.bought() == pytest.approx([15.0, 15.0])


async def test_many_passes_of_a_day_leave_most_of_the_account_alone(floor: TradingFixture) -> None:
    floor.wants.stake = 40.0
    floor.execution_policy = replace(floor.execution_policy, bankroll=BankrollSection())
    for number in range(20):
        floor.broker.cash = 1000.0 - sum(floor.bought())
        await floor.forecast(f"question {number}")
        await floor.submit()
    assert sum(floor.bought()) <= 250.0
