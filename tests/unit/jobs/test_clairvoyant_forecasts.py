"""What a forecaster said while it was clairvoyant never leaves, whatever config says of it by now."""

import pytest

from bot.core.forecasts import Forecast, ForecasterSetup, TrialLimits
from bot.core.predictions import BinaryPrediction
from bot.core.submissions import ExecutionMode, HoldDecision
from bot.execution.gate.decision_context import DecisionContext, build_intent
from bot.execution.gate.execution_policy import ExecutionPolicy
from bot.execution.gate.gate import PreSendCheck
from bot.store.forecasts import ForecastStart
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture, question


async def made(jobs_fixture: JobsFixture, *, clairvoyant: bool) -> Forecast:
    """Return a forecast of the one that leads, as a command makes it beside the daemon."""
    now = jobs_fixture.clock.now()
    asked = question(now=now)
    await jobs_fixture.ledger.questions.record([asked], seen_at=now)
    setup = ForecasterSetup(settings={}, trials=1, aggregate="mean", limits=TrialLimits(), clairvoyant=clairvoyant)
    opening = ForecastStart(question=asked, forecaster=FIRST, cutoff=now, why="asked for", now=now, setup=setup)
    running = await jobs_fixture.ledger.forecasts.begin(opening)
    said = {"outcome": BinaryPrediction(0.99)}
    forecast = Forecast(
        id=running.id,
        ref=asked.ref,
        version=running.version,
        forecaster=FIRST,
        revision=running.revision,
        cutoff=now,
        made_at=now,
        why="asked for",
        raw=said,
        predictions=said,
    )
    await jobs_fixture.ledger.forecasts.complete(forecast, next_due=None)
    return forecast


async def test_it_is_held_for_good_once_its_forecaster_leads_and_is_clairvoyant_no_more(
    jobs_fixture: JobsFixture,
) -> None:
    forecast = await made(jobs_fixture, clairvoyant=True)
    assert await jobs_fixture.submit() == "0 planned, 1 held, 0 acknowledged"
    [decided] = await jobs_fixture.ledger.submissions.decisions(forecast.id)
    assert isinstance(decided.decision, HoldDecision)
    assert "clairvoyant" in decided.decision.why
    assert decided.decision.until is None
    await jobs_fixture.clock.advance(30 * 86_400.0)
    assert await jobs_fixture.submit() == "0 planned, 0 held, 0 acknowledged"
    assert jobs_fixture.book.writes == []


async def test_the_next_one_which_it_makes_under_guard_leaves(jobs_fixture: JobsFixture) -> None:
    await made(jobs_fixture, clairvoyant=True)
    await jobs_fixture.clock.advance(60.0)
    await made(jobs_fixture, clairvoyant=False)
    assert await jobs_fixture.submit() == "1 planned, 1 held, 1 acknowledged"


@pytest.mark.parametrize("clairvoyant", [True, False])
async def test_what_was_planned_is_looked_at_again_before_it_is_written(
    jobs_fixture: JobsFixture, *, clairvoyant: bool
) -> None:
    forecast = await made(jobs_fixture, clairvoyant=clairvoyant)
    execution_policy = ExecutionPolicy(venue=VENUE, mode=ExecutionMode.PAPER, primary_forecaster=FIRST, account="me")
    now = jobs_fixture.clock.now()
    planned = DecisionContext(
        policy=execution_policy,
        forecast=forecast,
        question=question(now=now),
        current_intent=None,
        lock_reason=None,
        now=now,
    )
    recheck = PreSendCheck(
        ledger=jobs_fixture.ledger,
        policies={VENUE: execution_policy},
        kill_switch=jobs_fixture.kill_switch,
        clock=jobs_fixture.clock,
    )
    why = await recheck(build_intent(planned))
    assert (why is not None and "clairvoyant" in why) == clairvoyant
    assert (why is None) != clairvoyant
