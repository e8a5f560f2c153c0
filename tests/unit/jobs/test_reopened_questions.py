"""A question whose outcome was taken back is open again: listed so, watched, forecast at once."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.config.schema import Config
from bot.core.errors import RequestRejectedError
from bot.core.outcomes import RESOLUTION_UNDONE, BinaryOutcome, Resolution, VoidOutcome
from bot.core.questions import QuestionRef
from bot.evaluation.question_record import load_question_record
from bot.jobs.operator_requests import record_open_question, require_open_question
from bot.store.ledger import ReadOnlyState
from bot.store.questions import QuestionFilter, QuestionState
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture

RAIN = QuestionRef(VENUE, "rain")


async def forecast_and_resolve(house: JobsFixture) -> None:
    closes_at = house.clock.now() + timedelta(days=20_000)
    house.offer("rain", closes_at=closes_at)
    await house.discover()
    await house.forecast()
    await house.clock.advance(3600)
    now = house.clock.now()
    house.venue.publish_outcomes(Resolution(ref=RAIN, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=now))
    await house.resolve()


async def undo(house: JobsFixture) -> None:
    now = house.clock.now()
    house.venue.publish_outcomes(
        Resolution(ref=RAIN, target="outcome", outcome=VoidOutcome(RESOLUTION_UNDONE), resolved_at=now)
    )
    await house.resolve()


async def state(house: JobsFixture) -> QuestionState:
    now = house.clock.now()
    [row] = await house.ledger.questions.rows(QuestionFilter(), now=now)
    for chosen in QuestionState:
        found = await house.ledger.questions.rows(QuestionFilter(state=chosen), now=now)
        assert bool(found) == (chosen is row.state(now))
    return row.state(now)


async def test_it_is_listed_as_open_and_may_be_forecast_again(house: JobsFixture, tmp_path: Path) -> None:
    await forecast_and_resolve(house)
    records = ReadOnlyState(config=Config(), folder=tmp_path, ledger=house.ledger)
    assert await state(house) is (await load_question_record(records, RAIN)).state is QuestionState.RESOLVED
    await house.clock.advance(60)
    await undo(house)
    assert await state(house) is (await load_question_record(records, RAIN)).state is QuestionState.OPEN
    question = await house.ledger.questions.get(RAIN)
    await require_open_question(house.ledger, question, FIRST, now=house.clock.now())
    assert await house.ledger.questions.open_forecast_questions(VENUE, now=house.clock.now(), limit=9) == [RAIN]


async def test_it_is_forecast_again_at_once(house: JobsFixture) -> None:
    await forecast_and_resolve(house)
    await house.clock.advance(60)
    await undo(house)
    await house.discover()
    assert await house.forecast() == "1 forecasts made"
    why = (await house.history())[-1].why
    assert why == "the question changed: its outcome was withdrawn, and it is open again"
    await house.discover()
    assert await house.forecast() == "0 forecasts made"


async def test_its_next_outcome_is_waited_for_however_late_it_comes(house: JobsFixture) -> None:
    await forecast_and_resolve(house)
    await undo(house)
    await house.clock.advance(timedelta(days=90).total_seconds())
    watched = await house.ledger.questions.awaiting_outcome(VENUE, since=house.clock.now() - timedelta(days=30))
    assert watched == [RAIN]


async def test_a_venue_that_shows_it_as_open_takes_its_outcome_back(house: JobsFixture) -> None:
    await forecast_and_resolve(house)
    question, now = await house.ledger.questions.get(RAIN), house.clock.now()
    with pytest.raises(RequestRejectedError, match="has resolved"):
        await require_open_question(house.ledger, question, FIRST, now=now)
    await record_open_question(house.ledger, question, now=now)
    await require_open_question(house.ledger, question, FIRST, now=now)
    assert await state(house) is QuestionState.OPEN
