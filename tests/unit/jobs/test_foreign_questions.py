"""A question under the name of another venue is refused, and so is its outcome."""

from collections.abc import AsyncIterator, Collection, Sequence

import pytest

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.questions import QuestionRef
from bot.testing.venue import FakeVenueReader
from tests.unit.jobs.conftest import VENUE, JobsFixture, question


class OutcomeReader(FakeVenueReader):
    """Answers with all outcomes that it was given, whatever is asked."""

    def __init__(self, outcomes: Sequence[Resolution]) -> None:
        super().__init__()
        self.outcomes = outcomes

    async def resolutions(self, pending: Collection[QuestionRef]) -> AsyncIterator[Resolution]:
        del pending
        for one in self.outcomes:
            yield one


async def test_a_question_of_another_venue_is_refused_with_words_and_not_recorded(jobs_fixture: JobsFixture) -> None:
    foreign = question(ref=QuestionRef("torch", "rain"), now=jobs_fixture.clock.now())
    jobs_fixture.venue.add_questions(foreign)
    with pytest.raises(
        MalformedDataError, match=f"the reader of {VENUE} names torch:rain, a question of another venue"
    ):
        await jobs_fixture.discover()
    with pytest.raises(NotFoundError):
        await jobs_fixture.ledger.questions.get(foreign.ref)


async def test_an_outcome_of_another_venue_is_refused_and_not_recorded(jobs_fixture: JobsFixture) -> None:
    now = jobs_fixture.clock.now()
    foreign, own = question(ref=QuestionRef("torch", "rain"), now=now), question("snow", now=now)
    await jobs_fixture.ledger.questions.record([foreign], seen_at=now)
    jobs_fixture.venue.add_questions(own)
    await jobs_fixture.discover()
    await jobs_fixture.forecast()
    jobs_fixture.reader = OutcomeReader(
        [
            Resolution(ref=ref, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=now)
            for ref in (own.ref, foreign.ref)
        ]
    )
    with pytest.raises(
        MalformedDataError, match=f"the reader of {VENUE} names torch:rain, a question of another venue"
    ):
        await jobs_fixture.resolve()
    rows = await jobs_fixture.ledger.questions.readers.run(
        lambda database: database.execute("select ref from current_resolution").fetchall()
    )
    assert rows == [(str(own.ref),)]
