"""A question that its venue no longer lists is forecast only if the venue still has it open."""

from collections.abc import Collection
from datetime import timedelta

import pytest

from bot.core.errors import FoxcastError, NotFoundError, RequestRejectedError, ServiceUnavailableError
from bot.core.questions import Question, QuestionRef
from bot.store.schedule import DueEntry
from bot.testing.venue import FakeVenueReader
from tests.unit.jobs.conftest import FIRST, VENUE, JobsFixture, question

DAY_S = 86_400.0
RAIN, SNOW = QuestionRef(VENUE, "rain"), QuestionRef(VENUE, "snow")


class FindingVenueReader(FakeVenueReader):
    """Implements QuestionReader; ``names`` are those that were looked up, ``answers`` what they have."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.answers: dict[str, Question | FoxcastError] = {}

    async def find_question(self, name: str) -> Question:
        self.names.append(name)
        answer = self.answers.get(name, NotFoundError(f"there is no {name}"))
        if isinstance(answer, FoxcastError):
            raise answer
        return answer


@pytest.fixture
def finder(jobs_fixture: JobsFixture) -> FindingVenueReader:
    jobs_fixture.venue = finder = FindingVenueReader()
    return finder


async def forecast_and_age(jobs_fixture: JobsFixture, *unlisted: QuestionRef) -> None:
    """Forecast rain, stop listing some questions, and wait until its forecast is stale."""
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"
    jobs_fixture.venue.remove_questions(*unlisted)
    await jobs_fixture.clock.advance(3 * DAY_S)
    await jobs_fixture.discover()


@pytest.mark.parametrize("answer", [RequestRejectedError("it is closed"), NotFoundError("it is gone")])
async def test_a_forecast_of_a_question_that_closed_early_is_not_renewed(
    jobs_fixture: JobsFixture, finder: FindingVenueReader, answer: FoxcastError
) -> None:
    finder.answers["rain"] = answer
    await forecast_and_age(jobs_fixture, RAIN)
    for _ in range(14):
        await jobs_fixture.forecast()
        await jobs_fixture.clock.advance(DAY_S / 2)
        await jobs_fixture.discover()
    assert [forecast.why for forecast in await jobs_fixture.history()] == ["new question"]
    # It closes on schedule after ten days: from then on nobody asks.
    asked = len(finder.names)
    await jobs_fixture.clock.advance(DAY_S)
    assert await jobs_fixture.forecast() == "0 forecasts made"
    assert len(finder.names) == asked


async def test_once_it_is_listed_again_its_forecast_is_renewed(
    jobs_fixture: JobsFixture, finder: FindingVenueReader
) -> None:
    finder.answers["rain"] = RequestRejectedError("it is closed")
    closes_at = jobs_fixture.clock.now() + timedelta(days=10)
    await forecast_and_age(jobs_fixture, RAIN)
    assert await jobs_fixture.forecast() == "0 forecasts made, 1 postponed"
    jobs_fixture.offer("rain", closes_at=closes_at)
    await jobs_fixture.discover()
    await jobs_fixture.clock.advance(300.0)
    assert await jobs_fixture.forecast() == "1 forecasts made"


async def test_a_question_that_only_left_the_list_is_renewed_as_it_is_now(
    jobs_fixture: JobsFixture, finder: FindingVenueReader
) -> None:
    closes_at = jobs_fixture.clock.now() + timedelta(days=10)
    finder.answers["rain"] = question(now=jobs_fixture.clock.now(), closes_at=closes_at, criteria="At least 1 mm.")
    await forecast_and_age(jobs_fixture, RAIN)
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert (await jobs_fixture.ledger.questions.get(RAIN)).criteria == "At least 1 mm."


async def test_another_question_that_is_found_by_its_name_is_not_forecast(
    jobs_fixture: JobsFixture, finder: FindingVenueReader
) -> None:
    finder.answers["rain"] = question("snow", now=jobs_fixture.clock.now())
    await forecast_and_age(jobs_fixture, RAIN)
    assert await jobs_fixture.forecast() == "0 forecasts made, 1 postponed"


async def test_a_new_question_that_closed_before_its_turn_is_not_forecast(
    jobs_fixture: JobsFixture, finder: FindingVenueReader
) -> None:
    finder.answers["rain"] = RequestRejectedError("it is closed")
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    jobs_fixture.venue.remove_questions(RAIN)
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "0 forecasts made, 1 postponed"
    assert await jobs_fixture.history() == []


async def test_a_question_that_has_closed_on_schedule_too_is_looked_up_once(
    jobs_fixture: JobsFixture, finder: FindingVenueReader
) -> None:
    finder.answers["rain"] = RequestRejectedError("it is closed")
    jobs_fixture.offer("rain", closes_at=jobs_fixture.clock.now() + timedelta(hours=1))
    await jobs_fixture.discover()
    jobs_fixture.venue.remove_questions(RAIN)
    for _ in range(3):
        await jobs_fixture.clock.advance(DAY_S)
        await jobs_fixture.discover()
        await jobs_fixture.forecast()
    assert finder.names == ["rain"]
    # Its venue gives it more time: it is new to the forecaster.
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"


@pytest.mark.parametrize("lists", [(), (RAIN,)])
async def test_what_was_listed_is_not_looked_up_and_an_unfinished_list_unlists_nothing(
    jobs_fixture: JobsFixture, finder: FindingVenueReader, lists: Collection[QuestionRef]
) -> None:
    await forecast_and_age(jobs_fixture)
    jobs_fixture.venue.fail_with(ServiceUnavailableError("down"), after=len(lists))
    with pytest.raises(ServiceUnavailableError):
        await jobs_fixture.discover()
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert finder.names == []


async def test_what_a_person_asked_for_is_forecast_without_the_venue(
    jobs_fixture: JobsFixture, finder: FindingVenueReader
) -> None:
    await forecast_and_age(jobs_fixture, RAIN)
    now, [made] = jobs_fixture.clock.now(), await jobs_fixture.history()
    due = DueEntry(
        ref=RAIN, forecaster=FIRST, due_at=now - timedelta(days=1), why="asked for", answered_at=made.made_at
    )
    await jobs_fixture.ledger.schedule.plan([due])
    assert await jobs_fixture.forecast() == "1 forecasts made"
    assert finder.names == []
