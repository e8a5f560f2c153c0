"""The check before a write reads what each rule of that phase looks at, from the ledger as it is then."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.config.venue_schema import ExcludeSection
from bot.core.questions import QuestionRef
from bot.core.submissions import ExecutionMode, Intent, IntentState
from bot.execution.gate.decision_context import SubmissionPhase
from bot.execution.gate.rules import MAX_PLAN_AGE, RULES
from bot.store import permissions
from bot.store.permissions import SubmissionHalt
from tests.unit.jobs.conftest import FIRST, SECOND, VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture

# Shorter than a plan lasts.
WINDOW = MAX_PLAN_AGE / 2
REF = QuestionRef(VENUE, "rain")
Change = Callable[[TradingFixture], Awaitable[object]]


def policy(**changes: object) -> Change:
    async def change(trading_fixture: TradingFixture) -> None:
        trading_fixture.execution_policy = replace(trading_fixture.execution_policy, **changes)  # type: ignore[arg-type]  # fields by name

    return change


async def change_question(trading_fixture: TradingFixture) -> None:
    trading_fixture.jobs_fixture.offer(
        "rain", title="Will there be snow?", closes_at=trading_fixture.jobs_fixture.clock.now() + WINDOW
    )
    await trading_fixture.jobs_fixture.discover()


async def engage_kill_switch(trading_fixture: TradingFixture) -> None:
    trading_fixture.jobs_fixture.kill_switch.stop_file.touch()


async def halt(trading_fixture: TradingFixture) -> None:
    made = SubmissionHalt(venue=VENUE, at=trading_fixture.jobs_fixture.clock.now(), why="odd", by="ann")
    await trading_fixture.jobs_fixture.ledger.permissions.write(lambda database: permissions.add_halt(database, made))


async def lock(trading_fixture: TradingFixture) -> None:
    now = trading_fixture.jobs_fixture.clock.now()
    await trading_fixture.jobs_fixture.ledger.schedule.lock(
        REF, forecaster=FIRST, reason="under review", until=None, now=now
    )


async def close_window(trading_fixture: TradingFixture) -> None:
    await trading_fixture.jobs_fixture.clock.advance(WINDOW.total_seconds() + 1.0)


async def disarm(trading_fixture: TradingFixture) -> None:
    await trading_fixture.arm(id="a", disarmed_at=trading_fixture.jobs_fixture.clock.now())


async def arm_again(trading_fixture: TradingFixture) -> None:
    await trading_fixture.jobs_fixture.clock.advance(1.0)
    await trading_fixture.arm()


async def lose_credentials(trading_fixture: TradingFixture) -> None:
    trading_fixture.readiness.credentials = {VENUE: "refused"}


async def lose_money(trading_fixture: TradingFixture) -> None:
    trading_fixture.bound(trading_fixture.execution_policy.mode, daily_loss=5.0)
    for cash in (100.0, 90.0):
        trading_fixture.broker.cash = cash
        await trading_fixture.jobs_fixture.clock.advance(1.0)
        await trading_fixture.jobs_fixture.ledger.readings.add(
            VENUE, "me", await trading_fixture.broker.account(), paper=False
        )


async def set_clock_back(trading_fixture: TradingFixture) -> None:
    await trading_fixture.jobs_fixture.clock.advance(-1.0)


CHANGES: Mapping[str, tuple[Change, str]] = {
    "check_mode": (policy(mode=ExecutionMode.OFF), "lantern is off"),
    "check_account": (policy(account="another"), "it was decided for the account me"),
    "check_forecaster": (policy(primary_forecaster=SECOND), f"{SECOND} forecasts lantern:rain now, not {FIRST}"),
    "check_question_unchanged": (change_question, "the question changed after this forecast"),
    "check_exclusions": (policy(exclude=ExcludeSection(words=("rain",))), "excluded by words"),
    "check_kill_switch": (engage_kill_switch, "halted by STOP"),
    "check_halts": (halt, "lantern was stopped by ann"),
    "check_lock": (lock, "locked: under review"),
    "check_window_closed": (close_window, "the window closed at"),
    "check_arm_record": (disarm, "was disarmed at"),
    "check_same_arm_record": (arm_again, "it was planned under an earlier arm record"),
    "check_readiness": (lose_credentials, "is not ready: credentials: refused"),
    "check_losses": (lose_money, "10.00 was lost today"),
    "check_plan_age": (set_clock_back, "its plan is older than 120 s"),
}


@pytest.fixture
async def trading_fixture(jobs_fixture: JobsFixture) -> TradingFixture:
    made = TradingFixture.of(jobs_fixture)
    made.bound(ExecutionMode.LIVE)
    await made.arm()
    await jobs_fixture.clock.advance(2.0)
    await made.forecast("rain", closes_at=jobs_fixture.clock.now() + WINDOW)
    await made.submit(flush=False)
    return made


async def planned(trading_fixture: TradingFixture) -> Intent:
    [row] = await trading_fixture.jobs_fixture.ledger.submissions.batches(states=[IntentState.PLANNED])
    [item] = await trading_fixture.jobs_fixture.ledger.submissions.intents(VENUE, "me", row.batch, paper=False)
    return item.intent


@pytest.mark.parametrize("name", CHANGES)
async def test_what_a_rule_objects_to_after_the_decision_is_found_before_the_write(
    trading_fixture: TradingFixture, name: str
) -> None:
    intent, (change, why) = await planned(trading_fixture), CHANGES[name]
    assert await trading_fixture.outbox.pre_send_check(intent) is None
    await change(trading_fixture)
    assert why in (await trading_fixture.outbox.pre_send_check(intent) or "")


async def test_a_paper_order_too_needs_an_open_market_when_it_is_written(jobs_fixture: JobsFixture) -> None:
    made = TradingFixture.of(jobs_fixture)
    await made.forecast("rain", closes_at=jobs_fixture.clock.now() + WINDOW)
    await made.submit(flush=False)
    [row] = await jobs_fixture.ledger.submissions.batches(states=[IntentState.PLANNED])
    [item] = await jobs_fixture.ledger.submissions.intents(VENUE, "me", row.batch, paper=True)
    assert await made.outbox.pre_send_check(item.intent) is None
    await close_window(made)
    assert "the window closed at" in (await made.outbox.pre_send_check(item.intent) or "")


def test_no_rule_that_is_asked_before_a_write_is_left_out() -> None:
    asked = {rule.name for rule in RULES if SubmissionPhase.SEND in rule.phases}
    # What a clairvoyant forecaster made is never planned: see test_clairvoyant_forecasts.py.
    assert asked == CHANGES.keys() | {"check_clairvoyance"}


@pytest.mark.parametrize(
    ("forecaster", "until_s", "ref", "held"),
    [
        (None, None, REF, True),
        (FIRST, None, REF, True),
        (SECOND, None, REF, False),
        (None, 1.0, REF, True),
        # A lock ends at its moment: it counts up to it, and not at it.
        (None, 0.0, REF, False),
        (FIRST, -1.0, REF, False),
        (None, None, QuestionRef(VENUE, "snow"), False),
    ],
)
async def test_a_lock_stops_a_write_of_its_question_and_forecaster_while_it_lasts(
    trading_fixture: TradingFixture, forecaster: str | None, until_s: float | None, ref: QuestionRef, *, held: bool
) -> None:
    intent, now = await planned(trading_fixture), trading_fixture.jobs_fixture.clock.now()
    until = None if until_s is None else now + timedelta(seconds=until_s)
    if ref != REF:
        trading_fixture.jobs_fixture.offer(ref.key)
        await trading_fixture.jobs_fixture.discover()
    await trading_fixture.jobs_fixture.ledger.schedule.lock(
        ref, forecaster=forecaster, reason="under review", until=until, now=now - timedelta(hours=1)
    )
    why = await trading_fixture.outbox.pre_send_check(intent)
    assert why == ("locked: under review" if held else None)


async def test_a_lock_that_is_lifted_stops_nothing(trading_fixture: TradingFixture) -> None:
    intent = await planned(trading_fixture)
    await lock(trading_fixture)
    assert await trading_fixture.outbox.pre_send_check(intent) == "locked: under review"
    await trading_fixture.jobs_fixture.ledger.schedule.unlock(REF, forecaster=FIRST)
    assert await trading_fixture.outbox.pre_send_check(intent) is None
