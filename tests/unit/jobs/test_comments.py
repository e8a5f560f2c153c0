"""Comments beside forecasts that stand: planned once, after the acknowledgement, live alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.beliefs import Belief, Evidence, Step, StepAction, StepObservation
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question, QuestionRef
from bot.core.redaction import register_secrets, temporary_secrets
from bot.core.submissions import ExecutionMode, Intent, IntentAction, IntentState
from bot.jobs.comments import MAX_COMMENTS
from bot.store.cap_usage import CapUsageScope
from bot.testing.forecaster import ScriptedForecaster, believe_yes
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture
from tests.unit.jobs.trading_fixture import TradingFixture


@pytest.fixture
async def trading_fixture(jobs_fixture: JobsFixture) -> TradingFixture:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.bound(ExecutionMode.LIVE)
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, posts_comments=True)
    await trading_fixture.arm()
    return trading_fixture


async def comments(trading_fixture: TradingFixture) -> list[tuple[Intent, IntentState]]:
    found = []
    for row in await trading_fixture.jobs_fixture.ledger.submissions.batches(states=[*IntentState]):
        if row.comments:
            items = await trading_fixture.jobs_fixture.ledger.submissions.comments(row.venue, row.account, row.batch)
            found += [(item.intent, item.state) for item in items]
    return found


async def test_what_stands_is_commented_once_and_alone(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "1 planned, 0 held, 2 acknowledged"
    assert [intent.action for intent in trading_fixture.broker.writes] == [IntentAction.ORDER, IntentAction.COMMENT]
    [(comment, state)] = await comments(trading_fixture)
    assert (state, comment.predictions, comment.order) == (IntentState.ACKED, {}, None)
    assert comment.text.startswith("Forecast 30.0% (revision 1, 1 trial of first")
    for _ in range(3):
        await trading_fixture.jobs_fixture.clock.advance(600)
        await trading_fixture.submit()
    assert len(await comments(trading_fixture)) == 1


@pytest.mark.parametrize("mode", [ExecutionMode.PAPER, ExecutionMode.LIVE])
async def test_nothing_is_said_on_paper_or_unasked(jobs_fixture: JobsFixture, mode: ExecutionMode) -> None:
    trading_fixture = TradingFixture.of(jobs_fixture)
    trading_fixture.bound(mode)
    trading_fixture.execution_policy = replace(
        trading_fixture.execution_policy, posts_comments=mode is ExecutionMode.PAPER
    )
    await trading_fixture.arm()
    await trading_fixture.forecast("rain")
    assert await trading_fixture.submit() == "1 planned, 0 held, 1 acknowledged"
    assert await comments(trading_fixture) == []


async def test_a_forecast_in_doubt_is_not_commented_before_it_is_known_to_stand(
    trading_fixture: TradingFixture,
) -> None:
    trading_fixture.broker.lose_next_reply()
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    assert await comments(trading_fixture) == []
    await trading_fixture.outbox.reconcile()
    assert await trading_fixture.submit() == "0 planned, 0 held, 1 acknowledged"
    assert len(await comments(trading_fixture)) == 1


async def test_while_everything_is_halted_no_comment_is_planned_and_afterwards_one_is(
    trading_fixture: TradingFixture,
) -> None:
    stop = trading_fixture.jobs_fixture.path / "STOP"
    await trading_fixture.forecast("rain")
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, posts_comments=False)
    await trading_fixture.submit()
    stop.write_text("odd\n")
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, posts_comments=True)
    await trading_fixture.submit()
    assert await comments(trading_fixture) == []
    stop.unlink()
    await trading_fixture.submit()
    assert [state for _, state in await comments(trading_fixture)] == [IntentState.ACKED]


async def test_a_question_gets_one_comment_a_day(trading_fixture: TradingFixture) -> None:
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    first = await comments(trading_fixture)
    for later, count in ((timedelta(hours=2), 1), (timedelta(hours=23), 2)):
        await trading_fixture.jobs_fixture.clock.advance(later.total_seconds())
        await trading_fixture.arm()
        trading_fixture.jobs_fixture.forecasters[FIRST] = ScriptedForecaster(
            believe_yes(0.2 + later.total_seconds() / 10**6)
        )
        await trading_fixture.forecast("rain", title=f"Will there be rain after {later}?")
        await trading_fixture.submit()
        assert len(await comments(trading_fixture)) == count, (later, first)


async def test_questions_of_one_event_share_one_comment_where_the_venue_says_so(
    trading_fixture: TradingFixture,
) -> None:
    trading_fixture.by_event = True
    for key, event in (("rain", "m1"), ("snow", "m1"), ("wind", "m2")):
        await trading_fixture.forecast(key, event=event, label=key)
    await trading_fixture.submit()
    assert sorted(one.exposure.event for one, _ in await comments(trading_fixture)) == ["m1", "m2"]
    for _ in range(3):
        await trading_fixture.jobs_fixture.clock.advance(timedelta(hours=25).total_seconds())
        await trading_fixture.arm()
        await trading_fixture.forecast(
            "snow", title=f"Snow at {trading_fixture.jobs_fixture.clock.now()}?", event="m1", label="snow"
        )
        await trading_fixture.submit()
    assert len(await comments(trading_fixture)) == 2


async def test_forecasts_that_may_not_be_commented_do_not_keep_others_waiting(trading_fixture: TradingFixture) -> None:
    trading_fixture.wants.stake, trading_fixture.execution_policy = (
        1.0,
        replace(trading_fixture.execution_policy, posts_comments=False),
    )
    schedule, now = trading_fixture.jobs_fixture.ledger.schedule, trading_fixture.jobs_fixture.clock.now()
    for number in range(MAX_COMMENTS):
        await trading_fixture.forecast(f"rain {number}")
        await trading_fixture.submit()
        ref = QuestionRef(VENUE, f"rain {number}")
        await schedule.lock(ref, forecaster=None, reason="odd", until=None, now=now)
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, posts_comments=True)
    await trading_fixture.forecast("snow")
    await trading_fixture.submit()
    assert [intent.ref.key for intent, _ in await comments(trading_fixture)] == ["snow"]


async def test_what_was_acknowledged_long_ago_is_left_alone(trading_fixture: TradingFixture) -> None:
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, posts_comments=False)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    await trading_fixture.jobs_fixture.clock.advance(25 * 3600)
    await trading_fixture.arm()
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, posts_comments=True)
    await trading_fixture.submit()
    assert await comments(trading_fixture) == []


async def test_secrets_and_markup_of_a_belief_are_not_said(trading_fixture: TradingFixture) -> None:
    reason = Evidence(text="[win](https://evil.example/x) @everyone", source="https://me:pw@host.example/a")

    def move(question: Question) -> Step:
        belief = Belief(
            predictions={target.key: BinaryPrediction(0.3) for target in question.targets},
            anchor="my key is k-secret-123456",
            evidence_for=(reason,),
        )
        return Step(action=StepAction(name="think"), observation=StepObservation(), belief=belief)

    trading_fixture.jobs_fixture.forecasters[FIRST] = ScriptedForecaster(move)
    await trading_fixture.forecast("rain")
    with temporary_secrets():
        register_secrets("k-secret-123456")
        await trading_fixture.submit()
    [(comment, _)] = await comments(trading_fixture)
    assert "Starting point: my key is (secret-left-out)" in comment.text
    assert "For: win (evil.example) everyone (host.example)" in comment.text


async def test_what_a_comment_costs_counts_as_an_order_does_and_passes_no_cap(trading_fixture: TradingFixture) -> None:
    trading_fixture.fee = 1.0
    trading_fixture.bound(ExecutionMode.LIVE, total=12.0)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    [(comment, state)] = await comments(trading_fixture)
    assert (comment.fee, state) == (1.0, IntentState.ACKED)
    counted = CapUsageScope(
        ref=comment.ref, account="me", paper=False, since=trading_fixture.jobs_fixture.clock.now() - timedelta(days=1)
    )
    known = await trading_fixture.jobs_fixture.ledger.permissions.usage(
        counted, now=trading_fixture.jobs_fixture.clock.now()
    )
    # An order of 10, and the fee.
    assert (known.question, known.day, known.total, known.armed) == (11.0, 11.0, 11.0, 11.0)
    trading_fixture.fee = 2.0
    await trading_fixture.forecast("snow")
    await trading_fixture.submit()
    assert [one.ref.key for one, _ in await comments(trading_fixture)] == ["rain"]


async def test_who_is_asked_to_approve_sees_what_would_be_said(trading_fixture: TradingFixture) -> None:
    trading_fixture.execution_policy = replace(trading_fixture.execution_policy, mode=ExecutionMode.APPROVE)
    await trading_fixture.forecast("rain")
    await trading_fixture.submit()
    [asked] = await trading_fixture.jobs_fixture.ledger.permissions.approvals()
    assert asked.shown["comment"].startswith("Forecast 30.0%")
