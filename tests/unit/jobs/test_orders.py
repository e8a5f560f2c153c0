from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import methodcaller

import pytest

from bot.config.venue_schema import BankrollSection
from bot.core.errors import MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.core.orders import ContractSide, OrderPlan, OrderSide, Position
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
from tests.unit.jobs.trading_fixture import UNBOUND, TradingFixture

READ = "insert into account_reading (venue, account, at, currency, body, cash, equity) values (?, ?, ?, ?, ?, ?, ?)"


@pytest.fixture
def trading_fixture(jobs_fixture: JobsFixture) -> TradingFixture:
    return TradingFixture.of(jobs_fixture)


async def test_a_belief_becomes_an_order_in_the_paper_book(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    assert trading_fixture.bought() == [10.0]
    [forecast] = await trading_fixture.jobs_fixture.history()
    [row] = await trading_fixture.jobs_fixture.ledger.submissions.decisions(forecast.id)
    assert isinstance(row.decision, SendDecision)
    assert (row.decision.why, row.decision.market_state) == ("paper; a good price", '{"ask":0.5}')
    assert await trading_fixture.submit() == "0 planned, 0 held, 0 acknowledged"


async def test_the_planner_may_spend_what_cash_and_caps_leave(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(per_day=25.0)
    trading_fixture.wants.stake = 1000.0
    trading_fixture.broker.cash = 18.0
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert trading_fixture.wants.wishes[0].sizing.max_cost == 18.0
    trading_fixture.broker.cash = 500.0
    await trading_fixture.forecast("snow")
    await trading_fixture.submit()
    assert trading_fixture.wants.wishes[1].sizing.max_cost == pytest.approx(7.0)
    assert sum(trading_fixture.bought()) == pytest.approx(25.0)


async def test_orders_of_one_pass_share_the_same_cash_and_caps(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(total=35.0)
    await trading_fixture.forecast("rain", "snow", "wind", "hail", "fog")
    assert await trading_fixture.submit() == "5 planned, 0 held, 5 acknowledged"
    assert trading_fixture.bought() == pytest.approx([7.0] * 5)
    assert trading_fixture.broker.reads == 1


async def test_what_was_held_before_shares_the_cash_with_what_is_new(trading_fixture: TradingFixture) -> None:
    """Four orders of 10 would be 40, and there are 25."""
    trading_fixture.broker.cash = 25.0
    stop_file = trading_fixture.jobs_fixture.kill_switch.stop_file
    stop_file.touch()
    await trading_fixture.forecast("rain", "snow")
    assert await trading_fixture.submit() == "0 planned, 2 held, 0 acknowledged"
    stop_file.unlink()
    await trading_fixture.jobs_fixture.clock.advance(601)
    await trading_fixture.forecast("hail", "fog")
    assert await trading_fixture.submit() == "4 planned, 0 held, 4 acknowledged"
    assert trading_fixture.bought() == pytest.approx([6.25] * 4)


async def test_cash_that_waiting_orders_will_take_is_not_spent_twice(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.cash = 15.0
    await trading_fixture.forecast("rain")
    await trading_fixture.submit(flush=False)
    await trading_fixture.forecast("snow")
    await trading_fixture.submit(flush=False)
    assert [wish.account.cash for wish in trading_fixture.wants.wishes] == [15.0, 5.0]
    await trading_fixture.forecast("hail")
    await trading_fixture.submit(flush=False)
    assert trading_fixture.wants.wishes[2].account.cash == 0.0


async def test_a_cap_that_leaves_nothing_holds_with_its_figures_and_asks_again(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(total=10.0)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    await trading_fixture.forecast("snow")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    assert await trading_fixture.whys("snow") == [
        "nothing may be bought: caps.total = 10 leaves 0.00, 10.00 is at stake"
    ]


async def test_an_order_beyond_a_cap_is_held_whatever_its_planner_was_told(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(per_question=9.0)
    trading_fixture.wants.greedy = True
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    assert await trading_fixture.whys() == ["the order would cost 10.00 COIN, and caps.per_question = 9"]


async def test_what_another_order_took_while_this_one_was_planned_counts(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(total=15.0)
    await trading_fixture.forecast("snow")
    [other] = await trading_fixture.jobs_fixture.history("snow")
    later = HoldDecision(why="later", until=trading_fixture.jobs_fixture.clock.now() + timedelta(days=9))
    submissions, now = trading_fixture.jobs_fixture.ledger.submissions, trading_fixture.jobs_fixture.clock.now()
    await submissions.decide(forecast_id=other.id, decision=later, at=now)
    question = await trading_fixture.jobs_fixture.ledger.questions.get(other.ref)
    rival = build_intent(
        DecisionContext(
            policy=trading_fixture.execution_policy,
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
    trading_fixture.wants.meanwhile = partial(submissions.decide, forecast_id=other.id, decision=send, at=now)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit(flush=False)
    [why] = await trading_fixture.whys("rain")
    assert why == "the order would cost 10.00 COIN, and caps.total = 15 leaves 5.00, 10.00 is at stake"


async def test_an_order_beyond_the_account_is_none(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.cash, trading_fixture.wants.greedy = 9.0, True
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert await trading_fixture.whys() == ["no order: it would cost 10.00, and 9.00 is free"]


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
    trading_fixture: TradingFixture,
    fault: Exception,
    why: str,
    again: bool,  # noqa: FBT001 - a column
) -> None:
    trading_fixture.wants.fault = fault
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    assert await trading_fixture.whys() == [why]
    trading_fixture.wants.fault = None
    await trading_fixture.jobs_fixture.clock.advance(7200)
    assert await trading_fixture.submit() == f"{int(again)} planned, 0 held, {int(again)} acknowledged"


async def test_a_venue_that_does_not_answer_is_asked_once_a_pass(trading_fixture: TradingFixture) -> None:
    trading_fixture.wants.fault = ServiceUnavailableError("down")
    await trading_fixture.forecast("rain", "snow", "wind")
    await trading_fixture.submit()
    assert len(trading_fixture.wants.wishes) == 1


async def test_an_account_that_cannot_be_read_holds_everything_of_its_venue(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.fault = ServiceUnavailableError("no answer")
    await trading_fixture.forecast("rain", "snow")
    assert await trading_fixture.submit() == "0 planned, 2 held, 0 acknowledged"
    assert await trading_fixture.whys() == ["the account cannot be read: no answer"]
    assert trading_fixture.wants.wishes == []


@pytest.mark.parametrize("mode", [ExecutionMode.LIVE, ExecutionMode.APPROVE])
async def test_nothing_is_planned_or_read_while_a_live_venue_is_not_armed(
    trading_fixture: TradingFixture, mode: ExecutionMode
) -> None:
    trading_fixture.bound(mode)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert (trading_fixture.broker.reads, trading_fixture.wants.wishes, trading_fixture.broker.writes) == (0, [], [])


async def test_an_armed_venue_sends_within_the_amounts_of_its_record(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(ExecutionMode.LIVE)
    await trading_fixture.arm(per_order=8.0, per_day=12.0)
    await trading_fixture.forecast("rain", "snow", "wind")
    assert await trading_fixture.submit() == "3 planned, 0 held, 3 acknowledged"
    assert sorted(trading_fixture.bought()) == pytest.approx([4.0, 4.0, 4.0])


async def test_each_thing_that_a_live_venue_lacks_is_named(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(ExecutionMode.LIVE)
    trading_fixture.readiness.clock, trading_fixture.readiness.credentials = "is off by +9.0 s", {VENUE: "refused"}
    await trading_fixture.arm()
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert await trading_fixture.whys() == ["lantern is not ready: credentials: refused; clock: is off by +9.0 s"]


async def test_what_was_disarmed_or_stopped_after_the_decision_goes_back_to_the_gate(
    trading_fixture: TradingFixture,
) -> None:
    trading_fixture.bound(ExecutionMode.LIVE)
    await trading_fixture.arm()
    await trading_fixture.forecast("rain")
    await trading_fixture.submit(flush=False)
    stop = SubmissionHalt(venue=VENUE, at=trading_fixture.jobs_fixture.clock.now(), why="odd", by="ann")
    await trading_fixture.jobs_fixture.ledger.permissions.write(lambda database: permissions.add_halt(database, stop))
    assert await trading_fixture.outbox.flush() == 0
    assert trading_fixture.broker.writes == []
    assert "back to the gate" in (await trading_fixture.whys())[-1]
    await trading_fixture.jobs_fixture.clock.advance(1)
    await trading_fixture.submit()
    assert "lantern was stopped by ann" in (await trading_fixture.whys())[-1]


async def test_an_order_whose_plan_grew_old_is_planned_anew(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain")
    await trading_fixture.submit(flush=False)
    await trading_fixture.jobs_fixture.clock.advance(MAX_PLAN_AGE.total_seconds() + 1)
    assert await trading_fixture.outbox.flush() == 0
    assert trading_fixture.broker.writes == []
    await trading_fixture.jobs_fixture.clock.advance(1)
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    assert len(trading_fixture.wants.wishes) == 2


async def test_a_question_that_was_reworded_after_the_decision_is_not_answered(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain")
    await trading_fixture.submit(flush=False)
    trading_fixture.jobs_fixture.offer("rain", title="Will there be rain, or snow?")
    await trading_fixture.jobs_fixture.discover()
    assert await trading_fixture.outbox.flush() == 0
    assert 'is "Will there be rain, or snow?" now' in (await trading_fixture.whys())[-1]


async def test_a_person_is_asked_and_what_is_approved_leaves_once(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(ExecutionMode.APPROVE)
    await trading_fixture.arm()
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    [asked] = await trading_fixture.jobs_fixture.ledger.permissions.approvals()
    assert (asked.cost, asked.shown["order"], asked.shown["question"]) == (10.0, "buy no rain", "lantern:rain")
    [row] = await trading_fixture.jobs_fixture.ledger.permissions.recent_audit_rows(limit=1)
    assert (row.kind, row.body["approval"]) == ("ask", asked.id)
    await trading_fixture.jobs_fixture.clock.advance(3600)
    await trading_fixture.submit()
    assert await trading_fixture.jobs_fixture.ledger.permissions.approvals() == [asked]
    answered = replace(asked, state=ApprovalState.APPROVED, by="ann")
    at = trading_fixture.jobs_fixture.clock.now()
    await trading_fixture.jobs_fixture.ledger.permissions.write(
        lambda database: permissions.answer_approval(database, answered, at=at)
    )
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    used = await trading_fixture.jobs_fixture.ledger.permissions.approval(asked.forecast)
    assert used
    assert used.state is ApprovalState.USED


async def test_what_was_approved_is_not_asked_again_for_trouble_on_its_way(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(ExecutionMode.APPROVE)
    await trading_fixture.arm()
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    [asked] = await trading_fixture.jobs_fixture.ledger.permissions.approvals()
    answered = replace(asked, state=ApprovalState.APPROVED, by="ann", expires_at=asked.asked_at + timedelta(hours=12))
    at = trading_fixture.jobs_fixture.clock.now()
    await trading_fixture.jobs_fixture.ledger.permissions.write(
        lambda database: permissions.answer_approval(database, answered, at=at)
    )
    assert await trading_fixture.submit(flush=False) == "1 planned, 0 held, 0 acknowledged"
    # By now the plan is too old to be written, and is made anew.
    await trading_fixture.jobs_fixture.clock.advance(5 * 60)
    assert trading_fixture.broker.writes == []
    for _ in range(2):
        await trading_fixture.submit()
        await trading_fixture.jobs_fixture.clock.advance(3600)
    assert await trading_fixture.jobs_fixture.ledger.permissions.approvals() == []
    assert len(trading_fixture.broker.writes) == 1
    used = await trading_fixture.jobs_fixture.ledger.permissions.approval(asked.forecast)
    assert used
    assert (used.id, used.state) == (asked.id, ApprovalState.USED)


async def test_silence_is_no_approval_and_is_asked_again(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(ExecutionMode.APPROVE)
    await trading_fixture.arm(until=trading_fixture.jobs_fixture.clock.now() + timedelta(days=3))
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    [first] = await trading_fixture.jobs_fixture.ledger.permissions.approvals()
    await trading_fixture.jobs_fixture.clock.advance(13 * 3600)
    await trading_fixture.submit()
    [again] = await trading_fixture.jobs_fixture.ledger.permissions.approvals()
    assert again.id != first.id
    assert trading_fixture.broker.writes == []


async def test_a_venue_that_lost_too_much_stops_itself_until_a_person_resumes_it(
    trading_fixture: TradingFixture,
) -> None:
    trading_fixture.bound(daily_loss=10.0)
    jobs_fixture = trading_fixture.jobs_fixture

    async def reading(equity: float) -> None:
        row = {
            "venue": VENUE,
            "account": "me",
            "at": format_timestamp(jobs_fixture.clock.now()),
            "currency": "COIN",
            "body": "{}",
        }
        values = [*row.values(), equity, equity]
        await jobs_fixture.ledger.permissions.write(methodcaller("execute", READ, values))

    await reading(100.0)
    await jobs_fixture.clock.advance(60)
    await reading(85.0)
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    await jobs_fixture.clock.advance(1200)
    await trading_fixture.submit()
    [stop] = await jobs_fixture.ledger.permissions.read(permissions.list_active_halts)
    assert (stop.venue, stop.by) == (VENUE, "")
    assert "15.00 was lost today" in stop.why
    assert [row.kind for row in await jobs_fixture.ledger.permissions.recent_audit_rows(limit=9)] == ["stop"]
    at = jobs_fixture.clock.now()
    await jobs_fixture.ledger.permissions.write(
        lambda database: permissions.resume_submissions(database, VENUE, by="ann", at=at)
    )
    await jobs_fixture.clock.advance(1200)
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_a_sale_leaves_though_every_cap_is_full(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(total=10.0)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    trading_fixture.wants.side = OrderSide.SELL
    await trading_fixture.forecast("snow")
    held = Position(contract="snow", leg=ContractSide.NO, shares=20.0, paid=8.0)
    trading_fixture.broker.positions = (held,)
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    assert trading_fixture.wants.wishes[-1].sizing.max_cost == 0.0
    assert trading_fixture.bought() == [10.0, 0.0]


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (Position(contract="rain", leg=ContractSide.YES, shares=50.0, paid=8.0), "0 are held"),
        (Position(contract="rain", leg=ContractSide.NO, shares=19.9, paid=8.0), "19.9 are held"),
        (Position(contract="snow", leg=ContractSide.NO, shares=50.0, paid=8.0), "0 are held"),
    ],
)
async def test_no_more_is_sold_than_is_held_of_that_side(
    trading_fixture: TradingFixture, held: Position, why: str
) -> None:
    trading_fixture.wants.side, trading_fixture.broker.positions = OrderSide.SELL, (held,)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert await trading_fixture.whys() == [f"no order: it would sell 20 no of rain, and {why}"]


async def test_an_order_in_another_currency_is_none(trading_fixture: TradingFixture) -> None:
    trading_fixture.wants.currency = "SHELL"
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert await trading_fixture.whys() == ["no order: the order is in SHELL, and the account in COIN"]


async def test_what_no_plan_is_made_of_is_looked_at_again_after_a_while(trading_fixture: TradingFixture) -> None:
    trading_fixture.wants.stake = 0.5
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert await trading_fixture.whys() == ["no order: 0.50 is not worth an order"]
    trading_fixture.wants.stake = 10.0
    await trading_fixture.jobs_fixture.clock.advance(3599)
    assert await trading_fixture.submit() == "0 planned, 0 held, 0 acknowledged"
    await trading_fixture.jobs_fixture.clock.advance(1)
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_an_hour_takes_so_many_forecasts_where_nothing_is_paid(jobs_fixture: JobsFixture) -> None:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.bound(orders_per_hour=2)
    trading_fixture.wants.stake = 1.0
    await trading_fixture.forecast("rain", "snow", "wind")
    assert await trading_fixture.submit() == "2 planned, 1 held, 2 acknowledged"
    await jobs_fixture.clock.advance(3700)
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    rows = await jobs_fixture.ledger.submissions.batches(states=[IntentState.ACKED])
    assert len(rows) == 3
    assert await jobs_fixture.ledger.submissions.read_standing(QuestionRef(VENUE, "rain"), "me")


async def test_a_fresh_account_is_not_put_into_the_questions_of_one_pass(trading_fixture: TradingFixture) -> None:
    """952 of 1,000 went into 33 markets in one pass, the earliest close first."""
    trading_fixture.broker.cash, trading_fixture.wants.stake = 1000.0, 40.0
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, bankroll=BankrollSection())
    await trading_fixture.forecast(*(f"question {number}" for number in range(33)))
    await trading_fixture.submit()
    assert sum(trading_fixture.bought()) == pytest.approx(100.0)
    assert trading_fixture.bought() == pytest.approx([100.0 / 33] * 33)


async def test_what_opens_in_the_course_of_a_pass_shares_what_the_pass_may_buy(trading_fixture: TradingFixture) -> None:
    """It is sized alone: only what may be bought as the pass begins is sized together."""
    clock = trading_fixture.jobs_fixture.clock
    trading_fixture.execution_policy = replace(
        trading_fixture.execution_policy, bankroll=UNBOUND.model_copy(update={"per_pass": 0.25})
    )
    await trading_fixture.forecast("rain")
    await clock.advance(1)
    await trading_fixture.forecast("snow", "hail", opens_at=clock.now() + timedelta(seconds=60))
    trading_fixture.wants.meanwhile = partial(clock.advance, 60)
    assert await trading_fixture.submit() == "3 planned, 0 held, 3 acknowledged"
    assert trading_fixture.bought() == pytest.approx([10.0, 10.0, 5.0])


async def test_shares_of_the_bankroll_count_positions_as_well_as_cash(trading_fixture: TradingFixture) -> None:
    trading_fixture.wants.stake = 60.0
    trading_fixture.broker.positions = (
        Position(contract="snow", leg=ContractSide.YES, shares=1800.0, paid=700.0, mark=0.5),
    )
    trading_fixture.execution_policy = replace(
        trading_fixture.execution_policy, bankroll=UNBOUND.model_copy(update={"per_question": 0.05})
    )
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert trading_fixture.bought() == [pytest.approx(0.05 * (100.0 + 1800.0 * 0.5))]


async def test_what_is_too_small_for_the_venue_leaves_its_share_to_the_others(trading_fixture: TradingFixture) -> None:
    """10 for three orders are 3.33 for each, and the venue takes 4 at least: two orders of 5 can be made."""
    trading_fixture.wants.stake, trading_fixture.wants.least = 10.0, 4.0
    trading_fixture.bound(per_day=10.0)
    await trading_fixture.forecast("rain", "snow", "wind")
    await trading_fixture.submit()
    assert trading_fixture.bought() == pytest.approx([5.0, 5.0])


async def test_the_legs_of_one_event_are_sized_as_one_bet(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.cash, trading_fixture.wants.stake = 1000.0, 30.0
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, bankroll=BankrollSection())
    await trading_fixture.forecast("ann wins", "bob wins", event="the vote")
    await trading_fixture.submit()
    assert trading_fixture.bought() == pytest.approx([15.0, 15.0])


async def test_a_leg_that_was_held_and_a_new_one_are_sized_as_one_bet(trading_fixture: TradingFixture) -> None:
    trading_fixture.broker.cash, trading_fixture.wants.stake = 1000.0, 30.0
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, bankroll=BankrollSection())
    await trading_fixture.forecast("ann wins", event="the vote")
    trading_fixture.wants.fault = ServiceUnavailableError("the market cannot be read")
    assert await trading_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    trading_fixture.wants.fault = None
    await trading_fixture.jobs_fixture.clock.advance(3600)
    await trading_fixture.forecast("bob wins", event="the vote")
    await trading_fixture.submit()
    assert trading_fixture.bought() == pytest.approx([15.0, 15.0])


async def test_what_is_forecast_in_the_course_of_a_pass_waits_for_the_next_one(trading_fixture: TradingFixture) -> None:
    """The account was read as the pass began, and does not show what was sold since."""
    questions = ["snow"]

    async def forecast_more() -> None:
        await trading_fixture.forecast(*[questions.pop() for _ in questions[:1]])

    await trading_fixture.forecast("rain")
    trading_fixture.wants.meanwhile = forecast_more
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    assert questions == []
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"


async def test_many_passes_of_a_day_leave_most_of_the_account_alone(trading_fixture: TradingFixture) -> None:
    trading_fixture.wants.stake = 40.0
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, bankroll=BankrollSection())
    for number in range(20):
        trading_fixture.broker.cash = 1000.0 - sum(trading_fixture.bought())
        await trading_fixture.forecast(f"question {number}")
        await trading_fixture.submit()
    assert sum(trading_fixture.bought()) <= 250.0
