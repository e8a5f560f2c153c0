"""Comments beside forecasts that stand: planned once, after the acknowledgement, live alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.beliefs import Belief, Evidence, Step, StepAction, StepObservation
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.core.redaction import register_secrets, temporary_secrets
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState
from bot.store.cap_usage import CapUsageScope
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture


@pytest.fixture
async def floor(house: JobsFixture) -> TradingFixture:
    floor = TradingFixture.of(house)
    floor.bound(ExecutionMode.LIVE)
    floor.execution_policy = replace(floor.execution_policy, posts_comments=True)
    await floor.arm()
    return floor


async def comments(floor: TradingFixture) -> list[tuple[Intent, IntentState]]:
    found = []
    for row in await floor.house.ledger.submissions.batches(states=[*IntentState]):
        if row.comments:
            items = await floor.house.ledger.submissions.comments(row.venue, row.account, row.batch)
            found += [(item.intent, item.state) for item in items]
    return found


async def test_what_stands_is_commented_once_and_alone(floor: TradingFixture) -> None:
    await floor.forecast("rain")
    assert await floor.submit() == "1 planned, 0 held, 2 acknowledged"
    assert [intent.action for intent in floor.broker.writes] == [IntentAction.ORDER, IntentAction.COMMENT]
    [(comment, state)] = await comments(floor)
    assert (state, comment.predictions, comment.order) == (IntentState.ACKED, {}, None)
    assert comment.text.startswith("Forecast 30.0% (revision 1, 1 trial of first")
    for _ in range(3):
        await floor.house.clock.advance(600)
        await floor.submit()
    assert len(await comments(floor)) == 1


@pytest.mark.parametrize("mode", [ExecutionMode.PAPER, ExecutionMode.LIVE])
async def test_nothing_is_said_on_paper_or_unasked(house: JobsFixture, mode: ExecutionMode) -> None:
    floor = TradingFixture.of(house)
    floor.bound(mode)
    floor.execution_policy = replace(floor.execution_policy, posts_comments=mode is ExecutionMode.PAPER)
    await floor.arm()
    await floor.forecast("rain")
    assert await floor.submit() == "1 planned, 0 held, 1 acknowledged"
    assert await comments(floor) == []


async def test_a_forecast_in_doubt_is_not_commented_before_it_is_known_to_stand(floor: TradingFixture) -> None:
    floor.broker.lose_next_reply()
    await floor.forecast("rain")
    await floor.submit()
    assert await comments(floor) == []
    await floor.outbox.reconcile()
    assert await floor.submit() == "0 planned, 0 held, 1 acknowledged"
    assert len(await comments(floor)) == 1


async def test_while_everything_is_halted_no_comment_is_planned_and_afterwards_one_is(floor: TradingFixture) -> None:
    stop = floor.house.path / "STOP"
    await floor.forecast("rain")
    floor.execution_policy = replace(floor.execution_policy, posts_comments=False)
    await floor.submit()
    stop.write_text("odd\n")
    floor.execution_policy = replace(floor.execution_policy, posts_comments=True)
    await floor.submit()
    assert await comments(floor) == []
    stop.unlink()
    await floor.submit()
    assert [state for _, state in await comments(floor)] == [IntentState.ACKED]


async def test_a_question_gets_one_comment_a_day(floor: TradingFixture) -> None:
    await floor.forecast("rain")
    await floor.submit()
    first = await comments(floor)
    for later, count in ((timedelta(hours=2), 1), (timedelta(hours=23), 2)):
        await floor.house.clock.advance(later.total_seconds())
        await floor.arm()
        floor.house.forecasters[FIRST] = ScriptedForecaster(believe_yes(0.2 + later.total_seconds() / 10**6))
        await floor.forecast("rain", title=f"Will there be rain after {later}?")
        await floor.submit()
        assert len(await comments(floor)) == count, (later, first)


async def test_questions_of_one_event_share_one_comment_where_the_venue_says_so(floor: TradingFixture) -> None:
    floor.by_event = True
    for key, event in (("rain", "m1"), ("snow", "m1"), ("wind", "m2")):
        await floor.forecast(key, facts={"event": event, "label": key})
    await floor.submit()
    assert sorted(one.exposure.event for one, _ in await comments(floor)) == ["m1", "m2"]
    for _ in range(3):
        await floor.house.clock.advance(timedelta(hours=25).total_seconds())
        await floor.arm()
        await floor.forecast(
            "snow", title=f"Snow at {floor.house.clock.now()}?", facts={"event": "m1", "label": "snow"}
        )
        await floor.submit()
    assert len(await comments(floor)) == 2


async def test_what_was_acknowledged_long_ago_is_left_alone(floor: TradingFixture) -> None:
    floor.execution_policy = replace(floor.execution_policy, posts_comments=False)
    await floor.forecast("rain")
    await floor.submit()
    await floor.house.clock.advance(25 * 3600)
    await floor.arm()
    floor.execution_policy = replace(floor.execution_policy, posts_comments=True)
    await floor.submit()
    assert await comments(floor) == []


async def test_secrets_and_markup_of_a_belief_are_not_said(floor: TradingFixture) -> None:
    reason = Evidence(text="[win](https://evil.example/x) @everyone", source="https://me:pw@host.example/a")

    def move(question: Question) -> Step:
        belief = Belief(
            predictions={target.key: BinaryPrediction(0.3) for target in question.targets},
            anchor="my key is k-secret-123456",
            evidence_for=(reason,),
        )
        return Step(action=StepAction(name="think"), observation=StepObservation(), belief=belief)

    floor.house.forecasters[FIRST] = ScriptedForecaster(move)
    await floor.forecast("rain")
    with temporary_secrets():
        register_secrets("k-secret-123456")
        await floor.submit()
    [(comment, _)] = await comments(floor)
    assert "Starting point: my key is (secret-left-out)" in comment.text
    assert "For: win (evil.example) everyone (host.example)" in comment.text


async def test_what_a_comment_costs_counts_as_an_order_does_and_passes_no_cap(floor: TradingFixture) -> None:
    floor.fee = 1.0
    floor.bound(ExecutionMode.LIVE, total=12.0)
    await floor.forecast("rain")
    await floor.submit()
    [(comment, state)] = await comments(floor)
    assert (comment.fee, state) == (1.0, IntentState.ACKED)
    counted = CapUsageScope(
        ref=comment.ref, account="me", paper=False, since=floor.house.clock.now() - timedelta(days=1)
    )
    known = await floor.house.ledger.permissions.usage(counted, now=floor.house.clock.now())
    # An order of 10, and the fee.
    assert (known.question, known.day, known.total, known.armed) == (11.0, 11.0, 11.0, 11.0)
    floor.fee = 2.0
    await floor.forecast("snow")
    await floor.submit()
    assert [one.ref.key for one, _ in await comments(floor)] == ["rain"]


async def test_who_is_asked_to_approve_sees_what_would_be_said(floor: TradingFixture) -> None:
    floor.execution_policy = replace(floor.execution_policy, mode=ExecutionMode.APPROVE)
    await floor.forecast("rain")
    await floor.submit()
    [asked] = await floor.house.ledger.permissions.approvals()
    assert asked.shown["comment"].startswith("Forecast 30.0%")
