"""Discovery refuses a question under the name of another venue."""

import pytest

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.questions import QuestionRef
from tests.unit.jobs.conftest import VENUE, JobsFixture, question


async def test_a_question_of_another_venue_is_refused_with_words_and_not_recorded(jobs_fixture: JobsFixture) -> None:
    foreign = question(ref=QuestionRef("torch", "rain"), now=jobs_fixture.clock.now())
    jobs_fixture.venue.add_questions(foreign)
    with pytest.raises(
        MalformedDataError, match=f"the reader of {VENUE} lists torch:rain, a question of another venue"
    ):
        await jobs_fixture.discover()
    with pytest.raises(NotFoundError):
        await jobs_fixture.ledger.questions.get(foreign.ref)
