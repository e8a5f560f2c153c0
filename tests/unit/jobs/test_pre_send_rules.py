"""The check before a write reads what each rule of that phase looks at, from the ledger as it is then."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

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
    async def change(floor: TradingFixture) -> None:
        floor.execution_policy = replace(floor.execution_policy, **changes)  # type: ignore[arg-type]  # fields by name

    return change


async def change_question(floor: TradingFixture) -> None:
    floor.house.offer("rain", title="Will there be snow?", closes_at=floor.house.clock.now() + WINDOW)
    await floor.house.discover()


async def engage_kill_switch(floor: TradingFixture) -> None:
    floor.house.brake.stop_file.touch()


async def halt(floor: TradingFixture) -> None:
    made = SubmissionHalt(venue=VENUE, at=floor.house.clock.now(), why="odd", by="ann")
    await floor.house.ledger.permissions.write(lambda database: permissions.add_halt(database, made))


async def lock(floor: TradingFixture) -> None:
    now = floor.house.clock.now()
    await floor.house.ledger.schedule.lock(REF, forecaster=FIRST, reason="under review", until=None, now=now)


async def close_window(floor: TradingFixture) -> None:
    await floor.house.clock.advance(WINDOW.total_seconds() + 1.0)


async def disarm(floor: TradingFixture) -> None:
    await floor.arm(id="a", disarmed_at=floor.house.clock.now())


async def arm_again(floor: TradingFixture) -> None:
    await floor.house.clock.advance(1.0)
    await floor.arm()


async def lose_credentials(floor: TradingFixture) -> None:
    floor.readiness.credentials = {VENUE: "refused"}


async def lose_money(floor: TradingFixture) -> None:
    floor.bound(floor.execution_policy.mode, daily_loss=5.0)
    for cash in (100.0, 90.0):
        floor.broker.cash = cash
        await floor.house.clock.advance(1.0)
        await floor.house.ledger.readings.add(VENUE, "me", await floor.broker.account(), paper=False)


async def set_clock_back(floor: TradingFixture) -> None:
    await floor.house.clock.advance(-1.0)


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
async def floor(house: JobsFixture) -> TradingFixture:
    made = TradingFixture.of(house)
    made.bound(ExecutionMode.LIVE)
    await made.arm()
    await house.clock.advance(2.0)
    await made.forecast("rain", closes_at=house.clock.now() + WINDOW)
    await made.submit(flush=False)
    return made


async def planned(floor: TradingFixture) -> Intent:
    [row] = await floor.house.ledger.submissions.batches(states=[IntentState.PLANNED])
    [item] = await floor.house.ledger.submissions.intents(VENUE, "me", row.batch, paper=False)
    return item.intent


@pytest.mark.parametrize("name", CHANGES)
async def test_what_a_rule_objects_to_after_the_decision_is_found_before_the_write(
    floor: TradingFixture, name: str
) -> None:
    intent, (change, why) = await planned(floor), CHANGES[name]
    assert await floor.outbox.pre_send_check(intent) is None
    await change(floor)
    assert why in (await floor.outbox.pre_send_check(intent) or "")


def test_no_rule_that_is_asked_before_a_write_is_left_out() -> None:
    asked = {rule.name for rule in RULES if SubmissionPhase.SEND in rule.phases}
    # What a clairvoyant forecaster made is never planned: see test_clairvoyant_forecasts.py.
    assert asked == CHANGES.keys() | {"check_clairvoyance"}
