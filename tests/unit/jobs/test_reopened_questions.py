"""A question whose outcome was taken back is open again: listed so, watched, forecast at once."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.config.schema import Config
from bot.core.errors import RequestRejectedError
from bot.core.outcomes import RESOLUTION_UNDONE, BinaryOutcome, Resolution, VoidOutcome
from bot.core.questions import QuestionRef
from bot.evaluation.question_record import load_question_record
from bot.forecasting.reforecast_policy import reschedule_forecasts
from bot.jobs.operator_requests import record_open_question, require_open_question
from bot.store.ledger import ReadOnlyState
from bot.store.questions import QuestionFilter, QuestionState
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture

RAIN = QuestionRef(VENUE, "rain")


async def forecast_and_resolve(jobs_fixture: JobsFixture) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(days=20_000)
    jobs_fixture.offer("rain", closes_at=closes_at)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    await jobs_fixture.clock.advance(3600)
    now = jobs_fixture.clock.now()
    jobs_fixture.venue.publish_outcomes(
        Resolution(ref=RAIN, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=now)
    )
    await jobs_fixture.resolve()


async def undo(jobs_fixture: JobsFixture) -> None:
    now = jobs_fixture.clock.now()
    jobs_fixture.venue.publish_outcomes(
        Resolution(ref=RAIN, target="outcome", outcome=VoidOutcome(RESOLUTION_UNDONE), resolved_at=now)
    )
    await jobs_fixture.resolve()


async def state(jobs_fixture: JobsFixture) -> QuestionState:
    now = jobs_fixture.clock.now()
    [row] = await jobs_fixture.ledger.questions.rows(QuestionFilter(), now=now)
    for chosen in QuestionState:
        found = await jobs_fixture.ledger.questions.rows(QuestionFilter(state=chosen), now=now)
        assert bool(found) == (chosen is row.state(now))
    return row.state(now)


async def test_it_is_listed_as_open_and_may_be_forecast_again(jobs_fixture: JobsFixture, tmp_path: Path) -> None:
    await forecast_and_resolve(jobs_fixture)
    records = ReadOnlyState(config=Config(), folder=tmp_path, ledger=jobs_fixture.ledger)
    assert await state(jobs_fixture) is (await load_question_record(records, RAIN)).state is QuestionState.RESOLVED
    await jobs_fixture.clock.advance(60)
    await undo(jobs_fixture)
    assert await state(jobs_fixture) is (await load_question_record(records, RAIN)).state is QuestionState.OPEN
    question = await jobs_fixture.ledger.questions.get(RAIN)
    await require_open_question(jobs_fixture.ledger, question, FIRST, now=jobs_fixture.clock.now())
    assert await jobs_fixture.ledger.questions.open_forecast_questions(
        VENUE, now=jobs_fixture.clock.now(), limit=9
    ) == [RAIN]


async def test_it_is_forecast_again_at_once(jobs_fixture: JobsFixture) -> None:
    await forecast_and_resolve(jobs_fixture)
    await jobs_fixture.clock.advance(60)
    await undo(jobs_fixture)
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"
    why = (await jobs_fixture.history())[-1].why
    assert why == "the question changed: its outcome was withdrawn, and it is open again"
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "0 forecasts made"


async def test_while_it_is_resolved_before_its_close_it_is_not_renewed(jobs_fixture: JobsFixture) -> None:
    await forecast_and_resolve(jobs_fixture)
    for _ in range(3):
        await jobs_fixture.clock.advance(timedelta(days=4).total_seconds())
        assert await jobs_fixture.forecast() == "0 forecasts made"
    await undo(jobs_fixture)
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"


async def test_a_restart_does_not_make_it_due_while_it_is_resolved(jobs_fixture: JobsFixture) -> None:
    await forecast_and_resolve(jobs_fixture)
    await jobs_fixture.clock.advance(timedelta(days=4).total_seconds())
    assert await jobs_fixture.forecast() == "0 forecasts made"
    now = jobs_fixture.clock.now()
    await reschedule_forecasts(
        jobs_fixture.ledger, jobs_fixture.policy, repeats=lambda _question, _forecaster: True, now=now
    )
    assert (await jobs_fixture.ledger.schedule.counts(now)).due == 0


async def test_its_next_outcome_is_waited_for_however_late_it_comes(jobs_fixture: JobsFixture) -> None:
    await forecast_and_resolve(jobs_fixture)
    await undo(jobs_fixture)
    await jobs_fixture.clock.advance(timedelta(days=90).total_seconds())
    watched = await jobs_fixture.ledger.questions.awaiting_outcome(
        VENUE, since=jobs_fixture.clock.now() - timedelta(days=30)
    )
    assert watched == [RAIN]


async def test_a_venue_that_shows_it_as_open_takes_its_outcome_back(jobs_fixture: JobsFixture) -> None:
    await forecast_and_resolve(jobs_fixture)
    question, now = await jobs_fixture.ledger.questions.get(RAIN), jobs_fixture.clock.now()
    with pytest.raises(RequestRejectedError, match="has resolved"):
        await require_open_question(jobs_fixture.ledger, question, FIRST, now=now)
    await record_open_question(jobs_fixture.ledger, question, now=now)
    await require_open_question(jobs_fixture.ledger, question, FIRST, now=now)
    assert await state(jobs_fixture) is QuestionState.OPEN
